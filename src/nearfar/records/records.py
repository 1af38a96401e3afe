"""Records: a table in memory, whose fields are read as text.

What a field is (a date, a number with a unit, a code, or text) is recognised later, from text, so
that a date that one table has as text and the other one as an integer is the same date.

Candidates: the pairs of records that are worth a comparison, out of all pairs.

A record is a bag of tokens: the triples of letters of its words, its words, and its whole values.
Tokens are weighted by their rarity, and the candidates of a record are those with the largest
cosine. A code, a phone number or a date of birth that few records have is a rare token, so that an
exact agreement on it counts more than anything else.

A record only looks up its rarest tokens: as many as lead to 5,000 records. The time is therefore
that of 5,000 additions for each record, however many records there are, and there is no array of
all pairs.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix, diags_array
from sklearn.feature_extraction.text import HashingVectorizer

from nearfar.columns.cells import (
    MISSING_WORDS,
    Cells,
    column_keys,
    column_values,
    is_frame,
    texts,
)
from nearfar.evidence.intervals import group_variance, mean_interval
from nearfar.evidence.splits import joined_classes
from nearfar.typing import Ints, Vector


@dataclass(frozen=True, eq=False)
class Records:
    """The fields of records, as text.

    Attributes
    ----------
    fields: The cells of each field; missing ones are None.
    """

    fields: dict[str, Cells]

    def __len__(self) -> int:
        return len(next(iter(self.fields.values()), ()))

    def take(self, rows: Ints) -> Records:
        """Return some of the records."""
        return Records({name: cells[rows] for name, cells in self.fields.items()})

    @classmethod
    def of(cls, table: Any, name: str) -> Records:
        """Read a table.

        Parameters
        ----------
        name: What messages call it.
        """
        if isinstance(table, Records):
            return table
        if is_frame(table):
            columns = {text: column_values(table, key) for text, key in column_keys(table).items()}
        elif isinstance(table, Mapping):
            columns = {str(key): np.fromiter(cells, object) for key, cells in table.items()}
        elif isinstance(table, Sequence) and all(isinstance(row, Mapping) for row in table):
            keys = dict.fromkeys(key for row in table for key in row)
            columns = {str(k): np.fromiter((row.get(k) for row in table), object) for k in keys}
        else:
            raise TypeError(
                f"{name} must be a DataFrame, a dict of columns or a list of dicts; got "
                f"{type(table).__name__}."
            )
        if len({len(cells) for cells in columns.values()}) > 1:
            raise ValueError(f"The columns of {name} have different lengths.")
        fields = {}
        for key, cells in columns.items():
            words = [word and word.strip() for word in texts(cells)]
            fields[key] = np.fromiter((None if _is_gap(w) else w for w in words), object)
        return cls(fields)


def _is_gap(word: str | None) -> bool:
    """Tell whether a word stands for a missing value; the last two are those of pandas."""
    return word is None or word.lower() in MISSING_WORDS or word in ("NaT", "<NA>")


def plain(text: str | None) -> str:
    """Return text in lower case, without accents and runs of spaces; "" if it is missing."""
    decomposed = unicodedata.normalize("NFKD", text or "")
    kept = (letter for letter in decomposed if not unicodedata.combining(letter))
    return " ".join("".join(kept).lower().split())


N_CANDIDATES = 10
"""Candidates of a record: on four tables of products and papers, 98 to 100 % of the matches."""
# Records that the tokens of a record lead to. With 20,000 instead, no more matches are found among
# 5,000 records, and 0.1 % more among 100,000.
_MOST_LOOKED_UP = 5_000
_BUCKETS = 1 << 20
# Records of the left table at a time: at most 1.3 million cosines.
_BLOCK = 256


def candidate_pairs(
    left: Any, right: Any = None, *, n_candidates: int = N_CANDIDATES
) -> tuple[Ints, Vector]:
    """Find the pairs of records that have the most in common.

    Parameters
    ----------
    left, right : DataFrame, dict of columns, or list of dicts
        Without `right`, pairs of different records of one table.
    n_candidates : int, default=10
        Most candidates of each record of `left`.

    Returns
    -------
    pairs : array of int of shape (n_pairs, 2)
        Row numbers, in order; in one table the first is smaller.
    similarity : array of shape (n_pairs,)
        Cosines of what was looked up.

    Examples
    --------
    >>> from nearfar.records import candidate_pairs
    >>> left = {"name": ["Ann Miller", "Bo Smith"], "phone": ["555-1234", "555-9876"]}
    >>> right = {"name": ["Smith, B.", "Anne Miller"], "phone": ["555-9876", None]}
    >>> candidate_pairs(left, right, n_candidates=1)[0]
    array([[0, 1],
           [1, 0]])
    """
    one_table = right is None
    A = _token_counts(Records.of(left, "left"))
    B = A if one_table else _token_counts(Records.of(right, "right"))
    # In one table a record finds itself, and a pair is found from both of its sides.
    found = list(_nearest(*_weighted(A, B, one_table=one_table), n_candidates + one_table))
    pairs, similarity = (np.concatenate(part) for part in zip(*found, strict=True))
    if one_table:
        pairs.sort(axis=1)
        others = pairs[:, 0] < pairs[:, 1]
        pairs, similarity = pairs[others], similarity[others]
    _, first = np.unique(pairs @ [B.shape[0], 1], return_index=True)
    return pairs[first], similarity[first]


def kept_matches(
    candidates: Ints, matches: Ints, *, one_table: bool = False
) -> tuple[float, tuple[float, float]]:
    """Return which share of known matches is among the candidates, with its 90 % interval.

    Parameters
    ----------
    candidates, matches: shape (n, 2). Row numbers. The matches must not come from the same
        or a similar choice of candidates.
    one_table: Whether the order in a pair does not matter.
    """
    kept = pair_places(candidates, matches, one_table=one_table) >= 0
    if not len(kept):
        return float("nan"), (0.0, 1.0)
    # Matches of one person are kept or lost together.
    n_left = 0 if one_table else matches[:, 0].max() + 1
    records = matches + np.array([0, n_left])
    person = joined_classes(records, np.ones(len(matches), dtype=bool))[:, 0]
    share = float(kept.mean())
    variance, n_groups = group_variance(kept.astype(np.float64) - share, person)
    return share, mean_interval(share, variance, n_groups)


def pair_places(pairs: Ints, wanted: Ints, *, one_table: bool = False) -> Ints:
    """Return where each wanted pair is among pairs; -1 if it is not."""
    both = np.concatenate([pairs, wanted]).astype(np.int64)
    if one_table:
        both.sort(axis=1)
    code = both @ [both.max(initial=0) + 1, 1]
    places = {pair: place for place, pair in enumerate(code[: len(pairs)].tolist())}
    return np.array([places.get(pair, -1) for pair in code[len(pairs) :].tolist()], dtype=np.intp)


def _token_counts(records: Records) -> csr_matrix:
    rows = zip(*([plain(cell) for cell in cells] for cells in records.fields.values()), strict=True)
    hashing = HashingVectorizer(
        analyzer=_tokens, n_features=_BUCKETS, alternate_sign=False, norm=None, dtype=np.float32
    )
    return csr_matrix(hashing.transform(rows))


def _tokens(values: tuple[str, ...]) -> list[str]:
    """Return the triples of letters of all words, with = the words and the whole values."""
    found = []
    for value in values:
        words = value.split()
        found += [f"={each}" for each in {value, *words} if each]
        for word in words:
            padded = f" {word} "
            found += [padded[start : start + 3] for start in range(len(padded) - 2)]
    return found


def _weighted(A: csr_matrix, B: csr_matrix, *, one_table: bool) -> tuple[csr_matrix, csr_matrix]:
    """Return unit rows by rarity; those of A only have the tokens that are looked up."""
    in_A, in_B = A.getnnz(axis=0), B.getnnz(axis=0)
    counts, n = (in_A, A.shape[0]) if one_table else (in_A + in_B, A.shape[0] + B.shape[0])
    rarity = (1 + np.log((1 + n) / (1 + counts))).astype(np.float32)
    unit = []
    for M in (A, B):
        weighted = M.copy()
        weighted.data = (1 + np.log(M.data)) * rarity[M.indices]
        length = np.sqrt(np.asarray(weighted.power(2).sum(axis=1)).ravel())
        unit.append(csr_matrix(diags_array(1 / np.maximum(length, 1e-12)) @ weighted))
    Q, D = unit
    row = np.repeat(np.arange(Q.shape[0]), np.diff(Q.indptr))
    n_found = in_B[Q.indices]
    order = np.lexsort([n_found, row])
    total = np.cumsum(n_found[order])
    before = np.concatenate([[0], total])[Q.indptr[:-1]]
    looked_up = np.empty(len(row), dtype=bool)
    looked_up[order] = total - before[row] <= _MOST_LOOKED_UP
    Q.data[~looked_up] = 0
    Q.eliminate_zeros()
    return Q, D


def _nearest(Q: csr_matrix, D: csr_matrix, n: int) -> Iterator[tuple[Ints, Vector]]:
    """Yield the n largest cosines of each row of Q."""
    columns = D.T.tocsr()
    for start in range(0, Q.shape[0], _BLOCK):
        cosines = Q[start : start + _BLOCK] @ columns
        for row, (low, high) in enumerate(zip(cosines.indptr, cosines.indptr[1:], strict=False)):
            place = np.arange(low, high)
            if high - low > n:
                place = low + np.argpartition(-cosines.data[low:high], n)[:n]
            others = cosines.indices[place].astype(np.intp)
            yield np.column_stack([np.full_like(others, start + row), others]), cosines.data[place]
