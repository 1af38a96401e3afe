"""Units that people write beside numbers, and how those of one dimension are converted.

A word that is not in the lists is a unit of its own, which cannot be converted.

Numbers as people write them, one shape of cells at a time.

The *shape* of a cell has 0 in place of every digit: "12.5 cm" and "80.4 cm" are both "00.0 cm". A
column has few shapes. Each is understood once, and all of its cells are read in one pass.

Digits that belong to the unit stay ("00.0 l/100 km"), so that cells of one shape have one unit.

How the numbers of a column are written: decimal mark, unit, and cells that are no numbers.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nearfar.columns.cells import GAP_WORDS, CellError, Cells, is_missing
from nearfar.typing import Ints, Vector


class Unit(NamedTuple):
    """A unit: `factor * (x - origin)` is x in the first unit of its dimension.

    Attributes
    ----------
    dimension: What it measures; units of one dimension can be converted.
    known: Whether it is in the lists.
    """

    dimension: str
    factor: float = 1.0
    origin: float = 0.0
    known: bool = True


_MEASURES = {
    "share": "% 1, percent 1, pct 1, ‰ 0.1, ppm 1e-4, ppb 1e-7",
    "length": """m 1, metre 1, meter 1, km 1e3, dm 0.1, cm 0.01, mm 1e-3, μm 1e-6, um 1e-6, nm 1e-9,
        in 0.0254, inch 0.0254, inches 0.0254, " 0.0254, ft 0.3048, foot 0.3048, feet 0.3048,
        ' 0.3048, yd 0.9144, yard 0.9144, mi 1609.344, mile 1609.344""",
    "area": """m² 1, sqm 1, sq m 1, qm 1, cm² 1e-4, mm² 1e-6, km² 1e6, ha 1e4, hectare 1e4,
        ft² 0.09290304, sqft 0.09290304, sq ft 0.09290304, acre 4046.8564224""",
    "volume": """l 1, litre 1, liter 1, ltr 1, dl 0.1, cl 0.01, ml 1e-3, μl 1e-6, hl 100, dm³ 1,
        m³ 1e3, cbm 1e3, cm³ 1e-3, ccm 1e-3, cc 1e-3, gal 3.785411784, gallon 3.785411784""",
    "mass": """kg 1, kgs 1, kilo 1, g 1e-3, gram 1e-3, mg 1e-6, μg 1e-9, ug 1e-9, mcg 1e-9,
        ng 1e-12, t 1e3, ton 1e3, tonne 1e3, lb 0.45359237, lbs 0.45359237, pound 0.45359237,
        oz 0.028349523125""",
    "time": """s 1, sec 1, second 1, ms 1e-3, msec 1e-3, μs 1e-6, ns 1e-9, min 60, mins 60,
        minute 60, h 3600, hr 3600, hrs 3600, hour 3600, d 86400, day 86400, wk 604800, wks 604800,
        week 604800, mo 2629746, mos 2629746, month 2629746, y 31556952, yr 31556952, yrs 31556952,
        year 31556952""",
    "temperature": "°c 1, c 1, degc 1, deg c 1, celsius 1",
    "speed": "m/s 3.6, km/h 1, kmh 1, kph 1, mph 1.609344, kn 1.852, knot 1.852",
    "pressure": """Pa 1, hPa 100, mbar 100, kPa 1e3, MPa 1e6, bar 1e5, psi 6894.757293168361,
        atm 101325, mmHg 133.32236842105263""",
    "energy": """J 1, kJ 1e3, MJ 1e6, GJ 1e9, Wh 3600, kWh 3.6e6, MWh 3.6e9, GWh 3.6e12, cal 4.184,
        kcal 4184""",
    "power": """W 1, mW 1e-3, kW 1e3, MW 1e6, GW 1e9, hp 745.699871582, bhp 745.699871582,
        PS 735.49875""",
    "voltage": "V 1, volt 1, mV 1e-3, μV 1e-6, kV 1e3",
    "current": "A 1, amp 1, mA 1e-3, μA 1e-6, kA 1e3",
    "resistance": "Ω 1, ohm 1, kΩ 1e3, kohm 1e3, MΩ 1e6",
    "frequency": "Hz 1, kHz 1e3, MHz 1e6, GHz 1e9",
    "data": "MB 1, kB 1e-3, GB 1e3, TB 1e6, KiB 1.024e-3, MiB 1.048576, GiB 1073.741824",
    "concentration": "mg/l 1, μg/l 1e-3, ug/l 1e-3, ng/l 1e-6, g/l 1e3, mg/dl 10, g/dl 1e4",
    "molarity": "mmol/l 1, μmol/l 1e-3, umol/l 1e-3, nmol/l 1e-6, mol/l 1e3",
    "content": "mg/kg 1, μg/kg 1e-3, ug/kg 1e-3, g/kg 1e3",
    "density": "g/cm³ 1, g/ml 1, kg/l 1, t/m³ 1, kg/m³ 1e-3",
    "angle": "° 1, deg 1, degree 1",
}
_MONEY = {
    "EUR": "€ EUR euro",
    "USD": "$ US$ USD dollar",
    "GBP": "£ GBP",
    "JPY": "¥ JPY yen",
    "CNY": "CNY RMB yuan",
    "INR": "₹ INR Rs rupee",
    "CHF": "CHF SFr Fr",
    "PLN": "zł PLN",
    "BRL": "R$ BRL",
    "CAD": "CAD C$ CA$",
    "AUD": "AUD A$ AU$",
    "kr": "kr SEK NOK DKK",
    "RUB": "₽ RUB",
    "TRY": "₺ TRY TL",
    "KRW": "₩ KRW",
    "CZK": "Kč CZK",
    "KES": "KES KSh",
}


