"""Datasets in `.npz` files: list those in a folder, and read one without pickle."""

from __future__ import annotations

import os
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nearfar.datasets.catalogue import COLLECTIONS, DESCRIPTIONS
from nearfar.datasets.dataset import Dataset
from nearfar.typing import Array

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
            arrays = _first_split(arrays, self.prefix, self.path)
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


def _first_split(arrays: dict[str, Array], prefix: str, path: Path) -> dict[str, Array]:
    """Return one dataset of a file with several: X is its first split, `extra` has all of them."""
    own = {key.removeprefix(prefix): a for key, a in arrays.items() if key.startswith(prefix)}
    missing = {"bow200", "train", "y"} - own.keys()
    if missing:
        raise ValueError(f"{path} has no array {prefix}{min(missing)}.")
    return {**own, "X": own["bow200"][0], "is_train": own["train"][0]}
