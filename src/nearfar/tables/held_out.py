"""What a metric is worth: predictions of held-out rows, beside those of what needs no metric.

Rows are put aside by groups and copies. The metric is learned from the others, and so are Euclidean
distance on the best scale, a random forest and gradient boosting; each chooses its number of
neighbours on training rows. All of them predict the same held-out rows. Of small tables every row
is held out once, of others a third, at most 5,000 rows.

Triplets and pairs are held out instead of rows; then only metrics are compared.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, ClassVar, Literal, Self

import numpy as np
from scipy.stats import rankdata
from sklearn.base import BaseEstimator, clone
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

from nearfar.comparison.goals import GoalComparison, MethodResult
from nearfar.comparison.methods import Method, SampledClassifier, reference_classifiers
from nearfar.comparison.tasks import JudgedRows, score_distance
from nearfar.evidence.intervals import known_mean
from nearfar.evidence.verdict import UNSCALED, Verdict
from nearfar.frames.table import Table
from nearfar.learners.base import MetricLearner
from nearfar.learners.declaration import learner as declared
from nearfar.learners.problem import FitInput, Problem
from nearfar.learners.selection.auto import AutoMetric
from nearfar.learners.selection.held_out import sample
from nearfar.measures.registry import ERROR, MAE, MAP_AT_R, R2, Measure, measures_for
from nearfar.metrics.metric import Metric
from nearfar.neighbors import MetricNeighborsClassifier, MetricNeighborsRegressor
from nearfar.runtime.messages import counted
from nearfar.runtime.progress import early_stop
from nearfar.runtime.threads import single_threaded_libraries
from nearfar.supervision import Supervision
from nearfar.tables.compare import features_of
from nearfar.tables.fitting import Progress, supervision_of
from nearfar.tables.methods import SCALES
from nearfar.typing import Array, Floats, Ints, Vector

# Of fewer rows every one is held out, in four splits; one split into thirds is enough for others.
_FEW_ROWS, _FEW_FOLDS, _FOLDS = 600, 4, 3
_MOST_TESTED = 5_000
# Rows that are learned from in any case, and numbers in rows for each second of the time limit.
_FEWEST_ROWS, _VALUES_PER_SECOND = 20_000, 1e5
# Part of the time limit for one fit; there are two of a large table.
_SHARE = 0.4
# A fit that plans its time needs some.
_SHORTEST = 0.1
# With the smallest class this far below an equal share, errors tell little about it.
_IMBALANCE = 0.4
_TREES = 100
LEARNED, GUESS, MEAN, FOREST = "learned", "largest class", "mean", "random forest"
PLAIN = "Euclidean distance"


def most_rows(table: Table, learner: MetricLearner, seconds: float | None) -> int:
    """Return how many rows are learned from within a time limit."""
    if seconds is None:
        return len(table)
    values = _SHARE * seconds * _VALUES_PER_SECOND
    # Others than a blend, which samples rows itself, take longer than in proportion to the rows.
    by_time = int(values / table.X.shape[1]) if hasattr(learner, "budget") else 0
    return min(len(table), max(_FEWEST_ROWS, by_time))


def fit_within(
    seconds: float | None,
    learner: MetricLearner,
    X: Floats,
    y: Any,
    groups: Ints | None,
    predictor: Callable[[MetricLearner], Any] = lambda learner: learner,
) -> Any:
    """Fit a copy of a learner, or what predicts with it; the clock stops what runs away."""
    learner = clone(learner)
    plans = hasattr(learner, "budget")
    if seconds is not None and plans:
        learner.set_params(budget=min(learner.budget, max(_SHARE * seconds, _SHORTEST)))
    with nullcontext() if seconds is None or plans else early_stop(_SHARE * seconds):
        return predictor(learner).fit(X, y, groups=groups)


@declared
class _GivenMetric(MetricLearner):
    """A metric that was learned before."""

    metric: Metric | None = None

    supervision: ClassVar[tuple[str, ...]] = ("labels", "numbers", "pairs", "triplets")

    def fit(self, X: Any, y: object = None, **_: Any) -> Self:
        """Take the metric."""
        self.metric_, self.scale_ = self.metric, None
        return self

    def _build_problem(self, data: FitInput) -> Problem:
        raise NotImplementedError


@dataclass(eq=False)
class FirstSplit:
    """What was learned and predicted in the first split, for figures: the metric, then Euclidean.

    Attributes
    ----------
    X: All rows, with the features that were learned from.
    train, test: Numbers of rows to learn from and of held-out ones; all for judgements.
    """

    X: Floats
    train: Ints
    test: Ints
    metrics: list[Metric] = field(default_factory=list)
    predicted: list[Array] = field(default_factory=list)
    judgements: tuple[Any, Any] | None = None


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Losses on the same held-out rows or judgements.

    Attributes
    ----------
    measure: What decides.
    results: The metric, Euclidean distance, and what predicts without a metric.
    goals: The metric compared with Euclidean distance, for each goal; the first decides.
    n, n_splits: Rows or judgements that were held out, and how often some were put aside.
    auc: Of results with probabilities, if classes are imbalanced: area under the ROC curve.
    guess: What a metric must be better than.
    """

    measure: Measure
    results: list[MethodResult]
    goals: list[GoalComparison]
    first: FirstSplit
    n: int
    n_splits: int
    auc: dict[str, float]
    guess: str = ""

    @property
    def goal(self) -> GoalComparison:
        """The metric compared with Euclidean distance by the measure that decides."""
        return self.goals[0]

    @property
    def verdict(self) -> Verdict:
        """What the difference between the metric and Euclidean distance means."""
        return self.goal.verdict

    def figure(self, result: MethodResult) -> tuple[float, float, float] | None:
        """Return the value of a result with its 90 % interval; None if it cannot be ranked."""
        if self.measure.name not in result.losses:
            return None
        low, high = sorted(self.measure.value(end) for end in self.goal.interval(result))
        return self.measure.value(self.goal.loss(result)), low, high

    @cached_property
    def lines(self) -> tuple[list[str], list[list[str]]]:
        """The headings and the lines of a table."""
        others = [each for each in _columns(self.measure) if each is not self.measure]
        header = ["", f"{self.measure.label} (90 % interval)", *(each.label for each in others)]
        if self.auc:
            header.insert(2, "AUC")
        lines = []
        for result in self.results:
            is_metric = result.method.kind == "learned"
            line = [f"{LEARNED} ({result.name})" if is_metric else result.name, ""]
            if (found := self.figure(result)) is not None:
                low, high = map(self.measure.number, found[1:])
                line[1] = f"{self.measure.write(found[0])} ({low} to {high})"
            if self.auc:
                line.append(f"{self.auc[result.name]:.3f}" if result.name in self.auc else "")
            for each in others:
                known = each.name in result.losses
                line.append(each.write(each.value(result.loss(each.name))) if known else "")
            lines.append(line)
        return header, lines

    def __str__(self) -> str:
        header, lines = self.lines
        widths = [max(map(len, cells)) for cells in zip(header, *lines, strict=True)]
        return "\n".join(
            "  ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])]).rstrip()
            for line in (header, *lines)
        )

    def to_dict(self) -> dict[str, Any]:
        """Return values by name, for JSON."""
        methods: list[dict[str, Any]] = []
        for result in self.results:
            known = [each for each in _columns(self.measure) if each.name in result.losses]
            row = {each.name: each.value(result.loss(each.name)) for each in known}
            if (found := self.figure(result)) is not None:
                row |= {"low": found[1], "high": found[2]}
            if result.name in self.auc:
                row["auc"] = self.auc[result.name]
            methods.append({"name": result.name, **row})
        return {
            "n_held_out": self.n,
            "n_splits": self.n_splits,
            "methods": methods,
            "verdict": self.verdict.to_dict(),
        }


