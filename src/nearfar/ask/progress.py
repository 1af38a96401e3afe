"""How good the answers make the fit, how good it can become, and how people answer.

Only random questions judge. Their answers are predicted by fits that have not seen them
(`FOLDS`-fold; answers to the same question are in the same fold), with a 90 % interval. Answers
that could not tell do not judge. Without vectors nothing is stated: which questions were chosen
depends on the answers that are held out, and a place has so few answers that this tells (shapes,
1,200 to 1,800 answers: 2.5 points too high on average, and 9 of 16 intervals held).

Repeats set the ceiling. If two answers to a question agree with probability c, and the better
answer has probability p, then c = p^2 + (1 - p)^2. No prediction agrees with more than a share p of
the answers, which is at least c, and at most (1 + sqrt(2 c - 1)) / 2, with equality if all
questions are equally hard.

What the last `LATELY` answers added is measured in the same way: with them and without them, by the
same random questions. What more answers would add is not stated. The posterior expects a gain, but
it was two to four times that which came (people's answers about shapes without vectors: 6.8
points, and 1.8 came).

Sides are exchanged at random. Whoever looks at the objects therefore picks the left one in half of
the questions, and the same side as in the question before in half of them, whatever they find
alike: both counts are binomial. A person of whom one is beyond chance goes by the side, and a share
b of answers that do so gives a count of (1 + b) / 2.

The page of results: agreement and its ceiling, the curve, the map, features and people.
"""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtri
from scipy.stats import binomtest
from sklearn.exceptions import ConvergenceWarning

from nearfar.ask.chooser import RANDOM, REPEAT, Chooser, Judgement, arrays
from nearfar.comparison.methods import baseline_metrics
from nearfar.evidence.intervals import CONFIDENCE, mean_interval
from nearfar.evidence.verdict import STANDARDISED
from nearfar.learners.boosting import BoostMetric
from nearfar.learners.classic import ITML
from nearfar.metrics.metric import Metric
from nearfar.neighbors import kneighbors
from nearfar.page import blocks
from nearfar.page.figures import svgs, thumbnail
from nearfar.page.page import render_page
from nearfar.plots import before_and_after, importances, projections
from nearfar.plots.canvas import METHOD_PALETTE, one_axes
from nearfar.runtime.messages import counted
from nearfar.typing import Floats, Vector

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from nearfar.ask.store import Collection

FOLDS = 5
"""Parts of the random questions, each predicted from the others."""
LATELY = 50
"""Answers whose gain is measured."""
FALSE_ALARMS = 1e-4
"""Share of people who look at the objects, and of whom something else is said, at a time."""
FASTEST = 0.3
"""Seconds: deciding about one picture takes people 0.45 in the median (Thorpe, Fize and Marlot,
"Speed of processing in the human visual system", Nature 1996), and a question has three objects."""
# Share of answers within `FASTEST` from which on they are no slips of the finger.
_SLIPS = 0.05
# Random answers from which on agreement is shown.
_FEWEST = 10
# Rises and falls that are added, because few questions may have none: with 1, as Bonett and Price
# do ("Adjusted Wald confidence interval for a difference of binomial proportions based on paired
# data", 2012), the interval held in 99 % of draws, with 0 in 80 % (benchmarks/results/ask_claims).
_ADDED = 0.25
# Answers of an average person that each person is given, when people are weighed.
_PRIOR_ANSWERS = 10.0


@dataclass(frozen=True)
class Share:
    """A share of answers with its 90 % interval."""

    value: float
    low: float
    high: float
    n: int

    @classmethod
    def of(cls, right: Vector) -> Share:
        """Return the mean of values from 0 to 1, which are independent."""
        n = len(right)
        value = float(right.mean()) if n else 0.5
        low, high = mean_interval(value, value * (1 - value) / max(n, 1), n)
        return cls(value, low, high, n)

    def __str__(self) -> str:
        low, high = 100 * self.low, 100 * self.high
        return f"{100 * self.value:.0f} % ({low:.0f} to {high:.0f} %)"


