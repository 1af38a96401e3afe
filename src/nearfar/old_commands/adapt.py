"""``nearfar adapt``: adapt vectors to judged searches, and say whether it helps."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from nearfar.frames.formats import ARRAYS, TABLES, shown_name, stem_of
from nearfar.frames.metric_files import check_metric_output
from nearfar.old_commands import options
from nearfar.old_commands.files import spooled
from nearfar.old_commands.terminal import (
    NOT_HELPFUL,
    WORSE,
    bars,
    command,
    say,
    show_json,
    show_result,
)
from nearfar.search.adapt import adapt as adapt_search
from nearfar.search.search_input import SearchInput, read_search
from nearfar.tables.fitting import parse_seconds
from nearfar.verification import TargetNotCertifiedError


class Side(StrEnum):
    """Which vectors are adapted."""

    query = "query"
    both = "both"


class ScoreName(StrEnum):
    """What ranks documents."""

    cosine = "cosine"
    dot = "dot"


class AnswerKind(StrEnum):
    """Which documents will answer searches."""

    all = "all"
    seen = "seen"
    unseen = "unseen"


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
    vector: options.SearchVector = None
    ignore_unknown: options.IgnoreUnknown = False
    side: Annotated[
        Side, typer.Option(help="Adapt queries only, so that documents stay as indexed, or both.")
    ] = Side.query
    score: Annotated[ScoreName, typer.Option(help="What ranks documents now.")] = ScoreName.cosine
    answers: Annotated[
        AnswerKind,
        typer.Option(
            help="Documents that will answer searches: any, those that were relevant to searches "
            "learned from, or others. With all, searches for unseen documents must not become "
            "worse."
        ),
    ] = AnswerKind.all
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

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters of `nearfar.adapt` that these are."""
        return {
            "side": self.side.value,
            "score": self.score.value,
            "answers": self.answers.value,
            "k": self.results,
            "cv": self.folds,
            "budget": parse_seconds(self.budget),
            "random_state": self.seed,
        }


@command
def adapt(
    search: SearchOptions,
    split: SplitName = "train",
    save_as: Annotated[
        Path | None,
        options.output("Adapter file to write [default: DOCUMENTS-adapter.safetensors]."),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            metavar="TARGET",
            help="Certify a cut-off on the score, recall>=0.9 or precision>=0.8, on half of the "
            "judged queries, which are set aside.",
        ),
    ] = None,
    comparison: Annotated[
        bool, typer.Option(help="Cross-validate beside the unchanged vectors.")
    ] = True,
    json: options.Json = False,
) -> None:
    """Adapt vectors of queries to judged searches, and say whether it helps.

    An adapter is written only if it helps searches that were held out. Otherwise the exit code is 3
    (no difference, or too few searches to tell) or 4 (worse), and nothing is written.

    With --target, the cut-off is what is written, for unchanged vectors if adapting does not help.
    The exit code is 0 if it is certified, and 3 if it cannot be.
    """
    path = save_as or Path(f"{stem_of(Path(search.documents))}-adapter.safetensors")
    check_metric_output(path, search.files)
    data, parameters = search.read(split), search.parameters
    parameters |= {"comparison": comparison, "target": target}
    try:
        with bars() as shown:
            adapted = adapt_search(data, **parameters, progress=shown.update)
    except TargetNotCertifiedError as error:
        if json:
            show_json({"outcome": "not certified", "reason": str(error)} | vars(error))
        else:
            say(f"{error}\nNothing was written.")
        raise typer.Exit(NOT_HELPFUL) from None
    if adapted.adapter is not None:
        adapted.save(path)
        columns = {"--id": search.ids, "--text": search.text, "--vector": search.vector}
        named = [word for pair in columns.items() if pair[1] is not None for word in pair]
        sources = [shown_name(search.documents), "--queries", shown_name(search.queries)]
        words = ["nearfar", "neighbors", str(path), *sources, *map(str, named)]
        adapted.next_call = shlex.join(words)
    show_result(adapted, json=json)
    if target is None and adapted.outcome != "better":
        raise typer.Exit(WORSE if adapted.outcome == "worse" else NOT_HELPFUL)
