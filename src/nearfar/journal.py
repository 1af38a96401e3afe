"""Journals of long fits: what was computed is recorded, and a fit that was interrupted goes on.

    with Journal("run.journal"):
        BoostMetric(random_state=0).fit(X, y)

Solvers are deterministic, so it is enough to record the results of their few expensive calls, in
order (`recall`). Run again, a fit is handed these results in place of computing them, as far as the
record goes, and computes what is cheap anew: it ends with the same bytes as without interruption.

A section's key is a digest of the learner, its parameters, the data and the versions of nearfar,
NumPy and SciPy.
"""

from __future__ import annotations

import os
import sys
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import count
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from nearfar.fingerprint import DIGEST_BYTES, digest
from nearfar.records import KEY_BYTES, Records

T = TypeVar("T", bound=tuple[Any, ...])

_NUMBER_BYTES = KEY_BYTES - DIGEST_BYTES
_STATE_ITEMS = 4
"""Number of items that the state of a random generator is."""


class Journal:
    """A file in which the fits of a ``with`` block are recorded, and from which they go on.

    Parameters
    ----------
    path : path-like
        The file. One that is there is read and added to.

    Raises
    ------
    ValueError
        If the file is not a journal (it is left as it is), or another journal has it open; in a
        fit, if its records are not those of this fit.

    Notes
    -----
    Every fit in the block has a section, found by its learner, parameters, seed and data; fits may
    come in another order than before, and equal ones may be repeated. With ``random_state=None``
    the state of the random generator is recorded and restored.

    What was recorded up to about a second before a process is killed is kept; of one long
    computation (a corrective step, a pass over batches) all that it had done is lost.

    A fit that is resumed ends with the bytes of one that was not, if two fits that are not do so:
    with some versions of BLAS (that of NumPy 1.26, for one) they may differ in the last bits.
    Results of Lanczos' method depend on the number of BLAS threads: resume with as many as before.

    Fits in other threads are recorded if the context is handed over to them (`contextvars`); fits
    in other processes are not.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sklearn.datasets import load_iris
    >>> from nearfar import BoostMetric
    >>> from nearfar.journal import Journal
    >>> X, y = load_iris(return_X_y=True)
    >>> with tempfile.TemporaryDirectory() as folder, Journal(Path(folder) / "run") as journal:
    ...     first = BoostMetric(max_rounds=9).fit(X, y)
    ...     journal.discard()
    >>> first.n_iter_
    9
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._records: Records | None = None
        self._taken: set[bytes] = set()
        self._owner = 0
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        if self._records is not None:
            raise ValueError(f"{self.path}: the journal is open already.")
        self._records = Records(self.path)
        self._taken.clear()
        self._owner = os.getpid()
        self._token = _JOURNAL.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        try:
            _JOURNAL.reset(self._token)
        finally:
            self.close()

    def close(self) -> None:
        """Write what is left to be written; the file stays."""
        records, self._records = self._records, None
        if records is not None:
            records.close()

    @property
    def has_others(self) -> bool:
        """Whether there are records of fits that were not made, or gone on with, in this block."""
        return self._records is not None and not self._records.keys <= self._taken

    def discard(self) -> None:
        """Close the journal and delete its file."""
        self.close()
        self.path.resolve().unlink(missing_ok=True)

    @property
    def is_ours(self) -> bool:
        """Whether this process has opened the journal, and not one that it was forked from."""
        return self._owner == os.getpid()

    def open_section(self, digest: bytes) -> tuple[Records, int, bytes]:
        """Return where the fit's records are; of equal fits, those of the first that has not ended.

        Returns
        -------
        records : Records
        section : int
        key : bytes
        """
        with self._lock:
            if self._records is None:
                raise ValueError(f"{self.path}: the journal is closed.")
            keys = (digest + number.to_bytes(_NUMBER_BYTES) for number in count())
            key = next(key for key in keys if key not in self._taken)
            self._taken.add(key)
            return self._records, self._records.section(key), key

    def release(self, key: bytes) -> None:
        """Let the next fit of this key go on where this one has failed."""
        with self._lock:
            self._taken.discard(key)


class _Section:
    """The records of one fit: handed out one after another, then added to."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self._key: bytes | None = None
        self._records: Records | None = None
        self._number = self._next = self._known = 0

    def identify(self, digest: bytes) -> None:
        self._records, self._number, self._key = self.journal.open_section(digest)
        self._known = self._records.count(self._number)

    def give_up(self) -> None:
        if self._key is not None:
            self.journal.release(self._key)

    def recall(
        self, call: int, compute: Callable[[], T], random_state: np.random.RandomState | None
    ) -> T:
        if self._records is None:
            return compute()
        if self._next < self._known:
            recorded, items = self._records.read(self._number, self._next)
            if recorded != call:
                raise ValueError(
                    f"{self.journal.path}: the record is not of this fit; it was made with another "
                    "version, machine or number of threads. Without the file, the fit begins anew."
                )
            self._next += 1
            if random_state is None:
                return items  # type: ignore[return-value]
            _restore(random_state, items[-_STATE_ITEMS:])
            return items[:-_STATE_ITEMS]  # type: ignore[return-value]
        token = _SECTION.set(None)
        try:
            result = compute()
        finally:
            _SECTION.reset(token)
        state = () if random_state is None else _state(random_state)
        self._records.append(self._number, call, [*result, *state])
        return result


