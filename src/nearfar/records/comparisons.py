"""Comparisons: the fields of two records, each compared in its own ways.

A pair of records becomes a row of numbers. What a field is, is recognised from the records that
are learned from:

======  ==================================================================================
kind    ways
======  ==================================================================================
text    equal, similar letters (four ratios), and triples of letters, words, numbers and
        codes that both have, by how rare they are
code    equal, similar letters, similar digits, equal end of the digits
number  equal, similar letters, relative difference; units are converted
date    equal, similar letters, year, month and day equal, day and month swapped, days apart
======  ==================================================================================

The whole record is compared as one more text. With rivals, it is also told how much more similar
the two records are than either is to any other record of the two tables.

A comparison with a missing cell is nan, and one column tells how many of the two cells are missing.
All comparisons are symmetric.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.preprocessing import normalize

from nearfar.columns.cells import Cells, is_missing, parse_date
from nearfar.columns.numbers import PLAIN, Notation, survey
from nearfar.records.records import Records, plain
from nearfar.runtime.messages import optional_package, quoted
from nearfar.typing import Array, Ints, Matrix, Vector

WHOLE = "(whole record)"
"""The name of the text of all fields together."""

# Tokens with equal hashes count as one: with 65,536, a few of a thousand words have another's.
_BUCKETS = 1 << 16
# Pairs that are compared at a time, and cosines that are held at a time.
_BLOCK, _COSINES = 1 << 13, 1 << 24
# Share of the known cells that must be dates, or mostly digits; the others may be mistyped.
_MOST = 0.75
# Letters of a text that are compared in order; tokens are those of the whole text.
_LONGEST = 500
# Digits at the end that two forms of a phone number share.
_ENDING = 7
# The most similar records of which one is no part of a pair: its two are at most two of them.
_NEAREST = 3
_COMPACT_DATE = re.compile(r"((?:1[89]|20)\d\d)(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])")
_WORD = re.compile(r"[^\W_]+")
_NUMBER = re.compile(r"(?<![^\W_])\d+(?:\.\d+)?(?![^\W_])")
# Letters and digits mixed, or many digits, also with hyphens: lds4821ww, mb13-pnk-see, 88691.
_CODE = re.compile(r"(?<![a-z\d])(?=[a-z-]*\d)(?=[a-z\d-]{4})[a-z\d]+(?:-[a-z\d]+)*")


def _triples(text: str) -> list[str]:
    """Return three letters or digits in a row; spaces and punctuation do not matter."""
    joined = "".join(_WORD.findall(text))
    return [joined[start : start + 3] for start in range(len(joined) - 2)] or [joined]


_TOKENS: dict[str, Callable[[str], list[str]]] = {
    "triples": _triples,
    "words": _WORD.findall,
    "numbers": _NUMBER.findall,
    "codes": _CODE.findall,
}
_Prepared = dict[str, Any]
"""What is compared, by name: an array or sparse matrix with a row for each record."""


@dataclass(frozen=True, eq=False)
class Field:
    """A field and what it is.

    Attributes
    ----------
    notation: How numbers are written.
    rarity: Weights of the tokens of a text: logarithms of how rare they are.
    """

    name: str
    kind: str
    notation: Notation = PLAIN
    rarity: dict[str, Array] = field(default_factory=dict, repr=False)

    @classmethod
    def fit(cls, name: str, cells: Cells) -> Field:
        """Recognise what a field is, and count the tokens of a text."""
        known = cells[~is_missing(cells)]
        if name != WHOLE and len(known):
            if np.mean([_date(cell) is not None for cell in known]) >= _MOST:
                return cls(name, "date")
            found = survey(cells)
            if found.is_number:
                # Cells that are no numbers are compared as text only.
                gaps = found.notation.gaps or ("",)
                return cls(name, "number", replace(found.notation, gaps=gaps))
            if np.mean([_mostly_digits(cell) for cell in known]) >= _MOST:
                return cls(name, "code")
        texts = [plain(cell) for cell in known]
        counts = {way: _tokens(way, texts).getnnz(axis=0) for way in _TOKENS}
        rarity = {
            way: (1 + np.log((1 + len(texts)) / (1 + count))).astype(np.float32)
            for way, count in counts.items()
        }
        return cls(name, "text", rarity=rarity)

    def prepare(self, cells: Cells) -> _Prepared:
        """Read cells once for all pairs that they are in."""
        texts = np.fromiter(map(plain, cells), object, len(cells))
        shortened = np.fromiter((text[:_LONGEST] for text in texts), object, len(texts))
        out: _Prepared = {"missing": is_missing(cells), "text": shortened}
        if self.kind == "number":
            out["number"] = self.notation.read(cells)
        elif self.kind == "date":
            days = [_date(cell) if cell else None for cell in cells]
            parts = [(d.year, d.month, d.day, d.toordinal()) if d else [np.nan] * 4 for d in days]
            out["date"] = np.reshape(np.array(parts, dtype=np.float64), (-1, 4))
        elif self.kind == "code":
            out["digits"] = np.array([re.sub(r"\D", "", text) for text in texts], dtype=object)
        for way, weight in self.rarity.items():
            out[way] = _tokens(way, texts)
            out[way].data = weight[out[way].indices]
        return out


@dataclass(frozen=True, eq=False)
class Comparisons:
    """How records are compared: their fields, and the whole record as the last one.

    Attributes
    ----------
    rivals: Whether other records of the tables are looked at.
    """

    fields: tuple[Field, ...]
    rivals: bool

    @classmethod
    def fit(cls, tables: Sequence[Records], rivals: bool) -> Comparisons:
        """Recognise the fields that all tables have."""
        names = [name for name in tables[0].fields if all(name in t.fields for t in tables)]
        cells = {name: np.concatenate([t.fields[name] for t in tables]) for name in names}
        known = {name: each for name, each in cells.items() if not is_missing(each).all()}
        if not known:
            raise ValueError("The tables have no field with values in common; rename fields.")
        fields = [Field.fit(name, each) for name, each in known.items()]
        return cls((*fields, Field.fit(WHOLE, _whole(Records(known)))), rivals)

    @property
    def names(self) -> list[tuple[str, str]]:
        """The field and the way of each comparison."""
        none = Records({each.name: np.empty(0, dtype=object) for each in self.fields[:-1]})
        found = self._columns([self._prepared(none)] * 2, np.empty((0, 2), dtype=np.intp))
        extra = ("nearer than all rivals", "nearer than rivals of one") if self.rivals else ()
        return [*found, *((WHOLE, way) for way in extra)]

    def compare(self, left: Records, right: Records, pairs: Ints) -> Matrix:
        """Return a row of comparisons for each pair of rows of two tables."""
        one_table = right is left
        if not self.rivals:
            (one, i), (two, j) = (np.unique(side, return_inverse=True) for side in pairs.T)
            left, right, pairs = left.take(one), right.take(two), np.column_stack([i, j])
        sides = [self._prepared(table) for table in (left, right)]
        blocks = [pairs[top : top + _BLOCK] for top in range(0, max(1, len(pairs)), _BLOCK)]
        X = np.concatenate(
            [np.column_stack([*self._columns(sides, block).values()]) for block in blocks]
        )
        if not self.rivals:
            return X
        own = X[:, self.names.index((WHOLE, "triples: cosine"))]
        first, second = (normalize(side[WHOLE]["triples"]) for side in sides)
        rivals = np.array(
            [
                _nearest_other(first, second, pairs, one_table),
                _nearest_other(second, first, pairs[:, ::-1], one_table),
            ]
        )
        return np.column_stack([X, own - rivals.max(axis=0), own - rivals.min(axis=0)])

    def _prepared(self, table: Records) -> dict[str, _Prepared]:
        names = [each.name for each in self.fields[:-1]]
        if lacking := [name for name in names if name not in table.fields]:
            raise ValueError(f"A table has no field {quoted(lacking[0])}, which was learned from.")
        cells = {name: table.fields[name] for name in names}
        cells[WHOLE] = _whole(Records(cells))
        return {each.name: each.prepare(cells[each.name]) for each in self.fields}

    def _columns(
        self, sides: Sequence[dict[str, _Prepared]], pairs: Ints
    ) -> dict[tuple[str, str], Vector]:
        out = {}
        for name in sides[0]:
            a, b = (
                {key: value[rows] for key, value in side[name].items()}
                for side, rows in zip(sides, pairs.T, strict=True)
            )
            gap = a["missing"] | b["missing"]
            out[name, "missing"] = a["missing"].astype(np.float64) + b["missing"]
            for way, column in _compared(a, b).items():
                out[name, way] = np.where(gap, np.nan, column)
        return out


def _compared(a: _Prepared, b: _Prepared) -> dict[str, Vector]:
    """Compare cells that are known in the ways that they are prepared for."""
    out = _letters(a["text"], b["text"])
    if "number" in a:
        x, y = a["number"], b["number"]
        size = np.maximum(np.abs(x), np.abs(y))
        out["relative difference"] = np.abs(x - y) / np.where(size > 0, size, 1.0)
    if "date" in a:
        x, y = a["date"].T, b["date"].T
        unknown = np.isnan(x[0] + y[0])
        found = dict(zip(("year", "month", "day"), x == y, strict=False))
        found["swapped"] = (x[1] == y[2]) & (x[2] == y[1])
        out |= {way: np.where(unknown, np.nan, equal) for way, equal in found.items()}
        out["days apart"] = np.log1p(np.abs(x[3] - y[3]))
    if "digits" in a:
        x, y = a["digits"], b["digits"]
        out["digits"] = _letters(x, y)["letters in order"]
        ends = [p[-_ENDING:] == q[-_ENDING:] for p, q in zip(x, y, strict=True)]
        out["end of digits"] = np.array(ends, dtype=np.float64)
    for way in [way for way in _TOKENS if way in a]:
        out |= {f"{way}: {name}": value for name, value in _overlap(a[way], b[way]).items()}
    return out


def _letters(one: Array, two: Array) -> dict[str, Vector]:
    """Compare texts letter by letter; the order of the two does not matter."""
    fuzz, distance, process = (
        optional_package(f"rapidfuzz.{module}", "RecordMatcher", "nearfar[match]")
        for module in ("fuzz", "distance", "process")
    )
    swapped = one > two
    first, second = np.where(swapped, two, one), np.where(swapped, one, two)
    scorers = {
        "letters in order": (fuzz.ratio, 100.0),
        "first letters": (distance.JaroWinkler.similarity, 1.0),
        "words in any order": (fuzz.token_sort_ratio, 100.0),
        "words of the shorter": (fuzz.token_set_ratio, 100.0),
    }
    out = {
        way: process.cpdist(first, second, scorer=scorer, dtype=np.float64) / largest
        for way, (scorer, largest) in scorers.items()
    }
    return {"equal": (one == two).astype(np.float64), **out}


def _overlap(A: csr_matrix, B: csr_matrix) -> dict[str, Vector]:
    """Compare sets of tokens by their weights; nan if one is empty."""
    shared = A.minimum(B)
    a, b, both = (np.asarray(M.sum(axis=1)).ravel() for M in (A, B, shared))
    aa, bb, squares = (np.asarray(M.power(2).sum(axis=1)).ravel() for M in (A, B, shared))
    rarest = [(M - shared).max(axis=1).toarray().ravel() for M in (A, B)]
    with np.errstate(invalid="ignore", divide="ignore"):
        out = {
            "cosine": squares / np.sqrt(aa * bb),
            "share of the shorter": both / np.minimum(a, b),
            "share of the longer": both / np.maximum(a, b),
            "rarest not shared, least": np.minimum(*rarest),
            "rarest not shared, most": np.maximum(*rarest),
        }
    empty = (a == 0) | (b == 0)
    return {name: np.where(empty, np.nan, value) for name, value in out.items()}


def _nearest_other(one: csr_matrix, two: csr_matrix, pairs: Ints, one_table: bool) -> Vector:
    """Return the largest cosine of each first record with a record that is not of the pair."""
    i, j = pairs.T
    rows, place = np.unique(i, return_inverse=True)
    kept = min(_NEAREST, two.shape[0])
    nearest, cosine = np.empty((len(rows), kept), np.intp), np.empty((len(rows), kept))
    step = max(1, _COSINES // max(1, two.shape[0]))
    for top in range(0, len(rows), step):
        some = slice(top, top + step)
        S = (one[rows[some]] @ two.T).toarray()
        nearest[some] = np.argpartition(-S, kept - 1, axis=1)[:, :kept]
        cosine[some] = np.take_along_axis(S, nearest[some], axis=1)
    other = nearest[place] != j[:, None]
    if one_table:
        other &= nearest[place] != i[:, None]
    return np.where(other, cosine[place], 0.0).max(axis=1, initial=0.0)


def _tokens(way: str, texts: Sequence[str] | Cells) -> Any:
    """Return a sparse matrix of texts and tokens: 1 where a text has a token."""
    hasher = HashingVectorizer(
        analyzer=_TOKENS[way],
        n_features=_BUCKETS,
        norm=None,
        alternate_sign=False,
        binary=True,
        dtype=np.float32,
    )
    return hasher.transform([*texts, ""])[:-1]


def _whole(table: Records) -> Cells:
    """Return all fields together; None if all are missing."""
    rows = zip(*table.fields.values(), strict=True)
    return np.fromiter((" ".join(filter(None, row)) or None for row in rows), object, len(table))


def _date(cell: str) -> date | None:
    """Read a date, also one without marks: 20240131. Other digits alone are no date."""
    if match := _COMPACT_DATE.fullmatch(cell):
        cell = "-".join(match.groups())
    with suppress(ValueError):
        return None if cell.isdigit() else parse_date(cell)
    return None


def _mostly_digits(cell: str) -> bool:
    letters = "".join(_WORD.findall(cell))
    return 2 * sum(letter.isdigit() for letter in letters) >= max(1, len(letters))
