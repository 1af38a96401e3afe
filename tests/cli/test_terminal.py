"""Streams, signals and progress, in processes of their own."""

from __future__ import annotations

import io
import os
import pty
import re
import signal
import subprocess
import sys

import numpy as np
import pytest

from nearfar import Metric
from nearfar.runtime.messages import counted
from nearfar.runtime.progress import Lines

from .conftest import LABELS

NEARFAR = [sys.executable, "-m", "nearfar.cli"]
COMPARE = [*NEARFAR, "compare", "iris.csv", *LABELS, "--method", "lda", "--folds", "2"]


def test_counted():
    assert [counted(n, "row") for n in (0, 1, 2)] == ["0 rows", "1 row", "2 rows"]


@pytest.mark.slow
def test_a_closed_pipe_is_no_error(folder):
    command = f"{' '.join(NEARFAR)} show metric.safetensors | head -n 1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_a_closed_pipe_does_not_cost_the_metric(folder):
    command = f"{' '.join(NEARFAR)} learn iris --method lda --write --out kept | true"
    subprocess.run(["bash", "-c", command], check=True)
    assert Metric.load(folder / "kept").n_features == 4


@pytest.mark.slow
@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_terminal_without_unicode(folder, options):
    plain = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run([*COMPARE, *options], capture_output=True, env=plain, check=True)
    assert b"Euclidean (standardised)" in done.stdout
    assert done.stderr == b""


@pytest.mark.slow
@pytest.mark.parametrize(("how", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_fit_leaves_the_old_metric(folder, how, code):
    rng = np.random.default_rng(0)
    np.savez("hard.npz", X=rng.normal(size=(4000, 30)), y=rng.integers(3, size=4000))
    before = (folder / "metric.safetensors").read_bytes()
    endless = ["--method", "nca", "--max-iter", "1000000", "--set", "tol=0", "--budget", "1h"]
    command = [*NEARFAR, "learn", "hard.npz", *endless, "--out", "metric.safetensors"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert "Progress" in process.stderr.readline()
    process.send_signal(how)
    messages = process.communicate()[1]
    assert process.returncode == code
    assert ("nearfar: interrupted." in messages) == (how == signal.SIGINT)
    assert (folder / "metric.safetensors").read_bytes() == before
    assert not [name for name in os.listdir(folder) if name.startswith(".")]


@pytest.mark.slow
def test_progress_on_a_terminal(folder):
    main, other = pty.openpty()
    process = subprocess.Popen(
        [*COMPARE, "--method", "nca", "--method", "metricboost", "--folds", "20"],
        stdout=subprocess.DEVNULL,
        stderr=other,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100"},
    )
    os.close(other)
    seen = b""
    try:
        while part := os.read(main, 4096):
            seen += part
    except OSError:
        pass  # The other end is closed.
    assert process.wait() == 0
    # Fits of a fold may be over between two looks, but the whole is not.
    assert re.search(rb" of [1-9]\d\d", seen)
    assert b"fold" in seen


def test_progress_without_a_terminal_is_a_line_every_ten_seconds():
    now, written = [0.0], io.StringIO()
    lines = Lines(written, clock=lambda: now[0])
    for second in range(30):
        now[0] = float(second)
        lines.update(second, 30, f"step {second}")
        lines.look()
    left = {2: "28 s", 12: "18 s", 22: "8 s"}
    assert written.getvalue().splitlines() == [
        f"Progress: step {second}, {second} of 30 done, about {left[second]} left"
        for second in (2, 12, 22)
    ]


def test_quick_commands_print_no_progress():
    written = io.StringIO()
    lines = Lines(written, clock=lambda: 0.0)
    lines.update(0, 1, "a step")
    lines.look()
    assert written.getvalue() == ""
