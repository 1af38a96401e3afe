"""`learner`: declares a learner's parameters as the fields of a dataclass, and documents them.

    @learner
    class BoostMetric(BoostingLearner):
        penalty: float = 1e-7

A class documents its own parameters and attributes. Those that several learners have are in `TEXTS`
and `RULES`: the text is added to the docstrings of the classes that have the parameter, with the
class's own default.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from textwrap import indent
from typing import Any, Literal, TypeVar, dataclass_transform

from nearfar.learners.selection.held_out import Validation as Validation
from nearfar.metrics.metric import Metric
from nearfar.runtime.parameters import (
    ParameterRule,
    boolean,
    choice,
    either,
    instance,
    integer,
    number,
    optional,
)

C = TypeVar("C", bound=type)

Init = Literal["auto", "identity", "pca", "lda", "random"] | Metric
Prior = Literal["identity", "covariance"] | Metric | None
ValidationFraction = float | Literal["auto"] | None
Variant = Literal["default", "paper"]
MaxRows = int | Literal["auto", "all"] | None


GIVEN_PRIOR_RULE = either(
    choice("identity", "covariance"),
    instance(Metric, "a Metric, as Metric.from_matrix(M) of an array M"),
)

TEXTS = {
    "scale": (
        '{"auto", "standard", "unit", "cosine"} or None',
        'How X is scaled internally; the result applies to X as given. "standard" gives every\n'
        'feature unit variance, "unit" leaves features as they are, "cosine" divides each row by\n'
        'its length, and "auto" takes what suits Euclidean distance best (`scale_`). None is\n'
        '"unit" without a change of units. With ``variant="paper"``, "auto" is "unit".',
    ),
    "n_components": (
        "int",
        "Dimension to reduce to, by the principal axes of the mapped points; fewer, if the\n"
        "metric's rank is lower.",
    ),
    "warm_start": (
        "bool",
        "Continue from `metric_`: the result of the last fit, or a metric that was assigned\n"
        "to it. `max_iter` counts new iterations.",
    ),
    "random_state": ("int, RandomState or None", "For what is drawn at random."),
    "n_jobs": ("int", "Number of threads. None and -1 use all cores, -2 all but one."),
    "verbose": ("int", "1 shows progress on standard error."),
    "validation_fraction": (
        'float, "auto" or None',
        "Share of the data that trial fits hold out, to choose the number of iterations and\n"
        "how much of the prior, or of Euclidean distance, to keep (`prior_share_`). None fits\n"
        'to the end and keeps nothing. "auto" is 0.2 if y are labels and the scale is "auto";\n'
        'it is None otherwise, without a prior, with `warm_start` and for ``variant="paper"``.',
    ),
    "validation": (
        '{"rows", "classes"}',
        'Whether labelled rows or whole classes are held out. Choose "classes" for a metric\n'
        "that is meant for classes it has not seen.",
    ),
    "max_rows": (
        'int, "auto", "all" or None',
        'The most labelled rows to learn from. "auto" learns from all of up to 16,000 rows, and\n'
        "of more rows from as many as still make a difference on held-out ones, up to 32,000\n"
        '(`history_.row_curve`). "all" and None learn from all rows, and so do `warm_start` and\n'
        '``variant="paper"`` with "auto". Of rows that are not in memory, "auto" reads a sample\n'
        "of 32,000.",
    ),
    "prior": (
        '{"identity", "covariance"}, Metric or None',
        "The metric to start from and to add to: Euclidean distance between scaled points,\n"
        "the inverse of their covariance, or a metric of your own. None starts from zero, as\n"
        "the paper does. If nothing improves on the prior, it is the result.",
    ),
    "init": (
        '{"identity", "pca", "lda", "random", "auto"} or Metric',
        'Where to begin. "identity" and "pca" are Euclidean distance between scaled points,\n'
        'with ``|M|_F = 1``, and with `n_components` its leading principal axes. "lda" is\n'
        'discriminant axes, "random" is drawn, and "auto" is "lda" if `n_components` is less\n'
        'than the number of classes, and "identity" otherwise. A metric of your own has at\n'
        "least `n_components` components.",
    ),
    "shrinkage": (
        '"auto" or float from 0 to 1',
        'Share of the identity, times the mean variance, in the covariances. "auto" estimates\n'
        "it as by Ledoit and Wolf.",
    ),
}
"""Type and text of parameters that several learners have, in the order of docstrings."""

RULES = {
    "scale": optional(choice("auto", "standard", "unit", "cosine")),
    "n_components": optional(integer(at_least=1)),
    "warm_start": boolean(),
    "n_jobs": optional(integer(nonzero=True)),
    "validation_fraction": either(choice("auto"), optional(number(above=0.0, at_most=0.5))),
    "validation": choice("rows", "classes"),
    "max_rows": optional(either(choice("auto", "all"), integer(at_least=2))),
    "constraints": optional(
        ParameterRule(
            "a strategy such as NearestTriplets()",
            lambda value: callable(value) and not isinstance(value, type),
        )
    ),
    "prior": optional(GIVEN_PRIOR_RULE),
    "prior_weight": number(at_least=0.0),
    "init": either(
        choice("auto", "identity", "pca", "lda", "random"),
        instance(Metric, "a Metric, as Metric(L) of an array L"),
    ),
    "max_iter": integer(at_least=1),
    "tol": number(at_least=0.0),
    "variant": choice("default", "paper"),
}
"""What these and other shared parameters may be, unless `parameter_rules` of a class say more."""

ATTRIBUTES = {
    "metric_": ("Metric", "The learned metric."),
    "components_": ("array of shape (n_components, n_features)", "Its map L."),
    "history_": (
        "History",
        "Objective and time of every iteration; ``history_.stopped`` says why they ended.",
    ),
    "n_iter_": ("int", "Number of iterations."),
    "scale_": ("str or None", "How X was scaled."),
    "prior_share_": (
        "float",
        "Share of the prior, or of Euclidean distance, in the mean squared distance, as chosen on\n"
        "held-out data.",
    ),
}
"""Attributes that several learners have, each with its type and text."""

# Attributes of learners that have a parameter.
_ONLY_WITH = {"prior_share_": "validation_fraction"}

_SECTION = re.compile(r"\n\n(?=[A-Z]\w+\n-+\n)")
_ENTRY = re.compile(r"^(\w[\w, ]*) :", re.MULTILINE)


@dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(field,))
def learner(cls: C) -> C:
    """Turn a class into an estimator whose parameters are its fields.

    Fields with ``init=False`` are no parameters: every learner has them, with these values.
    """
    estimator: Any = dataclass(kw_only=True, eq=False, repr=False)(cls)
    defaults = {field.name: field.default for field in fields(estimator) if field.init}
    rules = {name: rule for name, rule in RULES.items() if name in defaults}
    for base in reversed(estimator.__mro__):
        rules |= vars(base).get("parameter_rules", {})
    estimator._defaults, estimator._rules = defaults, rules
    if estimator.__doc__ and "\n" in estimator.__doc__:
        # Python 3.13 and later have removed the indentation already.
        estimator.__doc__ = _documented(inspect.cleandoc(estimator.__doc__), defaults)
    return estimator


def _documented(docstring: str, defaults: Mapping[str, object]) -> str:
    """Return the docstring with the parameters and attributes that the class shares with others."""
    parameters = [
        _entry(f"{name} : {kind}{_default(defaults[name], kind)}", text)
        for name, (kind, text) in TEXTS.items()
        if name in defaults
    ]
    attributes = [
        _entry(f"{name} : {kind}", text)
        for name, (kind, text) in ATTRIBUTES.items()
        if _ONLY_WITH.get(name) in (None, *defaults)
    ]
    head, *sections = _SECTION.split(docstring)
    by_title = {section.split("\n")[0]: section for section in sections}
    for title, entries in (("Parameters", parameters), ("Attributes", attributes)):
        section = by_title.get(title, f"{title}\n{'-' * len(title)}")
        known = {name for names in _ENTRY.findall(section) for name in names.split(", ")}
        added = [entry for entry in entries if entry.split(" :")[0] not in known]
        by_title[title] = "\n".join([section.rstrip(), *added])
    order = ["Parameters", "Attributes"]
    order += [title for title in by_title if title not in order]
    return "\n\n".join([head, *(by_title[title] for title in order)]).rstrip() + "\n"


def _entry(title: str, text: str) -> str:
    return f"{title}\n" + indent(text, "    ")


def _default(value: object, kind: str) -> str:
    if value is MISSING or (value is None and "None" not in kind):
        return ", optional"
    text = f'"{value}"' if isinstance(value, str) else repr(value)
    return f", default={text}"
