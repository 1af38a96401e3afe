"""Options of the commands about judged searches."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from nearfar.cli import options
from nearfar.cli.streams import spooled
from nearfar.cli.terminal import bars
from nearfar.retrieval import RetrievalAdapter, SearchComparison, compare_retrieval
from nearfar.retrieval.search_input import SearchInput, read_search
from nearfar.tables.formats import ARRAYS, TABLES
from nearfar.workflow.fitting import convergence_notes


class Side(StrEnum):
    """Which vectors are adapted."""

    query = "query"
    both = "both"


class ScoreName(StrEnum):
    """What ranks documents."""

    cosine = "cosine"
    dot = "dot"


SplitName = Annotated[str, typer.Option("--split", help="Judgements of --beir to use.")]


@dataclass(frozen=True)
class SearchOptions:
    """Options of the commands about judged searches."""

    queries: Annotated[
        str,
        typer.Argument(
            callback=spooled, help=f"Vectors of queries: {', '.join([*ARRAYS, *TABLES])}."
        ),
    ]
    documents: Annotated[
        str, typer.Argument(callback=spooled, help="Vectors of documents, in the same formats.")
    ]
    qrels: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Judgements: query, 0, document, grade (TREC), or as in BEIR."
        ),
    ] = None
    beir: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Folder with corpus.jsonl, queries.jsonl and qrels: judgements, ids and texts.",
        ),
    ] = None
    ids: Annotated[
        str | None,
        typer.Option("--id", help="Column of ids [default: id, query_id, doc_id and the like]."),
    ] = None
    text: Annotated[
        str | None, typer.Option(help="Column of texts [default: text, if there is one].")
    ] = None
    vector: Annotated[
        str | None,
        typer.Option(help="Column of vectors [default: the only one, or all columns of numbers]."),
    ] = None
    ignore_unknown: Annotated[
        bool,
        typer.Option("--ignore-unknown", help="Leave out judgements of ids that have no vector."),
    ] = False
    side: Annotated[
        Side, typer.Option(help="Adapt queries only, so that documents stay as indexed, or both.")
    ] = Side.query
    score: Annotated[ScoreName, typer.Option(help="What ranks documents now.")] = ScoreName.cosine
    results: Annotated[int, typer.Option(min=1, help="Number of results that count.")] = 10
    folds: options.Folds = 5
    budget: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Time limit: 60s, 5m or 1h [default: none]. Folds for which there is no time are "
            "left out.",
        ),
    ] = None
    seed: options.Seed = 0

    @property
    def files(self) -> list[str | Path | None]:
        """The files that are read."""
        return [self.queries, self.documents, self.qrels]

    def read(self, split: str) -> SearchInput:
        """Read vectors and judgements; `split` are the judgements of a BEIR folder to use."""
        return read_search(
            self.queries,
            self.documents,
            qrels=self.qrels,
            beir=self.beir,
            split=split,
            ids=self.ids,
            text=self.text,
            vector=self.vector,
            ignore_unknown=self.ignore_unknown,
        )

    def adapter(self) -> RetrievalAdapter:
        """Return the adapter that the options name."""
        return RetrievalAdapter(
            side=self.side.value, score=self.score.value, random_state=self.seed
        )

    def compare(
        self,
        data: SearchInput,
        adapter: RetrievalAdapter | None,
        *,
        score: str | None = None,
        share: float = 1.0,
    ) -> SearchComparison:
        """Compare searches, with progress on the terminal, in a share of the time budget."""
        limit = options.seconds(self.budget)
        with bars() as shown, convergence_notes():
            return compare_retrieval(
                data.Q,
                data.X,
                data.relevance,
                adapter,
                cv=self.folds,
                k=self.results,
                score=ScoreName(score or self.score).value,
                query_names=data.query_names,
                random_state=self.seed,
                budget=None if limit is None else share * limit,
                progress=shown.update,
            )
