"""The errors that commands report in one line."""

from __future__ import annotations


class UserError(ValueError):
    """A request that cannot be met; the message says what to do."""
