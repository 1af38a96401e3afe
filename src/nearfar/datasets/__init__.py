"""Data to learn metrics from: named sets, and generators whose right answer is known.

`load(name)` looks in this order and takes the first it finds:

1. scikit-learn's bundled sets `iris`, `wine`, `digits` and `wdbc` (also `breast_cancer`). They need
   no files and no network, and they win over a file of the same name, so that an example means the
   same everywhere.
2. `<name>.npz` in the argument `folder`, or else in the folder that the environment variable
   `NEARFAR_DATA` names. Files are read without pickling. They hold `X`, and where they apply `y`,
   `triplets`, `target_names` and `feature_names`; every other array goes to `Dataset.extra`.
3. OpenML, through scikit-learn's `fetch_openml` and its cache, for the names in `openml.SETS`. The
   numbers are those of the original data; the order of the rows is OpenML's.

`available()` lists what the first two offer. The package contains no data: the origin and licence
of a set are stated by the README that comes with the files, by scikit-learn, or by OpenML.

The `make_*` functions draw synthetic problems of any size from a seed.
"""

from __future__ import annotations

from nearfar.datasets.dataset import Dataset
from nearfar.datasets.generators import (
    make_circles,
    make_helix,
    make_known_metric,
    make_triplets_from_metric,
    make_twin_peaks,
    make_two_regions,
)
from nearfar.datasets.loading import available, load

__all__ = [
    "Dataset",
    "available",
    "load",
    "make_circles",
    "make_helix",
    "make_known_metric",
    "make_triplets_from_metric",
    "make_twin_peaks",
    "make_two_regions",
]
