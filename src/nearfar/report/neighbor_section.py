"""The section of neighbours: queries with their nearest rows, before and after."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable

import numpy as np

from nearfar.metrics.metric import Metric
from nearfar.neighbors import kneighbors
from nearfar.report.blocks import Neighbor, Queries, Query, Section, Text
from nearfar.report.study import Study
from nearfar.typing import Floats

_N_QUERIES = 4
_N_NEIGHBORS = 5


def neighbors_section(study: Study) -> Section:
    """Return the queries whose neighbours change most."""
    n_neighbors = min(_N_NEIGHBORS, len(study.split[0]) - 1)
    held_out = study.relearn is not None and study.labels is not None
    which = "Held-out rows" if held_out else "Rows"
    marks = " A cross marks neighbours of another class." if study.labels is not None else ""
    text = f"{which} whose neighbours change most, for better or worse.{marks}"
    picture = _pictures(study)
    queries = [
        Query(
            study.row_title(row),
            {
                name: _neighbors(study, metric, row, n_neighbors, picture)
                for name, metric in study.metrics.items()
            },
            picture(row),
        )
        for row in study.most_changed(_N_QUERIES, n_neighbors)
    ]
    return Section("Neighbours before and after", "neighbours", [Text([text]), Queries(queries)])


def _neighbors(
    study: Study, metric: Metric, row: int, n_neighbors: int, picture: Callable[[int], str]
) -> list[Neighbor]:
    train, _ = study.split
    found = kneighbors(metric, study.X[train], study.X[[row]], n_neighbors=n_neighbors)[1][0]
    return [
        Neighbor(
            study.row_title(int(other)) if study.image_shape is None else _class_name(study, other),
            picture(int(other)),
            None if study.labels is None else bool(study.labels[other] == study.labels[row]),
        )
        for other in train[found]
    ]


def _class_name(study: Study, row: int) -> str:
    """Return what to write below a picture: its class, or what names the row."""
    return study.row_title(row) if study.labels is None else str(study.labels[row])


def _pictures(study: Study) -> Callable[[int], str]:
    """Return a function from rows to addresses of their images; empty if they are not images."""
    shape = study.image_shape
    low, high = float(study.X.min()), float(study.X.max())

    def address(row: int) -> str:
        if shape is None:
            return ""
        values = (np.asarray(study.X[row], dtype=np.float64) - low) / ((high - low) or 1.0)
        return _png(values.reshape(shape))

    return address


def _png(image: Floats) -> str:
    """Return an image with values from 0 to 1 as a data address."""
    from matplotlib.image import imsave

    buffer = io.BytesIO()
    imsave(buffer, image, cmap="gray", vmin=0.0, vmax=1.0, format="png")
    return f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"
