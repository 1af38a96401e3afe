"""Spends a time budget: every method gets a first result, and the better ones the rest.

Successive halving over the stages of `Splits`: small samples of one fold, that fold, the others.

1. First results. Every method runs on the first cell. Learners share a part of the budget; what
   one does not need is left to the next ones. A fit that takes more than its share is stopped
   early, and its metric so far is scored.
2. Halving. At each further stage the better half of the learners goes on, cheapest first, as far
   as the predicted time fits (`cost`). Ranks are those by error or by MAP@R on the last stage,
   whichever is better; by judgements there is one.
3. The rest of the time goes to the others, best first, wherever the predicted time fits.

Reference classifiers have a small part of the budget: the first cell, then whole folds as far as
the predicted time fits.

Baselines and plain methods take part in every stage, before the learners. Given enough time, all
methods finish all folds, and the result is the same as without a budget.

A learner that plans its time (`Method.plans_time`) is not stopped. It has the time that the others
are not expected to need, at least an equal share, in equal parts for each of its fits.
"""

from __future__ import annotations

import math

import numpy as np

from nearfar.comparison.compared_methods import Method
from nearfar.comparison.fit_cost import CostModel
from nearfar.comparison.splits import Cell
from nearfar.comparison.trials import TrialRunner
from nearfar.evaluate.measures import measures_for

_RESERVED_SHARES = 1.0
"""Shares that are kept for later, per learner, while learners get their first results."""
_SHARE_OF_REST = 0.5
"""Share of the remaining time that a stage may use, unless it is the last, and a plain method."""
_SAFETY_FACTOR = 1.3
"""Fits may take longer than predicted by this factor."""
_GRACE_FACTOR = 3.0
"""A fit that does not stop early is given up after this multiple of its share."""
_CLASSIFIER_SHARE = 0.1
"""Part of the budget for reference classifiers."""
_PLANNED_SHARE = 0.8
"""Part of the remaining time that learners which plan their time divide among their fits."""


def run_within(runner: TrialRunner, budget: float) -> None:
    """Run as much as the budget in seconds allows; the baselines run at least once."""
    _Schedule(runner, budget).run()


