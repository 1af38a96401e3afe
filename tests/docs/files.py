"""Files, folders, links and headings that pages name. Results are ``page:12: what is wrong``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

from docs.allowed import PATHS_ELSEWHERE
from docs.pages import ROOT, Page

PATH = re.compile(r"[\w.<*][\w.<>*-]*(?:/[\w.<>*-]*)+|[\w-]+\.(?:py|md|toml|html|css|js)")
_TREE_FILE = re.compile(r"\w+\.(?:py|html|css|js)\b")


def missing_paths(page: Page, root: Path = ROOT) -> Iterator[str]:
    """Find files and folders, links and anchors that do not exist."""
    for span in page.spans:
        for word in span.text.split():
            if PATH.fullmatch(word) and not _exists(word, page, root):
                yield f"{page.name}:{span.line}: no file `{word}`"
    for link in page.links:
        path, _, anchor = link.text.partition("#")
        if "://" in path:
            continue
        target = (root / page.name).parent / path if path else None
        if target is not None and not target.exists():
            yield f"{page.name}:{link.line}: no file {path}"
        elif anchor:
            there = page if target is None else Page(path, target.read_text())
            if anchor not in there.anchors:
                yield f"{page.name}:{link.line}: no heading for {link.text}"
    for block in page.blocks:
        if "├──" in block.text:
            yield from _missing_in_tree(page, block.text, block.line, root)


def _exists(word: str, page: Page, root: Path) -> bool:
    if any(fnmatch(word, pattern) for pattern in PATHS_ELSEWHERE):
        return True
    pattern = re.sub(r"<\w+>", "*", word).strip("/")
    folders = [root, root / "src", root / "src/nearfar", (root / page.name).parent]
    if "/" not in word:
        return any(True for _ in root.glob(f"src/**/{pattern}")) or (root / word).exists()
    return any(True for folder in folders for _ in folder.glob(pattern))


def _missing_in_tree(page: Page, tree: str, first: int, root: Path) -> Iterator[str]:
    """Check a drawn tree of files; four characters of drawing are one folder down."""
    folders: list[str] = []
    drawn: list[str] = []
    for number, line in enumerate(tree.splitlines()):
        depth = len(re.match(r"[│├└─ ]*", line)[0]) // 4 if line[:1] in "│├└ " else 0
        names = re.sub(r"^[│├└─ ]*", "", line)
        if folder := re.match(r"([\w/]+/)(?:\s|$)", names):
            folders = [*folders[:depth], folder[1]]
            if not (root / "".join(folders)).is_dir():
                yield f"{page.name}:{first + number}: no folder {''.join(folders)}"
            continue
        for name in _TREE_FILE.findall(re.split(r"\s{2,}", names)[0]):
            inside = folders[:depth] if "──" in line else folders
            drawn.append("".join(inside) + name)
            if not (root / drawn[-1]).exists():
                yield f"{page.name}:{first + number}: no file {drawn[-1]}"
    for name in sorted(_files_below(root, folders[0]) - set(drawn)):
        yield f"{page.name}:{first}: {name} is not in the tree"
    for name in sorted({name for name in drawn if drawn.count(name) > 1}):
        yield f"{page.name}:{first}: {name} is in the tree {drawn.count(name)} times"


def _files_below(root: Path, folder: str) -> set[str]:
    """Return the files in a folder, without the `__init__.py` of packages below it."""
    files = [path.relative_to(root) for path in (root / folder).rglob("*") if path.is_file()]
    inits = {path for path in files if path.name == "__init__.py" and path.parent != Path(folder)}
    return {path.as_posix() for path in {*files} - inits if _TREE_FILE.fullmatch(path.name)}
