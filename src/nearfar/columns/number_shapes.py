"""Numbers as people write them, one shape of cells at a time.

The *shape* of a cell has 0 in place of every digit: "12.5 cm" and "80.4 cm" are both "00.0 cm". A
column has few shapes. Each is understood once, and all of its cells are read in one pass.

Digits that belong to the unit stay ("00.0 l/100 km"), so that cells of one shape have one unit.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from nearfar.columns.units import CURRENCIES, is_money, unit_of
from nearfar.typing import Ints, Vector

# A cell with more characters is not a number.
_LONGEST = 64
# Numbers do not have more shapes, even with a different unit in each.
_MOST_SHAPES = 4096
OTHER = "(other)"
"""The shape of all other cells."""
_LONGEST_UNIT = 24
_SPACES = dict.fromkeys("\t\u00a0\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f", " ")
_MINUS = dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2212", "-")
_PLAIN = str.maketrans(_SPACES | _MINUS | {"’": "'", "′": "'", "″": '"', "µ": "μ"})
_GROUPS = {" ": [" ", *_SPACES], "'": "'’′"}
_SHAPE = _PLAIN | str.maketrans("123456789", "000000000")

_NUMBER = re.compile(
    r"""(?P<before>[^0]*?)
    (?P<digits>
        0{1,3}(?:[ ']000)+(?:[.,]0+)?                       # 1 234,5 and 1'234.5
      | 0{1,3}(?:(?:,000)+|(?:,00)+,000)(?:\.0+)?           # 1,234.5 and 12,34,567.8
      | 0{1,3}(?:\.000)+(?:,0+)?                            # 1.234,5
      | 0+[.,]0+ | (?<![^\W\d_])[.,]0+ | 0+(?:\.(?!-))?
    )
    (?![0.,]*0)
    (?P<clock>(?::00){1,2}(?:\.0+)?(?![0:]))?              # 12:30 and 4:25.3
    (?:(?:[eE]|\s?[x×*·]\s?00\^)(?P<power>[+-]?0{1,3})(?!0))?
    (?P<after>.*)""",
    re.VERBOSE,
)
_MONEY_SIGN = "|".join(map(re.escape, sorted(CURRENCIES, key=len, reverse=True)))
_BEFORE = re.compile(
    r"(?:[<>]=?|[≤≥~≈]|ca?\.|ca|about|approx\.?|m(?:in|ax)\.?|over|under|from|up to"
    r"|(?:less|more|fewer) than|at (?:least|most))?\s*"
    rf"(?P<sign>[+-]?)\s*(?P<money>{_MONEY_SIGN})?\.?\s*(?P<inner>[+-]?)\s*",
    re.IGNORECASE,
)
_ERROR = re.compile(r"\s*(?:±|\+/?-)\s*\d[\d.,]*")
_NO_CENTS = re.compile(r"[,.]-{1,2}")
_ONE_GROUP = re.compile(r"0{1,3}[.,]000")
_MULTIPLES = {"k": 1e3, "tsd": 1e3, "thousand": 1e3, "m": 1e6, "mn": 1e6, "mln": 1e6, "mio": 1e6}
_MULTIPLES |= {"million": 1e6, "b": 1e9, "bn": 1e9, "billion": 1e9}
_MULTIPLE = re.compile(
    rf"(?P<word>{'|'.join(_MULTIPLES)})\.?(?P<unit>|\s.*|[^\w\s].*|(?-i:[A-Z]).*)", re.IGNORECASE
)
_TWO_UNITS = re.compile(r"(?P<unit>\D+?)\s*(?P<number>\d+(?:\.\d+)?)\s*(?P<smaller>\D*)")
# What follows hours and feet: 1h 20m, 1h20, 5'11.
_SMALLER = {("time", "m"): "min", ("time", ""): "min", ("length", ""): "in"}
_ORDINALS = ("st", "nd", "rd", "th")
_UNIT = re.compile(r"(?:[^\W\d_]|[/%‰°'\"(€$£¥₹]).*")
_POWER_OF_UNIT = re.compile(r"(?<=[a-z])\^?([23])(?!\d)")


class Reading(NamedTuple):
    """How to read the cells of a shape.

    Attributes
    ----------
    digits, power : slice
        Where the digits and the exponent are.
    clock : tuple of slice
        Where sixtieths are, and sixtieths of those: 12:30:59.
    group, point : str
        The marks between thousands and before decimals.
    ambiguous : bool
        Whether `group` may be a decimal mark: 1,234.
    factor, plus : float
        What the number is multiplied by, and what is added to it then.
    unit : str
        As it is written; "" if there is none.
    """

    digits: slice
    power: slice
    clock: tuple[slice, ...]
    group: str
    point: str
    ambiguous: bool
    factor: float
    plus: float
    unit: str

    def values(self, cells: Sequence[str], decimal: str) -> Vector:
        """Return the numbers of cells of this shape; 1,234 is decided by the column's mark."""
        group, point = self.group, self.point
        if self.ambiguous and group == decimal:
            group, point = "", group
        texts = [cell[self.digits] for cell in cells]
        if group:
            gone = str.maketrans(dict.fromkeys(_GROUPS.get(group, group), ""))
            # Thousands do not begin with 0: 0,123 has decimals, and 0,123,456 is nothing.
            texts = [
                text.translate(gone)
                if text[0] != "0"
                else text.replace(group, ".")
                if self.ambiguous
                else "nan"
                for text in texts
            ]
        if point == ",":
            texts = [text.replace(",", ".") for text in texts]
        if self.power.stop > self.power.start:
            pairs = zip(texts, cells, strict=True)
            texts = [f"{text}e{cell[self.power].translate(_PLAIN)}" for text, cell in pairs]
        found = np.fromiter(map(float, texts), np.float64, len(texts))
        for place, part in enumerate(self.clock, 1):
            found += [float(cell[part]) / 60**place for cell in cells]
        return self.factor * found + self.plus


def shapes(cells: Sequence[str]) -> tuple[list[str], Ints]:
    """Return the different shapes of cells, and the number of each cell's shape.

    Examples
    --------
    >>> from nearfar.columns.number_shapes import shapes
    >>> shapes(["12 cm", "80 cm", "5 l/100 km"])
    (['00 cm', '0 l/100 km'], array([0, 0, 1]))
    """
    keys = [cell.translate(_SHAPE) if len(cell) <= _LONGEST else OTHER for cell in cells]
    found, number = _numbered(keys)
    # Digits of an error do not count: 5.1 ± 0.2.
    whole = [_ERROR.sub("±", s) if "±" in s or "+" in s else s for s in found]
    # Where the number ends if digits of a unit follow, otherwise -1.
    ends = np.full(len(whole), -1, dtype=np.intp)
    for place, shape in enumerate(whole):
        match = _NUMBER.fullmatch(shape) if "0" in shape else None
        if match and "0" in match["after"]:
            ends[place] = match.start("after")
    if whole == found and (ends < 0).all():
        return found, number
    keys = [whole[place] for place in number.tolist()]
    for row in np.flatnonzero(ends[number] >= 0).tolist():
        end, cell = ends[number[row]], cells[row]
        keys[row] = keys[row][:end] + (
            cell[end:] if cell.isascii() else cell[end:].translate(_PLAIN)
        )
    return _numbered(keys)


def _numbered(keys: list[str]) -> tuple[list[str], Ints]:
    """Number the different keys; those beyond the most frequent ones are `OTHER`."""
    known: dict[str, int] = {}
    number = np.fromiter((known.setdefault(k, len(known)) for k in keys), np.intp, len(keys))
    found = list(known)
    if len(found) <= _MOST_SHAPES:
        return found, number
    frequent = np.argsort(-np.bincount(number), kind="stable")[:_MOST_SHAPES]
    place = np.full(len(found), _MOST_SHAPES)
    place[frequent] = np.arange(_MOST_SHAPES)
    return [*(found[shape] for shape in frequent), OTHER], place[number]


@lru_cache(4096)
def reading_of(shape: str) -> Reading | None:
    """Return how to read the cells of a shape, or None if they are not numbers.

    Examples
    --------
    >>> from nearfar.columns.number_shapes import reading_of
    >>> reading = reading_of("€0,000.00")
    >>> reading.unit, reading.values(["€1,234.50", "€9,000.00"], ".").tolist()
    ('€', [1234.5, 9000.0])
    """
    start = 1 if shape[:1] == "(" and shape[-1:] == ")" else 0
    match = _NUMBER.fullmatch(shape, start, len(shape) - start) if "0" in shape else None
    before = match and _BEFORE.fullmatch(match["before"].strip())
    if not match or not before:
        return None
    after = _after(match["after"], before["money"] or "")
    signs = (before["sign"] + before["inner"]).count("-") + start
    if after is None or signs > 1:
        return None
    factor, plus, unit = after
    digits = match["digits"]
    marks = [mark for mark in digits if mark in " ',."]
    group, point = "", marks[-1] if marks else ""
    if len(marks) > 1 or point in (" ", "'"):
        group, point = marks[0], "" if marks[0] == marks[-1] else marks[-1]
    ambiguous = bool(_ONE_GROUP.fullmatch(digits)) and not _NO_CENTS.match(match["after"])
    if _ONE_GROUP.fullmatch(digits):
        group, point = point, ""
    sign = -1.0 if signs else 1.0
    first = match.start("clock") + 1
    parts = (match["clock"] or "").split(":")[1:]
    clock = tuple(slice(first + 3 * k, first + 3 * k + len(part)) for k, part in enumerate(parts))
    where = slice(*match.span("digits")), slice(*match.span("power")), clock
    return Reading(*where, group, point, ambiguous, sign * factor, sign * plus, unit)


def _after(text: str, money: str) -> tuple[float, float, str] | None:
    """Return factor, addend and unit of what stands after a number."""
    text = unit_text(_NO_CENTS.sub("", text, count=1)).removeprefix("±").removeprefix("+").strip()
    if text in ("", "-", *_ORDINALS):
        return (-1.0 if text == "-" else 1.0), 0.0, money
    unit = unit_of(text)
    match = _MULTIPLE.fullmatch(text)
    if match and (not unit.known or match["word"] == text.rstrip(".")):
        rest = match["unit"].strip() or money
        known = not rest or unit_of(rest).known
        # A small m is metres, unless it follows money.
        if known and (match["word"] not in "mb" or is_money(unit_of(rest))):
            return _MULTIPLES[match["word"].lower()], 0.0, rest
    two = _TWO_UNITS.fullmatch(text)
    if two and not money:
        larger = unit_of(two["unit"])
        smaller = unit_of(_SMALLER.get((larger.dimension, two["smaller"]), two["smaller"]))
        if larger.known and larger.dimension == smaller.dimension:
            return 1.0, float(two["number"]) * smaller.factor / larger.factor, two["unit"]
    if unit == unit_of(money):
        return 1.0, 0.0, money
    if unit.known or (len(text) <= _LONGEST_UNIT and _UNIT.fullmatch(text)):
        return 1.0, 0.0, money + text
    return None


def unit_text(text: str) -> str:
    """Return a unit in one spelling: single spaces, m² for m2 and m^2."""
    return _POWER_OF_UNIT.sub(lambda m: "²³"[int(m[1]) - 2], " ".join(text.split()))
