"""The commands; each has a file of its own, which is imported when the command runs."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from nearfar import __version__
from nearfar.cli.help_pages import FIRST, GroupedHelp, grouped
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
        "Write a metric for programs without nearfar: an index, a model, SQL or a Python module.",
    ),
    "show": ("show", "Show a metric: its size, eigenvalues, features and directions."),
    "adapt": ("adapt", "Adapt vectors of queries to judged searches, and say whether it helps."),
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
    "convert deploy save": "export",
    "finetune": "adapt",
    "annotate judge collect": "ask",
}
"""Words that people try, and the commands that they may mean; the first that exists counts."""
_MORE = {
    "cluster": "Then cluster the mapped rows by any method for Euclidean distance.",
    "predict": "With --queries and --label, it shows the labels of the nearest rows.",
    "search": "For judged searches, see `nearfar adapt` and `nearfar search-report`.",
}
_PLAIN: Any = {"pretty_exceptions_enable": False, "rich_markup_mode": None}


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
