"""`learn_bridge`: from files of vectors by two embedding models to a bridge between them."""

from __future__ import annotations

from nearfar.bridge import Bridge
from nearfar.retrieval.search_input import Kind, read_vectors
from nearfar.runtime.notes import note
from nearfar.runtime.option_names import option
from nearfar.tables.errors import TableError
from nearfar.typing import Array

# Below this recall, a search by the bridge is not what the old model found.
_LITTLE = 0.5


def learn_bridge(
    new: object,
    old: object,
    index: object = None,
    *,
    queries: tuple[object, object] | None = None,
    ids: str | None = None,
    vector: str | None = None,
    random_state: int = 0,
) -> Bridge:
    """Learn a map from the vectors of a new model to those of an old one, from files or tables.

    Parameters
    ----------
    new, old : path, DataFrame or array
        Vectors of the same items by the new and by the old model. If both have ids, items are
        matched by them; otherwise rows must be in the same order.
    index : path, DataFrame or array, optional
        All old vectors that will be searched, for the recall in an index of that size. By default
        the old vectors, also those of items that have no new one.
    queries : pair of path, DataFrame or array, optional
        Vectors of queries by the new and by the old model: they correct the map, choose its form
        and have a recall of their own.
    ids, vector : str, optional
        Columns of ids and vectors.
    random_state : int, default=0
        Chooses the items that are held out.

    Returns
    -------
    Bridge

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.workflow.bridging import learn_bridge
    >>> old = np.random.default_rng(0).standard_normal((200, 4))
    >>> learn_bridge(old[:, ::-1] + 1, old, old).form_
    'orthogonal'
    """
    X, Y, searched = _matched(new, old, "document", ids, vector)
    asked = None if queries is None else _matched(*queries, "query", ids, vector)[:2]
    if index is not None:
        searched = read_vectors(index, "document", ids=ids, vector=vector).vectors
    elif len(searched) == len(X):
        note(
            "the recall is for an index of these items alone; give all old vectors as index if "
            "there are more."
        )
    bridge = Bridge(random_state=random_state).fit(X, Y, searched, queries=asked)
    if (bridge.query_recall_ or bridge.recall_).high < _LITTLE:
        more = "items" if bridge.query_recall_ is None else "queries"
        note(
            f"less than half of the neighbours are found; embed more {more} with both models, or "
            "all documents with the new one.",
            warning=True,
        )
    return bridge


def bridge_text(bridge: Bridge) -> str:
    """Return what a bridge keeps, of items and of queries, as sentences."""
    if bridge.query_recall_ is not None:
        return f"{bridge.query_recall_}\n{bridge.recall_}"
    return (
        f"{bridge.recall_}\nQueries were not measured: embed some hundred of them with both "
        f"models, and give them as {option('queries')}."
    )


def _matched(
    new: object, old: object, kind: Kind, ids: str | None, vector: str | None
) -> tuple[Array, Array, Array]:
    """Return vectors of the same items by both models, and all old ones."""
    tables = [read_vectors(each, kind, ids=ids, vector=vector) for each in (new, old)]
    X, Y = (table.vectors for table in tables)
    known, others = (table.ids for table in tables)
    if known is None or others is None:
        if len(X) != len(Y):
            raise TableError(
                f"{tables[0].source} has {len(X)} rows and {tables[1].source} {len(Y)}; give "
                "vectors of the same items, or ids in both files."
            )
        return X, Y, Y
    rows = {name: row for row, name in enumerate(others)}
    both = [row for row, name in enumerate(known) if name in rows]
    if not both:
        raise TableError(
            f"No id of {tables[0].source} is in {tables[1].source} (such as {known[0]} and "
            f"{others[0]}): name the column of ids of both with {option('id')}."
        )
    if len(both) < len(known):
        note(f"{len(both)} of {len(known)} new vectors have an old one of the same id.")
    return X[both], Y[[rows[known[row]] for row in both]], Y
