"""Neighbourhood components analysis, plain and sparse.

With p_i the probability that the point i finds its own class among soft neighbours
(`soft_neighbors`), over maps L of k rows:

    NCA         max  1/n sum_i p_i                       (Goldberger et al., as in scikit-learn)
                max  1/n sum_i log p_i                   (objective="likelihood")
    SparseNCA   min -1/n sum_i log p_i + sparsity Tr M,  M = L'L     (Hong, Li, Jiang, Tu: (5)-(7))

Tr M is the sum of M's eigenvalues and, being |L|_F^2, smooth in L: L-BFGS on a square L goes to a
local optimum of the problem in M, at which directions that gain less than their penalty vanish.

Where nearfar departs from the paper, and why:

- Distances are not divided by |M|_F. Divided, the likelihood does not see the scale of M, so that
  the penalty shrinks M and hardly makes it sparse; undivided, the scale is learned, M = 0 is legal,
  and Tr M penalises rank. ``variant="paper"`` is the paper's form.
- The penalty is on the mean over points, so that it means the same for any number of them.
- L-BFGS in place of fixed steps and eigenvalue clipping.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from nearfar.learners.base import ValidationFraction, Variant
from nearfar.learners.held_out import Validation
from nearfar.learners.map_learner import Init
from nearfar.learners.nca.mixture_nca import Mixture
from nearfar.learners.nca.mixture_problem import MixtureProblem
from nearfar.learners.nca.single_map import SingleMapLearner
from nearfar.learners.nca.soft_neighbors import SoftNeighbors
from nearfar.learners.problem import FitInput, Problem
from nearfar.runtime import parameters
from nearfar.runtime.parameters import choice, number
from nearfar.typing import Vector


class NCA(SingleMapLearner):
    """Neighbourhood components analysis: learn a map under which points find their own class.

    Parameters
    ----------
    objective : {"expected", "likelihood"}, default="expected"
        The maximised objective: the expected share of points that find their class, as in
        scikit-learn, or the mean logarithm of their probability to do so.
    max_iter : int, default=200
        The most iterations of L-BFGS, or, with `batch_size`, passes over the points.
    batch_size : int, optional
        Learn from random batches of about this size, for very many points, and in parts
        (`partial_fit`).
    init : {"identity"} or Metric, default="identity"
        Where to begin: Euclidean distance between scaled points, with |M|_F = 1, or a metric of
        your own.
    scale : {"auto", "standard", "unit", "cosine"} or None, default="auto"
        How X is scaled internally; the result applies to X as given. "standard" gives every feature
        unit variance, "unit" leaves features as they are, "cosine" divides each row by its length,
        and "auto" takes what suits Euclidean distance best (`scale_`). None is "unit".
    n_components : int, optional
        Rows of the map that is learned; by default as many as there are features.
    validation_fraction : float, "auto" or None, default="auto"
        Share of the data that trial fits hold out, to choose the number of iterations and how much
        of Euclidean distance to keep (`prior_share_`). None fits to the end. "auto" is 0.2 if y are
        labels and the scale is "auto"; it is None otherwise, with `warm_start` and in the paper's
        variant.
    validation : {"rows", "classes"}, default="rows"
        Whether labelled rows or whole classes are held out. Choose "classes" for a metric that is
        meant for classes it has not seen.
    tol : float, optional
        Relative decrease of the objective at which to end; by default 1e-6 for up to 1,000
        points and 1e-3 beyond, where more iterations do not improve neighbours.
    warm_start : bool, default=False
        Continue from `metric_`: the map of the last fit, or a metric that was assigned to it.
    random_state : int, RandomState or None, default=None
        For batches.
    n_jobs : int, optional
        Number of threads. None and -1 use all cores, -2 all but one.
    verbose : int, default=0
        1 shows progress on standard error.

    Attributes
    ----------
    metric_ : Metric
        The learned metric.
    components_ : array of shape (n_components, n_features)
        Its map L.
    history_ : History
        Objective (negative, to be minimised) after every iteration; ``history_.stopped`` says why
        they ended.
    n_iter_ : int
        Number of iterations.
    scale_ : str or None
        How X was scaled.
    prior_share_ : float
        Share of the prior in the mean squared distance, as chosen on held-out data.

    References
    ----------
    J. Goldberger, S. Roweis, G. Hinton, R. Salakhutdinov. Neighbourhood components analysis. 2004.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from nearfar import NCA
    >>> X, y = load_wine(return_X_y=True)
    >>> NCA(n_components=2).fit(X, y).transform(X).shape
    (178, 2)
    """

    small_tol: ClassVar[float] = 1e-6
    parameter_rules: ClassVar[dict[str, parameters.ParameterRule]] = {
        "objective": choice("expected", "likelihood"),
    }

    def __init__(
        self,
        *,
        objective: Literal["expected", "likelihood"] = "expected",
        max_iter: int = 200,
        batch_size: int | None = None,
        init: Init = "identity",
        scale: str | None = "auto",
        n_components: int | None = None,
        validation_fraction: ValidationFraction = "auto",
        validation: Validation = "rows",
        tol: float | None = None,
        warm_start: bool = False,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            max_iter=max_iter,
            init=init,
            scale=scale,
            n_components=n_components,
            validation_fraction=validation_fraction,
            validation=validation,
            tol=tol,
            warm_start=warm_start,
            random_state=random_state,
            n_jobs=n_jobs,
            verbose=verbose,
        )
        self.objective = objective
        self.batch_size = batch_size

    def _gain(self, log_p: Vector) -> tuple[float, Vector]:
        if self.objective == "likelihood":
            return float(log_p.sum()), np.ones(log_p.shape)
        p = np.exp(log_p)
        return float(p.sum()), p


class SparseNCA(SingleMapLearner):
    """Neighbourhood components analysis with a penalty on rank: a metric of few directions.

    Parameters
    ----------
    sparsity : float, default=0.01
        Penalty for a unit of the trace of M, on the mean over points. The larger it is, the lower
        the rank.
    variant : {"default", "paper"}, default="default"
        "paper" learns as the paper does, with one metric: see `mixture_nca`.
    max_iter : int, default=500
        The most iterations of L-BFGS, or, with `batch_size`, passes over the points.
    batch_size : int, optional
        Learn from random batches of about this size, for very many points. The noise of the steps
        keeps small directions alive: ranks stay high.
    init : {"identity"} or Metric, default="identity"
        Where to begin: Euclidean distance between scaled points, with |M|_F = 1, or a metric of
        your own.
    scale : {"auto", "standard", "unit", "cosine"} or None, default="auto"
        How X is scaled internally; the result applies to X as given. "standard" gives every feature
        unit variance, "unit" leaves features as they are, "cosine" divides each row by its length,
        and "auto" takes what suits Euclidean distance best (`scale_`). None is "unit".
    n_components : int, optional
        The most rows of the map; by default as many as there are features.
    validation_fraction : float or None, default=None
        Share of the data that trial fits hold out, to choose the number of iterations and how much
        of Euclidean distance to keep (`prior_share_`). None fits to the end: Euclidean distance
        would undo the low rank.
    validation : {"rows", "classes"}, default="rows"
        Whether labelled rows or whole classes are held out. Choose "classes" for a metric that is
        meant for classes it has not seen.
    tol : float, optional
        Relative decrease of the objective at which to end; by default 1e-8 for up to 1,000
        points and 1e-3 beyond, where more iterations do not improve neighbours.
    warm_start : bool, default=False
        Continue from `metric_`: the map of the last fit, or a metric that was assigned to it.
    random_state : int, RandomState or None, default=None
        For batches.
    n_jobs : int, optional
        Number of threads. None and -1 use all cores, -2 all but one.
    verbose : int, default=0
        1 shows progress on standard error.

    Attributes
    ----------
    metric_ : Metric
        The learned metric.
    components_ : array of shape (rank, n_features)
        Its map L.
    history_ : History
        Objective after every iteration; ``history_.stopped`` says why they ended.
    n_iter_ : int
        Number of iterations.
    scale_ : str or None
        How X was scaled.
    prior_share_ : float
        Share of the prior in the mean squared distance, as chosen on held-out data.

    References
    ----------
    Y. Hong, Q. Li, J. Jiang, Z. Tu. Learning a mixture of sparse distance metrics for
    classification and dimensionality reduction. CVPR 2011.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from nearfar import SparseNCA
    >>> X, y = load_wine(return_X_y=True)
    >>> [SparseNCA(sparsity=s).fit(X, y).metric_.n_components for s in (0.001, 0.1)]
    [4, 2]
    """

    small_tol: ClassVar[float] = 1e-8
    parameter_rules: ClassVar[dict[str, parameters.ParameterRule]] = {
        "sparsity": number(at_least=0.0),
        "variant": choice("default", "paper"),
    }

    def __init__(
        self,
        *,
        sparsity: float = 0.01,
        variant: Variant = "default",
        max_iter: int = 500,
        batch_size: int | None = None,
        init: Init = "identity",
        scale: str | None = "auto",
        n_components: int | None = None,
        validation_fraction: ValidationFraction = None,
        validation: Validation = "rows",
        tol: float | None = None,
        warm_start: bool = False,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            max_iter=max_iter,
            init=init,
            scale=scale,
            n_components=n_components,
            validation_fraction=validation_fraction,
            validation=validation,
            tol=tol,
            warm_start=warm_start,
            random_state=random_state,
            n_jobs=n_jobs,
            verbose=verbose,
        )
        self.sparsity = sparsity
        self.variant = variant
        self.batch_size = batch_size

    def _gain(self, log_p: Vector) -> tuple[float, Vector]:
        return float(log_p.sum()), np.ones(log_p.shape)

    def _build_problem(self, data: FitInput) -> Problem:
        if self.variant != "paper":
            return super()._build_problem(data)
        Z, unit = self._in_units(data.Z)
        points = SoftNeighbors(Z, self._labels(data.supervision))
        mixture = Mixture(points, 1, self.sparsity, gate_sparsity=0.0)
        starts = [mixture.start(self._first_map(Z, data, unit), data.random_state)]
        return MixtureProblem(
            [mixture], starts, unit, max_iter=self.max_iter, tol=0.0, printed=True
        )