def _columns(measure: Measure) -> list[Measure]:
    """Return the measures of a table."""
    columns = {"labels": [ERROR, MAP_AT_R], "numbers": [R2, MAE]}
    return columns.get(measure.supervision[0], [measure])


class _Losses(dict[str, dict[str, Vector]]):
    """Losses of each row or judgement, by the name of what predicts and of the measure."""

    def __init__(self, n: int) -> None:
        super().__init__()
        self.n, self.tested, self.n_splits = n, np.zeros(n, dtype=bool), 0
        self.began = time.perf_counter()

    def has_time(self, seconds: float | None) -> bool:
        """Tell whether there is time for a further split."""
        return seconds is None or time.perf_counter() - self.began < _SHARE * seconds

    def split(self, tested: Ints) -> None:
        """Count one more split, and what it tests."""
        self.tested[tested] = True
        self.n_splits += 1

    def add(self, name: str, tested: Ints, found: dict[str, Vector]) -> None:
        """Note losses."""
        of = self.setdefault(name, {})
        for measure, values in found.items():
            of.setdefault(measure, np.full(self.n, np.nan))[tested] = values

    def name_of(self, fitted: MetricLearner) -> str:
        """Return the name of Euclidean distance: its scale in the first split."""
        known = (name for name in self if name in SCALES)
        scale = next((name for name, each in SCALES.items() if each == fitted.scale_), UNSCALED)
        return next(known, scale)

    def compared(
        self, name: str, measures: Sequence[Measure], **known: Any
    ) -> tuple[list[MethodResult], list[GoalComparison]]:
        """Return the results, the metric first, and the metric compared with Euclidean distance."""

        def unused(X: Floats, y: object) -> Any:
            raise NotImplementedError("The losses are known; nothing is fitted.")

        results = []
        for each, of in self.items():
            kind: Any = "baseline" if each in SCALES else "classifier"
            method = Method(each, kind, unused)
            if each == LEARNED:
                method = Method(name, "learned", unused)
            means = {key: np.array([known_mean(values)]) for key, values in of.items()}
            results.append(MethodResult(method, of, means))
        labels, pair = known.pop("labels", None), [results[1], results[0]]
        decides, *rest = measures
        goals = [GoalComparison(pair, decides, labels=labels, **known)]
        return results, goals + [GoalComparison(pair, each, **known) for each in rest]


