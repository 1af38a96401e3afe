"""A command is a function: its signature and docstring are its arguments, options and help.

`command_of` makes one. What comes before the section "Parameters" of the docstring is the help.

- A positional parameter without a default is an argument, and so are those of `OPTIONAL_ARGUMENTS`;
  every other parameter is an option, ``--max-iter`` for `max_iter` but for `SPELLINGS`.
- ``bool`` is a flag (``--no-x`` if the default is not False), ``Literal`` a choice, ``int`` and
  ``float`` are numbers, a sequence is repeatable, and everything else is text.
- The description of a parameter is its help; names of parameters in backticks become options.
- Where ``object`` is in the type (rows: a path, a frame or an array) ``-`` is stdin; otherwise it
  is a .csv file that goes to stdout.
- `progress` is a callback, and no option. `forwards` declares what ``**`` takes.
- Only what the user gives is passed on, and the function alone checks it: ValueError, ImportError,
  MemoryError and OSError are errors in one line.
- The result prints by ``str``, or with ``--json`` by `to_dict`; its `exit_code` is the command's.
"""

from __future__ import annotations

import inspect
import re
import shlex
import types
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import click

from nearfar import __version__
from nearfar.cli import COMMANDS, FIRST, MORE, OPTION_GROUPS, OPTIONAL_ARGUMENTS, OTHER_WORDS
from nearfar.runtime.messages import (
    collecting_notes,
    did_you_mean,
    options_of_command_line,
    spelled,
)
from nearfar.terminal import INTERRUPTED, Streams, bars, fail, say, show_json, show_note

_PARAMETERS = "\n\nParameters\n----------\n"
# "name : type" with the text below, or "name: text".
_DESCRIBED = re.compile(r"(?P<names>\*{0,2}\w+(, \w+)*)(?: : .*|: (?P<text>.*)|$)")
_NO_SUCH_WORD = re.compile(r"'([^']*)' is not one of (.*)")
_QUOTED = re.compile(r"'([^']*)'")


@dataclass(frozen=True)
class Declared:
    """A parameter of a function, with its type and its description."""

    parameter: inspect.Parameter
    hint: Any
    text: str

    @cached_property
    def kinds(self) -> tuple[Any, ...]:
        """The types that it may have, without None."""
        union = get_origin(self.hint) in (Union, types.UnionType)
        kinds = get_args(self.hint) if union else (self.hint,)
        return tuple(kind for kind in kinds if kind is not type(None))

    @property
    def is_argument(self) -> bool:
        """Whether it has no dashes."""
        here = self.parameter
        if here.kind is here.VAR_POSITIONAL:
            return True
        wanted = here.default is here.empty or here.name in OPTIONAL_ARGUMENTS
        return here.kind is here.POSITIONAL_OR_KEYWORD and wanted

    @property
    def is_source(self) -> bool:
        """Whether it is rows, which may come from stdin."""
        return bool({object, Any} & {*self.kinds, *(k for s in self.kinds for k in get_args(s))})

    def click_parameter(self, text: str) -> click.Parameter:
        """Return the argument or the option."""
        default = self.parameter.default
        # Click takes None for a default of a required parameter.
        rest: Any = {"required": True} if default is inspect.Parameter.empty else {}
        several = any(get_origin(kind) in _SEQUENCES for kind in self.kinds)
        words = [
            word for kind in self.kinds if get_origin(kind) is Literal for word in get_args(kind)
        ]
        kind: Any = str
        if len(words) and all(get_origin(kind) is Literal for kind in self.kinds):
            kind = click.Choice(words)
        elif self.kinds in ((int,), (float,)):
            kind = self.kinds[0]
        name = self.parameter.name
        if self.is_argument:
            n = -1 if self.parameter.kind is inspect.Parameter.VAR_POSITIONAL else 1
            rest = rest or {"required": False, "default": default}
            return click.Argument([name], type=kind, nargs=n, **rest)
        names = spelled(name)
        if self.kinds == (bool,):
            off = "" if default is False or "/" in names else f"/--no-{names[2:]}"
            return click.Option([f"{names}{off}", name], default=default, help=text, is_flag=True)
        return click.Option(
            [names, name],
            type=kind,
            multiple=several,
            **rest or {"default": None if several else default},
            show_default=True,
            help=f"{text} Repeatable." if several else text,
            metavar="SOURCE" if self.is_source else "FILE" if _is_path(self.kinds) else None,
        )


