"""Commands that get a signal at a random moment: files are complete, or as they were.

A file that a command writes has the bytes that it has after a whole run, or those that it had
before. Nothing else is left in the folder but checkpoints, from which the command continues.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from fuzz import command_server
from fuzz.inputs import N_CASES
from nearfar import Metric
from nearfar.search import write_qrels
from search.adapters import noisy_searches

N_KILLS = max(12, N_CASES // 5)
LABEL = ("--label", "label", "--seed", "0")
COMMANDS = {
    "learn": ("learn", "t.csv", *LABEL, "--method", "boost", "--write", "--out", "learned"),
    "report": ("report", "t.csv", *LABEL, "--method", "lda", "--out", "page.html"),
    "adapt": ("adapt", "q.npz", "d.npz", "--qrels", "qrels.txt", "--out", "ad"),
    "compare": ("compare", "t.csv", *LABEL, "--folds", "2", "--method", "nca", "--method", "lda"),
    "transform": ("transform", "m.safetensors", "rows.csv.gz", "mapped.csv"),
    "to Parquet": ("transform", "m.safetensors", "rows.csv", "mapped.parquet"),
}
KEPT = {"compare"}
"""Commands that have a checkpoint."""
WRITTEN = {
    "learn": ["learned"],
    "report": ["page.html"],
    "adapt": ["ad"],
    "transform": ["mapped.csv"],
    "to Parquet": ["mapped.parquet"],
}
CHECKPOINTS = {"kept"}


@dataclass
class Commands:
    """Runs commands in a folder."""

    folder: Path
    process: subprocess.Popen = field(init=False)

    def __post_init__(self):
        server = [sys.executable, command_server.__file__]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen(server, env=os.environ | {"COLUMNS": "100"}, **pipes)

    def __call__(self, *arguments, number=0, pause=None):
        request = {"arguments": arguments, "folder": str(self.folder)}
        request |= {"number": int(number), "pause": pause}
        print(json.dumps(request), file=self.process.stdin, flush=True)
        return json.loads(self.process.stdout.readline())

    def names(self):
        return set(os.listdir(self.folder))

    def contents(self, command):
        paths = [self.folder / name for name in WRITTEN.get(command, [])]
        return [path.read_bytes() if path.exists() else None for path in paths]


@pytest.fixture
def commands(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((3_000, 8))
    frame = pl.DataFrame(X, schema=[f"x{i}" for i in range(8)])
    y = pl.Series((X[:, 0] + 0.5 * rng.standard_normal(len(X)) > 0).astype(int))
    frame.with_columns(label=y)[:150].write_csv(tmp_path / "t.csv")
    frame.write_csv(tmp_path / "rows.csv")
    frame.write_csv(tmp_path / "rows.csv.gz", compression="gzip")
    Metric(np.eye(8), frame.columns).save(tmp_path / "m.safetensors")
    Q, D, relevance, _ = noisy_searches(80)
    ids = [f"d{row}" for row in range(len(D))]
    np.savez(tmp_path / "q.npz", Q=Q)
    np.savez(tmp_path / "d.npz", X=D, doc_id=ids)
    write_qrels(tmp_path / "qrels.txt", relevance, document_ids=ids)
    run = Commands(tmp_path)
    yield run
    run.process.communicate()


def is_complete(name, found, whole):
    """Tell whether a file is as after a whole run; a page has times in it."""
    if name.endswith(".html") and found is not None:
        return found.lower().startswith(b"<!doctype html>") and found.rstrip().endswith(b"</html>")
    return found == whole


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_signals(commands, command):
    rng = np.random.default_rng(N_CASES)
    arguments = (*COMMANDS[command], *(("--checkpoint", "kept") if command in KEPT else ()))
    whole = commands(*arguments)
    assert whole["code"] in (0, 3, 4), whole["text"]
    written = commands.contents(command)
    known = commands.names()
    codes, continued = [], 0
    for kill in range(-(-N_KILLS // len(COMMANDS))):
        if kill % 2:
            for name in WRITTEN.get(command, []):
                (commands.folder / name).unlink(missing_ok=True)
        before = commands.contents(command)
        number = (signal.SIGKILL, signal.SIGKILL, signal.SIGINT, signal.SIGTERM)[kill % 4]
        pause = rng.uniform(0, 1.2 * whole["seconds"])
        found = commands(*arguments, number=number, pause=pause)
        codes.append(found["code"])
        assert found["code"] in (-9, 0, 3, 4, 130, 143), found
        assert "Traceback" not in found["text"], found
        names = zip(WRITTEN.get(command, []), commands.contents(command), strict=True)
        for (name, now), old, new in zip(names, before, written, strict=True):
            assert now == old or is_complete(name, now, new), (name, found)
        assert commands.names() <= known | CHECKPOINTS, (commands.names() - known, found)
        if commands.names() & CHECKPOINTS:
            continued += 1
            again = commands(*arguments)
            assert again["code"] in (0, 3, 4), again
            assert not commands.names() & CHECKPOINTS
            for path in (commands.folder / name for name in WRITTEN.get(command, [])):
                if path.suffix != ".html":
                    assert np.isfinite(Metric.load(path).matrix).all()
    print(f"{command}: {codes}, {continued} continued")