@dataclass(frozen=True)
class Rise:
    """How many more answers are predicted than before, with its 90 % interval.

    Attributes
    ----------
    n: Answers.
    rises, falls: Of these, those that are predicted now and were not, and the other way
        round.
    """

    n: int
    rises: float
    falls: float

    @property
    def value(self) -> float:
        """The rise as a share of the answers."""
        return (self.rises - self.falls) / (self.n + 2 * _ADDED)

    @property
    def reach(self) -> float:
        """Half of the length of the interval."""
        n = self.n + 2 * _ADDED
        variance = (self.rises + self.falls + 2 * _ADDED) / n - self.value**2
        return float(ndtri((1 + CONFIDENCE) / 2)) * math.sqrt(variance / n)

    def __str__(self) -> str:
        value, reach = 100 * self.value, 100 * self.reach
        return f"{value:+.0f} points ({value - reach:.0f} to {value + reach:.0f})"


@dataclass(frozen=True)
class Person:
    """How a person answers.

    Attributes
    ----------
    agreement: With predictions, on random questions.
    weight: From 0, at random, to 1.
    notes: Why the weight is low: answers as at random, by the side, or too fast to have
        looked.
    """

    name: str
    n_answers: int
    agreement: Share
    weight: float
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Progress:
    """Where a collection stands.

    Attributes
    ----------
    agreement, before: On random questions, with what was learned and without it.
    ceiling: The highest agreement possible is between these.
    lately: By the last 50 answers.
    """

    n_answers: int
    n_unsure: int = 0
    n_repeats: int = 0
    agreement: Share | None = None
    before: Share | None = None
    ceiling: tuple[float, float] | None = None
    lately: Rise | None = None

    @property
    def standing(self) -> str:
        """How well the answers predict others, and what the last ones added."""
        if self.agreement is None:
            return "How well they predict each other is shown after some more, with vectors."
        n, change = self.agreement.n, f" The last {LATELY} changed this by {self.lately}."
        line = f"They predict {self.agreement} of the answers to {n} random questions."
        return line if self.lately is None else line + change

    def __str__(self) -> str:
        """Return one quiet line."""
        n = self.n_answers
        return f"{counted(n, 'answer')}. {self.standing}" if n else "No answers yet."


def measure(chooser: Chooser) -> Progress:
    """Return where a collection stands."""
    judged, tested = chooser.judgements, _tested(chooser)
    again = [agrees for *_, agrees in repeats(judged)]
    progress = Progress(len(judged), sum(j.value == 0.5 for j in judged), len(again))
    if len(tested) < _FEWEST or chooser.X is None:
        return progress
    right = _right(tested, held_out_margins(chooser, judged, tested, chooser.weights))
    index = arrays(tested, chooser.width)[0]
    before = Share.of(_right(tested, chooser.model.fresh().margins(index)[0]))
    ceiling = lately = None
    if len(again) >= _FEWEST:
        c = float(np.mean(again))
        ceiling = c, (1 + math.sqrt(max(2 * c - 1, 0))) / 2
    if len(judged) > LATELY:
        earlier = held_out_margins(chooser, judged[:-LATELY], tested, chooser.weights)
        change = right - _right(tested, earlier)
        lately = Rise(len(tested), *(float(np.maximum(x, 0).sum()) for x in (change, -change)))
    return replace(
        progress, agreement=Share.of(right), before=before, ceiling=ceiling, lately=lately
    )


def _tested(chooser: Chooser) -> list[Judgement]:
    return [j for j in chooser.judgements if j.question.origin == RANDOM and j.value != 0.5]


