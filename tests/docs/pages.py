"""Pages of the documentation, taken apart: inline code, links, headings, fenced blocks."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).parents[2]
PATHS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/**/*.md"))]

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_CODE = re.compile(r"(?<!`)`([^`]+)`(?!`)")
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_FOREIGN_COLUMN = re.compile(r"^\| (?:metric-learn|`calibrate_threshold`, .*?) \|")
_SENTENCE_END = re.compile(r"(?<=[.;:!?])\s+(?=[A-Z`\"*\[(])|\n\s*\n|\n(?=\s*(?:[-*|#]|\d+\. ))")


@dataclass(frozen=True)
class Span:
    """Inline code: its text, its line, and the heading that it stands below."""

    text: str
    line: int
    heading: str


@dataclass(frozen=True)
class Block:
    """A fenced block."""

    kind: str
    text: str
    line: int


@dataclass(frozen=True)
class Page:
    """A page of Markdown."""

    name: str
    text: str

    @classmethod
    def read(cls, path: Path) -> Page:
        return cls(path.relative_to(ROOT).as_posix(), path.read_text())

    def line(self, position: int) -> int:
        return self.text.count("\n", 0, position) + 1

    @cached_property
    def blocks(self) -> list[Block]:
        return [Block(m[1], m[2], self.line(m.start(2))) for m in _FENCE.finditer(self.text)]

    @cached_property
    def prose(self) -> str:
        """The page with blank lines in place of fenced blocks and of what is not ours."""
        text = _FENCE.sub(lambda m: "\n" * m[0].count("\n"), self.text)
        lines, foreign = [], False
        for line in text.split("\n"):
            foreign = line.startswith("|") and (foreign or bool(_FOREIGN_COLUMN.match(line)))
            lines.append(re.sub(r"^\|.*?(?= \|)", "|", line) if foreign else line)
        return "\n".join(lines)

    @cached_property
    def anchors(self) -> set[str]:
        """What links to headings can name, by GitHub's rule."""
        titles = _HEADING.findall(_FENCE.sub("", self.text))
        return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}

    @cached_property
    def spans(self) -> list[Span]:
        return [self._span(m.start(), m[1]) for m in _CODE.finditer(self.prose)]

    @cached_property
    def links(self) -> list[Span]:
        return [self._span(m.start(), m[1]) for m in _LINK.finditer(self.prose)]

    @cached_property
    def sentences(self) -> list[Span]:
        """The sentences and table rows, each on one line."""
        found, start = [], 0
        for end in [*_SENTENCE_END.finditer(self.prose), None]:
            text = self.prose[start : end.start() if end else None]
            found.append(self._span(start, " ".join(text.split())))
            start = end.end() if end else 0
        return found

    def _span(self, position: int, text: str) -> Span:
        # The prose has the lines of the page, but not its positions.
        above = self.prose[:position]
        heading = (_HEADING.findall(above) or [""])[-1]
        return Span(" ".join(text.split()), above.count("\n") + 1, heading)

    @property
    def title(self) -> str:
        return (_HEADING.findall(self.prose) or [""])[0]


def code_in(sentence: str) -> list[str]:
    return _CODE.findall(sentence)
