"""`Estimate`: the time and memory that a fit will take, from fits to small samples.

The learner is fitted to samples of growing size until a fit takes a share of the time budget. The
phases of a fit grow differently, so that each is extrapolated on its own:

    seconds(n) = validation(min(n, 2000)) + preparation(n) + iterations(n) * iteration(n)

The size n is the number of rows, or the number of constraints if y are triplets or pairs. A phase
is c0 + c1 n, or c0 + c1 n + c2 n^2 if a line does not fit its times. Trial fits on held-out data
see at most 2,000 rows. The number of iterations follows a power of n, up to `max_iter`.

Memory is the peak of what NumPy and Python allocate (`tracemalloc`) in fits of two iterations.
Nothing is extrapolated in the number of features: samples have them all.
"""

from __future__ import annotations

import time
import tracemalloc
import warnings
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import nnls
from sklearn.base import clone

from nearfar.constraints import Chunklets, ConstraintsOver, Pairs, Triplets
from nearfar.learners.validation import MAX_TRIAL_ROWS, Plan
from nearfar.runtime.deadline import Clock
from nearfar.runtime.history import History
from nearfar.typing import Floats, Ints

if TYPE_CHECKING:
    from nearfar.learners.base import MetricLearner

_FIRST_SIZE = 250
_LARGEST_SHARE = 0.3
"""Share of the budget that a fit takes at the largest size."""
_MEMORY_ITERATIONS = 2
_MISFIT = 0.15
"""Relative error of a line above which a phase grows faster than that."""
_SAMPLE_BUDGET = 0.5
"""Seconds that a learner with a budget of its own has for a sample."""


@dataclass(frozen=True)
class Estimate:
    """What a fit will take.

    Attributes
    ----------
    learner : str
        Name of the learner.
    shape : (int, int)
        Rows and features.
    seconds : float
    bytes : float
        Peak memory, beyond X and y.
    iterations : float
    memory : dict of str to float
        What takes the memory, in bytes.

    Examples
    --------
    >>> from nearfar.learners.estimate import Estimate
    >>> memory = {"scaled rows": 4e8, "constraints and what is known of rows": 1e8, "the rest": 2e7}
    >>> print(Estimate("RCA", (1_000_000, 50), 140.0, 5.2e8, 1.0, memory))
    RCA on 1,000,000 rows x 50 features: about 2 min and 520 MB beyond X, mostly scaled rows.
    """

    learner: str
    shape: tuple[int, int]
    seconds: float
    bytes: float
    iterations: float
    memory: dict[str, float]

    def __str__(self) -> str:
        rows, features = self.shape
        return (
            f"{self.learner} on {rows:,} rows x {features:,} features: about "
            f"{duration(self.seconds)} and {amount(self.bytes)} beyond X, mostly "
            f"{max(self.memory, key=lambda part: self.memory[part])}."
        )


@dataclass(frozen=True)
class Measured:
    """A fit to a sample.

    Attributes
    ----------
    size : int
        Rows or constraints.
    validation, preparation, iteration : float
        Seconds; `iteration` is for one of them.
    n_iterations : int
    max_iter : int
        The most iterations.
    """

    size: int
    validation: float
    preparation: float
    iteration: float
    n_iterations: int
    max_iter: int

    @property
    def seconds(self) -> float:
        """Seconds of the whole fit."""
        return self.validation + self.preparation + self.n_iterations * self.iteration


def estimate_fit(
    learner: MetricLearner,
    X: Floats,
    supervision: Any,
    *,
    budget: float,
    clock: Clock = time.perf_counter,
) -> Estimate:
    """Fit samples, and extrapolate.

    Parameters
    ----------
    learner : MetricLearner
    X : array of shape (n_samples, n_features)
    supervision : array of class codes or numbers, or constraints
    budget : float
        About how many seconds the samples may take.
    clock : callable
    """
    if isinstance(supervision, ConstraintsOver):
        supervision = supervision.constraints
    planned = getattr(learner, "budget", None)
    if planned is not None:
        learner = clone(learner).set_params(budget=_SAMPLE_BUDGET)
    everything = _size(X, supervision)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        measured = _growing_fits(learner, X, supervision, budget, clock)
        sizes = [fit.size for fit in measured[-2:]]
        if 2 * sizes[-1] <= everything:
            sizes.append(2 * sizes[-1])
        peaks = [measure_memory(learner, *_sample(X, supervision, size)) for size in sizes]
    memory = _memory(sizes, peaks, everything, X)
    labelled = not isinstance(supervision, Triplets | Pairs | Chunklets)
    seconds, iterations = extrapolate(measured, everything, capped=labelled)
    return Estimate(
        type(learner).__name__,
        (X.shape[0], X.shape[1]),
        seconds if planned is None else float(planned),
        sum(memory.values()),
        iterations,
        memory,
    )


