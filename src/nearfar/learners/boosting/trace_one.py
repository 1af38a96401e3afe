"""What learners of trace-one metrics share.

M = sum_l w_l u_l u_l' with unit vectors u_l and w in the simplex, besides a prior. Directions in
which nothing varies have margins of zero, better than those of triplets that cannot be satisfied;
therefore directions are sought in the space that the points span.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from nearfar.constraints import Triplets, TripletStrategy
from nearfar.learners.boosting.base import BoostingLearner, BoostingProblem, Start, Terms
from nearfar.learners.boosting.triplet_operator import TripletOperator
from nearfar.learners.declaration import learner
from nearfar.learners.problem import FitInput, factor_on_scaled_points, prior_factor
from nearfar.numerics.edges import Unit
from nearfar.numerics.linear_algebra import row_space
from nearfar.typing import Matrix, Vector


@dataclass(frozen=True)
class SpannedTriplets:
    """Triplets over points in the space that they span, and where learning starts.

    Attributes
    ----------
    triplets : Triplets
        Each once.
    operator : TripletOperator
    basis : array of shape (rank, n_features) or None
        Basis of the space that the points span; None for all of it.
    start : Start
    """

    triplets: Triplets
    operator: TripletOperator
    basis: Matrix | None
    start: Start


@learner
class TraceOneLearner(BoostingLearner):
    """Base of the learners of trace-one metrics."""

    def _spanned_triplets(
        self, data: FitInput, strategy: TripletStrategy, unit: Unit
    ) -> SpannedTriplets:
        triplets = data.supervision.triplets(data.Z, strategy, data.random_state).distinct()
        basis = row_space(data.Z)
        points = data.Z if basis is None else data.Z @ basis.T.astype(data.Z.dtype)
        operator = TripletOperator(points, triplets, unit=1.0 if self.scale is None else unit)
        prior, offset = (
            prior_factor(self.prior, self.prior_weight, data.scaler),
            np.zeros(len(triplets)),
        )
        if prior is not None:
            spanned = prior if basis is None else prior @ basis.T
            size = math.sqrt(self.prior_weight / (float((spanned**2).sum()) or 1.0))
            prior, offset = size * prior, operator.factor_margins(size * spanned)
        start = Start(prior, _earlier_terms(data, prior, operator.unit), offset, offset)
        return SpannedTriplets(triplets, operator, basis, start)


def _earlier_terms(data: FitInput, prior: Matrix | None, unit: float) -> Terms:
    """Return the terms of the last fit, or the principal axes of a metric that was loaded."""
    if data.warm is None:
        return Terms.none(data.Z.shape[1])
    if data.warm.state is not None:
        terms: Terms = data.warm.state[1].in_units(1.0 / data.scaler.scale)
    else:
        L = factor_on_scaled_points(data.warm.metric, data.scaler, "metric to continue from")
        L = L * math.sqrt(unit)
        M = L.T @ L if prior is None else L.T @ L - prior.T @ prior
        values, vectors = np.linalg.eigh(M)
        kept = values > len(values) * np.finfo(float).eps * values[-1]
        terms = Terms(vectors[:, kept].T[::-1], values[kept][::-1])
    return Terms(terms.directions, terms.weights / terms.weights.sum())


class TraceOneProblem(BoostingProblem):
    """Base of the problems over trace-one metrics.

    Parameters
    ----------
    spanned : SpannedTriplets
    max_iter : int
    """

    def __init__(self, spanned: SpannedTriplets, max_iter: int) -> None:
        self.operator, self.basis, self.start = spanned.operator, spanned.basis, spanned.start
        self.offset: Vector = spanned.start.base_state
        self.unit, self.max_iter, self.base = self.operator.unit, max_iter, spanned.start.base

    def reduced(self, directions: Matrix) -> Matrix:
        """Return directions in the space that the points span."""
        return directions if self.basis is None else directions @ self.basis.T

    def restored(self, directions: Matrix) -> Matrix:
        """Return directions of that space among all features."""
        return directions if self.basis is None else directions @ self.basis

    def earlier_margins(self) -> GrowingRows:
        """Return the margins of the terms of earlier fits."""
        V = GrowingRows(self.operator.n_triplets)
        for u in self.reduced(self.start.earlier.directions):
            V.append(self.operator.margins(u))
        return V


class GrowingRows:
    """A matrix that grows by rows.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.learners.boosting.trace_one import GrowingRows
    >>> V = GrowingRows(2)
    >>> V.append(np.array([1.0, 2.0]))
    >>> V.rows
    array([[1., 2.]])
    """

    def __init__(self, n_columns: int) -> None:
        self._rows = np.empty((8, n_columns))
        self._number = 0

    def append(self, row: Vector) -> None:
        """Add a row at the end."""
        if self._number == len(self._rows):
            self._rows = np.concatenate([self._rows, np.empty_like(self._rows)])
        self._rows[self._number] = row
        self._number += 1

    @property
    def rows(self) -> Matrix:
        """The rows so far."""
        return self._rows[: self._number]
