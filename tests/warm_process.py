"""Processes that have imported what nearfar needs: a new interpreter takes two seconds to do so."""

from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
from pathlib import Path

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(
    [
        "matplotlib.figure",
        "polars",
        "pyarrow.parquet",
        "rich.progress",
        "scipy.optimize",
        "scipy.sparse.csgraph",
        "scipy.sparse.linalg",
        "scipy.stats",
        "sklearn.decomposition",
        "sklearn.discriminant_analysis",
        "sklearn.ensemble",
        "sklearn.linear_model",
        "sklearn.model_selection",
        "sklearn.neighbors",
        "click",
    ]
)


def run(words: list[str], folder: Path, environment: dict[str, str]) -> tuple[int, str]:
    """Run ``nearfar ...`` or ``python -c CODE``; return its exit code and what it prints."""
    with tempfile.NamedTemporaryFile() as output:
        process = _CONTEXT.Process(target=_work, args=(words, folder, environment, output.name))
        process.start()
        process.join()
        return process.exitcode, Path(output.name).read_text(encoding="utf-8")


def _work(words: list[str], folder: Path, environment: dict[str, str], output: str) -> None:
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    written = os.open(output, os.O_WRONLY | os.O_APPEND)
    for number in (1, 2):
        os.dup2(written, number)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", 1, encoding="utf-8", closefd=False)
    sys.argv = words
    if words[0] == "nearfar":
        from nearfar.cli import main

        main()
    else:
        sys.path.insert(0, "")
        exec(compile(words[2], "<string>", "exec"), {"__name__": "__main__"})
