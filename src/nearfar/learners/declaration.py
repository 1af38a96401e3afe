"""`learner`: declares a learner's parameters as the fields of a dataclass, and documents them.

    @learner
    class BoostMetric(ConstraintLearner):
        penalty: float = 1e-7

A class documents its own parameters and attributes. Texts of inherited ones come from the class
that declares them (`parameter_docs`), and are added to the docstring with the class's own defaults.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any, ClassVar, Self, TypeVar, dataclass_transform

from nearfar.learners.shared_parameters import ATTRIBUTES
from nearfar.runtime.metric_learn_names import MetricLearnNames, missing_parameter, with_hints
from nearfar.runtime.parameters import ParameterRule, check_parameters

C = TypeVar("C", bound=type)

_SECTION = re.compile(r"\n\n    (?=[A-Z]\w+\n    -+\n)")
_ONLY_WITH = {"prior_share_": "validation_fraction", "mining_": "constraints"}
"""Attributes of learners that have a parameter."""

_ENTRY = re.compile(r"^    (\w[\w, ]*) :", re.MULTILINE)


@dataclass_transform(kw_only_default=True, eq_default=False)
def learner(cls: C) -> C:
    """Turn a class into an estimator whose parameters are its fields."""
    made: Any = dataclass(kw_only=True, eq=False, repr=False)(cls)
    made.__init__ = with_hints(made.__init__, {field.name for field in fields(made)})
    if made.__doc__ and "\n" in made.__doc__:
        made.__doc__ = _documented(made)
    return made


def _documented(cls: Any) -> str:
    """Return the docstring with the parameters and attributes that the class shares with others."""
    texts: dict[str, tuple[str, str]] = {}
    for base in reversed(cls.__mro__):
        texts |= vars(base).get("parameter_docs", {})
    defaults = {field.name: field.default for field in fields(cls)}
    parameters = [
        _entry(f"{name} : {kind}{_default(defaults[name], kind)}", text)
        for name, (kind, text) in texts.items()
        if name in defaults
    ]
    attributes = [
        _entry(f"{name} : {kind}", text)
        for name, (kind, text) in ATTRIBUTES.items()
        if _ONLY_WITH.get(name) in (None, *defaults)
    ]
    head, *sections = _SECTION.split(cls.__doc__)
    by_title = {section.split("\n")[0]: section for section in sections}
    for title, entries in (("Parameters", parameters), ("Attributes", attributes)):
        section = by_title.get(title, f"{title}\n    {'-' * len(title)}")
        known = {name for names in _ENTRY.findall(section) for name in names.split(", ")}
        added = [entry for entry in entries if entry.split(" :")[0].strip() not in known]
        by_title[title] = "\n".join([section.rstrip(), *added])
    order = ["Parameters", "Attributes"]
    order += [title for title in by_title if title not in order]
    return "\n\n    ".join([head, *(by_title[title] for title in order)]).rstrip() + "\n    "


def _entry(title: str, text: str) -> str:
    return f"    {title}\n" + "\n".join(f"        {line}" for line in text.split("\n"))


def _default(value: Any, kind: str) -> str:
    if value is MISSING or (value is None and "None" not in kind):
        return ", optional"
    shown = f'"{value}"' if isinstance(value, str) else repr(value)
    return f", default={shown}"


class ParametersMixin(MetricLearnNames):
    """What a learner does with its parameters."""

    paper_settings: ClassVar[Mapping[str, Any]] = {}
    """Parameters that ``variant="paper"`` overrides."""

    def set_params(self, **params: Any) -> Self:
        """Set parameters of this estimator; returns it."""
        missing = missing_parameter(self, params, [field.name for field in fields(self)])  # type: ignore[arg-type]
        if missing:
            raise ValueError(missing)
        return super().set_params(**params)  # type: ignore[misc]

    def _settled(self) -> Self:
        """Return the learner, or a copy with the paper's values in place of its own."""
        if not (self._follows_paper and self.paper_settings):
            return self
        settled = copy.copy(self)
        settled.__dict__ |= self.paper_settings
        return settled

    @property
    def _follows_paper(self) -> bool:
        return bool(getattr(self, "variant", "default") == "paper")

    def _check_parameters(self) -> None:
        """Raise ValueError for parameters that make no sense."""
        rules: dict[str, ParameterRule] = {}
        for cls in reversed(type(self).__mro__):
            rules |= vars(cls).get("parameter_rules", {})
        check_parameters(rules, {name: getattr(self, name) for name in rules})
