"""Brute-force msNCA (Hong, Li, Jiang, Tu, CVPR 2011) and plain NCA, a test oracle.

Equation numbers are the paper's: (9) gate, (11) objective, (15) gate gradient, (16) metric
gradient, (17) signs, (18) clipping.  Points are the rows of X (n, D), already centred and scaled;
component s has the metric Ms[s] (D, D) and the gate V[s] (D,), b[s].  A point whose class has no
second member is left out of every sum over i, but stays among the neighbours of the others.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

TIE = 1e-10


@dataclass(frozen=True)
class Result:
    """What `faithful_run` learned.

    Attributes
    ----------
    Ms : (S, D, D) array
        Final metrics.
    V : (S, D) array
        Final gate directions.
    b : (S,) array
        Final gate offsets.
    objectives : (n_iter + 1,) array
        G of eq. (11) at the start and after each iteration.
    """

    Ms: Floats
    V: Floats
    b: Floats
    objectives: Floats


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


def penalised(
    Ms: npt.ArrayLike,
    V: npt.ArrayLike,
    b: npt.ArrayLike,
    X: npt.ArrayLike,
    y: npt.ArrayLike,
    lam: float,
    eta: float,
    *,
    normalize: bool,
    penalise_offsets: bool,
) -> float:
    """Return the objective to minimise, a sum and not a mean over the points.

    Parameters
    ----------
    Ms, V, b : arrays of shapes (S, D, D), (S, D) and (S,)
        Metrics and gate.
    X, y : arrays of shapes (n, D) and (n,)
        Points and labels.
    lam : float
        Weight of sum_s Tr M_s.
    eta : float
        Weight of sum |V|, and of sum |b| if `penalise_offsets`.
    normalize : bool
        Whether distances are divided by ||M_s||_F.
    penalise_offsets : bool
        Whether the l1 norm takes in b.  Paper, eq. (11): both True.  Production: both False.
    """
    value = -log_likelihood(Ms, V, b, X, y, normalize)
    for M in _floats(Ms):
        value += lam * float(np.trace(M))
    for v in _floats(V).ravel():
        value += eta * abs(float(v))
    if penalise_offsets:
        for offset in _floats(b):
            value += eta * abs(float(offset))
    return value


def penalised_gradients(
    Ms: npt.ArrayLike,
    V: npt.ArrayLike,
    b: npt.ArrayLike,
    X: npt.ArrayLike,
    y: npt.ArrayLike,
    lam: float,
    eta: float,
    *,
    normalize: bool,
    penalise_offsets: bool,
) -> tuple[Floats, Floats, Floats]:
    """Return (16) and (15), the latter for V and b: a subgradient of `penalised`.

    The sign of a zero is +1, eq. (17).
    """
    metrics, directions, offsets = _floats(Ms), _floats(V), _floats(b)
    to_metrics, to_directions, to_offsets = log_likelihood_gradients(Ms, V, b, X, y, normalize)
    by_metric, by_direction, by_offset = -to_metrics, -to_directions, -to_offsets
    for s in range(len(metrics)):
        by_metric[s] += lam * np.eye(metrics.shape[1])
        for w in range(directions.shape[1]):
            by_direction[s, w] += eta * _sign(directions[s, w])
        if penalise_offsets:
            by_offset[s] += eta * _sign(offsets[s])
    return by_metric, by_direction, by_offset


def clip(M: Floats) -> Floats:
    """Return M with its negative eigenvalues set to zero, eq. (18)."""
    values, vectors = np.linalg.eigh(0.5 * (M + M.T))
    clipped = np.zeros(M.shape)
    for k in range(len(values)):
        clipped += max(0.0, float(values[k])) * np.outer(vectors[:, k], vectors[:, k])
    return clipped


def initial(centres: npt.ArrayLike) -> tuple[Floats, Floats, Floats]:
    """Return the start (Ms, V, b) for given gate centres (S, D).

    M_s = I / sqrt(D), v_s = m_s and b_s = -||m_s||^2 / 2: pi_s is then proportional to
    exp(-||x - m_s||^2 / 2).
    """
    V = _floats(centres).copy()
    S, D = V.shape
    Ms = np.array([np.eye(D) / np.sqrt(D) for _ in range(S)])
    b = np.array([-0.5 * float(np.sum(v**2)) for v in V])
    return Ms, V, b


def faithful_run(
    X: npt.ArrayLike,
    y: npt.ArrayLike,
    S: int,
    n_iter: int,
    step: float = 0.02,
    lam: float = 0.02,
    eta: float = 0.02,
    *,
    centres: npt.ArrayLike,
    unit_norm: bool = True,
    penalise_offsets: bool = True,
) -> Result:
    """Run the paper's fixed-step projected subgradient descent on eq. (11).

    Both gradients are taken at the same iterate, then all of Ms, V and b move.

    Parameters
    ----------
    X, y : arrays of shapes (n, D) and (n,)
        Points and labels.
    S : int
        Number of components.
    n_iter : int
        Number of iterations.
    step : float
        gamma_v and gamma_m, for the sum over the points; ``step / n`` descends on the mean.
    lam, eta : float
        Weights of the trace and of the l1 norm, the same for all components.
    centres : (S, D) array
        Gate centres, see `initial`.
    unit_norm : bool
        Whether each clipped metric is divided by its Frobenius norm.  The paper does not.
    penalise_offsets : bool
        Whether the l1 norm takes in b, as in the paper.

    Raises
    ------
    ValueError
        If clipping leaves a zero metric.
    """
    Ms, V, b = initial(centres)
    if len(Ms) != S:
        raise ValueError(f"{S} components, but {len(Ms)} centres")

    def value() -> float:
        return penalised(
            Ms, V, b, X, y, lam, eta, normalize=True, penalise_offsets=penalise_offsets
        )

    objectives = [value()]
    for _ in range(n_iter):
        by_metric, by_direction, by_offset = penalised_gradients(
            Ms, V, b, X, y, lam, eta, normalize=True, penalise_offsets=penalise_offsets
        )
        for s in range(S):
            V[s] = V[s] - step * by_direction[s]
            b[s] = b[s] - step * by_offset[s]
            Ms[s] = clip(Ms[s] - step * by_metric[s])
            if not np.any(Ms[s]):
                raise ValueError(f"clipping left metric {s} zero")
            if unit_norm:
                Ms[s] = Ms[s] / np.sqrt(np.sum(Ms[s] ** 2))
        objectives.append(value())
    return Result(Ms=Ms, V=V, b=b, objectives=np.array(objectives))


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


def _sign(value: float) -> float:
    return 1.0 if value >= 0.0 else -1.0


def _floats(values: npt.ArrayLike) -> Floats:
    return np.asarray(values, dtype=np.float64)


def _logsumexp(logits: Floats) -> float:
    top = float(np.max(logits))
    return top + float(np.log(np.sum(np.exp(logits - top))))


def _softmax(logits: Floats) -> Floats:
    terms = np.exp(logits - np.max(logits))
    return np.asarray(terms / np.sum(terms), dtype=np.float64)
