"""The problem of a mixture: its starts, and the gated metric that it ends in."""

from __future__ import annotations

import itertools
import math
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import softmax

from nearfar.learners.nca.base import NeighborhoodProblem, nonzero_rows
from nearfar.learners.nca.soft_neighbors import SoftNeighbors
from nearfar.learners.problem import MetricBuilder
from nearfar.metrics.gated import GatedMetric
from nearfar.metrics.metric import Metric
from nearfar.runtime.history import History, Iteration, Iterations, map_iterations
from nearfar.typing import Floats, Ints, Matrix, Vector

if TYPE_CHECKING:
    from nearfar.learners.nca.mixture_nca import Mixture, MixtureModel

_COARSE_ROWS = 1000
_ROWS_PER_CLASS = 8
_GROWTH = 4
_COARSE_TOLERANCE = 1e-3
_SMALLEST_SHARE = 1e-3
"""Mean of the gate below which a metric counts as unused."""

_UNUSED = "unused"
_USE_IS_CHECKED = 5
"""Iterations after which it is looked at again."""


def coarse_to_fine(
    Z: Floats, codes: Ints, random_state: np.random.RandomState, axes: Matrix | None = None
) -> list[SoftNeighbors]:
    """Return random parts of the points that grow up to all of them.

    Pairs grow with the square of the points: most iterations run on few points, where they cost
    little, and the last ones on all. Each class has its share of every part, and at least two
    members. Up to twice the smallest part there is one stage.
    """
    sizes = np.bincount(codes)
    n = len(codes)
    size = max(_COARSE_ROWS, _ROWS_PER_CLASS * int(np.count_nonzero(sizes)))
    order = random_state.permutation(n) if n > 2 * size else np.arange(n)
    # Place of each row among those of its class, in random order.
    by_class = order[np.argsort(codes[order], kind="stable")]
    first = np.repeat(np.concatenate([[0], np.cumsum(sizes)[:-1]]), sizes)
    place = np.empty(n, dtype=np.intp)
    place[by_class] = np.arange(n) - first
    stages = []
    while 2 * size < n:
        rows = np.flatnonzero(place < np.maximum(2, np.ceil(sizes * size / n))[codes])
        stages.append(SoftNeighbors(Z[rows], codes[rows], axes))
        size *= _GROWTH
    return [*stages, SoftNeighbors(Z, codes, axes)]


class MixtureProblem(NeighborhoodProblem):
    """A mixture and its starts.

    Parameters
    ----------
    mixtures : list of Mixture
        The same mixture over growing parts of the points.
    starts : list of MixtureModel
    unit : float
    max_iter : int
        The most iterations of each start.
    tol : float
    paper : bool
        Whether to learn as the paper does.
    axes : array of shape (n_features, n_axes), optional
        Axes of the coordinates that maps are of, if these are not the features.
    """

    stops_early = False

    def __init__(
        self,
        mixtures: list[Mixture],
        starts: list[MixtureModel],
        unit: float,
        *,
        max_iter: int,
        tol: float,
        paper: bool,
        axes: Matrix | None = None,
    ) -> None:
        self.mixtures, self.starts, self.unit, self.tol = mixtures, starts, unit, tol
        self.axes = axes
        self.exact_rows = axes is not None
        self.iterations_per_start, self.fixed_iterations = max_iter, paper
        self.max_iter = max_iter * len(starts) + (len(starts) > 1)

    def solve(self) -> Iterations:
        """Minimise from every start; the last iteration is that of the best one."""
        results: list[tuple[Iteration, str]] = []
        last = Iteration(math.inf)

        def numbered(iteration: Iteration) -> Iteration:
            nonlocal last
            last = replace(iteration, restart=len(results))
            return last

        for start in self.starts:
            reason = yield from map_iterations(self._minimize(start), numbered)
            results.append((last, reason))
        best, reason = min(results, key=lambda result: result[0].objective)
        if best is not last:
            yield best
        return reason

    def _minimize(self, start: MixtureModel) -> Iterations:
        """Minimise over growing parts of the points, each from where the last one ended."""
        if self.fixed_iterations:
            whole = self.mixtures[-1]
            return (
                yield from whole.minimize_as_in_paper(start, max_iter=self.iterations_per_start)
            )
        left, reason = self.iterations_per_start, "max_iter"
        for mixture in self.mixtures:
            n_rows = len(mixture.points.X)
            tol = self.tol if mixture is self.mixtures[-1] else _COARSE_TOLERANCE

            def stamped(iteration: Iteration, n_rows: int = n_rows) -> Iteration:
                nonlocal left, start
                left, start = left - 1, iteration.payload
                return replace(iteration, n_rows=n_rows)

            reason = _UNUSED
            while reason == _UNUSED:
                start = _without_unused(start, mixture)
                steps = mixture.minimize(start, max_iter=left, tol=tol)
                reason = yield from map_iterations(_while_used(steps, mixture), stamped)
            if left <= 0:
                break
        return reason

    def metric(self, history: History, builder: MetricBuilder) -> Metric:
        """Return the metrics of the last iteration with their gate; one alone has none."""
        model = history[-1].payload
        sparse = self.mixtures[-1].sparsity > 0
        largest = max(float(np.linalg.norm(L, 2)) ** 2 for L in model.L)
        maps = [nonzero_rows(L, largest) if sparse else L for L in model.L]
        metrics = [builder.build(L if self.axes is None else L @ self.axes.T) for L in maps]
        if len(metrics) == 1:
            return metrics[0]
        V = model.V / builder.scale
        return GatedMetric(metrics, V, model.b - V @ builder.center)

    def attributes(self, history: History, builder: MetricBuilder) -> dict[str, Any]:
        """The local metrics, the gate, and the number of metrics in use."""
        model = history[-1].payload
        shares = _shares(model, self.mixtures[-1])
        V = model.V / builder.scale
        return {
            "metrics_": list(self.metric(history, builder).parts),
            "gate_": (V, model.b - V @ builder.center),
            "n_metrics_": int(np.count_nonzero(shares > _SMALLEST_SHARE)),
        }


def _shares(model: MixtureModel, mixture: Mixture) -> Vector:
    """Return the mean of the gate over the points, for each metric."""
    gate = softmax(mixture.points.features @ model.V.T + model.b, axis=1)
    return np.asarray(gate.mean(axis=0), dtype=np.float64)


def _without_unused(model: MixtureModel, mixture: Mixture) -> MixtureModel:
    """Drop metrics that no point goes by, if they are not worth their penalties.

    Each costs as much as one that is used.
    """
    used = _shares(model, mixture) > _SMALLEST_SHARE
    if used.all():
        return model
    fewer = replace(model, L=model.L[used], V=model.V[used], b=model.b[used])
    return fewer if mixture.objective(fewer) <= mixture.objective(model) else model


def _while_used(steps: Iterations, mixture: Mixture) -> Iterations:
    """Pass iterations on until a metric can be dropped."""
    with closing(steps):
        for number in itertools.count(1):
            try:
                iteration = next(steps)
            except StopIteration as end:
                return str(end.value)
            yield iteration
            model = iteration.payload
            if number % _USE_IS_CHECKED == 0 and _without_unused(model, mixture) is not model:
                break
    return _UNUSED
