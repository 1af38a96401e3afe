"""`nearfar.learn`: a metric, and what it is worth on held-out rows."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.datasets import make_friedman1, make_moons
from sklearn.metrics import roc_auc_score

import nearfar
from nearfar import LDA, LMNN, Metric, MetricNeighborsClassifier, Pairs, RandomTriplets
from nearfar.frames.reading import read_table
from nearfar.metrics.file_format import read_metadata
from nearfar.metrics.training_facts import stored_statement
from nearfar.tables import held_out
from nearfar.tables import learn as learning
from nearfar.tables.methods import find_learner
from problems import noisy_copies


@pytest.fixture(scope="module")
def helpful():
    return nearfar.learn("iris", method="lda")


def noise(n=90, share=0.5, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 4)), (rng.random(n) < share).astype(int)


def loss(found, name, measure="error"):
    return next(r for r in found.held_out.results if r.name.startswith(name)).loss(measure)


class TestOutcomes:
    def test_helps(self, helpful):
        assert helpful.outcome == "helps"
        lines = str(helpful).splitlines()
        assert len(lines) <= 12
        names = ["learned (LDA)", "Euclidean", "largest class", "random forest", "gradient"]
        for name, line in zip(names, lines[2:7], strict=True):
            assert line.startswith(name)
        assert lines[7].startswith("LDA helps: error ")
        assert len(lines[7].split()) <= 25
        X, y = helpful.table.X, helpful.table.y
        np.testing.assert_allclose(helpful.metric.L, LDA().fit(X, y).metric_.L)
        assert all(text in helpful._repr_html_() for text in ("<table>", "LDA helps"))
        assert json.loads(json.dumps(helpful.to_dict()))["outcome"] == "helps"

    def test_no_clear_difference(self, metrics_alone, tmp_path):
        found = nearfar.learn("iris", method="euclidean-unscaled", out=tmp_path / "m")
        assert found.outcome == "no clear difference"
        assert "keep Euclidean distance on unscaled rows" in found.sentence
        assert len(found.sentence.split()) <= 25
        assert "Nothing was written; write" in str(found)
        assert (found.exit_code, found.path) == (3, None)
        assert not (tmp_path / "m").exists()
        found = nearfar.learn("iris", method="cosine", out=tmp_path / "m", write=True)
        assert found.exit_code == 0
        assert Metric.load(tmp_path / "m").unit_rows

    def test_no_better_than_a_guess_is_said_first(self, metrics_alone):
        X, y = noise()
        found = nearfar.learn(X, label=y, method="lda")
        assert found.outcome == "no better than a guess"
        assert "no better than naming the largest class" in str(found).splitlines()[1]
        X, sizes = np.random.default_rng(0).normal(size=(200, 4)), np.random.default_rng(2)
        y = sizes.normal(size=200)
        found = nearfar.learn(X, label=y, method="euclidean-unscaled")
        assert "no better than the mean" in str(found).splitlines()[1]

    def test_labels_at_random_are_seldom_called_learnable(self, metrics_alone):
        outcomes = [
            nearfar.learn(*noise(80, seed=s)[:1], label=noise(80, seed=s)[1], method="lda")
            for s in range(10)
        ]
        assert sum(each.outcome == "helps" for each in outcomes) <= 1


class TestHeldOutRows:
    def test_errors_are_those_of_classifiers_that_never_saw_the_rows(self, metrics_alone):
        found = nearfar.learn("wine", method="lda").held_out
        first, table = found.first, read_table("wine", required=True)
        X, y = table.X, table.y
        classifier = MetricNeighborsClassifier(LDA()).fit(X[first.train], y[first.train])
        np.testing.assert_array_equal(first.predicted[0], classifier.predict(X[first.test]))
        wrong = found.results[0].losses["error"][first.test]
        np.testing.assert_array_equal(wrong, first.predicted[0] != y[first.test])
        assert (found.n, found.n_splits) == (178, 4)

    def test_many_rows_have_one_split(self, metrics_alone):
        X, y = make_moons(900, noise=0.2, random_state=0)
        found = nearfar.learn(X, label=y, method="lda").held_out
        assert (found.n, found.n_splits) == (300, 1)

    def test_copies_and_groups_are_on_one_side(self, metrics_alone):
        X, y, groups = noisy_copies()
        plain, apart = (nearfar.learn(X, label=y, method="rca", group=g) for g in (None, groups))
        assert loss(plain, "RCA") < 0.05
        assert loss(apart, "RCA") > 0.35
        first = apart.held_out.first
        assert not {*groups[first.train]} & {*groups[first.test]}

    def test_rare_classes_have_an_area_under_the_curve(self):
        rng = np.random.default_rng(0)
        y = np.repeat([0, 1], [380, 20])
        X = rng.normal(size=(400, 3)) + 1.2 * y[:, None]
        found = nearfar.learn(X, label=y, method="lda")
        assert "AUC" in str(found).splitlines()[1]
        assert found.held_out.auc["LDA"] > 0.75
        assert found.outcome != "no better than a guess"
        assert "AUC" not in str(nearfar.learn("wine", method="lda"))

    def test_areas_are_those_of_scikit_learn(self):
        rng = np.random.default_rng(0)
        codes = rng.integers(3, size=60)
        found = held_out._Predictions(codes, 3)
        found.votes["any"] = rng.dirichlet(np.ones(3), size=60)
        found.split(np.arange(60))
        expected = roc_auc_score(codes, found.votes["any"], multi_class="ovr")
        assert found.auc["any"] == pytest.approx(expected)

    def test_columns_are_prepared_without_the_held_out_rows(self, metrics_alone, tmp_path):
        words = [["red", "blue"][i % 2] if i % 7 else "" for i in range(80)]
        lines = [f"{i % 5},{word},{'ab'[i % 3 == 0]}" for i, word in enumerate(words)]
        (tmp_path / "t.csv").write_text("\n".join(["size,colour,kind", *lines]))
        found = nearfar.learn(tmp_path / "t.csv", label="kind", method="lda")
        assert found.metric.columns is not None
        assert len(found.held_out.first.X) == 80

    def test_nothing_to_hold_out(self):
        with pytest.raises(ValueError, match="nothing to hold out"):
            nearfar.learn(np.arange(8.0).reshape(4, 2), label=list("abcd"))


class TestKinds:
    def test_numbers(self):
        X, y = make_friedman1(150, n_features=5, random_state=0)
        found = nearfar.learn(X, label=y, method="mlkr")
        names = [result.name for result in found.held_out.results]
        assert names[0] == "MLKR"
        assert names[2:] == ["mean", "ridge regression", "random forest", "gradient boosting"]
        assert loss(found, "mean", "r2") == pytest.approx(1.0, abs=0.05)
        assert loss(found, "MLKR", "r2") < 0.5

    def test_judgements(self, iris):
        X, y = iris
        triplets = RandomTriplets(300)(X, y, np.random.RandomState(0))
        found = nearfar.learn(X, triplets=triplets, method="boost")
        assert [r.name for r in found.held_out.results][1:] == ["Euclidean (unscaled)"]
        assert "triplet accuracy" in str(found)
        pairs = Pairs([[i, i + 1] for i in range(0, 148, 2)], np.arange(74) % 2 == 0)
        found = nearfar.learn(X, pairs=pairs, method="rca")
        assert "AUC" in str(found)
        assert "74 pairs held out" in str(found).splitlines()[0]

    def test_ranking_decides(self, metrics_alone):
        found = nearfar.learn("iris", method="lda", goal="ranking")
        assert "LDA helps: MAP@R" in found.sentence
        assert found.held_out.lines[0][1].startswith("MAP@R")

    def test_an_estimator_and_groups(self, iris, metrics_alone):
        X, y = iris
        found = nearfar.learn(X, label=y, method=LMNN(max_iter=3), group=np.arange(150) % 10)
        assert found.learner.max_iter == 3
        assert "LMNN, 3 iterations" in str(found)


class TestTime:
    def test_large_tables_are_learned_from_as_a_sample(self, metrics_alone, monkeypatch):
        monkeypatch.setattr(held_out, "_FEWEST_ROWS", 100)
        found = nearfar.learn("wine", method="lda", budget="0.001s")
        assert found.n_rows == 100
        assert any("100 of 178 rows" in note.text for note in found.notes)
        assert "Learned from 100 rows" in str(found)
        assert nearfar.learn("wine", method="lda", budget=None).n_rows == 178

    def test_rows_are_fixed_before_the_start(self):
        table = read_table(np.zeros((50_000, 30)), label=np.arange(50_000) % 2, required=True)
        auto, other = find_learner("auto"), find_learner("nca")
        assert held_out.most_rows(table, auto, None) == 50_000
        assert held_out.most_rows(table, auto, 7.5) == 20_000
        assert held_out.most_rows(table, auto, 22.5) == 30_000
        assert held_out.most_rows(table, other, 60.0) == 20_000

    def test_the_clock_stops_what_runs_away(self, metrics_alone):
        endless = ["tol=0", "validation_fraction=None"]
        found = nearfar.learn("iris", method="nca", max_iter=10**6, set=endless, budget=1)
        assert found.learner.n_iter_ < 10**5

    def test_a_sample_keeps_what_belongs_to_rows(self):
        groups = np.arange(600) // 2
        table = read_table(np.arange(600.0)[:, None], label=np.arange(600) % 3, group=groups)
        some = table.take(learning.sampled_rows(table, 30))
        np.testing.assert_array_equal(some.y, table.y[some.places])


def test_save_and_report(helpful, tmp_path):
    helpful.report(tmp_path / "iris.html", tmp_path / "mine.safetensors", title="Bottles")
    page = (tmp_path / "iris.html").read_text()
    assert "<h1>Bottles</h1>" in page
    assert "mine.safetensors" in page
    np.testing.assert_array_equal(Metric.load(tmp_path / "mine.safetensors").L, helpful.metric.L)
    assert str(helpful).splitlines()[-1].startswith("Next: nearfar show ")
    stated = stored_statement(read_metadata(tmp_path / "mine.safetensors"))
    assert stated.text.endswith("(LDA, 150 rows; held out)")


def test_a_table_with_its_notes(tmp_path, metrics_alone):
    rows = "".join(f"{i % 7},{'ab'[i % 2]},{'xy'[i % 2]}\n" for i in range(60))
    (tmp_path / "messy.csv").write_text("size,colour,kind\n" + rows)
    found = nearfar.learn(tmp_path / "messy.csv", label="kind", method="lda")
    assert any("leak" in note.text for note in found.notes)
    assert "but see the note on column colour" in found.sentence
    found.save(tmp_path / "messy.safetensors")
    assert "NEW.csv --label kind" in str(found)


def test_progress(metrics_alone):
    calls = []
    nearfar.learn("iris", method="lda", progress=lambda *call: calls.append(call))
    assert calls[-1] == (0, 1, "LDA on all rows")
    assert len(calls) == 2 * 4 + 1


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"goal": "magic"}, "goal must be"),
        ({"method": "magic"}, "no method 'magic'"),
        ({"budget": "soon"}, "not a length of time"),
        ({"label": "x"}, "for files"),
    ],
)
def test_mistakes(parameters, message):
    with pytest.raises(ValueError, match=message):
        nearfar.learn("iris", **parameters)