def held_out_margins(
    chooser: Chooser,
    judged: Sequence[Judgement],
    tested: Sequence[Judgement],
    weights: Mapping[str, float] | None = None,
) -> Vector:
    """Predict the answers `tested` by fits to `judged` that have not seen the same question."""
    folds = {j.question.key: n % FOLDS for n, j in enumerate(tested)}
    index, fold = arrays(tested, chooser.width)[0], [folds[j.question.key] for j in tested]
    margins = np.zeros(len(tested))
    for number in sorted({*fold}):
        seen = [j for j in judged if folds.get(j.question.key) != number]
        model = chooser.model.fresh()
        model.learn_anew(*arrays(seen, chooser.width, weights))
        rows = np.flatnonzero(np.equal(fold, number))
        margins[rows] = model.margins(index[rows])[0]
    return margins


def learning_curve(chooser: Chooser, n_points: int = 8) -> list[tuple[int, Share]]:
    """Return the agreement on random questions after some answers, half of them, and so on.

    All random questions judge every point; those that were answered so far are held out in turn.
    """
    judged, tested = chooser.judgements, _tested(chooser)
    if len(tested) < _FEWEST:
        return []
    counts = np.unique(np.linspace(0, len(judged), n_points + 1).round().astype(int))
    fits = ((n, held_out_margins(chooser, judged[:n], tested, chooser.weights)) for n in counts)
    return [(int(n), Share.of(_right(tested, margins))) for n, margins in fits]


def repeats(judged: Sequence[Judgement]) -> list[tuple[str, str, float]]:
    """Return who answered a question and its repeat, and whether the answers agree.

    Answers that could not tell agree with none.
    """

    def picked(judged: Judgement) -> int | str:
        """Return the object that was picked, or whether it was the same."""
        if len(judged.question.objects) == 2:
            return judged.answer
        return judged.question.objects[1 if judged.value == 1 else 2]

    random = [j for j in reversed(judged) if j.question.origin == RANDOM]
    first = {j.question.key: j for j in random}
    own = {(j.question.key, j.person): j for j in random}
    found = []
    for j in judged:
        key = j.question.key
        before = own.get((key, j.person)) or first.get(key)
        if j.question.origin == REPEAT and before is not None:
            sure = 0.5 not in (before.value, j.value)
            found.append((before.person, j.person, float(sure and picked(before) == picked(j))))
    return found


def people(chooser: Chooser) -> list[Person]:
    """Return how each person answers, in the order of their names.

    Weights come from random questions whose answers were predicted or not, and from repeats whose
    answers agree or not, with those of average people added. Everybody counts the same in the
    predictions. The share of answers that looked at the objects is a factor of the weight.
    """
    judged, tested = chooser.judgements, _tested(chooser)
    right = _right(tested, held_out_margins(chooser, judged, tested)) if tested else np.zeros(0)
    who = np.array([j.person for j in tested])
    repeated = repeats(judged)
    passed = [*right, *(agrees for *_, agrees in repeated)]
    mean = float(np.mean(passed)) if passed else 0.5
    persons = []
    for name in sorted({j.person for j in judged}):
        own, others = right[who == name], right[who != name]
        share = Share.of(own)
        at_random = min(share.n, len(others)) >= _FEWEST and share.low <= 0.5
        if at_random:
            chance = binomtest(int(own.sum()), share.n, Share.of(others).low, "less")
            at_random = bool(chance.pvalue < FALSE_ALARMS)
        again = [agrees for *both, agrees in repeated if name in both]
        n_tests = share.n + len(again) + _PRIOR_ANSWERS
        reliability = (own.sum() + sum(again) + _PRIOR_ANSWERS * mean) / n_tests
        weight = (2 * reliability - 1) / (2 * mean - 1) if mean > 0.5 else 1.0
        weight = 0.0 if at_random else float(np.clip(weight, 0.0, 1.0))
        answers = [j for j in judged if j.person == name]
        unseeing, notes = without_looking(answers)
        if at_random:
            notes.insert(0, "predicted no better than by chance")
        weight *= 1 - unseeing
        persons.append(Person(name, len(answers), share, weight, tuple(notes)))
    return persons