class _Predictions(_Losses):
    """Losses of predictions, and of imbalanced classes the probabilities that they come from."""

    def __init__(self, actual: Array, n_classes: int) -> None:
        super().__init__(len(actual))
        self.actual, self.n_classes = actual, n_classes
        self.numbers = n_classes == 0
        smallest = 0 if self.numbers else np.bincount(actual).min() * n_classes
        self.imbalanced = not self.numbers and smallest < _IMBALANCE * self.n
        self.votes: dict[str, Floats] = {}

    def score(self, name: str, tested: Ints, predicted: Array) -> None:
        """Note the losses of predictions."""
        if not self.numbers:
            self.add(name, tested, {ERROR.name: predicted != self.actual[tested]})
            return
        off = np.abs(predicted - self.actual[tested])
        unit = float(self.actual.std()) or 1.0
        self.add(name, tested, {R2.name: (off / unit) ** 2, MAE.name: off})

    def predict(self, name: str, tested: Ints, model: Any, X: Floats) -> Array:
        """Note the losses of a model, and its probabilities; return its predictions."""
        predicted = np.asarray(model.predict(X))
        self.score(name, tested, predicted)
        if self.imbalanced:
            every = self.votes.setdefault(name, np.zeros((self.n, self.n_classes)))
            every[tested[:, None], model.classes_] = model.predict_proba(X)
        return predicted

    @property
    def auc(self) -> dict[str, float]:
        """The mean over classes of the area under the ROC curve of the class and the others."""
        codes, found = self.actual[self.tested], {}
        for name, votes in self.votes.items():
            areas = []
            for code in np.unique(codes):
                own, ranks = codes == code, rankdata(votes[self.tested][:, code])
                n, m = int(own.sum()), int((~own).sum())
                areas.append((ranks[own].sum() - n * (n + 1) / 2) / max(n * m, 1))
            found[name] = float(np.mean(areas))
        return found


