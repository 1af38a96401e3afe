"""Options of the command line that pages name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import typer

from docs.allowed import OTHER_OPTIONS
from docs.pages import Page
from nearfar.cli.app import app

_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")


def commands() -> dict[str, dict[str, object]]:
    """Return the commands, each with its options and their defaults."""
    group = typer.main.get_command(app)
    found = {name: group.get_command(None, name) for name in group.list_commands(None)}
    return {
        name: {option: p.default for p in command.params for option in [*p.opts, *p.secondary_opts]}
        | {"--help": None}
        for name, command in found.items()
    }


def unknown_options(page: Page, commands: Mapping[str, Mapping[str, object]]) -> Iterator[str]:
    """Find options that the command does not have, or any command where none is named."""
    lines = [(span.line, span.text) for span in page.spans]
    for block in page.blocks:
        if block.kind in ("sh", "console", ""):
            for number, line in enumerate(block.text.replace("\\\n", "  ").splitlines()):
                if re.match(r"(\$ )?(\S*/)?nearfar ", line):
                    lines.append((block.line + number, line))
    for number, line in lines:
        named = re.match(r"(?:\$ )?(?:\S*/)?nearfar ([a-z-]+)", line)
        if named and named[1] not in commands:
            yield f"{page.name}:{number}: no command {named[1]}"
        for part in re.split(r"&&|[|;]", re.sub(r'"[^"]*"|\'[^\']*\'', "", line)):
            command = re.match(r"\s*(?:\$ )?(?:(?:\S*/)?nearfar )?([a-z-]+)", part)
            named = command[1] if command and command[1] in commands else None
            known = commands[named] if named else {o for c in commands.values() for o in c}
            for option in _OPTION.findall(part):
                if option not in known and option not in OTHER_OPTIONS:
                    where = named or "the command line"
                    yield f"{page.name}:{number}: {where} has no option {option}"


_STATED = [
    re.compile(r"`(--[a-z-]+)` \(([\d.]+) (seconds|minutes) by default\)"),
    re.compile(r"default `(--[a-z-]+)` is ([\d.]+) (seconds|minutes)"),
]


def wrong_option_defaults(page: Page, known: Mapping[str, Mapping[str, object]]) -> Iterator[str]:
    """Find times that are called the default of an option, and are that of no command."""
    for sentence in page.sentences:
        for pattern in _STATED:
            for option, number, unit in pattern.findall(sentence.text):
                defaults = {str(options[option]) for options in known.values() if option in options}
                if f"{number}{unit[0]}" not in defaults:
                    stated = f"{option} is {number} {unit}"
                    yield f"{page.name}:{sentence.line}: {stated}; found {sorted(defaults)}"
