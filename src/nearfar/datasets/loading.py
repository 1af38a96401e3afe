"""Load datasets by name: generated, from scikit-learn, a folder or OpenML, in this order."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import sklearn.datasets

from nearfar.datasets import openml
from nearfar.datasets.catalogue import ALIASES, COLLECTIONS, DESCRIPTIONS
from nearfar.datasets.dataset import Dataset
from nearfar.datasets.generators import make_circles
from nearfar.datasets.npz_files import FOLDER_VARIABLE, DatasetFile, dataset_files
from nearfar.runtime.messages import did_you_mean

_SKLEARN_LOADERS = {
    "digits": "load_digits",
    "iris": "load_iris",
    "wdbc": "load_breast_cancer",
    "wine": "load_wine",
}
_GENERATED = ("circles",)
_SHIPPED = ("shoes",)
_BUNDLED = (*_GENERATED, *_SHIPPED, *_SKLEARN_LOADERS)


def load(name: str, *, folder: str | os.PathLike[str] | None = None) -> Dataset:
    """Load a dataset by its name.

    Parameters
    ----------
    name : str
        A bundled set (`circles`, `shoes`, `iris`, `wine`, `digits`, `wdbc` or its alias
        `breast_cancer`), the stem of an `.npz` file in the folder, or a name in
        `nearfar.datasets.openml.SETS`; the first of these that exists is used. A bundled set takes
        precedence over a file, which may differ: the labels of `wdbc` are scikit-learn's (0 is
        malignant). `caltech4_bow_splits.npz` has two datasets, `caltech4_motor_air` and
        `caltech4_face_bg`.
    folder : path, optional
        Folder with `.npz` files; by default the value of the environment variable `NEARFAR_DATA`.

    Returns
    -------
    Dataset
        `X` is as stored: not scaled, and with NaN for missing values (`heart_cleveland` also has
        a copy with medians in their place, `extra["X_filled"]`).

    Raises
    ------
    ValueError
        If no source has the name, the folder does not exist, or the file is invalid.
    ConnectionError
        If only OpenML has the dataset and cannot be reached.

    Examples
    --------
    >>> from nearfar.datasets import load
    >>> iris = load("iris")
    >>> iris.X.shape, iris.target_names
    ((150, 4), ('setosa', 'versicolor', 'virginica'))
    >>> load("digits")
    <Dataset digits: 1797 x 64, 10 classes; Handwritten digits, 8 x 8 grey pictures (scikit-learn)>
    """
    if not isinstance(name, str):
        raise TypeError(f"name must be a string; got {type(name).__name__}.")
    name = ALIASES.get(name, name)
    if name in _GENERATED:
        X, y = make_circles(300, 10, 3, noise=0.2, random_state=0)
        return Dataset(
            "circles",
            X,
            y=y,
            target_names=("inner", "middle", "outer"),
            feature_names=("x", "y", *(f"noise_{i}" for i in range(1, 9))),
            description=f"{DESCRIPTIONS['circles']} (generated)",
        )
    if name in _SHIPPED:
        return DatasetFile(name, Path(__file__).with_name(f"{name}.npz")).read()
    if name in _SKLEARN_LOADERS:
        bunch: Any = getattr(sklearn.datasets, _SKLEARN_LOADERS[name])()
        return Dataset(
            name,
            bunch.data,
            y=bunch.target,
            target_names=tuple(str(target) for target in bunch.target_names),
            feature_names=tuple(str(feature) for feature in bunch.feature_names),
            extra={"image_shape": bunch.images.shape[1:]} if "images" in bunch else {},
            description=f"{DESCRIPTIONS[name]} (scikit-learn)",
        )
    files = dataset_files(folder)
    if name in files:
        return files[name].read()
    if name in openml.SETS:
        return openml.fetch(name)
    raise ValueError(_not_found(name, files))


def available(folder: str | os.PathLike[str] | None = None) -> tuple[str, ...]:
    """Return the names that `load` can load without the network.

    Parameters
    ----------
    folder : path, optional
        Folder with `.npz` files; by default the value of the environment variable `NEARFAR_DATA`.

    Returns
    -------
    tuple of str
        Names of the bundled sets and of those in the folder, sorted.

    Examples
    --------
    >>> from nearfar.datasets import available
    >>> {"digits", "iris", "wdbc", "wine"} <= set(available())
    True
    """
    return tuple(sorted({*_BUNDLED, *dataset_files(folder)} - ALIASES.keys()))


def _not_found(name: str, files: Iterable[str]) -> str:
    """Return why there is no such dataset, and what to do."""
    listing = "nearfar.datasets.available() lists the datasets that can be loaded."
    if name in COLLECTIONS:
        return f"{name!r} has several datasets; load {' or '.join(map(repr, COLLECTIONS[name]))}."
    if name in DESCRIPTIONS:
        owner = next((file for file, parts in COLLECTIONS.items() if name in parts), name)
        return (
            f"{name!r} needs the file {owner}.npz; pass its folder, or set {FOLDER_VARIABLE} to "
            f"it. {listing}"
        )
    known = {*_BUNDLED, *ALIASES, *files, *openml.SETS, *DESCRIPTIONS}
    hint = did_you_mean(name.lower().removesuffix(".npz"), known)
    return f"There is no dataset {name!r}.{hint} {listing}"
