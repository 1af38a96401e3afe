"""The problem of msNCA on points and labels, and two ways down; see `msnca` for its formulas."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import log_softmax, logsumexp, softmax
from sklearn.cluster import KMeans

from nearfar.learners.nca.neighborhoods import Chances, Neighborhoods
from nearfar.numerics.lbfgs import Bounds, iterations_from, lbfgs
from nearfar.runtime.history import Iteration, Iterations
from nearfar.runtime.recall_stub import recall
from nearfar.runtime.threads import single_threaded_blas
from nearfar.typing import Matrix, Vector

_STEP = 0.02


@dataclass(frozen=True)
class Model:
    """Vector of the metrics, and the gate.

    Attributes
    ----------
    L : array of shape (n_metrics, k, n_features)
    V : array of shape (n_metrics, n_features)
    b : array of shape (n_metrics,)
    share : array of shape (n_metrics,) or None
        Mean of the gate over the points, once learned.
    """

    L: Vector
    V: Matrix
    b: Vector
    share: Vector | None = None


@dataclass(frozen=True)
class Slope:
    """Mean log-likelihood, and its derivatives by log p and by the gate."""

    value: float
    by_log_p: Matrix
    by_weights: Matrix
    by_offsets: Vector


@dataclass(frozen=True)
class Mixture:
    """The problem (11) on points and labels.

    Attributes
    ----------
    points : Neighborhoods
    number : int
        How many metrics.
    sparsity, gate_sparsity : float
    """

    points: Neighborhoods
    number: int
    sparsity: float
    gate_sparsity: float

    def start(self, L: Matrix, random_state: np.random.RandomState) -> Model:
        """Equal metrics, and a gate between clusters."""
        S, D = self.number, L.shape[1]
        maps = np.repeat(L[None], S, axis=0)
        if S == 1:
            return Model(maps, np.zeros((1, D)), np.zeros(1))
        # Recorded, as threads of k-means add up in any order.
        (centers,) = recall(
            "clusters", lambda: self._cluster(random_state), random_state=random_state
        )
        return Model(maps, centers, -0.5 * (centers**2).sum(axis=1))

    def _cluster(self, random_state: np.random.RandomState) -> tuple[Matrix]:
        with single_threaded_blas():
            clusters = KMeans(self.number, n_init=1, random_state=random_state).fit(self.points.X)
        return (np.asarray(clusters.cluster_centers_, dtype=np.float64),)

    def with_share(self, model: Model) -> Model:
        """Add the mean gate."""
        gate = softmax(self.points.X @ model.V.T + model.b, axis=1)
        return replace(model, share=np.asarray(gate.mean(axis=0), dtype=np.float64))

    def slope(self, log_p: Matrix, model: Model) -> Slope:
        """Likelihood for given chances under each metric, of shape (n_samples, n_metrics)."""
        asked = self.points.asked
        X = self.points.X[asked]
        log_gate = log_softmax(X @ model.V.T + model.b, axis=1)
        joint = log_gate + log_p[asked]
        likelihood = logsumexp(joint, axis=1)
        shares = np.exp(joint - likelihood[:, None])
        n = len(X)
        excess = (shares - np.exp(log_gate)) / n
        by_log_p = np.zeros(log_p.shape)
        by_log_p[asked] = shares / n
        return Slope(
            float(likelihood.mean()),
            by_log_p,
            np.asarray(excess.T @ X, dtype=np.float64),
            excess.sum(axis=0),
        )

    def value(self, model: Model) -> tuple[float, Model]:
        """Return (11) but for the price of the gate, and its gradient."""
        chances, slope = self._asked(model)
        by_L = np.array(
            [
                2 * self.sparsity * L - self.points.gradient(c, g, L)
                for L, c, g in zip(model.L, chances, slope.by_log_p.T, strict=True)
            ]
        )
        value = -slope.value + self.sparsity * float((model.L**2).sum())
        return value, Model(by_L, -slope.by_weights, -slope.by_offsets)

    def descend(self, model: Model, *, max_iter: int, tol: float) -> Iterations:
        """Minimise (11) over all maps and the gate."""
        L, V = model.L.shape, model.V.shape
        ends = np.cumsum([model.L.size, model.V.size, model.V.size])

        def unpack(flat: Vector) -> Model:
            maps, plus, minus, b = np.split(flat, ends)
            return Model(maps.reshape(L), (plus - minus).reshape(V), b)

        def objective(flat: Vector) -> tuple[float, Vector]:
            value, by = self.value(unpack(flat))
            size, gate = float(flat[ends[0] : ends[2]].sum()), by.V.ravel()
            parts = [by.L.ravel(), gate + self.gate_sparsity, self.gate_sparsity - gate, by.b]
            return value + self.gate_sparsity * size, np.concatenate(parts)

        first = np.concatenate(
            [model.L.ravel(), np.maximum(model.V, 0).ravel(), np.maximum(-model.V, 0).ravel()]
        )
        bounds: Bounds = [(None, None)] * model.L.size + [(0.0, None)] * (2 * model.V.size)
        bounds += [(None, None)] * len(model.b)
        steps = lbfgs(
            objective, np.append(first, model.b), max_iter=max_iter, tol=tol, bounds=bounds
        )

        def round_of(value: float, flat: Vector) -> Iteration:
            return Iteration(value, np.nan, np.nan, model=self.with_share(unpack(flat)))

        return iterations_from(steps, round_of)

    def descend_as_printed(self, model: Model, *, max_iter: int) -> Iterations:
        """Fixed steps on M_s, V and b, with |M_s|_F = 1 (section 3.3)."""
        n = int(self.points.asked.sum())
        M = np.array([L.T @ L / np.linalg.norm(L.T @ L) for L in model.L])
        model = _rooted(M, model.V, model.b)
        asked: tuple[list[Chances], Slope] | None = None

        def step() -> tuple[float, Vector, Matrix, Vector]:
            nonlocal asked
            chances, slope = asked or self._asked(model)
            by_M = []
            for m, c, g in zip(M, chances, slope.by_log_p.T, strict=True):
                G = -n * self.points.matrix_gradient(c, g)
                by_M.append(G - (G * m).sum() * m + self.sparsity * np.eye(len(m)))
            sign = np.where(model.V >= 0, 1.0, -1.0)
            V = model.V - _STEP * (-n * slope.by_weights + self.gate_sparsity * sign)
            b = model.b + _STEP * n * slope.by_offsets
            moved = np.array([_clipped(m - _STEP * d) for m, d in zip(M, by_M, strict=True)])
            asked = self._asked(_rooted(moved, V, b))
            penalty = self.sparsity * float(np.trace(moved, axis1=1, axis2=2).sum())
            penalty += self.gate_sparsity * float(np.abs(V).sum())
            return penalty - n * asked[1].value, moved, V, b

        for _ in range(max_iter):
            objective, M, V, b = recall("step", step, given=M)
            model = _rooted(M, V, b)
            yield Iteration(objective, np.nan, np.nan, model=self.with_share(model))
        return "max_iter"

    def _asked(self, model: Model) -> tuple[list[Chances], Slope]:
        """Chances under every metric, and the likelihood that they have together."""
        chances = [self.points.chances(L) for L in model.L]
        return chances, self.slope(np.column_stack([c.log_p for c in chances]), model)


def _rooted(M: Vector, V: Matrix, b: Vector) -> Model:
    return Model(np.array([_root(m) for m in M]), V, b)


def _root(M: Matrix) -> Matrix:
    """Square L with L'L = M."""
    values, vectors = np.linalg.eigh(M)
    return np.asarray(np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T)


def _clipped(M: Matrix) -> Matrix:
    """Cut negative eigenvalues off (18), and return to |M|_F = 1."""
    values, vectors = np.linalg.eigh(M)
    size = np.linalg.norm(np.maximum(values, 0.0))
    if size == 0:
        raise ValueError("A metric has become zero; a smaller sparsity or fewer steps are needed.")
    return np.asarray((vectors * (np.maximum(values, 0.0) / size)) @ vectors.T)
