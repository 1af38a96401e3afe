"""Names that pages use, in inline code and in fenced blocks of Python."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from docs.allowed import NAMES, NOT_PYTHON, ON_PAGES, VARIABLES
from docs.files import PATH
from docs.package import Class, Function, Module, Package
from docs.pages import ROOT, Page

_VARIABLE = re.compile(r"NEARFAR_\w+")
_OTHER = re.compile(r"--|NEARFAR_|[a-z]+(?:-[a-z]+)+$|\w+\.(?:db|jsonl|npz|npy|parquet)$")
"""Options, variables of the environment, words with hyphens, and files of data."""
_HAS = re.compile(r"`(\w+)` has \(((?:`\w+`(?:, )?)+)\)")


def unknown_names(page: Page, package: Package, root: Path = ROOT) -> Iterator[str]:
    """Find inline code with names, keywords or calls that the package does not have."""
    reader = Reader(package, NAMES | ON_PAGES.get(page.name, frozenset()), VARIABLES)
    for span in page.spans:
        for name in _VARIABLE.findall(span.text):
            if not _in_sources(name, root):
                yield f"{page.name}:{span.line}: nothing reads the variable {name}"
        tree = None if span.text in package.suffixes else parse_span(span.text)
        for message in reader.problems(tree) if tree is not None else ():
            yield f"{page.name}:{span.line}: `{span.text}`: {message}"
    for sentence in page.sentences:
        for owner, members in _HAS.findall(sentence.text):
            for member in re.findall(r"\w+", members):
                if owner in package.classes and not package.has_member(owner, member):
                    yield f"{page.name}:{sentence.line}: {owner} has no `{member}`"


def parse_span(text: str) -> ast.expr | None:
    """Return inline code as an expression of Python; None if it is something else.

    Keywords such as ``tol=1e-3`` are those of a call of ``dict``.
    """
    if text in NOT_PYTHON or PATH.fullmatch(text) or _OTHER.match(text):
        return None
    text = re.sub(r"^[@.](?=\w)", "", text)
    text = re.sub(r"^(\w+)\(self, (\w+): \w+\)", r"\1(\2)", text).partition(" -> ")[0]
    text = re.sub(r"^[\w, ]+ = ", "", text)
    for form in (text, f"dict({text})", f"dict({text}...)"):
        try:
            return ast.parse(form, mode="eval").body
        except SyntaxError:
            continue
    return None


def _in_sources(name: str, root: Path) -> bool:
    files = [*root.glob("src/**/*.py"), *root.glob("tests/**/*.py"), *root.glob("benchmarks/*.py")]
    return any(name in path.read_text() for path in files if path.parent.name != "docs")


class Reader:
    """Finds what is wrong in Python code about nearfar.

    Parameters
    ----------
    package : Package
    allowed : set of str
        Names of other libraries, and of what examples have.
    types : mapping of str to str
        Classes of variables.
    """

    def __init__(self, package: Package, allowed: frozenset[str], types: Mapping[str, str]) -> None:
        self.package, self.allowed, self.types = package, allowed, dict(types)

    def problems(self, tree: ast.AST) -> Iterator[str]:
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and not self._knows(node.id):
                yield f"no `{node.id}` in the package"
            elif isinstance(node, ast.Attribute):
                yield from self.attribute_problems(node)
            elif isinstance(node, ast.Call):
                yield from self.call_problems(node)

    def _knows(self, name: str) -> bool:
        letter = len(name) == 1
        return letter or name in self.allowed or name in self.types or self.package.knows(name)

    def attribute_problems(self, node: ast.Attribute) -> Iterator[str]:
        dotted = ast.unparse(node)
        root = dotted.partition(".")[0]
        if self.package.find(dotted) is not None or root in self.allowed:
            return
        owner = self.type_of(node.value)
        if owner:
            if not self.package.has_member(owner, node.attr) and node.attr not in self.allowed:
                yield f"{owner} has no `{node.attr}`"
        elif isinstance(node.value, ast.Name) and not self.package.find(root):
            yield f"`{root}` is neither a module, a class nor a known variable"
        elif isinstance(self.package.find(ast.unparse(node.value)), Module):
            yield f"{ast.unparse(node.value)} has no `{node.attr}`"

    def call_problems(self, node: ast.Call) -> Iterator[str]:
        function, name = self.function(node.func), ast.unparse(node.func)
        if name == "dict":
            for keyword in node.keywords:
                if keyword.arg not in self.package.parameters | self.allowed:
                    yield f"nothing has a parameter `{keyword.arg}`"
        elif function is not None:
            for keyword in node.keywords:
                if not function.any_keyword and keyword.arg not in {None, *function.parameters}:
                    yield f"{name} has no parameter `{keyword.arg}`"
            if function.positional is not None and len(node.args) > function.positional:
                yield f"{name} takes {function.positional} positional arguments"

    def function(self, node: ast.expr) -> Function | None:
        """Return the signature of what is called, as far as it is known."""
        found = self.package.find(ast.unparse(node))
        if isinstance(node, ast.Name) and node.id not in self.allowed:
            name = node.id
            if name in self.package.classes:
                return self.package.constructor(name)
            public = self.package.modules["nearfar"].names.get(name)
            functions = self.package.functions.get(name, [])
            if public is not None or len(functions) == 1:
                found = self.package.follow(public, name) if public else functions[0]
        if isinstance(found, Class):
            return self.package.constructor(found.name)
        if isinstance(found, Function):
            return found
        if isinstance(node, ast.Attribute) and (owner := self.type_of(node.value)):
            return self.package.method(owner, node.attr)
        return None

    def type_of(self, node: ast.expr) -> str:
        """Return the class of an expression; "" if it is not known."""
        if isinstance(node, ast.Name):
            return node.id if node.id in self.package.classes else self.types.get(node.id, "")
        if isinstance(node, ast.Attribute):
            found = self.package.find(ast.unparse(node))
            if isinstance(found, Class):
                return found.name
            return self.package.member_type(self.type_of(node.value), node.attr)
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Call) and (made := self.type_of(node.func)):
                return self.package.member_type(made, "__call__")
            function = self.function(node.func)
            if function is not None and function.name in ("__init__", *self.package.classes):
                return self.type_of(node.func)
            if isinstance(node.func, ast.Attribute) and function is not None:
                return self.package.member_type(self.type_of(node.func.value), node.func.attr)
            if function is not None and function.returns in self.package.classes:
                return function.returns
            if isinstance(node.func, ast.Name) and node.func.id in self.package.classes:
                return node.func.id
        return ""


def broken_blocks(page: Page, package: Package) -> Iterator[str]:
    """Find Python blocks that do not compile, or use what nearfar does not have."""
    types: dict[str, str] = {}
    for block in page.blocks:
        if block.kind != "python":
            continue
        try:
            tree = ast.parse(block.text)
        except SyntaxError as error:
            yield f"{page.name}:{block.line + (error.lineno or 1) - 1}: {error.msg}"
            continue
        if block.text.startswith("# metric-learn"):
            continue
        for statement in tree.body:
            reader = Reader(package, NAMES, types)
            for message in _statement_problems(statement, reader, package):
                yield f"{page.name}:{block.line + statement.lineno - 1}: {message}"
            if isinstance(statement, ast.Assign):
                kind = reader.type_of(statement.value)
                for target in statement.targets:
                    types[ast.unparse(target)] = kind


def _statement_problems(statement: ast.stmt, reader: Reader, package: Package) -> Iterator[str]:
    for node in ast.walk(statement):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "nearfar":
            module = package.modules.get(node.module)
            for alias in node.names:
                below = f"{node.module}.{alias.name}" in package.modules
                if module is None or not (below or alias.name in module.names):
                    yield f"cannot import {alias.name} from {node.module}"
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "nearfar" and alias.name not in package.modules:
                    yield f"cannot import {alias.name}"
        elif isinstance(node, ast.Attribute) and reader.type_of(node.value):
            yield from reader.attribute_problems(node)
        elif isinstance(node, ast.Call) and ast.unparse(node.func) != "dict":
            yield from reader.call_problems(node)
