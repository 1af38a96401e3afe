"""Methods by the names that the command line knows: learners, simple methods, and ``best``.

Without ``--method``, and with ``best``, the verdict of a comparison chooses the method. A method
that is named is used, whatever the verdict.
"""

from __future__ import annotations

import ast
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sklearn.base import clone

from nearfar.cli.errors import UserError
from nearfar.cli.fit_checkpoint import FitCheckpoint
from nearfar.cli.terminal import bars, convergence_notes
from nearfar.comparison import Comparison, Method, default_methods, learned_method
from nearfar.comparison.compared_methods import ALL, Learners, seeded
from nearfar.constraints import Kind, Mining, kind_of
from nearfar.learners.base import MetricLearner, known_learners
from nearfar.learners.classic import LDA, InverseCovariance
from nearfar.learners.selection.auto import AutoMetric
from nearfar.learners.selection.auto_problem import EUCLIDEAN
from nearfar.learners.selection.expectation import Expected
from nearfar.metrics.metric import Metric
from nearfar.runtime.notes import note
from nearfar.runtime.suggestions import did_you_mean
from nearfar.tables.row_input import InputRows

AUTO, BEST = "autometric", "best"

LEARNERS = {
    name.lower(): kind
    for name, kind in known_learners().items()
    if kind not in (InverseCovariance, LDA)
}
"""Learners; the inverse covariance and LDA are plain methods."""

SIMPLE_METHODS = {
    re.sub(r"\W+", "-", method.name.lower()).strip("-"): method
    for method in default_methods([])
    if method.gives_metric
}
"""Baselines, and plain methods that give a metric."""
METHOD_NAMES = (AUTO, *(name for name in LEARNERS if name != AUTO), *SIMPLE_METHODS, BEST)


class Goal(StrEnum):
    """What a metric is for."""

    classification = "classification"
    ranking = "ranking"


@dataclass(frozen=True)
class MethodChoice:
    """What ``--method`` names.

    Attributes
    ----------
    name : str
        Name on the command line.
    method : Method or None
        The method; None for ``best``, the best method of a comparison.
    named : bool
        Whether the method is used in any case. Otherwise the verdict chooses.
    """

    name: str
    method: Method | None
    named: bool = True

    @property
    def learner(self) -> MetricLearner | None:
        """The learner, if the method is one."""
        return None if self.method is None else self.method.estimator

    @property
    def needs_numbers(self) -> bool:
        """Whether labels are numbers to predict, not classes."""
        return self.learner is not None and "numbers" in self.learner.supervision

    @property
    def learners(self) -> Learners:
        """Learners to compare with plain methods; None means the usual ones."""
        if self.method is None:
            return None
        return {} if self.learner is None else {self.method.name: self.learner}

    def kind_of(self, supervision: Any) -> Kind:
        """Return what the method learns from if it is given this."""
        return kind_of(supervision, numbers=self.needs_numbers)

    def check(self, supervision: Any) -> None:
        """Raise UserError if the method cannot learn from this kind of supervision."""
        if self.method is None:
            return
        known, kind = self.method.supervision, self.kind_of(supervision)
        if kind not in known:
            raise UserError(
                f"--method {self.name} learns from {' or '.join(known)}, not from {kind}; "
                "choose another method."
            )

    def select(
        self, comparison: Comparison | None, goal: str, *, strict: bool = False
    ) -> Method | None:
        """Return the method to learn with; None if there is none to recommend.

        Parameters
        ----------
        comparison : Comparison or None
        goal : str
            One of `comparison.goals`.
        strict : bool
            Whether the method must be significantly better than the baseline.
        """
        if comparison is None:
            return self.method
        compared = comparison.by_goal(goal)
        found = compared.recommended
        method = None if found is None else found.method
        if self.named and self.method is not None:
            found, method = comparison.get(self.method.name), self.method
        if strict and (found is None or compared.mark(found) != "+"):
            return None
        return method


def find_method(
    name: str | None, *, seed: int = 0, max_iter: int | None = None, settings: Sequence[str] = ()
) -> MethodChoice:
    """Find a method by its name, or by how the name begins.

    Parameters
    ----------
    name : str or None
        None for AutoMetric, unless the verdict recommends a simple method.
    seed : int
        Seed of a learner.
    max_iter : int, optional
        Most iterations of a learner.
    settings : sequence of str
        Other parameters of a learner, as NAME=VALUE.

    Examples
    --------
    >>> from nearfar.cli.method_options import find_method
    >>> find_method("boost").name
    'boostmetric'
    >>> find_method("auto").method.name
    'AutoMetric'
    """
    key = AUTO if name is None else _full_name(name)
    if key not in LEARNERS:
        if max_iter is not None or settings:
            raise UserError(
                f"--max-iter, --scale and --set are for learners; {key} has no parameters."
            )
        return MethodChoice(key, SIMPLE_METHODS.get(key), named=key != BEST)
    learner = seeded(LEARNERS[key], seed)
    parameters = learner.get_params()
    if max_iter is not None:
        if "max_iter" not in parameters:
            raise UserError(f"--max-iter is for learners with iterations; {key} has none.")
        learner.set_params(max_iter=max_iter)
    for setting in settings:
        parameter, equals, value = setting.partition("=")
        if not equals or parameter not in parameters:
            wrong = f"there is no parameter {parameter!r}" if equals else "write NAME=VALUE"
            hint = did_you_mean(parameter, parameters)
            names = ", ".join(sorted(parameters))
            raise UserError(f"--set {setting}: {wrong}; {key} has {names}.{hint}")
        learner.set_params(**{parameter: _value(value)})
        try:
            learner._check_parameters()
        except ValueError as error:
            raise UserError(f"--set {setting}: {error}") from error
    method = learned_method(type(learner).__name__, learner)
    return MethodChoice(key, method, named=name is not None)


