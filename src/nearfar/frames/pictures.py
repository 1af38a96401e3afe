"""Pictures of rows: files in a folder, named by a column of a table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from nearfar.frames.frames import TableError
from nearfar.runtime.messages import quoted

PICTURES = {
    ".avif": "image/avif",
    ".gif": "image/gif",
    ".jpeg": "image/jpeg",
    ".jpg": "image/jpeg",
    ".png": "image/png",
    ".webp": "image/webp",
}
"""Media types of pictures, by the ending of the file."""


def picture_path(base: Path, name: str) -> Path:
    """Return the path of a picture inside a folder, or raise TableError.

    Parameters
    ----------
    base: The folder, resolved.
    name: Path from there; links are followed before it is checked.
    """
    path = (base / name).resolve()
    if not path.is_relative_to(base):
        raise TableError(f"{name!r} is outside the folder of pictures {base}.")
    if path.suffix.lower() not in PICTURES:
        raise TableError(f"{name!r} is not a picture: {', '.join(PICTURES)}.")
    if not path.is_file():
        raise TableError(f"There is no picture {name!r} in {base}.")
    return path


def pictures_named(folder: Path, names: Sequence[str]) -> list[Path]:
    """Return the pictures of a folder with these names, with or without the ending of the file."""
    if not folder.is_dir():
        raise TableError(f"There is no folder {folder}.")
    base = folder.resolve()
    files = sorted(file for file in base.iterdir() if file.suffix.lower() in PICTURES)
    endings = {file.stem: file.name for file in files}
    paths = []
    for name in names:
        try:
            is_file = (base / name).is_file()
        except OSError:  # longer than names of files can be
            is_file = False
        if not is_file and name not in endings:
            raise TableError(f"There is no picture {quoted(name)} in {folder}.")
        paths.append(picture_path(base, name if is_file else endings[name]))
    return paths
