"""`PartialFitMixin`: boosting on new constraints, with the metric so far as the prior.

A part is fitted as all data are, but its prior is the metric of the parts before. Trial fits hold
out some of the part to choose how many terms to add and how much of the metric so far to keep. With
N labels or constraints in the parts before and m in this one, that is at least N / (N + m) of the
mean squared distance: every part counts the same, and a few new triplets cannot undo what many have
taught.
"""

from __future__ import annotations

from typing import Any, Self

from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import validate_data

from nearfar.learners.boosting.base import BoostingLearner
from nearfar.learners.declaration import learner

_HELD_OUT = 0.2


@learner
class PartialFitMixin(BoostingLearner):
    """Base of the boosting learners that take the metric so far as the prior of a new part."""

    def _adds_to_a_metric(self) -> bool:
        """Whether there is a `partial_fit`: the result of a fit must be a metric to add to."""
        if self._follows_paper:
            raise AttributeError("partial_fit adds to a prior, which variant='paper' has not.")
        if getattr(self, "response", "") == "binary":
            raise AttributeError("partial_fit adds to a metric; binary weak models add votes.")
        return True

    @available_if(lambda self: self._adds_to_a_metric())
    def partial_fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Update the metric with new rows and what is known of them.

        The first part is a `fit`. Later parts take the metric so far as the prior, with
        `prior_weight`, and add terms for their own constraints. Of every part, 20 % are held out to
        choose the number of terms and the share of the metric so far (`prior_share_`), or
        `validation_fraction` if it is a number; None holds out nothing. The share is at least that
        of the labels or constraints seen before among all so far.

        `directions_`, `weights_` and `history_` are those of the last part. After `fit`, learning
        continues from its metric.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            New rows.
        y : array-like of shape (n_samples,), Triplets or Pairs
            What is known of them.

        Returns
        -------
        self

        Examples
        --------
        >>> from sklearn.datasets import load_wine
        >>> from nearfar import BoostMetric
        >>> X, y = load_wine(return_X_y=True)
        >>> learner = BoostMetric(max_iter=20)
        >>> for part in (slice(0, 178, 2), slice(1, 178, 2)):
        ...     learner = learner.partial_fit(X[part], y[part])
        >>> learner.score(X, y) > 0.95
        True
        """
        part = clone(self).set_params(warm_start=False)
        if self.validation_fraction == "auto":
            part.set_params(validation_fraction=_HELD_OUT)
            part._is_part = True
        if hasattr(self, "metric_"):
            validate_data(self, X, reset=False, skip_check_array=True)
            part.set_params(prior=self.metric_)
            part._n_before = self._n_known
        part.fit(X, y)
        parameters = self.get_params(deep=False)
        for name, value in vars(part).items():
            if name not in parameters and name not in ("_n_before", "_is_part"):
                setattr(self, name, value)
        return self
