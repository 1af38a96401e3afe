"""`match`: from tables of records and known pairs to the records that are the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from scipy.special import expit

from nearfar.evidence.intervals import mean_interval
from nearfar.evidence.splits import components
from nearfar.frames.formats import WRITTEN_TABLES, check_output, read_frame, stem_of, write_frame
from nearfar.records import tables
from nearfar.records.matcher import How, Matches, RecordMatcher
from nearfar.records.records import (
    N_CANDIDATES,
    Records,
    candidate_pairs,
    kept_matches,
    pair_places,
)
from nearfar.records.tables import KnownPairs, Side
from nearfar.runtime.messages import Note, collecting_notes, command_line, counted, note, option
from nearfar.typing import Bools, Ints

# Fields that decided, of each match.
_SHOWN_FIELDS = 3
# An explanation takes as long as comparing twenty pairs.
_MOST_EXPLAINED = 1_000
# Pairs to learn from; more take minutes and tell little.
_MOST_LEARNED = 12_000
# Pairs of records among which rivals are searched in about half a minute.
_MOST_WITH_RIVALS = 10**8
# If fewer of the given different pairs are candidates, they are easier than what is decided here.
_FEWEST_CANDIDATES = 0.5


def match(
    left: object,
    right: object = None,
    pairs: object | Sequence[object] = None,
    *,
    target: str | None = None,
    confidence: float = 0.95,
    ids: str | None = None,
    how: How = "auto",
    candidates: int = N_CANDIDATES,
    matcher: str | PathLike[str] | RecordMatcher | None = None,
    save: str | PathLike[str] | None = None,
    ask: str | PathLike[str] | None = None,
    questions: int = 50,
    report: str | PathLike[str] | None = None,
    out: str | PathLike[str] | None = None,
    random_state: int = 0,
) -> Matched | FirstQuestions:
    """Find the records of two tables, or of one table, that are the same.

    Parameters
    ----------
    left : path or DataFrame
        Table of records. Columns of the same name are compared.
    right : path or DataFrame, optional
        Another table; without it, records of the first are compared with each other.
    pairs : path or DataFrame, or list of them, optional
        Known pairs: columns left, right [, same] with ids, or with row numbers from 0. Without a
        column same, these are all matches of the records that they name, and other pairs of these
        records are different. Without pairs and matcher, candidates that agree on several rare
        values are taken for matches, and nothing is certified.
    target : str, optional
        What to certify: "fmr<=1e-4", "precision>=0.99" or "recall>=0.9".
    confidence : float, default=0.95
        Confidence with which `target` is certified, above 0.5 and below 1.
    ids : str, optional
        Column of ids, or two of them with a comma: left, right. By default a column that has all
        ids of the pairs; without pairs one that is called id, or the first one if its name ends in
        id, if all its values differ.
    how : {"auto", "one-to-one", "all", "clusters"}, default="auto"
        Each record in at most one match, all pairs above the threshold, or groups of one table.
        By default one-to-one for two tables, and clusters for one.
    candidates : int, default=10
        Records that each record is compared with.
    matcher : path or RecordMatcher, optional
        Use this matcher instead of learning one.
    save : path, optional
        Write the matcher to this file.
    ask : path, optional
        Write pairs to ask people about to this file: fill in column same, and give it with `pairs`.
        Without pairs and matcher, choose first questions and match nothing.
    questions : int, default=50
        Number of pairs for `ask`.
    report : path, optional
        Write a report as one HTML file.
    out : path, optional
        Table of matches to write, and of pairs to check.
    random_state : int, default=0
        Random seed.

    Returns
    -------
    Matched or FirstQuestions

    Examples
    --------
    >>> import polars as pl
    >>> from nearfar import match
    >>> names = [f"{a} {b}" for a in ("Ann", "Bob", "Cy", "Dee", "Eve") for b in
    ...          ("Abel", "Berg", "Carr", "Dahl", "Egan", "Fink")]
    >>> left = pl.DataFrame({"name": names, "phone": [str(5550100 + 7 * i) for i in range(30)]})
    >>> right = left.reverse().with_columns(pl.col("name").str.to_uppercase())
    >>> matched = match(left, right)
    >>> matched.table.head(1).select("left", "right", "check").rows()
    [(0, 29, False)]
    """
    written = {"Matches": out, "Questions": ask, "Report": report, "Matcher": save}
    kinds = WRITTEN_TABLES, WRITTEN_TABLES, (".html", ".htm"), None
    given = [] if pairs is None else pairs if isinstance(pairs, list) else [pairs]
    inputs = [each for each in (left, right, matcher, *given) if isinstance(each, str | Path)]
    for path, kind in zip(written.values(), kinds, strict=True):
        if path is not None:
            check_output(Path(path), kind, inputs)
    if report is not None:
        # Only reports need matplotlib and Jinja.
        from nearfar.page.page import check_packages

        check_packages()
    if target is not None and (pairs is None or matcher is not None):
        raise ValueError(f"{option('target')} needs known pairs to learn from ({option('pairs')}).")
    sources = [left] if right is None else [left, right]
    if ask is not None and not given and matcher is None:
        if out or save or report:
            raise ValueError(
                f"Nothing is known yet: {option('ask')} writes first questions, and no matches; "
                "leave it out, or all other files to write."
            )
        first = _first_questions(tables.read_sides(sources, ids, []), questions, random_state)
        write_frame(first, Path(ask))
        return FirstQuestions(first, str(ask))
    if isinstance(matcher, str | PathLike):
        matcher = RecordMatcher.load(matcher)
    if matcher is None:
        matcher = RecordMatcher(target, confidence=confidence, random_state=random_state)
    with collecting_notes() as notes:
        names = [tables.source_of(each, "pairs") for each in given]
        files = [(name, read_frame(name)) for name in names]
        sides = tables.read_sides(sources, ids, files, getattr(matcher, "id_columns_", ()))
        known = [KnownPairs.read(frame, path, sides) for path, frame in files]
        if not hasattr(matcher, "threshold_"):
            _learn(matcher, sides, known, how, candidates)
        records = [side.records for side in sides]
        matches = matcher.match(*records, how=how, n_candidates=candidates)
        found = Matched(matches, matcher, tuple(sides), tuple(known), random_state=random_state)
        if found.easy:
            note(
                "most of the given pairs that are different are no candidates, and so they are "
                "easier to tell apart. Probabilities are for pairs like those given, and more "
                "matches may be wrong. If the same pairs are all matches of their records, give "
                "these alone, without column same; or add answers to questions.",
                warning=True,
            )
    paths = {what: str(path) for what, path in written.items() if path is not None}
    found = replace(found, notes=tuple(notes), written=paths)
    if save is not None:
        matcher.save(save)
    if out is not None:
        write_frame(found.table, Path(out))
    if ask is not None:
        write_frame(found.questions(questions), Path(ask))
    if report is not None:
        stems = [stem_of(Path(each)) for each in (left, right) if isinstance(each, str | Path)]
        found.report(report, " and ".join(stems) or "Matched records", command_line())
    return found


def _learn(
    matcher: RecordMatcher,
    sides: Sequence[Side],
    known: Sequence[KnownPairs],
    how: How,
    n_candidates: int,
) -> None:
    """Learn from known pairs, or from pairs that agree on rare values."""

    def candidates(left: Records, right: Records) -> Ints:
        return candidate_pairs(left, *[right][left is right :], n_candidates=n_candidates)[0]

    one, two = sides[0].records, sides[-1].records
    every, target = all(each.complete for each in known), matcher.target
    if "precision" in (target or "") and not every:
        raise ValueError(
            f"{target} needs known pairs without a column same, which are all matches of their "
            "records: other pairs do not tell how many of those that are found are wrong."
        )
    matcher.set_params(rivals=None if len(one) * len(two) <= _MOST_WITH_RIVALS else False)
    tables.note_contradictions(known, how, one_table=one is two)
    complete = target is not None and every
    if known:
        parts = [(each.index, each.same) for each in known]
        if not complete and any(each.complete for each in known):
            # Whole tables, in which rivals are searched.
            found, first = candidates(one, two), 0 if one is two else len(one)
            parts = [
                _with_candidates(found, each.index, first, first + len(two)) if each.complete else p
                for each, p in zip(known, parts, strict=True)
            ]
        index, same = (np.concatenate(part) for part in zip(*parts, strict=True))
        if target is not None and not complete and any(each.chosen for each in known):
            note("questions are harder than other pairs, and what is certified is for such pairs.")
    else:
        index, same = tables.pairs_by_rare_values(one, two, candidates(one, two))
        learned_from = f"{counted(int(same.sum()), 'pair')} that agree on several rare values"
        text = f"learned from {learned_from}, and nothing is certified; give known pairs."
        note(text, warning=True)
    some = candidates if complete else None
    matcher.fit(one, None if one is two else two, index, same, complete=complete, candidates=some)
    matcher.id_columns_ = tuple(side.column for side in sides)


def _with_candidates(found: Ints, matches: Ints, first: int, n: int) -> tuple[Ints, Bools]:
    """Return matches, and other candidates of their records, which are different.

    Parameters
    ----------
    first, n: Number of the first record of the right table, and of all records.
    """
    index = np.concatenate([matches, found]) + np.array([0, first])
    i, j = index[: len(matches)].T
    one, two = components(i, j, n)[index].T
    same = np.arange(len(index)) < len(matches)
    # A candidate of one entity is a match, or nothing is known of it.
    kept = same | (np.isin(index, index[: len(matches)]).any(axis=1) & (one != two))
    kept &= one % (1 + kept.sum() // _MOST_LEARNED) == 0
    return index[kept] - np.array([0, first]), same[kept]


@dataclass(frozen=True, eq=False)
class Matched:
    """Records that are the same, and the matcher that found them.

    Attributes
    ----------
    matches : Matches
    matcher : RecordMatcher
    sides : tuple of Side
        The tables.
    known : tuple
        Known pairs.
    notes : tuple of Note
    random_state : int
    written : dict of str to str
        Files, by what they have.

    Examples
    --------
    >>> import polars as pl
    >>> from nearfar import match
    >>> names = [f"{a}{b} {b}{a}" for a in ("an", "bo", "cy") for b in ("lee", "ray", "fox", "poe",
    ...          "kay", "day", "orr", "ash")]
    >>> table = pl.DataFrame({"name": names, "phone": [str(7654321 + 97 * i) for i in range(24)]})
    >>> matched = match(table, table.reverse())
    >>> print(matched)
    24 matches; 0 records of the left table and 0 records of the right one are left over.
    >>> matched.questions(6).columns[:3]
    ['left', 'right', 'same']
    """

    matches: Matches
    matcher: RecordMatcher
    sides: tuple[Side, ...]
    known: tuple[KnownPairs, ...]
    notes: tuple[Note, ...] = ()
    random_state: int = 0
    written: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def table(self) -> pl.DataFrame:
        """The matches: ids, probability, the fields that decided, and which to look at by hand.

        Doubtful pairs that are no matches are at the end, with `same` false. Of many rows, the
        least sure have fields.
        """
        found = self.matches
        doubtful = np.isin(np.arange(len(found.same)), found.doubtful)
        places = np.flatnonzero(found.same | doubtful)
        places = places[np.argsort(~found.same[places], kind="stable")]
        columns = tables.id_columns(self.sides, found.candidates[places])
        if found.clusters is not None:
            columns["group"] = found.clusters[found.candidates[places, 0]]
        some = self.least_sure(places, _MOST_EXPLAINED)
        names = np.array([each.name for each in self.matcher.fields_])
        parts = -np.abs(self.explained(places[some]))
        decided = [""] * len(places)
        for place, own in zip(some, np.argsort(parts, axis=1, kind="stable"), strict=True):
            decided[place] = ", ".join(names[own[:_SHOWN_FIELDS]].tolist())
        columns |= {"same": found.same[places], "probability": expit(found.scores[places])}
        return pl.DataFrame(columns | {"fields": decided, "check": doubtful[places]})

    def least_sure(self, places: Ints, n: int) -> Ints:
        """Return which n of some candidates are the nearest to the threshold."""
        margin = np.abs(self.matches.scores[places] - self.matcher.threshold_)
        return np.argsort(margin, kind="stable")[:n]

    def explained(self, places: Ints) -> Any:
        """Return how much each field speaks for some candidates, in log-odds."""
        left, right = self.sides[0].records, self.sides[-1].records
        return self.matcher.explain(left, right, self.matches.candidates[places])

    def _places(self, pairs: Ints) -> Ints:
        """Return the places of pairs among the candidates; -1 if they are none."""
        one_table = len(self.sides) == 1
        return pair_places(self.matches.candidates, pairs, one_table=one_table)

    @cached_property
    def kept(self) -> tuple[float, tuple[float, float], int] | None:
        """Share of the known matches among the candidates, its interval, and their number.

        Answers to questions do not count: questions are candidates.
        """
        matches = tables.all_pairs([each for each in self.known if not each.chosen], True)
        one_table = len(self.sides) == 1
        kept = kept_matches(self.matches.candidates, matches, one_table=one_table)
        return (*kept, len(matches)) if len(matches) else None

    @cached_property
    def easy(self) -> bool:
        """Whether most of the known different pairs are no candidates."""
        places = self._places(tables.all_pairs(self.known, False))
        return len(places) > 0 and bool(np.mean(places >= 0) < _FEWEST_CANDIDATES)

    @property
    def rates(self) -> dict[str, tuple[float, tuple[float, float]]]:
        """Precision and recall of the threshold with 90 % intervals, on pairs not learned from.

        With a target, the precision is that in these tables. It is left out if the pairs do not
        tell it. A certified matcher from a file has the recall of the tables it was learned from.
        """
        point, held_out = self.matcher.operating_point_, getattr(self.matcher, "held_out_", None)
        if point is not None:
            shares = {"precision": point.precision, "recall": point.recall}
            n = dict.fromkeys(shares, float(point.n_classes))
        elif held_out is not None and self.known:
            accepted, weight = held_out.log_odds >= self.matcher.threshold_, held_out.weight
            right = weight * (accepted & held_out.same)
            of = {"precision": weight * accepted, "recall": weight * held_out.same}
            shares = {name: float(right.sum() / max(w.sum(), 1e-12)) for name, w in of.items()}
            # Pairs of equal weights that would tell as much.
            n = {name: w.sum() ** 2 / max(w @ w, 1e-12) for name, w in of.items()}
        else:
            return {}
        certified_here = held_out is not None and all(each.complete for each in self.known)
        if self.easy or (point is not None and not certified_here):
            del shares["precision"]
        return {
            name: (share, mean_interval(share, share * (1 - share) / max(n[name], 1), int(n[name])))
            for name, share in shares.items()
        }

    def questions(self, n: int) -> pl.DataFrame:
        """Choose pairs to ask people about.

        Half of them are nearest to the threshold; the others are drawn at random, and their answers
        tell the F1 of these matches.

        Returns
        -------
        DataFrame
            Ids, an empty column `same` for the answers, what the estimate needs, and the fields of
            both records.
        """
        found = self.matches
        asked = np.isin(np.arange(len(found.same)), self._places(tables.all_pairs(self.known)))
        nearness, probability = found.scores - self.matcher.threshold_, expit(found.scores)
        rng = np.random.default_rng(self.random_state)
        chosen = tables.choose_questions(nearness, probability, found.same, asked, n, rng)
        values = [*chosen[1:], probability[chosen.place], found.same[chosen.place]]
        facts = dict(zip(tables.ASKED, values, strict=True))
        return tables.question_table(self.sides, found.candidates[chosen.place], facts)

    def report(
        self, path: str | PathLike[str], name: str = "Matched records", command: str = ""
    ) -> None:
        """Write a report as one HTML file: how sure the matches are, what decided, near misses."""
        from nearfar.records.page import write_match_report

        write_match_report(path, self, name, command)

    def to_dict(self) -> dict[str, object]:
        """Return the matches and what is known of their errors, for JSON."""
        alone = zip(self.sides, self.matches.left_over, strict=True)
        return {
            "matches": self.table.to_dicts(),
            "left_over": [side.names(rows) for side, rows in alone],
            "candidates": len(self.matches.candidates),
            "kept": self.kept,
            "rates": self.rates,
            "certified": self.matcher.operating_point_ is not None,
        }

    @property
    def summary(self) -> str:
        """How many matches there are, and how sure they are."""
        found, point = self.matches, self.matcher.operating_point_
        lines = [str(found)]
        if point is not None:
            lines.append(point.promise(str(self.matcher.target)))
            if not hasattr(self.matcher, "held_out_"):
                lines.append("That is for the tables that the matcher was learned from.")
            lines.append(
                f"On {counted(point.n_pairs, 'pair')} with records of {point.n_classes} entities "
                f"that were not learned from: false match rate {point.fmr:.3g}, recall "
                f"{100 * point.recall:.1f} %."
            )
            if "precision" in self.rates:
                lines.append(
                    f"In these tables, {100 * point.precision:.1f} % of the pairs above the "
                    "threshold are expected to be the same."
                )
        elif self.rates:
            shares = ", ".join(
                f"{name} {100 * share:.1f} % ({100 * low:.1f} to {100 * high:.1f})"
                for name, (share, (low, high)) in self.rates.items()
            )
            lines.append(f"On held-out pairs: {shares}. Nothing is certified.")
            if all(each.complete for each in self.known):
                lines.append(
                    "These records have matches; where many have none, the precision is lower."
                )
        if self.kept is not None:
            share, (low, high), n = self.kept
            lines.append(
                f"{counted(len(found.candidates), 'candidate')}: {100 * share:.2f} % of {n} known "
                f"matches are among them ({100 * low:.2f} to {100 * high:.2f} %)."
            )
        lines += [
            tables.f1_in_words(*tables.estimated_f1(**each.asked, same=each.same))
            for each in self.known
            if each.asked is not None
        ]
        if len(found.doubtful):
            lines.append(f"{counted(len(found.doubtful), 'pair')} should be looked at by hand.")
        return "\n".join(lines)

    def __str__(self) -> str:
        lines = [
            self.summary,
            *(f"{name} written to {path}" for name, path in self.written.items()),
        ]
        if (next_ := command_line(out="matches.csv")) and "Matches" not in self.written:
            lines += ["The matches were not written.", f"Next: {next_}"]
        return "\n".join(lines)


@dataclass(frozen=True, eq=False)
class FirstQuestions:
    """Pairs to ask people about when nothing is known, and their file."""

    table: pl.DataFrame
    written: str

    def to_dict(self) -> dict[str, object]:
        """Return the questions, for JSON."""
        return {"questions": self.table.to_dicts(), "written": self.written}

    def __str__(self) -> str:
        return f"Nothing is known yet: first questions written to {self.written}"


def _first_questions(sides: Sequence[Side], n: int, random_state: int) -> pl.DataFrame:
    """Choose pairs to ask people about when nothing is known.

    Half of them are a record and the most similar one, of records at random; the others are
    random candidates.
    """
    pairs, similarity = candidate_pairs(*(side.records for side in sides))
    rng = np.random.default_rng(random_state)
    order = np.lexsort([-similarity, pairs[:, 0]])
    nearest = order[np.unique(pairs[order, 0], return_index=True)[1]]
    nearest = rng.permutation(nearest)[: n // 2]
    others = rng.permutation(np.setdiff1d(order, nearest))[: n - len(nearest)]
    return tables.question_table(sides, pairs[np.concatenate([nearest, others])], {})
