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
from functools import partial

import numpy as np

from nearfar.comparison.compared_methods import Method
from nearfar.comparison.fit_cost import CostModel
from nearfar.comparison.splits import Cell
from nearfar.comparison.trials import TrialRunner
from nearfar.evaluate.measures import measures_for

# Shares that are kept for later, per learner, while learners get their first results: as much time
# for the better ones as for a first look at all.
_RESERVED_SHARES = 1.0
# Share of the remaining time that a stage may use, unless it is the last, and a plain method. As
# half of the learners goes on, each has about as much time at every stage.
_SHARE_OF_REST = 0.5
# Fits may take longer than predicted by this factor: less would break off fits that are nearly
# done, more would leave time unused.
_SAFETY_FACTOR = 1.3
# A fit that does not stop early is given up after this multiple of its share. It may be within one
# long iteration, whose metric is worth waiting for.
_GRACE_FACTOR = 3.0
# Part of the budget for reference classifiers, which are not what the comparison is about.
_CLASSIFIER_SHARE = 0.1
# Part of the remaining time that learners which plan their time divide among their fits; the rest
# is for scoring, and for plans that take longer.
_PLANNED_SHARE = 0.8


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
        now = self.runner.now
        self._simple_methods(0)
        self._share(self._running("learned"))
        # Those that did not get to their first iteration have a second, longer try.
        self._share([m for m in self._running("learned") if not self.runner.trials[m.name].results])
        # Reference classifiers: the first cell, and folds that fit into their time.
        end = now() + _CLASSIFIER_SHARE * self.left
        for cell in dict.fromkeys([self.stages[0][0], *self.runner.splits.full]):
            for method in self._running("classifier"):
                if self._predicted([cell], method) * _SAFETY_FACTOR <= end - now():
                    self._run(method, cell, end - now())
        learners = [method for method in self._running("learned") if self._reached(method) >= 0]
        for number, stage in enumerate(self.stages[1:], start=1):
            self._simple_methods(number)
            learners = self._best_first(learners, number - 1)[: math.ceil(len(learners) / 2)]
            self.n_sharing = len(learners)
            last = number == len(self.stages) - 1
            end = now() + self.left * (1 if last else _SHARE_OF_REST)
            # Cheapest first; at the last stage, best first.
            order = learners if last else sorted(learners, key=partial(self._predicted, stage))
            for method in order:
                if self._predicted(stage, method) * _SAFETY_FACTOR <= end - now():
                    self._run_cells(method, stage, end)
            learners = [method for method in learners if self._reached(method) >= number]
        # The rest of the time: whole stages that fit into it, then single cells.
        self.n_sharing = 1
        for whole in (True, False):
            while any(self._go_on(method, whole) for method in self._unfinished()):
                pass

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
                self._run(method, cell, math.inf if number == 0 else self.left)
        for method in self._running("plain"):
            for cell in self.stages[number]:
                self._run(method, cell, self.left * _SHARE_OF_REST)

    def _go_on(self, method: Method, whole: bool) -> bool:
        """Run the next stage of a method, or as many cells of it as fit; tell if it ran."""
        stage = self.stages[self._reached(method) + 1]
        cells = [c for c in stage if not self.runner.trials[method.name].has([c])]
        cells = cells if whole else cells[:1]
        needed = self._predicted(cells, method)
        if self.left <= 0 or needed * _SAFETY_FACTOR > self.left:
            return False
        return self._run_cells(method, cells, self.end)

    def _run_cells(self, method: Method, cells: list[Cell], end: float) -> bool:
        """Run a method on cells until one fails, or there is no time; tell if all ran."""
        return all(self._run(method, cell, end - self.runner.now()) for cell in cells)

    def _run(
        self, method: Method, cell: Cell, limit: float, *, soft_limit: float = math.inf
    ) -> bool:
        """Run a method on a cell, and note the time it took."""
        if limit <= 0:
            return False
        if method.plans_time:
            soft_limit = self._planned(method, cell)
            if not self.runner.splits.is_sample(cell):
                # No later fold has more time than the first.
                self.planned.setdefault(method.name, soft_limit)
        start = self.runner.now()
        has_result = self.runner.run(method, cell, limit=limit, soft_limit=soft_limit)
        seconds = self.runner.now() - start
        if has_result and self.runner.trials[method.name].has([cell]):
            self.costs.observe(method.name, cell.n_train, seconds)
        else:
            self.costs.observe_unfinished(method.name, cell.n_train, seconds)
        return has_result

    def _predicted(self, cells: list[Cell], method: Method) -> float:
        """Seconds that a method is expected to take on cells."""
        total = 0.0
        for cell in cells:
            seconds = self.costs.predict(method.name, cell.n_train)
            total += min(seconds, self._planned(method, cell)) if method.plans_time else seconds
        return total

    def _planned(self, method: Method, cell: Cell) -> float:
        """Seconds for a fit of a learner that plans its time.

        The learner has what the others are not expected to need, and at least an equal share. No
        fold has more than the first.
        """
        left, learners = max(self.left, 0.0), self._running("learned")
        others = [learner for learner in learners if not learner.plans_time]
        needed = sum(self._predicted(self._cells_left(method), method) for method in others)
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
