"""The vote of nearest neighbours: what each counts, and what is known without them.

Soft votes are, with the distances d_1 <= ... <= d_k of the neighbours of x,

    p(c | x) = (sum_i w_i [y_i = c] + a prior_c(x)) / (sum_i w_i + a),   w_i = exp(-t (d_i / d_k)^2)

where the prior is the classes' shares or logistic regression. Numbers are predicted by

    prior(x) + sum_i w_i (y_i - prior(x_i)) / (sum_i w_i + a)

where the prior is the mean or ridge regression. With t = a = 0, each neighbour has a whole vote.
Held-out rows choose k, t, a and the prior: log loss or squared error decides, among settings whose
error is within noise of the smallest.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression, Ridge, RidgeCV
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from nearfar.typing import Array, Floats, Ints, Vector

DEFAULT_NEIGHBORS = 3
"""How many neighbours vote where nothing tells what is best."""

NUMBERS = (1, 3, 5, 9, 15, 25)
"""Numbers of neighbours with whole votes: noisy classes want many, others few."""

MOST_VOTERS = 300
"""The most neighbours with soft votes: the area under the ROC curve of noisy classes wants many."""

_SOFT_NUMBERS = (*NUMBERS, 40, 70, 120, 200, MOST_VOTERS)
_DECAYS = (0.0, 1.0, 2.0, 4.0, 8.0)
# Shares of the classes need to count little; a linear model may be better than all neighbours.
_FEW_ROWS = (0.1, 0.5, 1.0, 2.0)
_PRIOR_ROWS = {False: _FEW_ROWS, True: (*_FEW_ROWS, 5.0, 10.0, 20.0, 50.0, 100.0)}
# Standard errors that the error of the chosen setting may lie above the smallest: on 30 tables, 1
# cost 0.006 in log loss, and 2 was as good in error.
_ERROR_NOISE = 1.5
# The log loss that fewer errors may cost, as a multiple of the smallest.
_LOSS_LIMIT = 1.5
_SMALLEST_PROBABILITY = 1e-15
# Rows, columns and classes of a linear model, multiplied: of more, rows are left out. It bounds a
# fit to about a second.
_LINEAR_SIZE = 2e7
_FEWEST_LINEAR_ROWS = 20
_ALPHAS = np.logspace(-2, 4, 13)
_FOLDS = 5
_BINS, _MOST_SCORES = 10, 201
# Share of the mean error that intervals have where neighbours agree.
_BASE = 0.3

RELIABILITY_HEADINGS = ("stated", "held-out rows", "mean stated", "right")


def majority(labels: Ints) -> Ints:
    """Return the most frequent label of each row; of several, the smallest."""
    ordered = np.sort(labels, axis=1)
    place = np.broadcast_to(np.arange(ordered.shape[1]), ordered.shape)
    first = np.diff(ordered, axis=1, prepend=-1) != 0
    run = place - np.maximum.accumulate(np.where(first, place, 0), axis=1)
    return np.take_along_axis(ordered, run.argmax(axis=1)[:, None], axis=1)[:, 0]


def best_number(
    votes: Sequence[tuple[Array, Array]],
    *,
    numbers: bool = False,
    weights: Sequence[Vector | None] | None = None,
) -> int:
    """Return how many neighbours vote best, or have the best mean.

    Errors with a number count with those of the next ones on both sides, because they are noisy,
    and change slowly with the number.

    Parameters
    ----------
    votes: shape (n_rows, n_neighbors). Classes of the nearest rows, the nearest first, and
        those of the rows themselves.
    numbers: Whether they are numbers, whose squared errors count, not classes.
    weights: shape (n_rows,). What the errors are multiplied by.
    """
    most = min((each.shape[1] for each, _ in votes), default=0)
    able = [k for k in NUMBERS if k <= most]
    if not able:
        return DEFAULT_NEIGHBORS

    def loss(nearest: Array, y: Array, weight: Vector | None) -> float:
        errors = (nearest.mean(axis=1) - y) ** 2 if numbers else majority(nearest) != y
        return float(errors.sum() if weight is None else weight @ errors)

    own = [None] * len(votes) if weights is None else weights
    wrong = [
        sum(loss(each[:, :k], y, weight) for (each, y), weight in zip(votes, own, strict=True))
        for k in able
    ]
    errors = np.pad(np.array(wrong, dtype=np.float64), 1, mode="edge")
    smooth = errors[:-2] + 2 * errors[1:-1] + errors[2:]
    return able[int(smooth.argmin())]


class LinearPrior:
    """Logistic regression, or ridge regression of numbers, on standardised features.

    Parameters
    ----------
    n_classes: 0 for numbers.

    Attributes
    ----------
    unseen: shape (n_samples,). Numbers of the rows, each predicted without its fold.
    """

    def __init__(self, X: Floats, y: Array, n_classes: int = 0) -> None:
        self.n_classes = n_classes
        with warnings.catch_warnings():
            # Of convergence, and of as many classes as numbers would have.
            warnings.simplefilter("ignore")
            model: Any = RidgeCV(_ALPHAS) if n_classes == 0 else LogisticRegression()
            some, values = self._some(X, y)
            # Wide rows are rotated into their span, which changes no prediction.
            steps = [StandardScaler(), *([PCA()] if len(some) < some.shape[1] else [])]
            self.model = make_pipeline(*steps, model).fit(some, values)
        if n_classes == 0:
            plain = make_pipeline(*map(clone, steps), Ridge(self.model[-1].alpha_))
            folds = KFold(min(_FOLDS, len(X)), shuffle=True, random_state=0)
            self.unseen: Vector = np.empty(len(X))
            for seen, unseen in folds.split(X):
                self.unseen[unseen] = clone(plain).fit(X[seen], y[seen]).predict(X[unseen])

    @classmethod
    def of(cls, X: Floats, y: Array) -> Self | None:
        """Return a model of classes or numbers; None if there is too little to learn from."""
        n_classes = 0 if y.dtype.kind == "f" else int(y.max()) + 1
        if len(X) < max(_FEWEST_LINEAR_ROWS, 2 * n_classes) or (y == y[0]).all():
            return None
        return cls(X, y, n_classes)

    def _some(self, X: Floats, y: Array) -> tuple[Floats, Array]:
        most = int(_LINEAR_SIZE / (min(X.shape) * max(1, self.n_classes)))
        rows = np.random.RandomState(0).permutation(len(X))[: max(most, _FEWEST_LINEAR_ROWS)]
        return np.asarray(X[np.sort(rows)], dtype=np.float64), y[np.sort(rows)]

    def __call__(self, X: Floats) -> NDArray[np.float64]:
        """Return the probability of each class, or the number."""
        points = np.asarray(X, dtype=np.float64)
        if self.n_classes == 0:
            return np.asarray(self.model.predict(points))
        out = np.zeros((len(points), self.n_classes))
        out[:, self.model.classes_] = self.model.predict_proba(points)
        return out


class HeldOutVotes(NamedTuple):
    """Held-out rows and their nearest known rows.

    Attributes
    ----------
    distances: shape (n_rows, n_neighbors). Nearest first.
    found: shape (n_rows, n_neighbors). Classes or numbers of the neighbours.
    actual: shape (n_rows,). Those of the rows.
    plain: shape (n_classes,). Shares of the classes among the known rows; of numbers the mean.
    linear: shape (n_rows, n_classes) or (n_rows,). What a linear model of the known rows
        predicts; None without one.
    found_linear: shape (n_rows, n_neighbors). What it predicts of neighbours: for numbers.
    weight: shape (n_rows,). What losses are multiplied by.
    """

    distances: Floats
    found: Array
    actual: Array
    plain: Array
    linear: Floats | None = None
    found_linear: Floats | None = None
    weight: Vector | None = None

    @classmethod
    def of(
        cls,
        nearest: tuple[Floats, Ints],
        known: tuple[Array, Array],
        queries: Floats,
        linear: LinearPrior | None,
        weight: Vector | None = None,
        n_classes: int = 0,
    ) -> HeldOutVotes:
        """Return neighbours of held-out rows.

        Parameters
        ----------
        nearest: Distances of the nearest rows of a gallery, and these rows.
        known: Classes or numbers of the held-out rows, and of the gallery.
        queries: shape (n_rows, n_features). The held-out rows.
        linear: A model of the gallery.
        """
        (distances, near), (actual, y) = nearest, known
        predicted = None if linear is None else linear(queries)
        if y.dtype.kind == "f":
            base = None if linear is None else linear.unseen[near]
            return cls(distances, y[near], actual, y.mean(), predicted, base, weight)
        n_classes = max(n_classes, int(y.max()) + 1, int(actual.max()) + 1)
        if predicted is not None:
            predicted = np.pad(predicted, [(0, 0), (0, n_classes - predicted.shape[1])])
        shares = np.bincount(y, minlength=n_classes) / len(y)
        return cls(distances, y[near], actual, shares, predicted, None, weight)

    @property
    def numbers(self) -> bool:
        """Whether numbers are predicted, not classes."""
        return bool(np.ndim(self.plain) == 0)

    @classmethod
    def join(cls, parts: Sequence[HeldOutVotes]) -> HeldOutVotes:
        """Return the rows of all parts in little memory; each counts once."""
        width = min(each.distances.shape[1] for each in parts)

        def joined(name: str, dtype: Any = None) -> Any:
            arrays = [getattr(each, name) for each in parts]
            if any(each is None for each in arrays):
                return None
            wide = name in ("distances", "found", "found_linear")
            arrays = [each[:, :width] if wide else each for each in arrays]
            return np.concatenate(arrays, dtype=dtype)

        numbers = parts[0].numbers
        return cls(
            joined("distances", np.float32),
            joined("found", np.float64 if numbers else np.int32),
            joined("actual"),
            np.mean([each.plain for each in parts], axis=0),
            joined("linear"),
            joined("found_linear"),
        )

    def missed(self, votes: SoftVotes) -> Vector:
        """Return 1 for rows of another class than predicted, or how far numbers are from it."""
        predicted = votes.predict(self)[0]
        if self.numbers:
            return np.asarray(np.abs(predicted - self.actual))
        return np.asarray(predicted.argmax(axis=1) != self.actual, dtype=np.float64)


@dataclass(frozen=True)
class SoftVotes:
    """How nearest neighbours vote.

    Attributes
    ----------
    n_neighbors: How many vote, k.
    decay: How fast weights fall with the distance, t.
    prior_rows: How many rows the prior counts for, a.
    linear: Whether the prior is a linear model, not shares of the classes or the mean.
    """

    n_neighbors: int = DEFAULT_NEIGHBORS
    decay: float = 0.0
    prior_rows: float = 0.0
    linear: bool = False

    def weights(self, distances: Floats) -> Floats:
        """Return how much each neighbour counts."""
        near = np.asarray(distances[:, : self.n_neighbors], dtype=np.float64)
        farthest = near[:, -1:]
        ratio = np.divide(near, farthest, out=np.zeros_like(near), where=farthest > 0)
        return np.asarray(np.exp(-self.decay * ratio**2))

    def share(self, distances: Floats) -> Vector:
        """Return the share of each prediction that comes from neighbours, not from the prior."""
        total = self.weights(distances).sum(axis=1)
        return np.asarray(total / (total + self.prior_rows))

    def probabilities(self, distances: Floats, codes: Ints, prior: Floats) -> NDArray[np.float64]:
        """Return the probability of each class.

        Parameters
        ----------
        distances, codes: shape (n_rows, n_neighbors). Of neighbours, and their classes.
        prior: shape (n_classes,) or (n_rows, n_classes).
        """
        weights = self.weights(distances)
        sums = class_sums(codes[:, : weights.shape[1]], weights, prior.shape[-1])
        total = weights.sum(axis=1) + self.prior_rows
        return np.asarray((sums + self.prior_rows * prior) / total[:, None])

    def means(self, distances: Floats, residuals: Floats) -> tuple[Vector, Vector]:
        """Return what neighbours add to the prior of numbers, and how much they disagree.

        Parameters
        ----------
        residuals: shape (n_rows, n_neighbors). Numbers of neighbours less their prior.
        """
        weights = self.weights(distances)
        near, total = residuals[:, : weights.shape[1]], weights.sum(axis=1)
        sums = np.einsum("ij,ij->i", weights, near)
        center = (sums / total)[:, None]
        spread = np.sqrt(np.einsum("ij,ij->i", weights, (near - center) ** 2) / total)
        return sums / (total + self.prior_rows), spread

    def predict(self, rows: HeldOutVotes) -> tuple[Array, Vector | None]:
        """Return probabilities of held-out rows; or numbers and how much neighbours disagree."""
        prior: Any = rows.linear if self.linear else rows.plain
        if not rows.numbers:
            return self.probabilities(rows.distances, rows.found, prior), None
        base = rows.found_linear if self.linear else rows.plain
        added, spread = self.means(rows.distances, rows.found - base)
        return prior + added, spread

    @classmethod
    def choices(
        cls, parts: Sequence[HeldOutVotes], n_neighbors: int | None = None
    ) -> Iterator[Self]:
        """Yield the settings that held-out rows can choose from."""
        most = min(each.distances.shape[1] for each in parts)
        priors = [False, True] if all(each.linear is not None for each in parts) else [False]
        for k in [k for k in _SOFT_NUMBERS if k <= most] if n_neighbors is None else [n_neighbors]:
            for decay in _DECAYS if k > 1 else _DECAYS[:1]:
                for linear in priors:
                    yield from (cls(k, decay, rows, linear) for rows in _PRIOR_ROWS[linear])

    @classmethod
    def choose(cls, parts: Sequence[HeldOutVotes], n_neighbors: int | None = None) -> Self:
        """Return the best setting for held-out rows, of a number of neighbours if it is given."""
        return cls.choose_apart(parts, n_neighbors)[0]

    @classmethod
    def choose_apart(
        cls, parts: Sequence[HeldOutVotes], n_neighbors: int | None = None
    ) -> list[Self]:
        """Return the best setting for held-out rows, and those for all but each fifth of them.

        The fifth of row i is i % 5, counted over all parts.
        """
        settings = list(cls.choices(parts, n_neighbors))
        n = sum(len(each.actual) for each in parts)
        fifth = np.arange(n) % _FOLDS
        # The sums of log losses or squared errors, and of errors, in each fifth.
        sums = np.zeros((len(settings), 2, _FOLDS))
        start = 0
        for part in parts:
            own = fifth[start : start + len(part.actual)]
            start += len(own)
            weight = np.ones(len(own)) if part.weight is None else part.weight
            for place, losses in enumerate(_losses(settings, part)):
                for kind, loss in enumerate(losses):
                    sums[place, kind] += np.bincount(own, weight * loss, _FOLDS)
        totals = np.concatenate([sums.sum(axis=2, keepdims=True), -sums], axis=2)
        totals[:, :, 1:] += totals[:, :, :1]
        counts = np.append(n, n - np.bincount(fifth, minlength=_FOLDS))
        chosen = []
        for losses, wrong, count in zip(*totals.transpose(1, 2, 0), counts, strict=True):
            error = float(wrong.min()) / max(1, count)
            noise = _ERROR_NOISE * np.sqrt(max(0.0, error * (1 - error)) / max(1, count))
            able = np.flatnonzero(wrong <= count * (error + noise) + 1e-9)
            if losses[able].min() > _LOSS_LIMIT * losses.min():
                # Of hardly any errors, few settings are left, and those may hedge every vote.
                close = losses <= _LOSS_LIMIT * losses.min()
                able = np.flatnonzero(close & (wrong <= wrong[close].min() + 1e-9))
            chosen.append(settings[able[int(losses[able].argmin())]])
        return chosen


@dataclass(frozen=True, eq=False)
class Margins:
    """How far numbers of held-out rows are from their predictions, for conformal intervals.

    Attributes
    ----------
    base: Added to how much neighbours disagree, so that agreement is no certainty.
    scores: Ascending quantiles of the distances, divided by disagreement and base.
    n_rows: How many held-out rows they are of.
    """

    base: float
    scores: Vector
    n_rows: int

    @classmethod
    def of(cls, predicted: Vector, spread: Vector, actual: Vector) -> Self:
        """Measure held-out rows by their predictions and how much their neighbours disagree."""
        missed = np.abs(actual - predicted)
        base = _BASE * float(missed.mean()) or 1.0
        places = np.linspace(0, 1, min(len(missed), _MOST_SCORES))
        scores = np.quantile(missed / (spread + base), places, method="higher")
        return cls(base, scores, len(missed))

    def intervals(self, predicted: Vector, spread: Vector, level: float) -> NDArray[np.float64]:
        """Return lower and upper ends; infinite if there are too few held-out rows for the level.

        The score of rank (n + 1) level among n held-out rows is exceeded by a new one with a
        probability of at most 1 - level.
        """
        share = np.ceil((self.n_rows + 1) * level) / self.n_rows
        place = int(np.ceil(share * len(self.scores))) - 1
        score = self.scores[place] if share <= 1 else np.inf
        reach = score * (spread + self.base)
        return np.column_stack([predicted - reach, predicted + reach])


def _losses(settings: Sequence[SoftVotes], part: HeldOutVotes) -> Iterator[tuple[Array, ...]]:
    """Yield the loss of each row with each setting, and of classes whether it is wrong."""
    every, last = np.arange(len(part.actual)), None
    for each in settings:
        if (each.n_neighbors, each.decay) != last:
            last = each.n_neighbors, each.decay
            weights = each.weights(part.distances)
            width, total = weights.shape[1], weights.sum(axis=1)
            if not part.numbers:
                sums = class_sums(part.found[:, :width], weights, len(part.plain))
        prior: Any = part.linear if each.linear else part.plain
        if part.numbers:
            base = part.found_linear[:, :width] if each.linear else part.plain  # type: ignore[index]
            if each.prior_rows == _PRIOR_ROWS[each.linear][0]:
                added = np.einsum("ij,ij->i", weights, part.found[:, :width] - base)
            yield ((prior + added / (total + each.prior_rows) - part.actual) ** 2,)
        else:
            scores = sums + each.prior_rows * prior
            own = scores[every, part.actual] / (total + each.prior_rows)
            wrong = scores.argmax(axis=1) != part.actual
            yield -np.log(np.maximum(own, _SMALLEST_PROBABILITY)), wrong


def class_sums(codes: Ints, weights: Floats, n_classes: int) -> NDArray[np.float64]:
    """Return the sum of the weights of each class in each row.

    Parameters
    ----------
    codes, weights: shape (n_rows, n_neighbors). Classes and weights of the neighbours.
    """
    places = np.arange(len(codes))[:, None] * n_classes + codes
    sums = np.bincount(places.ravel(), weights.ravel(), minlength=len(codes) * n_classes)
    return np.asarray(sums.reshape(len(codes), n_classes), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Reliability:
    """How often predicted classes are right on held-out rows, by the stated probability.

    It prints as a table.

    Attributes
    ----------
    counted: shape (10,). Held-out rows whose class has a probability up to 10%, 20%, ...
    stated: shape (10,). Sum of these probabilities.
    right: shape (10,). How many of the classes are right.
    """

    counted: Ints
    stated: Vector
    right: Ints

    @classmethod
    def of(cls, probabilities: Floats, actual: Ints) -> Self:
        """Count held-out rows.

        Parameters
        ----------
        probabilities: shape (n_rows, n_classes).
        actual: shape (n_rows,). Classes of the rows.
        """
        largest = probabilities.max(axis=1)
        place = np.clip(np.ceil(_BINS * largest).astype(np.intp) - 1, 0, _BINS - 1)
        hits = probabilities.argmax(axis=1) == actual
        counted, stated = np.bincount(place, minlength=_BINS), np.bincount(place, largest, _BINS)
        return cls(counted, np.asarray(stated), np.bincount(place[hits], minlength=_BINS))

    @cached_property
    def error(self) -> float:
        """Expected calibration error: the mean distance of what is stated from what is right."""
        return float(np.abs(self.stated - self.right).sum() / max(1, self.counted.sum()))

    def table(self) -> list[tuple[str, str, str, str]]:
        """Return a line for each tenth of the probabilities that has rows."""
        return [
            (
                f"{100 * place // _BINS} to {100 * (place + 1) // _BINS}%",
                f"{n:.0f}",
                f"{100 * stated / n:.0f}%",
                f"{100 * right / n:.0f}%",
            )
            for place, (n, stated, right) in enumerate(
                zip(self.counted, self.stated, self.right, strict=True)
            )
            if n
        ]

    def __str__(self) -> str:
        lines = [RELIABILITY_HEADINGS, *self.table()]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        return "\n".join(
            "  ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])])
            for line in lines
        )