def test_rows(
    table: Table,
    learner: MetricLearner,
    measure: Measure,
    *,
    seed: int,
    seconds: float | None,
    progress: Progress,
) -> HeldOut:
    """Hold rows out, and predict their labels or numbers."""
    numbers, y, n = table.kind == "numbers", np.asarray(table.y), len(table)
    names, codes = (np.empty(0), y) if numbers else np.unique(y, return_inverse=True)
    known = Supervision.of(codes, n, groups=table.groups, numbers=numbers)
    few, features, random = n < _FEW_ROWS, features_of(table), np.random.RandomState(seed)
    predictor = MetricNeighborsRegressor if numbers else MetricNeighborsClassifier
    goal: Literal["ranking", "classification"]
    goal = "ranking" if measure is MAP_AT_R else "classification"
    metrics = {LEARNED: learner, PLAIN: AutoMetric(candidates=[], random_state=seed, goal=goal)}
    no_metric = MEAN if numbers else f"{GUESS} ({names[np.bincount(codes).argmax()]})"
    name, given = _name_of(learner), isinstance(learner, _GivenMetric)
    found, most = _Predictions(codes, len(names)), _FEW_FOLDS if few else 1
    for split in known.split(_FEW_FOLDS if few else _FOLDS, random):
        if found.n_splits and not (few and found.has_time(seconds)):
            break
        few_classes = not numbers and len(np.unique(codes[split.rows])) < 2
        if few_classes or len(split.rows) < 2 or not len(split.unseen_rows):
            continue
        classes = None if numbers else codes[split.rows]
        train = sample(split.rows, most_rows(table, learner, seconds), random, classes)
        test = sample(split.unseen_rows, _MOST_TESTED, random)
        X, X_test, own = table.X[train], table.X[test], codes[train]
        if features is not None and not given:
            made = features.fitted(train, y[train])
            X, X_test = made(train), made(test)
        if not found.n_splits:
            every = table.X if features is None or given else made(np.arange(n))
            first = FirstSplit(every, train, test)
        groups = None if known.groups is None else known.groups[train]
        for who, each in metrics.items():
            progress(found.n_splits, most, f"{who}, held-out rows")
            each = clone(each)
            if each.tells_expected:
                each.set_params(expected_folds=1)
            # Without learning, a linear prior would be one.
            how = predictor if who == LEARNED else partial(predictor, votes="whole")
            fitted = fit_within(seconds, each, X, own, groups, how)
            who = who if who == LEARNED else found.name_of(fitted.learner_)
            predicted = found.predict(who, test, fitted, X_test)
            if not found.n_splits:
                first.metrics.append(fitted.metric_)
                first.predicted.append(predicted if numbers else names[predicted])
            if not numbers:
                rows = (X, own), (X_test, codes[test])
                ranked = score_distance(fitted.metric_, *rows, n_neighbors=1)
                found.add(who, test, {MAP_AT_R.name: ranked[MAP_AT_R.name]})
        largest = own.mean() if numbers else np.bincount(own).argmax()
        found.score(no_metric, test, np.full(len(test), largest))
        for who, model in _others(X.shape[1], len(names), seed):
            progress(found.n_splits, most, f"{who}, held-out rows")
            with single_threaded_libraries():
                found.predict(who, test, model.fit(X, own).model, X_test)
        found.split(test)
    if not found.n_splits:
        raise ValueError(f"There is nothing to hold out of {counted(n, 'row')} of {table.name}.")
    of_rows: dict[str, Any] = {"groups": known.groups, "numbers": codes if numbers else None}
    auc, useful = found.auc, False
    if LEARNED in auc:
        # Where errors say nothing, ranks of probabilities may: more than two standard errors.
        smallest = int(np.bincount(codes[found.tested]).min())
        useful = auc[LEARNED] > 0.5 + 2 / math.sqrt(12 * max(smallest, 1))
        auc = {name: auc[LEARNED], **{n: a for n, a in auc.items() if n != LEARNED}}
    of_rows["labels"] = None if numbers or useful or measure is MAP_AT_R else codes
    others = [] if numbers else [ERROR if measure is MAP_AT_R else MAP_AT_R]
    results, goals = found.compared(name, [measure, *others], **of_rows)
    guess = "the mean" if numbers else "naming the largest class"
    n_tested = int(found.tested.sum())
    return HeldOut(measure, results, goals, first, n_tested, found.n_splits, auc, guess)


