"""A map that is another linear one in each region of the new vectors.

Regions are the cells of k-means. In each, ridge regression corrects what the map of all items
leaves over, so that a region with little to correct keeps that map. As a feature map, a vector x in
region c of K is K blocks of (x, 1), all zero but block c, before one linear map:

    phi(x) = (0, ..., x, 1, ..., 0)        x -> L phi(x),    L = (W_1, b_1, ..., W_K, b_K)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from sklearn.cluster import KMeans

from nearfar.bridge.maps import Centred, Ridge
from nearfar.deploy.linear_map import LinearMap
from nearfar.typing import Floats, Matrix

# Between the two real models of benchmarks/bridge.py, 16 regions of 6,000 items keep 65 to 66 % of
# the neighbours, one linear map 58 to 60 %. With fewer items in a region, little is gained.
_MOST_REGIONS, _ITEMS_OF_REGION = 16, 100


@dataclass(frozen=True, eq=False)
class Regions:
    """The features of regions.

    Attributes
    ----------
    centers : array of shape (n_regions, n_features)

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.bridge.local import Regions
    >>> Regions(np.array([[0.0], [10.0]])).features(np.array([[1.0], [7.0]]))
    array([[1., 1., 0., 0.],
           [0., 0., 7., 1.]])
    """

    centers: Matrix
    kind: ClassVar[str] = "regions"

    @property
    def n_features(self) -> int:
        """Number of features of a vector."""
        return self.centers.shape[1]

    def features(self, X: Floats) -> Matrix:
        """Return the features of vectors."""
        nearest = (X @ self.centers.T - (self.centers**2).sum(axis=1) / 2).argmax(axis=1)
        features = np.zeros((len(X), len(self.centers), self.n_features + 1))
        features[np.arange(len(X)), nearest] = np.column_stack([X, np.ones(len(X))])
        return features.reshape(len(X), -1)


def n_regions(n_items: int) -> int:
    """Return the number of regions for a number of items; below 2 there are too few."""
    return min(_MOST_REGIONS, n_items // _ITEMS_OF_REGION)


def local(new: Floats, old: Floats, everywhere: LinearMap) -> LinearMap:
    """Return a map that corrects a linear one in each region.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.bridge.local import local
    >>> from nearfar.bridge.maps import Centred, Ridge
    >>> X = np.linspace(-1, 1, 400)[:, None]
    >>> bent = local(X, abs(X), Ridge(Centred.of(X, abs(X))).linear())
    >>> mapped = bent.maps[0].features(X) @ bent.L.T
    >>> bool(np.abs(mapped - abs(X)).max() < 0.1)
    True
    """
    regions = KMeans(n_regions(len(new)), n_init=1, random_state=0).fit(new.astype(np.float64))
    left = old - (new @ everywhere.L.T + everywhere.b)
    blocks = []
    for region in range(len(regions.cluster_centers_)):
        inside = regions.labels_ == region
        own = Ridge(Centred.of(new[inside], left[inside])).linear()
        blocks += [everywhere.L + own.L, (everywhere.b + own.b)[:, None]]
    L, centers = np.hstack(blocks), np.asarray(regions.cluster_centers_, dtype=np.float64)
    return LinearMap(np.ascontiguousarray(L), np.zeros(len(L)), maps=(Regions(centers),))
