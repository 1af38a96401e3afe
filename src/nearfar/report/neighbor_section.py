"""The section of neighbours: queries with their nearest rows, before and after."""

from __future__ import annotations

from functools import cache

from nearfar.neighbors import kneighbors
from nearfar.report.blocks import Neighbor, Queries, Query, Section, Text
from nearfar.report.study import Study
from nearfar.report.thumbnails import pixels, thumbnail

# As many as are on a screen, with both metrics beside each other.
N_QUERIES = 4
N_NEIGHBORS = 5


def neighbors_section(study: Study) -> Section:
    """Return the queries whose neighbours change most."""
    train = study.split[0]
    n_neighbors = min(N_NEIGHBORS, len(train) - 1)
    which = "Rows" if study.relearn is None or study.targets is None else "Held-out rows"
    marks = "" if study.labels is None else " A cross marks neighbours of another class."
    text = f"{which} whose neighbours change most, for better or worse.{marks}"
    low, high = float(study.X.min()), float(study.X.max())

    @cache
    def picture(row: int) -> str:
        """Return the data address of an image; empty if there is none."""
        if study.pictures is not None:
            return thumbnail(study.pictures[row])
        if study.image_shape is not None:
            return pixels((study.X[row] - low) / ((high - low) or 1.0), study.image_shape)
        return ""

    def neighbor(row: int, query: int) -> Neighbor:
        image = picture(row)
        if study.labels is None:
            return Neighbor(study.row_title(row), image)
        # Below a picture, the class says enough.
        text = str(study.labels[row]) if image else study.row_title(row)
        return Neighbor(text, image, bool(study.labels[row] == study.labels[query]))

    queries = []
    for row in study.most_changed(N_QUERIES, n_neighbors):
        neighbors = {}
        for name, metric in study.metrics.items():
            nearest = kneighbors(metric, study.X[train], study.X[[row]], n_neighbors=n_neighbors)
            neighbors[name] = [neighbor(other, row) for other in train[nearest[1][0]].tolist()]
        queries.append(Query(study.row_title(row), neighbors, picture(row)))
    return Section("Neighbours before and after", "neighbours", [Text([text]), Queries(queries)])
