"""Commands killed at a random moment: files are complete, or as they were."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import numpy as np
import polars as pl
import pytest

from fuzz.inputs import N_CASES
from nearfar import Metric

KILLED = """
import os, signal, sys, threading
from nearfar.cli.app import app
pause = float(sys.argv[1])
threading.Timer(pause, os.kill, (os.getpid(), signal.SIGKILL)).start()
app(sys.argv[2:])
"""


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20_000, 8))
    frame = pl.DataFrame(X, schema=[f"x{i}" for i in range(8)])
    frame.with_columns(label=pl.Series((X[:, 0] > 0).astype(int))).write_csv(tmp_path / "t.csv")
    frame.write_csv(tmp_path / "rows.csv")
    return tmp_path / "t.csv"


def killed(folder, pause, *arguments):
    """Run a command that is killed after a pause, unless it ends before."""
    process = subprocess.run(
        [sys.executable, "-c", KILLED, str(pause), *arguments],
        cwd=folder,
        env=os.environ | {"COLUMNS": "100"},
        capture_output=True,
        check=False,
    )
    assert process.returncode in (0, -signal.SIGKILL), process.stderr.decode()
    return process.returncode == 0


@pytest.mark.slow
def test_killed(table):
    rng = np.random.default_rng(N_CASES)
    learn = ("learn", "t.csv", "--label", "label", "--method", "rca", "--no-comparison")
    old = Metric(np.eye(8), [f"x{i}" for i in range(8)])
    metric_file, mapped = table.with_name("m.safetensors"), table.with_name("mapped.csv")
    for _ in range(max(4, N_CASES // 20)):
        old.save(metric_file)
        before = metric_file.read_bytes()
        killed(table.parent, rng.uniform(0, 3), *learn, "--out", "m.safetensors")
        assert metric_file.read_bytes() == before or Metric.load(metric_file).n_features == 8
        mapped.unlink(missing_ok=True)
        killed(
            table.parent,
            rng.uniform(0, 1),
            "transform",
            "m.safetensors",
            "rows.csv",
            "mapped.csv",
        )
        assert not mapped.exists() or len(pl.read_csv(mapped)) == 20_000
