"""A command of typer inside the group of click."""

from __future__ import annotations

from importlib import import_module

import click
import typer
from typer.core import TyperCommand


def wrapped(name: str, module: str, function: str, example: str) -> click.Command:
    """Return a command that hands all words on."""

    class Inner(TyperCommand):
        def format_epilog(self, ctx: object, formatter: object) -> None:
            formatter.write(f"\nExample:\n  {example}\n")  # type: ignore[attr-defined]

    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    app.command(name, cls=Inner)(getattr(import_module(f"nearfar.{module}"), function))
    inner = typer.main.get_command(app)

    def call(words: tuple[str, ...]) -> None:
        inner.main([*words], prog_name=f"nearfar {name}")

    words = click.Argument(["words"], nargs=-1, type=click.UNPROCESSED)
    settings = {"ignore_unknown_options": True, "allow_interspersed_args": False}
    outer = click.Command(
        name, callback=call, params=[words], add_help_option=False, context_settings=settings
    )
    outer.inner = inner  # type: ignore[attr-defined]
    return outer