def _growing_fits(
    learner: MetricLearner, X: Floats, supervision: Any, budget: float, clock: Clock
) -> list[Measured]:
    """Fit samples of twice the size each, until that takes a share of the budget."""
    everything = _size(X, supervision)
    measured: list[Measured] = []
    size, start = min(_FIRST_SIZE, everything), clock()
    while True:
        try:
            fit = measure_time(learner, *_sample(X, supervision, size), clock)
        except ValueError:
            # A small sample may have nothing to learn from.
            if size == everything:
                raise
        else:
            measured.append(replace(fit, size=size))
            late = clock() - start > budget / 2 or fit.seconds > _LARGEST_SHARE * budget
            if late or size == everything:
                return measured
        size = min(2 * size, everything)


def measure_time(learner: MetricLearner, X: Floats, supervision: Any, clock: Clock) -> Measured:
    """Fit a sample, and time the phases."""
    start = clock()
    scale = learner._chosen_scale(X, supervision)
    plan = learner._plan(X, supervision, scale)
    planned = clock()
    problem, builder = learner._prepared(X, supervision, scale, 0)
    prepared = clock()
    history = History()
    solver = plan.limit(history, problem.solve())
    with closing(solver):
        for _ in history.record(solver):
            pass
    solved = clock()
    builder.metric(history)
    number = max(1, len(history))
    rest = clock() - solved
    return Measured(
        _size(X, supervision),
        planned - start,
        prepared - planned + rest,
        (solved - prepared) / number,
        number,
        max(number, problem.max_iter),
    )


def measure_memory(learner: MetricLearner, X: Floats, supervision: Any) -> float:
    """Return the peak memory of a fit of two iterations, in bytes."""
    tracing = tracemalloc.is_tracing()
    if not tracing:
        tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        scale = learner._chosen_scale(X, supervision)
        learner._learn(X, supervision, scale, 0, Plan(_MEMORY_ITERATIONS))
        return float(max(0, tracemalloc.get_traced_memory()[1] - before))
    finally:
        if not tracing:
            tracemalloc.stop()


def extrapolate(measured: Sequence[Measured], size: int, *, capped: bool) -> tuple[float, float]:
    """Return seconds and iterations of a fit of this size.

    Parameters
    ----------
    measured : list of Measured
    size : int
    capped : bool
        Whether trial fits on held-out data see at most 2,000 rows.

    Examples
    --------
    >>> from nearfar.learners.estimate import Measured, extrapolate
    >>> fits = [Measured(n, 0.0, 1e-3 * n, 1e-6 * n**2, 10, 99) for n in (250, 500, 1000)]
    >>> seconds, iterations = extrapolate(fits, 10_000, capped=True)
    >>> round(seconds), round(iterations)
    (1010, 10)
    """
    last = measured[-1]
    if last.size == size:
        return last.seconds, last.n_iterations
    most = MAX_TRIAL_ROWS if capped else size
    trial_sizes = [min(fit.size, most) for fit in measured]
    sizes = [fit.size for fit in measured]
    validation = grown(trial_sizes, [fit.validation for fit in measured], min(size, most))
    preparation = grown(sizes, [fit.preparation for fit in measured], size)
    iteration = grown(sizes, [fit.iteration for fit in measured], size)
    iterations = _iterations(measured, size)
    return validation + preparation + iterations * iteration, iterations


def grown(sizes: Sequence[int], values: Sequence[float], size: int) -> float:
    """Extrapolate values by a line, or by a parabola where a line does not fit.

    Examples
    --------
    >>> from nearfar.learners.estimate import grown
    >>> round(grown([1, 2, 4], [3.0, 5.0, 9.0], 100), 6)
    201.0
    """
    x, y = np.array(sizes, dtype=np.float64), np.array(values)
    if not y.any():
        return 0.0
    found = 0.0
    for degree in (1, 2):
        # Relative errors count, and the largest sizes most.
        weight = np.sqrt(x / x[-1]) / np.maximum(y, 1e-12)
        basis = (x / x[-1])[:, None] ** np.arange(degree + 1)
        coefficients, _ = nnls(basis * weight[:, None], y * weight)
        found = float((size / x[-1]) ** np.arange(degree + 1) @ coefficients)
        misfit = np.abs(basis @ coefficients - y)[-2:] / np.maximum(y[-2:], 1e-12)
        if misfit.max() <= _MISFIT:
            break
    return found


