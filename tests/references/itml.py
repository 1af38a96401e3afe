"""Plain information-theoretic metric learning (Davis et al. 2007), a test oracle.

`cyclic_projections` is Algorithm 1 with explicit loops. Its printed step, which is for gamma = 1,
is here the one that makes both divergences fall for any gamma:

    alpha = gamma / (gamma + 1) delta (1 / p - 1 / xi)
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def cyclic_projections(
    u: Floats,
    similar: npt.ArrayLike,
    bounds: tuple[float, float],
    gamma: Floats,
    prior: Floats,
    tol: float = 1e-14,
    max_passes: int = 20_000,
) -> tuple[Floats, Floats]:
    """Project on one pair after the other until a pass changes no multiplier by more than `tol`.

    Parameters
    ----------
    u : (n, D) array
        Differences of the pairs.
    similar : (n,) array of bool
    bounds : (float, float)
        Squared distances.
    gamma : (n,) array
        Weight of each slack.
    prior : (D, D) array

    Returns
    -------
    M : (D, D) array
    multipliers : (n,) array
        lambda_k >= 0 with M^-1 = prior^-1 + sum_k delta_k lambda_k u_k u_k'.
    """
    delta = [1.0 if flag else -1.0 for flag in np.asarray(similar)]
    xi = [bounds[0] if flag else bounds[1] for flag in np.asarray(similar)]
    multipliers = np.zeros(len(u))
    M = prior.copy()
    for _ in range(max_passes):
        largest = 0.0
        for k in range(len(u)):
            p = float(u[k] @ M @ u[k])
            share = gamma[k] / (gamma[k] + 1.0)
            alpha = min(multipliers[k], share * delta[k] * (1.0 / p - 1.0 / xi[k]))
            beta = delta[k] * alpha / (1.0 - delta[k] * alpha * p)
            xi[k] = gamma[k] * xi[k] / (gamma[k] + delta[k] * alpha * xi[k])
            multipliers[k] -= alpha
            Mu = M @ u[k]
            M = M + beta * np.outer(Mu, Mu)
            largest = max(largest, abs(alpha) * p)
        if largest <= tol:
            return M, multipliers
    raise AssertionError(f"not converged in {max_passes} passes")


def slack_optimum(
    u: Floats,
    similar: npt.ArrayLike,
    bounds: tuple[float, float],
    gamma: Floats,
    prior: Floats,
) -> tuple[Floats, float]:
    """Minimise problem (5), slack variables and all, by cvxpy and Clarabel."""
    import cvxpy as cp

    n, D = u.shape
    M = cp.Variable((D, D), PSD=True)
    xi = cp.Variable(n, pos=True)
    target = np.where(np.asarray(similar), *bounds)
    divergence = cp.trace(M @ np.linalg.inv(prior)) - cp.log_det(M) - D
    slack = gamma @ (cp.multiply(xi, 1.0 / target) - cp.log(xi) + np.log(target) - 1.0)
    kept = []
    for k in range(n):
        z = cp.trace(M @ np.outer(u[k], u[k]))
        kept.append(z <= xi[k] if similar[k] else z >= xi[k])
    problem = cp.Problem(cp.Minimize(divergence + slack), kept)
    problem.solve(solver="CLARABEL")
    return np.asarray(M.value), float(problem.value + np.linalg.slogdet(prior)[1])
