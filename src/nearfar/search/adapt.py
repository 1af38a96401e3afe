"""`adapt` and `search_report`: compare, decide and learn, for judged searches."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any

from sklearn.frozen import FrozenEstimator

from nearfar.evidence.certify import TargetNotCertifiedError
from nearfar.frames.formats import FORMATS, check_output, kind_of, stem_of
from nearfar.frames.metric_files import check_metric_output, kind_of_model
from nearfar.runtime.messages import (
    Note,
    collecting_notes,
    command_line,
    forwards,
    fragment,
    note,
)
from nearfar.runtime.progress import parse_seconds
from nearfar.search.adapter import RetrievalAdapter
from nearfar.search.comparison import SearchComparison, SearchVerdict, compare_retrieval
from nearfar.search.cutoff import Cutoff, search_target
from nearfar.search.files import SearchInput, read_search, write_run
from nearfar.search.learning import Choice
from nearfar.search.ranking import Relevance
from nearfar.typing import Json

Progress = Callable[[int, int, str], None]
_READING = "beir ids text vector ignore_unknown"
_LEARNING = "side score answers"
_TESTING = "results folds random_state budget"
# Part of the time budget for the comparison; the fit to all searches takes about one more fold.
_COMPARISON_SHARE = 0.7


@forwards(read_search, _READING)
@forwards(RetrievalAdapter, f"{_LEARNING} target")
@forwards(compare_retrieval, _TESTING)
def adapt(
    queries: object,
    documents: object,
    qrels: str | PathLike[str] | Relevance | None = None,
    *,
    split: str = "train",
    out: str | PathLike[str] | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Adapted:
    """Adapt vectors of queries to judged searches, and say whether it helps.

    An adapter is learned only if it helps searches that were held out. Otherwise the exit code is 3
    (no difference, or too few searches to tell) or 4 (worse), and nothing is written.

    With `target`, the adapter has a cut-off, and leaves vectors unchanged if adapting does not
    help. The exit code is 0 if the cut-off is certified, and 3 if it cannot be.

    Parameters
    ----------
    queries : path, DataFrame or array
        Vectors of queries: a table, an .npz or .npy file.
    documents : path, DataFrame or array
        Vectors of documents, in the same formats.
    qrels : path or Relevance, optional
        Judgements: query, 0, document, grade (TREC), or as in BEIR.
    split : str, default="train"
        Judgements of `beir` to use.
    out : path, optional
        Adapter file to write. The command writes DOCUMENTS-adapter.safetensors by default.
    progress : callable, optional
        Called with what is done, the total, and what is next.
    **options
        How files are read, what is adapted, and how it is tested: see `RetrievalAdapter` and
        `compare_retrieval`.

    Returns
    -------
    Adapted
        Prints as a table with a verdict.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar import Relevance, adapt
    >>> X = np.random.default_rng(0).normal(size=(60, 8))
    >>> Q = X[:30] + np.random.default_rng(1).normal(size=(30, 8)) / 10
    >>> adapted = adapt(Q, X, Relevance(range(30), range(30)), folds=2)
    >>> adapted.verdict.helps
    False
    """
    inputs = [each for each in (queries, documents, qrels) if isinstance(each, str | Path)]
    if out is None and command_line():
        out = f"{stem_of(Path(str(documents)))}-adapter.safetensors"
    if out is not None:
        check_metric_output(out, inputs)
    target, seed = options.pop("target", None), options.get("random_state", 0)
    if target is not None:
        search_target(target)
    reading, learning = _taken(options, _READING), _taken(options, _LEARNING)
    budget = parse_seconds(options.pop("budget", None))
    learner = RetrievalAdapter(**learning, target=target, random_state=seed)
    with collecting_notes() as notes:
        data = read_search(queries, documents, qrels, split=split, **reading)
        learned, rest = data.relevance, data.relevance
        if target is not None:
            learned, rest = learner.set_aside(data.Q, data.relevance)
        options |= {"progress": progress, "query_names": data.query_names}
        options["budget"] = None if budget is None else _COMPARISON_SHARE * budget
        untargeted = RetrievalAdapter(**learning, random_state=seed)
        compared = compare_retrieval(data.Q, data.X, learned, untargeted, **options)
        adapted = Adapted(data, compared, notes=notes)
        helps = compared.verdict.helps
        if not helps and target is None:
            return adapted
        if progress is not None:
            progress(0, 1, "all searches")
        start = time.perf_counter()
        try:
            learner.set_params(learn=helps).fit(data.Q, data.X, data.relevance if helps else rest)
        except TargetNotCertifiedError as error:
            adapted.refusal = error
            return adapted
        adapted.seconds, adapted.choice = time.perf_counter() - start, learner.chosen_
        if helps and not learner.chosen_.helps:
            note(str(learner.chosen_))
    if target is None and not learner.chosen_.helps:
        return adapted
    adapted.adapter, found = learner, compared.verdict
    if learner.provenance_ is not None:
        figures = f"{found.measure} {found.before:.3f} -> {found.after:.3f}"
        text = f"{found.category}, {figures} on searches that were held out"
        learner.provenance_ = replace(learner.provenance_, verdict=text)
    if out is not None:
        adapted.save(out)
        names = {"--id": "ids", "--show": "text", "--vector": "vector"}
        columns = [w for way, n in names.items() if n in reading for w in (way, reading[n])]
        if isinstance(queries, str | Path) and isinstance(documents, str | Path):
            words = [str(out), str(documents), "--queries", str(queries), *columns]
            adapted.next_call = shlex.join(["nearfar", "neighbors", *words])
    return adapted


def _taken(options: dict[str, Any], names: str) -> dict[str, Any]:
    """Take the options of these names out of others."""
    return {name: options.pop(name) for name in names.split() if name in options}


@dataclass(eq=False)
class Adapted:
    """What `adapt` found; prints as a table with a verdict, also in a notebook.

    Attributes
    ----------
    data : SearchInput
        Vectors and judgements.
    comparison : SearchComparison
        Of adapted and untouched vectors, on searches that were held out.
    adapter : RetrievalAdapter or None
        Learned from all searches; None if it does not help. With a target, it has the cut-off, and
        may leave vectors unchanged.
    choice : Choice or None
        What the searches that this fit held out chose and saw; None if nothing was fitted.
    seconds : float or None
        Time of the fit to all searches.
    refusal : TargetNotCertifiedError or None
        Why the target cannot be certified, and what would be needed.
    notes : sequence of Note
        What to know beside the results.
    path : Path or None
        Where the adapter was saved.
    next_call : str
        How to search with it.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar import Relevance, adapt
    >>> X = np.random.default_rng(0).normal(size=(60, 8))
    >>> adapt(X[:30], X, Relevance(range(30), range(30)))
    <Adapted: 30 judged queries, 60 documents>
    """

    data: SearchInput
    comparison: SearchComparison
    adapter: RetrievalAdapter | None = None
    choice: Choice | None = None
    seconds: float | None = None
    refusal: TargetNotCertifiedError | None = None
    notes: Sequence[Note] = ()
    path: Path | None = None
    next_call: str = ""

    @property
    def verdict(self) -> SearchVerdict:
        """Whether adapted vectors help."""
        return self.comparison.verdict

    @property
    def cutoff(self) -> Cutoff | None:
        """The cut-off of the adapter; None without a target."""
        return None if self.adapter is None else self.adapter.cutoff_

    @property
    def outcome(self) -> str:
        """Whether to use adapted vectors: "better", "same", "cannot tell", "worse".

        "same" are also vectors that the fit to all searches leaves unchanged. It is "not certified"
        if the target is refused.
        """
        unchanged = self.choice is not None and not self.choice.helps
        outcome = self.verdict.outcome
        if self.refusal is not None:
            return "not certified"
        return "same" if outcome == "better" and unchanged else outcome

    @property
    def exit_code(self) -> int:
        """0 if something was learned or certified, 4 if adapting does harm, 3 otherwise."""
        if self.cutoff is not None:
            return 0
        return {"better": 0, "worse": 4}.get(self.outcome, 3)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the adapter to a file."""
        if self.adapter is None:
            raise ValueError("There is no adapter to write; print the result to see why.")
        self.adapter.save(path)
        self.path = Path(path)

    def report(
        self,
        path: str | PathLike[str],
        *,
        title: str = "",
        facts: Sequence[tuple[str, str]] = (),
        tested: str = "",
    ) -> None:
        """Write a report on the searches as one HTML file that needs no network.

        Parameters
        ----------
        path : path-like
        title : str, optional
            Heading of the page.
        facts : sequence of (str, str), optional
            Names and values for the appendix.
        tested : str, optional
            What the searches get at the cut-off of an adapter.
        """
        # Only reports need matplotlib and Jinja.
        from nearfar.search.page import write_search_report

        write_search_report(path, self, title=title, facts=facts, tested=tested)

    def to_dict(self) -> dict[str, Any]:
        """Return the results as plain numbers and strings, ready for JSON."""
        if self.refusal is not None:
            return {"outcome": self.outcome, "reason": str(self.refusal)} | vars(self.refusal)
        return {
            "outcome": self.outcome,
            "adapter": None if self.path is None else str(self.path),
            **({} if self.cutoff is None else {"cutoff": asdict(self.cutoff)}),
            "seconds": self.seconds,
            "chosen": None if self.choice is None else asdict(self.choice),
            "comparison": self.comparison.to_dict(),
        }

    def __str__(self) -> str:
        table = [] if self.refusal else [str(self.comparison)]
        return "\n".join([*table, *self._sentences()])

    def __repr__(self) -> str:
        n_queries, n_documents = len(self.data.relevance.queries), len(self.data.X)
        return f"<Adapted: {n_queries} judged queries, {n_documents} documents>"

    def _repr_html_(self) -> str:
        return self.comparison._repr_html_() + fragment(self.data.name, list(self._sentences()))

    def _sentences(self) -> Iterator[str]:
        """Yield what was learned from all searches, and what to do next."""
        if self.refusal is not None:
            yield str(self.refusal)
        if self.adapter is None or self.seconds is None:
            yield "Nothing was written."
            return
        choice, n_queries = self.adapter.chosen_, len(self.adapter.learned_queries_)
        learned = f"Learned from {n_queries} judged queries in {self.seconds:.2f} s."
        yield learned if choice.helps else "Vectors stay unchanged: the adapter is a cut-off alone."
        if choice.helps:
            beside = "the verdict above is on folds that did not"
            yield f"{choice} These queries chose its settings; {beside}."
        if self.cutoff is not None:
            yield str(self.cutoff)
        yield "Adapter learned" if self.path is None else f"Adapter written to {self.path}"
        if self.next_call:
            yield f"Next: {self.next_call}"


