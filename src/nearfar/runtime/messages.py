"""Values of users in messages: quoted, and cut if they are long.

Options in messages: ``--budget`` on the command line, `budget` in Python.

`Note`: what a person must know beside a result. Terminals print notes, and reports show them.

Code that has something to say calls `note`. `collecting_notes` gives the caller a list of what was
said inside it; without one, notes are not kept. Nested lists each have all of their own notes.

How results show themselves in a notebook: a title, sentences, and horizontal bars.

Everything is one HTML fragment with styles of its own: no scripts and no files. Text has the
colour of the notebook, and bars are half transparent, so that light and dark themes work.

What a mistyped name may have meant.

Packages that only some features need, imported where they are used.

`forwards`: keyword arguments that a function hands on are declared where they are used.
"""

from __future__ import annotations

import difflib
import html
import inspect
import re
import shlex
import shutil
import textwrap
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from itertools import zip_longest
from typing import Any, TypeVar

# Characters of a value in a message: about a line of a terminal.
_LONGEST = 80
# Escapes, what changes the direction of writing, and halves of characters.
_CONTROLS = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def quoted(value: object) -> str:
    r"""Return what `repr` returns, cut if it is long."""
    # The text of a long value is not made only to be cut.
    return cut(repr(value[: 2 * _LONGEST] if isinstance(value, str) else value))


def printable(text: str) -> str:
    r"""Return a text with what controls terminals written out; line ends and tabs stay.

    Names in the files of others may have such characters.
    """
    return _CONTROLS.sub(lambda found: repr(found[0])[1:-1], text)


def cut(text: str, length: int = _LONGEST) -> str:
    """Return a text with its middle left out if it is longer than `length` characters."""
    return text if len(text) <= length else f"{text[: length - 4]}...{text[-1:]}"


def named(name: str) -> str:
    r"""Return a name as it is if it is short and can be printed, otherwise quoted."""
    return name if name.isprintable() and 0 < len(name) <= _LONGEST else quoted(name)


def counted(number: int, noun: str) -> str:
    """Return a number with its noun."""
    ending = "es" if noun.endswith(("s", "ch")) else "s"
    return f"{number} {noun if number == 1 else noun + ending}"


def plain(value: float, spec: str = ".4g") -> str:
    """Write a number, below a million without an exponent."""
    text = f"{value:{spec}}"
    return f"{float(text):,.0f}" if "e+0" in text and abs(float(text)) < 1e6 else text


def amount(n_bytes: float) -> str:
    """Write an amount of memory."""
    if n_bytes < 1e6:
        return "less than 1 MB"
    return f"{n_bytes / 1e6:.0f} MB" if n_bytes < 1e9 else f"{n_bytes / 1e9:.3g} GB"


def duration(seconds: float) -> str:
    """Write a duration."""
    if seconds < 100:
        return "less than 1 s" if seconds < 1 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 2 * 3600 else f"{seconds / 3600:.0f} h"


