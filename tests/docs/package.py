"""What the package has: modules, classes, functions, parameters, attributes.

All of it is read from the source, so that optional packages are not needed. Only the docstrings of
learners are generated (`nearfar.learners.declaration`): these are read from the imported classes.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from inspect import getdoc
from itertools import chain
from pathlib import Path

REQUIRED = "(required)"
_FIXED_LETTERS = 5
_SECTION = re.compile(r"^(\w+(?: \w+)?)\n-{3,}$", re.MULTILINE)
_ENTRY = re.compile(r"^(\*{0,2}\w+(?:, \*{0,2}\w+)*)(?: : (.*))?$", re.MULTILINE)


@dataclass
class Function:
    """A function or method: parameters with the source of their defaults, and what it returns."""

    name: str
    module: str
    parameters: dict[str, str]
    positional: int | None = None
    """Most positional arguments; None if there is no limit."""
    any_keyword: bool = False
    returns: str = ""
    doc: str = ""
    is_property: bool = False


@dataclass
class Class:
    """A class: its bases, methods, and attributes with their annotations."""

    name: str
    module: str
    bases: list[str]
    methods: dict[str, Function] = field(default_factory=dict)
    attributes: dict[str, str] = field(default_factory=dict)
    fields: dict[str, str] = field(default_factory=dict)
    """Fields of a dataclass, with the source of their defaults."""
    is_dataclass: bool = False
    is_learner: bool = False
    """Whether `learner` makes it a dataclass of keywords, and adds to its docstring."""
    doc: str = ""


@dataclass
class Module:
    """A module: its names, and its calls by the name that is called."""

    name: str
    names: dict[str, Function | Class | str] = field(default_factory=dict)
    """Definitions; the module of what is imported; the source of other values."""
    calls: dict[str, list[ast.Call]] = field(default_factory=lambda: defaultdict(list))


def numpydoc(doc: str, section: str) -> Iterator[tuple[str, str]]:
    """Yield names and types of the entries in a section of a docstring."""
    parts = _SECTION.split(doc)
    for title, text in zip(parts[1::2], parts[2::2], strict=True):
        if title == section:
            for entry in _ENTRY.finditer(text):
                for name in entry[1].split(", "):
                    yield name.lstrip("*"), entry[2] or ""


def imported_docstring(cls: Class) -> str:
    """Return the docstring that a class of nearfar has once it is imported."""
    return getdoc(getattr(import_module(cls.module), cls.name)) or ""


class Package:
    """The index of a package.

    Parameters
    ----------
    folder : Path
        The folder of the package.
    learner_docstring : callable, optional
        Class -> the docstring of a learner; by default the one in the source.
    """

    def __init__(
        self, folder: Path, learner_docstring: Callable[[Class], str] = lambda cls: cls.doc
    ) -> None:
        self.modules: dict[str, Module] = {}
        self.keys: set[str] = set()
        """Identifiers that are keys of dictionaries or values of Literals."""
        self.key_patterns: list[str] = []
        """Patterns of keys that are formatted, such as "training_\\w+"."""
        self.suffixes: set[str] = set()
        """Strings such as ".csv"."""
        for path in sorted([*folder.rglob("*.py"), *folder.rglob("*.pyi")]):
            parts = path.relative_to(folder.parent).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            self._read(Module(name), ast.parse(path.read_text()))
        defined = [v for m in self.modules.values() for v in m.names.values()]
        self.classes: dict[str, list[Class]] = {}
        self.functions: dict[str, list[Function]] = {}
        for value in defined:
            if isinstance(value, Class):
                self.classes.setdefault(value.name, []).append(value)
            elif isinstance(value, Function):
                self.functions.setdefault(value.name, []).append(value)
        self.all_classes = list(chain.from_iterable(self.classes.values()))
        for cls in self.all_classes:
            if cls.is_learner:
                cls.doc = learner_docstring(cls)
            for name, kind in numpydoc(cls.doc, "Attributes"):
                cls.attributes[name] = cls.attributes.get(name) or kind
        self.parameters = {p for f in self.all_functions() for p in f.parameters}
        self.parameters |= {f for cls in self.all_classes for f in cls.fields}
        self.words = self._all_words()

    def _read(self, module: Module, tree: ast.Module) -> None:
        self.modules[module.name] = module
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    module.names.setdefault(alias.asname or alias.name, f"from {node.module}")
            elif isinstance(node, ast.Call):
                module.calls[ast.unparse(node.func)].append(node)
            elif isinstance(node, ast.Constant) and re.fullmatch(r"\.[a-z]+", str(node.value)):
                self.suffixes.add(node.value)
            elif isinstance(node, ast.Dict):
                self.keys |= {k.value for k in node.keys if _is_identifier(k)}
                self.key_patterns += [_pattern(k) for k in node.keys if _is_formatted(k)]
            elif isinstance(node, ast.Subscript) and ast.unparse(node.value) == "Literal":
                self.keys |= {k.value for k in ast.walk(node.slice) if _is_identifier(k)}
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                module.names[node.name] = _class(node, module.name)
            elif isinstance(node, ast.FunctionDef):
                module.names[node.name] = _function(node, module.name)
            elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value:
                for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                    module.names[ast.unparse(target)] = ast.unparse(node.value)

    def _all_words(self) -> set[str]:
        words = set(self.keys)
        for name, module in self.modules.items():
            words |= set(name.split(".")) | {n for n, v in module.names.items() if not _foreign(v)}
        for cls in self.all_classes:
            words |= {*cls.methods, *cls.attributes, *cls.fields}
        return words | self.parameters

    def knows(self, word: str) -> bool:
        """Tell whether anything has this name."""
        return word in self.words or any(re.fullmatch(p, word) for p in self.key_patterns)

    def all_functions(self) -> Iterator[Function]:
        yield from chain.from_iterable(self.functions.values())
        for cls in self.all_classes:
            yield from cls.methods.values()

    def lineage(self, cls: str | Class) -> list[Class]:
        """Return a class, or all of a name, and those of its bases that are in the package."""
        if isinstance(cls, str):
            return [above for one in self.classes.get(cls, []) for above in self.lineage(one)]
        found = [cls]
        for base in cls.bases:
            known = self.modules[cls.module].names.get(base)
            above = self.follow(known, base) if known else None
            if isinstance(above, Class):
                found += [c for c in self.lineage(above) if c not in found]
        return found

    def subclasses(self, name: str) -> list[Class]:
        """Return the classes of a name, and all that are derived from them."""
        return [cls for cls in self.all_classes if any(c.name == name for c in self.lineage(cls))]

    def method(self, cls: str, name: str) -> Function | None:
        for above in self.lineage(cls):
            if name in above.methods:
                return above.methods[name]
        return None

    def has_member(self, cls: str, name: str) -> bool:
        """Tell whether a class or one of its subclasses has a member."""
        family = [above for c in self.subclasses(cls) for above in self.lineage(c)]
        return any(name in {*c.methods, *c.attributes, *c.fields} for c in family)

    def constructor(self, cls: str | Class) -> Function | None:
        """Return the signature of a class; None if it is inherited from elsewhere."""
        for above in self.lineage(cls):
            if "__init__" in above.methods:
                return above.methods["__init__"]
            if above.is_dataclass:
                fields: dict[str, str] = {}
                for base in reversed(self.lineage(cls)):
                    fields |= base.fields
                positional = 0 if above.is_learner else len(fields)
                return Function(above.name, above.module, fields, positional)
        return None

    def member_type(self, cls: str, name: str) -> str:
        """Return the class of an attribute, or of what a method returns; "" if not known."""
        method = self.method(cls, name)
        if method:
            kind = method.returns
        else:
            kind = next((c.attributes[name] for c in self.lineage(cls) if name in c.attributes), "")
        return cls if kind == "Self" else kind if kind in self.classes else ""

    def find(self, dotted: str) -> Function | Class | Module | str | None:
        """Find a name by its path, with or without "nearfar." and the packages above a module."""
        for name, module in self.modules.items():
            if f".{name}".endswith(f".{dotted}"):
                return module
        path, _, last = dotted.rpartition(".")
        for name, module in self.modules.items():
            if path and f".{name}".endswith(f".{path}") and last in module.names:
                return self.follow(module.names[last], last)
        return None

    def follow(self, value: Function | Class | str, name: str) -> Function | Class | Module | str:
        """Return what an imported name is; others as they are."""
        while isinstance(value, str) and value.startswith("from nearfar"):
            source = value.removeprefix("from ")
            if f"{source}.{name}" in self.modules:
                return self.modules[f"{source}.{name}"]
            value = self.modules[source].names[name]
        return value


def _is_identifier(node: ast.AST | None) -> bool:
    constant = isinstance(node, ast.Constant) and isinstance(node.value, str)
    return constant and bool(re.fullmatch(r"\w+", node.value))


def _is_formatted(node: ast.AST | None) -> bool:
    """Tell whether a node is a formatted string with enough fixed letters to be recognised."""
    if not isinstance(node, ast.JoinedStr):
        return False
    return sum(len(v.value) for v in node.values if isinstance(v, ast.Constant)) >= _FIXED_LETTERS


def _pattern(node: ast.JoinedStr) -> str:
    return "".join(
        re.escape(v.value) if isinstance(v, ast.Constant) else r"\w+" for v in node.values
    )


def _foreign(value: Function | Class | str) -> bool:
    return isinstance(value, str) and value.startswith("from ") and "nearfar" not in value


def _function(node: ast.FunctionDef, module: str) -> Function:
    args = node.args
    plain = [*args.posonlyargs, *args.args]
    defaults = [REQUIRED] * (len(plain) - len(args.defaults)) + list(map(_source, args.defaults))
    parameters = {a.arg: d for a, d in zip(plain, defaults, strict=True)}
    parameters |= {
        a.arg: _source(d) if d else REQUIRED
        for a, d in zip(args.kwonlyargs, args.kw_defaults, strict=True)
    }
    bound = bool(parameters) and next(iter(parameters)) in ("self", "cls")
    if bound:
        del parameters[next(iter(parameters))]
    decorators = {ast.unparse(d) for d in node.decorator_list}
    return Function(
        node.name,
        module,
        parameters,
        None if args.vararg else len(plain) - bound,
        args.kwarg is not None,
        _source(node.returns).strip("'") if node.returns else "",
        ast.get_docstring(node) or "",
        bool(decorators & {"property", "cached_property"}),
    )


def _class(node: ast.ClassDef, module: str) -> Class:
    cls = Class(node.name, module, [ast.unparse(b).partition("[")[0] for b in node.bases])
    cls.doc = ast.get_docstring(node) or ""
    decorators = [ast.unparse(decorator) for decorator in node.decorator_list]
    cls.is_learner = "learner" in decorators
    cls.is_dataclass = cls.is_learner or any("dataclass" in name for name in decorators)
    for item in node.body:
        if isinstance(item, ast.FunctionDef):
            cls.methods[item.name] = _function(item, module)
        elif isinstance(item, ast.AnnAssign):
            name, kind = ast.unparse(item.target), ast.unparse(item.annotation)
            cls.attributes[name] = kind
            if not kind.startswith("ClassVar"):
                cls.fields[name] = _source(item.value) if item.value else REQUIRED
        elif isinstance(item, ast.Assign):
            cls.attributes |= {ast.unparse(target): "" for target in item.targets}
    for inner in ast.walk(node):
        stored = isinstance(inner, ast.Attribute) and isinstance(inner.ctx, ast.Store)
        if stored and ast.unparse(inner.value) == "self":
            cls.attributes.setdefault(inner.attr, "")
    return cls


def _source(node: ast.expr) -> str:
    return ast.unparse(node)
