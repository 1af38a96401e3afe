"""Named datasets, and generators of synthetic problems.

`load(name)` uses the first of these sources that has the name:

1. The generated set `circles`, people's judgements on `shoes`, and scikit-learn's bundled sets
   `iris`, `wine`, `digits` and `wdbc` (also `breast_cancer`). They need no files and no network.
   They take precedence over a file of the same name, so that examples give the same results
   everywhere.
2. `<name>.npz` in the folder given by the argument `folder` or by the environment variable
   `NEARFAR_DATA`. Files are read without pickle. They contain `X` and optionally `y`, `triplets`,
   `target_names` and `feature_names`; all other arrays go to `Dataset.extra`.

`available()` lists the names. `sklearn.datasets.fetch_openml` downloads more. The README that comes
with the files, or scikit-learn, has the origin and licence of a dataset. The package contains only
`shoes`: answers of people on Mechanical Turk about 24 pictures of UT Zappos50K (M. Berger and
others, from the repository stsievert/salmon, BSD-3), and eight principal components of the
pictures' features.

The `make_*` functions generate problems of any size from a seed.
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
