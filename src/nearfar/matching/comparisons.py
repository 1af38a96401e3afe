"""Comparisons: the fields of two records, each compared in its own ways.

A pair of records becomes a row of numbers. What a field is, is recognised from the records that
are learned from:

======  ==================================================================================
kind    ways
======  ==================================================================================
text    equal, similar letters (three ratios), and by their rarity: triples of letters,
        words, numbers and codes in it, and its words anywhere in the other record
code    equal, similar letters (three ratios), similar digits, equal end of the digits
number  equal, relative difference, similar letters (three ratios); units are converted
date    year, month and day equal, day and month swapped, days apart, similar digits
======  ==================================================================================

The whole record is compared as one more text. A comparison with a missing cell is nan, and one
column tells how many of the two cells are missing. All comparisons are symmetric.
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

from nearfar.columns.cells import Cells, is_missing
from nearfar.columns.date_text import parse_date
from nearfar.columns.notation import PLAIN, Notation, survey
from nearfar.matching.records import Records, plain
from nearfar.runtime.optional_package import optional_package
from nearfar.typing import Array, Ints, Matrix, Vector

WHOLE = "(whole record)"
"""The name of the text of all fields together."""

# Tokens with equal hashes count as one: with 65,536, a few of a thousand words have another's.
_BUCKETS = 1 << 16
# Pairs that are compared at a time.
_BLOCK = 1 << 13
# Share of the known cells that must be dates, or mostly digits.
_MOST = 0.9
# Digits at the end that two forms of a phone number share.
_ENDING = 7
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


@dataclass(frozen=True, eq=False)
class Field:
    """A field and what it is.

    Attributes
    ----------
    name : str
    kind : {"text", "code", "number", "date"}
    notation : Notation
        How numbers are written.
    rarity : dict of str to array
        Weights of the tokens of a text: logarithms of how rare they are.
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
        """Read cells once, for all pairs that they are in."""
        texts = np.fromiter((plain(cell) for cell in cells), object, len(cells))
        values: dict[str, Any] = {}
        if self.kind == "number":
            # Cells that are no numbers are compared as text only.
            values["number"] = self.notation.read(cells)
        if self.kind == "date":
            days = [_date(cell) if cell else None for cell in cells]
            values["date"] = np.array(
                [(d.year, d.month, d.day, d.toordinal()) if d else (np.nan,) * 4 for d in days]
            ).reshape(-1, 4)
        if self.kind == "code":
            values["digits"] = np.fromiter(
                ("".join(c for c in text if c.isdigit()) for text in texts), object, len(texts)
            )
        tokens = {
            way: _weighted(_tokens(way, texts), weight) for way, weight in self.rarity.items()
        }
        return _Prepared(texts, is_missing(cells), values, tokens)


@dataclass(frozen=True, eq=False)
class _Prepared:
    texts: Array
    missing: Array
    values: dict[str, Any]
    tokens: dict[str, csr_matrix]

    def take(self, rows: Ints) -> _Prepared:
        return _Prepared(
            self.texts[rows],
            self.missing[rows],
            {name: value[rows] for name, value in self.values.items()},
            {way: matrix[rows] for way, matrix in self.tokens.items()},
        )


@dataclass(frozen=True, eq=False)
class Comparisons:
    """How records are compared: their fields, and the whole record as the last one.

    Attributes
    ----------
    fields : tuple of Field

    Examples
    --------
    >>> from nearfar.matching.comparisons import Comparisons
    >>> from nearfar.matching.records import Records
    >>> people = Records.of({"name": ["Ann", "Bob"], "born": ["1990-03-04", "4/3/1990"]}, "people")
    >>> comparisons = Comparisons.fit([people])
    >>> [(each.name, each.kind) for each in comparisons.fields]
    [('name', 'text'), ('born', 'date'), ('(whole record)', 'text')]
    """

    fields: tuple[Field, ...]

    @classmethod
    def fit(cls, tables: Sequence[Records]) -> Comparisons:
        """Recognise the fields that all tables have."""
        shared = [name for name in tables[0].fields if all(name in t.fields for t in tables)]
        cells = {name: np.concatenate([t.fields[name] for t in tables]) for name in shared}
        fields = [
            Field.fit(name, each) for name, each in cells.items() if not is_missing(each).all()
        ]
        whole = np.concatenate([_whole(table, shared) for table in tables])
        return cls((*fields, Field.fit(WHOLE, whole)))

    def compare(
        self, left: Records, right: Records, pairs: Ints
    ) -> tuple[list[tuple[str, str]], Matrix]:
        """Return the field and the way of each comparison, and a row of them for each pair."""
        sides = []
        for table, rows in zip((left, right), pairs.T, strict=True):
            used, place = np.unique(rows, return_inverse=True)
            some = table.take(used)
            whole = _whole(some, [each.name for each in self.fields[:-1]])
            cells = {**some.fields, WHOLE: whole}
            ready = {each.name: each.prepare(cells[each.name]) for each in self.fields}
            words = {
                each.name: _weighted(
                    _tokens("words", ready[each.name].texts), self.fields[-1].rarity["words"]
                )
                for each in self.fields[:-1]
                if each.kind == "text"
            }
            sides.append((ready, words, place))
        names: list[tuple[str, str]] = []
        blocks = []
        for top in range(0, max(1, len(pairs)), _BLOCK):
            columns = {}
            (one, one_words, i), (two, two_words, j) = (
                (ready, words, place[top : top + _BLOCK]) for ready, words, place in sides
            )
            for each in self.fields:
                a, b = one[each.name].take(i), two[each.name].take(j)
                found = {
                    "missing": a.missing.astype(float) + b.missing,
                    **_compared(each.kind, a, b),
                }
                if each.name in one_words:
                    there = _inside(one_words[each.name][i], two[WHOLE].tokens["words"][j])
                    back = _inside(two_words[each.name][j], one[WHOLE].tokens["words"][i])
                    found |= _both("words elsewhere", there, back)
                columns |= {(each.name, way): column for way, column in found.items()}
            names = list(columns)
            blocks.append(np.column_stack(list(columns.values())))
        return names, np.concatenate(blocks)


