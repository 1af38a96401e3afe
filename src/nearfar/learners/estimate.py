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
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import nnls
from sklearn.base import clone

from nearfar.learners import fitting
from nearfar.learners.fitting import Data, FitMethod
from nearfar.learners.selection.choice import MAX_TRIAL_ROWS, Selection
from nearfar.learners.selection.row_curve import LEAST_ROWS
from nearfar.rows import ArrayRows, Rows
from nearfar.runtime.deadline import Clock
from nearfar.runtime.progress import stage
from nearfar.runtime.quoting import amount, duration
from nearfar.runtime.threads import limited_threads

if TYPE_CHECKING:
    from nearfar.learners.base import MetricLearner

# The first sample, and the largest that is also validated; later ones take as many iterations.
_FIRST_SIZE, _VALIDATED_SIZE = 250, 1000
# Where learners work as they do on many rows, also in trial fits, which hold some out.
_FIRST_OF_MANY_ROWS = 1280
# Share of the budget that a fit takes at the largest size: the next would take twice that.
_LARGEST_SHARE = 0.3
# Seconds that a learner with a budget of its own has for a sample.
_SAMPLE_BUDGET = 0.5
# The second iteration holds what the first one left: later ones need no more.
_MEMORY_ITERATIONS = 2
# The smallest samples for memory; in smaller ones tiles of pairs do not have their full size.
_MEMORY_ROWS, _MEMORY_CONSTRAINTS = 1000, 5000
# The choice of a scale looks at no more constraints, and at fewer rows.
_SCALED_SIZE = 10_000
# Relative error of a line above which a phase grows faster than that; times scatter by less.
_MISFIT = 0.15
_SHORTEST = 1e-9


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
    if_enough : int or None
        Rows that the estimate assumes to be enough, where held-out rows decide how many to learn
        from.

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
    if_enough: int | None = None

    def __str__(self) -> str:
        rows, features = self.shape
        enough = f", if {self.if_enough:,} of them are enough" if self.if_enough else ""
        return (
            f"{self.learner} on {rows:,} rows x {features:,} features: about "
            f"{duration(self.seconds)} and {amount(self.bytes)} beyond X, mostly "
            f"{max(self.memory, key=lambda part: self.memory[part])}{enough}."
        )


def estimate(
    self: MetricLearner, X: ArrayLike, y: object = None, *, budget: float = 5.0
) -> Estimate:
    """Return the time and memory that `fit` will take, from fits to small samples.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features), path, Dask array or Rows
        Of rows that are not in memory, samples are read. The time to read all of them in each
        iteration is not estimated.
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
    >>> cost = NCA().estimate(*load_digits(return_X_y=True), budget=0.5)
    >>> cost.seconds > 0, cost.bytes > 0
    (True, True)
    """
    learner = clone(self)
    learner._check_parameters()
    planned = learner.get_params().get("budget")
    if planned is not None:
        learner.set_params(budget=_SAMPLE_BUDGET)
    data, method = fitting.check(learner, X, y), learner._method()
    fitting.check_learnable(data, method)
    with limited_threads(learner.n_jobs), stage("estimating time and memory"):
        return estimate_fit(method, data, budget=budget, planned=planned)


