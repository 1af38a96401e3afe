"""`gate`: whether a new version of an adapter or a metric is better than the old one.

Both are tried on the same searches, rows, triplets or pairs, from which neither was learned. What
is compared is the difference of each; the rule is that of all verdicts, with no side expected to be
better.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import compress
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator

from nearfar.comparison.goals import compare_losses
from nearfar.comparison.methods import baseline_metrics
from nearfar.comparison.tasks import score_distance, score_numbers
from nearfar.evidence.gain import smallest_gain
from nearfar.evidence.intervals import OverlappingJudgements
from nearfar.evidence.verdict import EVEN, Category, categorise, described, search_headline
from nearfar.frames.metric_files import best_neighbors
from nearfar.frames.reader import listed
from nearfar.frames.reading import read_table
from nearfar.frames.table import Table
from nearfar.measures.registry import HeldOutJudgements, measure_of
from nearfar.metrics.metric import Metric
from nearfar.metrics.points import row_digests
from nearfar.metrics.training_facts import stored_digests
from nearfar.runtime.messages import Note, collecting_notes, forwards, note, option
from nearfar.search import Relevance, RetrievalAdapter, SearchComparison, compare_retrieval
from nearfar.search.comparison import UNTOUCHED, SearchResult, SearchVerdict
from nearfar.search.files import SearchInput, read_search
from nearfar.search.ranking import known_vectors, vector_digests
from nearfar.supervision import Pairs, Triplets
from nearfar.typing import Bools, Ints, Vector

_OLD, _NEW = "the old version", "the new version"
# With fewer searches, rows or judgements left, there is hardly anything to go by.
_FEWEST = 20
_GOALS = {"labels": "classification", "numbers": "regression"}


@forwards(read_search, "vector ignore_unknown")
@forwards(read_table, "label numbers triplets pairs ids drop")
def gate(
    old: str | PathLike[str],
    new: str | PathLike[str],
    queries: object = None,
    documents: object = None,
    *,
    qrels: str | PathLike[str] | Relevance | None = None,
    table: object = None,
    results: int = 10,
    neighbors: int | None = None,
    leave_out_learned: bool = False,
    **reading: Any,
) -> Gated:
    """Say whether a new version is better than the old one, on data that neither has seen.

    Adapters need `queries`, `documents` and `qrels`, and are compared by nDCG. Metrics need `table`
    with `label`, `triplets` or `pairs`, and are compared by the error of votes of the nearest other
    rows, by the R² of their means, by triplets or by the AUC of pairs. The exit code is 0 if the
    new version is better, 3 if it is the same or cannot be told, and 4 if it is worse.

    Parameters
    ----------
    old : path
        File of the old version, or "untouched": vectors without an adapter, or the best of
        Euclidean and cosine distance.
    new : path
        File of the new version; it may be "untouched" if the old one is an adapter.
    queries : path, DataFrame or array, optional
        Vectors of judged queries, for adapters.
    documents : path, DataFrame or array, optional
        Vectors of documents.
    qrels : path or Relevance, optional
        Judgements: query, 0, document, grade.
    table : path, DataFrame or array, optional
        Rows, for metrics.
    results : int, default=10
        Number of results that count.
    neighbors : int, optional
        Neighbours that vote; by default as many as the file of each metric says.
    leave_out_learned : bool, default=False
        Leave out queries or rows that a version was learned from, instead of refusing them.
    **reading
        Where vectors are, and how rows are read: see `read_table`.

    Returns
    -------
    Gated
        Prints as sentences.

    Raises
    ------
    ValueError
        If a version was learned from some of the data, or from all but a few of them.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from nearfar import Metric, gate
    >>> X = np.random.default_rng(0).normal(size=(200, 5))
    >>> y = X[:, 0] > 0
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Metric.identity(5).save(f"{folder}/old")
    ...     Metric([[1.0, 0, 0, 0, 0]]).save(f"{folder}/new")
    ...     found = gate(f"{folder}/old", f"{folder}/new", table=X, label=y)
    >>> found.outcome, found.n
    ('better', 200)
    """
    versions = {_OLD: fspath(old), _NEW: fspath(new)}
    files = {name: Path(file) for name, file in versions.items() if file != UNTOUCHED}
    if not files or (table is not None and _NEW not in files):
        raise ValueError(
            "Give a file as the new version. It may be untouched only if the old one is the file "
            "of an adapter."
        )
    searched = [each is not None for each in (queries, documents, qrels)]
    other = reading.keys() & (
        {"label", "numbers", "triplets", "pairs", "drop"}
        if table is None
        else {"vector", "ignore_unknown"}
    )
    if (any(searched) if table is not None else not all(searched)) or other:
        needed = [option(name) for name in ("queries", "documents", "qrels", "table", *other)]
        raise ValueError(
            f"Give {needed[0]}, {needed[1]} and {needed[2]} for adapters, or only {needed[3]}."
        )
    with collecting_notes() as notes:
        if table is None:
            data = read_search(queries, documents, qrels, **reading)
            found = _gate_searches(files, data, results, leave_out_learned)
        else:
            found = _gate_rows(files, table, neighbors, leave_out_learned, reading)
    return replace(found, notes=tuple(notes))


@dataclass(frozen=True)
class Gated(SearchVerdict):
    """What `gate` found; prints as sentences.

    Attributes
    ----------
    cases : str
        What was tested: "searches", "rows", "triplets" or "pairs".
    n : int
        How many there were.
    notes : tuple of Note
        What to know beside the verdict.

    The others are those of `SearchVerdict`, with the old version in place of untouched vectors.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from nearfar import Metric, gate
    >>> X = np.random.default_rng(0).normal(size=(200, 5))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Metric.identity(5).save(f"{folder}/same")
    ...     found = gate(f"{folder}/same", f"{folder}/same", table=X, label=X[:, 0] > 0)
    >>> found.outcome, found.category
    ('same', 'no difference that matters')
    """

    cases: str = "searches"
    n: int = 0
    notes: tuple[Note, ...] = ()

    @property
    def exit_code(self) -> int:
        """0 if the new version is better, 4 if it is worse, 3 otherwise."""
        return {"better": 0, "worse": 4}.get(self.outcome, 3)

    def to_dict(self) -> dict[str, Any]:
        """Return the verdict as plain numbers and strings."""
        return {"outcome": self.outcome} | super().to_dict()

    def __str__(self) -> str:
        return f"Compared on {self.n} {self.cases}. {self.headline}"


def _gate_searches(files: Mapping[str, Path], data: SearchInput, k: int, leave_out: bool) -> Gated:
    adapters = {name: RetrievalAdapter.load(file) for name, file in files.items()}
    queries = data.relevance.queries
    known = {
        files[name]: known_vectors(data.Q[queries], each.learned_queries_)
        for name, each in adapters.items()
    }
    learned = _learned(known, [data.query_ids[row] for row in queries], "queries", leave_out)
    queries = queries[~learned]
    _check_left(learned, len(queries), "queries")
    relevance = data.relevance.subset(queries)
    searched = vector_digests(data.X)
    for name, adapter in adapters.items():
        documents = adapter.learned_documents_
        if len(documents) and not np.isin(documents, searched).any():
            note(
                f"none of the {len(documents)} documents that {name} learned from has the same "
                "vector here; an adapter is only for vectors of the model it was learned with.",
                warning=True,
            )
    frozen = {name: FrozenEstimator(adapter) for name, adapter in adapters.items()}
    settings: Any = {"results": k, "score": [*adapters.values()][-1].score, "answers": "all"}
    found = compare_retrieval(data.Q, data.X, relevance, frozen, **settings)

    def two(results: Iterable[SearchResult]) -> list[SearchResult]:
        named = {result.name: result for result in results}
        return [named[name if name in files else UNTOUCHED] for name in (_OLD, _NEW)]

    compared = SearchComparison(
        two(found.values()),
        folds=None,
        headroom=found.headroom,
        n_documents=found.n_documents,
        parts={which: two(results) for which, results in found.parts.items()},
        prior_mean=0.0,
    )
    gated = Gated(**vars(compared.verdict), n=len(queries))
    return gated if compared.difference(compared.adapted[0]).any() else _unchanged(gated)


def _gate_rows(
    files: Mapping[str, Path],
    source: object,
    n_neighbors: int | None,
    leave_out: bool,
    reading: Mapping[str, Any],
) -> Gated:
    tried: dict[str, tuple[Metric, Table, int]] = {}
    known: dict[Path, Bools] = {}
    for name, file in files.items():
        metric = Metric.load(file)
        rows = read_table(source, metric=metric, required=True, **reading)
        judged, stored = np.arange(len(rows)), stored_digests(file)
        if isinstance(rows.supervision, Triplets | Pairs):
            judged = np.unique(rows.supervision.index)
        if not len(stored):
            note(f"it is not known which rows {name} learned from.", warning=True)
        known[file] = np.isin(row_digests(rows.X[judged]), stored)
        tried[name] = metric, rows, n_neighbors or best_neighbors(file, len(rows))
    learned = _learned(known, list(map(str, rows.row_names(judged))), "rows", leave_out)
    tried = {
        name: (metric, _without(rows, judged[learned]), votes)
        for name, (metric, rows, votes) in tried.items()
    }
    _, rows, votes = tried[_NEW]
    if _OLD not in files:
        tried |= {name: (metric, rows, votes) for name, metric in baseline_metrics(rows.X).items()}
    measure, overlap = measure_of(_GOALS.get(rows.kind, rows.kind)), None
    cases, left = "rows" if rows.y is not None else rows.kind, rows.supervision
    _check_left(learned, 0 if left is None else len(left), cases)
    if isinstance(rows.supervision, Triplets | Pairs):
        overlap = OverlappingJudgements.of(rows.supervision, row_groups=rows.groups)
    compared = compare_losses(
        measure,
        {name: _losses(*each) for name, each in tried.items()},
        baseline=_OLD if _OLD in files else None,
        overlap=overlap,
        groups=rows.groups,
    )
    old, new = compared.reference, next(r for r in compared.results if r.name == _NEW)
    losses = [compared.loss(result) for result in (old, new)]
    gain, harm = compared.gain_over(old, new), compared.gain_over(new, old).probability
    open_ended = not gain.at_most(smallest_gain(losses[0]))
    category = categorise(losses[0] - losses[1], gain.probability, harm, open_ended=open_ended)
    before, after = map(measure.value, losses)
    figures = f"{measure.label} {measure.write(before)} -> {measure.write(after)}"
    words: Any = {"unseen": False, "old": described(old.name), "cases": cases}
    words["write_gain"] = measure.write_gain
    better = gain.probability >= EVEN and losses[1] < losses[0]
    facts: dict[str, Any] = {"measure": measure.label, "before": before, "after": after}
    facts |= {"harm": harm, "cases": cases, "n": int((~np.isnan(new.losses[measure.name])).sum())}
    headline = search_headline(category, _NEW, figures, gain, harm, **words)
    facts |= {"recommended": _NEW if better else old.name, "method": _NEW, "reference": old.name}
    gated = Gated(category=category, headline=headline, **asdict(gain), **facts)
    alike = np.array_equal(old.losses[measure.name], new.losses[measure.name], equal_nan=True)
    return _unchanged(gated) if alike else gated


def _unchanged(gated: Gated) -> Gated:
    """Say that no case differs."""
    case = {"searches": "search"}.get(gated.cases, gated.cases[:-1])
    return replace(gated, category=Category.SAME, headline=f"The same: no {case} differs.")


def _without(rows: Table, learned: Ints) -> Table:
    """Leave out rows that were learned from, and judgements of them."""
    if isinstance(rows.supervision, Triplets | Pairs):
        kept = ~np.isin(rows.supervision.index, learned).any(axis=1)
        return replace(rows, supervision=rows.supervision.take(kept))
    return rows.take(np.setdiff1d(np.arange(len(rows)), learned)) if len(learned) else rows


def _losses(metric: Metric, rows: Table, n_neighbors: int) -> Vector:
    """Return the loss of each row, by the votes of the others, or of each judgement."""
    measure = measure_of(_GOALS.get(rows.kind, rows.kind))
    if rows.y is None:
        return measure.losses(HeldOutJudgements(metric, rows.X, rows.supervision))
    if rows.kind == "labels":
        codes = np.unique(rows.y, return_inverse=True)[1]
        found = score_distance(metric, (rows.X, codes), None, n_neighbors=n_neighbors)
    else:
        known, unit = (rows.X, rows.numbers), float(rows.numbers.std())
        found = score_numbers(metric, known, None, unit=unit, n_neighbors=n_neighbors)
    return found[measure.name]


def _learned(
    known: Mapping[Path, Bools], names: Sequence[str], what: str, leave_out: bool
) -> Bools:
    """Return which queries or rows to leave out as versions were learned from them, or refuse."""
    for file, each in known.items():
        some = list(compress(names, each))
        if some and not leave_out:
            raise ValueError(
                f"{file} was learned from {len(some)} of these {len(names)} {what} "
                f"({listed(some, 3)}), so that they cannot tell which version is better; leave "
                f"them out ({option('leave_out_learned')}), or give other {what}."
            )
    learned = np.any(list(known.values()), axis=0)
    if n := int(learned.sum()):
        note(f"a version was learned from {n} {what}, which are left out.", warning=True)
    return np.asarray(learned)


def _check_left(learned: Bools, n: int, cases: str) -> None:
    if learned.any() and n < _FEWEST:
        raise ValueError(
            f"Only {n} {cases} are left without those that a version was learned from; give at "
            f"least {_FEWEST}."
        )
