"""A fit in five functions. Trial fits, `partial_fit` and AutoMetric call the same ones.

    data      = check(learner, X, y, groups)       arrays or rows on disk; Supervision
    scale     = choose_scale(data, method)         the units in which Euclidean distance does best
    selection = select(data, scale, method)        iterations and shrinkage, by trial fits
    history   = run(problem, selection)            the solver's generator, with observers
    fitted    = finish(problem, history, ...)      the metric in the units of X, and all attributes

with  problem = method.build(prepare(data, scale, ...)).  A learner contributes its parameters and
`FitMethod.build`, from FitInput to Problem. Fewer rows than features are first replaced by
coordinates in the space that they span (`in_span`).

What a learner says when a fit fails.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import validate_data

from nearfar.learners.problem import FitInput, MetricBuilder, Problem, covariance_matrix
from nearfar.learners.scaling import RowSpan, Scaler
from nearfar.learners.selection import scale as scales
from nearfar.learners.selection.choice import (
    EXACT_ROWS,
    MAX_TRIAL_ROWS,
    MOST_HELD_OUT,
    MOST_ROWS,
    NotLinearError,
    Path,
    Selection,
    Shrinkage,
    Trial,
    best_choice,
    select_rows,
)
from nearfar.learners.selection.held_out import held_out_parts, sample
from nearfar.metrics.metric import Metric
from nearfar.numerics.missing import (
    LARGEST_VALUE,
    labelled_rows,
    naming_remedies,
    refuse_masked,
    refuse_missing,
)
from nearfar.rows import Moments, Points, Rows, as_rows
from nearfar.runtime.history import History, Iteration
from nearfar.runtime.progress import should_stop, stage
from nearfar.runtime.threads import chosen_executor
from nearfar.supervision import (
    Copies,
    Kind,
    Supervision,
    check_rows_given,
    keep_copies_together,
    kind_of,
)
from nearfar.supervision.supervision import warn_of_integers
from nearfar.typing import Ints

if TYPE_CHECKING:
    from nearfar.learners.base import MetricLearner

# How scikit-learn's attributes of callbacks begin, which it tears down itself after an error.
_OF_CALLBACKS = ("_callback", "_skl_callbacks")

# Share of labelled rows that are held out by default: five trial fits would use every row once.
_AUTO_FRACTION = 0.2


@dataclass(frozen=True, eq=False)
class Data:
    """Checked rows, an array or `Rows`, what is known of them, and which of them are copies."""

    X: Any
    supervision: Supervision
    copies: Copies | None = None

    def restrict(self, rows: Any) -> Data:
        """Keep some rows."""
        return Data(self.X[rows], self.supervision.restrict(rows))


@dataclass(frozen=True, eq=False)
class FitMethod:
    """How a learner is fitted.

    Attributes
    ----------
    learner: Its parameters, with the paper's values if it follows a paper, and its
        declarations.
    build: FitInput -> Problem.
    start: The metric that the fit starts from or adds to, if the user gave one.
    rotates: Whether a fit to rotated rows gives the rotated metric.
    samples: Whether the time of a fit grows so fast that it may learn from a sample of many rows.
    n_before: Number of rows or constraints that the prior was learned from, in parts of the data;
        None for a fit to all.
    scale_data: Data -> the part of them that "auto" may look at; None for all.
    span: Where rows are coordinates already, instead of features.
    """

    learner: MetricLearner
    build: Callable[[FitInput], Problem]
    scale: str | None
    start: Metric | None = None
    rotates: bool = False
    samples: bool = True
    n_before: int | None = None
    scale_data: Callable[[Data], Data] | None = None
    span: RowSpan | None = None

    @property
    def seed(self) -> int:
        """What trial fits and samples are drawn with."""
        state = self.learner.random_state
        return state if isinstance(state, int) else 0


@stage("checking the rows")
def check(
    learner: MetricLearner,
    X: object,
    y: object = None,
    groups: ArrayLike | None = None,
    *,
    numbers: bool = False,
    reads: tuple[str, ...] = (),
    sample_weight: ArrayLike | None = None,
    reset: bool = True,
    min_samples: int = 2,
    splits: bool = False,
    ignores_y: bool = False,
) -> Data:
    """Check X and what is known of its rows.

    Parameters
    ----------
    numbers: Whether an array y has numbers to predict, not classes.
    reads: Kinds of supervision with which rows may be read in blocks.
    sample_weight: shape (n_samples,). Rows of weight 0 are left out.
    reset: Whether the learner remembers the features.
    min_samples: The fewest rows that labels, or a learner without y, may come with.
    splits: Whether data are held out of the fit, so that copies of rows must stay together.
    ignores_y: Whether y does not matter.
    """
    check_rows_given(X, y)
    kind = "nothing" if ignores_y else kind_of(y, numbers=numbers)
    y = None if ignores_y else y
    refuse_masked(X, "X")
    if y is not None and kind in ("labels", "numbers"):
        refuse_missing(y, "y")
    points: Any = None
    if type(X) is not np.ndarray or chosen_executor() is not None:
        points = _rows(X, kind, learner, reads)
    floats = {"dtype": [np.float64, np.float32], "reset": reset}
    if points is not None:
        if y is None and not ignores_y:
            raise ValueError("The learner needs labels or constraints; y is None.")
        if reset:
            learner.n_features_in_ = points.shape[1]
            learner.__dict__.pop("feature_names_in_", None)
            if points.feature_names is not None:
                learner.feature_names_in_ = np.asarray(points.feature_names, dtype=object)
    else:
        with naming_remedies():
            if kind in ("labels", "numbers"):
                points, y = validate_data(learner, X, y, ensure_min_samples=min_samples, **floats)
            else:
                least = min_samples if ignores_y else 1
                points = validate_data(learner, X, ensure_min_samples=least, **floats)
    supervision = Supervision.of(
        y, len(points), groups=groups, sample_weight=sample_weight, numbers=numbers
    )
    labelled = labelled_rows(y) if kind == "labels" else None
    if labelled is not None:
        if isinstance(points, Rows):
            raise ValueError("Rows that are not in memory need a label each, and -1 is none.")
        points, supervision = points[labelled], supervision.restrict(labelled).consecutive()
    if kind == "labels":
        warn_of_integers(y)
    weight = supervision.row_weight
    if weight is not None:
        if isinstance(points, Rows):
            raise ValueError("sample_weight is for rows in memory.")
        counted = np.flatnonzero(weight)
        if len(counted) == 0:
            raise ValueError("All weights are zero; at least one row must count.")
        if len(counted) < len(weight):
            points, supervision = points[counted], supervision.restrict(counted).consecutive()
    if splits and not isinstance(points, Rows):
        return Data(points, *keep_copies_together(points, supervision))
    return Data(points, supervision)


def _rows(X: object, kind: Kind, learner: MetricLearner, reads: tuple[str, ...]) -> Rows | None:
    """Return X as rows that are read in blocks; None if it is an array in memory."""
    rows = None if type(X) is np.ndarray else as_rows(X)
    known = "labels" if kind == "nothing" else kind
    accepted = rows is not None and (known in reads or samples_blocks(learner, kind, reads))
    if rows is None or (isinstance(X, np.memmap) and not accepted):
        if chosen_executor() is not None:
            raise ValueError(
                "An executor needs rows that its workers can read; save X with np.save and pass "
                "the path, or pass a Dask array."
            )
        return None
    if not accepted:
        raise ValueError(
            f"{type(learner).__name__} does not learn from {kind} over rows that are not in "
            f"memory; load them, or use one that does, such as RCA or BoostMetric. With labels and "
            'max_rows="auto", many others learn from a sample.'
        )
    if min(rows.shape) == 0:
        raise ValueError(f"X needs at least one row and one column; its shape is {rows.shape}.")
    first_bad = Moments.of(rows).first_bad
    if first_bad is not None:
        raise ValueError(
            f"X contains NaN or infinite values, first in row {first_bad} (counting from 0)."
        )
    return rows


def samples_blocks(learner: MetricLearner, kind: str, reads: tuple[str, ...]) -> bool:
    """Whether the learner reads a sample of labelled rows that are not in memory."""
    labelled = kind in ("labels", "numbers") and kind not in reads
    return labelled and learner.max_rows not in (None, "all")


def in_memory(data: Data, method: FitMethod) -> tuple[Data, tuple[str, ...]]:
    """Read a sample of labelled rows; the notes say how many, if not all."""
    learner, n_rows = method.learner, len(data.X)
    most = learner.max_rows if isinstance(learner.max_rows, int) else MOST_ROWS
    data = restrict(data, most, method.seed)
    if learner.tells_expected or learner.validation_fraction is not None:
        data = Data(data.X, *keep_copies_together(data.X, data.supervision))
    if len(data.X) == n_rows:
        return data, ()
    return data, (f"Read a sample of {len(data.X):,} of {n_rows:,} rows.",)


@contextmanager
def restore_on_error(learner: MetricLearner, X: object) -> Iterator[None]:
    """Restore the learner if a fit to X fails, and explain why it did."""
    before = learner.__dict__.copy()
    try:
        yield
    except BaseException as error:
        attributes = {k: v for k, v in learner.__dict__.items() if k.startswith(_OF_CALLBACKS)}
        learner.__dict__ = before | attributes
        explanation = explained(error, X)
        if explanation is None:
            raise
        raise explanation from error


def check_in_memory(X: Points) -> None:
    """Raise ValueError for rows that are not in memory."""
    if isinstance(X, Rows):
        raise ValueError(
            "score and partial_fit need rows in memory; pass a sample or a part of them."
        )


@stage("checking the rows")
def check_learnable(X: Points, n_components: int | None, most: int) -> None:
    """Refuse what cannot be learned from: values out of range, more components than `most`."""
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
    if n_components is not None and n_components > most:
        raise ValueError(f"n_components must be at most {most}; got {n_components}.")


@stage("choosing the scale")
def choose_scale(data: Data, method: FitMethod) -> str | None:
    """Return the scale to use, chosen by the data if it is "auto"."""
    start = method.start
    if method.scale != "auto":
        if start is not None and start.unit_rows != (method.scale == "cosine"):
            kind = "unit rows" if start.unit_rows else "rows as they are"
            raise ValueError(
                f"The given metric is for {kind}; use scale='auto', not {method.scale!r}."
            )
        return method.scale
    if start is not None and start.unit_rows:
        return "cosine"
    among = method.learner.auto_scales if start is None else ("unit", "standard")
    chosen_by = data if method.scale_data is None else method.scale_data(data)
    return scales.choose_scale(chosen_by.X, chosen_by.supervision, among)


def in_span(
    data: Data, scale: str | None, method: FitMethod, warm: Any = None
) -> tuple[Data, str | None, FitMethod]:
    """Return the fit of fewer rows than features as one of coordinates in their span (`RowSpan`).

    All else stays as it is.
    """
    X, learner = data.X, method.learner
    if not (isinstance(X, np.ndarray) and 1 < len(X) < X.shape[1] and method.rotates):
        return data, scale, method
    special = [m for m in (method.start, learner.prior, warm) if isinstance(m, Metric)]
    span = RowSpan.of(X, scale, special, data.supervision.row_weight)
    if span is None or (learner.n_components or 1) > span.rank:
        return data, scale, method
    # Coordinates have the units of scaled rows.
    inside = Data(span.coordinates(X), data.supervision)
    return inside, None, replace(method, span=span)


@stage("scaling the rows")
def prepare(
    data: Data,
    scale: str | None,
    random_state: np.random.RandomState,
    warm: Any = None,
    span: RowSpan | None = None,
) -> FitInput:
    """Scale the rows; with a `span`, they are coordinates in it."""
    scaler = replace(Scaler.fit(data.X, scale, data.supervision.row_weight), span=span)
    X: Points = data.X
    Z = X.mapped(scaler.transform_block) if isinstance(X, Rows) else scaler.transform(X)
    return FitInput(Z, scaler, data.supervision.consecutive(), random_state, warm)


@stage("trial fits on held-out data")
def select(data: Data, scale: str | None, method: FitMethod) -> Selection:
    """Choose iterations and shrinkage on held-out data, unless that is turned off."""
    learner, X, supervision = method.learner, data.X, data.supervision
    fraction = learner.validation_fraction
    required = fraction != "auto" and method.n_before is None
    if fraction == "auto" and method.n_before is not None:
        fraction = _AUTO_FRACTION
    elif fraction == "auto":
        untuned = learner.scale == "auto" and learner.variant != "paper" and not learner.warm_start
        shrinks = learner.prior is not None or learner.shrinks_without_prior
        labelled = supervision.kind == "labels"
        fraction = _AUTO_FRACTION if untuned and shrinks and labelled else None
    selection, seed = Selection(), method.seed
    if isinstance(learner.max_rows, int) and not supervision.listed:
        selection = Selection(n_rows=learner.max_rows if learner.max_rows < len(X) else None)
    elif samples_rows(data, method):
        given = Selection() if fraction is None else None
        return try_rows(data, scale, method, seed, fraction or _AUTO_FRACTION, given)
    if fraction is not None and supervision.kind != "nothing":
        if isinstance(X, Rows) and supervision.kind != "labels":
            raise ValueError(
                "Constraints over rows that are not in memory are not validated; use "
                "validation_fraction=None."
            )
        trials: list[Trial] = []
        reason = "there is too little to hold out"
        with ExitStack() as stack:
            for part in held_out_parts(
                X,
                supervision,
                fraction=fraction,
                validation=learner.validation,
                random_state=np.random.RandomState(seed),
                max_rows=MAX_TRIAL_ROWS,
            ):
                try:
                    rows = X[part.rows]
                    prior, path = follow(method, Data(rows, part.supervision), scale, seed)
                    stack.enter_context(closing(path))
                    trials.append(Trial(rows, part.held_out, prior, path))
                except NotLinearError:
                    raise
                except ValueError as error:
                    # A part of few rows or constraints may have nothing to learn from.
                    reason = str(error).rstrip(".")
            if trials:
                chosen = best_choice(trials, learner.patience).without_stages
                selection = replace(chosen, n_rows=selection.n_rows)
        if required and not trials:
            warnings.warn(
                f"validation_fraction={fraction} has no effect: no trial fit succeeded ({reason}).",
                ConvergenceWarning,
                stacklevel=5,
            )
    before = method.n_before or 0
    least = before / max(1, before + len(supervision))
    return replace(selection, shrinkage=max(selection.shrinkage, least))


def samples_rows(data: Data, method: FitMethod) -> bool:
    """Whether held-out rows decide how many rows to learn from."""
    learner = method.learner
    return (
        learner.max_rows == "auto"
        and method.samples
        and learner.variant != "paper"
        and not learner.warm_start
        and not data.supervision.listed
        and len(data.X) > EXACT_ROWS
    )


def try_rows(
    data: Data,
    scale: str | None,
    method: FitMethod,
    seed: int,
    fraction: float = _AUTO_FRACTION,
    given: Selection | None = None,
) -> Selection:
    """Choose the number of rows; iterations and shrinkage, too, unless they are given."""
    learner, X, supervision = method.learner, data.X, data.supervision
    parts = held_out_parts(
        X,
        supervision,
        fraction=fraction,
        validation=learner.validation,
        random_state=np.random.RandomState(seed),
        enough=1,
        most=MOST_HELD_OUT,
    )
    part = next(parts, None)
    if part is None:
        return given or Selection()
    warm: Any = None

    def choose(size: int) -> Selection:
        nonlocal warm
        # The same seed gives samples that contain the smaller ones.
        known = restrict(Data(X, supervision), size, seed, part.rows)
        prior, path = follow(method, known, scale, seed, warm)
        with closing(path):
            if given is None:
                return best_choice([Trial(known.X, part.held_out, prior, path)], learner.patience)
            last = None
            for last in path:
                if last[0] >= (given.n_iterations or math.inf):
                    break
        if last is None:
            raise ValueError("Nothing was learned.")
        to_the_end = given.n_iterations is None and not given.shrinkage
        if to_the_end and learner.init is not None and last[1].is_linear:
            # The fit to more rows begins at the map to which this one converged.
            warm = last[1]
        trial = Trial(known.X, part.held_out, prior, iter([last]), any_form=True)
        found = best_choice([trial], patience=1)
        chosen = given.n_iterations, given.shrinkage
        return replace(found, n_iterations=chosen[0], shrinkage=chosen[1], start=warm)

    try:
        return select_rows(len(X), choose)
    except NotLinearError:
        raise
    except ValueError:
        # A sample may have nothing to learn from; the fit to all rows says whether they have.
        return given or Selection()


def restrict(data: Data, n_rows: int | None, seed: int, among: Ints | None = None) -> Data:
    """Return a sample of some rows, by default of all; None for all rows."""
    if n_rows is None:
        return data
    supervision = data.supervision
    rows = np.arange(len(data.X)) if among is None else among
    classes = None if supervision.kind == "numbers" else supervision.codes[rows]
    return data.restrict(sample(rows, n_rows, np.random.RandomState(seed), classes))


def run(
    problem: Problem,
    selection: Selection,
    *,
    notes: tuple[str, ...] = (),
    observe: Callable[[Iterator[Iteration], History], Iterator[Iteration]] | None = None,
) -> History:
    """Run the solver as far as was selected; `observe` passes iterations on, or ends them."""
    history = History(notes=notes, keeps_payloads=problem.keeps_payloads)
    solver = problem.solve()
    iterations = history.record(solver, selection.n_iterations)
    # Close an abandoned solver at once; it may hold a thread.
    with closing(solver):
        for _ in iterations if observe is None else observe(iterations, history):
            if observe is None and should_stop():
                break
    history.stopped = history.stopped or "callback"
    return history


@stage("building the metric")
def finish(
    problem: Problem,
    history: History,
    builder: MetricBuilder,
    prepared: FitInput,
    data: Data,
    selection: Selection,
    method: FitMethod,
) -> dict[str, Any]:
    """Return the fitted attributes.

    The metric is built in the units of X, and shrunk to the prior as far as was selected.
    """
    learner = method.learner
    learned = problem.metric(history, builder)
    metric = builder.lift(learned)
    attributes = problem.attributes(history, builder)
    shrinkage: Shrinkage | None = None
    if selection.shrinkage:
        prior = prior_metric(problem, prepared.scaler, method)
        shrinkage = selection.shrinkage_to(prior, data.X, learner.n_components, builder.scale)
        metric = builder.lift(shrinkage.apply(learned))
        attributes |= problem.shrunk_attributes(metric, prepared)
    return attributes | {
        "metric_": metric,
        "history_": history,
        "n_iter_": len(history),
        "_builder": builder,
        "prior_share_": selection.shrinkage,
        "_learned_metric": builder.lift(learned) if selection.shrinkage else metric,
        "_shrinkage": shrinkage,
        "_n_known": (method.n_before or 0) + len(data.supervision),
    }


def builder_of(problem: Problem, data: FitInput, method: FitMethod) -> MetricBuilder:
    """Return what turns the solver's result into a metric."""
    if not hasattr(problem, "unit"):
        raise TypeError(
            f"{type(problem).__name__} has no unit: set it to the squared distance between scaled "
            "points that its solver calls one, for instance 1.0."
        )
    features = data.Z if problem.features is None else problem.features
    scale = data.scaler.scale if problem.features is None else np.ones(features.shape[1])
    n_components = method.learner.n_components
    covariance = None
    if n_components is not None and not problem.exact_rows:
        covariance = covariance_matrix(features) / problem.unit
    return MetricBuilder(
        scale=scale * np.sqrt(problem.unit),
        center=data.scaler.center,
        base=problem.base,
        covariance=covariance,
        n_components=n_components,
        feature_names=method.learner.__dict__.get("feature_names_in_"),
        feature_map=problem.feature_map,
        unit_rows=data.scaler.unit_rows,
        exact_rows=problem.exact_rows,
        span=method.span,
    )


