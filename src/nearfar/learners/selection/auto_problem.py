"""`AutoProblem`: what `AutoMetric` does, in five steps.

1. A quarter of the data is put aside (the *outer* part).
2. Cross-fitting on the rest: each candidate is fitted to parts of it, cheap ones first, and judged
   on what it did not see (`held_out`); the number of iterations is chosen along the way.
3. A sum of metrics is a metric: the weights of the candidates' metrics, and of Euclidean distance,
   are those under which held-out data are most likely. Most of them are zero.
4. The candidates with a weight are fitted to the rest as a whole. The outer part tells what to
   expect of their blend.
5. They are fitted to all data. Their blend is the result: one metric, which is linear if they are.
   If the blend of step 4 did worse on the outer part than Euclidean distance, that is the result.

Of few data, a quarter tells little. Then `AutoMetric` puts the other quarters aside in turn, and
does the first four steps, and the choice of a scale, again for each.

Nothing else that is chosen is judged by the data that it was chosen on. A fit that is stopped
before the end results in the best blend of the trial fits so far.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from nearfar.learners.fitting import (
    Data,
    FitMethod,
    follow,
    learn,
    restrict,
    samples_rows,
    try_rows,
)
from nearfar.learners.problem import MetricBuilder, Problem
from nearfar.learners.selection.choice import EXACT_ROWS, Selection, Trial, best_choice
from nearfar.learners.selection.expectation import (
    Expected,
    Fold,
    Votes,
    expect_error,
    expect_judgements,
    expect_numbers,
    expect_ranking,
)
from nearfar.learners.selection.held_out import (
    FoundRows,
    Goal,
    Part,
    Validation,
    held_out_parts,
    mean_squared_distance,
    optimal_weights,
    sample,
)
from nearfar.measures.neighbor_votes import (
    DEFAULT_NEIGHBORS,
    HeldOutVotes,
    SoftVotes,
    best_number,
)
from nearfar.metrics.feature_maps import moved
from nearfar.metrics.metric import Metric
from nearfar.runtime.history import History, Iteration, Iterations
from nearfar.runtime.progress import OutOfTimeError, WorkClock, deadline, early_stop
from nearfar.runtime.threads import ThreadExecutor
from nearfar.supervision import Split, Supervision
from nearfar.typing import Floats, Matrix

# What is put aside: more makes the expectation sharper and the trial metrics worse, and from fewer
# rows or constraints an interval says nothing.
_OUTER_SHARE = 0.25
_SMALLEST_OUTER = 20

# Share that a trial fit holds out, and how much is enough: the standard error of a share of 400 is
# at most 2.5 %. Small sets are held out part by part until all of them were.
_INNER_SHARE = 0.25
_ENOUGH = 400

# How much is put aside in turn at most, and what is enough before: every part costs a search of its
# own, about as long as the fit itself.
_MOST_OUTER = 2
_ENOUGH_OUTER = 200
_ENOUGH_CLASSES = 30

# Rows of trial fits and of the outer part; their cost is bounded whatever the size of the data.
_MAX_TRIAL_ROWS = 2000
_MAX_OUTER_ROWS = 2000

# Share of the budget for cross-fitting; two fits of the blend follow.
_SEARCH_SHARE = 0.45

# Up to this number of rows a fit hardly gains from a second thread, and candidates share them out;
# so they do where a part of many rows is enough.
_SMALL_ROWS = 4000

# No fit gets less time: it would end after its first iteration.
_LEAST_SECONDS = 0.05

# A trial fit without an iteration is abandoned after this multiple of its share of the time.
_PATIENCE = 3.0

# Cost of a fit grows like the number of rows to this power; between one and two.
_COST_EXPONENT = 1.5

# A candidate with a smaller share changes the blend less than noise does, but costs two fits.
_SMALLEST_WEIGHT = 0.02

_NO_TIME, _TOO_SLOW = "no time left", "too slow"
EUCLIDEAN = "Euclidean"
"""Name of Euclidean distance among the candidates."""


def outer_splits(
    supervision: Supervision, validation: Validation, seed: int, most: int | None
) -> list[Split]:
    """Put parts aside, `most` of them, or until that is enough; none if there are too few data."""
    found: list[Split] = []
    n_unseen = 0
    enough = np.inf if most is not None else _ENOUGH_OUTER
    enough_classes = np.inf if most is not None else _ENOUGH_CLASSES
    most = _MOST_OUTER if most is None else most
    random_state = np.random.RandomState(seed)
    for split in supervision.split(round(1 / _OUTER_SHARE), random_state, by=validation):
        whole = split.whole_classes
        if len(found) == most or n_unseen >= (enough_classes if whole else enough):
            break
        usable = len(split.unseen) >= _SMALLEST_OUTER and split.known.can_teach
        if usable and (supervision.kind != "pairs" or split.unseen.can_teach):
            found.append(split)
            n_unseen += len(np.unique(split.unseen.codes) if whole else split.unseen)
        if found and supervision.listed:
            break
    return found


@dataclass(frozen=True, eq=False)
class Blend:
    """A weighted sum of metrics of scaled points.

    Attributes
    ----------
    factor: shape (rank, n_features). Factor of the sum of the linear ones.
    bent: The others.
    """

    factor: Matrix
    bent: list[Metric]

    def metric(self, builder: MetricBuilder) -> Metric:
        """Return the sum as a metric in the units of X."""
        linear = builder.build(self.factor)
        terms = [] if self.bent and linear.is_zero else [linear]
        for each in self.bent:
            there = moved(each.feature_map, builder.center, builder.scale)
            terms.append(
                Metric(each.L, linear.feature_names, None, there, unit_rows=builder.unit_rows)
            )
        return terms[0] if len(terms) == 1 else Metric.sum(terms)


@dataclass
class Candidate:
    """A learner, and what became of it.

    Attributes
    ----------
    method: None for Euclidean distance.
    choice: How far to go, as the trial fits tell; None if they failed.
    seconds: Duration of the trial fits.
    note: Why it was left out, if it was.
    n_rows: Rows that are enough to learn from; None for all, 0 until it is known.
    """

    name: str
    method: FitMethod | None
    choice: Selection | None = None
    seconds: float = 0.0
    weight: float = 0.0
    note: str = ""
    n_rows: int | None = 0

    @property
    def tried(self) -> Selection:
        """The choice of a candidate whose trial fits succeeded."""
        assert self.choice is not None
        return self.choice

    @property
    def value(self) -> float:
        """Mean log-likelihood of held-out data under the candidate and Euclidean distance."""
        return -math.inf if self.choice is None else self.choice.value


class AutoProblem(Problem):
    """Candidates on scaled points.

    Parameters
    ----------
    outer: What to learn from and what is put aside, to tell what to expect; None for all
        rows.
    linear: Whether the blend must be a linear map.

    Attributes
    ----------
    blend_of_known: The blend that was learned from what was not put aside.
    best_votes: How neighbours vote best on held-out rows, without and with learning: how many
        with whole votes, and soft votes.
    seconds: How long everything up to that blend took.
    clock: Seconds since the fit began.
    """

    unit = 1.0

    def __init__(
        self,
        methods: Mapping[str, FitMethod],
        Z: Floats,
        supervision: Supervision,
        *,
        goal: Goal,
        validation: Validation,
        budget: float,
        seed: int,
        outer: Split | None,
        linear: bool,
    ) -> None:
        self.euclidean = Candidate(EUCLIDEAN, None, weight=1.0)
        self.candidates = [Candidate(name, method) for name, method in methods.items()]
        self.Z, self.supervision, self.goal, self.validation = Z, supervision, goal, validation
        self.budget, self.seed = budget, seed
        self.max_iter = len(methods) + 1
        self.outer, self.linear = outer, linear
        self.parts: list[Part] = []
        self.priors: list[Floats] = []
        self.blend_of_known: Blend | None = None
        self.best_votes: Votes = (DEFAULT_NEIGHBORS, None), (DEFAULT_NEIGHBORS, None)
        self.seconds = 0.0
        self.clock = WorkClock()

    def solve(self) -> Iterations:
        """Try the candidates, find their weights, and blend them."""
        clock = self.clock = WorkClock()
        every = Data(self.Z, self.supervision)
        inner = every
        if self.outer is not None:
            inner = Data(self.Z[self.outer.rows], self.outer.known)
        self.parts = list(
            held_out_parts(
                inner.X,
                inner.supervision,
                fraction=_INNER_SHARE,
                validation=self.validation,
                random_state=np.random.RandomState(self.seed),
                goal=self.goal,
                enough=_ENOUGH,
                max_rows=_MAX_TRIAL_ROWS,
            )
        )
        euclidean = Metric.identity(inner.X.shape[1])
        for part in self.parts:
            size = mean_squared_distance(euclidean, inner.X[part.rows])
            self.priors.append(part.held_out.table(euclidean) / (size or 1.0))
        best = math.inf

        def attempts() -> Iterator[tuple[Candidate, Floats, float]]:
            """Yield candidates as long as there is time for them."""
            for candidate in self.candidates if self.parts else []:
                left = _SEARCH_SHARE * self.budget - clock()
                if left < _LEAST_SECONDS:
                    candidate.note = _NO_TIME
                else:
                    yield candidate, inner.X, left / 2

        # Small fits do not keep several threads busy; several of them do.
        with _quietly(), closing(ThreadExecutor().map(self._try, attempts())) as tries:
            for candidate, (choice, note, seconds) in zip(self.candidates, tries, strict=False):
                candidate.choice, candidate.note, candidate.seconds = choice, note, seconds
                if choice is not None:
                    best = min(best, -candidate.value)
                yield Iteration(best, payload=self._tried())
        chosen = self._find_weights(self._tried())
        self.best_votes = self._find_votes([]), self._find_votes(chosen)
        if self.outer is not None:
            self.blend_of_known = self._blend(chosen, inner, (self.budget - clock()) / 2)
        self.seconds = clock()
        blend = self._blend(chosen, every, max(self.budget - clock(), _LEAST_SECONDS))
        yield Iteration(best if math.isfinite(best) else 0.0, payload=blend)
        return "blended"

    def _tried(self) -> list[Candidate]:
        return [candidate for candidate in self.candidates if candidate.choice is not None]

    def metric(self, history: History, builder: MetricBuilder) -> Metric:
        """Return the blend, or that of the trial fits so far if the fit was stopped early."""
        blend = history[-1].payload
        if not isinstance(blend, Blend):
            chosen = self._find_weights(blend)
            terms = [(each.tried.stages[0].metric, each.weight) for each in chosen]
            blend = self._sum(terms, self.Z)
        return blend.metric(builder)

    def _sum(self, terms: list[tuple[Any, float]], Z: Floats) -> Blend:
        """Return the weighted sum of metrics and of Euclidean distance."""
        factors, bent = [], []
        for metric, weight in [(Metric.identity(Z.shape[1]), self.euclidean.weight), *terms]:
            size = mean_squared_distance(metric, Z)
            L = metric.L * (math.sqrt(weight / size) if size > 0 else 0.0)
            if metric.is_linear:
                factors.append(L)
            else:
                bent.append(Metric(L, feature_map=metric.feature_map))
        return Blend(np.vstack(factors), bent)

    def _try(
        self, candidate: Candidate, Z: Floats, seconds: float
    ) -> tuple[Selection | None, str, float]:
        """Fit a candidate to the parts, within some seconds."""
        assert candidate.method is not None
        choice, note, clock = None, "", WorkClock()
        try:
            with (
                deadline(_PATIENCE * seconds, clock=clock),
                early_stop(seconds, clock=clock),
                ExitStack() as stack,
            ):
                trials = []
                for part in self.parts:
                    rows = Data(Z[part.rows], part.supervision)
                    prior, path = follow(candidate.method, rows, "unit", self.seed)
                    stack.enter_context(closing(path))
                    trials.append(Trial(rows.X, part.held_out, prior, self._addable(path)))
                choice = best_choice(trials, candidate.method.learner.patience)
        except OutOfTimeError:
            note = _TOO_SLOW
        except ValueError as error:
            note = str(error)
        return choice, note, clock()

    def _addable(self, metrics: Iterator[tuple[int, Any]]) -> Iterator[tuple[int, Metric]]:
        """Refuse metrics with a gate, which cannot be added up, and those that must not bend."""
        for number, metric in metrics:
            if not isinstance(metric, Metric) or len(metric.parts) > 1:
                raise ValueError("Metrics with a gate cannot be added up.")
            if self.linear and not metric.is_linear:
                raise ValueError("The metric is not linear.")
            yield number, metric

    def _find_weights(self, tried: list[Candidate]) -> list[Candidate]:
        """Set the weights of the candidates and of Euclidean distance; return those with one."""
        for candidate in self.candidates:
            candidate.weight = 0.0
        self.euclidean.weight = 1.0
        chosen = tried
        start = None
        while chosen:
            tables = [[stage.tables[1] for stage in each.tried.stages] for each in chosen]
            weights, _ = optimal_weights(
                [
                    (part.held_out, np.stack([prior, *own]))
                    for part, prior, *own in zip(self.parts, self.priors, *tables, strict=True)
                ],
                start,
            )
            total = float(weights.sum())
            if total == 0:
                return []
            shares = weights / total
            kept = shares[1:] >= _SMALLEST_WEIGHT
            if kept.all():
                self.euclidean.weight = float(shares[0])
                for candidate, share in zip(chosen, shares[1:], strict=True):
                    candidate.weight = float(share)
                return chosen
            chosen = [each for each, keep in zip(chosen, kept, strict=True) if keep]
            start = weights[np.append(True, kept)]
        return []

    def _find_votes(self, chosen: list[Candidate]) -> tuple[int, SoftVotes | None]:
        """Return how neighbours vote best for held-out rows, by the blend of trial fits."""
        votes: list[HeldOutVotes] = []
        for number, (part, prior) in enumerate(zip(self.parts, self.priors, strict=True)):
            found = part.held_out
            if not isinstance(found, FoundRows) or getattr(found, "own", None) is not None:
                break
            H = self.euclidean.weight * prior if chosen else prior
            for each in chosen:
                H = H + each.weight * each.tried.stages[number].tables[1]
            votes.append(found.votes(H))
        if not votes:
            return DEFAULT_NEIGHBORS, None
        numbers, weights = votes[0].numbers, [each.weight for each in votes]
        whole = best_number([(v.found, v.actual) for v in votes], numbers=numbers, weights=weights)
        return whole, SoftVotes.choose(votes)

    def _blend(self, chosen: list[Candidate], data: Data, seconds: float) -> Blend:
        """Fit the chosen candidates, and return their weighted sum."""
        n_rows = len(data.X)
        n_trial = min(_MAX_TRIAL_ROWS, n_rows)
        # If there is no time for fits to all labelled rows, a sample of them is learned from.
        if chosen and not self.supervision.listed:
            cost = sum(each.seconds / len(self.parts) for each in chosen)
            growth = (max(seconds, 0.0) / max(cost, 1e-9)) ** (1 / _COST_EXPONENT)
            most = max(n_trial, int(n_trial * growth))
            random_state = np.random.RandomState(self.seed)
            classes = None if data.supervision.kind == "numbers" else data.supervision.codes
            rows = sample(np.arange(n_rows), most, random_state, classes)
            data = data if most >= n_rows else data.restrict(rows)
        clock = WorkClock()

        def fit(candidate: Candidate, number: int) -> Any:
            left = (seconds - clock()) / max(len(chosen) - number, 1)
            method, selection = candidate.method, candidate.tried
            assert method is not None
            rows = data
            try:
                with early_stop(max(left, _LEAST_SECONDS), clock=clock):
                    if samples_rows(data, method):
                        if candidate.n_rows == 0:
                            candidate.n_rows = try_rows(
                                data, "unit", method, self.seed, given=selection
                            ).n_rows
                        rows = restrict(data, candidate.n_rows, self.seed)
                    return learn(rows, "unit", method, selection, self.seed)
            except ValueError as error:
                candidate.note, candidate.weight = str(error), 0.0
                return None

        tasks = list(zip(chosen, range(len(chosen)), strict=True))
        with _quietly():
            if not _SMALL_ROWS < n_rows <= EXACT_ROWS:
                metrics = list(ThreadExecutor().map(fit, tasks))
            else:
                metrics = [fit(*task) for task in tasks]
        terms = [(metric, each) for metric, (each, _) in zip(metrics, tasks, strict=True) if metric]
        chosen[:] = [candidate for _, candidate in terms]
        # The others have the share of those that failed.
        total = self.euclidean.weight + sum(candidate.weight for candidate in chosen)
        self.euclidean.weight = self.euclidean.weight / total if total > 0 else 1.0
        for candidate in chosen:
            candidate.weight /= total
        return self._sum([(metric, candidate.weight) for metric, candidate in terms], data.X)

    def without_learning(self) -> Blend:
        """Return Euclidean distance alone, which has all the weight from now on."""
        for candidate in self.candidates:
            candidate.weight = 0.0
        self.euclidean.weight = 1.0
        self.best_votes = self.best_votes[0], self.best_votes[0]
        return self._sum([], self.Z)

    def expected(
        self, X: Floats, folds: Sequence[tuple[tuple[Metric, Metric], Split]]
    ) -> tuple[Expected, HeldOutVotes | None]:
        """Return what to expect on new data, and the neighbours of unseen rows that vote.

        Each fold has the metrics of rows of X without and with learning, and what they were
        learned from.
        """
        metrics, first = folds[0]
        unseen: Any = first.unseen
        if unseen.listed:
            return expect_judgements(metrics, X, unseen.given), None
        numbers, groups = unseen.kind == "numbers", self.supervision.groups
        y = self.supervision.given if numbers else self.supervision.codes
        parts = []
        for metrics, split in folds:
            random_state = np.random.RandomState(self.seed)
            rows = sample(split.unseen_rows, _MAX_OUTER_ROWS, random_state)
            parts.append(Fold(metrics, X, y, split.rows, rows, groups))
        voted = None
        if unseen.kind in ("labels", "numbers") and not first.whole_classes:
            voted = HeldOutVotes.join([fold.votes[1] for fold in parts])
        if numbers:
            return expect_numbers(parts, len(X), self.best_votes), voted
        if self.goal == "ranking" or first.whole_classes:
            return expect_ranking(parts, whole_classes=first.whole_classes), voted
        return expect_error(parts, len(X), self.best_votes), voted

    def warning_message(self, history: History, metric: Metric) -> str:
        """Warn of equal rows, and of candidates that there was no time for."""
        if not self.Z.any():
            return "All rows are equal: every distance is zero, and there is nothing to learn."
        names = [each.name for each in self.candidates if each.note in (_NO_TIME, _TOO_SLOW)]
        if not names:
            return ""
        return (
            f"{len(names)} of {len(self.candidates)} candidates were left out, because the budget "
            f"of {self.budget:g} seconds was too short: {', '.join(names)}."
        )

    def attributes(self, history: History, builder: MetricBuilder) -> dict[str, object]:
        """Weights and leaderboard."""
        everyone = sorted(self.candidates, key=lambda each: -each.value)
        weights = {each.name: each.weight for each in everyone if each.weight > 0 or each.choice}
        return {
            "n_neighbors_": self.best_votes[1][0],
            "votes_": self.best_votes[1][1],
            "weights_": {EUCLIDEAN: self.euclidean.weight, **weights},
            "leaderboard_": [
                {
                    "name": each.name,
                    "log_likelihood": each.value,
                    **({} if each.choice is None else {"n_iter": each.choice.n_tried}),
                    "weight": each.weight,
                    "seconds": each.seconds,
                    "note": each.note,
                }
                for each in everyone
            ],
        }


@contextmanager
def _quietly() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield
