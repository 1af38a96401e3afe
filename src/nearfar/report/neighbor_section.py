"""The section of neighbours: queries with their nearest rows, before and after."""

from __future__ import annotations

import base64
import io

import numpy as np

from nearfar.neighbors import kneighbors
from nearfar.report.blocks import Neighbor, Queries, Query, Section, Text
from nearfar.report.study import Study

# As many as are on a screen, with both metrics beside each other.
_N_QUERIES = 4
_N_NEIGHBORS = 5


def neighbors_section(study: Study) -> Section:
    """Return the queries whose neighbours change most."""
    train, labels = study.split[0], study.labels
    n_neighbors = min(_N_NEIGHBORS, len(train) - 1)
    which = "Rows" if study.relearn is None or study.targets is None else "Held-out rows"
    marks = "" if labels is None else " A cross marks neighbours of another class."
    text = f"{which} whose neighbours change most, for better or worse.{marks}"
    low, high = float(study.X.min()), float(study.X.max())

    def picture(row: int) -> str:
        """Return the data address of an image with values from 0 to 1; empty if it is none."""
        if study.image_shape is None:
            return ""
        from matplotlib.image import imsave

        values = (np.asarray(study.X[row], dtype=np.float64) - low) / ((high - low) or 1.0)
        image, buffer = values.reshape(study.image_shape), io.BytesIO()
        imsave(buffer, image, cmap="gray", vmin=0.0, vmax=1.0, format="png")
        return f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"

    queries = []
    for row in study.most_changed(_N_QUERIES, n_neighbors):
        neighbors = {}
        for name, metric in study.metrics.items():
            nearest = kneighbors(metric, study.X[train], study.X[[row]], n_neighbors=n_neighbors)
            others = train[nearest[1][0]].tolist()
            neighbors[name] = [
                Neighbor(
                    # Below a picture, the class says enough.
                    study.row_title(other)
                    if study.image_shape is None or labels is None
                    else str(labels[other]),
                    picture(other),
                    None if labels is None else bool(labels[other] == labels[row]),
                )
                for other in others
            ]
        queries.append(Query(study.row_title(row), neighbors, picture(row)))
    return Section("Neighbours before and after", "neighbours", [Text([text]), Queries(queries)])
