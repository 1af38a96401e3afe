"""`adapt`: compare, decide and learn, for judged searches."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from os import PathLike, fspath
from pathlib import Path
from typing import Literal

import numpy as np
from sklearn.frozen import FrozenEstimator

from nearfar.evidence.verdict import Outcome
from nearfar.runtime.messages import Note, collecting_notes, fragment, note, option
from nearfar.search import (
    Relevance,
    RetrievalAdapter,
    SearchComparison,
    compare_retrieval,
    write_run,
)
from nearfar.search.adapter_choice import Answers, Choice
from nearfar.search.adapter_use import set_aside
from nearfar.search.comparison import Score
from nearfar.search.cutoff import Cutoff, search_target
from nearfar.search.results import SearchVerdict
from nearfar.search.search_input import SearchInput, read_search
from nearfar.tables.fitting import Progress, convergence_notes, no_progress

# Part of the time budget for the comparison; the fit to all searches takes about one more fold.
_COMPARISON_SHARE = 0.7


def adapt(
    queries: object,
    documents: object = None,
    judgements: str | PathLike[str] | Relevance | None = None,
    *,
    split: str = "train",
    ids: str | None = None,
    text: str | None = None,
    vector: str | None = None,
    ignore_unknown: bool = False,
    side: Literal["query", "both"] = "query",
    score: Score = "cosine",
    answers: Answers = "all",
    target: str | None = None,
    k: int = 10,
    cv: int = 5,
    budget: float | None = None,
    comparison: bool = True,
    learn: bool = True,
    adapter: RetrievalAdapter | None = None,
    random_state: int = 0,
    progress: Progress = no_progress,
) -> Adapted:
    """Adapt vectors of queries to judged searches, and say whether it helps.

    If searches that were held out do not show that it helps, nothing is learned. With a target,
    half of the judged queries are set aside to certify a cut-off on the score, that of unchanged
    vectors if adapting does not help.

    Parameters
    ----------
    queries, documents : path, DataFrame or array
        Vectors. The queries may also be a `SearchInput`, which has everything.
    judgements : path or Relevance
        A file of judgements (TREC, or as in BEIR), a folder of BEIR, or the judgements themselves.
    split : str, default="train"
        Judgements of a folder to use.
    ids, text, vector : str, optional
        Columns of ids, texts and vectors.
    ignore_unknown : bool, default=False
        Whether to leave out judgements of ids that have no vector.
    side : {"query", "both"}, default="query"
        Adapt queries only, so that documents stay as indexed, or both.
    score : {"cosine", "dot"}, default="cosine"
        What ranks documents now.
    answers : {"all", "seen", "unseen"}, default="all"
        Which documents will answer searches: any, those that were relevant to searches learned
        from, or others. With "all", searches for unseen documents must not become worse.
    target : str, optional
        "recall>=P" or "precision>=P", for a cut-off below which documents are no answers.
    k : int, default=10
        Number of results that count.
    cv : int, default=5
        Number of folds.
    budget : float, optional
        Time limit in seconds. Folds for which there is no time are left out.
    comparison : bool, default=True
        Whether to cross-validate beside the unchanged vectors.
    learn : bool, default=True
        Whether to learn from all searches after the comparison.
    adapter : RetrievalAdapter, optional
        A fitted adapter to compare, instead of learning one. Give it searches that it was not
        learned from.
    random_state : int, default=0
        Seed of the folds and of the adapter.
    progress : callable, optional
        Called with what is done, the total, and what is next.

    Returns
    -------
    Adapted
        Prints as a table with a verdict.

    Raises
    ------
    TargetNotCertifiedError
        If the queries that were set aside cannot certify the target.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar import Relevance, adapt
    >>> X = np.random.default_rng(0).normal(size=(60, 8))
    >>> Q = X[:30] + np.random.default_rng(1).normal(size=(30, 8)) / 10
    >>> adapted = adapt(Q, X, Relevance(range(30), range(30)), cv=2)
    >>> adapted.verdict.helps
    False
    """
    with collecting_notes() as notes:
        if isinstance(queries, SearchInput):
            data = queries
        else:
            if judgements is None:
                raise ValueError(
                    "Say which documents are relevant, by judgements: a file, a folder of BEIR, or "
                    "a Relevance."
                )
            relevance = judgements if isinstance(judgements, Relevance) else None
            path = None if isinstance(judgements, Relevance) else judgements
            if path is not None and not isinstance(path, str | PathLike):
                raise TypeError(
                    f"judgements must be a path or a Relevance; got {type(path).__name__}. "
                    "nearfar.search.from_columns makes a Relevance of columns of ids."
                )
            folder = path is not None and Path(path).is_dir()
            data = read_search(
                queries,
                documents,
                relevance=relevance,
                qrels=None if folder else path,
                beir=path if folder else None,
                split=split,
                ids=ids,
                text=text,
                vector=vector,
                ignore_unknown=ignore_unknown,
            )
        learner = RetrievalAdapter(
            side=side, score=score, answers=answers, random_state=random_state
        )
        learned = calibration = data.relevance
        if target is not None:
            search_target(target)
            if adapter is not None:
                raise ValueError("An adapter that exists gets a cut-off by its `set_cutoff`.")
            parts = set_aside(data.Q, learned, answers, np.random.RandomState(random_state))
            learned, calibration = map(learned.subset, parts)
        if adapter is not None and data.X.shape[1] != adapter.n_features_in_:
            raise ValueError(
                f"The adapter is for vectors of length {adapter.n_features_in_}; those of "
                f"{data.name} have {data.X.shape[1]}."
            )
        used = learner if adapter is None else adapter
        facts = {
            "Random seed": str(random_state),
            "Score": used.score,
            "Adapted": used.side,
            "Answers": answers,
        }
        adapted = Adapted(data, adapter=adapter, facts=facts)
        learn = learn and adapter is None
        if comparison:
            share = _COMPARISON_SHARE if learn else 1.0
            with convergence_notes():
                adapted.comparison = compare_retrieval(
                    data.Q,
                    data.X,
                    learned,
                    learner if adapter is None else FrozenEstimator(adapter),
                    cv=cv,
                    k=k,
                    score="dot" if used.score == "dot" else "cosine",
                    answers=answers,
                    query_names=data.query_names,
                    random_state=random_state,
                    budget=None if budget is None else share * budget,
                    progress=progress,
                )
        if learn and (target is not None or not adapted.refused):
            progress(0, 1, "all searches")
            start = time.perf_counter()
            if target is not None:
                learner.set_params(target=target, learn=not adapted.refused)
            with convergence_notes():
                learner.fit(data.Q, data.X, calibration if adapted.refused else data.relevance)
            adapted.seconds, adapted.choice = time.perf_counter() - start, learner.chosen_
            if target is not None or learner.chosen_.helps:
                adapted.adapter = learner
                made, found = getattr(learner, "provenance_", None), adapted.verdict
                if made is not None and found is not None:
                    figures = f"{found.measure} {found.before:.3f} -> {found.after:.3f}"
                    text = f"{found.category}, {figures} on searches that were held out"
                    learner.provenance_ = replace(made, verdict=text)
            if not (learner.chosen_.helps or adapted.refused):
                note(str(learner.chosen_))
    adapted.notes = notes
    return adapted


@dataclass(eq=False)
class Adapted:
    """What `adapt` found; prints as a table with a verdict, also in a notebook.

    Attributes
    ----------
    data : SearchInput
        Vectors and judgements.
    comparison : SearchComparison or None
        Of adapted and untouched vectors, on searches that were held out.
    adapter : RetrievalAdapter or None
        Learned from all searches, or given; None if it does not help. With a target, it has the
        cut-off, and may leave vectors unchanged.
    choice : Choice or None
        What the searches that this fit held out chose and saw; None if nothing was fitted.
    seconds : float or None
        Time of the fit to all searches.
    facts : dict of str to str
        What reports say in the appendix.
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
    >>> adapt(X[:30], X, Relevance(range(30), range(30)), comparison=False)
    <Adapted: 30 judged queries, 60 documents>
    """

    data: SearchInput
    comparison: SearchComparison | None = None
    adapter: RetrievalAdapter | None = None
    choice: Choice | None = None
    seconds: float | None = None
    facts: dict[str, str] | None = None
    notes: Sequence[Note] = ()
    path: Path | None = None
    next_call: str = ""

    @property
    def verdict(self) -> SearchVerdict | None:
        """Whether adapted vectors help; None without a comparison."""
        return None if self.comparison is None else self.comparison.verdict

    @property
    def refused(self) -> bool:
        """Whether the comparison does not show that adapting helps, so that nothing is learned."""
        return self.verdict is not None and not self.verdict.helps

    @property
    def cutoff(self) -> Cutoff | None:
        """The cut-off of the adapter; None without a target."""
        return None if self.adapter is None else self.adapter.cutoff_

    @property
    def outcome(self) -> Outcome:
        """Whether to use adapted vectors, in a word.

        It is "better" if the comparison shows it and, where an adapter was learned from all
        searches, those that its fit held out agree. "same" are also vectors that a fit leaves
        unchanged.
        """
        outcome: Outcome = "better" if self.verdict is None else self.verdict.outcome
        unchanged = self.adapter is None or not self.adapter.chosen_.helps
        unchanged = unchanged and self.seconds is not None
        return "same" if outcome == "better" and unchanged else outcome

    def save(self, path: str | PathLike[str]) -> None:
        """Write the adapter to a file."""
        if self.adapter is None:
            raise ValueError(self._nothing)
        self.adapter.save(path)
        self.path = Path(fspath(path))

    def report(
        self, path: str | PathLike[str], *, title: str = "", command: str = "", adapter: str = ""
    ) -> None:
        """Write a report on the searches as one HTML file that needs no network.

        Parameters
        ----------
        path : path-like
        title : str, optional
            Heading of the page.
        command : str, optional
            The command that writes the report.
        adapter : str, optional
            File of an adapter that was given.
        """
        # Jinja is only needed here.
        from nearfar.search.page import SearchStudy, write_search_report

        if self.comparison is None:
            raise ValueError("A report needs the comparison.")
        facts = dict(self.facts or {})
        tested, data = "", self.data
        if adapter and self.adapter is not None:
            facts["Adapter"] = f"{adapter}. {self.adapter.chosen_}"
            tested = self.adapter.tested_cutoff(data.Q, data.X, data.relevance)
        study = SearchStudy(
            self.data.name,
            self.comparison,
            self.data.relevance,
            self.data.X.shape[1],
            self.data.document_names,
            command,
            list(facts.items()),
            title,
            tuple(self.notes),
            self.cutoff,
            tested,
        )
        write_search_report(path, study)

    def write_runs(self, path: str | PathLike[str]) -> list[Path]:
        """Write TREC run files: the results of adapted vectors, and those of untouched ones.

        The second has "-untouched" in its name, before the ending.
        """
        if self.comparison is None:
            raise ValueError("Runs need the comparison.")
        files = run_files(path)
        for file, result in zip(
            files, (self.comparison.best, self.comparison.untouched), strict=True
        ):
            write_run(
                file,
                result.ranking,
                query_ids=self.data.query_ids,
                document_ids=self.data.document_ids,
                name=result.name,
            )
        return files

    def to_dict(self) -> dict[str, object]:
        """Return the results as plain numbers and strings, ready for JSON."""
        compared = None if self.comparison is None else self.comparison.to_dict()
        path = None if self.path is None else str(self.path)
        found: dict[str, object] = {"outcome": self.outcome, "adapter": path}
        found |= {} if self.cutoff is None else {"cutoff": asdict(self.cutoff)}
        chosen = None if self.choice is None else asdict(self.choice)
        return found | {"seconds": self.seconds, "chosen": chosen, "comparison": compared}

    def __str__(self) -> str:
        table = [] if self.comparison is None else [str(self.comparison)]
        return "\n".join([*table, *self._sentences()])

    def __repr__(self) -> str:
        n_queries, n_documents = len(self.data.relevance.queries), len(self.data.X)
        return f"<Adapted: {n_queries} judged queries, {n_documents} documents>"

    def _repr_html_(self) -> str:
        table = "" if self.comparison is None else self.comparison._repr_html_()
        return table + fragment(self.data.name, list(self._sentences()))

    @property
    def _nothing(self) -> str:
        alone = f" With {option('no-comparison')}, the searches that a fit holds out decide alone."
        return f"Nothing was written.{alone * self.refused}"

    def _sentences(self) -> Iterator[str]:
        """Yield what was learned from all searches, and what to do next."""
        if self.adapter is None and (self.refused or self.seconds is not None):
            yield self._nothing
        if self.adapter is None or self.seconds is None:
            return
        choice, n_queries = self.adapter.chosen_, len(self.adapter.learned_queries_)
        learned = f"Learned from {n_queries} judged queries in {self.seconds:.2f} s."
        yield learned if choice.helps else "Vectors stay unchanged: the adapter is a cut-off alone."
        if choice.helps and choice.n_queries:
            beside = "; the verdict above is on folds that did not" if self.comparison else ""
            yield f"{choice} These queries chose its settings{beside}."
        if self.cutoff is not None:
            yield str(self.cutoff)
        yield "Adapter learned" if self.path is None else f"Adapter written to {self.path}"
        if self.next_call:
            yield f"Next: {self.next_call}"


def run_files(path: str | PathLike[str]) -> list[Path]:
    """Return the run files of adapted and of untouched vectors."""
    file = Path(fspath(path))
    return [file, file.with_name(f"{file.stem}-untouched{file.suffix}")]
