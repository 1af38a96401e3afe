"""``nearfar export``: a metric for another program; `deploy/formats` has one file for each."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from nearfar.cli import options
from nearfar.cli.errors import UserError
from nearfar.cli.metric_files import check_output, load_metric
from nearfar.cli.row_input import read_rows
from nearfar.cli.streams import spooled
from nearfar.cli.terminal import command, note, say, show_json
from nearfar.deploy.export_targets import export_targets

_TARGETS = export_targets()
_WITH_ROWS = " or ".join(name for name, target in _TARGETS.items() if target.takes_rows)
_CHOICES: Any = Enum("Target", {name: name for name in _TARGETS}, type=str)  # type: ignore[misc]
_HELP = "; ".join(f"{name}: {target.help}" for name, target in _TARGETS.items())
_NAMES = "; ".join(
    f"{name}: {' or '.join(target.suffixes) or 'any name'}" for name, target in _TARGETS.items()
)


def _with_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add the targets and their options to the parameters of the command."""
    signature = inspect.signature(function, eval_str=True)
    known = dict(signature.parameters)
    del known["given"]
    known["to"] = known["to"].replace(annotation=Annotated[_CHOICES, typer.Option(help=_HELP)])
    for target in _TARGETS.values():
        for option in target.options:
            hint: Any = str if option.default is not None else str | None
            known[option.name] = inspect.Parameter(
                option.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=option.default,
                annotation=Annotated[hint, typer.Option(help=f"{target.name}: {option.help}")],
            )
    function.__signature__ = signature.replace(parameters=list(known.values()))  # type: ignore[attr-defined]
    function.__annotations__ = {name: parameter.annotation for name, parameter in known.items()}
    return function


@command
@_with_options
def export(
    metric: options.MetricPath,
    *,
    to: str,
    save_as: Annotated[Path, options.output(f"File to write ({_NAMES}).")],
    rows: Annotated[
        str | None,
        typer.Option(
            metavar="SOURCE",
            callback=spooled,
            help=f"{_WITH_ROWS}: table, array or dataset whose rows go into the file.",
        ),
    ] = None,
    drop: options.Drop = None,
    json: options.Json = False,
    **given: str | None,
) -> None:
    """Write a metric for programs without nearfar: an index, a model, SQL or a Python module."""
    target = _TARGETS[_CHOICES(to).value]
    check_output(save_as, target.suffixes or None, [metric, rows])
    if rows is not None and not target.takes_rows:
        raise UserError(f"--rows is for --to {_WITH_ROWS}; {target.name} does not contain rows.")
    found = load_metric(metric)
    if found.columns is not None:
        note("the export takes features, not columns of a table; nearfar transform takes a table.")
    arguments: dict[str, Any] = {option.name: given[option.name] for option in target.options}
    X = None if rows is None else read_rows(rows, drop=drop, metric=found).X
    if target.takes_rows:
        arguments["X"] = X
    contents = target.write(found, save_as, **arguments)
    if json:
        n_rows = 0 if X is None else len(X)
        show_json({"written": str(save_as), "to": target.name, "rows": n_rows})
        return
    say(
        f"{contents}, {found.n_features} features to {found.n_components} coordinates, "
        f"written to {save_as}"
    )
