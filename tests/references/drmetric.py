"""Brute-force DRMetric (Liu, Vemuri, ECCV 2012), a test oracle.

Numbers in brackets are the paper's equations. V is the (N, t) matrix of the v_nl of (3).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import linprog

Floats = npt.NDArray[np.float64]

KKT_TOLERANCE = 1e-11
LP_TOLERANCE = 1e-10


@dataclass(frozen=True)
class Iteration:
    """State after round t.

    Attributes
    ----------
    direction : (D,) array
        The unit eigenvector u_t found in this round, its largest entry positive.
    eigenvalue : float
        Its eigenvalue, the penalty for overlap included.
    w : (t,) array
        Weights of all the directions so far.
    d : (N,) array
        Triplet weights.
    value : float
        Optimum of the problem that `w` solves.
    M : (D, D) array
        Sum of ``w[l] * outer(u_l, u_l)``.
    """

    direction: Floats
    eigenvalue: float
    w: Floats
    d: Floats
    value: float
    M: Floats


def run(
    X: npt.ArrayLike,
    triplets: npt.ArrayLike,
    *,
    weight: npt.ArrayLike | None = None,
    n_rounds: int,
    cap: float = 10.0,
    margin_tol: float = 0.1,
    independence: float = 0.1,
    weights: str = "entropy",
    as_printed: bool = False,
    unit: float | None = None,
    offset: npt.ArrayLike | None = None,
) -> list[Iteration]:
    """Run Algorithm 1, in the order u, w, d.

    Parameters
    ----------
    X : (n, D) array
        Points, already scaled.
    triplets : (N, 3) array
        Rows (anchor, near, far).
    weight : (N,) array, optional
        Triplet weights, equal by default; d0 is these over their sum.
    n_rounds : int
        Number of rounds, all of which are run.
    cap : float
        Largest triplet weight alpha, as a multiple of 1/N.
    margin_tol : float
        The epsilon of footnote 2.
    independence : float
        Penalty lambda on overlap, relative to the largest eigenvalue of A(d0).
    weights : {"entropy", "lp"}
        Whether w solves the dual of (9) or the linear programme (4).
    as_printed : bool
        Order u, d, w; d clipped without renormalising; lambda absolute; d0 not capped.
    unit : float, optional
        Divisor of all squared distances, the largest of a triplet edge by default.
    offset : (N,) array, optional
        Margins of a fixed prior, already divided by the unit, added to the learned ones.

    Returns
    -------
    list of Iteration
        One for each round.
    """
    points = np.asarray(X, dtype=np.float64)
    rows = np.asarray(triplets, dtype=np.int64).reshape(-1, 3)
    N, D = len(rows), points.shape[1]
    if unit is None:
        unit = largest_edge(points, rows)
    d0 = np.ones(N) if weight is None else np.asarray(weight, dtype=np.float64)
    d0 = d0 / np.sum(d0)
    prior = np.zeros(N) if offset is None else np.asarray(offset, dtype=np.float64)
    alpha = cap / N
    c = inverse_temperature(d0, D, margin_tol)
    lam = independence
    if not as_printed:
        lam = independence * _leading(_weighted_matrix(points, rows, d0, unit))[0]

    d = d0 if as_printed else capped(d0, alpha)
    directions: list[Floats] = []
    w = np.zeros(0)
    V = np.zeros((N, 0))
    rounds: list[Iteration] = []
    for t in range(n_rounds):
        A = _weighted_matrix(points, rows, d, unit)
        for u in directions:
            A = A - lam * np.outer(u, u)
        eigenvalue, direction = _leading(A)
        if as_printed and t > 0:
            q = _softmax(_log(d0) - c * (prior + V @ w))
            d = np.minimum(q, alpha)
        directions.append(direction)
        V = np.column_stack([V, responses(points, rows, direction, unit)])
        if weights == "entropy":
            value, w = entropic(V, d0, alpha, c, prior)
        elif weights == "lp":
            value, w = soft_margin_lp(V, alpha, prior)
        else:
            raise ValueError(f"unknown weights {weights!r}")
        if not as_printed:
            d = triplet_weights(V, w, d0, alpha, c, prior)
        M = np.zeros((D, D))
        for share, u in zip(w, directions, strict=True):
            M = M + share * np.outer(u, u)
        rounds.append(Iteration(direction, eigenvalue, w, d, value, M))
    return rounds


def largest_edge(points: Floats, rows: npt.NDArray[np.int64]) -> float:
    """Return the largest squared distance from an anchor to its near or far point."""
    largest = 0.0
    for i, j, k in rows:
        largest = max(largest, float(np.sum((points[i] - points[j]) ** 2)))
        largest = max(largest, float(np.sum((points[i] - points[k]) ** 2)))
    return largest


def responses(
    points: Floats, rows: npt.NDArray[np.int64], direction: Floats, unit: float
) -> Floats:
    """Return the (N,) v_nl of (3) for one direction, divided by `unit`."""
    v = np.zeros(len(rows))
    for n, (i, j, k) in enumerate(rows):
        far = float(np.dot(points[i] - points[k], direction))
        near = float(np.dot(points[i] - points[j], direction))
        v[n] = (far**2 - near**2) / unit
    return v


def inverse_temperature(d0: Floats, D: int, margin_tol: float) -> float:
    """Return c of (12), with eta of footnote 2."""
    N = len(d0)
    eta = margin_tol * np.sqrt(1.0 + (np.log(N) - 1.0) ** 2) / (2.0 * np.log(N * D))
    spread = 0.0
    for share in d0:
        if share > 0.0:
            spread += share * (1.0 + np.log(share)) ** 2
    return float(np.sqrt(1.0 + spread) / eta)


def capped(q: npt.ArrayLike, alpha: float) -> Floats:
    """Return min(alpha, tau q) with tau such that the sum is one."""
    return _fill(_log(np.asarray(q, dtype=np.float64)), alpha)


def triplet_weights(
    V: Floats, w: Floats, d0: Floats, alpha: float, c: float, offset: Floats | None = None
) -> Floats:
    """Return d(w): q of (12), capped at `alpha` and summing to one."""
    return _fill(_log(d0) - c * _margins(V, w, offset), alpha)


def entropic_value(
    V: Floats, w: Floats, d0: Floats, alpha: float, c: float, offset: Floats | None = None
) -> float:
    """Return g(w), the least over capped d of sum_n d_n margin_n + KL(d, d0) / c."""
    margins = _margins(V, w, offset)
    d = triplet_weights(V, w, d0, alpha, c, offset)
    value = 0.0
    for n in range(len(d)):
        if d[n] > 0.0:
            value += d[n] * margins[n] + d[n] * np.log(d[n] / d0[n]) / c
    return float(value)


def kkt_residual(
    V: Floats, w: Floats, d0: Floats, alpha: float, c: float, offset: Floats | None = None
) -> float:
    """Return how far w, a point of the simplex, is from maximising g, relative to max |V|.

    The gradient of g is V'd(w). At the maximum it takes its largest value at every positive w_l.
    """
    gradient = V.T @ triplet_weights(V, w, d0, alpha, c, offset)
    return float(np.max(gradient) - np.min(gradient[w > 0.0])) / float(np.max(np.abs(V)))


def curvature(
    V: Floats, w: Floats, d0: Floats, alpha: float, c: float, offset: Floats | None = None
) -> float:
    """Return the least curvature of -g at w along the face of the simplex w is in.

    It bounds the error of w: an error e of the gradient moves w by up to e / curvature.
    A vertex has none: infinity.
    """
    face = np.flatnonzero(w > 0.0)
    if len(face) == 1:
        return float("inf")
    d = triplet_weights(V, w, d0, alpha, c, offset)
    Z = _zero_sum_basis(len(face))
    return float(np.linalg.eigvalsh(Z.T @ _minus_hessian(V[:, face], d, alpha, c) @ Z)[0])


def entropic(
    V: Floats, d0: Floats, alpha: float, c: float, offset: Floats | None = None
) -> tuple[float, Floats]:
    """Maximise g over the simplex: the dual of (9), hence the w that belongs to d of (12).

    Newton steps with an exact line search within a face of the simplex; the face loses a
    coordinate that reaches zero, and, when its maximum is found, gains the one that g grows
    fastest along. The result is checked.

    Returns
    -------
    value : float
        The maximum of g.
    w : (t,) array
        A maximiser, with exact zeros. Unique if `curvature` is positive and the gradient at
        the zeros is below its maximum.

    Raises
    ------
    RuntimeError
        If the optimality conditions do not hold to `KKT_TOLERANCE`.
    """
    t = V.shape[1]
    scale = float(np.max(np.abs(V)))
    face = list(range(t))
    w = np.full(t, 1.0 / t)
    best = np.inf
    stalled = 0
    for _ in range(2000):
        d = triplet_weights(V, w, d0, alpha, c, offset)
        gradient = V.T @ d / scale
        residual = float(np.ptp(gradient[face]))
        stalled = 0 if residual < 0.5 * best else stalled + 1
        best = min(best, residual)
        if residual == 0.0 or (stalled >= 5 and residual < 0.1 * KKT_TOLERANCE):
            entering = int(np.argmax(gradient))
            if entering in face or gradient[entering] - max(gradient[face]) < 0.1 * KKT_TOLERANCE:
                break
            face.append(entering)
            best, stalled = np.inf, 0
        step = _newton_step(V[:, face] / scale, gradient[face], d, alpha, c * scale)
        p = np.zeros(t)
        p[face] = step

        def slope(s: float, w: Floats = w, p: Floats = p) -> float:
            return float(p @ (V.T @ triplet_weights(V, w + s * p, d0, alpha, c, offset)))

        longest, blocking = 1.0, -1
        for m in face:
            if p[m] < 0.0 and w[m] + longest * p[m] <= 0.0:
                longest, blocking = w[m] / -p[m], m
        length = _last_ascent(slope, longest)
        w = np.maximum(w + length * p, 0.0)
        if blocking >= 0 and length == longest:
            w[blocking] = 0.0
            face.remove(blocking)
            best, stalled = np.inf, 0
        w = w / np.sum(w)
    residual = kkt_residual(V, w, d0, alpha, c, offset)
    if not residual <= KKT_TOLERANCE:
        raise RuntimeError(f"the entropic problem is not solved: residual {residual}")
    return entropic_value(V, w, d0, alpha, c, offset), w


def soft_margin_lp(V: Floats, alpha: float, offset: Floats | None = None) -> tuple[float, Floats]:
    """Solve (4): maximise rho - alpha sum_n zeta_n, offset_n + sum_l w_l v_nl >= rho - zeta_n.

    Return the value and w, which need not be unique.
    """
    N, t = V.shape
    margins = np.zeros(N) if offset is None else np.asarray(offset, dtype=np.float64)
    scale = float(max(np.max(np.abs(V)), np.max(np.abs(margins))))
    # Variables: w (t of them), rho, zeta (N of them).
    cost = np.concatenate([np.zeros(t), [-1.0], np.full(N, alpha)])
    rows = np.hstack([-V / scale, np.ones((N, 1)), -np.eye(N)])
    simplex = np.concatenate([np.ones(t), [0.0], np.zeros(N)]).reshape(1, -1)
    found = linprog(
        cost,
        A_ub=rows,
        b_ub=margins / scale,
        A_eq=simplex,
        b_eq=[1.0],
        bounds=[(0.0, None)] * t + [(None, None)] + [(0.0, None)] * N,
        method="highs",
        options={
            "primal_feasibility_tolerance": LP_TOLERANCE,
            "dual_feasibility_tolerance": LP_TOLERANCE,
        },
    )
    if found.x is None or found.fun is None or found.status != 0:
        raise RuntimeError(found.message)
    w = np.maximum(found.x[:t], 0.0)
    return -float(found.fun) * scale, w / np.sum(w)


def soft_margin_dual(V: Floats, alpha: float, offset: Floats | None = None) -> tuple[float, Floats]:
    """Solve (6): minimise max_l sum_n d_n (offset_n + v_nl) over the capped simplex.

    Return the value and d.
    """
    N, t = V.shape
    margins = np.zeros(N) if offset is None else np.asarray(offset, dtype=np.float64)
    scale = float(max(np.max(np.abs(V)), np.max(np.abs(margins))))
    # Variables: d (N of them), beta.
    rows = np.hstack([(V + margins[:, None]).T / scale, -np.ones((t, 1))])
    found = linprog(
        np.concatenate([np.zeros(N), [1.0]]),
        A_ub=rows,
        b_ub=np.zeros(t),
        A_eq=np.concatenate([np.ones(N), [0.0]]).reshape(1, -1),
        b_eq=[1.0],
        bounds=[(0.0, alpha)] * N + [(None, None)],
        method="highs",
        options={
            "primal_feasibility_tolerance": LP_TOLERANCE,
            "dual_feasibility_tolerance": LP_TOLERANCE,
        },
    )
    if found.x is None or found.fun is None or found.status != 0:
        raise RuntimeError(found.message)
    return float(found.fun) * scale, np.asarray(found.x[:N], dtype=np.float64)


def _fill(log_q: Floats, alpha: float) -> Floats:
    """Return min(alpha, tau q), summing to one, from the logarithm of q.

    Share out the mass in proportion to q. Whatever exceeds alpha is set to alpha, and the rest
    of the mass is shared out again among the rest: tau only grows, so what is capped stays so.
    """
    free = log_q > -np.inf
    if np.sum(free) * alpha < 1.0 - 1e-12:
        raise ValueError("too few positive weights for the cap")
    d = np.zeros(len(log_q))
    n_capped = 0
    while np.any(free):
        d[free] = max(1.0 - alpha * n_capped, 0.0) * _softmax(log_q[free])
        over = free & (d > alpha)
        if not np.any(over):
            break
        d[over] = alpha
        free = free & ~over
        n_capped += int(np.sum(over))
    return d


def _newton_step(V: Floats, gradient: Floats, d: Floats, alpha: float, c: float) -> Floats:
    """Return the zero-sum Newton step, an ascent direction even where the curvature vanishes."""
    t = V.shape[1]
    if t == 1:
        return np.zeros(1)
    Z = _zero_sum_basis(t)
    values, vectors = np.linalg.eigh(Z.T @ _minus_hessian(V, d, alpha, c) @ Z)
    values = np.maximum(values, 1e-13 * c)
    step: Floats = Z @ (vectors @ ((vectors.T @ (Z.T @ gradient)) / values))
    return step


def _minus_hessian(V: Floats, d: Floats, alpha: float, c: float) -> Floats:
    """Return c V'(diag(d) - d d' / sum(d)) V over the triplets below the cap."""
    below = d < alpha
    total = float(np.sum(d[below]))
    if total == 0.0:
        return np.zeros((V.shape[1], V.shape[1]))
    mean = V[below].T @ d[below] / total
    H = np.zeros((V.shape[1], V.shape[1]))
    for n in np.flatnonzero(below):
        H += c * d[n] * np.outer(V[n] - mean, V[n] - mean)
    return H


def _last_ascent(slope: Callable[[float], float], longest: float) -> float:
    """Return the largest s in [0, longest] up to which `slope`, a falling function, is positive."""
    if slope(longest) >= 0.0:
        return longest
    low, high = 0.0, longest
    for _ in range(60):
        middle = 0.5 * (low + high)
        if slope(middle) >= 0.0:
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)


def _zero_sum_basis(t: int) -> Floats:
    """Return a (t, t - 1) orthonormal basis of the vectors that sum to zero."""
    Q: Floats = np.linalg.qr(np.column_stack([np.ones(t), np.eye(t)[:, : t - 1]]))[0]
    return Q[:, 1:]


def _weighted_matrix(points: Floats, rows: npt.NDArray[np.int64], d: Floats, unit: float) -> Floats:
    """Return A(d), the first sum of (14), divided by `unit`."""
    total = np.zeros((points.shape[1], points.shape[1]))
    for n, (i, j, k) in enumerate(rows):
        far = points[i] - points[k]
        near = points[i] - points[j]
        total += d[n] * (np.outer(far, far) - np.outer(near, near)) / unit
    return total


def _leading(matrix: Floats) -> tuple[float, Floats]:
    values, vectors = np.linalg.eigh(matrix)
    direction = vectors[:, -1]
    if direction[np.argmax(np.abs(direction))] < 0.0:
        direction = -direction
    return float(values[-1]), direction


def _margins(V: Floats, w: Floats, offset: Floats | None) -> Floats:
    margins: Floats = V @ w
    return margins if offset is None else margins + offset


def _log(values: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(values), dtype=np.float64)


def _softmax(logits: Floats) -> Floats:
    terms = np.exp(logits - np.max(logits))
    return np.asarray(terms / np.sum(terms), dtype=np.float64)
