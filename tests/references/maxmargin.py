"""Brute-force max-margin metric learning (Xiong, Johnson, Corso), a test oracle.

Problem (3), with a prior P (zero in the paper) and pair weights p summing to one (1/n there):

    min over psd A and free b of  1/2 ||A - P||_F^2 + b^2 / 2 + C sum_k p_k h_k,
    h_k = max(0, 1 - y_k (b - u_k' A u_k)),  u_k the difference of pair k,

y_k being +1 for a similar and -1 for a dissimilar pair. For 0 <= a_k <= C p_k, minimising
the Lagrangian over A and b gives A = proj(P - sum_k a_k y_k u_k u_k'), b = sum_k a_k y_k and

    dual(a) = sum_k a_k + 1/2 ||P||^2 - 1/2 ||A||^2 - 1/2 b^2,

proj being the projection on the psd cone; the derivative in a_k is 1 - y_k (b - u_k' A u_k).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
from scipy.optimize import LinearConstraint, minimize

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Cut = tuple[Floats, float, float]

GAP = 1e-9
RESIDUAL_ZERO = 1e-12


def differences(X: npt.ArrayLike, pairs: npt.ArrayLike) -> Floats:
    """Return the (n, D) differences u_k of the pairs."""
    points = np.asarray(X, dtype=np.float64)
    rows = np.asarray(pairs, dtype=np.int64).reshape(-1, 2)
    u = np.zeros((len(rows), points.shape[1]))
    for k, (i, j) in enumerate(rows):
        u[k] = points[i] - points[j]
    return u


def margins(
    A: Floats, b: float, X: npt.ArrayLike, pairs: npt.ArrayLike, similar: npt.ArrayLike
) -> Floats:
    """Return y_k (b - u_k' A u_k) of every pair."""
    u, y = differences(X, pairs), _labels(similar)
    found = np.zeros(len(u))
    for k in range(len(u)):
        found[k] = y[k] * (b - float(u[k] @ A @ u[k]))
    return found


def mean_hinge(
    A: Floats,
    b: float,
    X: npt.ArrayLike,
    pairs: npt.ArrayLike,
    similar: npt.ArrayLike,
    weight: npt.ArrayLike | None = None,
) -> float:
    """Return sum_k p_k max(0, 1 - margin_k)."""
    margin = margins(A, b, X, pairs, similar)
    p = _shares(weight, len(margin))
    total = 0.0
    for k in range(len(margin)):
        total += p[k] * max(0.0, 1.0 - margin[k])
    return float(total)


def objective(
    A: Floats,
    b: float,
    X: npt.ArrayLike,
    pairs: npt.ArrayLike,
    similar: npt.ArrayLike,
    C: float,
    weight: npt.ArrayLike | None = None,
    prior: Floats | None = None,
) -> float:
    """Return the objective of problem (3); `A` is not checked to be psd."""
    P = _prior(prior, A.shape[0])
    loss = mean_hinge(A, b, X, pairs, similar, weight)
    return _regulariser(A, b, P) + C * loss


def dual_objective(
    a: Floats,
    X: npt.ArrayLike,
    pairs: npt.ArrayLike,
    similar: npt.ArrayLike,
    C: float,
    weight: npt.ArrayLike | None = None,
    prior: Floats | None = None,
) -> tuple[float, Floats, float]:
    """Return (dual(a), A, b), a lower bound of problem (3) and the point attaining it."""
    u, y = differences(X, pairs), _labels(similar)
    P = _prior(prior, u.shape[1])
    top = C * _shares(weight, len(u))
    assert np.all(a >= 0.0), "negative multiplier"
    assert np.all(a <= top), "multiplier above C p"
    matrix = P.copy()
    b = 0.0
    for k in range(len(u)):
        matrix -= a[k] * y[k] * np.outer(u[k], u[k])
        b += float(a[k] * y[k])
    A = project_psd(matrix)
    return float(np.sum(a)) + 0.5 * float(np.sum(P * P) - np.sum(A * A)) - 0.5 * b * b, A, b


def optimum(
    X: npt.ArrayLike,
    pairs: npt.ArrayLike,
    similar: npt.ArrayLike,
    C: float,
    weight: npt.ArrayLike | None = None,
    prior: Floats | None = None,
) -> tuple[Floats, float, float]:
    """Minimise problem (3) by cvxpy and Clarabel.

    It is solved for A and b over sqrt(C) and the objective over C, which conditions it better.
    Tolerances beyond its reach may make Clarabel call the result inaccurate; what counts is the
    gap to the dual value at its multipliers, asserted to be at most 1e-7 max(1, value).

    Parameters
    ----------
    X : (N, D) array
        Points.
    pairs : (n, 2) array
        Row numbers of the two points of each pair.
    similar : (n,) array of bool
        Whether a pair is similar.
    C : float
        Weight of the mean hinge loss.
    weight : (n,) array, optional
        Pair weights, of any sum; equal by default.
    prior : (D, D) array, optional
        Symmetric matrix P, zero by default.

    Returns
    -------
    A : (D, D) array
        The minimiser, projected on the psd cone.
    b : float
        The threshold.
    value : float
        `objective` at (A, b).
    """
    import cvxpy as cp

    u, y = differences(X, pairs), _labels(similar)
    n, D = u.shape
    p, P = _shares(weight, n), _prior(prior, D)
    root = np.sqrt(C)
    outer = np.array([np.outer(u[k], u[k]).ravel() for k in range(n)])
    A_, b_, slack = cp.Variable((D, D), PSD=True), cp.Variable(), cp.Variable(n, nonneg=True)
    distance = outer @ cp.reshape(A_, (D * D,), order="C")
    loss = 0.5 * cp.sum_squares(A_ - P / root) + 0.5 * cp.square(b_) + p @ slack
    constraint = cp.multiply(root * y, b_ - distance) >= 1.0 - slack
    problem = cp.Problem(cp.Minimize(loss), [constraint])
    tight = {"tol_gap_abs": 1e-11, "tol_gap_rel": 1e-11, "tol_feas": 1e-11}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Solution may be inaccurate")
        problem.solve(solver=cp.CLARABEL, max_iter=500, **tight)
    assert problem.status in (cp.OPTIMAL, cp.OPTIMAL_INACCURATE), problem.status
    A = project_psd(root * np.asarray(A_.value, dtype=np.float64))
    b = float(root * b_.value)
    value = objective(A, b, X, pairs, similar, C, weight, prior)
    multipliers = C * np.clip(np.asarray(constraint.dual_value, dtype=np.float64), 0.0, p)
    gap = value - dual_objective(multipliers, X, pairs, similar, C, weight, prior)[0]
    assert abs(gap) <= 1e-7 * max(1.0, value), f"duality gap {gap} of {value}"
    return A, b, value


def optimum_by_projection(
    X: npt.ArrayLike,
    pairs: npt.ArrayLike,
    similar: npt.ArrayLike,
    C: float,
    weight: npt.ArrayLike | None = None,
    prior: Floats | None = None,
) -> tuple[Floats, float, float, float]:
    """Minimise problem (3) through its box dual, by L-BFGS-B; arguments as `optimum`.

    Returns
    -------
    A : (D, D) array
        The minimiser, psd.
    b : float
        The threshold.
    value : float
        `objective` at (A, b).
    gap : float
        `value` less the dual value: the minimum lies in [value - gap, value], and the squared
        distance of (A, b) to the minimiser is at most 2 gap.
    """
    n = len(np.asarray(pairs).reshape(-1, 2))
    top = C * _shares(weight, n)

    def dual(share: Floats) -> tuple[float, Floats]:
        value, A, b = dual_objective(top * share, X, pairs, similar, C, weight, prior)
        return value, top * (1.0 - margins(A, b, X, pairs, similar))

    def gap_at(share: Floats) -> float:
        value, A, b = dual_objective(top * share, X, pairs, similar, C, weight, prior)
        return objective(A, b, X, pairs, similar, C, weight, prior) - value

    u, y = differences(X, pairs), _labels(similar)
    steepness = _steepness(top * y, 1.0 + (u @ u.T) ** 2)
    share = _maximise_in_box(dual, gap_at, np.full(n, 0.5), steepness)
    lower, A, b = dual_objective(top * share, X, pairs, similar, C, weight, prior)
    value = objective(A, b, X, pairs, similar, C, weight, prior)
    return A, b, value, value - lower


def most_violated(
    A: Floats, b: float, X: npt.ArrayLike, pairs: npt.ArrayLike, similar: npt.ArrayLike
) -> Ints:
    """Return c of Algorithm 1: 1 for a margin of at most 1, 0 otherwise.

    No other c has a larger violation delta - (s b - <A, G>), which is the mean hinge for this
    one. A margin of exactly 1 adds nothing to it, so such a c_k is a convention.
    """
    margin = margins(A, b, X, pairs, similar)
    return np.array([1 if margin[k] <= 1.0 else 0 for k in range(len(margin))], dtype=np.int64)


def cut(
    c: npt.ArrayLike,
    X: npt.ArrayLike,
    pairs: npt.ArrayLike,
    similar: npt.ArrayLike,
    weight: npt.ArrayLike | None = None,
) -> Cut:
    """Return (G, delta, s) of the constraint s b - <A, G> >= delta - xi of problem (4).

    G = sum_k c_k p_k y_k u_k u_k', delta = sum_k c_k p_k, s = sum_k c_k p_k y_k.
    """
    chosen = np.asarray(c, dtype=np.int64)
    u, y = differences(X, pairs), _labels(similar)
    p = _shares(weight, len(u))
    G = np.zeros((u.shape[1], u.shape[1]))
    delta = s = 0.0
    for k in range(len(u)):
        G += chosen[k] * p[k] * y[k] * np.outer(u[k], u[k])
        delta += float(chosen[k] * p[k])
        s += float(chosen[k] * p[k] * y[k])
    return G, delta, s


def violation(A: Floats, b: float, one: Cut) -> float:
    """Return delta - (s b - <A, G>), the slack that a cut asks for if positive."""
    G, delta, s = one
    return delta - s * b + float(np.sum(A * G))


def model_optimum(
    cuts: Sequence[Cut], C: float, prior: Floats, tolerance: float
) -> tuple[Floats, float, float, float, float]:
    """Minimise 1/2 ||A - P||^2 + b^2 / 2 + C xi over psd A, b and xi >= 0 under the cuts.

    The dual has a >= 0 with sum a <= C, A = proj(P - sum_j a_j G_j), b = sum_j a_j s_j and the
    value sum_j a_j delta_j + 1/2 ||P||^2 - 1/2 ||A||^2 - 1/2 b^2. It is solved by SLSQP and
    then `_polish` until the gap is at most `tolerance`.

    Returns
    -------
    A, b, xi : (D, D) array, float, float
        The minimiser; `xi` is the largest violation at (A, b), or zero.
    lower : float
        The dual value, at most the minimum.
    gap : float
        Model objective at (A, b, xi) less `lower`.
    """

    def dual(share: Floats) -> tuple[float, Floats, float]:
        matrix, b, linear = prior.copy(), 0.0, 0.0
        for (G, delta, s), a in zip(cuts, C * share, strict=True):
            matrix -= a * G
            b += float(a * s)
            linear += float(a * delta)
        A = project_psd(matrix)
        return linear + 0.5 * float(np.sum(prior**2) - np.sum(A * A)) - 0.5 * b * b, A, b

    def negative(share: Floats) -> tuple[float, Floats]:
        value, A, b = dual(share)
        return -value / C, -np.array([violation(A, b, one) for one in cuts])

    def outcome(share: Floats) -> tuple[Floats, float, float, float, float]:
        lower, A, b = dual(share)
        xi = max([0.0, *[violation(A, b, one) for one in cuts]])
        return A, b, xi, lower, _regulariser(A, b, prior) + C * xi - lower

    if not cuts:
        return outcome(np.zeros(0))
    found = minimize(
        negative,
        np.zeros(len(cuts)),
        jac=True,
        method="SLSQP",
        bounds=[(0.0, 1.0)] * len(cuts),
        constraints=[LinearConstraint(np.ones((1, len(cuts))), 0.0, 1.0)],
        options={"maxiter": 2000, "ftol": 1e-16},
    )
    gram = np.array([[float(np.sum(g * h)) + q * r for h, _, r in cuts] for g, _, q in cuts])
    share = _polish(
        lambda share: -negative(share)[1],
        lambda share: outcome(share)[4],
        _project_share,
        _project_share(np.asarray(found.x, dtype=np.float64)),
        C * float(np.linalg.eigvalsh(gram)[-1]),
        tolerance,
    )
    return outcome(share)


def cutting_planes(
    X: npt.ArrayLike,
    pairs: npt.ArrayLike,
    similar: npt.ArrayLike,
    C: float,
    tol: float,
    weight: npt.ArrayLike | None = None,
    prior: Floats | None = None,
    max_iter: int = 500,
) -> list[tuple[Floats, float, float, float]]:
    """Run Algorithm 1 with the right stop, each round's argmin being exact.

    It starts from no cut, thus from (proj P, 0). Every round forms the most violated c at the
    current (A, b) and stops, before adding it, if the mean hinge is at most xi + `tol`; xi is
    the slack of the current model. On stopping, `objective` at (A, b) exceeds the minimum by
    at most C `tol` and the gap of the model, itself asserted to be at most C `tol` / 10.

    Returns
    -------
    list of (A, b, lower, value)
        Of each round, the model's optimum, its minimum, which is a lower bound, and `objective` at
        its optimum. The first belongs to the model without cuts.
    """
    D = np.asarray(X).shape[1]
    P = _prior(prior, D)
    cuts: list[Cut] = []
    rounds: list[tuple[Floats, float, float, float]] = []
    for _ in range(max_iter):
        A, b, xi, lower, gap = model_optimum(cuts, C, P, 0.1 * C * tol)
        assert gap <= 0.1 * C * tol, f"model gap {gap} after {len(cuts)} cuts"
        rounds.append((A, b, lower, objective(A, b, X, pairs, similar, C, weight, prior)))
        if mean_hinge(A, b, X, pairs, similar, weight) <= xi + tol:
            return rounds
        cuts.append(cut(most_violated(A, b, X, pairs, similar), X, pairs, similar, weight))
    raise AssertionError(f"not converged in {max_iter} rounds")


def greedy_basis(K: npt.ArrayLike, t: int, tol: float = 0.0) -> tuple[Ints, Floats]:
    """Choose at most `t` points by eq. (8), with exact residuals.

    The first is the largest K_ii, as the residual of an empty basis. Residuals that differ by
    at most 1e-12 max K_ii count as equal and the lowest index is taken. It stops early once
    the largest residual is below `tol` max K_ii, or at most 1e-12 max K_ii, which is zero.

    Returns
    -------
    basis : (t,) array
        Indices in the order of choice.
    totals : (t,) array
        Sum of all residuals after each choice.
    """
    gram = np.asarray(K, dtype=np.float64)
    scale = float(np.max(np.diag(gram)))
    basis: list[int] = []
    totals: list[float] = []
    left = exact_residuals(gram, basis)
    while len(basis) < t:
        largest = float(np.max(left))
        if largest < tol * scale or largest <= RESIDUAL_ZERO * scale:
            break
        tied = [i for i in range(len(left)) if left[i] >= largest - RESIDUAL_ZERO * scale]
        basis.append(tied[0])
        left = exact_residuals(gram, basis)
        totals.append(float(np.sum(left)))
    return np.array(basis, dtype=np.int64), np.array(totals)


def exact_residuals(K: npt.ArrayLike, basis: Sequence[int] | Ints) -> Floats:
    """Return K_ii - k_B(i)' K_BB^-1 k_B(i), the minimum over beta in eq. (8), of every point."""
    gram = np.asarray(K, dtype=np.float64)
    chosen = [int(j) for j in basis]
    left = np.zeros(len(gram))
    for i in range(len(gram)):
        left[i] = gram[i, i]
        if chosen:
            k = gram[i, chosen]
            left[i] -= float(k @ np.linalg.solve(gram[np.ix_(chosen, chosen)], k))
    return left


def basis_features(K_BB: Floats, K_xB: Floats) -> Floats:
    """Return K_xB K_BB^-1/2, one row a point; inner products are K_xB K_BB^-1 K_Bx."""
    values, vectors = np.linalg.eigh(K_BB)
    assert values[0] > 0.0, f"smallest eigenvalue of K_BB {values[0]}"
    root: Floats = (vectors / np.sqrt(values)) @ vectors.T
    return np.asarray(K_xB @ root, dtype=np.float64)


def printed_beta(K: npt.ArrayLike, basis: Sequence[int] | Ints) -> tuple[Floats, Floats, Floats]:
    """Return the paper's beta and residuals.

    Printed, below eq. (8), which has x_i for the point and x'_j for the basis, is
    beta_j = K(x_j, x'_i) / sqrt(K(x_j, x_j) K(x'_i, x'_i)). With the indices as in eq. (8) it
    is the cosine of phi(x_i) and phi(x'_j). For an orthogonal basis the minimiser is instead
    K(x_i, x'_j) / K(x'_j, x'_j), which equals it if K(x, x) is constant. How the residual
    follows is not printed ("can be easily obtained").

    Returns
    -------
    beta : (N, t) array
        Cosine of every point with every basis point.
    residual : (N,) array
        The norm in eq. (8) at that beta, with all t^2 inner products of the basis. A basis
        point has none only if it is orthogonal to the rest of the basis.
    orthogonal : (N,) array
        The same with the inner products of different basis points taken as zero. This can be
        negative.
    """
    gram = np.asarray(K, dtype=np.float64)
    chosen = [int(j) for j in basis]
    beta = np.zeros((len(gram), len(chosen)))
    residual = np.zeros(len(gram))
    orthogonal = np.zeros(len(gram))
    for i in range(len(gram)):
        for q, j in enumerate(chosen):
            beta[i, q] = gram[i, j] / np.sqrt(gram[i, i] * gram[j, j])
        residual[i] = orthogonal[i] = gram[i, i]
        for q, j in enumerate(chosen):
            residual[i] -= 2.0 * beta[i, q] * gram[i, j]
            orthogonal[i] += beta[i, q] ** 2 * gram[j, j] - 2.0 * beta[i, q] * gram[i, j]
            for r, m in enumerate(chosen):
                residual[i] += beta[i, q] * beta[i, r] * gram[j, m]
    return beta, residual, orthogonal


def printed_basis(
    K: npt.ArrayLike, t: int, first: int, *, orthogonal: bool = False
) -> tuple[Ints, Floats]:
    """Choose `t` points from `first` on by the paper's residuals; chosen ones are left out.

    The paper draws `first` at random and does not say that a chosen point is left out, but its
    own residual is not zero, so it could be chosen again.

    Returns
    -------
    basis : (t,) array
        Indices in the order of choice.
    totals : (t,) array
        Sum of the paper's residuals over all points after each choice.
    """
    basis = [first]
    totals: list[float] = []
    while True:
        left = printed_beta(K, basis)[2 if orthogonal else 1]
        totals.append(float(np.sum(left)))
        rest = [i for i in range(len(left)) if i not in basis]
        if len(basis) == t or not rest:
            return np.array(basis, dtype=np.int64), np.array(totals)
        basis.append(max(rest, key=lambda i: (left[i], -i)))


def linear_pair_kernel(K: npt.ArrayLike, pairs: npt.ArrayLike, others: npt.ArrayLike) -> Floats:
    """Return [1; -vec(dd')]' [1; -vec(ee')] = 1 + (d' e)^2 of every pair with every other.

    d and e are differences in the feature space of K (X X' for the original space), so
    d' e = K_ik - K_il - K_jk + K_jl: against section 4.5, no feature map is needed for it.
    """
    gram = np.asarray(K, dtype=np.float64)
    rows = np.asarray(pairs, dtype=np.int64).reshape(-1, 2)
    columns = np.asarray(others, dtype=np.int64).reshape(-1, 2)
    Q = np.zeros((len(rows), len(columns)))
    for r, (i, j) in enumerate(rows):
        for c, (k, m) in enumerate(columns):
            Q[r, c] = 1.0 + (gram[i, k] - gram[i, m] - gram[j, k] + gram[j, m]) ** 2
    return Q


def rbf_pair_kernel(
    X: npt.ArrayLike, pairs: npt.ArrayLike, others: npt.ArrayLike, gamma: float
) -> Floats:
    """Return exp(-gamma ||dd' - ee'||_F^2), the Gaussian kernel of u = [1; -vec(dd')]."""
    d, e = differences(X, pairs), differences(X, others)
    Q = np.zeros((len(d), len(e)))
    for r in range(len(d)):
        for c in range(len(e)):
            gap = np.outer(d[r], d[r]) - np.outer(e[c], e[c])
            Q[r, c] = np.exp(-gamma * float(np.sum(gap * gap)))
    return Q


def kernel_pair_optimum(
    Q: Floats, similar: npt.ArrayLike, C: float, weight: npt.ArrayLike | None = None
) -> tuple[Floats, float, float]:
    """Solve the direct kernelised distance function of section 4.5.

    That is a support vector machine without bias on the n pairs, whose kernel Q_ki =
    K(u_k, u_i) is any positive semidefinite one of pairs; the paper names none. It minimises
    1/2 ||w||^2 + C sum_k p_k max(0, 1 - y_k w' phi(u_k)) with w = sum_i alpha_i y_i phi(u_i),
    so that a pair scores f(u) = sum_i alpha_i y_i K(u, u_i), high for a similar one: minus f
    takes the place of the distance less b. There is no A, hence nothing replaces A >= 0, and
    minus f is no metric: it may be negative or break the triangle inequality. With
    `linear_pair_kernel` it is problem (3) without the psd constraint and without prior.

    Returns
    -------
    alpha : (n,) array
        Multipliers in [0, C p_k].
    value : float
        The minimum, evaluated in the primal.
    gap : float
        `value` less the dual value sum_k alpha_k - 1/2 sum_ki alpha_k alpha_i y_k y_i Q_ki.
    """
    y = _labels(similar)
    n = len(y)
    p = _shares(weight, n)
    top = C * p

    def score(alpha: Floats) -> Floats:
        f = np.zeros(n)
        for k in range(n):
            for i in range(n):
                f[k] += alpha[i] * y[i] * Q[k, i]
        return f

    def both(alpha: Floats) -> tuple[float, float, Floats]:
        f = score(alpha)
        half = 0.5 * float(np.sum(alpha * y * f))
        loss = 0.0
        for k in range(n):
            loss += float(p[k]) * max(0.0, 1.0 - float(y[k] * f[k]))
        return half + C * loss, float(np.sum(alpha)) - half, f

    def dual(share: Floats) -> tuple[float, Floats]:
        _, value, f = both(top * share)
        return value, top * (1.0 - y * f)

    def gap_at(share: Floats) -> float:
        upper, lower, _ = both(top * share)
        return upper - lower

    share = _maximise_in_box(dual, gap_at, np.full(n, 0.5), _steepness(top * y, Q))
    upper, lower, _ = both(top * share)
    return top * share, upper, upper - lower


def project_psd(matrix: Floats) -> Floats:
    """Return the nearest psd matrix, negative eigenvalues set to zero."""
    values, vectors = np.linalg.eigh(0.5 * (matrix + matrix.T))
    total = np.zeros(matrix.shape)
    for i in range(len(values)):
        if values[i] > 0.0:
            total += values[i] * np.outer(vectors[:, i], vectors[:, i])
    return total


def _maximise_in_box(
    dual: Callable[[Floats], tuple[float, Floats]],
    gap: Callable[[Floats], float],
    start: Floats,
    steepness: float,
) -> Floats:
    """Maximise a concave function over [0, 1]^n by L-BFGS-B, then `_polish`."""

    def negative(share: Floats) -> tuple[float, Floats]:
        value, gradient = dual(share)
        return -value, -gradient

    share = start
    for _ in range(3):
        found = minimize(
            negative,
            share,
            jac=True,
            method="L-BFGS-B",
            bounds=[(0.0, 1.0)] * len(start),
            options={"maxiter": 5000, "maxfun": 20000, "maxcor": 50, "ftol": 0.0, "gtol": 1e-13},
        )
        share = np.clip(np.asarray(found.x, dtype=np.float64), 0.0, 1.0)

    def into_box(share: Floats) -> Floats:
        return np.asarray(np.clip(share, 0.0, 1.0), dtype=np.float64)

    tolerance = GAP * max(1.0, abs(dual(share)[0]))
    return _polish(lambda at: dual(at)[1], gap, into_box, share, steepness, tolerance)


def _polish(
    gradient: Callable[[Floats], Floats],
    gap: Callable[[Floats], float],
    project: Callable[[Floats], Floats],
    start: Floats,
    steepness: float,
    tolerance: float,
) -> Floats:
    """Maximise by accelerated projected gradients until `gap` is at most `tolerance`.

    Methods that compare values stop near the root of their rounding; this one uses only
    gradients, whose Lipschitz constant is at most `steepness`. The point of least gap in at
    most 5000 iterations is returned.
    """
    best, best_gap = start, gap(start)
    share, ahead, momentum = start, start, 1.0
    for iteration in range(1, 5001):
        if best_gap <= tolerance:
            break
        slope = gradient(ahead)
        new = project(ahead + slope / steepness)
        if float((ahead - new) @ (new - share)) > 0.0:
            momentum = 1.0
        after = 0.5 * (1.0 + float(np.sqrt(1.0 + 4.0 * momentum**2)))
        ahead = new + (momentum - 1.0) / after * (new - share)
        share, momentum = new, after
        if iteration % 20 == 0 and gap(share) < best_gap:
            best, best_gap = share, gap(share)
    return best


def _steepness(scale: Floats, Q: Floats) -> float:
    """Return the largest eigenvalue of the matrix of scale_k scale_i Q_ki."""
    return float(np.linalg.eigvalsh(Q * np.outer(scale, scale))[-1])


def _project_share(share: Floats) -> Floats:
    """Return the nearest point with no negative entry and a sum of at most one."""
    clipped = np.maximum(share, 0.0)
    if np.sum(clipped) <= 1.0:
        return np.asarray(clipped, dtype=np.float64)
    low, high = float(np.max(share)) - 1.0, float(np.max(share))
    for _ in range(200):
        middle = 0.5 * (low + high)
        if np.sum(np.maximum(share - middle, 0.0)) > 1.0:
            low = middle
        else:
            high = middle
    return np.asarray(np.maximum(share - high, 0.0), dtype=np.float64)


def _regulariser(A: Floats, b: float, P: Floats) -> float:
    total = 0.5 * b * b
    for i in range(A.shape[0]):
        for j in range(A.shape[1]):
            total += 0.5 * float(A[i, j] - P[i, j]) ** 2
    return total


def _labels(similar: npt.ArrayLike) -> Floats:
    return np.array([1.0 if flag else -1.0 for flag in np.asarray(similar, dtype=bool)])


def _shares(weight: npt.ArrayLike | None, n: int) -> Floats:
    if weight is None:
        return np.full(n, 1.0 / n)
    given = np.asarray(weight, dtype=np.float64)
    return np.asarray(given / np.sum(given), dtype=np.float64)


def _prior(prior: Floats | None, D: int) -> Floats:
    if prior is None:
        return np.zeros((D, D))
    given = np.asarray(prior, dtype=np.float64)
    assert np.array_equal(given, given.T), "the prior is not symmetric"
    return given
