"""`Note`: what a person must know beside a result. Terminals print notes, and reports show them.

Code that has something to say calls `note`. `collecting_notes` gives the caller a list of what was
said inside it; without one, notes are not kept. Nested lists each have all of their own notes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
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
    >>> notes = [Note("took 3 columns"), Note("id leaks the label", warning=True)]
    >>> [note.text for note in ordered(notes + notes)]
    ['id leaks the label', 'took 3 columns']
    """

    text: str
    warning: bool = False


_Collector = tuple[list[Note], Callable[[str], None] | None]
_collectors: ContextVar[tuple[_Collector, ...]] = ContextVar("_collectors", default=())


@contextmanager
def collecting_notes(listener: Callable[[str], None] | None = None) -> Iterator[list[Note]]:
    """Collect the notes of this block, each once; `listener` gets their texts as they come.

    Examples
    --------
    >>> from nearfar.runtime.notes import collecting_notes, note
    >>> with collecting_notes() as notes:
    ...     note("left out 3 rows without a label.")
    >>> notes[0].text
    'Left out 3 rows without a label.'
    """
    notes: list[Note] = []
    token = _collectors.set((*_collectors.get(), (notes, listener)))
    try:
        yield notes
    finally:
        _collectors.reset(token)


def note(text: str, *, warning: bool = False) -> None:
    """Say something beside the result.

    Parameters
    ----------
    text : str
        It begins with a capital in lists of notes.
    warning : bool
        Whether the result may be wrong or useless because of it.
    """
    said = Note(f"{text[:1].upper()}{text[1:]}", warning)
    for notes, listener in _collectors.get():
        if said not in notes:
            notes.append(said)
            if listener is not None:
                listener(text)


def notes_so_far() -> list[Note]:
    """Return what the outermost list has collected so far."""
    collectors = _collectors.get()
    return list(collectors[0][0]) if collectors else []


def ordered(notes: list[Note]) -> list[Note]:
    """Return each note once, warnings first."""
    return sorted(dict.fromkeys(notes), key=lambda note: not note.warning)
