"""`Estimate`: the time and memory that a fit will take, from fits to small samples.

The learner is fitted to samples of growing size until a fit takes a share of the time budget. The
phases of a fit grow differently, so that each is extrapolated on its own:

    seconds(n) = validation(min(n, 2000)) + preparation(n) + iterations(n) * iteration(n)

A phase is c0 + c1 n in the number of rows n, or c0 + c1 n + c2 n^2 if a line does not fit its
times. With m triplets or pairs it is c0 + c1 n + c2 m. Trial fits on held-out data see at most
2,000 rows. The number of iterations follows a power of the size, up to `max_iter`.

Memory is the peak of what NumPy and Python allocate (`tracemalloc`), in trial fits and in fits of
two iterations. Nothing is extrapolated in the number of features: samples have them all.
"""

from __future__ import annotations

import math
import time
import tracemalloc
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import nnls
from sklearn.base import clone

from nearfar.learners import fitting
from nearfar.learners.fitting import Data, FitMethod
from nearfar.learners.selection.choice import MAX_TRIAL_ROWS, Selection
from nearfar.runtime.deadline import Clock
from nearfar.runtime.quoting import amount
from nearfar.runtime.threads import limited_threads

_FIRST_SIZE = 250
_FIRST_OF_MANY_ROWS = 1280
"""Where learners work as they do on many rows, also in trial fits, which hold some out."""
_LARGEST_SHARE = 0.3
"""Share of the budget that a fit takes at the largest size."""
_MEMORY_ITERATIONS = 2
_MEMORY_ROWS, _MEMORY_CONSTRAINTS = 1000, 5000
"""The smallest samples for memory, of rows or of constraints."""
_VALIDATED_SIZE = 1000
"""Samples up to this size are also validated; larger ones take as many iterations."""
_MISFIT = 0.15
"""Relative error of a line above which a phase grows faster than that."""
_SCALED_SIZE = 10_000
"""The choice of a scale looks at no more constraints, and at fewer rows."""
_LARGEST_TRIAL = 2 * MAX_TRIAL_ROWS
"""Rows that trial fits learn from and are judged by."""
_SHORTEST = 1e-9
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
    >>> memory = {"scaled rows": 4e8, "constraints and supervision": 1e8, "the rest": 2e7}
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


class EstimateMixin:
    """Estimates the cost of a fit before it starts."""

    def estimate(self, X: ArrayLike, y: Any = None, *, budget: float = 5.0) -> Estimate:
        """Return the time and memory that `fit` will take, from fits to small samples.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,), Triplets, Pairs or Chunklets
        budget : float, default=5.0
            About how many seconds the samples may take. More of them make the estimate better.

        Returns
        -------
        Estimate
            With `seconds`, `bytes` (peak memory beyond X) and `memory` (what takes it). ``print``
            shows it as a sentence. Data that take less than the budget are fitted whole.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from nearfar import NCA
        >>> found = NCA().estimate(*load_digits(return_X_y=True), budget=0.5)
        >>> found.seconds > 0, found.bytes > 0
        (True, True)
        """
        learner: Any = clone(self)
        learner._check_parameters()
        planned = getattr(learner, "budget", None)
        if planned is not None:
            learner.set_params(budget=_SAMPLE_BUDGET)
        data = learner._checked(X, y)
        method = learner._method()
        fitting.check_in_memory(data.X)
        fitting.check_learnable(data, method)
        with limited_threads(getattr(learner, "n_jobs", None)):
            return estimate_fit(method, data, budget=budget, planned=planned)


@dataclass(frozen=True)
class Measured:
    """A fit to a sample.

    Attributes
    ----------
    size : int
        Constraints if they are listed, or rows.
    n_rows : int
    validation, preparation, iteration : float
        Seconds; `iteration` is for one of them, and `validation` is NaN if it was left out.
    n_iterations : int
    max_iter : int
        The most iterations.
    """

    size: int
    n_rows: int
    validation: float
    preparation: float
    iteration: float
    n_iterations: int
    max_iter: int

    @property
    def seconds(self) -> float:
        """Seconds of the fit, without validation."""
        return self.preparation + self.n_iterations * self.iteration


