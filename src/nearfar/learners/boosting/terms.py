"""Rank-one terms: what boosting adds in an iteration, and the metric that they add up to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from nearfar.learners.metric_builder import MetricBuilder
from nearfar.runtime.history import History
from nearfar.typing import Matrix, Vector


@dataclass(frozen=True)
class Terms:
    """Rank-one terms of a metric, M = sum_t weights_t directions_t directions_t'.

    Attributes
    ----------
    directions : array of shape (n_terms, n_features)
    weights : array of shape (n_terms,)
    """

    directions: Matrix
    weights: Vector

    @classmethod
    def none(cls, n_features: int) -> Terms:
        """Return no terms."""
        return cls(np.empty((0, n_features)), np.empty(0))

    @classmethod
    def learned(cls, history: History, earlier: Terms) -> Terms:
        """Return the terms after the iterations, those of earlier fits first."""
        if len(history) == 0:
            return earlier
        last: NewTerms = history[-1].payload
        if last.factor is not None:
            return cls(last.factor, np.ones(len(last.factor)))
        new: list[NewTerms] = [iteration.payload for iteration in history]
        directions = np.concatenate([earlier.directions, *(each.directions for each in new)])
        if last.all_weights is not None:
            return cls(directions, last.all_weights)
        return cls(directions, np.concatenate([earlier.weights, *(each.weights for each in new)]))

    @property
    def factor(self) -> Matrix:
        """L with L'L = M, for weights that are not negative."""
        return np.sqrt(np.abs(self.weights))[:, None] * self.directions

    @property
    def trace(self) -> float:
        """Tr M."""
        return float((self.factor**2).sum())

    def in_units(self, scale: Vector) -> Terms:
        """Return the same terms, with unit vectors, for features multiplied by `scale`."""
        directions = self.directions / scale
        size = np.linalg.norm(directions, axis=1)
        unit_vectors = directions / np.where(size > 0, size, 1.0)[:, None]
        return Terms(unit_vectors, self.weights * size**2)


@dataclass(frozen=True)
class NewTerms:
    """What an iteration of boosting adds.

    Attributes
    ----------
    directions : array of shape (n_new, n_features)
        Unit vectors.
    weights : array of shape (n_new,)
    threshold : float or None
        Threshold of a binary weak model.
    all_weights : array of shape (n_terms so far,) or None
        Weights of all terms, from solvers that reweigh them in each iteration.
    factor : array of shape (rank, n_features) or None
        The whole learned factor, from solvers that change all terms in each iteration.
    constraint_weights : array of shape (n_constraints,) or None
        Weights of the constraints after the iteration, if requested.
    """

    directions: Matrix
    weights: Vector
    threshold: float | None = None
    all_weights: Vector | None = None
    factor: Matrix | None = None
    constraint_weights: Vector | None = None

    @classmethod
    def one(cls, direction: Vector, weight: float, **more: Any) -> NewTerms:
        """Return a single term."""
        return cls(direction[None], np.array([weight]), **more)


@dataclass(frozen=True)
class Assembly:
    """Builds metrics from rank-one terms.

    Attributes
    ----------
    earlier : Terms
        Terms of earlier fits, in the solver's units.
    """

    earlier: Terms

    def metric(self, history: History, builder: MetricBuilder) -> Any:
        """Return the base plus the terms."""
        return builder.build(self.terms(history).factor)

    def terms(self, history: History) -> Terms:
        """Return all terms after the iterations, in the solver's units."""
        return Terms.learned(history, self.earlier)