def _listed() -> dict[str, Unit]:
    found = {}
    for dimension, text in _MEASURES.items():
        for entry in text.split(","):
            symbol, factor = entry.rsplit(maxsplit=1)
            found[symbol.strip()] = Unit(dimension, float(factor))
    fahrenheit = Unit("temperature", 5 / 9, 32.0)
    found |= dict.fromkeys(["°f", "f", "degf", "deg f", "fahrenheit"], fahrenheit)
    for currency, symbols in _MONEY.items():
        found |= dict.fromkeys(symbols.split(), Unit(currency))
    return found


_UNITS = _listed()
_IN_LOWER_CASE = {s.lower(): unit for s, unit in reversed(_UNITS.items()) if s not in ("A", "J")}
CURRENCIES = tuple(symbol for symbols in _MONEY.values() for symbol in symbols.split())
"""Symbols of money, which may stand before a number."""


@lru_cache(1024)
def unit_of(symbol: str) -> Unit:
    """Return a unit by its symbol or name; a word that is not known is a unit of its own."""
    for spelling in (symbol, symbol.rstrip("."), symbol.replace("µ", "μ").rstrip(".")):
        if spelling in _UNITS:
            return _UNITS[spelling]
    word = spelling.lower()
    singular = word[:-1] if len(word) > 3 and word.endswith("s") else word
    for spelling in (word, singular):
        if spelling in _IN_LOWER_CASE:
            return _IN_LOWER_CASE[spelling]
    return Unit(singular, known=False)


def is_money(unit: Unit) -> bool:
    """Tell whether a unit is a currency."""
    return unit.dimension in _MONEY


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
    digits, power: Where the digits and the exponent are.
    clock: Where sixtieths are, and sixtieths of those: 12:30:59.
    group, point: The marks between thousands and before decimals.
    ambiguous: Whether `group` may be a decimal mark: 1,234.
    factor, plus: What the number is multiplied by, and what is added to it then.
    unit: As it is written; "" if there is none.
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
    """Return the different shapes of cells, and the number of each cell's shape."""
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
    """Return how to read the cells of a shape, or None if they are not numbers."""
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


# Share of cells in a column of numbers that may be something else, such as typing errors.
_MOST_UNREADABLE = 0.1
# The share may be larger if these cells are a few words without digits: on request, closed.
_MOST_WORDS, _FEW_WORDS = 0.25, 5
# Share of zero-padded cells that makes a column one of codes.
_FEW = 0.05
# A note names no more of the cells that count as missing, and no more of their letters.
_MOST_GAPS, _LONGEST_GAP = 3, 40
_PLAIN_NUMBER = re.compile(r"[+-]?(?:0+\.?0*|\.0+)(?:[eE][+-]?0+)?")
_FEWEST_DIGITS = 4
_OTHER_MARK = {".": ",", ",": "."}


