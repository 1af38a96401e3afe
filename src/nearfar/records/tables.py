"""Tables of records with their ids, pairs that are known, and tables of questions.

Pairs to begin with when nothing is known, and pairs to ask people about.

Without labels, candidates that agree on several rare values are taken for matches, and the other
candidates of their records for different ones. Nothing is certified then.

Half of the questions are the pairs nearest to the threshold, whose answers move it most. The others
are drawn at random from strata of the probability, so that their answers tell the F1 of today's
decisions, which were made before the answers. In a stratum of N pairs of which k were drawn and w
decided wrongly, the share of wrong decisions is estimated by w / k, and its variance by
p (1 - p) / k with p = (w + q) / (k + 1), where q is the share that the matcher expects. The
variance of F1 = 2 TP / (2 TP + FP + FN) follows by linearisation.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from nearfar.evidence.intervals import mean_interval
from nearfar.frames.formats import read_frame
from nearfar.frames.judgements import SAME, read_truths
from nearfar.frames.reader import Source, listed, require_columns
from nearfar.frames.reading import row_names
from nearfar.frames.table import Frame, TableError
from nearfar.records.matcher import How
from nearfar.records.records import Records, pair_places, plain
from nearfar.runtime.messages import counted, named, note, option, quoted
from nearfar.typing import Array, Bools, Ints, Vector

# What other programs add to numbers and take away, in front and behind.
_ZEROS = re.compile(r"^0+(?=\d)|\.0+$")
# Unknown ids that a message shows.
_SHOWN = 5
_SIDES = ("left", "right"), ("a", "b")
ASKED = ["stratum", "weight", "probability", "guess"]
"""What a question has beside the pair, so that its answer tells how good the matcher was."""


@dataclass(frozen=True, eq=False)
class Side:
    """A table of records, and their ids; without ids, rows are named by their numbers.

    Attributes
    ----------
    ids: Text or numbers, as they are in the table.
    column: Name of the column of ids.
    """

    records: Records
    ids: list[Any] | None = None
    column: str | None = None

    def names(self, rows: Sequence[int] | Ints) -> Sequence[object]:
        """Return ids, or row numbers."""
        return [int(row) if self.ids is None else self.ids[row] for row in rows]

    def rows(self, names: pl.Series, path: object) -> Ints:
        """Return the rows of ids."""
        known = range(len(self.records)) if self.ids is None else self.ids
        number = {str(name): row for row, name in enumerate(known)}
        texts = [str(name).strip() for name in names.to_list()]
        unknown = list(dict.fromkeys(name for name in texts if name not in number))
        if unknown:
            where = f"that {self.column and named(self.column)} does not have"
            where = where if self.column else "that are no row numbers"
            hint = "" if self.column else f"; name the column of ids with {option('ids')}"
            raise TableError(
                f"{path} refers to {counted(len(unknown), 'id')} in column {names.name} {where}: "
                f"{listed(unknown, _SHOWN)}{hint}."
            )
        return np.array([number[name] for name in texts], dtype=np.intp)


def read_sides(
    sources: list[Any],
    ids: str | None,
    files: list[tuple[Source, pl.DataFrame]],
    remembered: Sequence[str | None] = (),
) -> list[Side]:
    """Read the tables; a column of ids is not compared.

    Parameters
    ----------
    ids: Columns of ids that are given, with a comma.
    files: Known pairs, by which columns of ids are found.
    remembered: Columns of ids of the tables that a matcher was learned from.
    """
    sides = []
    chosen = (ids or "").split(",")
    for place, given in enumerate(sources):
        side = _SIDES[0][place]
        source = source_of(given, side)
        frame = read_frame(source)
        column: str | None = chosen[min(place, len(chosen) - 1)].strip()
        if column:
            require_columns(source, frame.columns, [column])
        elif column := _id_column(frame, place, files, remembered):
            note(f"took {column} as ids; it is not compared.")
        else:
            note(
                f"records of {source} are named by row numbers, from 0; name a column of ids with "
                f"{option('ids')}."
            )
        if not column:
            sides.append(Side(Records.of(frame, side)))
            continue
        row_names(frame[column], source)
        names = [n if isinstance(n, int) else str(n) for n in frame[column].to_list()]
        sides.append(Side(Records.of(frame.drop(column), side), names, column))
    return sides


def source_of(given: Any, name: str) -> Source:
    """Return a path, or a DataFrame under a name."""
    if isinstance(given, str | PathLike):
        return Path(given)
    return Frame.of(given, name)


def _id_column(
    frame: pl.DataFrame,
    place: int,
    files: list[tuple[Source, pl.DataFrame]],
    remembered: Sequence[str | None],
) -> str | None:
    """Return the column that has the most ids of the known pairs, or one that looks like ids."""
    texts = {name: {str(cell).strip() for cell in frame[name].to_list()} for name in frame.columns}
    texts = {name: cells for name, cells in texts.items() if len(cells) == len(frame)}
    if not files:
        own = [remembered[min(place, len(remembered) - 1)]] if remembered else []
        likely = [n for n in frame.columns[1:] if n.lower() == "id"]
        likely += [n for n in frame.columns[:1] if n.lower().endswith("id")]
        return next((name for name in [*own, *likely] if name in texts), None)
    ends = [_ends(pairs)[place] for _, pairs in files]
    wanted = {str(name).strip() for names in ends for name in names.to_list()}
    found = {name: len(wanted & cells) for name, cells in texts.items()}
    best = max(found, key=lambda name: found[name], default="")
    n_rows = len(wanted.intersection(map(str, range(len(frame)))))
    n_best = found.get(best, 0)
    if max(n_best, n_rows) < len(wanted) / 2:
        for column, cells in texts.items():
            known = {_ZEROS.sub("", name): name for name in cells}
            alike = sorted(name for name in wanted if _ZEROS.sub("", name) in known)
            if len(alike) > len(wanted) / 2:
                raise TableError(
                    f"{files[0][0]} refers to {quoted(alike[0])} in column {ends[0].name}, and "
                    f"{named(column)} has {quoted(known[_ZEROS.sub('', alike[0])])}; give ids as "
                    "they are in the table, as text."
                )
    return best if n_best >= max(1, n_rows) else None


def _ends(pairs: pl.DataFrame) -> list[pl.Series]:
    """Return the two columns that name records."""
    found = (names for names in _SIDES if set(names) <= set(pairs.columns))
    names = next(found, pairs.columns[:2])
    if len(names) < 2:
        raise TableError("Known pairs need the columns left and right.")
    return [pairs[name] for name in names]


@dataclass(frozen=True, eq=False)
class KnownPairs:
    """Known pairs of a file.

    Attributes
    ----------
    complete: Whether they are all matches of their records.
    chosen: Whether they are answers to questions, which are candidates.
    asked: Of questions beside decisions: what `estimated_f1` needs.
    """

    index: Ints
    same: Bools
    complete: bool
    chosen: bool
    asked: dict[str, Array] | None

    @classmethod
    def read(cls, frame: pl.DataFrame, path: object, sides: list[Side]) -> KnownPairs:
        """Read pairs; those without an answer are left out."""
        column = next((name for name in SAME if name in frame.columns), None)
        if column is not None:
            answered = frame[column].cast(pl.String).str.strip_chars().fill_null("") != ""
            frame = frame.filter(answered)
        ends = zip((sides[0], sides[-1]), _ends(frame), strict=True)
        index = np.column_stack([side.rows(names, path) for side, names in ends])
        same = np.ones(len(frame), dtype=bool)
        if column is not None:
            same = np.array(read_truths(frame[column], path), dtype=bool)  # type: ignore[arg-type]
        asked = None
        if column is not None and set(ASKED) <= set(frame.columns):
            asked = {name: frame[name].cast(pl.Float64).to_numpy() for name in ASKED[:3]}
            asked["guess"] = np.array(read_truths(frame["guess"], path))  # type: ignore[arg-type]
        chosen = any(name.startswith(f"{_SIDES[0][0]}: ") for name in frame.columns)
        return cls(index, same, column is None, chosen, asked)


def all_pairs(known: Sequence[KnownPairs], same: bool | None = None) -> Ints:
    """Return the pairs of all files, or those that are the same or different."""
    parts = [each.index if same is None else each.index[each.same == same] for each in known]
    return np.concatenate([np.empty((0, 2), dtype=np.intp), *parts])


def note_contradictions(known: Sequence[KnownPairs], how: How, *, one_table: bool) -> None:
    """Say which known pairs cannot all be right."""
    same, different = all_pairs(known, True), all_pairs(known, False)
    both = np.unique(pair_places(different, same, one_table=one_table))
    if n := int((both >= 0).sum()):
        note(f"{counted(n, 'pair')} are given both as the same and as different.", warning=True)
    if one_table or how not in ("auto", "one-to-one"):
        return
    for name, rows in zip(("left", "right"), np.unique(same, axis=0).T, strict=True):
        if n := int((np.unique(rows, return_counts=True)[1] > 1).sum()):
            note(
                f"several matches are given of {counted(n, 'record')} of the {name} table, and a "
                f"record is in one at most; {option('how', 'all')} allows several.",
                warning=True,
            )


def question_table(sides: Sequence[Side], pairs: Ints, facts: dict[str, Any]) -> pl.DataFrame:
    """Return ids, a column for answers, facts, and the fields of both records."""
    columns = id_columns(sides, pairs) | {"same": [""] * len(pairs)} | facts
    for name, side, rows in zip(_SIDES[0], (sides[0], sides[-1]), pairs.T, strict=True):
        columns |= {f"{name}: {f}": c[rows].tolist() for f, c in side.records.fields.items()}
    return pl.DataFrame(columns)


def id_columns(sides: Sequence[Side], pairs: Ints) -> dict[str, Any]:
    """Return the ids of pairs, or their row numbers."""
    ends = zip(_SIDES[0], (sides[0], sides[-1]), pairs.T, strict=True)
    return {name: side.names(rows) for name, side, rows in ends}


ENOUGH = 0.05
"""Width of the 90 % interval of F1 at which people may stop answering."""
# More records than this with a value, and agreement on it tells little.
_RARE = 3
_FEWEST_SURE = 20
_MANY_FIELDS = 6
_STRATA = np.array([0.001, 0.01, 0.1, 0.5, 0.9, 0.99])


def pairs_by_rare_values(left: Any, right: Any, pairs: Ints) -> tuple[Ints, Bools]:
    """Return pairs that are surely the same or different, by agreement on rare values.

    Parameters
    ----------
    left, right: `right` may be `left`.
    pairs: shape (n_pairs, 2). Candidates.
    """
    tables = Records.of(left, "left"), Records.of(right, "right")
    agreed = np.zeros(len(pairs), dtype=np.intp)
    for name in tables[0].fields.keys() & tables[1].fields.keys():
        sides = [np.array([plain(cell) for cell in table.fields[name]]) for table in tables]
        known, code = np.unique(np.concatenate(sides), return_inverse=True)
        codes = np.split(code, [len(sides[0])])
        counts = [np.bincount(c, minlength=len(known)) for c in codes]
        rare = np.maximum(*counts) <= _RARE
        own, other = (c[rows] for c, rows in zip(codes, pairs.T, strict=True))
        agreed += (own == other) & rare[own] & (known[own] != "")
    # With more fields, two may go together, such as a suburb and its postcode.
    same = agreed >= (2 if len(tables[0].fields) < _MANY_FIELDS else 3)
    if same.sum() < _FEWEST_SURE:
        raise ValueError(
            f"Only {same.sum()} pairs of records agree on several rare values, too few to begin "
            "with; give pairs for which it is known whether they are the same."
        )
    sure = same | (np.isin(pairs[:, 0], pairs[same, 0]) & (agreed == 0))
    return pairs[sure], same[sure]


class Questions(NamedTuple):
    """Pairs to ask about: places among the candidates, strata, and pairs that each stands for.

    The stratum of a pair that was not drawn at random is -1, and its weight 0.
    """

    place: Ints
    stratum: Ints
    weight: Vector


def choose_questions(
    scores: Vector, probability: Vector, same: Bools, asked: Bools, n: int, random: Any
) -> Questions:
    """Choose pairs whose answers matter most, and random ones to estimate with.

    Parameters
    ----------
    scores: shape (n_pairs,). Log-odds relative to the threshold.
    same: Today's decisions.
    asked: Pairs whose answers are known.
    n: Number of questions.
    """
    free = np.flatnonzero(~asked)
    near = free[np.argsort(np.abs(scores[free]), kind="stable")][: n // 2]
    free = np.setdiff1d(free, near)
    code = 2 * np.searchsorted(_STRATA, probability[free], side="right") + same[free]
    strata, sizes = np.unique(code, return_counts=True)
    parts, left = [(near, np.full(len(near), -1), np.zeros(len(near)))], n - len(near)
    # Small strata first: what they cannot fill goes to the others.
    for place in np.argsort(sizes, kind="stable"):
        share = left // (len(strata) + 1 - len(parts))
        drawn = random.permutation(free[code == strata[place]])[:share]
        weight = sizes[place] / max(1, len(drawn))
        parts.append((drawn, *(np.full(len(drawn), each) for each in (strata[place], weight))))
        left -= len(drawn)
    return Questions(*(np.concatenate(part) for part in zip(*parts, strict=True)))


def estimated_f1(
    stratum: Ints, weight: Vector, probability: Vector, guess: Bools, same: Bools
) -> tuple[float, tuple[float, float]]:
    """Estimate the F1 of decisions from answers to random questions, with its 90 % interval.

    Parameters
    ----------
    stratum, weight: shape (n_answers,). As `choose_questions` returned them.
    probability: shape (n_answers,). Of being the same, before the answer.
    guess, same: shape (n_answers,). Decisions, and answers.
    """
    total = weight @ guess + weight @ same
    f1 = float(2 * weight @ (guess & same) / total) if total else 0.0
    variance = 0.0
    for number in np.unique(stratum[stratum >= 0]):
        own = stratum == number
        k = int(own.sum())
        wrong = (guess != same)[own].sum()
        expected = np.where(guess, 1 - probability, probability)[own].mean()
        p = (wrong + expected) / (k + 1)
        moves = (2 - f1 if guess[own][0] else f1) * weight[own].sum() / max(total, 1e-12)
        variance += moves**2 * p * (1 - p) / k
    return f1, mean_interval(f1, variance, max(1, len(stratum)))


def f1_in_words(f1: float, interval: tuple[float, float]) -> str:
    """Say what the answers tell, and whether to go on."""
    low, high = interval
    text = f"F1 of the decisions before these answers: {f1:.3f} ({low:.3f} to {high:.3f})."
    if high - low <= ENOUGH:
        return f"{text} More answers would change little; you may stop."
    return f"{text} More answers would narrow it."
