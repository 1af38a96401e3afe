"""Methods by the names that the command line knows: learners, plain methods, and ``auto``."""

from __future__ import annotations

import ast
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sklearn.base import clone

from nearfar.cli.checkpoint import Checkpoint
from nearfar.cli.errors import UserError
from nearfar.cli.rows import Rows
from nearfar.cli.terminal import bars, convergence_notes
from nearfar.comparison import Comparison, Method, default_methods, learned_method
from nearfar.learners.auto import known_learners
from nearfar.learners.base import MetricLearner
from nearfar.learners.classic import InverseCovariance
from nearfar.metrics.metric import Metric

AUTO = "auto"
LEARNERS = {
    name.lower(): kind for name, kind in known_learners().items() if kind is not InverseCovariance
}
"""Learners; the inverse covariance is a plain method."""

PLAIN_METHODS = {
    method.name.lower().replace(" ", "-"): method
    for method in default_methods([])
    if method.kind == "plain" and method.gives_metric
}
"""Plain methods that give a metric."""
METHOD_NAMES = (*LEARNERS, *PLAIN_METHODS, AUTO)


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
        The method; None for ``auto``, which takes the best method of a comparison.
    """

    name: str
    method: Method | None

    @property
    def learner(self) -> MetricLearner | None:
        """The learner, if the method is one."""
        return None if self.method is None else self.method.estimator

    @property
    def needs_labels(self) -> bool:
        """Whether triplets and pairs are not enough."""
        return self.learner is None

    @property
    def needs_numbers(self) -> bool:
        """Whether labels are numbers to predict, not classes."""
        return self.learner is not None and "numbers" in self.learner.supervision

    @property
    def learners(self) -> Mapping[str, Any] | None:
        """Learners to compare with plain methods; None means all of them."""
        if self.method is None:
            return None
        return {} if self.learner is None else {self.method.name: self.learner}

    def select(self, comparison: Comparison | None, goal: Goal) -> Method | None:
        """Return the method to learn with; None if ``auto`` finds nothing better than Euclidean."""
        if self.method is not None or comparison is None:
            return self.method
        winner = comparison.by_goal(goal.value).winner
        return None if winner is None else winner.method


def find_method(
    name: str, *, seed: int = 0, max_iter: int | None = None, settings: Sequence[str] = ()
) -> MethodChoice:
    """Find a method by its name, or by how the name begins.

    Parameters
    ----------
    name : str
    seed : int
        Seed of a learner.
    max_iter : int, optional
        Most iterations of a learner.
    settings : sequence of str
        Other parameters of a learner, as NAME=VALUE.

    Examples
    --------
    >>> from nearfar.cli.methods import find_method
    >>> find_method("boost").name
    'boostmetric'
    >>> find_method("auto").needs_labels
    True
    """
    key = _full_name(name)
    if key not in LEARNERS:
        if max_iter is not None or settings:
            raise UserError(f"--max-iter and --set are for learners; {key} has no parameters.")
        return MethodChoice(key, PLAIN_METHODS.get(key))
    learner = LEARNERS[key]()
    parameters = learner.get_params()
    if "random_state" in parameters:
        learner.set_params(random_state=seed)
    if max_iter is not None:
        if "max_iter" not in parameters:
            raise UserError(f"--max-iter is for iterative learners; {key} is a closed form.")
        learner.set_params(max_iter=max_iter)
    for setting in settings:
        parameter, equals, value = setting.partition("=")
        if not equals or parameter not in parameters:
            wrong = f"there is no parameter {parameter!r}" if equals else "write NAME=VALUE"
            raise UserError(f"--set {setting}: {wrong}; {key} has {', '.join(sorted(parameters))}.")
        learner.set_params(**{parameter: _value(value)})
    return MethodChoice(key, learned_method(type(learner).__name__, learner))


def _full_name(name: str) -> str:
    key = name.lower()
    fitting = [known for known in METHOD_NAMES if known.startswith(key)]
    if key not in fitting and len(fitting) != 1:
        raise UserError(f"There is no method {name!r}; choose from {', '.join(METHOD_NAMES)}.")
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


def fit_method(method: Method, rows: Rows, supervision: Any, checkpoint: Checkpoint) -> MethodFit:
    """Learn from all rows, with progress on the terminal."""
    start = time.perf_counter()
    names = rows.feature_names
    with bars(), convergence_notes():
        if not isinstance(method.estimator, MetricLearner):
            metric = method.learn(rows.X, supervision)
            named = None if metric is None else metric.named(names)
            return MethodFit(method, named, time.perf_counter() - start)
        learner = clone(method.estimator)
        iterations = checkpoint.fit(learner, rows.X, supervision, names)
    metric = learner.metric_.named(names)
    return MethodFit(method, metric, time.perf_counter() - start, learner, iterations)
