"""Likelihood ratios of pairs: how much more likely a distance is if a pair is similar.

The log-likelihood ratio cost (N. Bruemmer, J. du Preez: Application-independent evaluation of
speaker detection, Computer Speech and Language 20, 2006) of ratios r is, in bits,

    Cllr = (mean of log2(1 + 1/r) over similar pairs + mean of log2(1 + r) over dissimilar ones) / 2

It is 0 for a sure and right decision, 1 for ratios of 1, which say nothing, and more for ratios
that mislead. The smallest value that distances allow comes from isotonic regression on the pairs
themselves (min Cllr); the rest is due to calibration.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logit
from sklearn.isotonic import IsotonicRegression

from nearfar.typing import Vector

if TYPE_CHECKING:
    from nearfar.supervision import Pairs

# Shares of 0 and 1 would have infinite log-odds.
_CERTAIN = 1e-12


@dataclass(frozen=True, eq=False)
class LikelihoodRatios:
    """Log-likelihood ratios by distance; they never rise with it.

    Attributes
    ----------
    distances : array
        In ascending order.
    log_ratios : array
        Natural logarithms of the ratios there; linear between them, constant beyond.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.measures import LikelihoodRatios
    >>> ratios = LikelihoodRatios(np.array([0.0, 1.0]), np.array([2.0, -2.0]))
    >>> ratios.log_ratios
    array([ 2., -2.])
    """

    distances: Vector
    log_ratios: Vector

    @classmethod
    def fit(
        cls, distances: ArrayLike, pairs: Pairs, extra: tuple[float, float] = (1.0, 1.0)
    ) -> LikelihoodRatios:
        """Estimate the ratios by isotonic regression.

        Parameters
        ----------
        distances : array-like of shape (n_pairs,)
        pairs : Pairs
            Similar and dissimilar pairs.
        extra : tuple of float, default=(1.0, 1.0)
            Numbers of similar and dissimilar pairs to add at the smallest and at the largest
            distance. They keep ratios finite.

        Examples
        --------
        >>> from nearfar import Pairs
        >>> from nearfar.measures import LikelihoodRatios
        >>> pairs = Pairs([[0, 1], [1, 2], [2, 3], [3, 4]], [True, True, False, False])
        >>> found = LikelihoodRatios.fit([1.0, 2.0, 3.0, 4.0], pairs)
        >>> found([0.0, 9.0]).round(2)
        array([ 1.1, -1.1])
        """
        d = np.asarray(distances, dtype=np.float64)
        weight = _equal_kinds(pairs)
        if max(extra) > 0:
            one = [share / count for share, count in zip(extra, _counts(pairs), strict=True)]
            d = np.concatenate([d, np.repeat([d.min(), d.max()], 2)])
            weight = np.concatenate([weight, one, one])
            similar = np.concatenate([pairs.similar, [True, False, True, False]])
        else:
            similar = pairs.similar
        isotonic = IsotonicRegression(increasing=False, out_of_bounds="clip")
        isotonic.fit(d, similar.astype(np.float64), sample_weight=weight)
        share = np.clip(isotonic.y_thresholds_, _CERTAIN, 1 - _CERTAIN)
        return cls(np.asarray(isotonic.X_thresholds_), np.asarray(logit(share)))

    def __call__(self, distances: ArrayLike) -> Vector:
        """Return the log-likelihood ratios of distances."""
        return np.interp(np.asarray(distances, dtype=np.float64), self.distances, self.log_ratios)


def cllr(log_ratios: ArrayLike, pairs: Pairs) -> float:
    """Return the log-likelihood ratio cost of pairs, in bits.

    Parameters
    ----------
    log_ratios : array-like of shape (n_pairs,)
        Natural logarithms of likelihood ratios.
    pairs : Pairs
        Similar and dissimilar pairs.

    Examples
    --------
    >>> from nearfar import Pairs
    >>> from nearfar.measures import cllr
    >>> pairs = Pairs([[0, 1], [1, 2]], [True, False])
    >>> cllr([0.0, 0.0], pairs), round(cllr([3.0, -3.0], pairs), 3)
    (1.0, 0.07)
    """
    sign = np.where(pairs.similar, -1.0, 1.0)
    bits = np.logaddexp(0.0, sign * np.asarray(log_ratios, dtype=np.float64)) / np.log(2.0)
    return float(bits @ _equal_kinds(pairs) / 2)


def _counts(pairs: Pairs) -> tuple[int, int]:
    """Return the numbers of similar and dissimilar pairs, which must not be 0."""
    similar = int(pairs.similar.sum())
    if not 0 < similar < len(pairs):
        raise ValueError(
            "Likelihood ratios need similar and dissimilar pairs; "
            f"got {similar} and {len(pairs) - similar}."
        )
    return similar, len(pairs) - similar


def _equal_kinds(pairs: Pairs) -> Vector:
    """Return weights of pairs of which each kind has a total of 1."""
    _counts(pairs)
    weight = np.ones(len(pairs)) if pairs.weight is None else pairs.weight
    totals = np.bincount(pairs.similar.astype(np.intp), weight, 2)
    if not totals.all():
        raise ValueError("Likelihood ratios need similar and dissimilar pairs of positive weight.")
    return np.asarray(weight / totals[pairs.similar.astype(np.intp)])