def text_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in a frame; the first column is text, the others are numbers."""
    lines = [[printable(cell).replace("\n", " ") for cell in row] for row in (columns, *rows)]
    widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    room = shutil.get_terminal_size().columns - 3 * len(widths) - 1
    while sum(widths) > max(room, 8 * len(widths)):
        widest = max(range(len(widths)), key=lambda place: (widths[place], place))
        widths[widest] -= 1
    head, *body = ([*_folded(line, widths)] for line in lines)
    rule = ["━" * (width + 2) for width in widths]
    return "\n".join(
        [
            f"┏{'┳'.join(rule)}┓",
            *(f"┃{'┃'.join(cells)}┃" for cells in head),
            f"┡{'╇'.join(rule)}┩",
            *(f"│{'│'.join(cells)}│" for line in body for cells in line),
            f"└{'┴'.join(rule).replace('━', '─')}┘",
        ]
    )


def _folded(line: Sequence[str], widths: Sequence[int]) -> Iterator[list[str]]:
    """Yield the lines that a row of a table takes."""
    cells = [textwrap.wrap(cell, width) for cell, width in zip(line, widths, strict=True)]
    for parts in zip_longest(*(each or [""] for each in cells), fillvalue=""):
        yield [
            f" {part:{'>' if place else '<'}{widths[place]}} " for place, part in enumerate(parts)
        ]


SPELLINGS = {"ids": "--id", "random_state": "--seed", "numbers": "--numbers/--classes"}
"""Options that are not the name of their parameter with dashes."""
# Parameters of commands that are not functions yet.
_PARAMETERS = {
    "method": "methods",
    "folds": "cv",
    "neighbors": "n_neighbors",
    "only-if-significant": "strict=True",
    "no-comparison": "comparison=False",
    "source": "sources",
}

CommandLine = Callable[..., str]
_command_line: ContextVar[CommandLine | None] = ContextVar("_command_line", default=None)


@contextmanager
def options_of_command_line(text: CommandLine = lambda *_, **__: "") -> Iterator[None]:
    """Name options as the command line does in messages of this block.

    Parameters
    ----------
    text: What `command_line` calls.
    """
    token = _command_line.set(text)
    try:
        yield
    finally:
        _command_line.reset(token)


def command_line(name: str | None = None, **changes: object) -> str:
    """Return the command that is running, with other values of its options; "" in Python.

    Parameters
    ----------
    name: Another command, which has the same arguments.
    **changes: Other values of parameters; None leaves an option out.
    """
    text = _command_line.get()
    return "" if text is None else text(name, **changes)


def spelled(name: str) -> str:
    """Return the option of a parameter; of two, the second says no."""
    return SPELLINGS.get(name, f"--{name.replace('_', '-')}")


def option(name: str, value: object = None) -> str:
    """Return a parameter, or a parameter with its value, as the user writes it."""
    if _command_line.get() is None:
        name = _PARAMETERS.get(name, name.replace("-", "_"))
        return name if value is None else f"{name}={value!r}"
    yes, _, no = spelled(name).partition("/")
    if isinstance(value, bool):
        return yes if value else no or f"--no-{yes[2:]}"
    if isinstance(value, list):
        # Names are separated by commas, unless one has a comma.
        values = value if any("," in each for each in value) else [",".join(value)]
        return " ".join(f"{yes} {shlex.quote(each)}" for each in values)
    return yes if value is None else f"{yes} {shlex.quote(str(value))}"


@dataclass(frozen=True)
class Note:
    """A sentence or two beside a result.

    Attributes
    ----------
    warning: Whether the result may be wrong or useless because of it. Reports show warnings
        first.
    """

    text: str
    warning: bool = False


_Collector = tuple[list[Note], Callable[[str], None] | None]
_collectors: ContextVar[tuple[_Collector, ...]] = ContextVar("_collectors", default=())


@contextmanager
def collecting_notes(listener: Callable[[str], None] | None = None) -> Iterator[list[Note]]:
    """Collect the notes of this block, each once; `listener` gets their texts as they come."""
    notes: list[Note] = []
    token = _collectors.set((*_collectors.get(), (notes, listener)))
    try:
        yield notes
    finally:
        _collectors.reset(token)


def note(text: str, *, warning: bool = False) -> None:
    """Say something beside the result.

    Parameters
    ----------
    text: It begins with a capital in lists of notes.
    warning: Whether the result may be wrong or useless because of it.
    """
    said = Note(f"{text[:1].upper()}{text[1:]}", warning)
    for notes, listener in _collectors.get():
        if said not in notes:
            notes.append(said)
            if listener is not None:
                listener(text)


def notes_so_far() -> list[Note]:
    """Return what the outermost list has collected so far."""
    collectors = _collectors.get()
    return list(collectors[0][0]) if collectors else []


def ordered(notes: list[Note]) -> list[Note]:
    """Return each note once, warnings first."""
    return sorted(dict.fromkeys(notes), key=lambda note: not note.warning)


_BAR = "height:0.8em;background:#3a86c8;opacity:0.75;border-radius:2px"
_CELL = "padding:1px 8px;text-align:left;border:none;background:none"
# Bars that fit on a screen beside the code.
_MOST_BARS = 12


def fragment(title: str, sentences: Sequence[str] = (), bars: str = "") -> str:
    """Return a title, sentences and bars as HTML; texts are escaped."""
    lines = "".join(f"<div>{html.escape(line)}</div>" for line in sentences)
    return f'<div class="nearfar"><div><b>{html.escape(title)}</b></div>{lines}{bars}</div>'


def bars(values: Mapping[str, float], write: str = "{:.1%}") -> str:
    """Return a table of bars for numbers that are 0 or more; small ones are summed up in a row.

    Parameters
    ----------
    values: In the order of the rows.
    write: Format of the numbers.
    """
    largest = max([0.0, *values.values()]) or 1.0
    shown = list(values.items())[:_MOST_BARS]
    rows = "".join(
        f'<tr style="background:none"><td style="{_CELL}">{html.escape(name)}</td>'
        f'<td style="{_CELL};text-align:right">{html.escape(write.format(value))}</td>'
        f'<td style="{_CELL};width:14em"><div style="{_BAR};width:'
        f'{100 * max(0.0, value) / largest:.1f}%"></div></td></tr>'
        for name, value in shown
    )
    more = len(values) - len(shown)
    rest = f"<div>and {more} more</div>" if more else ""
    return f'<table style="border:none;margin:4px 0">{rows}</table>{rest}'


Result = TypeVar("Result")


class ResultsTable(Mapping[str, Result]):
    """Results by name that print as a table with a verdict, also in a notebook.

    A subclass gives the texts: `title`, `_headings`, `_groups`, `_footnotes` and `verdicts`.
    """

    # Heading of the names in HTML; empty in a terminal.
    _compared = "distance"

    @property
    @abstractmethod
    def title(self) -> str:
        """Title of the table."""

    @property
    @abstractmethod
    def _headings(self) -> list[str]:
        """Headings of the columns, without that of the names."""

    @abstractmethod
    def _groups(self) -> dict[str, list[list[str]]]:
        """Lines of the table as cells, by the heading of each group; "" for the first."""

    @property
    @abstractmethod
    def _footnotes(self) -> list[str]:
        """Sentences below the table."""

    @property
    @abstractmethod
    def verdicts(self) -> list[str]:
        """The lines of the verdict."""

    def __str__(self) -> str:
        header, groups = ["", *self._headings], self._groups()
        lines = [header, *(cells for group in groups.values() for cells in group)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]

        def aligned(cells: Sequence[str]) -> str:
            name, *numbers = cells
            padded = [cell.rjust(width) for cell, width in zip(numbers, widths[1:], strict=True)]
            return "  ".join([name.ljust(widths[0]), *padded]).rstrip()

        table = [aligned(header)]
        for heading, group in groups.items():
            table += [f"{heading}:"] * bool(heading) + [aligned(cells) for cells in group]
        return "\n".join([self.title, *table, *self._footnotes, *self.verdicts])

    def to_html(self, *, verdict: bool = True) -> str:
        """Return the table, with or without the verdict, as an HTML fragment."""
        head = "".join(f'<th scope="col">{html.escape(column)}</th>' for column in self._headings)
        body = ""
        for heading, group in self._groups().items():
            width = len(self._headings) + 1
            rows = "".join(
                f'<tr><th scope="row">{html.escape(name)}</th>'
                f"{''.join(f'<td>{cell}</td>' for cell in numbers)}</tr>"
                for name, *numbers in group
            )
            if heading:
                title = f'<th scope="rowgroup" colspan="{width}">{html.escape(heading)}</th>'
                rows = f"<tr>{title}</tr>{rows}"
            body += f"<tbody>{rows}</tbody>"
        after = " ".join(html.escape(line) for line in self._footnotes)
        lines = self.verdicts if verdict else []
        verdicts = "".join(f"<p><strong>{html.escape(line)}</strong></p>" for line in lines)
        return (
            f'<table class="comparison"><caption>{self.title}</caption>'
            f'<thead><tr><th scope="col">{self._compared}</th>{head}</tr></thead>'
            f"{body}</table><p>{after}</p>{verdicts}"
        )

    def _repr_html_(self) -> str:
        return self.to_html()


class ShowsFit:
    """An estimator that shows its diagram and, once it is fitted, what it has learned."""

    def _fit_html(self) -> str:
        """Return what was learned as HTML; "" before a fit."""
        return ""

    def _repr_html_(self) -> str:
        from sklearn.utils import estimator_html_repr

        return f"{estimator_html_repr(self)}{self._fit_html()}"

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": self._repr_html_()}


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return a question after the nearest names, with a space before it, or ""."""
    names = {name.lower(): name for name in sorted(known, reverse=True)}
    close = difflib.get_close_matches(word.lower(), names)
    return f" Did you mean {' or '.join(repr(names[name]) for name in close)}?" if close else ""


