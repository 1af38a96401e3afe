"""What ``--help`` shows: commands and options in groups, and one example of each command."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import typer
from typer.core import TyperCommand

from nearfar.runtime.suggestions import did_you_mean

_NO_SUCH_WORD = re.compile(r"'([^']*)' is not one of (.*)")
_QUOTED = re.compile(r"'([^']*)'")

FIRST = """Learn the distance that your task needs. Try it now:

  nearfar learn circles                    learn from an example, no file needed
  nearfar show circles.safetensors         see what matters

With a table of your own, and labels in a column:

  nearfar learn table.csv --label species
  nearfar report table.csv --label species

`nearfar --help` lists all commands, and `nearfar learn --help` the options of one.
"""
"""What ``nearfar`` alone says."""

COMMAND_GROUPS = {
    "Learn": ("learn", "compare", "report", "show"),
    "Use a metric": ("transform", "neighbors", "predict", "verify", "evaluate", "export"),
    "Search": ("adapt", "search-report"),
    "Ask people": ("ask",),
}
EXAMPLES = {
    "learn": "nearfar learn table.csv --label species",
    "compare": "nearfar compare table.csv --label species --budget 60s",
    "report": "nearfar report table.csv --label species --out report.html",
    "show": "nearfar show table.safetensors",
    "transform": "nearfar transform table.safetensors new.csv mapped.parquet",
    "neighbors": "nearfar neighbors table.safetensors table.csv --row 0",
    "predict": "nearfar predict table.safetensors table.csv new.csv --label species",
    "verify": "nearfar verify faces.safetensors faces.csv pairs.csv --target 'fmr<=0.01'",
    "evaluate": "nearfar evaluate table.safetensors new.csv --label species",
    "export": "nearfar export table.safetensors --to onnx --out table.onnx",
    "adapt": "nearfar adapt queries.parquet documents.parquet --qrels judged.qrels",
    "search-report": "nearfar search-report queries.parquet documents.parquet --qrels judged.qrels",
    "ask": "nearfar ask objects.csv --id name --out judgements.db",
}
OPTION_GROUPS = {
    "What is known": "label numbers triplets pairs id group qrels beir ignore-unknown train",
    "Columns": "drop numeric categorical text impute show keep vector image-shape column image "
    "columns",
    "Questions": "kind random-share person pictures vectors",
    "Method": "method metric distance scale set max-iter goal side score adapter",
    "Decision": "threshold criterion max-fpr target confidence prevalence level",
    "Testing and time": "budget checkpoint folds neighbors split seed classifiers "
    "only-if-significant comparison",
    "Input and output": "out to rows row queries as-vector documents results index dialect table "
    "mapped run-out json title export replay answers",
    "Server": "host port browser",
}


class GroupedHelp(TyperCommand):
    """A command whose ``--help`` has its options in groups, and an example at the end."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the options; for a word that is none of a list, suggest one that is."""
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as error:
            error.message = _with_suggestion(error.message)
            raise

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments, then the groups of options that the command has."""
        records: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            if (record := parameter.get_help_record(ctx)) is not None:
                records.setdefault(_group_of(parameter), []).append(record)
        for title in ("Arguments", *OPTION_GROUPS, "Options"):
            if title in records:
                with formatter.section(title):
                    formatter.write_dl(records[title])

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the example."""
        if example := EXAMPLES.get(self.name or ""):
            formatter.write(f"\nExample:\n  {example}\n")


def _with_suggestion(message: str) -> str:
    """Return a message with the nearest word of the list that it has.

    Examples
    --------
    >>> from nearfar.cli.help_pages import _with_suggestion
    >>> _with_suggestion("Value error, 'fais' is not one of 'faiss', 'onnx'.")
    "'fais' is not one of 'faiss', 'onnx'. Did you mean 'faiss'?"
    """
    message = message.removeprefix("Value error, ")
    found = _NO_SUCH_WORD.match(message)
    if found is None:
        return message
    hint = did_you_mean(found[1], _QUOTED.findall(found[2]))
    return f"{message.removesuffix('.')}.{hint}"


def _group_of(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return "Arguments"
    names = {option.lstrip("-") for option in parameter.opts}
    found = (title for title, words in OPTION_GROUPS.items() if names & {*words.split()})
    return next(found, "Options")


def grouped(commands: Iterable[str]) -> Mapping[str, list[str]]:
    """Return the commands by group; those of no group come last.

    Examples
    --------
    >>> from nearfar.cli.help_pages import grouped
    >>> grouped(["show", "learn", "new"])
    {'Learn': ['learn', 'show'], 'More': ['new']}
    """
    left = list(commands)
    found: dict[str, list[str]] = {}
    for title, names in COMMAND_GROUPS.items():
        if members := [name for name in names if name in left]:
            found[title] = members
            left = [name for name in left if name not in members]
    return {**found, "More": left} if left else found
