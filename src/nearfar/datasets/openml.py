"""Datasets from OpenML, through scikit-learn's `fetch_openml` and its cache.

`SETS` has the id, shape and classes of each dataset. Downloads are compared with it, so that a
changed upload is an error and never silently another problem.
"""

from __future__ import annotations

import string
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPException
from importlib.util import find_spec

import numpy as np
import sklearn.datasets

from nearfar.datasets.catalogue import DESCRIPTIONS
from nearfar.datasets.dataset import Dataset
from nearfar.datasets.npz_files import FOLDER_VARIABLE


@dataclass(frozen=True)
class OpenMLTable:
    """What is expected of a numeric table on OpenML.

    Attributes
    ----------
    shape: Shape of X, without the rows that are dropped.
    classes: Label c is spelled `classes[c]` in the target.
    drop_missing: Whether to drop rows with missing values.
    n_train: The first `n_train` rows are the usual training set.
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

SETS: Mapping[str, OpenMLTable] = {
    "artificial_characters": OpenMLTable(1459, (10218, 7), _ONE_TO_TEN),
    "balance_scale": OpenMLTable(11, (625, 4), ("B", "L", "R")),
    "blood_transfusion": OpenMLTable(1464, (748, 4), ("1", "2")),
    "breast_cancer_wisconsin": OpenMLTable(
        15, (683, 9), ("benign", "malignant"), drop_missing=True
    ),
    "glass": OpenMLTable(41, (214, 9), _GLASS),
    "ionosphere": OpenMLTable(59, (351, 34), ("b", "g")),
    "letter": OpenMLTable(6, (20000, 16), tuple(string.ascii_uppercase)),
    "mnist": OpenMLTable(554, (70000, 784), _DIGITS, n_train=60000),
    "optdigits": OpenMLTable(28, (5620, 64), _DIGITS),
    "pima_diabetes": OpenMLTable(37, (768, 8), ("tested_negative", "tested_positive")),
    "segmentation_2310": OpenMLTable(36, (2310, 19), _SEGMENTS),
    "semeion": OpenMLTable(1501, (1593, 256), _ONE_TO_TEN),
    "sonar": OpenMLTable(40, (208, 60), ("Mine", "Rock")),
    "vehicle": OpenMLTable(54, (846, 18), ("bus", "opel", "saab", "van")),
}


def fetch(name: str) -> Dataset:
    """Return the dataset `name` of `SETS`, in float32.

    Raises
    ------
    ConnectionError
        If OpenML cannot be reached, or does not return the data.
    ValueError
        If the data differ from the entry in `SETS`.
    """
    table = SETS[name]
    try:
        bunch = sklearn.datasets.fetch_openml(
            data_id=table.data_id,
            as_frame=False,
            parser="pandas" if find_spec("pandas") else "liac-arff",
            cache=True,
        )
    except (OSError, HTTPException, ValueError) as error:
        raise ConnectionError(
            f"{name!r} could not be fetched from OpenML (data {table.data_id}): {error}. "
            f"Connect to the network, or set {FOLDER_VARIABLE} to a folder with {name}.npz."
        ) from error
    try:
        X = np.asarray(bunch.data).astype(np.float32)
        values, inverse = np.unique(np.asarray(bunch.target).astype(str), return_inverse=True)
        if set(values.tolist()) != set(table.classes):
            raise ValueError(f"its classes are {values.tolist()}, not {list(table.classes)}.")
        codes = [table.classes.index(value) for value in values.tolist()]
        y = np.array(codes, dtype=np.intp)[inverse]
        if table.drop_missing:
            complete = ~np.isnan(X).any(axis=1)
            X, y = X[complete], y[complete]
        if X.shape != table.shape:
            raise ValueError(f"its shape is {X.shape}, not {table.shape}.")
    except (TypeError, ValueError) as error:
        raise ValueError(f"OpenML's data {table.data_id} is not {name!r}: {error}") from error
    is_train = None if table.n_train is None else np.arange(len(X)) < table.n_train
    return Dataset(
        name,
        X,
        y=y,
        target_names=table.classes,
        feature_names=tuple(str(feature) for feature in bunch.feature_names),
        extra={} if is_train is None else {"is_train": is_train},
        description=f"{DESCRIPTIONS[name]} (OpenML {table.data_id})",
    )
