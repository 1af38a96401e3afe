"""Brute-force BoostMetric (Shen, Kim, Wang, van den Hengel, NIPS 2009), a test oracle."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

CAP = 50.0
EIGENVALUE_TOLERANCE = 1e-9
LOSS_DROP = 20.0


@dataclass(frozen=True)
class Result:
    """What `boost` learned, one entry a round in the arrays of length J.

    Attributes
    ----------
    M : (D, D) array
        Sum of ``steps[j] * outer(directions[j], directions[j])``.
    directions : (J, D) array
        Unit eigenvectors, of arbitrary sign.
    steps : (J,) array
        Weights of the directions.
    objectives : (J,) array
        Objective after each round.
    eigenvalues : (J,) array
        Largest eigenvalue of A(u) in each round, before its step.
    u : (m,) array
        Final triplet weights.
    v : float
        Absolute trace penalty.
    """

    M: Floats
    directions: Floats
    steps: Floats
    objectives: Floats
    eigenvalues: Floats
    u: Floats
    v: float


def triplet_matrices(X: npt.ArrayLike, triplets: npt.ArrayLike) -> Floats:
    """Return the (m, D, D) matrices A_r of eq. (2), triplets being (anchor, near, far)."""
    points = np.asarray(X, dtype=np.float64)
    rows = np.asarray(triplets, dtype=np.int64).reshape(-1, 3)
    A = np.zeros((len(rows), points.shape[1], points.shape[1]))
    for r, (i, j, k) in enumerate(rows):
        far = points[i] - points[k]
        near = points[i] - points[j]
        A[r] = np.outer(far, far) - np.outer(near, near)
    return A


def weights(rho: Floats, weight: Floats) -> Floats:
    """Return u, proportional to ``weight * exp(-rho)`` and summing to one."""
    return _softmax(_log(weight) - rho)


def objective(
    A: Floats,
    M: Floats,
    v: float,
    weight: Floats | None = None,
    offset: Floats | None = None,
) -> float:
    """Return log sum_r c_r exp(-offset_r - <A_r, M>) + v Tr M, c being `weight` over its mean."""
    rho = _margins(A, M, offset)
    return _log_loss(rho, _unit_if_none(weight, len(A))) + v * float(np.trace(M))


def bisection_step(H: Floats, u: Floats, v: float, eigenvalue: float) -> tuple[float, bool]:
    """Solve eq. (8) for the step by bisection (Algorithm 1).

    Parameters
    ----------
    H : (m,) array
        Responses <A_r, Z> of the triplets to the new direction.
    u : (m,) array
        Current triplet weights.
    v : float
        Absolute trace penalty.
    eigenvalue : float
        Eigenvalue of the direction; the step is at most ``50 / eigenvalue``.

    Returns
    -------
    w : float
        The root of E_q[H] = v with q = softmax(log u - w H), or the cap.
    capped : bool
        Whether the root lies beyond the cap.
    """
    return _bisect(H, _log(u), v, eigenvalue)


def boost(
    X: npt.ArrayLike,
    triplets: npt.ArrayLike,
    *,
    weight: Floats | None = None,
    penalty: float = 1e-7,
    max_iter: int = 500,
    offset: Floats | None = None,
) -> Result:
    """Run Algorithm 2.

    Parameters
    ----------
    X : (n, D) array
        Points.
    triplets : (m, 3) array
        Rows (anchor, near, far).
    weight : (m,) array, optional
        Triplet weights, one each by default.
    penalty : float
        History penalty relative to the largest eigenvalue of A(u) at zero margins.
    max_iter : int
        Largest number of rounds.
    offset : (m,) array, optional
        Margins of a fixed prior, added to the learned ones.

    Returns
    -------
    Result
        Metric, path and final weights.
    """
    A = triplet_matrices(X, triplets)
    m, D = A.shape[0], A.shape[1]
    weight = _unit_if_none(weight, m)
    rho = np.zeros(m) if offset is None else np.array(offset, dtype=np.float64)
    lambda_0 = max(_leading(_weighted_matrix(A, weights(np.zeros(m), weight)))[0], 0.0)
    v = penalty * lambda_0

    M = np.zeros((D, D))
    directions: list[Floats] = []
    steps: list[float] = []
    objectives: list[float] = []
    eigenvalues: list[float] = []
    while len(steps) < max_iter:
        eigenvalue, direction = _leading(_weighted_matrix(A, weights(rho, weight)))
        if eigenvalue <= v + EIGENVALUE_TOLERANCE * lambda_0:
            break
        H = np.array([float(direction @ A[r] @ direction) for r in range(m)])
        w, capped = _bisect(H, _log(weight) - rho, v, eigenvalue)
        rho = rho + w * H
        M = M + w * np.outer(direction, direction)
        directions.append(direction)
        steps.append(w)
        objectives.append(objective(A, M, v, weight, offset))
        eigenvalues.append(eigenvalue)
        separated = bool(np.all(rho >= 0.0)) and _log_loss(rho, weight) < np.log(m) - LOSS_DROP
        if capped or separated:
            break
    return Result(
        M=M,
        directions=np.array(directions).reshape(-1, D),
        steps=np.array(steps),
        objectives=np.array(objectives),
        eigenvalues=np.array(eigenvalues),
        u=weights(rho, weight),
        v=v,
    )


def printed_run(
    X: npt.ArrayLike, triplets: npt.ArrayLike, v: float, J: int
) -> list[tuple[float, float, Floats, Floats]]:
    """Run Algorithms 1 and 2 letter by letter; nothing is relative, capped or tolerant.

    The interval of Algorithm 1 starts at 0, and grows until its upper end is beyond the root.

    Returns
    -------
    list of (lambda_max, w_j, X after iteration j, u after it)
    """
    A = triplet_matrices(X, triplets)
    u = np.full(len(A), 1.0 / len(A))
    total = np.zeros(A.shape[1:])
    iterates = []
    for _ in range(J):
        A_hat = sum(u[r] * A[r] for r in range(len(A)))  # (10)
        values, vectors = np.linalg.eigh(A_hat)
        Z = np.outer(vectors[:, -1], vectors[:, -1])
        if values[-1] < v:
            break
        H = np.array([float(np.sum(A[r] * Z)) for r in range(len(A))])

        def left_hand_side(w: float, H: Floats = H, u: Floats = u) -> float:  # of (8)
            return float(np.sum((H - v) * u * np.exp(-w * H)))

        low, high = 0.0, 1e-3
        while left_hand_side(high) > 0:
            high = 2.0 * high
        # Where the eigenvalue is v up to rounding, the root is 0.
        while high - low > 1e-15 * high:
            w = 0.5 * (low + high)
            if left_hand_side(w) > 0:
                low = w
            else:
                high = w
        u = u * np.exp(-H * w)
        u = u / np.sum(u)  # (9)
        total = total + w * Z
        iterates.append((float(values[-1]), w, total, u))
    return iterates


def pointwise(name: str, rho: Floats) -> tuple[Floats, Floats]:
    """Return a loss of each margin and minus its derivative, by loops over the margins."""
    values, slopes = np.zeros(len(rho)), np.zeros(len(rho))
    for r, margin in enumerate(rho):
        if name == "logistic":
            shift = max(0.0, -margin)
            total = math.exp(-shift) + math.exp(-margin - shift)
            values[r] = shift + math.log(total)
            slopes[r] = math.exp(-margin - shift) / total
        elif name == "squared_hinge":
            values[r] = max(0.0, 1.0 - margin) ** 2
            slopes[r] = 2.0 * max(0.0, 1.0 - margin)
        else:
            raise ValueError(name)
    return values, slopes


def boost_mean(
    X: npt.ArrayLike,
    triplets: npt.ArrayLike,
    name: str,
    *,
    weight: Floats | None = None,
    penalty: float = 1e-7,
    max_iter: int = 500,
    offset: Floats | None = None,
) -> Result:
    """Run Algorithm 2 for the weighted mean of a loss, "logistic" or "squared_hinge".

    Parameters are those of `boost`.
    """
    A = triplet_matrices(X, triplets)
    m, D = A.shape[0], A.shape[1]
    share = _unit_if_none(weight, m) / np.sum(_unit_if_none(weight, m))
    rho = np.zeros(m) if offset is None else np.array(offset, dtype=np.float64)
    lambda_0 = _leading(_weighted_matrix(A, share * pointwise(name, np.zeros(m))[1]))[0]
    v = penalty * lambda_0
    M = np.zeros((D, D))
    directions, steps, objectives, eigenvalues = [], [], [], []
    for _ in range(max_iter):
        u = share * pointwise(name, rho)[1]
        eigenvalue, direction = _leading(_weighted_matrix(A, u))
        if eigenvalue <= v + EIGENVALUE_TOLERANCE * lambda_0:
            break
        H = np.array([float(direction @ A[r] @ direction) for r in range(m)])

        def falls(w: float, rho: Floats = rho, H: Floats = H) -> bool:
            return float(np.sum(share * pointwise(name, rho + w * H)[1] * H)) > v

        low, high = 0.0, 1.0
        while falls(high):
            low, high = high, 2.0 * high
        while high - low > 1e-14 * high:
            middle = 0.5 * (low + high)
            low, high = (middle, high) if falls(middle) else (low, middle)
        rho = rho + high * H
        M = M + high * np.outer(direction, direction)
        directions.append(direction)
        steps.append(high)
        eigenvalues.append(eigenvalue)
        objectives.append(float(np.sum(share * pointwise(name, rho)[0]) + v * np.trace(M)))
    return Result(
        M=M,
        directions=np.array(directions).reshape(-1, D),
        steps=np.array(steps),
        objectives=np.array(objectives),
        eigenvalues=np.array(eigenvalues),
        u=share * pointwise(name, rho)[1],
        v=v,
    )


def optimality(
    X: npt.ArrayLike, triplets: npt.ArrayLike, M: Floats, name: str, v: float
) -> tuple[float, float]:
    """Return how far M is from the optimum of the mean of a loss plus v Tr M.

    M is optimal if and only if both are zero: ``<v I - A(u), M>``, and the excess of the largest
    eigenvalue of A(u) over v.
    """
    A = triplet_matrices(X, triplets)
    u = pointwise(name, _margins(A, M, None))[1] / len(A)
    return _gap(A, u, M, v), max(0.0, _leading(_weighted_matrix(A, u))[0] - v)


def optimum(
    X: npt.ArrayLike,
    triplets: npt.ArrayLike,
    *,
    weight: Floats | None = None,
    v: float,
    offset: Floats | None = None,
) -> tuple[Floats, float]:
    """Minimise the objective over positive semidefinite M, with a certificate.

    Parameters
    ----------
    X : (n, D) array
        Points.
    triplets : (m, 3) array
        Rows (anchor, near, far).
    weight : (m,) array, optional
        Triplet weights, one each by default.
    v : float
        Absolute trace penalty.
    offset : (m,) array, optional
        Margins of a fixed prior.

    Returns
    -------
    M : (D, D) array
        The minimiser.
    value : float
        The minimum.

    Raises
    ------
    ValueError
        If the objective is unbounded below, as for separable triplets and a small `v`.
    """
    A = triplet_matrices(X, triplets)
    m, D = A.shape[0], A.shape[1]
    weight = _unit_if_none(weight, m)
    prior = np.zeros(m) if offset is None else np.asarray(offset, dtype=np.float64)
    log_c = _log(weight * (m / np.sum(weight)))
    scale = float(np.mean([np.linalg.norm(A[r]) for r in range(m)]))
    flat = A.reshape(m, D * D) / scale
    scaled_v = v / scale

    def value_and_gradient(factor: Floats) -> tuple[float, Floats]:
        L = factor.reshape(D, D)
        M = L.T @ L
        trace = float(np.trace(M))
        rho = flat @ M.ravel()
        if np.min(rho[weight > 0.0]) > (scaled_v * (1.0 + 1e-9) + 1e-12) * trace:
            raise ValueError("the objective is unbounded below: v is too small")
        logits = log_c - prior - rho
        gradient = scaled_v * np.eye(D) - (_softmax(logits) @ flat).reshape(D, D)
        return _logsumexp(logits) + scaled_v * trace, (2.0 * L @ gradient).ravel()

    def descend(L: Floats) -> Floats:
        found = minimize(
            value_and_gradient,
            L.ravel(),
            jac=True,
            method="L-BFGS-B",
            options={
                "maxiter": 20000,
                "maxfun": 40000,
                "maxcor": 30,
                "ftol": 1e-16,
                "gtol": 1e-11,
            },
        )
        factor = np.asarray(found.x, dtype=np.float64).reshape(D, D)
        return factor.T @ factor / scale

    best = np.zeros((D, D))
    best_value = objective(A, best, v, weight, offset)
    for seed in range(3):
        M = descend(np.random.default_rng(seed).normal(size=(D, D)) / np.sqrt(D))
        for _ in range(20):
            u = weights(_margins(A, M, offset), weight)
            eigenvalue, direction = _leading(_weighted_matrix(A, u))
            gap = _gap(A, u, M, v)
            if abs(gap) + max(eigenvalue - v, 0.0) * np.trace(M) < 1e-10:
                break
            start = M
            if eigenvalue > v + 1e-13 * scale:
                H = np.array([float(direction @ A[r] @ direction) for r in range(m)])
                w = bisection_step(H, u, v, eigenvalue)[0]
                start = M + w * np.outer(direction, direction)
            M = descend(_square_root(start * scale))
        value = objective(A, M, v, weight, offset)
        if value < best_value:
            best, best_value = M, value

    u = weights(_margins(A, best, offset), weight)
    eigenvalue = _leading(_weighted_matrix(A, u))[0]
    gap = _gap(A, u, best, v)
    assert abs(gap) < 1e-7, f"duality gap {gap}"
    assert eigenvalue <= v * (1.0 + 1e-4) + 1e-8, f"eigenvalue {eigenvalue} above v = {v}"
    return best, best_value


def mine(X: npt.ArrayLike, y: npt.ArrayLike, n_targets: int, n_impostors: int) -> Ints:
    """Return (anchor, target, impostor) rows from Euclidean neighbours.

    Each row of `X` is joined with its `n_targets` nearest rows of the same class and its
    `n_impostors` nearest rows of other classes, or as many as there are, nearest first.
    Squared distances within a relative 1e-10 count as equal; the lower row number is nearer.
    """
    points = np.asarray(X, dtype=np.float64)
    labels = np.asarray(y)
    triplets: list[tuple[int, int, int]] = []
    for i in range(len(points)):
        same = [j for j in range(len(points)) if j != i and labels[j] == labels[i]]
        other = [k for k in range(len(points)) if labels[k] != labels[i]]
        impostors = _nearest(points, i, other, n_impostors)
        for j in _nearest(points, i, same, n_targets):
            triplets.extend((i, j, k) for k in impostors)
    return np.array(triplets, dtype=np.int64).reshape(-1, 3)


def _nearest(points: Floats, i: int, candidates: list[int], count: int) -> list[int]:
    """Return the `count` nearest candidates to row `i`, nearest first."""
    distance = {j: float(np.sum((points[i] - points[j]) ** 2)) for j in candidates}
    found: list[int] = []
    while distance and len(found) < count:
        limit = min(distance.values()) * (1.0 + 1e-10)
        nearest = min(j for j in distance if distance[j] <= limit)
        found.append(nearest)
        del distance[nearest]
    return found


def _bisect(H: Floats, log_u: Floats, v: float, eigenvalue: float) -> tuple[float, bool]:
    """Bisect for the step, given the logarithm of the weights up to a constant."""

    def excess(w: float) -> float:
        return float(np.sum(_softmax(log_u - w * H) * (H - v)))

    if excess(0.0) <= 0.0:
        raise ValueError("the direction does not lower the objective")
    cap = CAP / eigenvalue
    low, high = 0.0, min(1.0 / float(np.max(np.abs(H))), cap)
    while excess(high) > 0.0:
        if high >= cap:
            return cap, True
        low, high = high, min(2.0 * high, cap)
    while high - low > 1e-13 * high:
        middle = 0.5 * (low + high)
        if middle in (low, high):
            break
        if excess(middle) > 0.0:
            low = middle
        else:
            high = middle
    return 0.5 * (low + high), False


def _margins(A: Floats, M: Floats, offset: Floats | None) -> Floats:
    rho = np.array([float(np.sum(A[r] * M)) for r in range(len(A))])
    return rho if offset is None else rho + offset


def _weighted_matrix(A: Floats, u: Floats) -> Floats:
    total = np.zeros(A.shape[1:])
    for r in range(len(A)):
        total += u[r] * A[r]
    return total


def _leading(matrix: Floats) -> tuple[float, Floats]:
    values, vectors = np.linalg.eigh(matrix)
    return float(values[-1]), vectors[:, -1]


def _gap(A: Floats, u: Floats, M: Floats, v: float) -> float:
    return v * float(np.trace(M)) - float(np.sum(_weighted_matrix(A, u) * M))


def _square_root(matrix: Floats) -> Floats:
    values, vectors = np.linalg.eigh(matrix)
    root: Floats = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    return root


def _unit_if_none(weight: Floats | None, m: int) -> Floats:
    return np.ones(m) if weight is None else np.asarray(weight, dtype=np.float64)


def _log_loss(rho: Floats, weight: Floats) -> float:
    return _logsumexp(_log(weight * (len(weight) / np.sum(weight))) - rho)


def _log(values: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(values), dtype=np.float64)


def _logsumexp(logits: Floats) -> float:
    top = float(np.max(logits))
    return top + float(np.log(np.sum(np.exp(logits - top))))


def _softmax(logits: Floats) -> Floats:
    terms = np.exp(logits - np.max(logits))
    return np.asarray(terms / np.sum(terms), dtype=np.float64)