class _Schedule:
    def __init__(self, runner: TrialRunner, budget: float) -> None:
        self.runner, self.costs = runner, CostModel()
        self.stages = runner.splits.stages
        self.end = runner.now() + budget
        self.n_sharing = len(self._running("learned"))
        self.planned: dict[str, float] = {}
        runner.total = len(runner.running()) * sum(len(stage) for stage in self.stages)

    @property
    def left(self) -> float:
        return self.end - self.runner.now()

    def run(self) -> None:
        self._first_results()
        self._classifiers()
        kept = self._learners(0)
        for number in range(1, len(self.stages)):
            self._simple_methods(number)
            kept = self._best_first(kept, number - 1)[: math.ceil(len(kept) / 2)]
            self.n_sharing = len(kept)
            last = number == len(self.stages) - 1
            self._advance(kept, number, self.left * (1 if last else _SHARE_OF_REST))
            kept = [method for method in kept if self._reached(method) >= number]
        self.n_sharing = 1
        self._use_rest()

    def _first_results(self) -> None:
        self._simple_methods(0)
        self._share(self._running("learned"))
        # Those that did not get to their first iteration have a second, longer try.
        self._share([m for m in self._running("learned") if not self.runner.trials[m.name].results])

    def _share(self, learners: list[Method]) -> None:
        """Run learners on the first cell, each within its share of half of the time.

        Learners that plan their time come last, when it is known what the others need.
        """
        learners = sorted(learners, key=lambda method: method.plans_time)
        for waiting, method in zip(range(len(learners), 0, -1), learners, strict=True):
            share = self.left / (waiting + _RESERVED_SHARES * len(learners))
            if method.plans_time:
                share = self._planned(method, self.stages[0][0])
            limit = min(_GRACE_FACTOR * share, self.left)
            self._run(method, self.stages[0][0], limit, soft_limit=share)

    def _simple_methods(self, number: int) -> None:
        """Run baselines and plain methods on a stage; baselines on the first in any case."""
        for cell in self.stages[number]:
            for method in self._running("baseline"):
                limit = math.inf if number == 0 else self.left
                self._run(method, cell, limit)
        for method in self._running("plain"):
            for cell in self.stages[number]:
                self._run(method, cell, self.left * _SHARE_OF_REST)

    def _classifiers(self) -> None:
        """Run the reference classifiers on the first cell, and on folds that fit their time."""
        end = self.runner.now() + _CLASSIFIER_SHARE * self.left
        for cell in dict.fromkeys([self.stages[0][0], *self.runner.splits.full]):
            for method in self._running("classifier"):
                left = end - self.runner.now()
                if self._predicted_cell(method, cell) * _SAFETY_FACTOR <= left:
                    self._run(method, cell, left)

    def _advance(self, methods: list[Method], number: int, seconds: float) -> None:
        """Run methods on a stage: cheapest first, or if it is the last, best first."""
        end = self.runner.now() + seconds
        if number < len(self.stages) - 1:
            methods = sorted(methods, key=lambda method: self._predicted(method, number))
        for method in methods:
            if self._predicted(method, number) * _SAFETY_FACTOR <= end - self.runner.now():
                self._run_stage(method, number, end)

    def _use_rest(self) -> None:
        """Run whole stages that fit into the remaining time, then single cells."""
        for whole in (True, False):
            progressed = True
            while progressed:
                progressed = any(self._go_on(method, whole) for method in self._unfinished())

    def _go_on(self, method: Method, whole: bool) -> bool:
        """Run the next stage of a method, or as many cells of it as fit; tell if it ran."""
        number = self._reached(method) + 1
        cells = [c for c in self.stages[number] if not self.runner.trials[method.name].has([c])]
        needed = sum(self._predicted_cell(method, c) for c in (cells if whole else cells[:1]))
        if self.left <= 0 or needed * _SAFETY_FACTOR > self.left:
            return False
        return self._run_stage(method, number, self.end, cells if whole else cells[:1])

    def _run_stage(
        self, method: Method, number: int, end: float, cells: list[Cell] | None = None
    ) -> bool:
        for cell in self.stages[number] if cells is None else cells:
            if not self._run(method, cell, end - self.runner.now()):
                return False
        return True

    def _run(
        self, method: Method, cell: Cell, limit: float, *, soft_limit: float = math.inf
    ) -> bool:
        """Run a method on a cell, and note the time it took."""
        if limit <= 0:
            return False
        if method.plans_time:
            soft_limit = self._plan(method, cell)
        start = self.runner.now()
        found = self.runner.run(method, cell, limit=limit, soft_limit=soft_limit)
        seconds = self.runner.now() - start
        if found and self.runner.trials[method.name].has([cell]):
            self.costs.observe(method.name, cell.n_train, seconds)
        else:
            self.costs.observe_unfinished(method.name, cell.n_train, seconds)
        return found

    def _predicted(self, method: Method, number: int) -> float:
        return sum(self._predicted_cell(method, cell) for cell in self.stages[number])

    def _predicted_cell(self, method: Method, cell: Cell) -> float:
        predicted = self.costs.predict(method.name, cell.n_train)
        return min(predicted, self._planned(method, cell)) if method.plans_time else predicted

    def _plan(self, method: Method, cell: Cell) -> float:
        """Fix the seconds for the next fit of a learner that plans its time."""
        seconds = self._planned(method, cell)
        if not self.runner.splits.is_sample(cell):
            self.planned.setdefault(method.name, seconds)
        return seconds

    def _planned(self, method: Method, cell: Cell) -> float:
        """Seconds for a fit of a learner that plans its time.

        The learner has what the others are not expected to need, and at least an equal share. No
        fold has more than the first.
        """
        left, learners = max(self.left, 0.0), self._running("learned")
        others = [learner for learner in learners if not learner.plans_time]
        needed = sum(self._predicted_cell(m, c) for m in others for c in self._cells_left(m))
        spare = (left - _SAFETY_FACTOR * needed) / max(len(learners) - len(others), 1)
        share = max(spare, left / max(self.n_sharing, 1))
        seconds = _PLANNED_SHARE * share / max(len(self._cells_left(method)), 1)
        first = math.inf if cell.fold == 0 else self.planned.get(method.name, math.inf)
        return min(seconds, first)

    def _cells_left(self, method: Method) -> list[Cell]:
        trials = self.runner.trials[method.name]
        return [cell for stage in self.stages for cell in stage if not trials.has([cell])]

    def _running(self, kind: str) -> list[Method]:
        return [method for method in self.runner.running() if method.kind == kind]

    def _learners(self, number: int) -> list[Method]:
        """Learners that finished a stage."""
        return [m for m in self._running("learned") if self._reached(m) >= number]

    def _reached(self, method: Method) -> int:
        """The last stage that a method finished; -1 if none."""
        trials = self.runner.trials[method.name]
        done = [n for n, stage in enumerate(self.stages) if trials.has(stage)]
        return max(done, default=-1)

    def _unfinished(self) -> list[Method]:
        """Methods that could go on, the most promising first."""
        last = len(self.stages) - 1
        ordered = [
            method
            for number in range(last - 1, -1, -1)
            for method in self._best_first(
                [m for m in self._running("learned") if self._reached(m) == number], number
            )
        ]
        without = [m for m in self.runner.running() if self._reached(m) < 0]
        plain = [m for m in self._running("plain") if 0 <= self._reached(m) < last]
        classifiers = [m for m in self._running("classifier") if 0 <= self._reached(m) < last]
        return plain + ordered + without + classifiers

    def _best_first(self, methods: list[Method], number: int) -> list[Method]:
        """Sort by the best rank on the first cell of a stage, over the goals."""
        cell = self.stages[number][0]
        scores = {m.name: self.runner.trials[m.name].results[cell].scores for m in methods}

        def ranked(measure: str) -> list[Method]:
            # Losses that are not known come last.
            return sorted(methods, key=lambda m: np.nan_to_num(scores[m.name].loss(measure), nan=1))

        measures = measures_for(self.runner.task.supervision)
        orders = [ranked(measure.name) for measure in measures if measure.goal]
        return sorted(methods, key=lambda method: min(order.index(method) for order in orders))