def estimate_fit(
    method: FitMethod,
    data: Data,
    *,
    budget: float,
    planned: float | None = None,
    clock: Clock = time.perf_counter,
) -> Estimate:
    """Fit samples, and extrapolate.

    Parameters
    ----------
    method : FitMethod
    data : Data
    budget : float
        About how many seconds the samples may take.
    planned : float, optional
        Seconds that the fit will take, if the learner has a budget of its own.
    clock : callable
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        measured = _growing_fits(method, data, budget, clock)
        memory = _memory(method, data, measured)
    seconds, iterations = extrapolate(measured, _size(data), len(data.X))
    return Estimate(
        method.name,
        (data.X.shape[0], data.X.shape[1]),
        seconds if planned is None else float(planned),
        sum(memory.values()),
        iterations,
        memory,
    )


def _growing_fits(method: FitMethod, data: Data, budget: float, clock: Clock) -> list[Measured]:
    """Fit samples of twice the size each, until that takes a share of the budget."""
    everything = _size(data)
    measured: list[Measured] = []
    many_rows = everything == len(data.X) > _FIRST_OF_MANY_ROWS
    size, start = min(_FIRST_OF_MANY_ROWS if many_rows else _FIRST_SIZE, everything), clock()
    validated_size = 2 * _FIRST_OF_MANY_ROWS if many_rows else _VALIDATED_SIZE
    selection: Selection | None = None
    while True:
        try:
            known = selection if size > validated_size else None
            selection, fit = measure_time(method, _sample(data, size), known, clock)
        except ValueError:
            # A small sample may have nothing to learn from.
            if size == everything:
                raise
        else:
            measured.append(fit)
            late = clock() - start > budget or fit.seconds > _LARGEST_SHARE * budget
            if late or size == everything:
                return measured
        size = min(2 * size, everything)


def measure_time(
    method: FitMethod, data: Data, selection: Selection | None, clock: Clock
) -> tuple[Selection, Measured]:
    """Fit a sample, and time the phases; a given selection is not validated again."""
    start = clock()
    scale = fitting.choose_scale(data, method)
    data, scale, method, _ = fitting.in_span(data, scale, method)
    validated = selection is None
    if selection is None:
        selection = fitting.select(data, scale, method)
    selected = clock()
    prepared = fitting.prepare(data, scale, np.random.RandomState(0), span=method.span)
    problem = method.build(prepared)
    builder = fitting.builder_of(problem, prepared, method)
    built = clock()
    history = fitting.run(problem, selection)
    solved = clock()
    builder.lift(problem.metric(history, builder))
    number = max(1, len(history))
    rest = clock() - solved
    return selection, Measured(
        _size(data),
        len(data.X),
        selected - start if validated else math.nan,
        built - selected + rest,
        (solved - built) / number,
        number,
        max(number, problem.max_iter),
    )


def peak_of(work: Callable[[], Any]) -> float:
    """Return the peak memory of a call, in bytes."""
    tracing = tracemalloc.is_tracing()
    if not tracing:
        tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        work()
        return float(max(0, tracemalloc.get_traced_memory()[1] - before))
    finally:
        if not tracing:
            tracemalloc.stop()


def extrapolate(measured: Sequence[Measured], size: int, n_rows: int) -> tuple[float, float]:
    """Return seconds and iterations of a fit of this size.

    Examples
    --------
    >>> from nearfar.learners.estimate import Measured, extrapolate
    >>> fits = [Measured(n, n, 0.0, 1e-3 * n, 1e-6 * n**2, 10, 99) for n in (250, 500, 1000)]
    >>> seconds, iterations = extrapolate(fits, 10_000, 10_000)
    >>> round(seconds), round(iterations)
    (1010, 10)
    """
    at, to = [(fit.n_rows, fit.size) for fit in measured], (n_rows, size)
    validated = [fit for fit in measured if not math.isnan(fit.validation)]
    trials = [(fit.n_rows, fit.size) for fit in validated]
    most = min(n_rows, MAX_TRIAL_ROWS), min(size, MAX_TRIAL_ROWS) if size == n_rows else size
    validation = grown(trials, [fit.validation for fit in validated], most)
    last = measured[-1]
    if last.size == size:
        return validation + last.seconds, last.n_iterations
    preparation = grown(at, [fit.preparation for fit in measured], to)
    iteration = grown(at, [fit.iteration for fit in measured], to)
    iterations = _iterations(measured, size)
    return validation + preparation + iterations * iteration, iterations


def grown(
    at: Sequence[tuple[int, int]],
    values: Sequence[float],
    to: tuple[int, int],
    *,
    curved: bool = True,
) -> float:
    """Extrapolate what was measured at numbers of rows and of constraints.

    Without constraints, both numbers are that of rows. Then values are on a line or, if they may be
    `curved`, on a parabola where a line does not fit.

    Examples
    --------
    >>> from nearfar.learners.estimate import grown
    >>> round(grown([(1, 1), (2, 2), (4, 4)], [3.0, 5.0, 9.0], (100, 100)), 6)
    201.0
    >>> round(grown([(1, 5), (2, 10), (2, 20)], [6.0, 12.0, 22.0], (2, 100)), 6)
    102.0
    """
    x, y = np.array(at, dtype=np.float64), np.array(values)
    if not y.any():
        return 0.0
    one = np.ones((len(x), 1))
    rows, size = x[:, :1], x[:, 1:]
    if (rows != size).any():
        bases, goals = [np.hstack([one, x])], [np.array([1.0, *to])]
    else:
        bases = [np.hstack([one, rows]), np.hstack([one, rows, rows**2])]
        goals = [np.array([1.0, to[0]]), np.array([1.0, to[0], to[0] ** 2])]
    found = 0.0
    for basis, goal in zip(bases, goals, strict=True):
        # Relative errors count, and the largest sizes most.
        weight = np.sqrt(size.ravel() / size.max()) / np.maximum(y, _SHORTEST)
        unit = basis.max(axis=0)
        coefficients = nnls(basis / unit * weight[:, None], y * weight)[0] / unit
        found = float(goal @ coefficients)
        misfit = np.abs(basis @ coefficients - y)[-2:] / np.maximum(y[-2:], _SHORTEST)
        if misfit.max() <= _MISFIT or not curved:
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


def _iterations(measured: Sequence[Measured], size: int) -> float:
    """Return the number of iterations: a power of the size that the last two fits show."""
    last = measured[-1]
    if len(measured) == 1 or last.size == measured[-2].size:
        return last.n_iterations
    before = measured[-2]
    power = np.log(last.n_iterations / before.n_iterations) / np.log(last.size / before.size)
    number = last.n_iterations * (size / last.size) ** np.clip(power, 0.0, 0.5)
    return float(min(number, last.max_iter))


def _memory(method: FitMethod, data: Data, measured: Sequence[Measured]) -> dict[str, float]:
    """Return what takes the memory of a fit to the data, in bytes: the stage that needs most.

    The choice of a scale and trial fits look at a bounded number of rows or constraints.
    """
    sample = _sample(data, min(_SCALED_SIZE, _size(data)))
    choice = peak_of(lambda: fitting.choose_scale(sample, method))
    validated = [fit.size for fit in measured if not math.isnan(fit.validation)]
    trials = _trial_memory(method, data, validated)
    fit = _fit_memory(method, data, measured[-1].size)
    stages = {"the choice of a scale": choice, "trial fits on held-out data": trials}
    largest = max(stages, key=lambda stage: stages[stage])
    return {largest: stages[largest]} if stages[largest] > sum(fit.values()) else fit


def _fit_memory(method: FitMethod, data: Data, last: int) -> dict[str, float]:
    """Return what takes the memory of the fit itself, from fits of two iterations to samples.

    Samples are at least so large that tiles of pairs have their full size, and otherwise twice as
    large as the `last` one that was timed. Beyond that, memory grows linearly.
    """
    everything, at, peaks = _size(data), [], []
    first = _MEMORY_CONSTRAINTS if data.supervision.listed else _MEMORY_ROWS
    sizes = {min(size, everything) for size in (first, 2 * first, 4 * first, last, 2 * last)}
    for size in sorted(sizes)[-3:]:
        sample = _sample(data, size)
        scale = fitting.choose_scale(sample, method)
        at.append((len(sample.X), size))
        short = Selection(_MEMORY_ITERATIONS)
        peaks.append(peak_of(partial(fitting.learn, sample, scale, method, short, 0)))
    total = max(peaks[-1], grown(at, peaks, (len(data.X), everything), curved=False))
    scaled = min(total, float(data.X.size * data.X.dtype.itemsize))
    constant = min(total - scaled, grown(at, peaks, (0, 0), curved=False) if len(at) > 1 else 0.0)
    return {
        "scaled rows": scaled,
        "constraints and supervision": total - scaled - constant,
        "the rest": constant,
    }


def _trial_memory(method: FitMethod, data: Data, sizes: Sequence[int]) -> float:
    """Return the peak memory of trial fits on held-out data, by the line through two sizes."""
    samples = [_sample(data, size) for size in sizes[-2:]]
    peaks = [peak_of(partial(fitting.select, sample, "unit", method)) for sample in samples]
    if not peaks or sizes[-1] > MAX_TRIAL_ROWS:
        return max(peaks, default=0.0)
    most = min(_size(data), _LARGEST_TRIAL)
    if len(peaks) == 1:
        return peaks[0] * min(most, 2 * sizes[-1]) / sizes[-1]
    slope = (peaks[1] - peaks[0]) / (sizes[-1] - sizes[-2])
    return max(peaks[1], peaks[1] + slope * (most - sizes[-1]))


def _size(data: Data) -> int:
    """Return what counts as the size of a problem: constraints if listed, or rows."""
    return len(data.supervision)


def _sample(data: Data, size: int) -> Data:
    """Return a random sample of a size, always the same one."""
    if size == _size(data):
        return data
    rows, known = data.supervision.sample(size, np.random.RandomState(0))
    return Data(data.X[rows], known)
