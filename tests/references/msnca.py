"""Brute-force msNCA (Hong, Li, Jiang, Tu, CVPR 2011) and plain NCA, a test oracle.

Equation numbers are the paper's: (9) gate, (11) objective, (15) gate gradient, (16) metric
gradient, (17) signs, (18) clipping.  Points are the rows of X (n, D), already centred and scaled;
component s has the metric Ms[s] (D, D) and the gate V[s] (D,), b[s]; `printed_run` has both in
V[s] (D + 1,).  A point whose class has no
second member is left out of every sum over i, but stays among the neighbours of the others.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

TIE = 1e-10


def nca_objective(L: npt.ArrayLike, X: npt.ArrayLike, y: npt.ArrayLike) -> float:
    """Return sum_i p_i, p_i = sum_{j same} softmax_{j != i}(-||L (x_i - x_j)||^2)."""
    factor, points, labels = _floats(L), _floats(X), np.asarray(y)
    total = 0.0
    for i in usable(labels):
        p = _softmax(_factor_scores(factor, points, i))
        for j in _same(labels, i):
            total += float(p[j])
    return total


def nca_log_objective(L: npt.ArrayLike, X: npt.ArrayLike, y: npt.ArrayLike) -> float:
    """Return sum_i log p_i, p_i as in `nca_objective`."""
    factor, points, labels = _floats(L), _floats(X), np.asarray(y)
    total = 0.0
    for i in usable(labels):
        total += _log_share(_factor_scores(factor, points, i), _same(labels, i))
    return total


def nca_gradient(L: npt.ArrayLike, X: npt.ArrayLike, y: npt.ArrayLike) -> Floats:
    """Return the derivative of `nca_objective` with respect to L."""
    factor, points, labels = _floats(L), _floats(X), np.asarray(y)
    gradient = np.zeros(factor.shape)
    for i in usable(labels):
        p = _softmax(_factor_scores(factor, points, i))
        same = _same(labels, i)
        p_i = sum(float(p[j]) for j in same)
        for j in _others(labels, i):
            share = float(p[j]) * ((j in same) - p_i)
            gradient += share * _factor_slope(factor, points, i, j)
    return gradient


def nca_log_gradient(L: npt.ArrayLike, X: npt.ArrayLike, y: npt.ArrayLike) -> Floats:
    """Return the derivative of `nca_log_objective` with respect to L."""
    factor, points, labels = _floats(L), _floats(X), np.asarray(y)
    gradient = np.zeros(factor.shape)
    for i in usable(labels):
        scores = _factor_scores(factor, points, i)
        p, w = _softmax(scores), _softmax_within(scores, _same(labels, i))
        for j in _others(labels, i):
            gradient += (w[j] - p[j]) * _factor_slope(factor, points, i, j)
    return gradient


def gate(X: npt.ArrayLike, V: npt.ArrayLike, b: npt.ArrayLike) -> Floats:
    """Return the (n, S) array of pi_s(x_i), eq. (9)."""
    points, directions, offsets = _floats(X), _floats(V), _floats(b)
    pi = np.zeros((len(points), len(directions)))
    for i in range(len(points)):
        pi[i] = np.exp(_log_gate(points[i], directions, offsets))
    return pi


def log_likelihood(
    Ms: npt.ArrayLike,
    V: npt.ArrayLike,
    b: npt.ArrayLike,
    X: npt.ArrayLike,
    y: npt.ArrayLike,
    normalize: bool,
) -> float:
    """Return sum_i log sum_s pi_s(x_i) p_s(i), eq. (8) and minus the first term of (11).

    p_s(i) is the sum over j != i of the class of i of softmax_{j != i}(-d_s(i, j)), with
    d_s(i, j) = (x_j - x_i)' M_s (x_j - x_i), over ||M_s||_F if `normalize`.
    """
    metrics, points, labels = _floats(Ms), _floats(X), np.asarray(y)
    total = 0.0
    for i in usable(labels):
        joint = _log_joint(metrics, _floats(V), _floats(b), points, labels, i, normalize)
        total += _logsumexp(joint)
    return total


def log_likelihood_gradients(
    Ms: npt.ArrayLike,
    V: npt.ArrayLike,
    b: npt.ArrayLike,
    X: npt.ArrayLike,
    y: npt.ArrayLike,
    normalize: bool,
) -> tuple[Floats, Floats, Floats]:
    """Return the derivatives of `log_likelihood` with respect to Ms, V and b.

    These are minus the likelihood terms of (16) and (15), with pi_s p_s / sum_t pi_t p_t written
    as the responsibility r_s, so that no probability underflows.  The entries of M_s count as
    D * D independent variables: the slope along a symmetric H is the sum of ``gradient * H``.
    """
    metrics, directions, offsets = _floats(Ms), _floats(V), _floats(b)
    points, labels = _floats(X), np.asarray(y)
    to_metrics, to_directions = np.zeros(metrics.shape), np.zeros(directions.shape)
    to_offsets = np.zeros(offsets.shape)
    for i in usable(labels):
        pi = np.exp(_log_gate(points[i], directions, offsets))
        r = _softmax(_log_joint(metrics, directions, offsets, points, labels, i, normalize))
        for s in range(len(metrics)):
            to_directions[s] += (r[s] - pi[s]) * points[i]
            to_offsets[s] += r[s] - pi[s]
            scores = _scores(metrics[s], points[i], points, normalize)
            scores[i] = -np.inf
            p, w = _softmax(scores), _softmax_within(scores, _same(labels, i))
            for j in _others(labels, i):
                slope = _distance_slope(metrics[s], points[j] - points[i], normalize)
                to_metrics[s] -= r[s] * (w[j] - p[j]) * slope
    return to_metrics, to_directions, to_offsets


def factor_gradients(
    Ls: npt.ArrayLike,
    V: npt.ArrayLike,
    b: npt.ArrayLike,
    X: npt.ArrayLike,
    y: npt.ArrayLike,
) -> Floats:
    """Return the derivative of the unnormalised `log_likelihood` with respect to Ls (S, d, D).

    M_s = L_s' L_s.
    """
    factors, directions, offsets = _floats(Ls), _floats(V), _floats(b)
    points, labels = _floats(X), np.asarray(y)
    metrics = np.array([L.T @ L for L in factors])
    gradient = np.zeros(factors.shape)
    for i in usable(labels):
        r = _softmax(_log_joint(metrics, directions, offsets, points, labels, i, False))
        for s in range(len(factors)):
            scores = _factor_scores(factors[s], points, i)
            p, w = _softmax(scores), _softmax_within(scores, _same(labels, i))
            for j in _others(labels, i):
                gradient[s] += r[s] * (w[j] - p[j]) * _factor_slope(factors[s], points, i, j)
    return gradient


@dataclass(frozen=True)
class State:
    """An iterate of `printed_run`.

    Attributes
    ----------
    Ms : (S, D, D) array
        Metrics.
    V : (S, D + 1) array
        Gates: the offset b_s of eq. (9) is the last of the D + 1 numbers of eq. (10).
    objective : float
        G of eq. (11).
    """

    Ms: Floats
    V: Floats
    objective: float


def printed_run(
    X: npt.ArrayLike,
    y: npt.ArrayLike,
    Ms: npt.ArrayLike,
    V: npt.ArrayLike,
    *,
    n_iter: int,
    step: float = 0.02,
    lam: float = 0.02,
    eta: float = 0.02,
) -> list[State]:
    """Return the start and each iterate of the update rules of section 3.3, letter by letter.

    Both gradients are taken at the same iterate. Nothing rescales M_s: |M_s|_F is only where eqs.
    (2) and (16) have it. Left out are points without a second member of their class, as their p_s
    is zero.

    Parameters
    ----------
    X, y : arrays of shapes (n, D) and (n,)
        Points and labels.
    Ms, V : arrays of shapes (S, D, D) and (S, D + 1)
        Where to start.
    n_iter : int
    step : float
        gamma_v and gamma_m.
    lam, eta : float
        The same for all components.
    """
    points, labels = _floats(X), np.asarray(y)
    metrics, gates = _floats(Ms).copy(), _floats(V).copy()
    states = [State(metrics, gates, printed_objective(metrics, gates, points, labels, lam, eta))]
    for _ in range(n_iter):
        by_gates, by_metrics = _printed_gradients(metrics, gates, points, labels, lam, eta)
        gates = gates - step * by_gates
        metrics = np.array(
            [_clip(M - step * by) for M, by in zip(metrics, by_metrics, strict=True)]
        )
        value = printed_objective(metrics, gates, points, labels, lam, eta)
        states.append(State(metrics, gates, value))
    return states


def printed_objective(
    Ms: Floats, V: Floats, points: Floats, labels: npt.NDArray[np.generic], lam: float, eta: float
) -> float:
    """Return G of eq. (11)."""
    total = 0.0
    for i in usable(labels):
        pi = _printed_gate(V, points[i])
        p = [_printed_share(M, points, labels, i) for M in Ms]
        total -= np.log(sum(pi[s] * p[s] for s in range(len(Ms))))
    for s in range(len(Ms)):
        total += lam * float(np.trace(Ms[s]))
        total += eta * sum(abs(float(v)) for v in V[s])
    return float(total)


def _printed_gate(V: Floats, x: Floats) -> list[float]:
    """Return pi_s(x), eq. (9)."""
    terms = [float(np.exp(v[:-1] @ x + v[-1])) for v in V]
    return [term / sum(terms) for term in terms]


def _printed_neighbours(M: Floats, points: Floats, i: int) -> dict[int, float]:
    """Return p_s(y_ji | x_i, M_s), defined below eq. (14), of every j but i."""
    norm = float(np.linalg.norm(M))
    terms = {}
    for j in range(len(points)):
        if j != i:
            difference = points[j] - points[i]
            terms[j] = float(np.exp(-(difference @ M @ difference) / norm))
    total = sum(terms.values())
    return {j: term / total for j, term in terms.items()}


def _printed_share(M: Floats, points: Floats, labels: npt.NDArray[np.generic], i: int) -> float:
    """Return p_s(y_i | x_i, M_s), below eq. (8)."""
    q = _printed_neighbours(M, points, i)
    return sum(q[j] for j in q if labels[j] == labels[i])


def _printed_gradients(
    Ms: Floats, V: Floats, points: Floats, labels: npt.NDArray[np.generic], lam: float, eta: float
) -> tuple[Floats, Floats]:
    """Return (15), with x_i followed by the 1 that b_s goes with, and (16)."""
    by_V, by_M = np.zeros(V.shape), np.zeros(Ms.shape)
    for s in range(len(Ms)):
        for i in usable(labels):
            pi = _printed_gate(V, points[i])
            p = [_printed_share(M, points, labels, i) for M in Ms]
            mixed = sum(pi[t] * p[t] for t in range(len(Ms)))
            by_V[s] -= (p[s] / mixed - 1.0) * pi[s] * np.append(points[i], 1.0)
            by_M[s] -= pi[s] / mixed * _printed_share_slope(Ms[s], points, labels, i)
        by_V[s] += eta * np.array([1.0 if v >= 0 else -1.0 for v in V[s]])  # (17)
        by_M[s] += lam * np.eye(len(Ms[s]))
    return by_V, by_M


def _printed_share_slope(
    M: Floats, points: Floats, labels: npt.NDArray[np.generic], i: int
) -> Floats:
    """Return the derivative of p_s(y_i | x_i, M_s) by M_s, printed below eq. (17)."""
    q, norm = _printed_neighbours(M, points, i), float(np.linalg.norm(M))
    p = sum(q[j] for j in q if labels[j] == labels[i])
    slope = np.zeros(M.shape)
    for j in q:
        difference = points[j] - points[i]
        distance = float(difference @ M @ difference)
        bracket = np.outer(difference, difference) - distance / norm * M / norm
        if labels[j] == labels[i]:
            slope -= q[j] / norm * bracket
        slope += p * q[j] / norm * bracket
    return slope


def _clip(M: Floats) -> Floats:
    """Return M with its negative eigenvalues set to zero, eq. (18)."""
    values, vectors = np.linalg.eigh(M)
    return np.asarray((vectors * np.maximum(0.0, values)) @ vectors.T)


def soft_votes(
    Ms: npt.ArrayLike,
    V: npt.ArrayLike,
    b: npt.ArrayLike,
    X: npt.ArrayLike,
    y: npt.ArrayLike,
    queries: npt.ArrayLike,
    normalize: bool,
) -> Floats:
    """Return the (m, C) votes sum_s pi_s(x) p_s(c | x) of new points, classes in sorted order.

    p_s(c | x) is a sum over all the points of class c in X, a query not being one of them.
    """
    metrics, points, labels = _floats(Ms), _floats(X), np.asarray(y)
    new = _floats(queries)
    classes = np.unique(labels)
    pi = gate(new, V, b)
    votes = np.zeros((len(new), len(classes)))
    for q in range(len(new)):
        for s in range(len(metrics)):
            p = _softmax(_scores(metrics[s], new[q], points, normalize))
            for c in range(len(classes)):
                for j in range(len(points)):
                    if labels[j] == classes[c]:
                        votes[q, c] += pi[q, s] * p[j]
    return votes


def hard_gate(V: npt.ArrayLike, b: npt.ArrayLike, queries: npt.ArrayLike) -> Ints:
    """Return the (m,) component with the largest gate of each query, the first among equals."""
    directions, offsets, new = _floats(V), _floats(b), _floats(queries)
    chosen: list[int] = []
    for x in new:
        scores = [float(directions[s] @ x + offsets[s]) for s in range(len(directions))]
        chosen.append(scores.index(max(scores)))
    return np.array(chosen, dtype=np.int64)


def hard_gate_neighbours(
    Ms: npt.ArrayLike,
    V: npt.ArrayLike,
    b: npt.ArrayLike,
    X: npt.ArrayLike,
    queries: npt.ArrayLike,
    k: int,
) -> Ints:
    """Return the (m, k) nearest rows of X under each query's metric of the largest gate.

    Nearest first; distances within a relative 1e-10 count as equal, the lower row being nearer.
    """
    metrics, points, new = _floats(Ms), _floats(X), _floats(queries)
    chosen = hard_gate(V, b, new)
    found = np.zeros((len(new), k), dtype=np.int64)
    for q in range(len(new)):
        scores = _scores(metrics[chosen[q]], new[q], points, False)
        distance = {j: max(0.0, -float(scores[j])) for j in range(len(points))}
        for place in range(k):
            limit = min(distance.values()) * (1.0 + TIE)
            nearest = min(j for j in distance if distance[j] <= limit)
            found[q, place] = nearest
            del distance[nearest]
    return found


def usable(y: npt.ArrayLike) -> list[int]:
    """Return the points whose class has a second member."""
    labels = np.asarray(y)
    return [i for i in range(len(labels)) if _same(labels, i)]


def _same(labels: npt.NDArray[np.generic], i: int) -> list[int]:
    return [j for j in range(len(labels)) if j != i and labels[j] == labels[i]]


def _others(labels: npt.NDArray[np.generic], i: int) -> list[int]:
    return [j for j in range(len(labels)) if j != i]


def _scores(M: Floats, x: Floats, points: Floats, normalize: bool) -> Floats:
    """Return -d(x_j, x | M) of eq. (1) for every row j, over ||M||_F if `normalize`."""
    scores = np.zeros(len(points))
    for j in range(len(points)):
        difference = points[j] - x
        scores[j] = -float(difference @ M @ difference)
        if normalize:
            scores[j] /= _norm(M)
    return scores


def _distance_slope(M: Floats, difference: Floats, normalize: bool) -> Floats:
    """Return the derivative of the distance with respect to M: bracket of (16) over norm."""
    outer = np.outer(difference, difference)
    if not normalize:
        return outer
    norm = _norm(M)
    return (outer - float(difference @ M @ difference) / norm * M / norm) / norm


def _factor_scores(L: Floats, points: Floats, i: int) -> Floats:
    """Return -||L (x_i - x_j)||^2 for every row j, -inf for i itself."""
    scores = np.zeros(len(points))
    for j in range(len(points)):
        scores[j] = -float(np.sum((L @ (points[i] - points[j])) ** 2))
    scores[i] = -np.inf
    return scores


def _factor_slope(L: Floats, points: Floats, i: int, j: int) -> Floats:
    """Return the derivative of -||L (x_i - x_j)||^2 with respect to L."""
    difference = points[i] - points[j]
    slope: Floats = -2.0 * np.outer(L @ difference, difference)
    return slope


def _log_gate(x: Floats, V: Floats, b: Floats) -> Floats:
    scores = np.array([float(V[s] @ x + b[s]) for s in range(len(V))])
    return np.asarray(scores - _logsumexp(scores), dtype=np.float64)


def _log_joint(
    metrics: Floats,
    V: Floats,
    b: Floats,
    points: Floats,
    labels: npt.NDArray[np.generic],
    i: int,
    normalize: bool,
) -> Floats:
    """Return log pi_s(x_i) + log p_s(i) for every s."""
    joint = _log_gate(points[i], V, b)
    for s in range(len(metrics)):
        scores = _scores(metrics[s], points[i], points, normalize)
        scores[i] = -np.inf
        joint[s] += _log_share(scores, _same(labels, i))
    return joint


def _log_share(scores: Floats, members: list[int]) -> float:
    """Return the logarithm of the softmax mass of the members."""
    return _logsumexp(scores[members]) - _logsumexp(scores)


def _softmax_within(scores: Floats, members: list[int]) -> Floats:
    """Return the softmax over the members alone, zero elsewhere."""
    w = np.zeros(len(scores))
    w[members] = _softmax(scores[members])
    return w


def _norm(M: Floats) -> float:
    norm = float(np.sqrt(np.sum(M**2)))
    if norm == 0.0:
        raise ValueError("a zero metric has no normalised distance")
    return norm


def _floats(values: npt.ArrayLike) -> Floats:
    return np.asarray(values, dtype=np.float64)


def _logsumexp(logits: Floats) -> float:
    top = float(np.max(logits))
    return top + float(np.log(np.sum(np.exp(logits - top))))


def _softmax(logits: Floats) -> Floats:
    terms = np.exp(logits - np.max(logits))
    return np.asarray(terms / np.sum(terms), dtype=np.float64)