_SEQUENCES = (list, tuple, Sequence, get_origin(Sequence[str]))


def _is_path(kinds: Sequence[Any]) -> bool:
    return any(hasattr(get_origin(kind) or kind, "__fspath__") for kind in kinds)


def declared(function: Callable[..., Any]) -> dict[str, Declared]:
    """Return the parameters of a function, those that it forwards from where they are declared."""
    hints = get_type_hints(vars(function)["__init__"] if isinstance(function, type) else function)
    texts: dict[str, str] = {}
    names: list[str] = []
    section = (inspect.getdoc(function) or "").partition(_PARAMETERS)[2]
    for line in re.split(r"\n\n[A-Z]\w+( \w+)*\n---", section)[0].splitlines():
        if found := _DESCRIBED.match(line):
            names, line = found["names"].split(", "), found["text"] or ""
        for name in names:
            texts[name] = f"{texts.get(name, '')} {line.strip()}".strip()
    elsewhere = {name: declared(to)[name] for name, to in forwarded(function).items()}
    own = inspect.signature(function).parameters.values()
    described = [Declared(p, hints.get(p.name), texts.get(p.name, "")) for p in own]
    return {each.parameter.name: each for each in described} | elsewhere


def forwarded(function: Callable[..., Any]) -> dict[str, Callable[..., Any]]:
    """Return the functions to which `forwards` hands parameters on, by name."""
    found: dict[str, Callable[..., Any]] = getattr(function, "__forwarded__", {})
    return found


def command_of(name: str, function: Callable[..., Any], example: str = "") -> click.Command:
    """Return the command that a function is."""
    parameters = {n: p for n, p in declared(function).items() if n != "progress"}

    def in_words(text: str) -> str:
        def option(found: re.Match[str]) -> str:
            if (known := parameters.get(found[1])) is None:
                return found[0]
            return found[1].upper() if known.is_argument else spelled(found[1]).partition("/")[0]

        return re.sub(r"(?<!`)`(\w+)`(?!`)", option, text).replace("``", "")

    texts = {name: in_words(each.text) for name, each in parameters.items()}
    return FunctionCommand(
        name,
        callback=partial(_call, function, parameters),
        params=[
            *(each.click_parameter(texts[name]) for name, each in parameters.items()),
            click.Option(["--json"], is_flag=True, help="Print the result as JSON."),
        ],
        help=in_words((inspect.getdoc(function) or "").partition(_PARAMETERS)[0]),
        texts=texts,
        example=example,
    )


def _call(
    function: Callable[..., Any], parameters: Mapping[str, Declared], /, *, json: bool, **given: Any
) -> None:
    """Call a function with what the user gave, and print what it returns, or why it did not."""
    from polars.exceptions import PanicException

    context = click.get_current_context()
    code, starred = 0, inspect.Parameter.VAR_POSITIONAL
    rest = next((n for n, p in parameters.items() if p.parameter.kind is starred), None)
    with Streams() as streams:
        try:
            arguments = {}
            for name, value in given.items():
                each = parameters[name]
                value = list(value) if isinstance(value, tuple) else value
                if value not in (None, [], each.parameter.default):
                    arguments[name] = (streams.spool if each.is_source else streams.target)(value)
            running = partial(_command_line, context)
            with (
                collecting_notes(show_note),
                options_of_command_line(running),
                warnings.catch_warnings(),
                bars() as shown,
            ):
                warnings.filterwarnings("ignore", message="The number of unique classes")
                if "progress" in inspect.signature(function).parameters:
                    arguments["progress"] = shown.update
                several = arguments.pop(rest, []) if rest else []
                result = function(*several, **arguments)
                text = None if json or result is None else str(result)
                document = result.to_dict() if json and result is not None else None
            streams.copy_to_stdout()
            if document is not None:
                show_json(streams.named(document))
            elif text is not None:
                say(streams.named(text))
            code = getattr(result, "exit_code", 0)
        except (ValueError, ImportError, MemoryError) as error:
            fail(streams.named(" ".join(str(error).split()) or type(error).__name__))
        except PanicException as error:
            fail(f"a file cannot be read: {' '.join(str(error).split())}")
        except OSError as error:
            reason = error.strerror or str(error)
            fail(streams.named(f"{error.filename}: {reason}" if error.filename else reason))
    context.exit(code)