def name_of(method: Method) -> str | None:
    """Return the name of a method on the command line; None if it has none.

    Examples
    --------
    >>> from nearfar.cli.method_options import name_of
    >>> from nearfar.comparison import default_methods
    >>> [name_of(method) for method in default_methods(["NCA"])][:4]
    ['euclidean-unscaled', 'euclidean-standardised', 'cosine', None]
    """
    simple = {known.name: name for name, known in SIMPLE_METHODS.items()}
    learned = type(method.estimator).__name__.lower()
    return simple.get(method.name, learned if learned in LEARNERS else None)


def settings_beside(name: str, method: Method) -> list[str] | None:
    """Return what a learner has other than by default, as values of ``--set``.

    Examples
    --------
    >>> from nearfar.cli.method_options import find_method, settings_beside
    >>> settings_beside("boostmetric", find_method("boost").method.for_new_classes())
    ['validation=classes']
    """
    usual = find_method(name, seed=getattr(method.estimator, "random_state", 0) or 0).learner
    if usual is None:
        return None
    plain, given = usual.get_params(), method.estimator.get_params()
    return [f"{key}={value}" for key, value in given.items() if value != plain[key]] or None


def compared_learners(names: Sequence[str], seed: int) -> Learners:
    """Return the learners that several ``--method NAME`` stand for; ``all`` is every one.

    Examples
    --------
    >>> from nearfar.cli.method_options import compared_learners
    >>> list(compared_learners(["nca", "lda"], 0))
    ['NCA']
    """
    if ALL in names:
        return ALL
    found: dict[str, Any] = {}
    for choice in [find_method(name, seed=seed) for name in names or [BEST]]:
        chosen = choice.learners
        if chosen is None:
            return None
        found |= dict(chosen)
    return found


def _full_name(name: str) -> str:
    key = name.lower()
    fitting = [known for known in METHOD_NAMES if known.startswith(key)]
    if key not in fitting and len(fitting) > 1:
        raise UserError(f"{name!r} may be any of {', '.join(fitting)}; write one of them.")
    if not fitting:
        hint = did_you_mean(name, METHOD_NAMES)
        raise UserError(
            f"There is no method {name!r}; choose from {', '.join(METHOD_NAMES)}.{hint}"
        )
    return key if key in fitting else fitting[0]


def _value(text: str) -> Any:
    """Read a Python literal, or text."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


@dataclass(frozen=True)
class MethodFit:
    """A method after learning from all rows.

    Attributes
    ----------
    method : Method
    metric : Metric or None
        None if the method's distance is not a metric.
    seconds : float
    learner : MetricLearner or None
        The fitted learner, if the method is one.
    iterations : int or None
        Its iterations, including those before an interruption.
    """

    method: Method
    metric: Metric | None
    seconds: float
    learner: MetricLearner | None = None
    iterations: int | None = None

    @property
    def stopped(self) -> str | None:
        """Why a learner stopped."""
        return None if self.learner is None else self.learner.history_.stopped

    @property
    def expected(self) -> Expected | None:
        """What to expect on new data, if the learner put some data aside."""
        return getattr(self.learner, "expected_", None)

    @property
    def mining(self) -> Mining | None:
        """How the learner mined triplets from labels, if it did."""
        return getattr(self.learner, "mining_", None)

    @property
    def weights(self) -> dict[str, float] | None:
        """Shares of learners in a blend, the largest first; None if it is not a blend."""
        if not isinstance(self.learner, AutoMetric):
            return None
        weights: dict[str, float] = self.learner.weights_
        return {n: w for n, w in sorted(weights.items(), key=lambda item: -item[1]) if w > 0}

    @property
    def learned_nothing(self) -> bool:
        """Whether a blend is nothing but Euclidean distance."""
        return self.weights is not None and set(self.weights) == {EUCLIDEAN}


def untried_candidates(learner: MetricLearner) -> str:
    """Say which candidates a blend left out, and why; empty if it tried them all.

    Examples
    --------
    >>> from nearfar import AutoMetric
    >>> from nearfar.cli.method_options import untried_candidates
    >>> auto = AutoMetric()
    >>> auto.leaderboard_ = [{"name": "NCA", "note": "no time left"}, {"name": "RCA", "note": ""}]
    >>> untried_candidates(auto)
    'AutoMetric left out NCA (no time left).'
    """
    names: dict[str, list[str]] = {}
    for entry in getattr(learner, "leaderboard_", []):
        if entry["note"]:
            names.setdefault(entry["note"].rstrip("."), []).append(entry["name"])
    parts = [f"{', '.join(group)} ({why})" for why, group in names.items()]
    return f"{type(learner).__name__} left out {'; '.join(parts)}." if parts else ""


def fit_method(
    method: Method,
    rows: InputRows,
    supervision: Any,
    checkpoint: FitCheckpoint,
    seconds: float | None,
) -> MethodFit:
    """Learn from all rows, with progress on the terminal.

    A learner that plans its time takes about `seconds`; others are not limited.
    """
    if seconds is not None and method.plans_time:
        method = method.within(seconds)
    start = time.perf_counter()
    with bars(), convergence_notes():
        if not isinstance(method.estimator, MetricLearner):
            metric = method.learn(rows.X, supervision)
            named = None if metric is None else rows.described(metric)
            return MethodFit(method, named, time.perf_counter() - start)
        learner = clone(method.estimator)
        iterations = checkpoint.fit(learner, rows.X, supervision, rows.described, rows.groups)
    if left_out := untried_candidates(learner):
        note(left_out, warning=True)
    metric = rows.described(learner.metric_)
    return MethodFit(method, metric, time.perf_counter() - start, learner, iterations)
