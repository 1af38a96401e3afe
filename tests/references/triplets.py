"""Problems over psd matrices with triplets, by explicit matrices and a generic solver.

A is the (m, D, D) array of the A_r = (x_a - x_f)(x_a - x_f)' - (x_a - x_n)(x_a - x_n)'.
"""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import numpy.typing as npt
from scipy.optimize import linprog

Floats = npt.NDArray[np.float64]


def shares(m: int, weight: npt.ArrayLike | None) -> Floats:
    """Return weights that sum to one."""
    weight = np.ones(m) if weight is None else np.asarray(weight, dtype=np.float64)
    return weight / weight.sum()


def soft_margin(margins: Floats, p: Floats, nu: float) -> float:
    """Return max over rho of  rho - 1/nu sum_r p_r max(0, rho - m_r),  at one of the margins."""
    return max(float(rho - p @ np.maximum(0.0, rho - margins) / nu) for rho in margins)


def best_soft_margin(A: Floats, p: Floats, nu: float, P: Floats) -> tuple[float, Floats]:
    """Maximise the soft margin of P + X over psd X of trace one (PSDBoost), by cvxpy.

    Returns
    -------
    value : float
    X : (D, D) array
    """
    D = A.shape[1]
    X, rho, xi = cp.Variable((D, D), PSD=True), cp.Variable(), cp.Variable(len(A), nonneg=True)
    margins = A.reshape(len(A), -1) @ cp.vec(X + P, order="C")
    problem = cp.Problem(cp.Maximize(rho - p @ xi / nu), [margins >= rho - xi, cp.trace(X) == 1])
    problem.solve(solver="CLARABEL")
    return float(problem.value), X.value


def generate_matrices(A: Floats, p: Floats, nu: float, n_rounds: int) -> list[tuple[float, float]]:
    """PSDBoost as published: one leading eigenvector a round, at the last dual solution.

    Returns
    -------
    list of (float, float)
        Soft margin after each round, and the leading eigenvalue that its direction had.
    """
    u, found = p, []
    V: list[Floats] = []
    for _ in range(n_rounds):
        values, vectors = np.linalg.eigh(np.tensordot(u, A, 1))
        v = vectors[:, -1]
        V.append(np.array([v @ a @ v for a in A]))
        t, m = len(V), len(A)
        dual = linprog(
            np.append(np.zeros(m), 1.0),
            A_ub=np.column_stack([np.array(V), -np.ones(t)]),
            b_ub=np.zeros(t),
            A_eq=np.append(np.ones(m), 0.0)[None],
            b_eq=[1.0],
            bounds=[*zip(np.zeros(m), p / nu, strict=True), (None, None)],
        )
        u = dual.x[:m]
        found.append((float(dual.fun), float(values[-1])))
    return found


def frobenius_objective(M: Floats, A: Floats, p: Floats, C: float, P: Floats) -> float:
    """Return  1/2 |M - P|_F^2 + C sum_r p_r max(0, 1 - <A_r, M>),  triplet by triplet."""
    loss = sum(share * max(0.0, 1.0 - float((a * M).sum())) for a, share in zip(A, p, strict=True))
    return 0.5 * float(((M - P) ** 2).sum()) + C * loss


def frobenius_optimum(A: Floats, p: Floats, C: float, P: Floats) -> tuple[float, Floats]:
    """Minimise it over psd M (FrobMetric), by cvxpy.

    Returns
    -------
    value : float
    M : (D, D) array
    """
    D = A.shape[1]
    M = cp.Variable((D, D), PSD=True)
    margins = A.reshape(len(A), -1) @ cp.vec(M, order="C")
    loss = p @ cp.pos(1.0 - margins)
    problem = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(M - P) + C * loss))
    problem.solve(solver="CLARABEL")
    return float(problem.value), M.value
