"""Methods by name: learners, and Euclidean distance on rows of a scale."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from sklearn.base import clone

from nearfar.comparison.methods import ALL, Learners, Method
from nearfar.evidence.verdict import COSINE, STANDARDISED, UNSCALED
from nearfar.learners.base import MetricLearner, known_learners
from nearfar.learners.classic import LDA, InverseCovariance
from nearfar.learners.selection.auto import AutoMetric
from nearfar.runtime.messages import did_you_mean, option
from nearfar.supervision.supervision import Kind

AUTO = "autometric"
LEARNERS = {
    name.lower(): kind
    for name, kind in known_learners().items()
    if kind not in (InverseCovariance, LDA)
}
SIMPLE = {
    "euclidean-unscaled": UNSCALED,
    "euclidean-standardised": STANDARDISED,
    "cosine": COSINE,
    "inverse-covariance": "inverse covariance",
    "lda": "LDA",
}
"""Names on the command line of what every comparison has."""
METHOD_NAMES = (AUTO, *(name for name in LEARNERS if name != AUTO), *SIMPLE)

# Without candidates, a blend is Euclidean distance.
SCALES = {UNSCALED: "unit", STANDARDISED: "standard", COSINE: "cosine"}


def find_learner(
    method: str | MetricLearner | None,
    *,
    seed: int = 0,
    goal: str | None = None,
    max_iter: int | None = None,
    scale: str | None = None,
    settings: Sequence[str] = (),
) -> MetricLearner:
    """Return a learner by its name, or by how the name begins; AutoMetric by default.

    Parameters
    ----------
    goal: What AutoMetric learns for, unless the settings say so.
    settings: Other parameters, as NAME=VALUE.
    """
    learner: MetricLearner
    if isinstance(method, MetricLearner):
        key, learner = type(method).__name__.lower(), clone(method)
    else:
        key = AUTO if method is None else full_name(method)
        kinds: dict[str, type[MetricLearner]] = {
            "inverse-covariance": InverseCovariance,
            "lda": LDA,
        }
        learner = (LEARNERS | kinds).get(key, AutoMetric)()
        if key in SIMPLE and key not in kinds:
            learner.set_params(candidates=[], scale=SCALES[SIMPLE[key]])
        if "random_state" in learner.get_params():
            learner.set_params(random_state=seed)
        if key == AUTO and goal is not None:
            learner.set_params(goal=goal)
    parameters = learner.get_params()
    given: dict[str, object] = {} if max_iter is None else {"max_iter": max_iter}
    given |= {} if scale is None else {"scale": scale}
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals:
            raise ValueError(f"{option('set', setting)}: write NAME=VALUE.")
        try:
            given[name] = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            given[name] = text
    for name, value in given.items():
        if name not in parameters:
            names, hint = ", ".join(sorted(parameters)), did_you_mean(name, parameters)
            raise ValueError(f"There is no parameter {name!r}; {key} has {names}.{hint}")
        learner.set_params(**{name: value})
        learner._check_parameters()
    return learner


def check_supervision(learner: MetricLearner, kind: Kind) -> None:
    """Raise ValueError if a learner cannot learn from this kind of supervision."""
    if kind not in learner.supervision:
        raise ValueError(
            f"{type(learner).__name__} learns from {' or '.join(learner.supervision)}, not from "
            f"{kind}; choose another {option('method')}."
        )


def full_name(name: str) -> str:
    """Return the method whose name is, or begins with, what was written."""
    key = name.lower()
    matches = [method for method in METHOD_NAMES if method.startswith(key)]
    if key not in matches and len(matches) > 1:
        raise ValueError(f"{name!r} may be any of {', '.join(matches)}; write one of them.")
    if not matches:
        hint, names = did_you_mean(name, METHOD_NAMES), ", ".join(METHOD_NAMES)
        raise ValueError(f"There is no method {name!r}; choose from {names}.{hint}")
    return key if key in matches else matches[0]


def named_learners(names: Sequence[str] | None, *, seed: int = 0) -> Learners:
    """Return learners to compare; None means the usual ones. Simple methods always take part."""
    if not names:
        return None
    if ALL in names:
        return ALL
    learners = [find_learner(name, seed=seed) for name in names if full_name(name) not in SIMPLE]
    return {type(learner).__name__: learner for learner in learners}


def name_of(method: Method) -> str | None:
    """Return the name of a method on the command line; None if it has none."""
    simple = {known: name for name, known in SIMPLE.items()}
    learned = type(method.estimator).__name__.lower()
    return simple.get(method.name, learned if learned in LEARNERS else None)


def settings_beside(name: str, method: Method) -> list[str] | None:
    """Return what a learner has other than by default, as values of ``--set``."""
    if name in SIMPLE or method.estimator is None:
        return None
    seed = getattr(method.estimator, "random_state", 0) or 0
    plain, settings = find_learner(name, seed=seed).get_params(), method.estimator.get_params()
    # What numbers are for is not a setting.
    changed = [key for key, value in settings.items() if value not in (plain[key], "regression")]
    return [f"{key}={settings[key]}" for key in changed] or None