def duration(seconds: float) -> str:
    """Write a duration.

    Examples
    --------
    >>> from nearfar.learners.estimate import duration
    >>> duration(0.2), duration(42), duration(500), duration(90_000)
    ('less than 1 s', '42 s', '8 min', '25 h')
    """
    if seconds < 1:
        return "less than 1 s"
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 2 * 3600 else f"{seconds / 3600:.0f} h"


def amount(n_bytes: float) -> str:
    """Write an amount of memory.

    Examples
    --------
    >>> from nearfar.learners.estimate import amount
    >>> amount(3e5), amount(2.5e8), amount(1.2e10)
    ('less than 1 MB', '250 MB', '12 GB')
    """
    if n_bytes < 1e6:
        return "less than 1 MB"
    return f"{n_bytes / 1e6:.0f} MB" if n_bytes < 1e9 else f"{n_bytes / 1e9:.3g} GB"


def _iterations(measured: Sequence[Measured], size: int) -> float:
    """Return the number of iterations: a power of the size that the last two fits show."""
    last = measured[-1]
    if len(measured) == 1 or last.size == measured[-2].size:
        return last.n_iterations
    before = measured[-2]
    power = np.log(last.n_iterations / before.n_iterations) / np.log(last.size / before.size)
    number = last.n_iterations * (size / last.size) ** np.clip(power, 0.0, 0.5)
    return float(min(number, last.max_iter))


def _memory(sizes: Sequence[int], peaks: Sequence[float], size: int, X: Floats) -> dict[str, float]:
    """Return what takes the memory of a fit of this size."""
    total = peaks[-1] if sizes[-1] == size else max(peaks[-1], grown(sizes, peaks, size))
    rows = min(total, float(X.size * X.dtype.itemsize))
    constant = min(total - rows, grown(sizes, peaks, 0) if len(sizes) > 1 else 0.0)
    return {
        "scaled rows": rows,
        "constraints and what is known of rows": total - rows - constant,
        "the rest": constant,
    }


def _size(X: Floats, supervision: Any) -> int:
    """Return what counts as the size of a problem: constraints, or rows."""
    listed = isinstance(supervision, Triplets | Pairs)
    return len(supervision) if listed else len(X)


def _sample(X: Floats, supervision: Any, size: int) -> tuple[Floats, Any]:
    """Return a random sample of a size, always the same one."""
    if size == _size(X, supervision):
        return X, supervision
    random_state = np.random.RandomState(0)
    if isinstance(supervision, Triplets | Pairs):
        chosen = np.sort(random_state.choice(len(supervision), size, replace=False))
        taken = supervision.take(chosen)
        rows = np.unique(taken.index)
        wanted = round(len(X) * size / len(supervision))
        if len(rows) < wanted:
            others = np.setdiff1d(np.arange(len(X)), rows)
            rows = np.append(rows, random_state.choice(others, wanted - len(rows), replace=False))
        rows = np.sort(rows)
        return X[rows], taken.restrict(rows)
    rows = np.sort(_rows(supervision, len(X), size, random_state))
    if isinstance(supervision, Chunklets):
        return X[rows], supervision.restrict(rows)
    return X[rows], None if supervision is None else supervision[rows]


def _rows(supervision: Any, n: int, size: int, random_state: np.random.RandomState) -> Ints:
    """Return random rows, in whole classes or chunklets if these are small."""
    order = random_state.permutation(n)
    codes = supervision.ids if isinstance(supervision, Chunklets) else supervision
    if codes is None or codes.dtype.kind == "f":
        return order[:size]
    sizes = np.bincount(codes[codes >= 0])
    if np.median(sizes[sizes > 0]) * size / n >= 4:
        return order[:size]
    place = random_state.permutation(len(sizes))
    rank = np.where(codes >= 0, place[codes], len(sizes))
    return np.argsort(rank, kind="stable")[:size]