_JOURNAL: ContextVar[Journal | None] = ContextVar("journal", default=None)
_SECTION: ContextVar[_Section | None] = ContextVar("section", default=None)


def recall(
    what: str,
    compute: Callable[[], T],
    *,
    given: float | NDArray[Any] = 0.0,
    random_state: np.random.RandomState | None = None,
) -> T:
    """Compute, or return what is recorded of the same call in an earlier run of the fit.

    Without a journal this is ``compute()``.

    Parameters
    ----------
    what : str
        Which call it is.
    compute : callable
        Returns a tuple of numbers and contiguous arrays; changes nothing that later calls see.
    given : float or array, optional
        Some of what the result depends on. If it is not the same as when the record was made, the
        record is refused.
    random_state : RandomState, optional
        What `compute` draws from; it is left as if it had.

    Examples
    --------
    >>> from nearfar.journal import recall
    >>> recall("square", lambda: (3.0**2,), given=3.0)
    (9.0,)
    """
    section = _SECTION.get()
    if section is None:
        return compute()
    call = zlib.crc32(np.ascontiguousarray(given).data, zlib.crc32(what.encode()))
    return section.recall(call, compute, random_state)


@contextmanager
def section() -> Iterator[None]:
    """Let a fit have a section of the journal, if there is one; see `identify`."""
    journal = _JOURNAL.get()
    own = _Section(journal) if journal is not None and journal.is_ours else None
    token = _SECTION.set(own)
    try:
        yield
    except BaseException:
        if own is not None:
            own.give_up()
        raise
    finally:
        _SECTION.reset(token)


def identify(describe: Callable[[], object]) -> None:
    """Find the records of the fit that has this description; until then, none are made."""
    own = _SECTION.get()
    if own is not None:
        # Not by an import, as the package imports its learners, and these import this module.
        versions = [sys.modules[name].__version__ for name in ("nearfar", "numpy", "scipy")]
        own.identify(digest((versions, describe())))


def _state(random_state: np.random.RandomState) -> tuple[Any, ...]:
    state: Any = random_state.get_state(legacy=False)
    if state["bit_generator"] != "MT19937":
        raise ValueError("A journal takes an int, None or a plain RandomState for random_state.")
    inner = state["state"]
    return inner["key"], inner["pos"], state["has_gauss"], state["gauss"]


def _restore(random_state: np.random.RandomState, state: tuple[Any, ...]) -> None:
    random_state.set_state(("MT19937", *state))