def optional_package(module: str, needed_by: str, install: str) -> Any:
    """Import a module, or raise ImportError that says what to install.

    Examples
    --------
    >>> from nearfar.runtime.messages import optional_package
    >>> optional_package("no_such_package", "to_nothing", "nearfar[nothing]")
    Traceback (most recent call last):
    ...
    ImportError: to_nothing needs no_such_package; run pip install "nearfar[nothing]".
    """
    package = module.partition(".")[0]
    try:
        import_module(package)
        return import_module(module)
    except ImportError as error:
        raise ImportError(f'{needed_by} needs {package}; run pip install "{install}".') from error


def suggested_ending() -> str:
    """Return the format of tables that commands suggest: Parquet, if its package is installed."""
    return ".csv" if find_spec("pyarrow") is None else ".parquet"


F = TypeVar("F", bound=Callable[..., Any])


def forwards(to: Callable[..., Any], names: str) -> Callable[[F], F]:
    """Declare that the ``**`` of a function takes these parameters of another function.

    Help, signature and the command line show them with the type, the default and the description
    that they have there.

    Parameters
    ----------
    names: Separated by blanks.
    """

    def decorate(function: F) -> F:
        wanted = dict.fromkeys(names.split(), to)
        own = inspect.signature(function)
        kept = [p for p in own.parameters.values() if p.kind is not p.VAR_KEYWORD]
        there = inspect.signature(to).parameters
        taken = [there[n].replace(kind=inspect.Parameter.KEYWORD_ONLY) for n in wanted]
        function.__signature__ = own.replace(parameters=[*kept, *taken])  # type: ignore[attr-defined]
        function.__forwarded__ = {**getattr(function, "__forwarded__", {}), **wanted}  # type: ignore[attr-defined]
        return function

    return decorate
