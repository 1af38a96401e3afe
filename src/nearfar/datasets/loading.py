"""Finding a dataset by its name: scikit-learn's bundle, then a folder, then OpenML."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable
from typing import Any

import sklearn.datasets

from nearfar.datasets import openml
from nearfar.datasets.catalogue import ALIASES, COLLECTIONS, DESCRIPTIONS
from nearfar.datasets.dataset import Dataset
from nearfar.datasets.files import VARIABLE, entries

_BUNDLED = {
    "digits": "load_digits",
    "iris": "load_iris",
    "wdbc": "load_breast_cancer",
    "wine": "load_wine",
}


def load(name: str, *, folder: str | os.PathLike[str] | None = None) -> Dataset:
    """Load a dataset by its name.

    Parameters
    ----------
    name : str
        A bundled set (`iris`, `wine`, `digits`, `wdbc` or its alias `breast_cancer`), the stem of
        an `.npz` file in the folder, or a name in `nearfar.datasets.openml.SETS`; the first of the
        three that has it is used. A bundled set is used even where the folder has its file, which
        may differ: labels of `wdbc` are scikit-learn's (0 is malignant). The one file of several
        problems, `caltech4_bow_splits.npz`, is offered as `caltech4_motor_air` and
        `caltech4_face_bg`.
    folder : path, optional
        Folder with `.npz` files. Without it the environment variable `NEARFAR_DATA` is used.

    Returns
    -------
    Dataset
        With `X` as it is stored, unscaled and with its missing values (`heart_cleveland` has NaN,
        and medians instead of them in `extra["X_filled"]`).

    Raises
    ------
    ValueError
        If no source has the name, the folder is none, or the file is broken.
    ConnectionError
        If only OpenML has the set and cannot give it.

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
        raise TypeError(f"name must be a string, not {type(name).__name__}")
    name = ALIASES.get(name, name)
    if name in _BUNDLED:
        return _bundled(name)
    offered = entries(folder)
    if name in offered:
        return offered[name].read()
    if name in openml.SETS:
        return openml.fetch(name)
    raise ValueError(_not_found(name, offered))


def available(folder: str | os.PathLike[str] | None = None) -> tuple[str, ...]:
    """Names that `load` can load now, without the network.

    Parameters
    ----------
    folder : path, optional
        Folder with `.npz` files. Without it the environment variable `NEARFAR_DATA` is used.

    Returns
    -------
    tuple of str
        The bundled sets and the folder's, sorted.

    Examples
    --------
    >>> from nearfar.datasets import available
    >>> {"digits", "iris", "wdbc", "wine"} <= set(available())
    True
    """
    return tuple(sorted((_BUNDLED.keys() | entries(folder).keys()) - ALIASES.keys()))


def _bundled(name: str) -> Dataset:
    """A set that comes with scikit-learn."""
    bunch: Any = getattr(sklearn.datasets, _BUNDLED[name])()
    shape = {"image_shape": bunch.images.shape[1:]} if "images" in bunch else {}
    return Dataset(
        name,
        bunch.data,
        y=bunch.target,
        target_names=tuple(str(target) for target in bunch.target_names),
        feature_names=tuple(str(feature) for feature in bunch.feature_names),
        extra=shape,
        description=f"{DESCRIPTIONS[name]} (scikit-learn)",
    )


def _not_found(name: str, offered: Iterable[str]) -> str:
    """Why there is no such dataset, and what to do."""
    listing = "see nearfar.datasets.available() for what can be loaded"
    if name in COLLECTIONS:
        return f"{name!r} holds several problems: load {' or '.join(map(repr, COLLECTIONS[name]))}"
    if name in DESCRIPTIONS:
        owner = next((file for file, parts in COLLECTIONS.items() if name in parts), name)
        return (
            f"{name!r} needs the file {owner}.npz: pass its folder, or set {VARIABLE} to it; "
            f"{listing}"
        )
    known = {*_BUNDLED, *ALIASES, *offered, *openml.SETS, *DESCRIPTIONS}
    close = difflib.get_close_matches(name.lower().removesuffix(".npz"), sorted(known))
    hint = f"did you mean {' or '.join(map(repr, close))}? Or " if close else ""
    return f"no dataset {name!r}; {hint}{listing}"
