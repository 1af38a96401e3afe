"""What a threshold is chosen for: a bound on an error, equal errors, or the smallest cost.

A target is one of

- ``precision>=0.99``: share of similar pairs among those called the same;
- ``fmr<=1e-3``, the false match rate: share of dissimilar pairs called the same;
- ``recall>=0.9``: share of similar pairs called the same;
- ``eer``: equal false match and false non-match rates;
- ``{"false_match": 10, "false_non_match": 1, "prior": 0.01}``: the smallest expected cost of a
  pair, where pairs are similar with the prior. As text,
  ``false_match=10,false_non_match=1,prior=0.01``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from nearfar.runtime.parameters import check_parameters, number

Measure = Literal["precision", "fmr", "recall"]

_BOUND = re.compile(r"\s*(precision|fmr|recall)\s*(>=|<=)\s*(\S+)\s*")
_NEARLY = re.compile(r"([a-z]+)\s*([<>=]+)\s*(\d+|\d*\.\d+|\d+e-\d+)\s*(%?)")
_OTHER_NAMES = {"fpr": "fmr", "far": "fmr", "tpr": "recall", "tmr": "recall"}
_SIGNS = {"precision": ">=", "fmr": "<=", "recall": ">="}
# Errors in round numbers, for the strongest target that can be certified.
_SIZES = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2)
_ROUND = (
    *(value * size for size in _SIZES for value in (1.0, 1.5, 2.0, 3.0, 5.0)),
    *(0.1, 0.15, 0.2, 0.3, 0.4, 0.5),
)
# A bound is weaker only if its error is larger by more than 1 - 0.9 - 0.1 is.
_ROUNDING = 1e-9
_COSTS = {
    "false_match": number(above=0.0),
    "false_non_match": number(above=0.0),
    "prior": number(above=0.0, below=1.0),
}


@dataclass(frozen=True)
class Bound:
    """A bound on a share: on precision or recall from below, on the false match rate from above."""

    measure: Measure
    value: float

    @property
    def error(self) -> float:
        """The largest error allowed: the false match rate, or 1 - precision or recall."""
        return self.value if self.measure == "fmr" else 1 - self.value

    def __str__(self) -> str:
        return f"{self.measure}{_SIGNS[self.measure]}{self.value:g}"

    @property
    def weaker(self) -> Iterator[Bound]:
        """Bounds on the same share that allow larger errors, in round numbers, strongest first."""
        for error in _ROUND:
            if error > self.error + _ROUNDING:
                value = error if self.measure == "fmr" else 1 - error
                yield Bound(self.measure, round(value, 7))


@dataclass(frozen=True)
class EqualErrors:
    """Equal false match and false non-match rates."""

    def __str__(self) -> str:
        return "eer"


@dataclass(frozen=True)
class Costs:
    """Costs of the two errors.

    Attributes
    ----------
    prior: Share of pairs that are similar where the threshold is used; None for the
        prevalence.
    """

    false_match: float
    false_non_match: float
    prior: float | None = None

    def __str__(self) -> str:
        prior = "" if self.prior is None else f",prior={self.prior:g}"
        return f"false_match={self.false_match:g},false_non_match={self.false_non_match:g}{prior}"


Target = Bound | EqualErrors | Costs


def parse_target(target: object) -> Target:
    """Return what a target means."""
    if isinstance(target, Bound | EqualErrors | Costs):
        return target
    if isinstance(target, Mapping):
        return _costs(target)
    if isinstance(target, str) and target.strip() == "eer":
        return EqualErrors()
    if isinstance(target, str) and target.lstrip().startswith("false_"):
        costs: dict[str, float | str] = {}
        for item in target.split(","):
            name, _, text = item.partition("=")
            try:
                costs[name.strip()] = float(text)
            except ValueError:
                # The rule of the parameter refuses it.
                costs[name.strip()] = text.strip()
        return _costs(costs)
    parts = _BOUND.fullmatch(target) if isinstance(target, str) else None
    if parts is not None and _SIGNS[parts[1]] == parts[2]:
        try:
            value = float(parts[3])
        except ValueError:
            value = float("nan")
        if 0 < value < 1:
            return Bound(parts[1], value)  # type: ignore[arg-type]
    raise ValueError(
        'target must be "precision>=P", "fmr<=P" or "recall>=P" with P between 0 and 1, "eer", or '
        f'costs such as {{"false_match": 10, "false_non_match": 1}}; got {target!r}.'
        f"{suggested(target)}"
    )


def suggested(target: object) -> str:
    """Say what a target that is nearly one may stand for."""
    parts = _NEARLY.fullmatch(str(target).strip().lower())
    measure = _OTHER_NAMES.get(parts[1], parts[1]) if parts else ""
    if parts is None or measure not in _SIGNS:
        return ""
    value = float(parts[3]) / (100 if parts[4] else 1)
    return f' Did you mean "{measure}{_SIGNS[measure]}{value:g}"?' if 0 < value < 1 else ""


def _costs(target: Mapping[str, object]) -> Costs:
    needed = {"false_match", "false_non_match"}
    if not needed <= target.keys() <= _COSTS.keys():
        raise ValueError(
            "Costs need false_match and false_non_match, and may have prior; "
            f"got {', '.join(map(str, target)) or 'none'}."
        )
    check_parameters({name: _COSTS[name] for name in target}, target)
    return Costs(**target)  # type: ignore[arg-type]
