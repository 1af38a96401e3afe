"""`nearfar.learn`: the workflow without the command line."""

from __future__ import annotations

import json

import numpy as np
import pytest

import nearfar
from nearfar import LMNN, Metric, Pairs
from nearfar.metrics.file_format import read_metadata
from nearfar.runtime.tensor_file import Provenance

LDA = {"methods": "lda", "cv": 2}


@pytest.fixture(scope="module")
def ranked():
    return nearfar.learn("iris", goal="ranking", **LDA)


def test_what_was_learned(ranked, iris):
    assert ranked.verdict is ranked.comparison.ranking.verdict
    assert ranked.verdict.recommended == "LDA"
    expected = next(m for m in ranked.comparison.values() if m.name == "LDA").method.learn(*iris)
    np.testing.assert_array_equal(ranked.metric.L, expected.L)
    assert repr(ranked) == "<Learned: LDA from 150 rows>"


def test_it_prints_what_the_terminal_prints(ranked, run, tmp_path):
    ranked.save(tmp_path / "iris.safetensors")
    run("learn", "iris", "--method", "lda", "--folds", 2, "--goal", "ranking")
    text = str(ranked)
    assert text.startswith(str(ranked.comparison))
    assert text.splitlines()[-1] == f"Next: nearfar show {tmp_path / 'iris.safetensors'}"
    assert "LDA, as asked with methods." in text
    for part in ("iris: 150 rows x 4 features, 3 classes", "Learned from all rows", "<table"):
        assert part in ranked._repr_html_()


def test_save_and_report(ranked, tmp_path):
    ranked.report(tmp_path / "iris.html", tmp_path / "mine.safetensors", title="Flowers")
    page = (tmp_path / "iris.html").read_text()
    assert "<h1>Flowers</h1>" in page
    assert "mine.safetensors" in page
    np.testing.assert_array_equal(Metric.load(tmp_path / "mine.safetensors").L, ranked.metric.L)
    assert json.loads(json.dumps(ranked.to_dict()))["metric"] == str(tmp_path / "mine.safetensors")


def test_a_table_with_its_notes(folder):
    (folder / "messy.csv").write_text(
        "size,colour,kind\n" + "".join(f"{i % 7},{'ab'[i % 2]},{'xy'[i % 2]}\n" for i in range(60))
    )
    learned = nearfar.learn("messy.csv", label="kind", **LDA)
    assert any("leak" in note.text for note in learned.notes)
    assert learned.metric.columns is not None
    learned.save("messy.safetensors")
    assert "NEW.csv --label kind" in str(learned)


def test_arrays_and_an_estimator(iris):
    X, y = iris
    learned = nearfar.learn(X, label=y, methods=LMNN(max_iter=3), cv=2, group=np.arange(150) % 10)
    assert learned.fit.method.name == "LMNN"
    assert learned.comparison.n_groups == 10
    pairs = Pairs([[i, i + 1] for i in range(0, 148, 2)], np.arange(74) % 2 == 0)
    learned = nearfar.learn(X, pairs=pairs, methods="rca", comparison=False)
    assert learned.verdict is None
    assert "Learned from all rows" in str(learned)


def test_several_methods_to_choose_from(iris):
    learned = nearfar.learn("iris", methods=["rca", "nca"], cv=2, budget=None, goal="ranking")
    assert {"RCA", "NCA"} < set(learned.comparison)
    assert not learned.choice.named
    assert learned.fit.method.name == learned.verdict.recommended


def test_numbers(iris):
    X, _ = iris
    learned = nearfar.learn(X[:, :3], label=X[:, 3], methods="mlkr", cv=2)
    assert learned.compared_goal == "regression"
    assert learned.comparison["MLKR"].loss("r2") < 0.1
    assert "For regression, " in str(learned)


def test_progress(iris):
    calls = []
    nearfar.learn("iris", **LDA, classifiers=False, progress=lambda *call: calls.append(call))
    assert calls[-1] == (0, 1, "LDA on all rows")
    assert len(calls) > 3


def test_nothing_to_recommend(tmp_path):
    X, y = np.random.default_rng(0).normal(size=(90, 4)), np.arange(90) % 5 == 0
    learned = nearfar.learn(X, label=y, **{**LDA, "methods": None})
    assert learned.metric is None
    assert learned.verdict.category == "no better than a guess"
    assert "Nothing was written" in str(learned)
    with pytest.raises(ValueError, match="Nothing was written"):
        learned.save(tmp_path / "nothing")
    learned.report(tmp_path / "page.html")
    assert "Nothing is recommended" in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"goal": "magic"}, "goal must be"),
        ({"methods": "magic"}, "no method 'magic'"),
        ({"methods": "best", "comparison": False}, "leave out comparison=False"),
        ({"strict": True, "comparison": False}, "strict=True needs the comparison"),
        ({"cv": 1}, "cv must be"),
        ({"label": "x"}, "for files"),
    ],
)
def test_mistakes(parameters, message):
    with pytest.raises(ValueError, match=message):
        nearfar.learn("iris", **parameters)


def test_what_a_file_states_of_a_sample(tmp_path):
    X, y = np.random.default_rng(0).normal(size=(90, 2)), np.arange(90) % 2
    learned = nearfar.learn(X, label=y, methods="lda", cv=2)
    learned.comparison.sample, learned.n_fitted = np.arange(80), 85
    learned.save(tmp_path / "metric")
    said = Provenance.read(read_metadata(tmp_path / "metric")).verdict
    assert said.endswith("(LDA, 85 rows; measured on 80 rows)")
