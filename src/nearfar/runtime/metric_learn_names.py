"""Names that users of metric-learn type, and how they are spelled here.

Where a name, a method or a parameter is missing, the usual error ends with the sentence of this
table. Nothing is defined by it: `hasattr` is False, and `get_params` does not change.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Collection, Iterable
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])

_PAIRS = "ITML learns from the same pairs."
_TRIPLETS = "BoostMetric learns a sum of rank-one terms from the same triplets."
_THRESHOLD = (
    "PairVerifier(metric={metric}).fit(X, pairs) chooses a threshold for the distance of pairs, "
    "and predicts."
)
_DISTANCES = "Distances are {metric}.pair_distances(X, index), with row numbers of X."
_STRATEGY = (
    "constraints=RandomPairs(m), or RandomTriplets(m) if it learns from triplets, says what is "
    "drawn from labels."
)
_CHUNKS = "Labels give whole classes; chunks are Chunklets(ids), passed as y."
_SOLVER = "The solver needs no step size; max_iter and tol say when it ends."
_CRITERION = (
    'It is criterion: "accuracy"; "fbeta" for "f_beta"; "fpr" for "max_tpr", where max_fpr is '
    '1 - min_rate; "tpr" for "max_tnr", where min_tpr is min_rate.'
)
_TOLERANCE = "It is tol, a relative one."

CLASSES = {
    "Covariance": "It is InverseCovariance.",
    "ITML_Supervised": "ITML().fit(X, y) takes labels as well as Pairs.",
    "LSML_Supervised": "LSML().fit(X, y) takes labels as well as Triplets.",
    "MMC_Supervised": "MMC().fit(X, y) takes labels as well as Pairs.",
    "RCA_Supervised": "RCA().fit(X, y) takes labels as well as Chunklets.",
    "SDML": _PAIRS,
    "SDML_Supervised": _PAIRS,
    "SCML": _TRIPLETS,
    "SCML_Supervised": _TRIPLETS,
    "Constraints": "RandomPairs(), NearestTriplets() and so on make constraints from labels.",
}
"""Names of the package."""

METHODS = {
    "get_mahalanobis_matrix": "The matrix is {metric}.matrix.",
    "pair_distance": _DISTANCES,
    "score_pairs": _DISTANCES,
    "pair_score": "Scores are -{metric}.pair_distances(X, index), with row numbers of X.",
    "calibrate_threshold": _THRESHOLD,
    "set_threshold": f"{_THRESHOLD} Then set its threshold_.",
    "threshold_": _THRESHOLD,
    "predict": (
        "MetricNeighborsClassifier predicts labels, PairVerifier(metric={metric}) pairs, and "
        "{metric}.prefers(X, triplets) triplets."
    ),
    "decision_function": (
        "PairVerifier(metric={metric}) has one for pairs; for triplets, take the difference of two "
        "{metric}.pair_distances(X, index)."
    ),
    "preprocessor_": "Constraints are row numbers of X; there is no preprocessor.",
    "kneighbors": (
        "nearfar.neighbors.kneighbors({metric}, X, queries) returns distances and row numbers of "
        "the nearest rows of X."
    ),
    "A_": "The matrix is {metric}.matrix.",
    "converged_": "history_.stopped says why the solver ended.",
}
"""Methods and attributes of learners and metrics."""

FIT_PARAMETERS = {
    "bounds": (
        "It is a parameter of the constructor, ITML(bounds=(near, far)), in distances, not squared "
        "ones."
    ),
    "calibration_params": _THRESHOLD.format(metric="learner.metric_"),
    "weights": "Triplets(index, weight) and Pairs(index, similar, weight) have weights.",
}
"""Parameters of `fit`."""

PARAMETERS = {
    "preprocessor": (
        "",
        "Constraints are row numbers of X: fit(X, Pairs(index, similar)), or Triplets(index).",
    ),
    "k": ("n_neighbors", "It is n_neighbors."),
    "regularization": ("push", "The weight of impostors is push, which is 1 - regularization."),
    "learn_rate": ("max_iter", _SOLVER),
    "min_iter": ("max_iter", _SOLVER),
    "convergence_tol": ("tol", _TOLERANCE),
    "convergence_threshold": ("tol", _TOLERANCE),
    "embedding_type": ("embedding", "It is embedding, with the same values."),
    "n_constraints": ("constraints", _STRATEGY),
    "num_constraints": ("constraints", _STRATEGY),
    "weights": ("constraints", "Triplets(index, weight) has weights."),
    "n_chunks": ("", _CHUNKS),
    "num_chunks": ("", _CHUNKS),
    "chunk_size": ("", _CHUNKS),
    "max_proj": ("max_iter", "The solver has no projections; max_iter and tol say when it ends."),
    "diagonal_c": ("diagonal", "It would only change the length of the metric."),
    "init": ("prior", "The problem is convex: any start gives the same metric. See prior."),
    "num_dims": ("n_components", "It is n_components."),
    "strategy": ("criterion", _CRITERION),
    "min_rate": ("criterion", _CRITERION),
    "random_state": ("", "Nothing is drawn at random."),
}
"""By name: the parameter that a learner must have for the sentence to apply ("" for any learner),
and the sentence."""


def missing_parameter(owner: object, names: Iterable[str], known: Collection[str]) -> str:
    """Return what to write in place of parameters that only metric-learn has, or "".

    Parameters
    ----------
    owner : object
        What is constructed.
    names : iterable of str
        Parameters that a user passes.
    known : collection of str
        Parameters that the class has.

    Examples
    --------
    >>> from nearfar import LMNN
    >>> from nearfar.runtime.metric_learn_names import missing_parameter
    >>> missing_parameter(LMNN(), ["max_iter", "k"], ["max_iter", "n_neighbors"])
    "LMNN has no parameter 'k'. It is n_neighbors."
    >>> missing_parameter(LMNN(), ["max_iter", "k"], ["max_iter"])
    ''
    """
    told = []
    for name in names:
        ours, sentence = PARAMETERS.get(name, (name, ""))
        if sentence and name not in known and (not ours or ours in known):
            told.append(f"{type(owner).__name__} has no parameter {name!r}. {sentence}")
    return " ".join(told)


def with_hints(construct: F, known: Collection[str] | None = None) -> F:
    """Let the error of a constructor say what parameters of metric-learn are called here.

    `known` are the parameters that there are, by default those of its signature.
    """
    names = list(inspect.signature(construct).parameters) if known is None else known

    @wraps(construct)
    def constructor(self: object, *args: object, **parameters: object) -> None:
        try:
            construct(self, *args, **parameters)
        except TypeError:
            hint = missing_parameter(self, parameters, names)
            if hint:
                raise TypeError(hint) from None
            raise

    return cast(F, constructor)


def unknown_fit_parameter(owner: object, name: str) -> TypeError:
    """Return the error for a parameter that `fit` does not have."""
    kind = type(owner).__name__
    if name in FIT_PARAMETERS:
        return TypeError(f"{kind}.fit has no parameter {name!r}. {FIT_PARAMETERS[name]}")
    return TypeError(f"{kind}.fit() got an unexpected keyword argument {name!r}")


def missing_attribute(owner: object, name: str) -> AttributeError:
    """Return the error for a method or an attribute that only metric-learn has."""
    kind = type(owner)
    metric = "learner.metric_" if hasattr(kind, "fit") else "metric"
    return AttributeError(
        f"{kind.__name__!r} object has no attribute {name!r}. "
        + METHODS[name].format(metric=metric)
    )


class MetricLearnNames:
    """Mixin that says what methods and attributes of metric-learn are called here."""

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            if name in METHODS:
                raise missing_attribute(self, name)
            # The attribute's own error, which may say more than that there is none.
            return object.__getattribute__(self, name)


def missing_name(module: str, name: str) -> Exception:
    """Return the error for a name that a module does not have.

    A statement ``from module import name`` hides the text of an AttributeError, so the error in it
    is an ImportError.
    """
    message = f"module {module!r} has no attribute {name!r}"
    if name not in CLASSES:
        return AttributeError(message)
    # The statement's machinery calls the module's `__getattr__`, which calls this function.
    if sys._getframe(2).f_globals.get("__name__") == "importlib._bootstrap":
        return ImportError(f"cannot import name {name!r} from {module!r}. {CLASSES[name]}")
    return AttributeError(f"{message}. {CLASSES[name]}")
