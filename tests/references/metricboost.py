"""Brute-force MetricBoost (Bi, Wu, Lu, Liu, Tao, Wolf, CVPR 2011), a test oracle."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Response = Literal["real", "normalized", "binary"]
Threshold = Literal["exact", "gaussian"]

CAP = 50.0
SAME_DIRECTION = 1.0 - 1e-6
TIE = 1e-12


@dataclass(frozen=True)
class Result:
    """What `boost` learned, one entry a round in the arrays of length T.

    Attributes
    ----------
    directions : (T, d) array
        Unit eigenvectors, of arbitrary sign.
    alphas : (T,) array
        Coefficients of the weak models.
    thresholds : (T,) array
        Binary cuts of the squared length, nan for the other responses.
    eigenvalues : (T,) array
        Eigenvalue of matrix (8) belonging to each direction.
    Z : (T,) array
        The normaliser of eq. (2) at the coefficient taken.
    D : (m,) array
        Triplet weights after the last update.
    M : (d, d) array
        Sum of ``alphas[t] * outer(directions[t], directions[t])``.
    margins : (m,) array
        H of the far pair less H of the near pair, the offset included.
    training_error : (T,) array
        Share by D_1 of the triplets with a margin of zero or less, after each round.
    objectives : (T,) array
        log sum_r weight_r exp(-margin_r) after each round.
    """

    directions: Floats
    alphas: Floats
    thresholds: Floats
    eigenvalues: Floats
    Z: Floats
    D: Floats
    M: Floats
    margins: Floats
    training_error: Floats
    objectives: Floats


def all_triplets(y: npt.ArrayLike) -> Ints:
    """Return every (anchor, same class, other class) row, ordered by its three indices."""
    labels = np.asarray(y)
    rows = [
        (i, j, k)
        for i in range(len(labels))
        for j in range(len(labels))
        if j != i and labels[j] == labels[i]
        for k in range(len(labels))
        if labels[k] != labels[i]
    ]
    return np.array(rows, dtype=np.int64).reshape(-1, 3)


def squared_lengths(X: npt.ArrayLike, direction: npt.ArrayLike) -> Floats:
    """Return the (n, n) table of (u'(x_i - x_j))^2, exactly symmetric."""
    points = np.asarray(X, dtype=np.float64)
    u = np.asarray(direction, dtype=np.float64)
    projected = np.zeros((len(points), len(points)))
    for f in range(points.shape[1]):
        projected += u[f] * (points[:, None, f] - points[None, :, f])
    return np.square(projected)


def largest_squared_distance(X: npt.ArrayLike) -> float:
    """Return C^2 of eq. (9), the largest squared distance between two rows."""
    points = np.asarray(X, dtype=np.float64)
    return max(float(np.sum((a - b) ** 2)) for a in points for b in points)


def matrix(X: npt.ArrayLike, triplets: npt.ArrayLike, D: Floats) -> Floats:
    """Return matrix (8) for the triplet weights `D`."""
    points = np.asarray(X, dtype=np.float64)
    i, j, k = np.asarray(triplets, dtype=np.int64).reshape(-1, 3).T
    near = points[i] - points[j]
    far = points[i] - points[k]
    total = far.T @ (D[:, None] * far) - near.T @ (D[:, None] * near)
    return np.asarray(0.5 * (total + total.T), dtype=np.float64)


def boost(
    X: npt.ArrayLike,
    triplets: npt.ArrayLike,
    *,
    response: Response,
    max_iter: int,
    weight: Floats | None = None,
    offset: Floats | None = None,
    threshold: Threshold = "exact",
    psd: bool = True,
) -> Result:
    """Run Algorithm 1 over the listed triplets.

    Parameters
    ----------
    X : (n, d) array
        Points.
    triplets : (m, 3) array
        Rows (anchor, near, far).
    response : {"real", "normalized", "binary"}
        Range of the weak models.
    max_iter : int
        Largest number of rounds.
    weight : (m,) array, optional
        Triplet weights, one each by default.
    offset : (m,) array, optional
        Margins (far less near) of a fixed prior.
    threshold : {"exact", "gaussian"}
        How a binary model is cut.
    psd : bool
        Take the largest eigenvalue and positive coefficients only; otherwise the eigenvalue of
        largest absolute value.

    Returns
    -------
    Result
        Weak models, path and final weights.
    """
    points = np.asarray(X, dtype=np.float64)
    rows = np.asarray(triplets, dtype=np.int64).reshape(-1, 3)
    m, d = len(rows), points.shape[1]
    i, j, k = rows.T
    log_weight = np.zeros(m) if weight is None else _log(np.asarray(weight, dtype=np.float64))
    margins = np.zeros(m) if offset is None else np.array(offset, dtype=np.float64)
    C2 = largest_squared_distance(points)
    D_1 = _softmax(log_weight - margins)

    directions: list[Floats] = []
    alphas: list[float] = []
    thresholds: list[float] = []
    eigenvalues: list[float] = []
    Z: list[float] = []
    training_error: list[float] = []
    objectives: list[float] = []
    finished = False
    while len(alphas) < max_iter and not finished:
        D = _softmax(log_weight - margins)
        eigenvalue, u = _eigenpair(matrix(points, rows, D), psd)
        if eigenvalue == 0.0 or (psd and eigenvalue < 0.0):
            break
        lengths = squared_lengths(points, u)
        near, far = lengths[i, j], lengths[i, k]
        beta = np.nan
        if response == "real":
            gain = far - near
            alpha, finished = _line_search(gain, log_weight - margins, eigenvalue)
        elif response == "normalized":
            gain = (far - near) / C2
            r = eigenvalue / C2
            alpha = float(np.sign(r)) * CAP
            if abs(r) < 1.0:
                alpha = 0.5 * float(np.log((1.0 + r) / (1.0 - r)))
        elif response == "binary":
            if directions and abs(float(u @ directions[-1])) > SAME_DIRECTION:
                break
            if threshold == "exact":
                beta = _exact_threshold(near, far, D, psd)
            elif threshold == "gaussian":
                beta = gaussian_threshold(
                    [lengths[p] for p in _unordered(i, j)], [lengths[p] for p in _unordered(i, k)]
                )
            else:
                raise ValueError(f"unknown threshold {threshold!r}")
            if np.isnan(beta):
                break
            gain = 1.0 * (far >= beta) - 1.0 * (near >= beta)
            alpha = _binary_alpha(gain, D)
        else:
            raise ValueError(f"unknown response {response!r}")
        if alpha == 0.0 or (psd and alpha < 0.0):
            break

        before = _logsumexp(log_weight - margins)
        margins = margins + alpha * gain
        after = _logsumexp(log_weight - margins)
        directions.append(u)
        alphas.append(alpha)
        thresholds.append(beta)
        eigenvalues.append(eigenvalue)
        Z.append(float(np.exp(after - before)))
        training_error.append(float(np.sum(D_1[margins <= 0.0])))
        objectives.append(after)

    M = np.zeros((d, d))
    for alpha, u in zip(alphas, directions, strict=True):
        M += alpha * np.outer(u, u)
    return Result(
        directions=np.array(directions).reshape(-1, d),
        alphas=np.array(alphas),
        thresholds=np.array(thresholds),
        eigenvalues=np.array(eigenvalues),
        Z=np.array(Z),
        D=_softmax(log_weight - margins),
        M=M,
        margins=margins,
        training_error=np.array(training_error),
        objectives=np.array(objectives),
    )


def hypothesis(
    result: Result,
    X: npt.ArrayLike,
    triplets: npt.ArrayLike,
    response: Response,
    C2: float | None = None,
) -> Floats:
    """Return H of the far pair less H of the near pair for any triplets, without an offset.

    Parameters
    ----------
    result : Result
        From `boost`.
    X : (n, d) array
        Points the triplets refer to.
    triplets : (m, 3) array
        Rows (anchor, near, far).
    response : {"real", "normalized", "binary"}
        The one given to `boost`.
    C2 : float, optional
        Divisor of the normalized response; by default the one of `X`, which is right only for
        the points given to `boost`.

    Returns
    -------
    (m,) array
        Margins.
    """
    points = np.asarray(X, dtype=np.float64)
    i, j, k = np.asarray(triplets, dtype=np.int64).reshape(-1, 3).T
    H = np.zeros((len(points), len(points)))
    for t in range(len(result.alphas)):
        h = squared_lengths(points, result.directions[t])
        if response == "normalized":
            h = h / (largest_squared_distance(points) if C2 is None else C2)
        elif response == "binary":
            h = 1.0 * (h >= result.thresholds[t])
        H += result.alphas[t] * h
    return np.asarray(H[i, k] - H[i, j], dtype=np.float64)


def gaussian_threshold(near_lengths: npt.ArrayLike, far_lengths: npt.ArrayLike) -> float:
    """Return where the Gaussians fitted to two sets of squared lengths are equally dense.

    With b = m1 + t (m2 - m1), the density ratio is monotone in t between the means, so at most
    one root lies there. Without one, the point at equally many standard deviations from both
    means is returned; if both deviations are zero, the midpoint of the means.

    Parameters
    ----------
    near_lengths, far_lengths : array
        Squared lengths of the near and of the far pairs.

    Returns
    -------
    float
        The threshold.
    """
    m1, s1 = _mean_and_deviation(np.asarray(near_lengths, dtype=np.float64))
    m2, s2 = _mean_and_deviation(np.asarray(far_lengths, dtype=np.float64))
    gap = m2 - m1
    if s1 == 0.0 and s2 == 0.0:
        return m1 + 0.5 * gap
    if s1 > 0.0 and s2 > 0.0 and gap != 0.0:

        def log_ratio(t: float) -> float:
            near, far = t * gap / s1, (1.0 - t) * gap / s2
            return near * near - far * far + 2.0 * float(np.log(s1 / s2))

        if log_ratio(0.0) <= 0.0 <= log_ratio(1.0):
            return m1 + gap * _root(log_ratio, 0.0, 1.0)
    return m1 + gap * (s1 / (s1 + s2))


def _mean_and_deviation(lengths: Floats) -> tuple[float, float]:
    if np.min(lengths) == np.max(lengths):
        return float(lengths.flat[0]), 0.0
    return float(np.mean(lengths)), float(np.std(lengths))


def _unordered(a: Ints, b: Ints) -> list[tuple[int, int]]:
    """Return the distinct pairs {a_r, b_r}."""
    return sorted({(int(min(p, q)), int(max(p, q))) for p, q in zip(a, b, strict=True)})


def _eigenpair(symmetric: Floats, psd: bool) -> tuple[float, Floats]:
    values, vectors = np.linalg.eigh(symmetric)
    best = len(values) - 1
    if not psd and abs(values[0]) > abs(values[-1]):
        best = 0
    return float(values[best]), vectors[:, best]


def _line_search(gain: Floats, log_D: Floats, eigenvalue: float) -> tuple[float, bool]:
    """Return the minimiser of Z, or the cap, and whether the direction alone satisfies all."""
    sign = 1.0 if eigenvalue > 0.0 else -1.0
    forward = sign * gain

    def descent(size: float) -> float:
        """Return -d log Z / d size, of the same root as dZ / d alpha."""
        return float(np.sum(_softmax(log_D - size * forward) * forward))

    if descent(0.0) <= 0.0:  # an eigenvalue that is zero but for rounding
        return 0.0, True
    cap = CAP / abs(eigenvalue)
    low, high = 0.0, min(1.0 / float(np.max(np.abs(gain))), cap)
    while descent(high) > 0.0:
        if high >= cap:
            return sign * cap, bool(np.all(forward >= 0.0))
        low, high = high, min(2.0 * high, cap)
    return sign * _root(descent, low, high), False


def _exact_threshold(near: Floats, far: Floats, D: Floats, psd: bool) -> float:
    """Return the lowest midpoint between lengths of least Z, nan if none lowers it."""
    values = np.unique(np.concatenate([near, far]))
    betas: list[float] = []
    scores: list[float] = []
    for lower, upper in pairwise(values):
        beta = lower + 0.5 * (upper - lower)
        if beta <= lower:  # neighbouring floats
            beta = upper
        near_is_long, far_is_long = near >= beta, far >= beta
        eps_plus = float(np.sum(D[near_is_long & ~far_is_long]))
        eps_minus = float(np.sum(D[far_is_long & ~near_is_long]))
        score = float(np.sqrt(eps_minus) - np.sqrt(eps_plus))
        betas.append(float(beta))
        scores.append(score if psd else abs(score))
    best = max(scores, default=0.0)
    if best <= TIE:
        return float("nan")
    return next(beta for beta, score in zip(betas, scores, strict=True) if score >= best - TIE)


def _binary_alpha(gain: Floats, D: Floats) -> float:
    eps_plus = float(np.sum(D[gain < 0.0]))
    eps_minus = float(np.sum(D[gain > 0.0]))
    if eps_plus == 0.0 or eps_minus == 0.0:
        eps_plus += 0.5 / len(D)
        eps_minus += 0.5 / len(D)
    alpha = 0.5 * float(np.log(eps_minus / eps_plus))
    return alpha if abs(alpha) > TIE else 0.0  # a partition just used has eps_minus = eps_plus


def _root(function: Callable[[float], float], low: float, high: float) -> float:
    return float(brentq(function, low, high, xtol=1e-300, rtol=1e-14, maxiter=1000))


def _log(values: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(values), dtype=np.float64)


def _logsumexp(logits: Floats) -> float:
    top = float(np.max(logits))
    return top + float(np.log(np.sum(np.exp(logits - top))))


def _softmax(logits: Floats) -> Floats:
    terms = np.exp(logits - np.max(logits))
    return np.asarray(terms / np.sum(terms), dtype=np.float64)
