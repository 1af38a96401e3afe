"""In the rooms of the mathematics, a test with a loose bound is marked as smoke.

A bound is loose if it is a decimal number from 0.01 to 1 in an inequality, or such a tolerance. A
bound that follows from something is written as what it follows from.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
ROOMS = ("learners", "losses", "numerics", "constraints", "metrics")
FILES = [path for room in ROOMS for path in sorted((TESTS / room).rglob("test_*.py"))]
TOLERANCES = {"abs", "rel", "rtol", "atol"}
COMPARED = ("approx", "assert_allclose", "allclose")


def loose_bounds(function):
    """Return the numbers of the lines of a function that have one."""
    nodes = list(ast.walk(function))
    compared = [
        part
        for node in nodes
        if isinstance(node, ast.Assert)
        for part in ast.walk(node.test)
        if isinstance(part, ast.Compare)
    ]
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    return sorted(node.lineno for node in compared + calls if any(map(is_loose, bounds(node))))


def bounds(node):
    """Return what the values of an inequality, or the tolerances of a comparison, consist of."""
    if isinstance(node, ast.Compare):
        unequal = any(isinstance(op, ast.Lt | ast.LtE | ast.Gt | ast.GtE) for op in node.ops)
        return [node.left, *node.comparators] if unequal else []
    if not ast.unparse(node.func).endswith(COMPARED):
        return []
    values = [keyword.value for keyword in node.keywords if keyword.arg in TOLERANCES]
    return [part for value in values for part in ast.walk(value)]


def is_loose(node):
    value = node.value if isinstance(node, ast.Constant) else None
    return isinstance(value, float) and 0.01 <= value < 1


def unmarked(tree, marked=False):
    """Return the tests with a loose bound and without the mark."""
    found = []
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            smoke = marked or any("smoke" in ast.unparse(each) for each in node.decorator_list)
            if isinstance(node, ast.ClassDef):
                found += unmarked(node, smoke)
            elif node.name.startswith("test") and not smoke:
                found += [(node.name, line) for line in loose_bounds(node)]
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_loose_bounds_are_marked(path):
    assert unmarked(ast.parse(path.read_text())) == []


@pytest.mark.parametrize(
    ("line", "number"),
    [
        ("assert score > 0.9", 1),
        ("assert 0.5 < score <= 1.0", 1),
        ("assert ((scores > 0.5) & (scores <= 1.0)).all()", 1),
        ("assert error == pytest.approx(expected, abs=0.02 * size)", 1),
        ("np.testing.assert_allclose(found, expected, rtol=1e-2)", 1),
        ("assert gap < 1e-3", 0),
        ("assert low < 1 / 2 < high", 0),
        ("learner = NCA(tol=0.1)", 0),
    ],
)
def test_what_is_loose(line, number):
    for mark, expected in (("", number), ("@pytest.mark.smoke\n", 0)):
        assert len(unmarked(ast.parse(f"{mark}def test():\n    {line}"))) == expected
