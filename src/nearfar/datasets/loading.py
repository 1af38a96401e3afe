"""Load datasets by name: generated, from scikit-learn or a folder, in this order.

Files are `.npz`, read without pickle. A dataset in `DESCRIPTIONS` may need its file; a file in a
folder need not be in `DESCRIPTIONS`.
"""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import sklearn.datasets

from nearfar.datasets.dataset import Dataset
from nearfar.datasets.generators import make_circles
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
        `breast_cancer`), or the stem of an `.npz` file in the folder. A bundled set takes
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
    listing = "nearfar.datasets.available() lists the datasets that can be loaded."
    if name in COLLECTIONS:
        parts = " or ".join(map(repr, COLLECTIONS[name]))
        raise ValueError(f"{name!r} has several datasets; load {parts}.")
    if name in DESCRIPTIONS:
        owner = next((file for file, held in COLLECTIONS.items() if name in held), name)
        raise ValueError(
            f"{name!r} needs the file {owner}.npz; pass its folder, or set {FOLDER_VARIABLE} to "
            f"it. {listing}"
        )
    known = {*_BUNDLED, *ALIASES, *files, *DESCRIPTIONS}
    hint = did_you_mean(name.lower().removesuffix(".npz"), known)
    raise ValueError(f"There is no dataset {name!r}.{hint} {listing}")


