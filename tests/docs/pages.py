"""Pages of the documentation, taken apart: inline code, links, fenced blocks."""

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


@dataclass(frozen=True)
class Part:
    """A fenced block, inline code or the target of a link, with the line where it begins."""

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

    @cached_property
    def blocks(self) -> list[Part]:
        return self._parts(_FENCE, self.text)

    @cached_property
    def code(self) -> list[Part]:
        return [Part("", " ".join(p.text.split()), p.line) for p in self._parts(_CODE, self.prose)]

    @cached_property
    def links(self) -> list[Part]:
        return self._parts(_LINK, self.prose)

    @cached_property
    def prose(self) -> str:
        """The page with blank lines in place of fenced blocks."""
        return _FENCE.sub(lambda block: "\n" * block[0].count("\n"), self.text)

    def _parts(self, pattern: re.Pattern[str], text: str) -> list[Part]:
        last = pattern.groups
        return [
            Part(m[1] if last > 1 else "", m[last], text.count("\n", 0, m.start(last)) + 1)
            for m in pattern.finditer(text)
        ]
