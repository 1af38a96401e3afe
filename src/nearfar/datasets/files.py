"""Datasets from `.npz` files: what a folder offers, and reading one without pickling."""

from __future__ import annotations

import os
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearfar.datasets.catalogue import COLLECTIONS, DESCRIPTIONS
from nearfar.datasets.dataset import Dataset

VARIABLE = "NEARFAR_DATA"

_UNREADABLE = (
    ValueError,
    OSError,
    EOFError,
    KeyError,
    NotImplementedError,
    zipfile.BadZipFile,
    zlib.error,
)


@dataclass(frozen=True)
class MethodResult:
    """Where a dataset lies: a file, and the prefix of its arrays if the file holds several."""

    name: str
    path: Path
    prefix: str = ""

    def read(self) -> Dataset:
        """The dataset; a ValueError that names the file if it cannot be had."""
        arrays = _arrays(self.path)
        if self.prefix:
            arrays = _first_split(arrays, self.prefix, self.path)
        if "X" not in arrays:
            raise ValueError(f"{self.path} has no array X; it has {', '.join(arrays) or 'none'}")
        known = ("X", "y", "target_names", "feature_names", "triplets")
        fields: dict[str, Any] = {key: arrays.pop(key) for key in known if key in arrays}
        about = DESCRIPTIONS.get(self.name, f"from {self.path.name}")
        try:
            return Dataset(self.name, **fields, extra=arrays, description=about)
        except ValueError as error:
            raise ValueError(f"{self.path} is not a dataset: {error}") from error


def entries(folder: str | os.PathLike[str] | None) -> dict[str, MethodResult]:
    """What the folder offers, by name; nothing where neither argument nor variable names one."""
    place = folder if folder is not None else os.environ.get(VARIABLE)
    if not place:
        return {}
    root = Path(place).expanduser()
    if not root.is_dir():
        origin = "folder" if folder is not None else VARIABLE
        raise ValueError(f"{origin} is {str(root)!r}, which is not a folder")
    found: dict[str, MethodResult] = {}
    for path in sorted(root.glob("*.npz")):
        if path.name.startswith(".") or not path.is_file():
            continue
        parts = COLLECTIONS.get(path.stem, {path.stem: ""})
        found.update({name: MethodResult(name, path, prefix) for name, prefix in parts.items()})
    return found


def _arrays(path: Path) -> dict[str, NDArray[Any]]:
    """All arrays of a file."""
    try:
        with path.open("rb") as stream:
            archive = np.load(stream, allow_pickle=False)
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise ValueError("it holds a single array")
            return {key: archive[key] for key in archive.files}
    except _UNREADABLE as error:
        raise ValueError(
            f"{path} cannot be read as an .npz archive of plain (not object) arrays: {error}"
        ) from error


def _first_split(arrays: dict[str, NDArray[Any]], prefix: str, path: Path) -> dict[str, Any]:
    """One problem of a file of visual words: X is its first split, `extra` has them all."""
    own = {key.removeprefix(prefix): a for key, a in arrays.items() if key.startswith(prefix)}
    missing = {"bow200", "train", "y"} - own.keys()
    if missing:
        raise ValueError(f"{path} has no array {prefix}{min(missing)}")
    return {**own, "X": own["bow200"][0], "is_train": own["train"][0]}