@dataclass(frozen=True)
class Notation:
    """How the numbers of a column are written.

    Attributes
    ----------
    decimal: The decimal mark.
    unit: The unit of the numbers, which is also that of cells without one. Cells in other
        units of its dimension are converted.
    example: A cell that is not a number as computers write it; "" if there is none.
    gaps: The most frequent cells that are not numbers. If there are any, such cells count
        as missing; otherwise they are errors.
    n_gaps: Number of those cells.
    """

    decimal: str = "."
    unit: str = ""
    example: str = ""
    gaps: tuple[str, ...] = ()
    n_gaps: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "gaps", tuple(str(word) for word in self.gaps))
        object.__setattr__(self, "n_gaps", int(self.n_gaps))
        if self.decimal not in _OTHER_MARK:
            raise ValueError(f"{self.decimal!r} is not a decimal mark")
        if not (isinstance(self.unit, str) and isinstance(self.example, str)):
            raise ValueError("the unit and the example of a notation are text")

    def read(self, values: Cells) -> Vector:
        """Return cells of text as numbers; missing ones are nan.

        Raises
        ------
        CellError
            If a cell is not a number, and there were no such cells in the rows that the notation
            was found in.
        """
        out, unreadable = _read(_groups(values), len(values), self)
        if unreadable.any() and not self.gaps:
            row = int(unreadable.argmax())
            wanted = f"a number in {self.unit}" if self.unit else "a number"
            raise CellError(row, values[row], wanted)
        return out

    def __str__(self) -> str:
        if not self.example:
            return ""
        groups = _groups(np.array([self.example], dtype=object))
        value = float(_read(groups, 1, self)[0][0])
        reading = groups[0].reading
        converted = reading is not None and unit_of(reading.unit or self.unit) != unit_of(self.unit)
        # No more digits than the cell has, which may be those of a fraction.
        digits = max(_FEWEST_DIGITS, sum(letter.isdigit() for letter in self.example))
        rounded = float(f"{value:.{digits}g}")
        return f"{self.example!r} → {rounded:.9g}{f' {self.unit}' if converted else ''}"


PLAIN = Notation()
"""Numbers as computers write them."""


@dataclass(frozen=True)
class Survey:
    """What a column of text looks like if it is read as numbers.

    Attributes
    ----------
    is_number: Whether it is a column of numbers: nearly all cells are, or all but a few
        words.
    numbers: shape (n_rows,). The numbers; nan where there is none.
    """

    notation: Notation
    is_number: bool
    numbers: Vector = field(repr=False)

    @property
    def is_plain(self) -> bool:
        """Whether all cells are numbers as computers write them, or missing."""
        return self.is_number and self.notation == PLAIN


def survey(values: Cells) -> Survey:
    """Find out how the numbers of a column are written.

    Zero-padded codes such as 00501 are not numbers. Of the cells that are not missing, one in ten
    may be something else; one in four, if these are a few words without digits.
    """
    groups = _groups(values)
    found = Notation(_decimal(groups), _unit(groups))
    out, unreadable = _read(groups, len(values), found)
    other = Counter(values[unreadable].tolist())
    n_other, n_read = int(unreadable.sum()), int(np.isfinite(out).sum())
    share = n_other / max(1, n_other + n_read)
    few = len(other) <= _FEW_WORDS and not any(
        letter.isdigit() for word in other for letter in word
    )
    fits = share <= (_MOST_WORDS if few else _MOST_UNREADABLE)
    is_number = n_read > 0 and fits and not _are_codes(groups)
    gaps = tuple(word[:_LONGEST_GAP] for word, _ in other.most_common(_MOST_GAPS) if is_number)
    example = _example(groups, out, unit_of(found.unit))
    found = replace(found, example=example, gaps=gaps, n_gaps=n_other if gaps else 0)
    return Survey(found, is_number, out)


class _Group(NamedTuple):
    """The cells of one shape, how to read them, and their rows."""

    shape: str
    reading: Reading | None
    rows: Ints
    cells: list[str]