def available(folder: str | os.PathLike[str] | None = None) -> tuple[str, ...]:
    """Return the names that `load` can load.

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


FOLDER_VARIABLE = "NEARFAR_DATA"
"""Environment variable that names the default folder."""

_READ_ERRORS = (
    ValueError,
    OSError,
    EOFError,
    KeyError,
    NotImplementedError,
    zipfile.BadZipFile,
    zlib.error,
)


@dataclass(frozen=True)
class DatasetFile:
    """A dataset in a file; `prefix` selects its arrays if the file has several datasets."""

    name: str
    path: Path
    prefix: str = ""

    def read(self) -> Dataset:
        """Return the dataset; raise a ValueError that names the file if it is invalid."""
        try:
            with self.path.open("rb") as stream:
                archive = np.load(stream, allow_pickle=False)
                if not isinstance(archive, np.lib.npyio.NpzFile):
                    raise ValueError("it contains a single array.")
                arrays = {key: archive[key] for key in archive.files}
        except _READ_ERRORS as error:
            raise ValueError(
                f"{self.path} cannot be read as an .npz archive of plain (not object) arrays: "
                f"{error}"
            ) from error
        if self.prefix:
            # X is the first split, and `extra` has all of them.
            cut = len(self.prefix)
            arrays = {key[cut:]: a for key, a in arrays.items() if key.startswith(self.prefix)}
            if missing := {"bow200", "train", "y"} - arrays.keys():
                raise ValueError(f"{self.path} has no array {self.prefix}{min(missing)}.")
            arrays |= {"X": arrays["bow200"][0], "is_train": arrays["train"][0]}
        if "X" not in arrays:
            raise ValueError(f"{self.path} has no array X; it has {', '.join(arrays) or 'none'}.")
        known = ("X", "y", "target_names", "feature_names", "triplets")
        fields: dict[str, Any] = {key: arrays.pop(key) for key in known if key in arrays}
        description = DESCRIPTIONS.get(self.name, f"from {self.path.name}")
        try:
            return Dataset(self.name, **fields, extra=arrays, description=description)
        except ValueError as error:
            raise ValueError(f"{self.path} is not a dataset: {error}") from error


def dataset_files(folder: str | os.PathLike[str] | None) -> dict[str, DatasetFile]:
    """Return the datasets in a folder by name; none if no folder is given or set."""
    given = folder if folder is not None else os.environ.get(FOLDER_VARIABLE)
    if not given:
        return {}
    root = Path(given).expanduser()
    if not root.is_dir():
        origin = "folder" if folder is not None else FOLDER_VARIABLE
        raise ValueError(f"{origin} is {str(root)!r}, which is not a folder.")
    found: dict[str, DatasetFile] = {}
    for path in sorted(root.glob("*.npz")):
        if path.name.startswith(".") or not path.is_file():
            continue
        prefixes = COLLECTIONS.get(path.stem, {path.stem: ""})
        found |= {name: DatasetFile(name, path, prefix) for name, prefix in prefixes.items()}
    return found


ALIASES: Mapping[str, str] = {"breast_cancer": "wdbc"}

# Files with several datasets: dataset name -> prefix of its arrays in the file.
COLLECTIONS: Mapping[str, Mapping[str, str]] = {
    "caltech4_bow_splits": {
        "caltech4_motor_air": "motor_air_",
        "caltech4_face_bg": "face_bg_",
    },
}

DESCRIPTIONS: Mapping[str, str] = {
    "adult": "Adult census income, categorical columns as integer codes",
    "alien_eggs_triplets": "Human judgements on egg shapes with a known one-dimensional truth",
    "artificial_characters": "Artificial characters, one row for each line segment",
    "australian_credit": "Statlog Australian credit approval",
    "balance_scale": "Balance scale, the full grid of weights and distances",
    "blood_transfusion": "Blood transfusion service centre",
    "breast_cancer_wisconsin": "Wisconsin breast cancer (original), nine cytology scores",
    "breast_cancer_wisconsin_with_id": "The same with the id number as a first column",
    "caltech101_gist_bow": "Caltech-101 pictures: GIST in X, visual words in bow500",
    "caltech4_face_bg": "Faces or background: 200 visual words of the first of ten splits",
    "caltech4_motor_air": "Motorbikes or airplanes: 200 visual words of the first of ten splits",
    "circles": "Three circles around each other in two columns, and eight columns of noise",
    "clinc150_emb256": "CLINC150 intents as sentence vectors; the last class is out of scope",
    "coil20": "COIL-20 objects, 32 x 32 grey pictures",
    "concentric_circles_50d": "Concentric circles in 48 columns of noise",
    "corel1k_33": "Corel-1k pictures: colour, edge and texture features",
    "cranfield_emb256": "Cranfield abstracts as vectors; queries in Q, judgements in qrels",
    "digits": "Handwritten digits, 8 x 8 grey pictures",
    "glass": "Glass identification",
    "heart_cleveland": "Heart disease, Cleveland; X has NaN, X_filled has medians instead",
    "helix": "Synthetic closed helix",
    "ionosphere": "Johns Hopkins ionosphere radar returns",
    "iris": "Fisher's iris",
    "letter": "Letter recognition, 16 statistics of a glyph",
    "mnist": "MNIST handwritten digits, 28 x 28",
    "newsgroups20_emb256": "20 newsgroups as text vectors",
    "optdigits": "Optical digits, 8 x 8, training and test rows together",
    "orl_112x92": "AT&T (ORL) faces, full pictures",
    "orl_32x32": "AT&T (ORL) faces, cropped to 32 x 32",
    "pima_diabetes": "Pima Indians diabetes; impossible zeros are hidden missing values",
    "segmentation_210": "Image segmentation, the 210 training rows",
    "segmentation_2310": "Image segmentation, all rows",
    "semeion": "Semeion handwritten digits, 16 x 16 binary",
    "shoes": "Human judgements on 24 shoe pictures, with eight principal components",
    "sonar": "Sonar returns, mines or rocks",
    "spect": "SPECT heart, 22 binary features",
    "spectf": "SPECTF heart, 44 counts",
    "twin_peaks": "Synthetic twin peaks",
    "usps_11000": "USPS digits, 16 x 16, 1100 of each",
    "usps_9298": "USPS digits, 16 x 16, with the standard split",
    "vehicle": "Statlog vehicle silhouettes",
    "waveform": "Breiman's waveforms, version 1",
    "wdbc": "Wisconsin diagnostic breast cancer",
    "wine": "Wine cultivars, unscaled",
    "yale_32x32": "Yale faces, cropped to 32 x 32",
    "yale_full": "Yale faces, full frames reduced to 61 x 80",
    "zappos_triplets": "Human judgements on shoe pictures, with network features",
}