def _compared(kind: str, a: _Prepared, b: _Prepared) -> dict[str, Vector]:
    out = _letters(a.texts, b.texts)
    if kind == "number":
        x, y = a.values["number"], b.values["number"]
        size = np.maximum(np.abs(x), np.abs(y))
        out["relative difference"] = np.abs(x - y) / np.where(size > 0, size, 1.0)
    if kind == "date":
        x, y = a.values["date"].T, b.values["date"].T
        for part, name in enumerate(("year", "month", "day")):
            out[name] = _known(x[part] == y[part], x[part], y[part])
        out["swapped"] = _known((x[1] == y[2]) & (x[2] == y[1]), x[0], y[0])
        out["days apart"] = np.log1p(np.abs(x[3] - y[3]))
    if kind == "code":
        x, y = a.values["digits"], b.values["digits"]
        out["digits"] = _letters(x, y)["letters in order"]
        ends = [p[-_ENDING:] == q[-_ENDING:] for p, q in zip(x, y, strict=True)]
        out["end of digits"] = np.array(ends, dtype=float)
    for way in a.tokens:
        out |= {
            f"{way}: {name}": value
            for name, value in _overlap(a.tokens[way], b.tokens[way]).items()
        }
    gap = a.missing | b.missing
    return {way: np.where(gap, np.nan, column) for way, column in out.items()}


def _known(values: Array, *parts: Vector) -> Vector:
    return np.where(np.isnan(parts).any(axis=0), np.nan, values)


def _letters(one: Array, two: Array) -> dict[str, Vector]:
    """Compare texts letter by letter; the order of the two never matters."""
    distance = optional_package("rapidfuzz.distance", "RecordMatcher", "nearfar[match]")
    fuzz = optional_package("rapidfuzz.fuzz", "RecordMatcher", "nearfar[match]")
    process = optional_package("rapidfuzz.process", "RecordMatcher", "nearfar[match]")
    swapped = one > two
    first, second = np.where(swapped, two, one), np.where(swapped, one, two)
    scorers = {
        "letters in order": (fuzz.ratio, 100.0),
        "first letters": (distance.JaroWinkler.similarity, 1.0),
        "words in any order": (fuzz.token_sort_ratio, 100.0),
        "words of the shorter": (fuzz.token_set_ratio, 100.0),
        "part": (fuzz.partial_ratio, 100.0),
    }
    out = {
        way: process.cpdist(first, second, scorer=scorer, dtype=np.float64) / scale
        for way, (scorer, scale) in scorers.items()
    }
    return {"equal": (one == two).astype(float), **out}


def _overlap(A: csr_matrix, B: csr_matrix) -> dict[str, Vector]:
    """Compare sets of tokens by their weights; nan if one is empty."""
    shared = A.minimum(B)
    a, b, both = (np.asarray(M.sum(axis=1)).ravel() for M in (A, B, shared))
    squares = [np.asarray(M.multiply(M).sum(axis=1)).ravel() for M in (A, B, shared)]
    with np.errstate(invalid="ignore", divide="ignore"):
        out = {
            "cosine": squares[2] / np.sqrt(squares[0] * squares[1]),
            "share of the shorter": both / np.minimum(a, b),
            "share of the longer": both / np.maximum(a, b),
        }
    rarest = [(M - shared).max(axis=1).toarray().ravel() for M in (A, B)]
    out |= _both("rarest not shared", *rarest)
    empty = (a == 0) | (b == 0)
    return {name: np.where(empty, np.nan, value) for name, value in out.items()}


def _inside(part: csr_matrix, whole: csr_matrix) -> Vector:
    """Return the share of tokens, by weight, that a text has of another; nan without tokens."""
    with np.errstate(invalid="ignore"):
        return np.asarray(part.minimum(whole).sum(axis=1) / part.sum(axis=1)).ravel()


def _both(name: str, one: Vector, two: Vector) -> dict[str, Vector]:
    return {f"{name}, least": np.fmin(one, two), f"{name}, most": np.fmax(one, two)}


def _tokens(way: str, texts: Sequence[str]) -> csr_matrix:
    hasher = HashingVectorizer(
        analyzer=_TOKENS[way],
        n_features=_BUCKETS,
        norm=None,
        alternate_sign=False,
        binary=True,
        dtype=np.float32,
    )
    return hasher.transform(texts) if len(texts) else csr_matrix((0, _BUCKETS), dtype=np.float32)


def _weighted(tokens: csr_matrix, weight: Array) -> csr_matrix:
    tokens.data = weight[tokens.indices] * 1.0
    return tokens


def _whole(table: Records, names: Sequence[str]) -> Cells:
    rows = zip(*(table.fields[name] for name in names), strict=True)
    return np.fromiter((" ".join(c for c in row if c) or None for row in rows), object, len(table))


def _date(cell: str) -> date | None:
    if match := _COMPACT_DATE.fullmatch(cell):
        with suppress(ValueError):
            return date(*map(int, match.groups()))
        return None
    with suppress(ValueError):
        return parse_date(cell) if not cell.isdigit() else None
    return None


def _mostly_digits(cell: str) -> bool:
    letters = "".join(_WORD.findall(cell))
    return 2 * sum(letter.isdigit() for letter in letters) >= max(1, len(letters))
