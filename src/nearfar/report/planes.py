"""The plane of a map: on it, what is known of the training rows separates best.

The points are mapped by a metric, so that their Euclidean distances are its distances. A plane is
an orthogonal projection: distances on it are parts of the distances, in the same units. This is why
discriminant analysis does not serve here. Its projection is the same after any invertible map, and
maps before and after learning would look alike.

With B the scatter between classes (of far and dissimilar rows) and W that within them (of near and
similar rows), the candidates are the planes of

    the leading eigenvectors of B + W, of B, and of W^-1 B (made orthonormal)

and of the first of the last with the widest axis across it. They are learned from one half of the
training data. The one that does best on the other half is learned again from both; of equally good
ones, it is the first. Doing best means that the nearest rows on the plane have the same class or,
with judgements, that most of them hold there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh
from scipy.sparse import coo_array

from nearfar.constraints import Pairs, Triplets, kind_of
from nearfar.evaluate.measures import HeldOutJudgements, measures_for
from nearfar.metrics.metric import Metric
from nearfar.report.study import predictions
from nearfar.typing import Array, Floats, Ints, Matrix

# More training rows hardly move a plane, and voting takes time quadratic in their number.
_MAX_ROWS = 2000
# Leading principal axes that planes are made of; more would fit noise.
_MAX_AXES = 50
# Added to W, in units of its mean eigenvalue: little for many rows, more for few.
_RIDGES = (0.001, 0.1)
# Planes on which points spread less than this across, relative to along, are no maps.
_NARROW = 0.2
# A few more than usual, as single neighbours on a plane are there by chance.
_NEIGHBORS = 5
# Far above rounding, far below any spread that a map could show.
_RELATIVE_ZERO = 1e-9

Scatters = tuple[Matrix, Matrix]


@dataclass(frozen=True, eq=False)
class Plane:
    """An orthogonal projection to two coordinates.

    Attributes
    ----------
    center : array of shape (n_components,)
        The point that is mapped to the origin.
    axes : array of shape (n_components, 2)
        Orthonormal; the second one is zero if the points lie on a line.
    """

    center: Floats
    axes: Matrix

    def place(self, P: Floats) -> Matrix:
        """Return the coordinates of mapped points on the plane."""
        return np.asarray((P - self.center) @ self.axes, dtype=np.float64)

    def share(self, P: Floats) -> float:
        """Return the share of the mean squared distance of points that is on the plane."""
        total = float(np.var(P, axis=0, dtype=np.float64).sum())
        return float(self.place(P).var(axis=0).sum()) / total if total > 0 else 1.0


def plane_of_labels(P: Floats, labels: Array, seed: int = 0) -> Plane:
    """Return the plane on which the nearest rows have the same class most often.

    Parameters
    ----------
    P : array of shape (n_samples, n_components)
        Training rows, mapped by a metric.
    labels : array of shape (n_samples,)
    seed : int, default=0

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.report.planes import plane_of_labels
    >>> P = np.random.default_rng(0).normal(size=(400, 3)) * [1.0, 0.8, 2.0]
    >>> plane = plane_of_labels(P, P[:, 1] > 0)
    >>> float(abs(plane.axes[1]).max()) > 0.9
    True
    """
    chosen = np.random.default_rng(seed).permutation(len(P))[:_MAX_ROWS]
    points, codes = P[chosen], np.unique(labels[chosen], return_inverse=True)[1]
    # Rows in the order of their classes, so that every second one has half of each class.
    order = np.argsort(codes, kind="stable")
    first, second = order[::2], order[1::2]

    def score(flat: Matrix) -> float:
        k = min(_NEIGHBORS, len(first))
        metric = Metric.identity(2)
        classes = predictions(metric, (flat[first], codes[first]), flat[second], k)
        return float((classes == codes[second]).mean())

    def scatters(Z: Matrix, half: bool) -> Scatters:
        """Return the scatters of class means and around them."""
        rows = first if half else order
        Z, of_rows = Z[rows], codes[rows]
        counts = np.maximum(np.bincount(of_rows), 1)
        sums = np.zeros((len(counts), Z.shape[1]))
        np.add.at(sums, of_rows, Z)
        means = (sums / counts[:, None])[of_rows]
        around, apart = Z - means, means - Z.mean(axis=0)
        return apart.T @ apart / len(Z), around.T @ around / len(Z)

    return _best_plane(points, scatters, score if len(second) else None)


def plane_of_judgements(P: Floats, judgements: Triplets | Pairs, seed: int = 0) -> Plane:
    """Return the plane on which most triplets hold, or pairs are told apart best.

    Parameters
    ----------
    P : array of shape (n_samples, n_components)
        Rows, mapped by a metric.
    judgements : Triplets or Pairs
        To learn from.
    seed : int, default=0

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar import Triplets
    >>> from nearfar.report.planes import plane_of_judgements
    >>> P = np.array([[0.0, 0, 5], [1, 0, -5], [3, 0, 5], [4, 0, -5]])
    >>> plane = plane_of_judgements(P, Triplets([[0, 1, 2], [1, 0, 2], [2, 3, 1], [3, 2, 0]]))
    >>> float(abs(plane.axes[0]).max()) > 0.9
    True
    """
    order = np.random.default_rng(seed).permutation(len(judgements))
    first, second = judgements.take(order[::2]), judgements.take(order[1::2])
    measure = measures_for(kind_of(judgements))[0]

    def score(flat: Matrix) -> float:
        return -float(measure.losses(HeldOutJudgements(Metric.identity(2), flat, second)).mean())

    def scatters(Z: Matrix, half: bool) -> Scatters:
        """Return the scatters of far and near rows, or of dissimilar and similar ones."""
        some = first if half else judgements
        if isinstance(some, Triplets):
            anchor, near, far = some.index.T
            return _scatter(Z, anchor, far), _scatter(Z, anchor, near)
        i, j = some.index.T
        similar = some.similar
        return _scatter(Z, i[~similar], j[~similar]), _scatter(Z, i[similar], j[similar])

    return _best_plane(P, scatters, score if len(second) else None)


def _best_plane(
    P: Floats,
    scatters: Callable[[Matrix, bool], Scatters],
    score: Callable[[Matrix], float] | None,
) -> Plane:
    """Return the best candidate by its score after learning from half of the data."""
    center = P.mean(axis=0, dtype=np.float64)
    centered = np.asarray(P, dtype=np.float64) - center
    if centered.shape[1] > len(centered):
        leading = np.linalg.svd(centered, full_matrices=False)[2][:_MAX_AXES].T
    else:
        leading = np.linalg.eigh(centered.T @ centered)[1][:, ::-1][:, :_MAX_AXES]
    Z = centered @ leading
    best = 0
    if score is not None:
        scores = []
        for axes in _candidates(*scatters(Z, True)):
            flat = Z @ axes
            narrow, wide = np.linalg.eigvalsh(flat.T @ flat)
            scores.append(score(flat) if narrow > _NARROW**2 * wide else -np.inf)
        best = int(np.argmax(scores))
    axes = list(_candidates(*scatters(Z, False)))[best]
    # Axes of the same plane, along which points vary most and least.
    flat = Z @ axes
    return Plane(center, leading @ (axes @ np.linalg.eigh(flat.T @ flat)[1][:, ::-1]))


def _candidates(between: Matrix, within: Matrix) -> Iterator[Matrix]:
    """Yield orthonormal axes: by the sum of the scatters, by that between, and by their ratio."""
    total = between + within
    yield _filled(_leading(total), total)
    yield _filled(_leading(between), total)
    unit = (np.trace(within) + _RELATIVE_ZERO * np.trace(total)) / len(within) or 1.0
    for ridge in _RIDGES:
        ratios = eigh(between, within + ridge * unit * np.eye(len(within)))[1][:, ::-1]
        axes = np.linalg.qr(ratios[:, : _rank(between)])[0]
        yield _filled(axes, total)
        yield _filled(axes[:, :1], total)


def _rank(between: Matrix) -> int:
    """Return how many axes tell rows apart, at most two."""
    values = np.linalg.eigvalsh(between)
    return max(1, min(2, int((values > _RELATIVE_ZERO * values[-1]).sum())))


def _leading(scatter: Matrix) -> Matrix:
    return np.asarray(np.linalg.eigh(scatter)[1][:, ::-1][:, : _rank(scatter)])


def _filled(axes: Matrix, total: Matrix) -> Matrix:
    """Return two axes; one that is missing is the widest one across the other."""
    if axes.shape[1] == 2:
        return axes
    if len(axes) == 1:
        return np.column_stack([axes, np.zeros(1)])
    across = np.eye(len(axes)) - axes @ axes.T
    return np.column_stack([axes, np.linalg.eigh(across @ total @ across)[1][:, -1]])


def _scatter(Z: Matrix, i: Ints, j: Ints) -> Matrix:
    """Return the mean outer product of differences of rows, without forming the differences."""
    weights = coo_array((np.full(len(i), 1.0 / max(len(i), 1)), (i, j)), (len(Z), len(Z))).tocsr()
    weights = weights + weights.T
    return np.asarray(Z.T @ (weights.sum(axis=1)[:, None] * Z) - Z.T @ (weights @ Z))
