"""A folder for the hub: the file of the metric, and a card of what the file knows."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
import yaml
from sklearn.datasets import load_wine

from nearfar import Columns, Metric, learn, read_table
from nearfar.command import app

X, Y = load_wine(return_X_y=True)
NAMES = [f"part_{j}" for j in range(13)]


@pytest.fixture(scope="module")
def table():
    hue = np.where(X[:, 10] > 1, "pale", "deep")
    return pd.DataFrame(X, columns=NAMES).assign(hue=hue, kind=[f"class {k}" for k in Y])


@pytest.fixture(scope="module")
def file(table, tmp_path_factory):
    path = tmp_path_factory.mktemp("learned") / "wine.safetensors"
    learn(read_table(table, label="kind"), method="lda").save(path)
    return path


def sections(metric, folder, **options):
    """The front matter of a metric's card as YAML, and the text below each heading."""
    metric.to_hub(folder, **options)
    _, front, body = (folder / "README.md").read_text("utf-8").split("---\n", 2)
    parts = body.split("\n## ")
    return yaml.safe_load(front), dict(part.split("\n\n", 1) for part in parts[1:])


def test_the_card_states_what_the_file_knows(file, tmp_path):
    metric = Metric.load(file)
    front, found = sections(metric, tmp_path, license="cc-by-4.0")
    assert front == {
        "library_name": "nearfar",
        "license": "cc-by-4.0",
        "tags": ["metric-learning", "nearest-neighbors"],
    }
    made, votes = (json.loads(metric.metadata[key]) for key in ("provenance", "votes"))
    assert f"178 rows (fingerprint {made['fingerprint']})" in found["Learned from"]
    assert "Labels in column kind: 3 classes, of 48 to 71 rows each" in found["Learned from"]
    assert "always naming the largest errs in 60.1%" in found["Learned from"]
    assert f"{made['made']} by nearfar {made['nearfar']}" in found["Learned from"]
    assert f"Verdict: {made['verdict']}\n" in found["Learned from"]
    right, counted = (sum(votes[key]) for key in ("right", "counted"))
    assert f"right for {right:.0f} of {counted:.0f} held-out rows" in found["Learned from"]
    assert "- hue: category, 2 levels\n" in found["Input"]
    assert found["Input"].count("\n- ") == 13


@pytest.mark.parametrize("named", [False, True])
def test_the_code_of_the_card_runs(file, table, tmp_path, monkeypatch, named):
    metric = Metric.load(file) if named else Metric.identity(13)
    rows = table if named else table[NAMES]
    _, found = sections(metric, tmp_path)
    code = found["Use"].removeprefix("```python\n").split("```")[0]
    monkeypatch.chdir(tmp_path)
    names = {"rows": rows}
    exec(compile(code, "card", "exec"), names)
    np.testing.assert_array_equal(names["metric"].transform(rows), metric.transform(rows))


def test_what_is_not_known_is_not_stated(tmp_path):
    front, found = sections(Metric.identity(3), tmp_path)
    assert front == {"library_name": "nearfar", "tags": ["metric-learning", "nearest-neighbors"]}
    assert "does not say" in found["Learned from"]
    assert "No verdict: test" in found["Learned from"]
    assert found["Input"] == "- 3 numbers in each row\n"


def test_names_cannot_change_the_card(tmp_path):
    frame = pd.DataFrame({"a | b\n# c": [1.0, 2.5, 4.0, 9.0], "<b>": ["x", "y"] * 2})
    metric = Metric.identity(3).with_columns(Columns().fit(frame))
    front, found = sections(metric, tmp_path / "[a](b)", license='x"\ntags: []')
    assert front["license"] == 'x"\ntags: []'
    assert front["tags"]
    assert "- a \\| b \\# c: number\n" in found["Input"]
    assert "\\<b\\>" in found["Input"]
    assert "\n# \\[a\\](b)\n" in (tmp_path / "[a](b)" / "README.md").read_text()


def test_a_loaded_metric_keeps_what_its_file_knows(file, tmp_path):
    metric = Metric.load(file)
    metric.save(tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == file.read_bytes()
    metric.save(tmp_path / "bare", metadata={})
    assert Metric.load(tmp_path / "bare").metadata == {}
    assert metric.named(None).metadata == {}
    assert Metric.identity(2).metadata == {}
    damaged = {**metric.metadata, "votes": "{}"}
    metric.save(tmp_path / "damaged", metadata=damaged)
    with pytest.raises(ValueError, match="The metric has a damaged entry 'votes'"):
        Metric.load(tmp_path / "damaged").to_hub(tmp_path)


def test_the_command(file, tmp_path, capsys):
    def export(*options):
        with pytest.raises(SystemExit) as exited:
            app(["export", str(file), "--to", "hub", "--out", *options])
        return exited.value.code, capsys.readouterr()

    folder = tmp_path / "hub"
    for _ in range(2):
        code, printed = export(str(folder), "--license", "mit")
        assert code == 0
        assert printed.out.startswith("Metric and model card, 15 features to 2 coordinates")
        assert printed.err == ""
    assert 'license: "mit"' in (folder / "README.md").read_text()
    code, printed = export(str(folder / "README.md" / "below"))
    assert code == 2
    assert "There is no folder" in printed.err
