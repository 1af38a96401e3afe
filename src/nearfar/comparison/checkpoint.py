"""Checkpoint of a comparison: finished results, of one method on one fold each.

The file is in safetensors: an array "<i>.<measure>" with the losses of the i-th result for each
measure. The metadata has a digest of what is compared, the number of rows that there is time for
and, as JSON, the numbers of each result. Nothing in it is executed.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import joblib
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from nearfar.comparison.methods import Method
from nearfar.runtime.atomic_write import atomic_write
from nearfar.typing import Vector

_FORMAT = {"format": "nearfar.comparison", "version": "3"}
# What an interruption may lose.
_SECONDS_BETWEEN_WRITES = 1.0
_INVALID = (SafetensorError, LookupError, TypeError, ValueError, RecursionError)


@dataclass(frozen=True, eq=False)
class FoldResult:
    """What a method achieved on a fold.

    Attributes
    ----------
    losses: shape (n_test,). Loss of each row, or judgement, by the name of the measure; nan
        for rows that were not scored. Losses of judgements are in proportion to their weights.
    fit_seconds: Time of the fit.
    n_neighbors: Number of neighbours that vote; 0 if nothing votes.
    """

    losses: dict[str, Vector]
    fit_seconds: float
    n_neighbors: int = 0


class ComparisonCheckpoint(AbstractContextManager["ComparisonCheckpoint"]):
    """Results of a comparison that are kept in a file while it runs.

    It is written at most once a second, and at the end of the `with` block.

    Parameters
    ----------
    path: The file, which need not exist; None keeps nothing.
    comparison: What is compared: a checkpoint of anything else is refused.

    Attributes
    ----------
    n_rows: How many rows are compared, once that is known.

    Raises
    ------
    ValueError
        If the file is not a checkpoint of this comparison. The file is left as it is.
    """

    def __init__(self, path: str | os.PathLike[str] | None, comparison: object) -> None:
        self.path = None if path is None else Path(path)
        self.results: dict[tuple[str, int], FoldResult] = {}
        self.n_rows: int | None = None
        self._unwritten, self._written = False, time.monotonic()
        if self.path is None:
            return
        self.digest = digest(comparison)
        if self.path.exists():
            self._read(self.path)
        else:
            # Find out now, not after the first fold, whether the file can be written.
            self._write()

    def __exit__(self, *_: object) -> None:
        if self._unwritten:
            self._write()

    def get(self, method: Method, fold: int, measures: set[str], n: int) -> FoldResult | None:
        """Return a result that was kept, of these measures and n rows, or None."""
        result = self.results.get((_method_digest(method), fold)) if self.results else None
        if result is not None:
            losses = result.losses
            if set(losses) != measures or {each.shape for each in losses.values()} != {(n,)}:
                raise ValueError(f"{self.path} is not the checkpoint of a comparison.")
        return result

    def keep(self, method: Method, fold: int, result: FoldResult) -> None:
        """Keep a result, and write the file unless that was done a moment ago."""
        if self.path is None:
            return
        self.results[_method_digest(method), fold] = result
        self._unwritten = True
        if time.monotonic() > self._written + _SECONDS_BETWEEN_WRITES:
            self._write()

    def _write(self) -> None:
        assert self.path is not None
        tensors: dict[str, Vector] = {}
        numbers = []
        for i, ((method, fold), result) in enumerate(self.results.items()):
            tensors |= {f"{i}.{name}": losses for name, losses in result.losses.items()}
            numbers.append((method, fold, result.fit_seconds, result.n_neighbors))
        about = {"comparison": self.digest, "results": json.dumps([self.n_rows, numbers])}
        with atomic_write(self.path) as temporary:
            temporary.write_bytes(save(tensors, {**_FORMAT, **about}))
        self._unwritten, self._written = False, time.monotonic()

    def _read(self, path: Path) -> None:
        try:
            if not path.is_file():
                raise ValueError("not a file")
            with safe_open(path, framework="numpy") as file:
                metadata = file.metadata() or {}
                if {key: metadata.get(key) for key in _FORMAT} != _FORMAT:
                    raise ValueError("not the format of a checkpoint")
                same = metadata["comparison"] == self.digest
                losses: dict[int, dict[str, Vector]] = {}
                for key in file.keys():  # noqa: SIM118
                    number, _, measure = key.partition(".")
                    losses.setdefault(int(number), {})[measure] = file.get_tensor(key)
                n_rows, numbers = json.loads(metadata["results"])
                self.n_rows = None if n_rows is None else int(n_rows)
                for i, (method, fold, seconds, k) in enumerate(numbers):
                    result = FoldResult(losses[i], float(seconds), int(k))
                    self.results[str(method), int(fold)] = result
        except _INVALID as error:
            raise ValueError(f"{path} is not the checkpoint of a comparison.") from error
        if not same:
            raise ValueError(
                f"{path} is the checkpoint of another comparison (other data, folds, n_neighbors, "
                "random_state or version of nearfar); delete it or choose another file."
            )


def digest(value: object) -> str:
    """Return a digest of the content of a value, the same in every process."""
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
