"""`learn_bridge`: from files of vectors by two embedding models to a bridge between them."""

from __future__ import annotations

import numpy as np

from nearfar.bridge import Bridge
from nearfar.retrieval.search_input import read_vectors
from nearfar.runtime.notes import note
from nearfar.tables.errors import TableError

# Below this recall, a search by the bridge is not what the old model found.
_LITTLE = 0.5


def learn_bridge(
    new: object,
    old: object,
    index: object = None,
    *,
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
    tables = [read_vectors(each, "document", ids=ids, vector=vector) for each in (new, old)]
    X, Y = (table.vectors for table in tables)
    searched = Y
    known, others = (table.ids for table in tables)
    if known is not None and others is not None:
        rows = {name: row for row, name in enumerate(others)}
        both = [row for row, name in enumerate(known) if name in rows]
        if len(both) < len(known):
            note(f"{len(both)} of {len(known)} new vectors have an old one of the same id.")
        X, Y = X[both], Y[[rows[known[row]] for row in both]]
    elif len(X) != len(Y):
        raise TableError(
            f"{tables[0].source} has {len(X)} rows and {tables[1].source} {len(Y)}; give vectors "
            "of the same items, or ids in both files."
        )
    if index is not None:
        searched = read_vectors(index, "document", ids=ids, vector=vector).vectors
    elif len(searched) == len(X):
        note(
            "the recall is for an index of these items alone; give all old vectors as index if "
            "there are more."
        )
    bridge = Bridge(random_state=random_state).fit(np.asarray(X), np.asarray(Y), searched)
    if bridge.recall_.high < _LITTLE:
        note(
            "less than half of the neighbours are found; embed more items with both models, or all "
            "with the new one.",
            warning=True,
        )
    return bridge