def _groups(values: Cells) -> list[_Group]:
    """Return the known cells of a column by shape."""
    rows = np.flatnonzero(~is_missing(values))
    found, number = shapes(values[rows].tolist())
    ends = np.cumsum(np.bincount(number, minlength=len(found)))
    split = np.split(rows[np.argsort(number, kind="stable")], ends[:-1])
    return [
        _Group(shape, reading_of(shape), own, values[own].tolist())
        for shape, own in zip(found, split, strict=len(rows) > 0)
    ]


def _read(
    groups: list[_Group], n_rows: int, notation: Notation
) -> tuple[Vector, NDArray[np.bool_]]:
    """Return the numbers of all rows, and which cells are neither numbers nor missing."""
    out, unreadable = np.full(n_rows, np.nan), np.zeros(n_rows, dtype=bool)
    own = unit_of(notation.unit)
    for shape, reading, rows, cells in groups:
        if reading is None:
            unreadable[rows] = shape.lower() not in GAP_WORDS
            continue
        unit = unit_of(reading.unit) if reading.unit else own
        found = reading.values(cells, notation.decimal)
        if unit.dimension != own.dimension:
            found[:] = np.nan
        elif unit != own:
            found = unit.factor * (found - unit.origin) / own.factor + own.origin
        found[np.isinf(found)] = np.nan
        out[rows], unreadable[rows] = found, np.isnan(found)
    return out, unreadable


def _decimal(groups: list[_Group]) -> str:
    """Return the decimal mark that most cells show."""
    votes = Counter({".": 0.5})
    beside: Counter[int] = Counter()
    leading: Counter[int] = Counter()
    for _, reading, _, cells in groups:
        if reading is None:
            continue
        if reading.ambiguous:
            # 0,123 is no group of thousands.
            votes[reading.group] += sum(cell[reading.digits][0] == "0" for cell in cells)
            leading[_length(reading) - 4] += len(cells) if reading.group == "." else 0
        elif reading.point:
            votes[reading.point] += len(cells)
        elif reading.group in _OTHER_MARK:
            votes[_OTHER_MARK[reading.group]] += len(cells)
        else:
            beside[_length(reading)] += len(cells)
    grouped = leading[1] + leading[2] > leading[3] and beside[3] and max(beside) == 3
    return "," if grouped and votes.total() < 1 else votes.most_common(1)[0][0]


def _length(reading: Reading) -> int:
    return int(reading.digits.stop - reading.digits.start)


def _unit(groups: list[_Group]) -> str:
    """Return the most frequent unit of the most frequent dimension."""
    written: Counter[str] = Counter()
    for _, reading, _, cells in groups:
        if reading is not None:
            written[reading.unit] += len(cells)
    least = written.total() / 2
    dimensions: Counter[tuple[str, bool]] = Counter()
    for symbol, count in written.items():
        if symbol:
            dimensions[unit_of(symbol).dimension, unit_of(symbol).known] += count
    usual = [name for (name, known), n in dimensions.most_common() if known or n >= least]
    fitting = (s for s, _ in written.most_common() if s and unit_of(s).dimension == usual[0])
    return next(fitting) if usual else ""


def _example(groups: list[_Group], out: Vector, own: Unit) -> str:
    """Return a cell that is not a plain number, in another unit if there is one."""
    best = (False, 0, "")
    for shape, reading, rows, cells in groups:
        if reading is None or _PLAIN_NUMBER.fullmatch(shape) or not np.isfinite(out[rows]).any():
            continue
        other = bool(reading.unit) and unit_of(reading.unit) != own
        best = max(best, (other, len(cells), cells[int(np.isfinite(out[rows]).argmax())]))
    return best[-1]


def _are_codes(groups: list[_Group]) -> bool:
    """Tell whether cells are zero-padded: of one length, or often."""
    digits = padded = others = 0
    lengths = set()
    for shape, reading, _, cells in groups:
        if shape.strip("0"):
            others += 0 if reading is None else len(cells)
            continue
        digits += len(cells)
        lengths.add(len(shape))
        padded += sum(cell[0] == "0" for cell in cells) if len(shape) > 1 else 0
    often = padded >= _FEW * digits
    return padded > 0 and others <= _MOST_UNREADABLE * digits and (len(lengths) == 1 or often)
