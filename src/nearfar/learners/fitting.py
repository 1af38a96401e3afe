"""A fit in five functions. Trial fits, `partial_fit`, `estimate` and AutoMetric call the same ones.

    data      = check(X, y, ...)                   arrays or rows on disk; Supervision
    scale     = choose_scale(data, method)         the units in which Euclidean distance does best
    selection = select(data, scale, method)        iterations and shrinkage, by trial fits
    history   = run(problem, selection)            the solver's generator, with observers
    fitted    = finish(problem, history, ...)      one metric, in the units of X

with  problem = method.build(prepare(data, scale, ...)).  A learner contributes `FitMethod.build`,
from FitInput to Problem. Fewer rows than features are first replaced by coordinates in the space
that they span (`in_span`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from nearfar.constraints import (
    Copies,
    Kind,
    Supervision,
    check_rows_given,
    keep_copies_together,
    kind_of,
)
from nearfar.learners.problem import (
    FitInput,
    MetricBuilder,
    Problem,
    WarmStart,
    covariance_matrix,
)
from nearfar.learners.row_span import RowSpan
from nearfar.learners.scaler import Scaler
from nearfar.learners.selection import scale as scales
from nearfar.learners.selection.choice import Follow, Path, Selection, Shrinkage, choose_selection
from nearfar.learners.selection.held_out import Validation
from nearfar.metrics.metric import Metric
from nearfar.numerics.missing import LARGEST_VALUE, refuse_masked, refuse_missing
from nearfar.rows import Moments, Points, Rows, as_rows
from nearfar.runtime.deadline import should_stop
from nearfar.runtime.executors import chosen_executor
from nearfar.runtime.history import History, Iteration
from nearfar.runtime.progress import FitInProgress, observed
from nearfar.typing import Floats

_AUTO_FRACTION = 0.2
_WHO_CAN = (
    "BoostMetric, MaxMarginMetric (pairs), NCA and SparseNCA (labels, with batch_size), "
    "RCA, LDA, DCA, KISSME, XQDA, GMML, PLDA and InverseCovariance"
)


@dataclass(frozen=True, eq=False)
class Data:
    """Checked rows, an array or `Rows`, what is known of them, and which of them are copies."""

    X: Any
    supervision: Supervision
    copies: Copies | None = None

    def restrict(self, rows: Any) -> Data:
        """Keep some rows."""
        return Data(self.X[rows], self.supervision.restrict(rows))


@dataclass(frozen=True)
class FitMethod:
    """What a fit needs to know of a learner.

    Attributes
    ----------
    name : str
        Name of the learner, for messages.
    build : callable
        FitInput -> Problem.
    numbers, ignores_y : bool
        Whether y holds numbers instead of class labels, or does not matter.
    reads_rows : tuple of str
        Kinds of supervision with which rows may be read in blocks.
    scale : {"auto", "standard", "unit", "cosine"} or None
    scales : tuple of str
        What "auto" chooses from.
    scale_data : callable
        Data -> the part of them that "auto" may look at.
    given : Metric or None
        The metric that the fit starts from or adds to, if the user gave one.
    prior : Metric or None
        What the result is shrunk to; None for Euclidean distance.
    n_components : int or None
    most_components : int or None
        The largest possible `n_components`; None for the number of features.
    fraction : float, "auto" or None
        Share of the data that trial fits hold out.
    must_validate : bool
        Whether to warn if nothing can be held out.
    validates_labels : bool
        Whether the fraction "auto" holds out labelled rows.
    validation : {"rows", "classes"}
    n_before : int
        Labels or constraints that the prior was learned from, in earlier parts of the data.
    seed : int
        For trial fits.
    feature_names : array of str or None
    rotates : bool
        Whether the result for rotated rows is the rotated result.
    span : RowSpan or None
        Where rows are coordinates already, instead of features.
    """

    name: str
    build: Callable[[FitInput], Problem]
    numbers: bool = False
    ignores_y: bool = False
    reads_rows: tuple[str, ...] = ()
    scale: str | None = "auto"
    scales: tuple[str, ...] = scales.SCALES
    scale_data: Callable[[Data], Data] = lambda data: data
    given: Metric | None = None
    prior: Metric | None = None
    n_components: int | None = None
    most_components: int | None = None
    fraction: float | Literal["auto"] | None = None
    must_validate: bool = True
    validates_labels: bool = False
    validation: Validation = "rows"
    n_before: int = 0
    seed: int = 0
    feature_names: Any = None
    rotates: bool = False
    span: RowSpan | None = None


def kinds_read(kinds: tuple[str, ...], strategy: Any) -> tuple[str, ...]:
    """Return the kinds of supervision with which rows may be read in blocks.

    Labels too, where triplets are accepted and the strategy makes them without reading rows, or in
    blocks; None is `NearestTriplets()`, which does.
    """
    able = strategy is None or any(
        getattr(strategy, name, False) for name in ("reads_rows", "ignores_rows")
    )
    return (*kinds, "labels") if "triplets" in kinds and able else kinds


def check(
    X: Any,
    y: Any,
    groups: Any,
    method: FitMethod,
    validate: Callable[..., Any],
    *,
    min_samples: int = 2,
    splits: bool = False,
) -> Data:
    """Check X and what is known of its rows.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features), path, Dask array or Rows
    y : array-like of shape (n_samples,), or constraints
    groups : array-like of shape (n_samples,) or None
    method : FitMethod
    validate : callable
        scikit-learn's `validate_data` of the estimator.
    min_samples : int, default=2
        The fewest rows that labels, or a learner without y, may come with.
    splits : bool, default=False
        Whether data are held out of the fit, so that copies of rows must stay together.
    """
    check_rows_given(X, y)
    kind = "nothing" if method.ignores_y else kind_of(y, numbers=method.numbers)
    y = None if method.ignores_y else y
    refuse_masked(X, "X")
    if y is not None and kind in ("labels", "numbers"):
        refuse_missing(y, "y")
    points: Any = _rows(X, kind, method)
    if points is not None:
        if y is None and not method.ignores_y:
            raise ValueError("The learner needs labels or constraints; y is None.")
    elif kind in ("labels", "numbers"):
        points, y = validate(X, y, dtype=[np.float64, np.float32], ensure_min_samples=min_samples)
    else:
        least = min_samples if method.ignores_y else 1
        points = validate(X, dtype=[np.float64, np.float32], ensure_min_samples=least)
    known = Supervision.of(y, len(points), groups=groups, numbers=method.numbers)
    if splits and not isinstance(points, Rows):
        return Data(points, *keep_copies_together(points, known))
    return Data(points, known)


def _rows(X: Any, kind: Kind, method: FitMethod) -> Rows | None:
    """Return X as rows that are read in blocks; None if it is an array in memory.

    A memory-mapped array is read whole for learners that do not read blocks.
    """
    rows = None if type(X) is np.ndarray else as_rows(X)
    accepted = ("labels" if kind == "nothing" else kind) in method.reads_rows
    if rows is None or (isinstance(X, np.memmap) and not accepted):
        if chosen_executor() is not None:
            raise ValueError(
                "An executor needs rows that its workers can read; save X with np.save and pass "
                "the path, or pass a Dask array."
            )
        return None
    if not accepted:
        raise ValueError(
            f"{method.name} does not learn from {kind} over rows that are not in "
            f"memory; load them, or use one that does: {_WHO_CAN}."
        )
    if min(rows.shape) == 0:
        raise ValueError(f"X needs at least one row and one column; its shape is {rows.shape}.")
    first_bad = Moments.of(rows).first_bad
    if first_bad is not None:
        raise ValueError(
            f"X contains NaN or infinite values, first in row {first_bad} (counting from 0)."
        )
    return rows


def check_in_memory(X: Points) -> None:
    """Raise ValueError for rows that are not in memory."""
    if isinstance(X, Rows):
        raise ValueError(
            "score, partial_fit and estimate need rows in memory; pass a sample or a part of them."
        )


def check_learnable(data: Data, method: FitMethod) -> None:
    """Refuse what cannot be learned from: values out of range, too many components."""
    _check_magnitude(data.X)
    most = method.most_components or data.X.shape[1]
    if method.n_components is not None and method.n_components > most:
        raise ValueError(f"n_components must be at most {most}; got {method.n_components}.")


def _check_magnitude(X: Points) -> None:
    """Refuse columns whose squares would overflow, or vanish."""
    if isinstance(X, Rows):
        moments = Moments.of(X)
        largest = np.maximum(moments.largest, -moments.smallest)
    else:
        largest = np.maximum(X.max(axis=0), -X.min(axis=0)).astype(np.float64)
    column = int(largest.argmax())
    if largest[column] > LARGEST_VALUE:
        raise ValueError(
            f"Column {column} of X has values up to {largest[column]:.0e}, whose squares overflow; "
            "divide it by a constant."
        )
    small = np.flatnonzero((largest > 0) & (largest < 1 / LARGEST_VALUE))
    if len(small):
        raise ValueError(
            f"Column {small[0]} of X has no value above {largest[small[0]]:.0e}, and squares of "
            "such values vanish; multiply it by a constant."
        )


def choose_scale(data: Data, method: FitMethod) -> str | None:
    """Return the scale to use, chosen by the data if it is "auto"."""
    given = method.given
    if method.scale != "auto":
        if given is not None and given.unit_rows != (method.scale == "cosine"):
            kind = "unit rows" if given.unit_rows else "rows as they are"
            raise ValueError(
                f"The given metric is for {kind}; use scale='auto', not {method.scale!r}."
            )
        return method.scale
    if given is not None and given.unit_rows:
        return "cosine"
    among = method.scales if given is None else ("unit", "standard")
    chosen_by = method.scale_data(data)
    return scales.choose_scale(chosen_by.X, chosen_by.supervision, among)


def in_span(
    data: Data, scale: str | None, method: FitMethod, warm: WarmStart | None = None
) -> tuple[Data, str | None, FitMethod, WarmStart | None]:
    """Return the fit of fewer rows than features as one of coordinates in their span (`RowSpan`).

    All else stays as it is. So does what a warm start continues from, unless the last fit ran in
    another space: then only its metric remains.
    """
    span, last = None, None if warm is None else warm.span
    if method.rotates and isinstance(data.X, np.ndarray) and 1 < len(data.X) < data.X.shape[1]:
        given = (method.given, method.prior, None if warm is None else warm.metric)
        span = RowSpan.of(data.X, scale, [metric for metric in given if metric is not None], last)
    if span is not None and (method.n_components or 1) > span.rank:
        span = None
    if warm is not None and last is not span:
        warm = WarmStart(warm.metric, span=span)
    if span is None:
        return data, scale, method, warm
    inside = Data(span.coordinates(data.X), data.supervision)
    # Coordinates have the units of scaled rows.
    return inside, None, replace(method, span=span), warm


def prepare(
    data: Data,
    scale: str | None,
    random_state: np.random.RandomState,
    warm: WarmStart | None = None,
    span: RowSpan | None = None,
) -> FitInput:
    """Scale the rows; with a `span`, they are coordinates in it."""
    scaler = replace(Scaler.fit(data.X, scale), span=span)
    return FitInput(
        scaler.scaled(data.X), scaler, data.supervision.consecutive(), random_state, warm
    )


def warm_start(fitted: Any, data: Data) -> WarmStart | None:
    """Return where to continue: the metric of the last fit, or one that was set since."""
    metric, n_features = getattr(fitted, "metric_", None), data.X.shape[1]
    if metric is None:
        return None
    if not hasattr(metric, "transform"):
        raise ValueError("warm_start cannot continue from a SignedForm, which is not a metric.")
    if metric.n_features != n_features:
        raise ValueError(
            f"warm_start: the fitted metric is for {metric.n_features} features; "
            f"X has {n_features}."
        )
    last: WarmStart | None = getattr(fitted, "_last_fit", None)
    return last if last is not None and last.metric is metric else WarmStart(metric)


def select(data: Data, scale: str | None, method: FitMethod) -> Selection:
    """Choose iterations and shrinkage on held-out data, unless that is turned off."""
    fraction = method.fraction
    if fraction == "auto":
        labelled = method.validates_labels and data.supervision.kind == "labels"
        fraction = _AUTO_FRACTION if labelled else None
    selection = Selection()
    if fraction is not None and data.supervision.kind != "nothing":
        if isinstance(data.X, Rows) and data.supervision.kind != "labels":
            raise ValueError(
                "Constraints over rows that are not in memory are not validated; use "
                "validation_fraction=None."
            )
        selection = choose_selection(
            follow(method, scale, method.seed),
            data.X,
            data.supervision,
            fraction=fraction,
            validation=method.validation,
            seed=method.seed,
            required=method.must_validate and method.fraction != "auto",
        )
    kept = method.n_before / max(1, method.n_before + len(data.supervision))
    return replace(selection, shrinkage=max(selection.shrinkage, kept))


@dataclass(frozen=True, eq=False)
class Observer:
    """Passes iterations on to callbacks, watchers and a progress line; each may end them.

    Attributes
    ----------
    estimator : MetricLearner
        Its callbacks are called.
    problem : Problem
    builder : MetricBuilder
    X, y : object
        What the user passed.
    verbose : bool
        Whether there is a progress line.
    """

    estimator: Any
    problem: Problem
    builder: MetricBuilder
    X: Any
    y: Any
    verbose: bool

    def __call__(self, iterations: Iterator[Iteration], history: History) -> Iterator[Iteration]:
        """Observe a fit."""

        def metric() -> Any:
            return self.builder.lift(self.problem.metric(history, self.builder))

        fit = FitInProgress(type(self.estimator).__name__, self.problem.max_iter, metric)
        return observed(
            iterations,
            fit,
            self.estimator,
            self.X,
            self.y,
            attributes=lambda: basic_attributes(metric(), history, self.builder),
            notes=history.notes if self.verbose else None,
        )


def basic_attributes(metric: Any, history: History, builder: MetricBuilder) -> dict[str, Any]:
    """Return the fitted attributes that every learner has."""
    return {
        "metric_": metric,
        "history_": history,
        "n_iter_": len(history),
        "_builder": builder,
    }


def run(
    problem: Problem,
    selection: Selection,
    *,
    notes: tuple[str, ...] = (),
    observer: Observer | None = None,
) -> History:
    """Run the solver as far as was selected."""
    history = History(notes=notes, keeps_payloads=problem.keeps_payloads)
    solver = selection.limit(history, problem.solve())
    iterations = history.record(solver)
    # Close an abandoned solver at once; it may hold a thread.
    with closing(solver):
        for _ in _until_stopped(iterations) if observer is None else observer(iterations, history):
            pass
    history.stopped = history.stopped or "callback"
    return history


def _until_stopped(iterations: Iterable[Iteration]) -> Iterator[Iteration]:
    for iteration in iterations:
        yield iteration
        if should_stop():
            return


@dataclass(frozen=True, eq=False)
class Fitted:
    """What a fit results in.

    Attributes
    ----------
    metric : Metric
    attributes : dict of str to object
        All fitted attributes.
    """

    metric: Any
    attributes: dict[str, Any]


def finish(
    problem: Problem,
    history: History,
    builder: MetricBuilder,
    prepared: FitInput,
    data: Data,
    selection: Selection,
    method: FitMethod,
) -> Fitted:
    """Build the metric in the units of X, and shrink it to the prior as far as was selected."""
    learned = problem.metric(history, builder)
    metric = builder.lift(learned)
    attributes = problem.attributes(history, builder)
    shrinkage: Shrinkage | None = None
    if selection.shrinkage:
        prior = prior_metric(problem, prepared.scaler, method)
        shrinkage = selection.shrinkage_to(prior, data.X, method.n_components)
        metric = builder.lift(shrinkage.apply(learned))
        attributes |= problem.shrunk_attributes(metric, prepared)
    attributes |= basic_attributes(metric, history, builder)
    attributes |= {
        "prior_share_": selection.shrinkage,
        "_learned_metric": builder.lift(learned) if selection.shrinkage else metric,
        "_shrinkage": shrinkage,
        "_n_known": method.n_before + len(data.supervision),
    }
    return Fitted(metric, attributes)


def builder_of(problem: Problem, data: FitInput, method: FitMethod) -> MetricBuilder:
    """Return what turns the solver's result into a metric."""
    features = data.Z if problem.features is None else problem.features
    scale = data.scaler.scale if problem.features is None else np.ones(features.shape[1])
    covariance = None
    if method.n_components is not None and not problem.exact_rows:
        covariance = covariance_matrix(features) / problem.unit
    return MetricBuilder(
        scale=scale * np.sqrt(problem.unit),
        center=data.scaler.center,
        base=problem.base,
        covariance=covariance,
        n_components=method.n_components,
        feature_names=method.feature_names,
        kernel_map=problem.kernel_map,
        unit_rows=data.scaler.unit_rows,
        exact_rows=problem.exact_rows,
        span=method.span,
    )