def prior_metric(problem: Problem, scaler: Scaler, method: FitMethod) -> Metric:
    """Return what a metric is shrunk to: the prior, or Euclidean distance of scaled points."""
    prior = method.learner.prior
    prior = prior if isinstance(prior, Metric) else problem.shrinks_to
    if prior is not None:
        return prior if scaler.span is None else Metric(scaler.span.inside(prior))
    if problem.feature_map is None or problem.features is None:
        return scaler.euclidean
    return Metric(np.eye(problem.features.shape[1]), feature_map=problem.feature_map)


def learn(data: Data, scale: str | None, method: FitMethod, selection: Selection, seed: int) -> Any:
    """Return the metric of a fit without callbacks and without shrinkage."""
    prepared = prepare(data, scale, np.random.RandomState(seed), span=method.span)
    problem = method.build(prepared)
    builder = builder_of(problem, prepared, method)
    return builder.lift(problem.metric(run(problem, selection), builder))


def follow(method: FitMethod, data: Data, scale: str | None, seed: int, warm: Any = None) -> Path:
    """Begin a trial fit: return the prior, and the metrics along the fit."""
    prepared = prepare(data, scale, np.random.RandomState(seed), warm, method.span)
    problem = method.build(prepared)
    builder = replace(builder_of(problem, prepared, method), shortest=False)
    return prior_metric(problem, prepared.scaler, method), _metrics(problem, builder)


