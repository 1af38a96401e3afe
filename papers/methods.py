"""The methods of the papers' tables, by name: each learns a distance, and predicts or orders.

A method is a function of training rows and labels, of parameters and of the number of the run. It
returns something with `predict(X, k)`: the labels of new rows.
"""

from __future__ import annotations

import ast
import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from itertools import product
from textwrap import dedent
from typing import Any, Protocol
from zlib import crc32

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import (
    additive_chi2_kernel,
    euclidean_distances,
    manhattan_distances,
)
from sklearn.model_selection import GridSearchCV, StratifiedShuffleSplit
from sklearn.svm import SVC

import nearfar
from nearfar import Metric
from nearfar.metrics.metric import triplet_scores
from papers.supervision import KINDS, Known
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
            seed = order_of_ties(self.X, k)
            return nearest(self.metric.transform(self.X), self.y, self.metric.transform(X), k, seed)
        if hasattr(self.metric, "transform"):
            return self._by_gate(X, k)
        M = self.metric.matrix
        rows, y = shuffled(self.X, self.y, order_of_ties(self.X, k))
        return vote(np.einsum("ij,jk,ik->i", rows, M, rows) - 2 * X @ M @ rows.T, y, k)

    def _by_gate(self, X: Array, k: int) -> Array:
        out, seed = np.empty(len(X), dtype=self.y.dtype), order_of_ties(self.X, k)
        for rows, part in self.metric.spaces(X):
            out[rows] = nearest(part.transform(self.X), self.y, part.transform(X[rows]), k, seed)
        return out

    def triplet_accuracy(self, X: Array, y: Array) -> float:
        """Share of all triplets of labelled rows in the right order; ties count half."""
        D = self.metric.distances(X) ** 2 if isinstance(self.metric, Metric) else self._form(X)
        return ordered_triplets(D, y)

    def by_votes(self) -> Distance:
        """Return neighbours under the sum H of thresholded weak models in place of M."""
        votes = self.metric.votes

        def distances(X: Array, Z: Array) -> Array:
            H = np.zeros((len(X), len(Z)))
            terms = zip(votes.directions, votes.alphas, votes.thresholds, strict=True)
            for v, alpha, threshold in terms:
                H += alpha * (np.subtract.outer(X @ v, Z @ v) ** 2 >= threshold)
            return H

        return Distance(distances, self.X, self.y)

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
        rows, y = shuffled(self.X, self.y, order_of_ties(self.X, k))
        return in_parts(lambda part: vote(self.distances(part, rows), y, k), X)

    def triplet_accuracy(self, X: Array, y: Array) -> float:
        """Share of all triplets of labelled rows in the right order; ties count half."""
        return ordered_triplets(self.distances(X, X), y)


def ordered_triplets(D: Array, y: Array) -> float:
    """Return the share of all triplets in the right order in a table of distances."""
    right = total = 0.0
    for anchor in range(len(y)):
        near, far = y == y[anchor], y != y[anchor]
        near[anchor] = False
        scores = triplet_scores(np.subtract.outer(D[anchor, far], D[anchor, near]).ravel())
        right, total = right + float(scores.sum()), total + scores.size
    return right / total


def nearest(X: Array, y: Array, queries: Array, k: int, seed: int = 0) -> Array:
    """Return the vote of the rows of X that are nearest to each query."""
    X, y = shuffled(X, y, seed)
    return in_parts(lambda part: vote(euclidean_distances(part, X, squared=True), y, k), queries)


def shuffled(X: Array, y: Array, seed: int) -> tuple[Array, Array]:
    """Return rows and labels in a random order.

    Of equally distant rows the first counts as the nearest, and files are often sorted by class.
    """
    order = np.random.RandomState(seed).permutation(len(X))
    return X[order], y[order]


def order_of_ties(X: Array, k: int) -> int:
    """Return a seed that is another one for other training rows.

    One order for all splits would be a single draw: the same rows would always come first. Of
    several neighbours, few are affected, and the order is the same for all.
    """
    return crc32(np.ascontiguousarray(X).tobytes()) if k == 1 else 0


