"""Bare limits of work on all pairs: what a method that looks at every pair pays at least.

Each limit is a pass over all pairs in float32, a band of rows at a time, with the bands shared by
threads as in `nearfar.numerics.pair_tiles`:

    gram      X X'               one product of a band with all points
    product   W X                a band of weights times all points
    exp       exp(-H)            one exp per pair
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict, astuple, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearfar.runtime.threads import Threads, single_threaded_blas
from protocol import seconds

Array = NDArray[Any]

_BAND_ELEMENTS = 1 << 20
_BAND_ROWS = (32, 256)


@dataclass(frozen=True)
class Limits:
    """Seconds of the bare passes."""

    gram: float
    product: float
    exp: float

    @property
    def total(self) -> float:
        """One of each: the least that value and gradient need."""
        return self.gram + self.product + self.exp

    def multiples(self, taken: float) -> str:
        """Say how often a time contains all limits, and each."""
        parts = ", ".join(f"{taken / limit:.1f} {name}" for name, limit in asdict(self).items())
        return f"{taken / self.total:.2f} times the limits ({parts})"

    def __str__(self) -> str:
        return ", ".join(f"{name} {1e3 * limit:.0f} ms" for name, limit in asdict(self).items())


def within_limits(
    X: Array, work: Callable[[], dict[str, float]]
) -> tuple[dict[str, float], Limits]:
    """Run what returns times by name, between two measurements of the limits; average these."""
    before = limits(X)
    times = work()
    after = limits(X)
    bare = Limits(*np.mean([astuple(before), astuple(after)], axis=0).tolist())
    print(f"    {bare}")
    for name, taken in times.items():
        print(f"    {name:12} {1e3 * taken:6.0f} ms, {bare.multiples(taken)}", flush=True)
    return times, bare


def limits(X: Array, repeats: int = 5) -> Limits:
    """Measure the bare passes over all pairs of the rows of X."""
    X = np.ascontiguousarray(X, dtype=np.float32)
    n = len(X)
    height = max(_BAND_ROWS[0], min(_BAND_ROWS[1], _BAND_ELEMENTS // n))
    threads, buffers = Threads(), threading.local()

    def band(rows: slice) -> Array:
        if not hasattr(buffers, "pairs"):
            buffers.pairs = np.full((height, n), -1.0, dtype=np.float32)
            buffers.result = np.empty_like(buffers.pairs)
        return buffers.pairs[: rows.stop - rows.start]

    def gram(rows: slice) -> None:
        size = len(band(rows))
        np.matmul(X[rows], X.T, out=buffers.result[:size])

    def product(rows: slice) -> Array:
        return band(rows) @ X

    def exp(rows: slice) -> None:
        pairs = band(rows)
        np.exp(pairs, out=buffers.result[: len(pairs)])

    def timed(work: Callable[[slice], object]) -> float:
        def run() -> None:
            with single_threaded_blas():
                for _ in threads.map(work, n, height):
                    pass

        return seconds(run, repeats)

    return Limits(timed(gram), timed(product), timed(exp))


def growth(sizes: Sequence[int], times: Sequence[float]) -> float:
    """Exponent with which times grow: the slope of their logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(times), 1)[0])
