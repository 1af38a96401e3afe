"""The errors that commands report in one line."""

from __future__ import annotations

from pathlib import Path


class UserError(Exception):
    """A request that cannot be met; the message says what to do."""


class NotNumbersError(UserError):
    """A table has text or missing values where numbers are needed."""


class NotClassesError(UserError):
    """Labels are decimal numbers where classes are needed."""


def no_file(path: str | Path) -> UserError:
    """Return the error for a file that does not exist, or for a link to one."""
    if Path(path).is_symlink():
        return UserError(f"{path} is a link to {Path(path).readlink()}, which does not exist.")
    return UserError(f"There is no file {path}.")