@forwards(read_search, f"{_READING} split")
@forwards(RetrievalAdapter, _LEARNING)
@forwards(compare_retrieval, _TESTING)
def search_report(
    queries: object,
    documents: object,
    qrels: str | PathLike[str] | Relevance | None = None,
    *,
    adapter: str | PathLike[str] | RetrievalAdapter | None = None,
    out: str | PathLike[str] | None = None,
    run_out: str | PathLike[str] | None = None,
    title: str | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> SearchReport:
    """Write a report on a judged search: how good it is, and what adapting would change.

    Every figure is from searches that were held out, unless an adapter is given.

    Parameters
    ----------
    queries : path, DataFrame or array
        Vectors of queries: a table, an .npz or .npy file.
    documents : path, DataFrame or array
        Vectors of documents, in the same formats.
    qrels : path or Relevance, optional
        Judgements: query, 0, document, grade (TREC), or as in BEIR.
    adapter : path or RetrievalAdapter, optional
        Report on this adapter instead of learning one. Judge it by searches that it was not learned
        from.
    out : path, optional
        HTML file to write [default: DOCUMENTS.html].
    run_out : path, optional
        TREC run file to write, with the results of adapted vectors. Those of untouched vectors go
        to FILE-untouched, before the ending.
    title : str, optional
        Heading of the report [default: DOCUMENTS].
    progress : callable, optional
        Called with what is done, the total, and what is next.
    **options
        As for `adapt`.

    Returns
    -------
    SearchReport
        Prints as the verdict, and the files that were written.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from nearfar import Relevance, search_report
    >>> X = np.random.default_rng(0).normal(size=(60, 8))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = f"{folder}/searches.html"
    ...     found = search_report(X[:30], X, Relevance(range(30), range(30)), out=page)
    >>> found.comparison.verdict.outcome
    'same'
    """
    # Only reports need matplotlib and Jinja.
    from nearfar.page.page import check_packages

    check_packages()
    sources = (queries, documents, qrels, adapter)
    inputs = [Path(each) for each in sources if isinstance(each, str | Path)]
    named = isinstance(documents, str | Path)
    page = (
        Path(out) if out else Path(f"{stem_of(Path(str(documents))) if named else 'search'}.html")
    )
    check_output(page, (".html", ".htm"), inputs)
    runs: list[Path] = []
    if run_out is not None:
        run = Path(run_out)
        runs = [run, run.with_name(f"{run.stem}-untouched{run.suffix}")]
    for run in runs:
        check_output(run, None, [*inputs, page])
        if kind_of(run) in FORMATS:
            raise ValueError(f"{run} has the name of a table; name the run .trec or .txt.")
    file = "" if isinstance(adapter, RetrievalAdapter | None) else str(adapter)
    if file and kind_of_model(Path(file)) != "adapter":
        raise ValueError(f"{file} is not an adapter, as `nearfar adapt` writes it.")
    given = RetrievalAdapter.load(file) if file else adapter
    assert given is None or isinstance(given, RetrievalAdapter)
    reading, learning = _taken(options, f"{_READING} split"), _taken(options, _LEARNING)
    with collecting_notes() as notes:
        data = read_search(queries, documents, qrels, **reading)
        seed = options.get("random_state", 0)
        learner = given or RetrievalAdapter(**learning, random_state=seed)
        if given is not None and data.X.shape[1] != given.n_features_in_:
            raise ValueError(
                f"The adapter is for vectors of length {given.n_features_in_}; those of "
                f"{data.name} have {data.X.shape[1]}."
            )
        options |= {"progress": progress, "query_names": data.query_names, "score": learner.score}
        options["answers"] = answers = learning.get("answers", "all")
        tried = learner if given is None else FrozenEstimator(given)
        compared = compare_retrieval(data.Q, data.X, data.relevance, tried, **options)
    facts = [("Random seed", str(seed)), ("Score", learner.score), ("Adapted", learner.side)]
    facts.append(("Answers", answers))
    found, tested = Adapted(data, compared, given, notes=notes), ""
    if given is not None:
        facts.append(("Adapter", f"{file}. {given.chosen_}" if file else str(given.chosen_)))
        tested = given.tested_cutoff(data.Q, data.X, data.relevance)
    found.report(page, title=title or "", facts=facts, tested=tested)
    for run, result in zip(runs, (compared.best, compared.untouched), strict=False):
        ids: Any = {"query_ids": data.query_ids, "document_ids": data.document_ids}
        write_run(run, result.ranking, **ids, name=result.name)
    return SearchReport(compared, str(page), list(map(str, runs)), [each.text for each in notes])


@dataclass(frozen=True, eq=False)
class SearchReport:
    """A comparison of searches, and the files that have it; prints as the verdict.

    Attributes
    ----------
    comparison : SearchComparison
    report : str
        The HTML file.
    runs : list of str
        TREC run files of adapted and of untouched vectors, if they were asked for.
    notes : list of str
        What to know beside the results.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar import Relevance, SearchReport, compare_retrieval
    >>> X = np.random.default_rng(0).normal(size=(60, 8))
    >>> found = compare_retrieval(X[:30], X, Relevance(range(30), range(30)), {})
    >>> print(SearchReport(found, "searches.html"))
    Nothing to compare: nDCG@10 1.000 with untouched vectors.
    The best order of the first 60 results would have nDCG@10 1.000.
    Report written to searches.html
    """

    comparison: SearchComparison
    report: str
    runs: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Json]:
        """Return the figures, and what was written, for JSON."""
        return vars(self) | {"comparison": self.comparison.to_dict()}

    def __str__(self) -> str:
        runs = f"\nRuns written to {self.runs[0]} and {self.runs[1]}" if self.runs else ""
        verdict = f"{self.comparison.verdict.headline}\n{self.comparison.notes[-1]}"
        return f"{verdict}\nReport written to {self.report}{runs}"
