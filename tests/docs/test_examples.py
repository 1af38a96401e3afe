"""The gallery: every example is short, has a picture, and runs without a network."""

from __future__ import annotations

import ast
import os
import subprocess
import sys

import pytest

from docs.pages import ROOT

EXAMPLES = sorted(ROOT.glob("examples/*/plot_*.py"))
every_example = pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
BLOCKED = """
import socket, sys, runpy, warnings
local = socket.socket.connect
def connect(self, address):
    host = address[0] if isinstance(address, tuple) else "127.0.0.1"
    if not str(host).startswith(("127.", "::1", "localhost")):
        raise OSError(f"no network here: {host}")
    return local(self, address)
socket.socket.connect = connect
import matplotlib
matplotlib.use("agg")
runpy.run_path(sys.argv[1], run_name="__main__")
import matplotlib.pyplot as plt
sys.exit(0 if plt.get_fignums() else "no picture")
"""


def test_there_are_enough():
    assert len(EXAMPLES) >= 20


@every_example
def test_it_is_short_and_explained(path):
    text = path.read_text()
    assert len(text.splitlines()) <= 60
    title, line, *more = ast.get_docstring(ast.parse(text)).splitlines()
    assert line == "=" * len(title)
    assert any(more)
    assert "NEARFAR_DATA" not in text


@pytest.mark.slow
@every_example
def test_it_runs(path, tmp_path):
    keep = {k: v for k, v in os.environ.items() if k != "NEARFAR_DATA"}
    done = subprocess.run(
        [sys.executable, "-c", BLOCKED, path],
        cwd=tmp_path,
        env=keep,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
