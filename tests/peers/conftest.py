"""What metric-learn learns: recorded, or anew where NEARFAR_METRIC_LEARN names its Python."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
collect_ignore = ["metric_learn_values.py"]  # needs metric-learn


@pytest.fixture(scope="session")
def run_metric_learn():
    """Return a function that runs code with metric-learn's Python, or None if there is none."""
    python = os.environ.get("NEARFAR_METRIC_LEARN")

    def run(*arguments: str) -> str:
        done = subprocess.run([python, *arguments], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run if python else None


@pytest.fixture(scope="session")
def values(run_metric_learn):
    if run_metric_learn is not None:
        return json.loads(run_metric_learn(str(FOLDER / "metric_learn_values.py")))
    return json.loads((FOLDER / "metric_learn_values.json").read_text())
