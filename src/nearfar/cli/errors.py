"""The errors that commands report in one line."""

from __future__ import annotations


class UserError(Exception):
    """A request that cannot be met; the message says what to do."""


class NotNumbersError(UserError):
    """A table has text or missing values where numbers are needed."""


class NotClassesError(UserError):
    """Labels are decimal numbers where classes are needed."""
