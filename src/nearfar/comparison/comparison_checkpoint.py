"""Checkpoint of a comparison: finished results, one method on one cell each, in a safetensors file.

The file has an array "<i>.<measure>" with the losses of the i-th result for each measure; the
metadata has a digest of what is compared and, as JSON, the numbers of each result. Nothing in it is
executed.
"""

from __future__ import annotations

import json
import os
from contextlib import AbstractContextManager
from pathlib import Path

import joblib
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from nearfar.comparison.compared_methods import Method
from nearfar.comparison.method_results import CellResult
from nearfar.comparison.scoring import Scores
from nearfar.comparison.splits import Cell, Splits
from nearfar.runtime.atomic_write import atomic_write
from nearfar.runtime.deadline import Clock
from nearfar.typing import Vector

_FORMAT = {"format": "nearfar.comparison", "version": "2"}
# What an interruption may lose.
_SECONDS_BETWEEN_WRITES = 1.0
# Share of the time that writing may take; with less, an interruption would lose more.
_LARGEST_SHARE_OF_TIME = 0.05
_INVALID = (SafetensorError, LookupError, TypeError, ValueError, RecursionError)


class ComparisonCheckpoint(AbstractContextManager["ComparisonCheckpoint"]):
    """Results of a comparison that are kept in a file while it runs.

    Writing is rare and cheap: at most once a second, at most 5 % of the time, and at the end of
    the `with` block.

    Parameters
    ----------
    path : path-like or None
        The file, which need not exist; None keeps nothing.
    comparison : object
        What is compared: a checkpoint of anything else is refused.
    splits : Splits
        Its folds and their samples.
    measures : list of str
        Names of its measures.
    clock : callable
        Returns the time in seconds.

    Raises
    ------
    ValueError
        If the file is not a checkpoint of this comparison. The file is left as it is.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None,
        comparison: object,
        splits: Splits,
        measures: list[str],
        *,
        clock: Clock,
    ) -> None:
        self.path = None if path is None else Path(path)
        self.clock = clock
        self.results: dict[tuple[str, Cell], CellResult] = {}
        if self.path is not None:
            self.digest = digest([comparison, measures])
            if self.path.exists():
                self.results = self._read(self.path, splits, measures)
                self._unwritten, self._next_write = False, clock()
            else:
                # Find out now, not after the first fold, whether the file can be written.
                self._write()

    def __exit__(self, *_: object) -> None:
        if self.path is not None and self._unwritten:
            self._write()

    def get(self, method: Method, cell: Cell) -> CellResult | None:
        """Return a result that was kept, or None."""
        return self.results.get((_method_digest(method), cell)) if self.results else None

    def keep(self, method: Method, cell: Cell, result: CellResult) -> None:
        """Keep a result, and write the file unless that was done a moment ago."""
        if self.path is None:
            return
        self.results[_method_digest(method), cell] = result
        self._unwritten = True
        if self.clock() >= self._next_write:
            self._write()

    def _write(self) -> None:
        assert self.path is not None
        start = self.clock()
        tensors: dict[str, Vector] = {}
        numbers = []
        for i, ((method, cell), result) in enumerate(self.results.items()):
            tensors |= {f"{i}.{name}": losses for name, losses in result.scores.losses.items()}
            times = result.fit_seconds, result.seconds, result.stopped_early
            numbers.append((method, *cell, *times))
        metadata = {**_FORMAT, "comparison": self.digest, "results": json.dumps(numbers)}
        with atomic_write(self.path) as temporary:
            temporary.write_bytes(save(tensors, metadata))
        self._unwritten = False
        end = self.clock()
        pause = max(_SECONDS_BETWEEN_WRITES, (end - start) / _LARGEST_SHARE_OF_TIME)
        self._next_write = end + pause

    def _read(
        self, path: Path, splits: Splits, measures: list[str]
    ) -> dict[tuple[str, Cell], CellResult]:
        try:
            if not path.is_file():
                raise ValueError("not a file")
            with safe_open(path, framework="numpy") as file:
                metadata = file.metadata() or {}
                if {key: metadata.get(key) for key in _FORMAT} != _FORMAT:
                    raise ValueError("not the format of a checkpoint")
                same = metadata["comparison"] == self.digest
                results = {}
                cells = {cell for stage in splits.stages for cell in stage}
                for i, entry in enumerate(json.loads(metadata["results"]) if same else []):
                    method, fold, n_train, fit_seconds, seconds, early = entry
                    losses = {name: file.get_tensor(f"{i}.{name}") for name in measures}
                    cell = Cell(int(fold), int(n_train))
                    shapes = {values.shape for values in losses.values()}
                    if cell not in cells or shapes != {splits.rows(cell)[1].shape}:
                        raise ValueError("arrays of the wrong shape")
                    times = float(fit_seconds), float(seconds)
                    results[str(method), cell] = CellResult(Scores(losses), *times, bool(early))
        except _INVALID as error:
            raise ValueError(f"{path} is not the checkpoint of a comparison.") from error
        if not same:
            raise ValueError(
                f"{path} is the checkpoint of another comparison (other data, folds, n_neighbors, "
                "random_state or version of nearfar); delete it or choose another file."
            )
        return results


def digest(value: object) -> str:
    """Return a digest of the content of a value, the same in every process.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.comparison.comparison_checkpoint import digest
    >>> digest(np.arange(3)) == digest(np.arange(3)) != digest(np.arange(4))
    True
    """
    try:
        return str(joblib.hash(value, "sha1"))
    except Exception:
        # What can't be pickled, such as a lambda, is known by what it prints as.
        return str(joblib.hash(repr(value), "sha1"))


def _method_digest(method: Method) -> str:
    estimator = method.estimator
    parameters = {} if estimator is None else estimator.get_params()
    kind = f"{type(estimator).__module__}.{type(estimator).__qualname__}"
    return digest([method.name, kind, {key: digest(value) for key, value in parameters.items()}])
