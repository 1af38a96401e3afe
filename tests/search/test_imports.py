"""Searches need no learner, and no reader of tables."""

from __future__ import annotations

import subprocess
import sys

MOST_MODULES = 60


def test_importing_searches_loads_few_modules() -> None:
    code = (
        "import sys, nearfar.search; print(*[m for m in sys.modules if m.startswith('nearfar.')])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    modules = found.stdout.split()
    assert len(modules) <= MOST_MODULES, sorted(modules)
    rooms = {module.split(".")[1] for module in modules}
    assert not rooms & {"learners", "losses", "comparison", "neighbors", "frames", "tables"}