def _metrics(problem: Problem, builder: MetricBuilder) -> Generator[tuple[int, Any], None, None]:
    """Yield metrics along a fit, each with the number of iterations that it took."""
    history, last, number = History(keeps_payloads=problem.keeps_payloads), 0, problem.first_stage
    solver = problem.solve()
    with closing(solver):
        for _ in history.record(solver):
            if problem.stops_early and len(history) >= number:
                yield len(history), problem.metric(history, builder)
                last, number = len(history), 2 * len(history)
            if should_stop():
                break
    if len(history) > last:
        yield len(history), problem.metric(history, builder)


# What makes rows and constraints of tuples of points, by their size.
_OF_POINTS = {
    2: "Pairs.from_points(X, similar)",
    3: "Triplets.from_points(X)",
    4: "Triplets.from_quadruplets(np.vstack(X), np.arange(4 * len(X)).reshape(-1, 4))",
}

# Ratio of sizes whose squares differ by about as much as double precision can hold.
_LARGE_SPREAD = 1e7


def explained(error: BaseException, X: Any) -> ValueError | None:
    """Return an error that says more, or None."""
    if isinstance(error, np.linalg.LinAlgError | FloatingPointError):
        return failed_computation(error, X)
    message = str(error) if isinstance(error, ValueError) else ""
    needs_rows = "Found array with dim 3" in message
    needs_y = "requires y to be passed" in message
    if (needs_rows or needs_y) and np.ndim(X) == 3 and np.shape(X)[1] in _OF_POINTS:
        return ValueError(
            f"{message} Constraints are row numbers of X. {_OF_POINTS[np.shape(X)[1]]} makes rows "
            "and constraints of tuples of points."
        )
    return None


def failed_computation(error: Exception, X: ArrayLike) -> ValueError:
    """Return an error that says what failed, and what to do if the sizes in X can be the reason.

    Parameters
    ----------
    X: What the learner was given.
    """
    message = f"The fit failed: {str(error).rstrip('.') or type(error).__name__}."
    ratio = spread_of_sizes(X)
    if ratio > _LARGE_SPREAD:
        message += (
            f" Values of X differ too much in size, by a factor of {ratio:.0e}; look for outliers, "
            "or try scale='standard'."
        )
    return ValueError(message)


def spread_of_sizes(X: ArrayLike) -> float:
    """Return the largest deviation from a column's median over the smallest typical one.

    It is large if columns differ in size, or if a column has outliers; 1 if X is no table of
    numbers in memory, or has no column that varies.
    """
    if isinstance(X, Rows) or hasattr(X, "dask"):
        return 1.0
    try:
        table = np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError):
        return 1.0
    if table.ndim != 2 or not table.size:
        return 1.0
    deviations = np.abs(table - np.median(table, axis=0))
    columns = [column[column > 0] for column in deviations.T]
    typical = [np.median(column) for column in columns if len(column)]
    return float(deviations.max() / min(typical)) if typical else 1.0
