"""Input of a fit that is not in memory: which learners accept it, and what is checked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_consistent_length, column_or_1d

from nearfar.constraints import Chunklets, ConstraintsOver, Pairs, Triplets
from nearfar.rows import Moments, Points, Rows, as_rows
from nearfar.runtime.executors import chosen_executor

if TYPE_CHECKING:
    from nearfar.learners.base import MetricLearner

_KINDS = {Triplets: "triplets", Pairs: "pairs", Chunklets: "chunklets"}
_WHO_CAN = (
    "BoostMetric, MaxMarginMetric (pairs), NCA and SparseNCA (labels, with batch_size), "
    "RCA, DCA, KISSME, XQDA, GMML, PLDA and InverseCovariance"
)


def input_rows(learner: MetricLearner, X: Any, y: Any) -> Rows | None:
    """Return X as checked rows that are read in blocks; None if it is an array in memory.

    A memory-mapped array is read whole for learners that do not accept rows.
    """
    rows = as_rows(X)
    accepted = learner._reads_rows(_kind(y))
    if rows is None or (isinstance(X, np.memmap) and not accepted):
        if chosen_executor() is not None:
            raise ValueError(
                "An executor needs rows that its workers can read; save X with np.save and pass "
                "the path, or pass a Dask array."
            )
        return None
    if not accepted:
        raise ValueError(
            f"{type(learner).__name__} does not learn from {_kind(y)} over rows that are not in "
            f"memory; load them, or use one that does: {_WHO_CAN}."
        )
    if min(rows.shape) == 0:
        raise ValueError(f"X needs at least one row and one column; its shape is {rows.shape}.")
    if not Moments.of(rows).finite:
        raise ValueError("X contains NaN or infinite values.")
    learner.n_features_in_ = rows.shape[1]
    if rows.feature_names is not None:
        learner.feature_names_in_ = np.asarray(rows.feature_names, dtype=object)
    elif hasattr(learner, "feature_names_in_"):
        del learner.feature_names_in_
    return rows


def check_in_memory(X: Points) -> None:
    """Raise ValueError for rows that are not in memory."""
    if isinstance(X, Rows):
        raise ValueError(
            "score, partial_fit and estimate need rows in memory; pass a sample or a part of them."
        )


def labels_of(rows: Rows, y: Any) -> NDArray[Any]:
    """Return labels as an array with one for each row."""
    if y is None:
        raise ValueError("The learner needs labels or constraints; y is None.")
    labels = column_or_1d(np.asarray(y))
    check_consistent_length(rows, labels)
    return np.asarray(labels)


def ignores_rows(strategy: Any) -> bool:
    """Return whether a strategy makes constraints from labels alone."""
    return bool(getattr(strategy, "ignores_rows", False))


def mines_in_blocks(strategy: Any) -> bool:
    """Return whether a strategy reads rows in blocks; None is `NearestTriplets()`, which does."""
    return strategy is None or bool(getattr(strategy, "reads_rows", False))


def _kind(y: Any) -> str:
    """Return the kind of supervision, as `MetricLearner.supervision` names it."""
    constraints = y.constraints if isinstance(y, ConstraintsOver) else y
    return _KINDS.get(type(constraints), "labels")