def _command_line(context: click.Context, name: str | None = None, /, **changes: Any) -> str:
    """Return the command that is running, with the options that are not the defaults."""
    words = ["nearfar", name or context.info_name or ""]
    options: dict[str, Any] = {}
    for parameter in context.command.params:
        key = parameter.name or ""
        value = changes.pop(key, context.params.get(key))
        if parameter.param_type_name == "argument":
            words += [] if value is None else [str(value)]
        elif value not in (None, (), parameter.get_default(context)):
            options[key] = value
    for key, value in (options | changes).items():
        yes, _, no = spelled(key).partition("/")
        if isinstance(value, bool):
            words.append(yes if value else no or f"--no-{yes[2:]}")
        elif value is not None:
            several = value if isinstance(value, list | tuple) else [value]
            words += [word for each in several for word in (yes, str(each))]
    return shlex.join(words)


class FunctionCommand(click.Command):
    """A command whose ``--help`` has its options in groups, and an example at the end."""

    def __init__(self, name: str, *, texts: Mapping[str, str], example: str, **rest: Any) -> None:
        super().__init__(name, **rest)
        self.texts, self.example = texts, example

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the options; for a word that is none of a list, suggest one that is."""
        try:
            return super().parse_args(ctx, args)
        except click.BadParameter as error:
            if found := _NO_SUCH_WORD.match(error.message):
                hint = did_you_mean(found[1], _QUOTED.findall(found[2]))
                text = f"{error.message.removesuffix('.')}.{hint}"
                raise click.BadParameter(text, error.ctx, error.param) from None
            raise

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write arguments, then the groups of options that the command has."""
        records: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            name, group = parameter.name or "", "Options"
            record = parameter.get_help_record(ctx) or (name.upper(), self.texts.get(name, ""))
            if isinstance(parameter, click.Argument):
                group, record = "Arguments", (name.upper(), self.texts[name])
            words = {option.lstrip("-") for option in parameter.opts}
            group = next((g for g, own in OPTION_GROUPS.items() if words & {*own.split()}), group)
            if isinstance(parameter, click.Argument):
                group = "Arguments"
            records.setdefault(group, []).append(record)
        for title in ("Arguments", *OPTION_GROUPS, "Options"):
            if title in records:
                with formatter.section(title):
                    formatter.write_dl(records[title])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the example."""
        formatter.write(f"\nExample:\n  {self.example}\n")


class Commands(click.Group):
    """Commands that are imported when they are needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands."""
        return [name for group in COMMANDS.values() for name in group]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        found = next((group[cmd_name] for group in COMMANDS.values() if cmd_name in group), None)
        if found is None:
            return None
        module, _, function = found[0].partition(":")
        return command_of(cmd_name, getattr(import_module(f"nearfar.{module}"), function), found[1])

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command, which may be interrupted."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as interrupt:
            return fail(str(interrupt) or "interrupted.", INTERRUPTED)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """Find a command; for other words, name the command that they mean."""
        word, known = args[0], self.list_commands(ctx)
        if word in known or word.startswith("-"):
            return super().resolve_command(ctx, args)
        meant = OTHER_WORDS.get(word)
        hint = did_you_mean(word, known)
        if meant is not None:
            hint = f" Use `nearfar {meant}`: {sentence_of(meant)}{MORE.get(word, '')}"
        return ctx.fail(f"No such command {word!r}.{hint}")

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands in groups, with their first sentences."""
        for title, names in COMMANDS.items():
            with formatter.section(title):
                formatter.write_dl([(name, sentence_of(name)) for name in names])


def sentence_of(command: str) -> str:
    """Return the first sentence of a command's docstring, without importing its module."""
    where = next(group[command][0] for group in COMMANDS.values() if command in group)
    module, _, function = where.partition(":")
    path = Path(__file__).parent / module.replace(".", "/")
    text = (path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text("utf-8")
    found = re.search(rf'^def {function}\(.*?"""(.*?)(\n\n|""")', text, re.DOTALL | re.MULTILINE)
    return "" if found is None else " ".join(found[1].split())


_HELP = "Learn the distance that your task needs."


@click.group("nearfar", cls=Commands, invoke_without_command=True, help=_HELP)
@click.option("--version", is_flag=True, help="Show the version and exit.")
@click.pass_context
def app(context: click.Context, version: bool) -> None:
    """Show the version, or the first steps."""
    if version:
        say(f"nearfar {__version__}")
    elif context.invoked_subcommand is None:
        say(FIRST)
