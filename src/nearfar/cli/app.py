"""The commands, each in a file that is imported when it runs; groups and examples of --help."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from nearfar import __version__
from nearfar.runtime.suggestions import did_you_mean

COMMANDS = {
    "ask": ("ask", "Ask people which objects are alike, on a page that chooses the questions."),
    "learn": ("learn", "Learn a metric, and say whether it helps."),
    "compare": (
        "compare",
        "Compare Euclidean distance, plain methods and learners by cross-validation.",
    ),
    "transform": (
        "transform",
        "Map the rows of a file so that Euclidean distance is the metric.",
    ),
    "neighbors": (
        "neighbors",
        "Find the nearest rows of some rows, of all rows, or of the rows of another file.",
    ),
    "predict": ("predict", "Predict labels of new rows from their nearest training rows."),
    "verify": ("verify", "Decide whether pairs of rows are the same."),
    "evaluate": (
        "evaluate",
        "Evaluate a metric beside Euclidean and cosine distance, on labels, triplets or pairs.",
    ),
    "report": ("report", "Write a report on a metric: one HTML file that needs no network."),
    "export": (
        "export",
        "Write a metric for other programs: an index, a model, SQL, Python or a model card.",
    ),
    "show": ("show", "Show a metric: its size, eigenvalues, features and directions."),
    "adapt": ("adapt", "Adapt vectors of queries to judged searches, and say whether it helps."),
    "weigh": (
        "weigh",
        "Learn how much each vector, text and number counts in a search, and say which ones help.",
    ),
    "gate": (
        "gate",
        "Say whether a new version is better than the old one, on data that neither has seen.",
    ),
    "match": (
        "match",
        "Find the records of two tables, or of one table, that are the same.",
    ),
    "search-report": (
        "search_report",
        "Write a report on a judged search: how good it is, and what adapting would change.",
    ),
}
"""File and first sentence of each command, so that ``--help`` and mistakes need no others."""

OTHER_WORDS = {
    "train fit teach": "learn",
    "benchmark tune": "compare",
    "map apply project embed encode": "transform",
    "cluster kmeans": "transform",
    "search query find nearest knn": "neighbors",
    "predict classify label": "predict neighbors",
    "score test validate eval": "evaluate",
    "plot visualize view": "report",
    "info describe inspect print": "show",
    "convert deploy save hub card": "export",
    "finetune": "adapt",
    "link dedupe deduplicate join": "match",
    "annotate judge collect": "ask",
}
"""Words that people try, and the commands that they may mean; the first that exists counts."""
_MORE = {
    "cluster": "Then cluster the mapped rows by any method for Euclidean distance.",
    "predict": "With --queries and --label, it shows the labels of the nearest rows.",
    "search": "For judged searches, see `nearfar adapt` and `nearfar search-report`.",
}
_PLAIN: Any = {"pretty_exceptions_enable": False, "rich_markup_mode": None}


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
    "Search": ("adapt", "weigh", "search-report", "gate"),
    "Records": ("match",),
    "Ask people": ("ask",),
}
EXAMPLES = {
    "learn": "nearfar learn table.csv --label species",
    "compare": "nearfar compare table.csv --label species --budget 60s",
    "report": "nearfar report table.csv --label species --out report.html",
    "show": "nearfar show table.safetensors",
    "transform": "nearfar transform table.safetensors new.csv mapped.csv",
    "neighbors": "nearfar neighbors table.safetensors table.csv --row 0",
    "predict": "nearfar predict table.safetensors table.csv new.csv --label species",
    "verify": "nearfar verify faces.safetensors faces.csv pairs.csv --target 'fmr<=0.01'",
    "evaluate": "nearfar evaluate table.safetensors new.csv --label species",
    "export": "nearfar export table.safetensors --to onnx --out table.onnx",
    "adapt": "nearfar adapt queries.parquet documents.parquet --qrels judged.qrels",
    "weigh": "nearfar weigh queries.parquet documents.parquet --qrels judged.qrels --bm25 text",
    "search-report": "nearfar search-report queries.parquet documents.parquet --qrels judged.qrels",
    "gate": "nearfar gate old.safetensors new.safetensors --queries queries.parquet "
    "--documents documents.parquet --qrels gate.qrels",
    "match": "nearfar match left.csv right.csv --pairs known.csv --target 'fmr<=1e-4' --out "
    "matches.csv",
    "ask": "nearfar ask objects.csv --id name --out judgements.db",
}
OPTION_GROUPS = {
    "Supervision": "label numbers triplets pairs id group qrels beir ignore-unknown train",
    "Columns": "drop numeric categorical text impute show keep vector image-shape column image "
    "columns source bm25 number",
    "Questions": "kind random-share person pictures vectors ask questions",
    "Method": "method metric distance scale set max-iter goal side score adapter how candidates "
    "with",
    "Decision": "threshold target confidence prevalence level",
    "Testing and time": "budget checkpoint folds neighbors split seed classifiers "
    "only-if-significant comparison leave-out-learned",
    "Input and output": "out to rows row queries as-vector documents results index dialect table "
    "mapped run-out json title export replay answers save report license",
    "Server": "host port browser show-results",
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

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the arguments in capitals, the optional ones in brackets."""
        pieces = super().collect_usage_pieces(ctx)
        return [re.sub(r"[{}]|\.{3}$", "", piece).upper() for piece in pieces]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments, then the groups of options that the command has."""
        records: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            if (record := parameter.get_help_record(ctx)) is None:
                continue
            name, text = record
            if (group := _group_of(parameter)) == "Arguments":
                name = name.partition(" <")[0].upper()
            name = re.sub(r"<list\[(\w+)\]>", r"<\1>", name)
            records.setdefault(group, []).append((name, text))
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
    >>> from nearfar.cli.app import _with_suggestion
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
    >>> from nearfar.cli.app import grouped
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


class Commands(TyperGroup):
    """Commands that are imported when they are needed."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import a command."""
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"nearfar.cli.{COMMANDS[cmd_name][0]}")
        own = typer.Typer(**_PLAIN, add_completion=False)
        own.command(cmd_name, cls=GroupedHelp)(getattr(module, cmd_name.replace("-", "_")))
        return typer.main.get_command(own)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find a command; for other words, say which command they mean."""
        word = args[0]
        if word not in COMMANDS and not word.startswith("-"):
            ctx.fail(f"No such command {word!r}.{_meant(word) or did_you_mean(word, COMMANDS)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """List the commands in groups, with their first sentences."""
        for title, names in grouped(COMMANDS).items():
            with formatter.section(title):
                formatter.write_dl([(name, COMMANDS[name][1]) for name in names])


def _meant(word: str) -> str:
    """Return the command that a word means, with its first sentence, or ""."""
    for words, commands in OTHER_WORDS.items():
        first, *_ = known = words.split()
        if word in known:
            name = next(name for name in commands.split() if name in COMMANDS)
            more = f" {_MORE[first]}" if first in _MORE and first != name else ""
            return f" Use `nearfar {name}`: {COMMANDS[name][1]}{more}"
    return ""


app = typer.Typer(help="Learn the distance that your task needs.", cls=Commands, **_PLAIN)


@app.callback(invoke_without_command=True)
def version_option(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
) -> None:
    """Learn the distance that your task needs."""
    if version:
        typer.echo(f"nearfar {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(FIRST, nl=False)
