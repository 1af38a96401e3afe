"""The measures that methods are compared by, in one registry.

A measure gives each test row, or each held-out judgement, a value from 0 to 1, or with
`bounded=False` any number. To add one, register
a `Measure` here. It is then a column of the comparison's table; with a `goal` it also has a
verdict, and a headline and bars in the report.

    of             argument of the function           what it is about
    "votes"        `Voters`                           a test row and its nearest training rows
    "rankings"     `Rankings`                         a test row and all training rows
    "judgements"   `HeldOutJudgements`                triplets or pairs
    "classes"      `ClassifiedRows`                   errors of rows, for a value of each class
    "searches"     `JudgedSearches`                   queries and the documents that they find

Losses, which are smaller if better, are what is stored and tested: the values themselves, or one
minus them.

Noise of means over rows
------------------------
A row is a query and also a result in the rankings of other rows. The mean of a ranking measure is
therefore a U-statistic of degree two, whose variance is about four times that of independent rows.
Classes that were not learned from also rank each other, but less depends on each of them.
`benchmarks/map_intervals.py` measures this for MAP@R with Euclidean distance. Over draws from five
tables, the variance is 1.9 to 4.2 times that of independent rows: 90 % intervals hold in 88 to 99
% with a factor of 4, and in 76 to 90 % with 2. Over draws of classes from three tables, it is 1.0
to 1.8 times that of independent classes: intervals hold in 91 to 97 % with a factor of 2, and in
96 to 99 % with 4. So rows have 4, and classes have 2.

Squared errors of numbers have heavy tails, and which rows are neighbours is chance, too. R2 has 2,
and absolute errors have 1.3: `benchmarks/claims_numbers.py` counts how often intervals then hold.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Literal, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from nearfar.evidence.intervals import judgement_shares
from nearfar.measures.judgements import errors_by_class, misplaced
from nearfar.measures.neighbor_votes import majority
from nearfar.measures.retrieval import average_precision_at_r, triplet_shares
from nearfar.runtime.messages import plain
from nearfar.typing import Array, Floats, Ints, Vector

ROW_NOISE, CLASS_NOISE = 4.0, 2.0
"""Variance of the mean of a ranking measure, relative to independent rows and classes."""

Loss = TypeVar("Loss", float, Vector)


@dataclass(frozen=True, eq=False)
class Voters:
    """Classes of test rows, and of the nearest training rows of each.

    Attributes
    ----------
    unit: Standard deviation of the numbers, if they are that instead of classes.
    """

    nearest: Array
    actual: Array
    unit: float = 1.0

    @property
    def deviation(self) -> Vector:
        """How far the mean of the nearest is from the number of each test row."""
        return np.abs(self.nearest.mean(axis=1) - self.actual)


@dataclass(frozen=True, eq=False)
class Rankings:
    """Test rows that rank training rows; some of these are relevant, and some are not.

    Attributes
    ----------
    table: shape (n_test, n_train). What orders the training rows, smallest first.
    relevant: shape (n_test, n_train). Whether they have the class of the test row.
    """

    table: Floats
    relevant: NDArray[np.bool_]

    @cached_property
    def order(self) -> Ints:
        """Training rows, nearest first."""
        return np.argsort(self.table, axis=1)

    @cached_property
    def hits(self) -> NDArray[np.bool_]:
        """Whether they are relevant, nearest first."""
        return np.take_along_axis(self.relevant, self.order, axis=1)

    @cached_property
    def n_relevant(self) -> Ints:
        """Number of relevant training rows."""
        return np.asarray(self.relevant.sum(axis=1))


@dataclass(frozen=True, eq=False)
class HeldOutJudgements:
    """Judgements, and a distance between their rows."""

    distance: Any
    X: Any
    judgements: Any


@dataclass(frozen=True, eq=False)
class ClassifiedRows:
    """Rows that were classified.

    Attributes
    ----------
    labels: shape (n_rows,). Their classes.
    wrong: shape (n_rows,). How often each was wrong, from 0 to 1; nan for rows not tested.
    """

    labels: Array
    wrong: Vector


class JudgedResults(Protocol):
    """What searches found, with grades; methods return one value for each query."""

    def ndcg(self, k: int) -> Vector:
        """Normalised discounted cumulative gain of the first k."""

    def mrr(self, k: int) -> Vector:
        """Reciprocal rank of the first relevant document."""

    def recall(self, k: int) -> Vector:
        """Share of the relevant documents that are among the first k."""

    def average_precision(self, k: int) -> Vector:
        """Mean over relevant documents of the precision at their rank."""


@dataclass(frozen=True, eq=False)
class JudgedSearches:
    """Searches, and how many results count.

    Attributes
    ----------
    k: Results that count.
    depth: Results that were found.
    """

    results: JudgedResults
    k: int
    depth: int


@dataclass(frozen=True)
class Measure:
    """A measure of a distance, and how it is written.

    Attributes
    ----------
    name: Its name in JSON, unique among the measures of the same supervision. In names of
        searches, {k} and {depth} are numbers of results (`search_measures`).
    function: Returns a value from 0 to 1 for each test row or judgement.
    of: What the function takes.
    supervision: What it applies to: of "labels", "numbers", "triplets", "pairs", "classes"
        (of rows that were classified) and "searches".
    label: What sentences call it.
    percent: Whether it is written in percent.
    digits: How it is written otherwise.
    bounded: Whether losses are at most 1.
    goal: What methods that are better by it are good for; empty if there is no verdict on
        it.
    use: The goal in a sentence, "for ranking and search"; {neighbours} is their number.
    column, title, description: Heading of the column; title in a report and what is
        measured there. By default the label.
    explanation: A sentence on how it is computed.
    binary: Whether values are 0 or 1: two methods are then compared by the sign test.
    noise, class_noise: Variance of a mean over rows and over unseen classes, relative to
        independent ones.
    gain_noise: Further factor for the mean difference between two methods.
    spreads: Gains that are usual where there is something to gain, as shares of the
        baseline's loss.
    """

    name: str
    function: Callable[[Any], Vector]
    of: Literal["votes", "rankings", "judgements", "classes", "searches"]
    supervision: tuple[str, ...]
    label: str
    better: Literal["higher", "lower"] = "higher"
    percent: bool = False
    digits: str = "z.3f"
    bounded: bool = True
    goal: str = ""
    use: str = ""
    column: str = ""
    title: str = ""
    description: str = ""
    explanation: str = ""
    binary: bool = False
    noise: float = ROW_NOISE
    class_noise: float = CLASS_NOISE
    gain_noise: float = 1.0
    spreads: tuple[float, ...] = (0.05, 0.1, 0.2, 0.4)

    def __post_init__(self) -> None:
        for name in ("column", "title", "description"):
            object.__setattr__(self, name, getattr(self, name) or self.label)

    @property
    def heading(self) -> str:
        """Heading of the column, with the unit."""
        return f"{self.column} %" if self.percent else self.column

    def losses(
        self, sample: Voters | Rankings | HeldOutJudgements | ClassifiedRows | JudgedSearches
    ) -> Vector:
        """Return the loss of each test row or judgement; judgements in proportion to weights."""
        losses = self.value(np.asarray(self.function(sample), dtype=np.float64))
        if isinstance(sample, HeldOutJudgements):
            losses = losses * judgement_shares(sample.judgements)
        return losses

    def value(self, loss: Loss) -> Loss:
        """Return the measure of a loss, or the loss of a measure."""
        return loss if self.better == "lower" else 1.0 - loss

    def number(self, value: float) -> str:
        """Return a value as text, without its unit."""
        return f"{100 * value:z.1f}" if self.percent else plain(value, self.digits)

    def write(self, value: float) -> str:
        """Return a value as text."""
        return f"{self.number(value)} %" if self.percent else self.number(value)

    def write_gain(self, gain: float, low: float, high: float) -> str:
        """Return an expected gain and its interval as text."""
        unit = " points" if self.percent else ""
        return f"{self.number(gain)}{unit} ({self.number(low)} to {self.number(high)})"


_REGISTRY: list[Measure] = []


def register(measure: Measure) -> Measure:
    """Add a measure to all comparisons and reports; it comes after those that are there."""
    for other in _REGISTRY:
        shared = set(measure.supervision) & set(other.supervision)
        if (shared and measure.name == other.name) or (measure.goal and measure.goal == other.goal):
            raise ValueError(f"There is already a measure {other.name!r} of {other.supervision}.")
    _REGISTRY.append(measure)
    return measure


def unregister(measure: Measure) -> None:
    """Remove a measure from all further comparisons and reports."""
    _REGISTRY.remove(measure)


def measures_for(supervision: str) -> list[Measure]:
    """Return the measures of a kind of supervision; the first is the main one."""
    return [measure for measure in _REGISTRY if supervision in measure.supervision]


def search_measures(k: int, depth: int) -> list[Measure]:
    """Return the measures of searches that find `depth` documents, of which the first k count."""
    names = {m: m.name.format(k=k, depth=depth) for m in measures_for("searches")}
    return [
        replace(measure, name=name, label=name, column=name, title=name, description=name)
        for measure, name in names.items()
    ]


def measure_of(goal: str) -> Measure:
    """Return the measure that decides on a goal."""
    found = {measure.goal: measure for measure in _REGISTRY if measure.goal}
    if goal not in found:
        raise ValueError(f"There is no goal {goal!r}; choose from {', '.join(found)}.")
    return found[goal]


ERROR = register(
    Measure(
        "error",
        lambda voters: majority(voters.nearest) != voters.actual,
        "votes",
        ("labels",),
        "error",
        better="lower",
        percent=True,
        goal="classification",
        use="classification with {neighbours}",
        title="Classification",
        binary=True,
        noise=1.0,
        class_noise=1.0,
        gain_noise=1.25,
        spreads=(0.15, 0.3, 0.6),
    )
)
BALANCED_ERROR = register(
    Measure(
        "balanced_error",
        lambda rows: np.array(
            [1 - each.n_found / each.n_rows for each in errors_by_class(rows.labels, rows.wrong)]
        ),
        "classes",
        ("classes",),
        "balanced error",
        better="lower",
        percent=True,
        column="balanced",
    )
)
TRIPLETS_OF_LABELS = register(
    Measure(
        "triplet_accuracy",
        lambda found: triplet_shares(found.table, found.relevant, found.order),
        "rankings",
        ("labels",),
        "triplet accuracy",
        percent=True,
        column="triplets",
        explanation="Triplets: the share of triplets (a row, a row of the same class, a row of "
        "another class) in which the row of the same class is nearer.",
    )
)
MAP_AT_R = register(
    Measure(
        "map_at_r",
        lambda found: average_precision_at_r(
            found.hits[:, : found.n_relevant.max()], found.n_relevant
        ),
        "rankings",
        ("labels",),
        "MAP@R",
        goal="ranking",
        use="ranking and search",
        title="Ranking and search",
        explanation="MAP@R: the mean average precision of the first R results for a row, where R "
        "is the number of other rows in its class.",
    )
)
TRIPLET_ACCURACY = register(
    Measure(
        "triplet_accuracy",
        lambda held_out: held_out.distance.prefers(held_out.X, held_out.judgements.index),
        "judgements",
        ("triplets",),
        "triplet accuracy",
        percent=True,
        goal="triplets",
        column="accuracy",
        title="Triplets",
        description="held-out triplets in the right order",
        explanation="Accuracy: the share of held-out triplets whose near row is nearer than the "
        "far one.",
    )
)
PAIR_AUC = register(
    Measure(
        "auc",
        lambda held_out: (
            1.0
            - misplaced(
                held_out.distance.pair_distances(held_out.X, held_out.judgements.index),
                held_out.judgements.similar,
                held_out.judgements.weight,
            )
        ),
        "judgements",
        ("pairs",),
        "AUC",
        goal="pairs",
        title="Pairs",
        description="area under the ROC curve of held-out pairs",
        explanation="AUC: the probability that a similar pair is nearer than a dissimilar one.",
        spreads=(0.15, 0.3, 0.6),
    )
)
R2 = register(
    Measure(
        "r2",
        lambda voters: 1.0 - (voters.deviation / voters.unit) ** 2,
        "votes",
        ("numbers",),
        "R²",
        bounded=False,
        goal="regression",
        use="regression with {neighbours}",
        title="Numbers",
        description="R² of numbers that neighbours predict",
        explanation="R²: one minus the mean squared error, as a share of the variance of the "
        "numbers.",
        noise=2.0,
        class_noise=2.0,
        spreads=(0.15, 0.3, 0.6),
    )
)
MAE = register(
    Measure(
        "mae",
        lambda voters: voters.deviation,
        "votes",
        ("numbers",),
        "MAE",
        better="lower",
        digits=".4g",
        bounded=False,
        explanation="MAE: the mean absolute error, in units of the label.",
        noise=1.3,
        class_noise=1.3,
    )
)
# Queries do not find each other, so that their values are independent.
_of_searches = partial(Measure, of="searches", supervision=("searches",), noise=1.0)
NDCG = register(
    _of_searches(
        "nDCG@{k}",
        lambda searches: searches.results.ndcg(searches.k),
        label="nDCG",
        goal="search",
        explanation="nDCG counts the grades of the first results, more at the top, relative to the "
        "best possible order.",
        gain_noise=1.25,
    )
)
register(
    _of_searches(
        "MRR@{k}",
        lambda searches: searches.results.mrr(searches.k),
        label="MRR",
        explanation="MRR is the reciprocal rank of the first relevant result.",
    )
)
register(
    _of_searches(
        "recall@{k}",
        lambda searches: searches.results.recall(searches.k),
        label="recall",
        explanation="Recall is the share of the relevant documents that are found.",
    )
)
register(
    _of_searches(
        "recall@{depth}", lambda searches: searches.results.recall(searches.depth), label="recall"
    )
)
register(
    _of_searches(
        "AP@{depth}",
        lambda searches: searches.results.average_precision(searches.depth),
        label="AP",
        explanation="AP is the mean precision at the ranks of the relevant documents.",
    )
)
