"""`Note`: what a person must know beside a result. Terminals print notes, and reports show them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Note:
    """A sentence or two beside a result.

    Attributes
    ----------
    text : str
    warning : bool
        Whether the result may be wrong or useless because of it. Reports show warnings first.

    Examples
    --------
    >>> from nearfar.runtime.notes import Note, ordered
    >>> found = [Note("took 3 columns"), Note("id leaks the label", warning=True)]
    >>> [note.text for note in ordered(found + found)]
    ['id leaks the label', 'took 3 columns']
    """

    text: str
    warning: bool = False


def ordered(notes: list[Note]) -> list[Note]:
    """Return each note once, warnings first."""
    return sorted(dict.fromkeys(notes), key=lambda note: not note.warning)
