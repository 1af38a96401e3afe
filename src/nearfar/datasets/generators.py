"""Generators of synthetic problems.

- `make_twin_peaks`, `make_helix`: the two artificial sets of BoostMetric's Table 1, with the
  formulas and the older labels of van der Maaten's toolbox.
- `make_circles`: concentric circles among columns of noise; a linear metric must find their plane.
- `make_two_regions`: two regions that need different metrics.
- `make_known_metric`, `make_triplets_from_metric`: problems with a known true metric.

All of them accept `random_state` as in scikit-learn, or a NumPy Generator.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.distance import pdist
from sklearn.utils import check_array, check_random_state

from nearfar.metrics.metric import Metric
from nearfar.runtime.parameters import check_parameters, integer, number
from nearfar.typing import Floats, Ints

Seed = int | np.random.RandomState | np.random.Generator | None

_PROBLEM = {"n_samples": integer(at_least=1), "noise": number(at_least=0.0)}
# Triples drawn at a time: few enough for memory, and enough to make up for ties.
_MAX_BATCH = 1 << 16
_MIN_BATCH = 256
# After so many draws of nothing but ties, nearly all distances are equal.
_MAX_EMPTY_BATCHES = 20


def make_twin_peaks(
    n_samples: int = 1000, *, noise: float = 0.05, random_state: Seed = None
) -> tuple[Floats, Ints]:
    """Two peaks and two valleys over a square, labelled by their height.

    A row is (a, b, 10 sin(pi a) tanh(3 b)) with a, b uniform on [-1, 1]. Noise is added before the
    third column is multiplied by 10. The label is max(round(x_3), 0): class 0 is everything below
    1/2, and only the third column matters.

    Parameters
    ----------
    n_samples : int
        Number of rows.
    noise : float
        Standard deviation of the normal noise on all three coordinates.
    random_state : int, RandomState, Generator or None
        The seed.

    Returns
    -------
    X : ndarray of shape (n_samples, 3)
        The points.
    y : ndarray of shape (n_samples,)
        Labels 0..10; the noise rarely adds larger ones.

    Examples
    --------
    >>> from nearfar.datasets import make_twin_peaks
    >>> X, y = make_twin_peaks(500, random_state=0)
    >>> X.shape, bool((y == X[:, 2].round().clip(min=0)).all())
    ((500, 3), True)
    """
    check_parameters(_PROBLEM, locals())
    rng = _random(random_state)
    a, b = rng.uniform(-1.0, 1.0, size=(2, n_samples))
    X = np.column_stack([a, b, np.sin(np.pi * a) * np.tanh(3.0 * b)])
    X += noise * rng.standard_normal(X.shape)
    X[:, 2] *= 10.0
    return X, np.maximum(np.round(X[:, 2]), 0.0).astype(np.intp)


def make_helix(
    n_samples: int = 1000, *, noise: float = 0.05, random_state: Seed = None
) -> tuple[Floats, Ints]:
    """A closed helix wound eight times around a ring, labelled along its length.

    A row is ((2 + cos 8t) cos t, (2 + cos 8t) sin t, sin 8t) plus noise, with
    t = 2 pi i / n_samples for i = 1..n_samples in random order. The label is round(t).

    Parameters
    ----------
    n_samples : int
        Number of rows.
    noise : float
        Standard deviation of the normal noise on all three coordinates.
    random_state : int, RandomState, Generator or None
        The seed.

    Returns
    -------
    X : ndarray of shape (n_samples, 3)
        The points.
    y : ndarray of shape (n_samples,)
        Labels 0..6.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.datasets import make_helix
    >>> X, y = make_helix(500, random_state=0)
    >>> X.shape, np.unique(y).tolist()
    ((500, 3), [0, 1, 2, 3, 4, 5, 6])
    """
    check_parameters(_PROBLEM, locals())
    rng = _random(random_state)
    t = 2.0 * np.pi * (1.0 + rng.permutation(n_samples)) / n_samples
    ring = 2.0 + np.cos(8.0 * t)
    X = np.column_stack([ring * np.cos(t), ring * np.sin(t), np.sin(8.0 * t)])
    X += noise * rng.standard_normal(X.shape)
    return X, np.round(t).astype(np.intp)


def make_circles(
    n_samples: int = 1000,
    n_features: int = 50,
    n_classes: int = 4,
    *,
    noise: float = 0.1,
    random_state: Seed = None,
) -> tuple[Floats, Ints]:
    """Concentric circles in the first two columns, standard normal noise in the others.

    Classes are drawn uniformly. Points of class c have a uniform angle and radius c + 1 plus noise.

    Parameters
    ----------
    n_samples : int
        Number of rows.
    n_features : int
        Number of columns, at least 2.
    n_classes : int
        Number of circles.
    noise : float
        Standard deviation of the normal noise on the radius.
    random_state : int, RandomState, Generator or None
        The seed.

    Returns
    -------
    X : ndarray of shape (n_samples, n_features)
        The points.
    y : ndarray of shape (n_samples,)
        Labels 0..n_classes - 1.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.datasets import make_circles
    >>> X, y = make_circles(100, n_features=10, noise=0.0, random_state=0)
    >>> X.shape, bool(np.allclose(np.hypot(X[:, 0], X[:, 1]), y + 1))
    ((100, 10), True)
    """
    rules = {"n_features": integer(at_least=2), "n_classes": integer(at_least=1)}
    check_parameters(_PROBLEM | rules, locals())
    rng = _random(random_state)
    y = rng.randint(n_classes, size=n_samples)
    angle = rng.uniform(0.0, 2.0 * np.pi, n_samples)
    radius = 1.0 + y + noise * rng.standard_normal(n_samples)
    X = rng.standard_normal((n_samples, n_features))
    X[:, 0], X[:, 1] = radius * np.cos(angle), radius * np.sin(angle)
    return X, y.astype(np.intp)


def make_two_regions(
    n_samples: int = 800,
    n_bits: int = 4,
    *,
    noise: float = 0.35,
    random_state: Seed = None,
) -> tuple[Floats, Ints, Ints]:
    """Two regions that need different metrics: the features of one are noise in the other.

    The first column is the region, -3 or 3. Two groups of `n_bits` columns follow, each -1 or 1
    plus noise. The class is the parity of the first group in one region, and of the second group
    in the other. A single metric has to use both groups, and points are sparse in both together.

    Parameters
    ----------
    n_samples : int
        Number of rows.
    n_bits : int
        Number of columns in each group.
    noise : float
        Standard deviation of the normal noise on all columns.
    random_state : int, RandomState, Generator or None
        The seed.

    Returns
    -------
    X : ndarray of shape (n_samples, 1 + 2 * n_bits)
        The points.
    y : ndarray of shape (n_samples,)
        Labels 0 and 1.
    region : ndarray of shape (n_samples,)
        The region of each row, 0 or 1.

    Examples
    --------
    >>> from nearfar.datasets import make_two_regions
    >>> X, y, region = make_two_regions(10, random_state=0)
    >>> X.shape, bool(((X[:, 0] > 0) == region).all())
    ((10, 9), True)
    """
    check_parameters(_PROBLEM | {"n_bits": integer(at_least=1)}, locals())
    rng = _random(random_state)
    region = rng.randint(2, size=n_samples)
    bits = 2.0 * rng.randint(2, size=(n_samples, 2, n_bits)) - 1.0
    parity = bits[np.arange(n_samples), region].prod(axis=1)
    X = np.column_stack([6.0 * region - 3.0, bits.reshape(n_samples, -1)])
    X += noise * rng.standard_normal(X.shape)
    return X, (parity > 0).astype(np.intp), region.astype(np.intp)


def make_known_metric(
    n_samples: int = 300,
    n_features: int = 20,
    n_informative: int = 3,
    n_classes: int = 4,
    *,
    separation: float = 6.0,
    noise: float = 10.0,
    random_state: Seed = None,
) -> tuple[Floats, Ints, Floats]:
    """Gaussian classes that differ only in a random subspace, and the true metric.

    A random rotation gives an orthonormal basis U of n_informative directions and a basis V of the
    others. A row of class c is x = U S (m_c + e) + V T f, with standard normal e and f,
    S = diag(s) with s uniform on [1/2, 2], and T = diag(t) with t uniform on
    [noise/2, 3 noise/2]. The covariance within every class is W = U S^2 U' + V T^2 V', and

        M = U S^-2 U'

    is its inverse restricted to the informative subspace: positive semidefinite, of rank
    n_informative, and zero on V. Under M, the squared distance between two class means is
    ``|m_a - m_b|^2 >= separation^2``, with equality for the closest two. The squared distance
    between two rows of one class is 2 times a chi-squared variable with n_informative degrees of
    freedom. The means span min(n_informative, n_classes - 1) dimensions; if that is less than
    n_informative, the remaining directions of M do not separate classes.

    Parameters
    ----------
    n_samples : int
        Number of rows, at least n_classes. Class sizes differ by at most one.
    n_features, n_informative : int
        Dimension of the space and of the subspace.
    n_classes : int
        Number of classes, at least 2.
    separation : float
        Distance under M between the two closest class means, in standard deviations.
    noise : float
        Typical standard deviation in the uninformative directions.
    random_state : int, RandomState, Generator or None
        The seed.

    Returns
    -------
    X : ndarray of shape (n_samples, n_features)
        The points.
    y : ndarray of shape (n_samples,)
        Labels 0..n_classes - 1, in random order.
    M : ndarray of shape (n_features, n_features)
        The true metric, for squared distances (x - z)' M (x - z).

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.datasets import make_known_metric
    >>> X, y, M = make_known_metric(200, n_features=10, n_informative=2, random_state=0)
    >>> X.shape, np.bincount(y).tolist(), int(np.linalg.matrix_rank(M))
    ((200, 10), [50, 50, 50, 50], 2)
    """
    rules = {
        "n_classes": integer(at_least=2),
        "n_informative": integer(at_least=1),
        "separation": number(above=0.0),
    }
    check_parameters(_PROBLEM | rules, locals())
    larger = {
        "n_samples": integer(at_least=n_classes),
        "n_features": integer(at_least=n_informative),
    }
    check_parameters(larger, locals())
    rng = _random(random_state)
    basis, _ = np.linalg.qr(rng.standard_normal((n_features, n_features)))
    U, V = basis[:, :n_informative], basis[:, n_informative:]
    s = rng.uniform(0.5, 2.0, n_informative)
    t = noise * rng.uniform(0.5, 1.5, n_features - n_informative)
    # The means are far from each other: each is the candidate farthest from those before it.
    candidates = rng.standard_normal((max(64, 16 * n_classes), n_informative))
    chosen, distance = [0], np.full(len(candidates), np.inf)
    for _ in range(n_classes - 1):
        step = np.linalg.norm(candidates - candidates[chosen[-1]], axis=1)
        np.minimum(distance, step, out=distance)
        chosen.append(int(distance.argmax()))
    means = candidates[chosen] - candidates[chosen].mean(axis=0)
    means *= separation / pdist(means).min()
    y = rng.permutation(np.arange(n_samples) % n_classes)
    e = rng.standard_normal((n_samples, n_informative))
    f = rng.standard_normal((n_samples, n_features - n_informative))
    X = ((means[y] + e) * s) @ U.T + (f * t) @ V.T
    L = (U / s).T
    return X, y.astype(np.intp), L.T @ L


def make_triplets_from_metric(
    X: ArrayLike,
    M: ArrayLike,
    n_triplets: int,
    *,
    noise: float = 0.0,
    random_state: Seed = None,
) -> Ints:
    """Random triplets (anchor, near, far), ordered by a metric.

    The three rows of a triplet are distinct and drawn uniformly; a triplet may occur more than
    once. Draws whose two distances are equal, up to rounding, are replaced by new draws.

    Parameters
    ----------
    X : array-like of shape (n, d)
        The points, at least three.
    M : array-like of shape (d, d)
        Symmetric positive semidefinite matrix of the squared distance (x - z)' M (x - z).
    n_triplets : int
        Number of triplets.
    noise : float
        Share of the triplets, chosen at random, in which near and far are swapped.
    random_state : int, RandomState, Generator or None
        The seed.

    Returns
    -------
    ndarray of shape (n_triplets, 3)
        Row numbers of X.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.datasets import make_triplets_from_metric
    >>> X = np.array([[0.0, 5.0], [1.0, 9.0], [4.0, 0.0]])
    >>> triplets = make_triplets_from_metric(X, np.diag([1.0, 0.0]), 50, random_state=0)
    >>> np.unique(triplets, axis=0).tolist()
    [[0, 1, 2], [1, 0, 2], [2, 1, 0]]
    """
    rules = {"n_triplets": integer(at_least=1), "noise": number(at_least=0.0, at_most=1.0)}
    check_parameters(rules, locals())
    points = check_array(X, dtype=np.float64, ensure_min_samples=3)
    Z = Metric.from_matrix(M).transform(points - points.mean(axis=0))
    rng = _random(random_state)
    batches: list[Ints] = []
    missing, empty_batches = n_triplets, 0
    while missing:
        # Draw triples of distinct numbers, uniformly.
        n, m = len(Z), max(_MIN_BATCH, min(missing, _MAX_BATCH))
        i, j, k = rng.randint(n, size=m), rng.randint(n - 1, size=m), rng.randint(n - 2, size=m)
        j += j >= i
        k += k >= np.minimum(i, j)
        k += k >= np.maximum(i, j)
        to_j = ((Z[i] - Z[j]) ** 2).sum(axis=1)
        to_k = ((Z[i] - Z[k]) ** 2).sum(axis=1)
        nearer = to_j <= to_k
        ordered = np.column_stack([i, np.where(nearer, j, k), np.where(nearer, k, j)])
        untied = np.abs(to_j - to_k) > 1e-10 * (to_j + to_k)
        index = ordered[untied].astype(np.intp)
        empty_batches = 0 if len(index) else empty_batches + 1
        if empty_batches == _MAX_EMPTY_BATCHES:
            raise ValueError("There are no triplets: under M all distances are equal.")
        batches.append(index[:missing])
        missing -= len(batches[-1])
    triplets = np.concatenate(batches)
    flipped = rng.choice(n_triplets, round(noise * n_triplets), replace=False)
    triplets[flipped] = triplets[flipped][:, [0, 2, 1]]
    return triplets


def _random(seed: Seed) -> np.random.RandomState:
    """Return a RandomState; it shares the bit generator of a Generator."""
    if isinstance(seed, np.random.Generator):
        return np.random.RandomState(seed.bit_generator)
    state: np.random.RandomState = check_random_state(seed)
    return state
