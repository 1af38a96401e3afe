"""Defaults that pages and docstrings state."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any

from docs.names import parse_span
from docs.package import REQUIRED, Class, Function, Package, numpydoc
from docs.pages import Page, code_in

_DEFAULT = re.compile(r"\bdefault\b")
_TURN = re.compile(r"\b(?:with|gets?|instead|than|not|but|and)\b")
"""Words after which a sentence no longer speaks of the default."""
_FARTHEST = 60
"""Characters between "default" and a value that it can refer to."""
_NAME_AND_VALUE = [
    re.compile(r"default `(\w+)` (?:is|of) `?(\"\w+\"|[\w.-]*\w)"),
    re.compile(r"`(\w+)` \((?:by default|default:?) `?([^`),;]+)`?"),
    re.compile(r"`(\w+)` \(`?([^`)]+?)`? by default\)"),
]


def wrong_defaults(page: Page, package: Package) -> Iterator[str]:
    """Find sentences that call a value the default of a parameter, where it is not."""
    for sentence in page.sentences:
        for owner, parameter, stated in _stated_defaults(sentence.text):
            named = [re.match(r"\w*", code)[0] for code in code_in(sentence.text)]
            groups = [[owner], named, sentence.heading.split(", "), [page.title]]
            defaults = _defaults_of(parameter, groups, package)
            values = [_value(_parse(d), f.module, package) for f, d in defaults]
            if _value(stated, "nearfar", package) not in values:
                found = sorted({f"{d} ({f.module})" for f, d in defaults})
                yield (
                    f"{page.name}:{sentence.line}: {parameter}={ast.unparse(stated)} is not the "
                    f"default, which is {', '.join(found) or 'not known'}"
                )


def _stated_defaults(sentence: str) -> Iterator[tuple[str, str, ast.expr]]:
    """Yield what a sentence calls a default: a class or "", a parameter, and its value."""
    for pattern in _NAME_AND_VALUE:
        for name, text in pattern.findall(sentence):
            if (value := _parse(text)) is not None:
                yield "", name, value
    for word in _DEFAULT.finditer(sentence):
        for code in re.finditer(r"`([^`]+)`", sentence):
            first, last = sorted([word.span(), code.span()])
            between = sentence[first[1] : last[0]]
            if len(between) > _FARTHEST or _TURN.search(between):
                continue
            call = parse_span(code[1])
            if isinstance(call, ast.Call):
                for keyword in call.keywords:
                    if keyword.arg:
                        yield ast.unparse(call.func), keyword.arg, keyword.value


def _defaults_of(
    parameter: str, groups: list[list[str]], package: Package
) -> list[tuple[Function, str]]:
    """Return defaults of a parameter in the first group of classes that has it, or anywhere."""
    for group in groups:
        made = [package.constructor(name) for name in group]
        found = [(f, f.parameters[parameter]) for f in made if f and parameter in f.parameters]
        if found:
            return found
    made = [package.constructor(cls) for cls in package.all_classes if cls.is_dataclass]
    anywhere = [*package.all_functions(), *(f for f in made if f)]
    found = [(f, f.parameters[parameter]) for f in anywhere if parameter in f.parameters]
    return [(f, default) for f, default in found if default != REQUIRED]


def _parse(text: str) -> ast.expr | None:
    try:
        return ast.parse(text, mode="eval").body
    except SyntaxError:
        return None


def _value(node: ast.expr | None, module: str, package: Package) -> Any:
    """Return a value of constants, or else the source; a constant of the module as its value."""
    text = "" if node is None else ast.unparse(node)
    known = package.modules[module].names.get(text)
    if isinstance(known, str) and not known.startswith("from "):
        return _value(_parse(known), module, package)
    if known is not None and str(known).startswith("from nearfar"):
        home = known.removeprefix("from ")
        return _value(node, home, package) if home in package.modules else text
    try:
        value = eval(text, {"__builtins__": {}})
    except (NameError, SyntaxError, TypeError):
        return text
    return (isinstance(value, bool), value)


def _filled(call: ast.Call, package: Package) -> dict[str, str]:
    """Return the arguments of a call of a class, with the defaults of those that it leaves out."""
    made = package.constructor(ast.unparse(call.func))
    parameters = dict(made.parameters) if made else {}
    given = dict(zip(parameters, map(ast.unparse, call.args), strict=False))
    given |= {k.arg: ast.unparse(k.value) for k in call.keywords if k.arg}
    return parameters | {k: v.replace("len(data.Z)", "n_samples") for k, v in given.items()}


def wrong_docstrings(package: Package) -> Iterator[str]:
    """Find docstrings with parameters or defaults that the signatures do not have."""
    for module in package.modules.values():
        for name, value in module.names.items():
            path = f"{module.name}.{name}"
            if isinstance(value, Function):
                yield from _entry_problems(path, value, value.doc, package)
            elif isinstance(value, Class):
                made = package.constructor(value)
                if made is not None:
                    yield from _entry_problems(path, made, value.doc, package)
                for method in value.methods.values():
                    yield from _entry_problems(f"{path}.{method.name}", method, method.doc, package)


def _entry_problems(path: str, function: Function, doc: str, package: Package) -> Iterator[str]:
    for name, kind in numpydoc(doc, "Parameters"):
        if name not in function.parameters:
            if not function.any_keyword and function.positional is not None:
                yield f"{path}: no parameter {name}"
            continue
        actual = function.parameters[name]
        if kind.endswith("optional") and actual == REQUIRED:
            yield f"{path}: {name} is not optional"
        stated = kind.partition("default=")[2]
        if stated and not _stands_for(stated, actual, path, function.module, package):
            yield f"{path}: the default of {name} is {actual}, not {stated}"


def _stands_for(stated: str, actual: str, path: str, module: str, package: Package) -> bool:
    """Tell whether a stated default is the one of a signature, or what None stands for there."""
    expression = _parse(stated)
    if expression is None:
        return False
    if _value(expression, module, package) == _value(ast.parse(actual).body[0], module, package):
        return True
    if actual != "None" or not isinstance(expression, ast.Call):
        return False
    homes = {cls.module for cls in package.lineage(path.rpartition(".")[2])} | {module}
    made = [c for home in homes for c in package.modules[home].calls[ast.unparse(expression.func)]]
    return _filled(expression, package) in [_filled(call, package) for call in made]