def test_judgements(
    table: Table,
    learner: MetricLearner,
    measure: Measure,
    *,
    seed: int,
    seconds: float | None,
    progress: Progress,
) -> HeldOut:
    """Hold triplets or pairs out, and say how often distances are wrong about them."""
    known = Supervision.of(supervision_of(table), len(table), groups=table.groups)
    known = known.in_classes(_FEW_FOLDS)
    where: Any = (_FEW_FOLDS, known.groups, seed)
    joined = table.groups is None
    features = None if isinstance(learner, _GivenMetric) else features_of(table)
    task = JudgedRows(table.X, known.given, *where, joined=joined, features=features)
    metrics = {LEARNED: learner, PLAIN: AutoMetric(candidates=[], random_state=seed)}
    found = _Losses(len(task.judgements))
    for fold, (_, test) in enumerate(task.folds):
        if found.n_splits and not found.has_time(seconds):
            break
        X, y, groups = task.training(fold, raw=True)
        if not found.n_splits:
            rows, split = (
                np.arange(len(table)),
                [task.judgements.take(each) for each in task.folds[fold]],
            )
            first = FirstSplit(task.rows(fold), rows, rows, judgements=(split[0], split[1]))
        for name, each in metrics.items():
            progress(fold, len(task.folds), f"{name}, held-out {table.kind}")
            each = clone(each)
            if each.tells_expected:
                each.set_params(expected_folds=0)
            fitted = fit_within(seconds, each, X, y, groups)
            losses = task.score(fitted.metric_, fold, raw=True, n_neighbors=0)
            found.add(name if name == LEARNED else found.name_of(fitted), test, losses)
            if not found.n_splits:
                first.metrics.append(fitted.metric_)
        found.split(test)
    results, goals = found.compared(_name_of(learner), [measure], overlap=task.overlap)
    return HeldOut(measure, results, goals, first, int(found.tested.sum()), found.n_splits, {})


def _name_of(learner: MetricLearner) -> str:
    """Return the name of a learner; one without candidates is Euclidean distance."""
    if getattr(learner, "candidates", None) == []:
        return PLAIN
    return "metric" if isinstance(learner, _GivenMetric) else type(learner).__name__


def _others(n_features: int, n_classes: int, seed: int) -> Iterator[tuple[str, Any]]:
    """Yield what predicts without a metric, by name; each learns from a sample of many rows."""
    kind = RandomForestClassifier if n_classes else RandomForestRegressor
    others = reference_classifiers(n_features, n_classes, seed)
    if not n_classes:
        yield others[0].name, others[0].estimator
    forest: BaseEstimator = kind(_TREES, n_jobs=-1, random_state=seed)
    yield FOREST, SampledClassifier(forest, random_state=seed)
    if others[1].max_rows == np.inf:
        yield others[1].name, others[1].estimator


def tested(table: Table, learner: MetricLearner | Metric, goal: str, **rest: Any) -> HeldOut:
    """Say what a metric is worth on held-out rows or judgements."""
    if isinstance(learner, Metric):
        learner = _GivenMetric(metric=learner)
    if table.kind in ("triplets", "pairs"):
        test, measure = test_judgements, measures_for(table.kind)[0]
    else:
        ranking = MAP_AT_R if goal == "ranking" else ERROR
        test, measure = test_rows, R2 if table.kind == "numbers" else ranking
    with warnings.catch_warnings():
        # The fit to all rows says what there is to say.
        warnings.simplefilter("ignore", UserWarning)
        return test(table, learner, measure, **rest)
