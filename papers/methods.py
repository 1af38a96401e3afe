"""The methods of the papers' tables, by name: each learns a distance, and predicts or orders.

A method is a function of training rows and labels, of parameters and of the number of the run. It
returns something with `predict(X, k)`: the labels of new rows.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from textwrap import dedent
from typing import Any, Protocol

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import additive_chi2_kernel, manhattan_distances
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC

import nearfar
from nearfar import Metric, Pairs, RandomPairs
from nearfar.metrics.threshold_votes import triplet_scores
from papers.task import Array


class Model(Protocol):
    """A fitted method."""

    def predict(self, X: Array, k: int) -> Array:
        """Return the labels of new rows."""


@dataclass(frozen=True)
class Fitted:
    """What a fit leaves.

    Attributes
    ----------
    model : Model
    iterations : int
    stopped : str
        Why the fit ended.
    """

    model: Any
    iterations: int = 0
    stopped: str = ""


@dataclass(frozen=True)
class Neighbors:
    """Nearest neighbours under a metric, or under a form that is none."""

    metric: Any
    X: Array
    y: Array

    def predict(self, X: Array, k: int) -> Array:
        """Vote of the nearest training rows."""
        if hasattr(self.metric, "transform") and len(getattr(self.metric, "parts", [0])) == 1:
            classifier = KNeighborsClassifier(k).fit(self.metric.transform(self.X), self.y)
            return np.asarray(classifier.predict(self.metric.transform(X)))
        if hasattr(self.metric, "transform"):
            return self._by_gate(X, k)
        M = self.metric.matrix
        values = np.einsum("ij,jk,ik->i", self.X, M, self.X) - 2 * X @ M @ self.X.T
        return vote(values, self.y, k)

    def _by_gate(self, X: Array, k: int) -> Array:
        out = np.empty(len(X), dtype=self.y.dtype)
        for rows, part in self.metric.spaces(X):
            classifier = KNeighborsClassifier(k).fit(part.transform(self.X), self.y)
            out[rows] = classifier.predict(part.transform(X[rows]))
        return out

    def triplet_accuracy(self, X: Array, y: Array) -> float:
        """Share of all triplets of labelled rows in the right order; ties count half."""
        D = self.metric.distances(X) ** 2 if isinstance(self.metric, Metric) else self._form(X)
        right = total = 0.0
        for anchor in range(len(X)):
            near, far = y == y[anchor], y != y[anchor]
            near[anchor] = False
            scores = triplet_scores(np.subtract.outer(D[anchor, far], D[anchor, near]).ravel())
            right, total = right + float(scores.sum()), total + scores.size
        return right / total

    def _form(self, X: Array) -> Array:
        Y = X @ self.metric.matrix
        own = np.einsum("ij,ij->i", X, Y)
        return np.asarray(own[:, None] + own - 2 * Y @ X.T)


@dataclass(frozen=True)
class Distance:
    """Nearest neighbours under a function that gives a table of distances."""

    distances: Callable[[Array, Array], Array]
    X: Array
    y: Array

    def predict(self, X: Array, k: int) -> Array:
        """Vote of the nearest training rows."""
        parts = np.array_split(X, -(-len(X) // 500))
        return np.concatenate([vote(self.distances(part, self.X), self.y, k) for part in parts])


def vote(distances: Array, y: Array, k: int) -> Array:
    """Return the commonest label of the k nearest rows; of equally common ones the smallest."""
    nearest = np.argsort(distances, axis=1, kind="stable")[:, :k]
    return np.array([np.bincount(labels).argmax() for labels in y[nearest]])


@dataclass(frozen=True)
class Classifier:
    """A classifier without a distance."""

    estimator: Any

    def predict(self, X: Array, k: int) -> Array:
        """Return its labels."""
        return np.asarray(self.estimator.predict(X))


def learner(name: str, *, pairs: int | None = None) -> Callable[..., Fitted]:
    """Return a method that fits a learner of nearfar, to labels or to random pairs of them."""

    def fit(X: Array, y: Array, parameters: Mapping[str, Any], run: int) -> Fitted:
        estimator = getattr(nearfar, name)(**parameters)
        if "random_state" in estimator.get_params():
            estimator.set_params(random_state=run)
        known: Any = y if pairs is None else random_pairs(X, y, pairs, run)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            estimator.fit(X, known)
        return Fitted(
            Neighbors(estimator.metric_, X, y),
            estimator.n_iter_,
            estimator.history_.stopped,
        )

    fit.learner = name  # type: ignore[attr-defined]
    return fit


def random_pairs(X: Array, y: Array, number: int, run: int) -> Pairs:
    """Return random pairs of labelled rows, half of them similar."""
    pairs: Pairs = RandomPairs(number)(X, y, np.random.RandomState(run))
    return pairs


def euclidean(X: Array, y: Array, *_: Any) -> Fitted:
    """Euclidean distance."""
    return Fitted(Neighbors(Metric.identity(X.shape[1]), X, y))


def inverse_covariance(X: Array, y: Array, *_: Any) -> Fitted:
    """Mahalanobis distance by the covariance of the training rows, unshrunk."""
    M = np.linalg.pinv(np.cov(X.T), hermitian=True, rcond=1e-9)
    return Fitted(Neighbors(Metric.from_matrix(M), X, y))


def support_vectors(X: Array, y: Array, parameters: Mapping[str, Any], *_: Any) -> Fitted:
    """Support vector machine."""
    estimator = SVC(**parameters).fit(X, y)
    return Fitted(Classifier(estimator))


def distance(function: Callable[[Array, Array], Array]) -> Callable[..., Fitted]:
    """Return a method that learns nothing."""

    def fit(X: Array, y: Array, *_: Any) -> Fitted:
        return Fitted(Distance(function, X, y))

    return fit


def chi_square(X: Array, Z: Array) -> Array:
    """Return the sums of squared differences over sums, for rows of values from 0 on."""
    return np.asarray(-additive_chi2_kernel(X, Z))


METHODS: dict[str, Callable[..., Fitted]] = {
    "Euclidean": euclidean,
    "inverse covariance": inverse_covariance,
    "L1": distance(manhattan_distances),
    "chi-square": distance(chi_square),
    "SVM": support_vectors,
    **{
        name: learner(name)
        for name in (
            "BoostMetric",
            "MetricBoost",
            "DRMetric",
            "MaxMarginMetric",
            "MixtureNCA",
            "PSDBoost",
            "RCA",
            "DCA",
            "NCA",
            "LMNN",
            "ITML",
            "MMC",
        )
    },
    **{
        f"{name}, {number} pairs": learner(name, pairs=number)
        for name in ("MaxMarginMetric", "ITML", "RCA", "DCA")
        for number in (200, 2000)
    },
}


def all_parameters(method: str, parameters: Mapping[str, Any]) -> dict[str, str]:
    """Return a method's parameters as text, defaults included; random_state is the run's number."""
    name = getattr(METHODS[method], "learner", None)
    if method == "SVM":
        return {key: str(value) for key, value in SVC(**parameters).get_params().items()}
    if name is None:
        return {}
    found = getattr(nearfar, name)(**parameters).get_params()
    return {key: str(value) for key, value in found.items() if key != "random_state"}


def code_of(method: str) -> str:
    """Return the source of a method, or of its learner and the learner's base classes."""
    function = METHODS[method]
    name = getattr(function, "learner", None)
    if name is None:
        return dedent(inspect.getsource(function))
    kinds = [k for k in getattr(nearfar, name).__mro__ if k.__module__.startswith("nearfar.")]
    modules = dict.fromkeys(inspect.getmodule(kind) for kind in kinds)
    return "".join(inspect.getsource(module) for module in modules if module is not None)
