"""Results of slow steps in a file, from which an interrupted fit is repeated quickly.

A fit is a function of its input. The fit that continues begins at the beginning, and does the same
as before; slow steps (`recalled`) take their results from the file as long as it has them. So it
ends with the same bytes as a fit that was never interrupted. The file has arrays only, in the
format of .npy files; nothing in it is executed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from nearfar.typing import Array

Results = tuple[Any, ...]

_replay: ContextVar[_Replay | None] = ContextVar("replay", default=None)


def recalled(compute: Callable[[], Results], *inputs: ArrayLike) -> Results:
    """Return what a slow step returned before the interruption, or compute it and keep it.

    Without a file (`replaying`) it is always computed. Steps inside of it are not kept.

    Parameters
    ----------
    compute : callable
        Returns a tuple of arrays and numbers; it draws nothing at random.
    inputs : array-like
        What the results depend on and the steps before do not determine: results from other inputs
        are not taken.
    """
    replay = _replay.get()
    if replay is None:
        return compute()
    token = _replay.set(None)
    try:
        key = _digest(inputs)
        found = replay.read(key)
        if found is None:
            # One layout of memory, whether results are computed or read: it decides on rounding.
            found = [np.ascontiguousarray(r) if np.ndim(r) else np.array(r) for r in compute()]
            replay.write(key, found)
    finally:
        _replay.reset(token)
    return tuple(array if array.ndim else array.item() for array in found)


@contextmanager
def replaying(path: Path, identity: str) -> Iterator[None]:
    """Keep the results of slow steps in this block in a file, or take them from there.

    Parameters
    ----------
    path : Path
    identity : str
        What must be the same for the results to be valid.

    Raises
    ------
    ValueError
        If the file is for something else.
    """
    with path.open("r+b" if path.exists() else "w+b") as file:
        replay = _Replay(file)
        key = _digest([np.frombuffer(identity.encode(), dtype=np.uint8)])
        if file.read(1) and file.seek(0) == 0 and replay.read(key, truncate=False) is None:
            raise ValueError(
                f"{path} is not of this fit; name another file, or delete it to start again."
            )
        if file.tell() == 0:
            replay.write(key, [])
        token = _replay.set(replay)
        try:
            yield
        finally:
            _replay.reset(token)


class _Replay:
    """A file of results, in the order of the steps: it is read, and then written to."""

    def __init__(self, file: Any) -> None:
        self._file, self._ended = file, False

    def read(self, key: Array, *, truncate: bool = True) -> list[Array] | None:
        """Return the next results, or None at the end, or if they are for another input."""
        if self._ended:
            return None
        start = self._file.tell()
        try:
            stored, number = (np.load(self._file, allow_pickle=False) for _ in range(2))
            if np.array_equal(stored, key):
                return [np.load(self._file, allow_pickle=False) for _ in range(int(number))]
        except (EOFError, ValueError, TypeError):
            pass  # The end, or what was being written when the process was killed.
        if truncate:
            self._file.seek(start)
            self._file.truncate()
            self._ended = True
        return None

    def write(self, key: Array, results: list[Array]) -> None:
        """Append results."""
        for array in (key, np.array(len(results)), *results):
            np.save(self._file, array, allow_pickle=False)
        self._file.flush()


def _digest(inputs: Any) -> Array:
    content = hashlib.blake2b(digest_size=16)
    for each in inputs:
        content.update(np.ascontiguousarray(each).tobytes())
    return np.frombuffer(content.digest(), dtype=np.uint8)
