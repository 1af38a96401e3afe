"""Plain least squared-residual metric learning (Liu et al. 2012), a test oracle.

min  sum_k w_k max(0, d(anchor, near) - d(anchor, far))^2 + tr(M P^-1) - log det(M P^-1) - D
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def objective(M: Floats, near: Floats, far: Floats, weight: Floats, prior: Floats) -> float:
    """Return the value at M, for differences (n, D) of the anchors to near and far points."""
    total = 0.0
    for k in range(len(near)):
        residual = np.sqrt(near[k] @ M @ near[k]) - np.sqrt(far[k] @ M @ far[k])
        total += weight[k] * max(0.0, float(residual)) ** 2
    ratio = M @ np.linalg.inv(prior)
    return total + float(np.trace(ratio)) - float(np.linalg.slogdet(ratio)[1]) - len(M)


def gradient(M: Floats, near: Floats, far: Floats, weight: Floats, prior: Floats) -> Floats:
    """Return the derivative by M."""
    total = np.linalg.inv(prior) - np.linalg.inv(M)
    for k in range(len(near)):
        d, e = np.sqrt(near[k] @ M @ near[k]), np.sqrt(far[k] @ M @ far[k])
        if d > e:
            total = total + weight[k] * (1.0 - e / d) * np.outer(near[k], near[k])
            total = total + weight[k] * (1.0 - d / e) * np.outer(far[k], far[k])
    return total


def descend(
    near: Floats, far: Floats, weight: Floats, prior: Floats, max_steps: int = 20_000
) -> Floats:
    """Go down the natural gradient M grad M with halved steps, from the prior on."""
    M, step = prior.copy(), 1.0
    value = objective(M, near, far, weight, prior)
    for _ in range(max_steps):
        direction = M @ gradient(M, near, far, weight, prior) @ M
        while step > 1e-14:
            trial = M - step * direction
            if np.linalg.eigvalsh(trial)[0] > 0:
                reached = objective(trial, near, far, weight, prior)
                if reached < value:
                    break
            step /= 2
        else:
            return M
        M, value, step = trial, reached, 2 * step
    raise AssertionError(f"not converged in {max_steps} steps")


def optimum(near: Floats, far: Floats, weight: Floats, prior: Floats) -> tuple[Floats, float]:
    """Solve by cvxpy and Clarabel.

    max(0, sqrt a - sqrt b)^2 is the minimum over t <= b of a + t - 2 sqrt(a t).
    """
    import cvxpy as cp

    n, D = near.shape
    M = cp.Variable((D, D), PSD=True)
    t = cp.Variable(n, nonneg=True)
    loss, bounds = 0, []
    for k in range(n):
        a = cp.trace(M @ np.outer(near[k], near[k]))
        bounds.append(t[k] <= cp.trace(M @ np.outer(far[k], far[k])))
        loss += weight[k] * (a + t[k] - 2 * cp.geo_mean(cp.hstack([a, t[k]])))
    divergence = cp.trace(M @ np.linalg.inv(prior)) - cp.log_det(M) - D
    problem = cp.Problem(cp.Minimize(loss + divergence), bounds)
    problem.solve(solver="CLARABEL")
    return np.asarray(M.value), float(problem.value + np.linalg.slogdet(prior)[1])