def without_looking(answers: Sequence[Judgement]) -> tuple[float, list[str]]:
    """Return the share of a person's answers that did not look at the objects, and what shows it.

    Repeats do not count: their sides follow from those of the question before. Nor do the two
    answers of pairs, which have no sides that could be exchanged.
    """
    sided = [j.value for j in answers if j.question.origin != REPEAT and j.value != 0.5]
    left = np.array(sided if answers and len(answers[0].question.objects) == 3 else [])
    shares, notes = [0.0], []
    for side, picks in {
        "left": left == 1,
        "right": left == 0,
        "same side as before": left[1:] == left[:-1],
        "other side than before": left[1:] != left[:-1],
    }.items():
        k, n = int(picks.sum()), len(picks)
        # Each of the two counts has half of the false alarms, and each of its tails half of those.
        if n and binomtest(k, n, alternative="greater").pvalue < FALSE_ALARMS / 4:
            shares.append((2 * k - n) / (n + 2))
            notes.append(f"{side} in {k} of {n}")
    times = [j.seconds for j in answers if j.seconds is not None]
    fast = sum(0 <= seconds < FASTEST for seconds in times)
    if fast > max(_SLIPS * len(times), 2):
        shares.append(fast / (len(times) + 2))
        notes.append(f"{fast} of {len(times)} within {FASTEST} s")
    return max(shares), notes


def _right(tested: Sequence[Judgement], margins: Vector) -> Vector:
    """Tell which answers were predicted; a margin of 0 counts half."""
    y = np.array([j.value for j in tested])
    return np.asarray((1 + np.sign(margins) * np.sign(y - 0.5)) / 2)


_QUERIES, _NEIGHBORS = 4, 5
# Fewer answers would give a map that the next ones change entirely.
_FEWEST_TO_LEARN = 20


def results_page(collection: Collection) -> str:
    """Return the page of results as HTML: agreement, the map, neighbours, features and people."""
    chooser = collection.snapshot()
    progress = measure(chooser)
    rows = []
    for p in people(chooser):
        agreement = str(p.agreement) if p.agreement.n else ""
        rows.append([p.name, str(p.n_answers), agreement, f"{p.weight:.2f}", "; ".join(p.notes)])
    caption = "Agreement with predictions on random questions, and the weight of the answers."
    table = blocks.Table(["person", "answers", "agreement", "weight", "note"], rows, caption)
    name = collection.store.path.stem
    return render_page(
        name,
        title=f"{name}: answers so far",
        subject=f"{progress.n_answers} answers about {len(collection.objects)} objects",
        headlines=[],
        reason=str(progress),
        notes=[],
        sections=[
            blocks.Section("Agreement", "agreement", _agreement(chooser, progress)),
            *_learned(collection, chooser),
            blocks.Section("People", "people", [table]),
        ],
    )


def _drawn(draw: Callable[[], Any], title: str, name: str, caption: str) -> blocks.Figures:
    return blocks.Figures([blocks.Figure(svg, caption) for svg in svgs(draw, title, name)])


def _agreement(chooser: Chooser, progress: Progress) -> list[blocks.Block]:
    if progress.agreement is None:
        return [blocks.Text(["There are too few answers to say how good they are, or no vectors."])]
    rows = [["After learning", str(progress.agreement)], ["Before", str(progress.before)]]
    lines = [
        f"Answers to {progress.agreement.n} random questions, each predicted from answers to "
        "others; 90 % intervals."
    ]
    if progress.ceiling is not None:
        low, high = progress.ceiling
        rows.append(["Highest possible", f"{100 * low:.0f} to {100 * high:.0f} %"])
        n = progress.n_repeats
        lines.append(f"The highest possible agreement is that of {n} repeated questions.")
    if progress.lately is not None:
        rows.append([f"Change by the last {LATELY} answers", str(progress.lately)])
    lines.append(f"{progress.n_unsure} of {progress.n_answers} answers are “can't tell”.")

    def draw() -> Axes:
        points = learning_curve(chooser)
        ax = one_axes(None, (5, 3))
        n = [count for count, _ in points]
        values, low, high = (
            [100 * getattr(share, name) for _, share in points] for name in ("value", "low", "high")
        )
        ax.plot(n, values, marker="o", color=METHOD_PALETTE[0], clip_on=False)
        ax.fill_between(n, low, high, color=METHOD_PALETTE[0], alpha=0.2, linewidth=0)
        ax.set(xlabel="answers", ylabel="agreement (%)", ylim=(min(45, min(low)), 100))
        return ax

    caption = "Agreement on random questions by number of answers; 90 % interval."
    curve = _drawn(draw, "Agreement by number of answers", "curve", caption)
    return [blocks.Table(["", "share of answers predicted"], rows), blocks.Text(lines), curve]


