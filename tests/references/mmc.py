"""Metric learning for clustering (Xing et al. 2002) by a generic convex solver, a test oracle."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def scatter(u: Floats, weight: Floats, ridge: float = 0.0, shrinkage: float = 0.0) -> Floats:
    """Return the mean of u_k u_k', shrunk to a multiple of the identity."""
    total = np.zeros((u.shape[1], u.shape[1]))
    for k in range(len(u)):
        total += weight[k] / weight.sum() * np.outer(u[k], u[k])
    return (1.0 - shrinkage) * total + ridge * np.eye(len(total))


def objective(M: Floats, u: Floats, weight: Floats) -> float:
    """Return the mean distance of the pairs with differences u."""
    return sum(weight[k] / weight.sum() * float(np.sqrt(u[k] @ M @ u[k])) for k in range(len(u)))


def optimum(
    u: Floats, weight: Floats, S: Floats, prior: Floats, *, diagonal: bool
) -> tuple[Floats, float]:
    """Maximise `objective` of prior + M over psd M, or diagonal M, with tr(S M) <= 1.

    Returns
    -------
    M : (D, D) array
        The prior included.
    value : float
    """
    import cvxpy as cp

    D = u.shape[1]
    M = cp.diag(cp.Variable(D, nonneg=True)) if diagonal else cp.Variable((D, D), PSD=True)
    distances = [cp.sqrt(cp.trace((prior + M) @ np.outer(u[k], u[k]))) for k in range(len(u))]
    problem = cp.Problem(
        cp.Maximize(weight / weight.sum() @ cp.hstack(distances)), [cp.trace(S @ M) <= 1]
    )
    problem.solve(solver="CLARABEL")
    return prior + np.asarray(M.value), float(problem.value)
