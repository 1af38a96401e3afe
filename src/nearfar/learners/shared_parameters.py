"""Parameters that learners share, each with its text: type and description by name.

`declaration` adds these texts to the docstrings of the classes that have the parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from nearfar.runtime.parameters import (
    ParameterRule,
    boolean,
    choice,
    either,
    integer,
    number,
    optional,
)

Validation = Literal["rows", "classes"]
ValidationFraction = float | Literal["auto"] | None
Variant = Literal["default", "paper"]

Texts = Mapping[str, tuple[str, str]]

ATTRIBUTES: Texts = {
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
    "mining_": (
        "Mining",
        "How triplets were mined from labels; not set if `constraints` made them otherwise.",
    ),
}

COMMON: Texts = {
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
}


@dataclass(kw_only=True, eq=False, repr=False)
class Validated:
    """Parameters of learners that can hold out data."""

    validation_fraction: ValidationFraction = "auto"
    validation: Validation = "rows"

    parameter_docs: ClassVar[Texts] = {
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
    }
    parameter_rules: ClassVar[dict[str, ParameterRule]] = {
        "validation_fraction": either(choice("auto"), optional(number(above=0.0, at_most=0.5))),
        "validation": choice("rows", "classes"),
    }


@dataclass(kw_only=True, eq=False, repr=False)
class Iterative:
    """Parameters of learners that run a solver."""

    warm_start: bool = False
    random_state: int | np.random.RandomState | None = None
    n_jobs: int | None = None
    verbose: int = 0

    parameter_docs: ClassVar[Texts] = {
        "warm_start": (
            "bool",
            "Continue from `metric_`: the result of the last fit, or a metric that was assigned\n"
            "to it. `max_iter` counts new iterations.",
        ),
        "random_state": (
            "int, RandomState or None",
            "For what is drawn at random.",
        ),
        "n_jobs": ("int", "Number of threads. None and -1 use all cores, -2 all but one."),
        "verbose": ("int", "1 shows progress on standard error."),
    }
    parameter_rules: ClassVar[dict[str, ParameterRule]] = {
        "warm_start": boolean(),
        "n_jobs": optional(integer(nonzero=True)),
    }