def _learned(collection: Collection, chooser: Chooser) -> list[blocks.Section]:
    X = collection.objects.X
    if X is None:
        P = chooser.model.coordinates()
        alone = Metric.identity(P.shape[1])
        caption = "Objects by their answers alone; near objects were judged alike."
        drawn = _drawn(lambda: projections(alone, P), "Map of objects", "map", caption)
        neighbours = _neighbors(collection, chooser, {"By the answers": alone}, P)
        return [blocks.Section("Map", "map", [drawn]), neighbours]
    metric = learned_metric(collection, chooser)
    if metric is None:
        few = f"The map and the features are shown from {_FEWEST_TO_LEARN} answers on."
        return [blocks.Section("Map", "map", [blocks.Text([few])])]
    title = "Objects before and after"
    drawn = _drawn(lambda: before_and_after(metric, X), title, "map", f"{title} learning.")
    caption = "Share of each feature in the learned distance."
    matter = _drawn(lambda: importances(metric, X), "Importance of features", "features", caption)
    metrics = {STANDARDISED: baseline_metrics(X)[STANDARDISED], "Learned": metric}
    return [
        blocks.Section("Map", "map", [drawn]),
        _neighbors(collection, chooser, metrics, X),
        blocks.Section("Features that matter", "features", [matter]),
    ]


def _neighbors(
    collection: Collection, chooser: Chooser, metrics: dict[str, Metric], X: Floats
) -> blocks.Section:
    """Return the objects that were asked about most, with their nearest objects."""
    objects = collection.objects
    asked = Counter(judged.question.objects[0] for judged in chooser.judgements)
    rows = [row for row, _ in asked.most_common(_QUERIES)]
    n_neighbors = min(_NEIGHBORS, len(objects) - 1)

    @cache
    def shown(row: int) -> blocks.Neighbor:
        texts, pictures = objects.texts, objects.pictures
        text = objects.names[row] if texts is None else blocks.shortened(texts[row])
        return blocks.Neighbor(text, "" if pictures is None else thumbnail(pictures[row]))

    nearest = {
        name: kneighbors(metric, X, rows=rows, n_neighbors=n_neighbors)[1].tolist()
        for name, metric in metrics.items()
    }
    queries = []
    for n, row in enumerate(rows):
        found = {name: [shown(other) for other in near[n]] for name, near in nearest.items()}
        queries.append(blocks.Query(shown(row).text, found, shown(row).image))
    text = "The objects that were asked about most, with those that are nearest."
    parts = [blocks.Text([text if rows else "No answers yet."]), blocks.Queries(queries)]
    return blocks.Section("Nearest objects", "neighbours", parts)


def learned_metric(collection: Collection, chooser: Chooser) -> Metric | None:
    """Learn a metric from all answers; None if there are too few."""
    X, names = collection.objects.X, collection.objects.feature_names
    values = {judged.value for judged in chooser.judgements} - {0.5}
    decided = sum(judged.value != 0.5 for judged in chooser.judgements)
    if X is None or decided < _FEWEST_TO_LEARN or (chooser.kind == "pairs" and len(values) < 2):
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        if chooser.kind == "pairs":
            metric = ITML(random_state=0).fit(X, chooser.pairs()).metric_
        else:
            learner = BoostMetric(loss="logistic", random_state=0)
            metric = learner.fit(X, chooser.triplets()).metric_
    return metric.named(None if names is None else list(names))
