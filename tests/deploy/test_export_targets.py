"""A new export target is one new file: the command line finds it, with its options."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from nearfar import Metric
from nearfar.deploy.formats import export_targets

TOY = """
import json
from nearfar.deploy.formats import ExportTarget

def _write(metric, path, *, X=None, title: str = "plain"):
    '''Write a toy.

    Parameters
    ----------
    title : str
        For toy: its title.
    '''
    rows = None if X is None else X.tolist()
    path.write_text(json.dumps({"L": metric.L.tolist(), "X": rows, "title": title}))
    return "Toy"

TARGET = ExportTarget(
    "toy", "a toy", _write, (".toy",), True
)
"""

WITH_THE_FILE = """
import sys
from nearfar.deploy import formats
formats.__path__.append(sys.argv.pop(1))
from nearfar.command import app
app()
"""


@pytest.fixture
def run(tmp_path):
    (tmp_path / "formats").mkdir()
    (tmp_path / "formats" / "toy.py").write_text(TOY)
    Metric([[1.0, 2.0]], ["a", "b"]).save(tmp_path / "m")
    (tmp_path / "rows.csv").write_text("a,b\n3,4\n5,6\n")

    def run(*arguments):
        command = [sys.executable, "-c", WITH_THE_FILE, "formats", "export", *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    return run


@pytest.mark.slow
def test_a_target_is_one_file(run, tmp_path):
    help_text = run("--help").stdout
    assert "toy: a toy" in help_text
    assert "For toy: its title." in help_text
    result = run("m", "--to", "toy", "--out", "m.toy", "--title", "named", "--rows", "rows.csv")
    assert result.stdout.startswith("Toy, 2 features"), result.stderr
    written = json.loads((tmp_path / "m.toy").read_text())
    assert written == {"L": [[1.0, 2.0]], "X": [[3.0, 4.0], [5.0, 6.0]], "title": "named"}
    document = json.loads(run("m", "--to", "toy", "--out", "m.toy", "--json").stdout)
    assert document == {"written": "m.toy", "to": "toy", "rows": 0}
    assert json.loads((tmp_path / "m.toy").read_text())["title"] == "plain"
    assert "use .toy" in run("m", "--to", "toy", "--out", "m.txt").stderr
    refused = run("m", "--to", "onnx", "--out", "m.onnx", "--rows", "rows.csv")
    assert "--rows is for --to faiss or toy" in refused.stderr


def test_names_of_options_are_unique():
    names = [name for target in export_targets().values() for name in target.options]
    assert len(names) == len(set(names))
