"""Datasets from OpenML, through scikit-learn's `fetch_openml` and its cache.

The table lists only sets whose id, size and classes are known. What arrives is compared with the
table, so that a changed upload is an error and never silently another problem.
"""

from __future__ import annotations

import string
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPException
from importlib.util import find_spec
from typing import Any

import numpy as np
import sklearn.datasets
from numpy.typing import NDArray

from nearfar.datasets.catalogue import DESCRIPTIONS
from nearfar.datasets.dataset import Dataset
from nearfar.datasets.files import VARIABLE


@dataclass(frozen=True)
class Source:
    """A dense numeric table of OpenML: `classes[c]` is how its target spells label c.

    `shape` is that of X once rows with missing values are dropped, if `drop_missing` says so;
    the first `n_train` rows are the training part where there is an agreed one.
    """

    data_id: int
    shape: tuple[int, int]
    classes: tuple[str, ...]
    drop_missing: bool = False
    n_train: int | None = None


_DIGITS = tuple(string.digits)
_ONE_TO_TEN = tuple(str(number) for number in range(1, 11))
_GLASS = (
    "build wind float",
    "build wind non-float",
    "vehic wind float",
    "containers",
    "tableware",
    "headlamps",
)
_SEGMENTS = ("brickface", "cement", "foliage", "grass", "path", "sky", "window")

SETS: Mapping[str, Source] = {
    "artificial_characters": Source(1459, (10218, 7), _ONE_TO_TEN),
    "balance_scale": Source(11, (625, 4), ("B", "L", "R")),
    "blood_transfusion": Source(1464, (748, 4), ("1", "2")),
    "breast_cancer_wisconsin": Source(15, (683, 9), ("benign", "malignant"), drop_missing=True),
    "glass": Source(41, (214, 9), _GLASS),
    "ionosphere": Source(59, (351, 34), ("b", "g")),
    "letter": Source(6, (20000, 16), tuple(string.ascii_uppercase)),
    "mnist": Source(554, (70000, 784), _DIGITS, n_train=60000),
    "optdigits": Source(28, (5620, 64), _DIGITS),
    "pima_diabetes": Source(37, (768, 8), ("tested_negative", "tested_positive")),
    "segmentation_2310": Source(36, (2310, 19), _SEGMENTS),
    "semeion": Source(1501, (1593, 256), _ONE_TO_TEN),
    "sonar": Source(40, (208, 60), ("Mine", "Rock")),
    "vehicle": Source(54, (846, 18), ("bus", "opel", "saab", "van")),
}


def fetch(name: str) -> Dataset:
    """The set `name` of the table, in float32 like the files.

    Raises
    ------
    ConnectionError
        If OpenML cannot be reached, or does not give the data.
    ValueError
        If what it gives is not what the table says.
    """
    source = SETS[name]
    bunch = _download(name, source)
    try:
        X = np.asarray(bunch.data).astype(np.float32)
        y = _encode(np.asarray(bunch.target), source.classes)
        if source.drop_missing:
            whole = ~np.isnan(X).any(axis=1)
            X, y = X[whole], y[whole]
        if X.shape != source.shape:
            raise ValueError(f"its shape is {X.shape} and not {source.shape}")
    except (TypeError, ValueError) as error:
        raise ValueError(f"OpenML's data {source.data_id} is not {name!r}: {error}") from error
    is_train = None if source.n_train is None else np.arange(len(X)) < source.n_train
    return Dataset(
        name,
        X,
        y=y,
        target_names=source.classes,
        feature_names=tuple(str(feature) for feature in bunch.feature_names),
        extra={} if is_train is None else {"is_train": is_train},
        description=f"{DESCRIPTIONS[name]} (OpenML {source.data_id})",
    )


def _download(name: str, source: Source) -> Any:
    """What `fetch_openml` returns, or one error for all its ways to fail."""
    try:
        return sklearn.datasets.fetch_openml(
            data_id=source.data_id,
            as_frame=False,
            parser="pandas" if find_spec("pandas") else "liac-arff",
            cache=True,
        )
    except (OSError, HTTPException, ValueError) as error:
        raise ConnectionError(
            f"{name!r} could not be fetched from OpenML (data {source.data_id}): {error}. "
            f"Connect to the network, or set {VARIABLE} to a folder with {name}.npz"
        ) from error


def _encode(target: NDArray[Any], classes: tuple[str, ...]) -> NDArray[np.intp]:
    """Position of every target in `classes`, which must be exactly the ones that occur."""
    values, inverse = np.unique(target.astype(str), return_inverse=True)
    if set(values.tolist()) != set(classes):
        raise ValueError(f"its classes are {values.tolist()} and not {list(classes)}")
    return np.array([classes.index(value) for value in values.tolist()], dtype=np.intp)[inverse]