class Measured(NamedTuple):
    """A fit to a sample: its size (constraints if they are listed, or rows), and its seconds.

    `iteration` is the time of one; `validation` is NaN if it was left out.
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
    """Fit samples of twice the size each, until that takes a share of the budget; extrapolate.

    A learner with a budget of its own takes the time that is `planned`.
    """
    shape, enough = (len(data.X), data.X.shape[1]), None
    if fitting.samples_rows(data, method):
        # Trial fits to fewer rows take about as long as the fit to these.
        enough, data = LEAST_ROWS, fitting.restrict(data, LEAST_ROWS, 0)
    whole, n_rows = len(data.supervision), len(data.X)
    size, largest_validated = _FIRST_SIZE, _VALIDATED_SIZE
    if whole == n_rows > _FIRST_OF_MANY_ROWS:
        size, largest_validated = _FIRST_OF_MANY_ROWS, 2 * _FIRST_OF_MANY_ROWS
    measured: list[Measured] = []
    selection: Selection | None = None
    start = clock()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        while True:
            size = min(size, whole)
            earlier = selection if size > largest_validated else None
            try:
                selection, fit = measure_time(method, _sample(data, size), earlier, clock)
            except ValueError:
                # A small sample may have nothing to learn from.
                if size == whole:
                    raise
            else:
                measured.append(fit)
                late = clock() - start > budget or fit.seconds > _LARGEST_SHARE * budget
                if late or size == whole:
                    break
            size *= 2
        memory = measure_memory(method, data, measured)
    seconds, iterations = extrapolate(measured, whole, n_rows)
    seconds = float(planned) if planned is not None else seconds * (1 if enough is None else 2)
    return Estimate(method.name, shape, seconds, sum(memory.values()), iterations, memory, enough)


def measure_time(
    method: FitMethod, data: Data, selection: Selection | None, clock: Clock
) -> tuple[Selection, Measured]:
    """Fit a sample, and time the phases; a given selection is not validated again."""
    start, validation = clock(), math.nan
    scale = fitting.choose_scale(data, method)
    data, scale, method, _ = fitting.in_span(data, scale, method)
    if selection is None:
        selection, validation = fitting.select(data, scale, method), 0.0
    selected = clock()
    prepared = fitting.prepare(data, scale, np.random.RandomState(0), span=method.span)
    problem = method.build(prepared)
    builder = fitting.builder_of(problem, prepared, method)
    built = clock()
    history = fitting.run(problem, selection)
    solved = clock()
    builder.lift(problem.metric(history, builder))
    preparation = built - selected + clock() - solved
    number = max(1, len(history))
    seconds = (validation + selected - start, preparation, (solved - built) / number)
    most = max(number, problem.max_iter)
    return selection, Measured(len(data.supervision), len(data.X), *seconds, number, most)


def measure_memory(method: FitMethod, data: Data, measured: Sequence[Measured]) -> dict[str, float]:
    """Return what takes the memory of a fit to the data, in bytes: the stage that needs most."""
    whole, n_rows = len(data.supervision), len(data.X)
    sample = _sample(data, min(_SCALED_SIZE, whole))
    stages = {"the choice of a scale": peak_of(partial(fitting.choose_scale, sample, method))}

    # Trial fits: the line through the peaks of two sizes, up to the most rows that they see.
    sizes = [fit.size for fit in measured if not math.isnan(fit.validation)][-2:]
    samples = [_sample(data, size) for size in sizes]
    peaks = [peak_of(partial(fitting.select, sample, "unit", method)) for sample in samples]
    trials, most = max(peaks, default=0.0), min(whole, 2 * MAX_TRIAL_ROWS)
    if len(peaks) == 1 and sizes[0] <= MAX_TRIAL_ROWS:
        trials *= min(most, 2 * sizes[0]) / sizes[0]
    elif len(peaks) == 2 and sizes[1] <= MAX_TRIAL_ROWS:
        slope = (peaks[1] - peaks[0]) / (sizes[1] - sizes[0])
        trials = peaks[1] + max(0.0, slope * (most - sizes[1]))
    stages["trial fits on held-out data"] = trials

    # The fit itself: beyond the size at which tiles are full, memory grows linearly.
    first = _MEMORY_CONSTRAINTS if data.supervision.listed else _MEMORY_ROWS
    last, at, peaks = measured[-1].size, [], []
    candidates = {min(size, whole) for size in (first, 2 * first, 4 * first, last, 2 * last)}
    for size in sorted(candidates)[-3:]:
        sample = _sample(data, size)
        scale, short = fitting.choose_scale(sample, method), Selection(_MEMORY_ITERATIONS)
        at.append((len(sample.X), size))
        peaks.append(peak_of(partial(fitting.learn, sample, scale, method, short, 0)))
    total = max(peaks[-1], grown(at, peaks, (n_rows, whole), curved=False))

    largest = max(stages, key=lambda stage: stages[stage])
    if stages[largest] > total:
        return {largest: stages[largest]}
    in_blocks = isinstance(data.X, Rows)
    scaled = 0.0 if in_blocks else min(total, float(data.X.size * data.X.dtype.itemsize))
    constant = min(total - scaled, grown(at, peaks, (0, 0), curved=False) if len(at) > 1 else 0.0)
    return {
        "scaled rows": scaled,
        "constraints and supervision": total - scaled - constant,
        "the rest": constant,
    }


def peak_of(work: Callable[[], object]) -> float:
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

    def phase(name: str, to: tuple[int, int]) -> float:
        times = [getattr(fit, name) for fit in measured]
        at = [(fit.n_rows, fit.size) for fit in measured]
        timed = [number for number, seconds in enumerate(times) if not math.isnan(seconds)]
        return grown([at[number] for number in timed], [times[number] for number in timed], to)

    last, most_rows = measured[-1], min(n_rows, MAX_TRIAL_ROWS)
    validation = phase("validation", (most_rows, most_rows if size == n_rows else size))
    iterations = float(last.n_iterations)
    if last.size == size:
        return validation + last.seconds, iterations
    if len(measured) > 1:
        # The power of the size that the last two fits show.
        before = measured[-2]
        power = np.log(iterations / before.n_iterations) / np.log(last.size / before.size)
        iterations *= (size / last.size) ** np.clip(power, 0.0, 0.5)
        iterations = float(min(iterations, last.max_iter))
    to = (n_rows, size)
    return validation + phase("preparation", to) + iterations * phase("iteration", to), iterations


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
    # The last row of each basis is where to extrapolate to.
    rows, size = np.array([*at, to], dtype=np.float64).T
    y, one = np.array(values), np.ones(len(rows))
    if not y.any():
        return 0.0
    bases = [[one, rows], [one, rows, rows**2]]
    if (rows != size)[:-1].any():
        bases = [[one, rows, size]]
    # Relative errors count, and the largest sizes most.
    weight = np.sqrt(size[:-1] / size[:-1].max()) / np.maximum(y, _SHORTEST)
    for columns in bases if curved else bases[:1]:
        basis, goal = np.column_stack(columns)[:-1], np.column_stack(columns)[-1]
        unit = basis.max(axis=0)
        coefficients = nnls(basis / unit * weight[:, None], y * weight)[0] / unit
        misfit = np.abs(basis @ coefficients - y)[-2:] / np.maximum(y[-2:], _SHORTEST)
        if misfit.max() <= _MISFIT:
            break
    return float(goal @ coefficients)


def _sample(data: Data, size: int) -> Data:
    """Return a random sample of a size, always the same one."""
    if size == len(data.supervision):
        return data
    rows, supervision = data.supervision.sample(size, np.random.RandomState(0))
    X = data.X[rows]
    # Samples of rows that are read in blocks are fitted in blocks, too.
    return Data(ArrayRows(X) if isinstance(data.X, Rows) else X, supervision)