def in_parts(function: Callable[[Array], Array], X: Array) -> Array:
    """Apply a function to 500 rows at a time."""
    return np.concatenate([function(part) for part in np.array_split(X, -(-len(X) // 500))])


def vote(distances: Array, y: Array, k: int) -> Array:
    """Return the commonest label of the k nearest rows; of equally common ones the nearest's."""
    if k == 1:
        return np.asarray(y[distances.argmin(axis=1)])
    near = np.sort(np.argpartition(distances, k - 1, axis=1)[:, :k], axis=1)
    ranks = np.argsort(np.take_along_axis(distances, near, 1), axis=1, kind="stable")
    labels = y[np.take_along_axis(near, ranks, 1)]
    counts = (labels[:, :, None] == labels[:, None]).sum(axis=2)
    return np.asarray(labels[np.arange(len(labels)), counts.argmax(axis=1)])


@dataclass(frozen=True)
class Classifier:
    """A classifier without a distance."""

    estimator: Any

    def predict(self, X: Array, k: int) -> Array:
        """Return its labels."""
        return np.asarray(self.estimator.predict(X))


def learner(name: str, known: Known | None = None) -> Callable[..., Fitted]:
    """Return a method that fits a learner of nearfar, to labels or to what `known` makes."""

    def fit(X: Array, y: Array, parameters: Mapping[str, Any], run: int) -> Fitted:
        estimator = getattr(nearfar, name)(**parameters)
        if "random_state" in estimator.get_params():
            estimator.set_params(random_state=run)
        rows, supervision = (X, y) if known is None else known(X, y, run)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            estimator.fit(rows, supervision)
        return Fitted(
            Neighbors(estimator.metric_, X, y),
            estimator.n_iter_,
            estimator.history_.stopped,
        )

    fit.learner = name  # type: ignore[attr-defined]
    return fit


@dataclass(frozen=True)
class Stages:
    """Neighbours under the metrics of a fit's iterations."""

    models: tuple[Neighbors, ...]

    def predict(self, X: Array, k: int) -> Array:
        """Vote under the last metric."""
        return self.models[-1].predict(X, k)

    def least_error(self, X: Array, y: Array, k: int) -> float:
        """Return the smallest share of wrong labels, under the metric that has it."""
        return min(float((model.predict(X, k) != y).mean()) for model in self.models)


def kept_stages(number: int) -> list[int]:
    """Return the iterations whose metrics are tested: the first ones, each tenth, and the last."""
    first, tenth = range(min(EACH_STAGE, number)), range(9, number, 10)
    return sorted({*first, *tenth, number - 1})


def staged(name: str) -> Callable[..., Fitted]:
    """Return a method that keeps the metrics of some iterations."""

    def fit(X: Array, y: Array, parameters: Mapping[str, Any], run: int) -> Fitted:
        estimator = getattr(nearfar, name)(**parameters).set_params(random_state=run)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            metrics = list(estimator.fit(X, y).staged_metrics())
        models = tuple(Neighbors(metrics[i], X, y) for i in kept_stages(len(metrics)))
        return Fitted(Stages(models), estimator.n_iter_, estimator.history_.stopped)

    fit.learner = name  # type: ignore[attr-defined]
    return fit


def validated(name: str) -> Callable[..., Fitted]:
    """Return a method whose number of iterations is chosen on a fifth of the training rows.

    The first of the equally good ones counts. The fit to all training rows has as many.
    """

    def fit(X: Array, y: Array, parameters: Mapping[str, Any], run: int) -> Fitted:
        k = parameters["n_neighbors"]
        settings = {each: value for each, value in parameters.items() if each != "n_neighbors"}
        seen, held_out = fifth(y, run)
        stages = staged(name)(X[seen], y[seen], settings, run)
        errors = [
            int((model.predict(X[held_out], k) != y[held_out]).sum())
            for model in stages.model.models
        ]
        number = 1 + kept_stages(stages.iterations)[int(np.argmin(errors))]
        fitted = learner(name)(X, y, {**settings, "max_iter": number}, run)
        return replace(fitted, stopped=f"validation; {number} iterations")

    fit.learner = name  # type: ignore[attr-defined]
    return fit


def fifth(y: Array, run: int) -> tuple[Array, Array]:
    """Return the rows to learn from and a fifth to choose by, with the classes in proportion."""
    parts = StratifiedShuffleSplit(1, test_size=0.2, random_state=run)
    _, counts = np.unique(y, return_counts=True)
    seen, held_out = next(parts.split(y, y if counts.min() > 1 else np.zeros(len(y))))
    return seen, held_out


def tuned(
    method: Callable[..., Fitted], grid: Mapping[str, Sequence[float]]
) -> Callable[..., Fitted]:
    """Return a method that chooses parameters by 3-NN on a fifth of the training rows."""

    def fit(X: Array, y: Array, parameters: Mapping[str, Any], run: int) -> Fitted:
        seen, held_out = fifth(y, run)
        best: tuple[float, Mapping[str, Any]] = (-1.0, {})
        for values in product(*grid.values()):
            tried = {**parameters, **dict(zip(grid, values, strict=True))}
            model = method(X[seen], y[seen], tried, run).model
            share = float((model.predict(X[held_out], 3) == y[held_out]).mean())
            if share > best[0]:
                best = share, tried
        fitted = method(X, y, best[1], run)
        chosen = ", ".join(f"{name}={best[1][name]}" for name in grid)
        return replace(fitted, stopped=f"{fitted.stopped}; {chosen}")

    fit.learner = method.learner  # type: ignore[attr-defined]
    fit.grid = grid  # type: ignore[attr-defined]
    return fit


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


def tuned_svm(X: Array, y: Array, parameters: Mapping[str, Any], *_: Any) -> Fitted:
    """Support vector machine whose C is chosen by five-fold cross-validation."""
    search = GridSearchCV(SVC(**parameters), {"C": list(COSTS)}, cv=5).fit(X, y)
    return Fitted(Classifier(search.best_estimator_), stopped=f"C={search.best_params_['C']}")


def distance(function: Callable[[Array, Array], Array]) -> Callable[..., Fitted]:
    """Return a method that learns nothing."""

    def fit(X: Array, y: Array, *_: Any) -> Fitted:
        return Fitted(Distance(function, X, y))

    return fit


def chi_square(X: Array, Z: Array) -> Array:
    """Return the sums of squared differences over sums, for rows of values from 0 on."""
    return np.asarray(-additive_chi2_kernel(X, Z))


LEARNERS = (
    "BoostMetric",
    "MetricBoost",
    "DRMetric",
    "MaxMarginMetric",
    "MixtureNCA",
    "PSDBoost",
    "FrobMetric",
    "RCA",
    "DCA",
    "NCA",
    "LMNN",
    "ITML",
    "MMC",
)
EACH_STAGE = 20
"""So many iterations are all kept; of later ones each tenth."""
COSTS = (0.001, 0.01, 0.1, 1.0, 10.0)
SLACKS = {"gamma": (0.01, 0.1, 1.0, 10.0)}
"""The values of ITML's slack that MetricBoost's paper tries."""
MARGINS = {"nu": (0.03, 0.1, 0.3, 0.6)}
"""Values of PSDBoost's nu; the same paper tries four values of C = 1 / (nu m)."""
DOUBLE = {"cap": (2.0, 10.0), "margin_tol": (0.03, 0.3), "independence": (0.01, 1.0)}
"""Values of DRMetric's alpha, eta and lambda; the paper prints none."""

METHODS: dict[str, Callable[..., Fitted]] = {
    "Euclidean": euclidean,
    "inverse covariance": inverse_covariance,
    "L1": distance(manhattan_distances),
    "chi-square": distance(chi_square),
    "SVM": support_vectors,
    **{name: learner(name) for name in LEARNERS},
    **{
        f"{name}, {kind}": learner(name, KINDS[kind])
        for name, kinds in {
            "MaxMarginMetric": ("200 pairs", "1000 pairs", "2000 pairs"),
            "ITML": ("200 pairs", "1000 pairs", "2000 pairs"),
            "RCA": ("200 pairs", "2000 pairs"),
            "DCA": ("200 pairs", "2000 pairs"),
            "MMC": ("all pairs", "5 % of pairs"),
            "MetricBoost": ("0.5 % of triplets", "rows of T3"),
            "BoostMetric": ("0.5 % of triplets", "triplets of T3"),
        }.items()
        for kind in kinds
    },
    **{
        f"ITML, {kind}, tuned": tuned(learner("ITML", KINDS[kind]), SLACKS)
        for kind in ("all pairs", "5 % of pairs")
    },
    "BoostMetric, staged": staged("BoostMetric"),
    "BoostMetric, validated": validated("BoostMetric"),
    "PSDBoost, 0.5 % of triplets, tuned": tuned(
        learner("PSDBoost", KINDS["0.5 % of triplets"]), MARGINS
    ),
    "SVM, tuned": tuned_svm,
    "DRMetric, tuned": tuned(learner("DRMetric"), DOUBLE),
}


def all_parameters(method: str, parameters: Mapping[str, Any]) -> dict[str, str]:
    """Return a method's parameters as text, defaults included; random_state is the run's number."""
    name = getattr(METHODS[method], "learner", None)
    grid = getattr(METHODS[method], "grid", {})
    if method == "SVM, tuned":
        return {**{key: str(value) for key, value in parameters.items()}, "C": f"one of {COSTS}"}
    if method == "SVM":
        return {key: str(value) for key, value in SVC(**parameters).get_params().items()}
    if name is None:
        return {}
    chosen_by = (
        {"n_neighbors": str(parameters["n_neighbors"])} if "n_neighbors" in parameters else {}
    )
    given = {key: value for key, value in parameters.items() if key != "n_neighbors"}
    found = getattr(nearfar, name)(**given).get_params()
    # No table has more training rows than are all learned from, whatever `max_rows` is; and how a
    # weight is found changes rounding alone.
    left_out = ("random_state", "max_rows", "line_search")
    told = {k: str(value) for k, value in found.items() if k not in left_out}
    return told | chosen_by | {key: f"one of {values}" for key, values in grid.items()}


CHOOSING = ("choice", "held_out", "scale")
"""Modules of `nearfar.learners.selection` that choose what a default fit leaves open."""


@cache
def code_of(method: str, *, chooses: bool = False) -> str:
    """Return the source of a method, or of the learner's module and all that it uses of its family.

    With `chooses` also that of the modules that choose scale, iterations and shrinkage. What all
    learners share is left out, so that a change there does not make all results stale.
    """
    function = METHODS[method]
    name = getattr(function, "learner", None)
    if name is None:
        return dedent(inspect.getsource(function))
    home = inspect.getmodule(getattr(nearfar, name))
    if home is None:
        raise ValueError(f"{name} has no module.")
    names = family_modules(home.__name__)
    if chooses:
        names += [f"nearfar.learners.selection.{each}" for each in CHOOSING]
    return "".join(inspect.getsource(import_module(each)) for each in names)


def family_modules(name: str) -> list[str]:
    """Return a module and those of its package that it imports, directly or through others."""
    package = name.rpartition(".")[0]
    found, waiting = [], [name]
    while waiting:
        current = waiting.pop()
        if current not in found:
            found.append(current)
            waiting += [each for each in _imported(current) if each.startswith(f"{package}.")]
    return sorted(found)


@cache
def _imported(name: str) -> tuple[str, ...]:
    tree = ast.parse(inspect.getsource(import_module(name)))
    used = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    return tuple(each for each in used if each)
