"""Methods by the names that the command line knows: learners, plain methods, and ``best``.

``autometric``, the default, and ``best`` are guesses: they give a metric only if it is expected to
be better than Euclidean distance.
"""

from __future__ import annotations

import ast
import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sklearn.base import clone

from nearfar.cli.errors import UserError
from nearfar.cli.fit_checkpoint import FitCheckpoint
from nearfar.cli.row_input import InputRows
from nearfar.cli.terminal import bars, convergence_notes
from nearfar.comparison import Comparison, Method, default_methods, learned_method
from nearfar.comparison.compared_methods import ALL, Learners, seeded
from nearfar.constraints import Kind, Mining, kind_of
from nearfar.learners.base import MetricLearner
from nearfar.learners.classic import InverseCovariance
from nearfar.learners.selection.auto import AutoMetric, known_learners
from nearfar.learners.selection.auto_problem import EUCLIDEAN
from nearfar.learners.selection.expectation import Expected
from nearfar.metrics.metric import Metric

AUTO, BEST = "autometric", "best"

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
METHOD_NAMES = (AUTO, *(name for name in LEARNERS if name != AUTO), *PLAIN_METHODS, BEST)


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
    """

    name: str
    method: Method | None

    @property
    def learner(self) -> MetricLearner | None:
        """The learner, if the method is one."""
        return None if self.method is None else self.method.estimator

    @property
    def guesses(self) -> bool:
        """Whether a metric is wanted only if it is expected to help."""
        return self.name in (AUTO, BEST)

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
        """Return the method to learn with, or None if Euclidean distance is to be kept.

        Parameters
        ----------
        comparison : Comparison or None
        goal : str
            One of `comparison.goals`.
        strict : bool
            Whether the method must be significantly better than Euclidean distance.
        """
        if comparison is None or not (self.guesses or strict):
            return self.method
        compared = comparison.by_goal(goal)
        if self.method is None:
            found = compared.winner if strict else compared.best
            if found is not None and not found.method.gives_metric:
                able = [r for r in compared.results if r.method.gives_metric]
                found = max(
                    (r for r in able if compared.promises(r) and not strict),
                    key=lambda result: compared.gains[result.name].gain,
                    default=None,
                )
            return None if found is None else found.method
        if self.method.name not in comparison:
            return None
        result = comparison[self.method.name]
        helps = compared.mark(result) == "+" if strict else compared.promises(result)
        return self.method if helps else None


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
    >>> from nearfar.cli.method_options import find_method
    >>> find_method("boost").name
    'boostmetric'
    >>> find_method("auto").method.name
    'AutoMetric'
    """
    key = _full_name(name)
    if key not in LEARNERS:
        if max_iter is not None or settings:
            raise UserError(
                f"--max-iter, --scale and --set are for learners; {key} has no parameters."
            )
        return MethodChoice(key, PLAIN_METHODS.get(key))
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
            raise UserError(f"--set {setting}: {wrong}; {key} has {', '.join(sorted(parameters))}.")
        learner.set_params(**{parameter: _value(value)})
        try:
            learner._check_parameters()
        except ValueError as error:
            raise UserError(f"--set {setting}: {error}") from error
    return MethodChoice(key, learned_method(type(learner).__name__, learner))


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
    metric = rows.described(learner.metric_)
    return MethodFit(method, metric, time.perf_counter() - start, learner, iterations)