def prior_metric(problem: Problem, scaler: Scaler, method: FitMethod) -> Metric:
    """Return what a metric is shrunk to: the prior, or Euclidean distance of scaled points."""
    given = method.prior or problem.shrinks_to
    if given is not None:
        return given if scaler.span is None else Metric(scaler.span.inside(given))
    if problem.kernel_map is None or problem.features is None:
        return scaler.euclidean
    return Metric(np.eye(problem.features.shape[1]), kernel_map=problem.kernel_map)


def learn(data: Data, scale: str | None, method: FitMethod, selection: Selection, seed: int) -> Any:
    """Return the metric of a fit without callbacks and without shrinkage."""
    prepared = prepare(data, scale, np.random.RandomState(seed), span=method.span)
    problem = method.build(prepared)
    builder = builder_of(problem, prepared, method)
    return builder.lift(problem.metric(run(problem, selection), builder))


def follow(method: FitMethod, scale: str | None, seed: int) -> Follow:
    """Return what follows trial fits: rows and supervision -> prior, and metrics along the fit."""

    def path(X: Floats, supervision: Supervision) -> Path:
        random_state = np.random.RandomState(seed)
        data = prepare(Data(X, supervision), scale, random_state, span=method.span)
        problem = method.build(data)
        builder = replace(builder_of(problem, data, method), shortest=False)
        return prior_metric(problem, data.scaler, method), _metrics(problem, builder)

    return path


def _metrics(problem: Problem, builder: MetricBuilder) -> Iterator[tuple[int, Any]]:
    """Yield metrics along a fit, each with the number of iterations that it took."""
    history, shown, number = History(keeps_payloads=problem.keeps_payloads), 0, problem.first_stage
    solver = problem.solve()
    with closing(solver):
        for _ in history.record(solver):
            if problem.stops_early and len(history) >= number:
                yield len(history), problem.metric(history, builder)
                shown, number = len(history), 2 * len(history)
            if should_stop():
                break
    if len(history) > shown:
        yield len(history), problem.metric(history, builder)
