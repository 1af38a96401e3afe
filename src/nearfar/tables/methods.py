"""Methods by name: learners, simple methods, and ``best``.

If no method is named, and with ``best``, the verdict of a comparison chooses the method. A method
that is named is used, whatever the verdict.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nearfar.comparison import Comparison, Method, default_methods, learned_method
from nearfar.comparison.methods import ALL, Learners, seeded
from nearfar.evidence.verdict import Category
from nearfar.learners.base import MetricLearner, known_learners
from nearfar.learners.classic import LDA, InverseCovariance
from nearfar.runtime.messages import did_you_mean, option
from nearfar.supervision import Kind

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


@dataclass(frozen=True)
class MethodChoice:
    """What `methods`, or ``--method``, names.

    Attributes
    ----------
    name: Name on the command line.
    method: The method; None for the best method of a comparison.
    named: Whether the method is used in any case. Otherwise the verdict chooses.
    compared: Learners to choose from if there is no method; None means the usual ones.
    """

    name: str
    method: Method | None
    named: bool = True
    compared: Learners = None

    @property
    def learner(self) -> MetricLearner | None:
        """The learner, if the method is one."""
        return None if self.method is None else self.method.estimator

    @property
    def numbers(self) -> bool | None:
        """Whether labels are numbers to predict, not classes; None if it learns from both."""
        kinds = ("labels", "numbers") if self.method is None else self.method.supervision
        return None if {"labels", "numbers"} <= {*kinds} else "numbers" in kinds

    @property
    def learners(self) -> Learners:
        """Learners to compare with plain methods; None means the usual ones."""
        if self.method is None:
            return self.compared
        return {} if self.learner is None else {self.method.name: self.learner}

    def check(self, kind: Kind) -> None:
        """Raise ValueError if the method cannot learn from this kind of supervision."""
        if self.method is None:
            return
        kinds = self.method.supervision
        if kind not in kinds:
            raise ValueError(
                f"{option('method')} {self.name} learns from {' or '.join(kinds)}, not from "
                f"{kind}; choose another method."
            )

    def check_without_comparison(self, *, strict: bool = False) -> None:
        """Raise ValueError if the method cannot be chosen without a comparison."""
        if self.method is None or strict:
            what = option("method", BEST) if self.method is None else option("only-if-significant")
            raise ValueError(f"{what} needs the comparison; leave out {option('no-comparison')}.")

    def select(
        self, comparison: Comparison | None, goal: str, *, strict: bool = False
    ) -> Method | None:
        """Return the method to learn with; None if there is none to recommend.

        Parameters
        ----------
        goal: One of `comparison.goals`.
        strict: Whether the method must be clearly better than the baseline.
        """
        if comparison is None:
            return self.method
        compared = comparison.by_goal(goal)
        result = compared.recommended
        method = None if result is None else result.method
        if self.named and self.method is not None:
            result, method = comparison.get(self.method.name), self.method
        if strict and (result is None or compared.category(result) is not Category.CLEARLY_BETTER):
            return None
        return method


def choose_methods(methods: object, *, seed: int = 0, goal: str | None = None) -> MethodChoice:
    """Return what a user named: a name, an estimator, or several of them to choose from.

    Parameters
    ----------
    seed: Seed of learners that are named.
    goal: What AutoMetric learns for, unless it is given as an estimator.
    """
    if isinstance(methods, MethodChoice):
        return methods
    if isinstance(methods, MetricLearner):
        method = learned_method(type(methods).__name__, methods)
        return MethodChoice(method.name.lower(), method)
    if methods is None or isinstance(methods, str):
        return find_method(methods, seed=seed, goal=goal)
    if not isinstance(methods, Sequence) or not methods:
        raise ValueError(f"methods must be a name, a learner or a list of these; got {methods!r}.")
    if ALL in methods:
        return MethodChoice(BEST, None, named=False, compared=ALL)
    learners: dict[str, MetricLearner] = {}
    for choice in [choose_methods(each, seed=seed, goal=goal) for each in methods]:
        if choice.learners is None:
            return MethodChoice(BEST, None, named=False)
        assert isinstance(choice.learners, Mapping)
        learners |= choice.learners
    return MethodChoice(BEST, None, named=False, compared=learners)


def find_method(
    name: str | None,
    *,
    seed: int = 0,
    goal: str | None = None,
    max_iter: int | None = None,
    settings: Sequence[str] = (),
) -> MethodChoice:
    """Find a method by its name, or by how the name begins.

    Parameters
    ----------
    name: None for AutoMetric, unless the verdict recommends a simple method.
    seed: Seed of a learner.
    goal: What AutoMetric learns for, unless the settings say so.
    max_iter: Most iterations of a learner.
    settings: Other parameters of a learner, as NAME=VALUE.
    """
    key = AUTO if name is None else _full_name(name)
    if key not in LEARNERS:
        if max_iter is not None or settings:
            raise ValueError(
                f"--max-iter, --scale and --set are for learners; {key} has no parameters."
            )
        return MethodChoice(key, SIMPLE_METHODS.get(key), named=key != BEST)
    learner = seeded(LEARNERS[key], seed)
    if key == AUTO and goal is not None:
        learner.set_params(goal=goal)
    parameters = learner.get_params()
    if max_iter is not None:
        if "max_iter" not in parameters:
            raise ValueError(f"--max-iter is for learners with iterations; {key} has none.")
        learner.set_params(max_iter=max_iter)
    for setting in settings:
        parameter, equals, text = setting.partition("=")
        if not equals or parameter not in parameters:
            wrong = f"there is no parameter {parameter!r}" if equals else "write NAME=VALUE"
            hint = did_you_mean(parameter, parameters)
            names = ", ".join(sorted(parameters))
            raise ValueError(f"--set {setting}: {wrong}; {key} has {names}.{hint}")
        try:
            value = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            value = text
        try:
            learner.set_params(**{parameter: value})._check_parameters()
        except ValueError as error:
            raise ValueError(f"--set {setting}: {error}") from error
    method = learned_method(type(learner).__name__, learner)
    return MethodChoice(key, method, named=name is not None)


def _full_name(name: str) -> str:
    """Return the method whose name is, or begins with, what was written."""
    key = name.lower()
    matches = [method for method in METHOD_NAMES if method.startswith(key)]
    if key not in matches and len(matches) > 1:
        raise ValueError(f"{name!r} may be any of {', '.join(matches)}; write one of them.")
    if not matches:
        hint = did_you_mean(name, METHOD_NAMES)
        raise ValueError(
            f"There is no method {name!r}; choose from {', '.join(METHOD_NAMES)}.{hint}"
        )
    return key if key in matches else matches[0]


def name_of(method: Method) -> str | None:
    """Return the name of a method on the command line; None if it has none."""
    simple = {known.name: name for name, known in SIMPLE_METHODS.items()}
    learned = type(method.estimator).__name__.lower()
    return simple.get(method.name, learned if learned in LEARNERS else None)


def settings_beside(name: str, method: Method) -> list[str] | None:
    """Return what a learner has other than by default, as values of ``--set``."""
    usual = find_method(name, seed=getattr(method.estimator, "random_state", 0) or 0).learner
    if usual is None:
        return None
    plain, settings = usual.get_params(), method.estimator.get_params()
    # What numbers are for is not a setting.
    changed = [key for key, value in settings.items() if value not in (plain[key], "regression")]
    return [f"{key}={settings[key]}" for key in changed] or None
