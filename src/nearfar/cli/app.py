"""The commands; each has a file of its own."""

from __future__ import annotations

from typing import Annotated

import typer

from nearfar import __version__
from nearfar.cli.adapt import adapt
from nearfar.cli.compare import compare
from nearfar.cli.evaluate import evaluate
from nearfar.cli.export import export
from nearfar.cli.learn import learn
from nearfar.cli.neighbors_command import neighbors
from nearfar.cli.report import report
from nearfar.cli.search_report import search_report
from nearfar.cli.show import show
from nearfar.cli.terminal import say
from nearfar.cli.transform import transform
from nearfar.cli.verify import verify

app = typer.Typer(
    help="Learn the distance that your task needs.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

for function in (
    learn,
    compare,
    transform,
    neighbors,
    verify,
    evaluate,
    report,
    export,
    show,
    adapt,
    search_report,
):
    app.command()(function)


@app.callback(invoke_without_command=True)
def version_option(
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
) -> None:
    """Learn the distance that your task needs."""
    if version:
        say(f"nearfar {__version__}")
        raise typer.Exit
