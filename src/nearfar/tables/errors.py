"""What is wrong with a table, in one sentence that says what to do."""

from __future__ import annotations

from pathlib import Path


class TableError(ValueError):
    """A table, array or dataset that cannot be read as asked; the message says what to do."""


class NotNumbersError(TableError):
    """A table has text or missing values where numbers are needed."""


class NotClassesError(TableError):
    """Labels are decimal numbers where classes are needed."""


class NotUniqueError(TableError):
    """Ids that do not tell rows apart."""


def no_file(path: str | Path) -> TableError:
    """Return the error for a file that does not exist, or for a link or a folder."""
    if Path(path).is_symlink():
        return TableError(f"{path} is a link to {Path(path).readlink()}, which does not exist.")
    if Path(path).is_dir():
        return TableError(f"{path} is a folder; name a file.")
    return TableError(f"There is no file {path}.")
