"""The commands beside ``learn``, and what all of them share."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from sklearn.datasets import load_iris
from typer.testing import CliRunner

from nearfar import BoostMetric, GatedMetric, Metric, Pairs, Triplets, compare, evaluate
from nearfar.cli.app import app
from nearfar.cli.options import seconds
from nearfar.neighbors import kneighbors

X, Y = load_iris(return_X_y=True)
NAMES = ["a", "b", "c", "d"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Iris as tables and arrays, with a metric and judgements."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NEARFAR_DATA", raising=False)
    table = pl.DataFrame(X, schema=NAMES).with_columns(
        pl.Series("species", np.array(["setosa", "versicolor", "virginica"])[Y]),
        pl.Series("name", [f"flower {i}" for i in range(150)]),
    )
    table.write_csv("iris.csv")
    table.write_parquet("iris.parquet")
    np.save("rows.npy", X)
    np.save("labels.npy", Y)
    np.savez("both.npz", X=X, y=Y, other=Y % 2)
    BoostMetric(max_iter=5).fit(X, Y).metric_.named(NAMES).save("metric.safetensors")
    rng = np.random.default_rng(0)
    i, j = rng.integers(150, size=(2, 300))
    i, j = i[i != j], j[i != j]
    pl.DataFrame({"a": i, "b": j, "similar": Y[i] == Y[j]}).write_csv("pairs.csv")
    near = (i // 50) * 50 + (i + 1) % 50
    far = (i + 50) % 150
    pl.DataFrame({"anchor": i, "near": near, "far": far}).write_csv("triplets.csv")
    return tmp_path


@pytest.fixture
def run(folder):
    def call(*arguments, code=0):
        result = CliRunner().invoke(app, [str(a) for a in arguments], env={"COLUMNS": "120"})
        assert result.exit_code == code, result.output
        assert "Traceback" not in result.output
        return result

    return call


def _gated():
    parts = [Metric(np.diag([1.0, 2.0, 3.0, 4.0])), Metric(np.diag([4.0, 3.0, 2.0, 1.0]))]
    return GatedMetric(parts, [[1.0, 0, 0, 0], [-1.0, 0, 0, 0]], [-5.0, 5.0])


def document(result):
    return json.loads(result.stdout)


LABELS = ["--label", "species", "--drop", "name"]
QUICK = ["--method", "boost", "--folds", "2"]


@pytest.mark.parametrize(
    "source",
    [
        ["iris.csv", *LABELS],
        ["iris.parquet", *LABELS],
        ["rows.npy", "--label", "labels.npy"],
        ["both.npz"],
        ["iris"],
    ],
    ids=lambda source: source[0],
)
def test_all_sources_give_the_same(run, source):
    found = document(run("compare", *source, *QUICK, "--json"))
    expected = compare(X, Y, ["BoostMetric"], cv=2).to_dict()
    for one, other in zip(found["contenders"], expected["contenders"], strict=True):
        assert one["error"] == other["error"]
    assert found["verdict"] == expected["verdict"]


def test_another_array_has_the_labels(run):
    found = document(run("compare", "both.npz", "--label", "other", *QUICK, "--json"))
    assert found["contenders"][1]["error"] == compare(X, Y % 2, [], cv=2)["Euclidean"].error


def test_compare_prints_the_table(run):
    result = run("compare", "iris", *QUICK)
    assert result.stdout.startswith("3-NN error ± std over 2 folds, 150 rows")
    assert "BoostMetric" in result.stdout
    assert "DRMetric" not in result.stdout


def test_compare_within_a_budget(run):
    found = document(run("compare", "iris", "--budget", "0s", "--folds", 2, "--json"))
    assert {entry["why"] for entry in found["left_out"]} == {"no time left"}
    assert len(found["contenders"]) == 2


@pytest.mark.parametrize(
    ("text", "length"), [("60s", 60), ("1.5m", 90), ("2h", 7200), ("7", 7), (None, None)]
)
def test_lengths_of_time(text, length):
    assert seconds(text) == length


@pytest.mark.parametrize("text", ["", "s", "-1s", "nan", "inf", "5 apples"])
def test_what_is_no_length_of_time(text):
    with pytest.raises(ValueError, match="no length of time"):
        seconds(text)


class TestLearn:
    def test_auto_keeps_the_winner(self, run, folder):
        options = ["--method", "auto", "--goal", "ranking", "--budget", "20s"]
        found = document(run("learn", "iris.csv", *LABELS, *options, "--json"))
        assert found["method"] == found["comparison"]["winner"]["ranking"]
        metric = Metric.load(folder / "iris.safetensors")
        assert metric.feature_names == tuple(NAMES)

    def test_auto_says_that_nothing_is_worth_it(self, run, folder):
        rng = np.random.default_rng(0)
        noise = pl.DataFrame(rng.normal(size=(60, 2)), schema=["a", "b"])
        noise.with_columns(pl.Series("y", rng.integers(2, size=60))).write_csv("noise.csv")
        options = ["--label", "y", "--method", "auto", "--folds", 2, "--budget", "20s"]
        result = run("learn", "noise.csv", *options, code=3)
        assert "no metric is worth learning" in result.stdout
        assert "Nothing was written" in result.stdout
        assert not (folder / "noise.safetensors").exists()
        run("learn", "noise.csv", *options, "--checkpoint", "journal", code=3)
        assert not (folder / "journal").exists()
        assert document(run("learn", "noise.csv", *options, "--json", code=3))["metric"] is None

    def test_auto_without_time_is_undecided(self, run, folder):
        result = run("learn", "iris", "--method", "auto", "--budget", "0s", code=4)
        assert "give it more time" in result.stdout
        assert "worth learning" not in result.stdout
        assert not (folder / "iris.safetensors").exists()

    def test_auto_when_the_winner_has_no_map(self, run, folder, monkeypatch):
        from nearfar.comparison.significance import GoalComparison

        manhattan = property(lambda self: next(e for e in self.entries if e.name == "L1"))
        monkeypatch.setattr(GoalComparison, "winner", manhattan)
        options = ["--method", "auto", "--folds", 2, "--budget", "2s"]
        result = run("learn", "iris", *options, code=3)
        assert "L1 is not a map" in result.stdout
        assert not (folder / "iris.safetensors").exists()

    def test_triplets(self, run, folder):
        source = ["iris.csv", "--drop", "species", "--drop", "name"]
        found = document(run("learn", *source, "--triplets", "triplets.csv", "--json"))
        table = pl.read_csv("triplets.csv").to_numpy()
        expected = BoostMetric(random_state=0).fit(X, Triplets(table)).metric_.L
        np.testing.assert_array_equal(Metric.load(folder / "iris.safetensors").L, expected)
        assert np.mean(found["held_out"]["learned"]) > np.mean(found["held_out"]["Euclidean"])

    def test_triplets_on_the_terminal(self, run):
        source = ["iris.csv", "--drop", "species", "--drop", "name"]
        result = run("learn", *source, "--triplets", "triplets.csv")
        assert "triplets right %" in result.stdout

    @pytest.mark.parametrize("method", ["maxmargin", "boost"])
    def test_pairs(self, run, method):
        source = ["rows.npy", "--pairs", "pairs.csv", "--method", method]
        result = run("learn", *source)
        assert "AUC %" in result.stdout

    def test_rows_by_name(self, run, folder):
        by_number = pl.read_csv("pairs.csv")
        named = by_number.with_columns(
            pl.format("flower {}", "a").alias("a"), pl.format("flower {}", "b").alias("b")
        )
        named.write_csv("named.csv")
        options = ["--method", "maxmargin", "--no-comparison"]
        source = ["iris.csv", "--drop", "species"]
        run("learn", *source, "--drop", "name", "--pairs", "pairs.csv", *options, "--out", "one")
        run("learn", *source, "--id", "name", "--pairs", "named.csv", *options, "--out", "two")
        assert (folder / "one").read_bytes() == (folder / "two").read_bytes()

    def test_weights(self, run, folder):
        pl.read_csv("pairs.csv").with_columns(weight=pl.lit(2.0)).write_csv("heavy.csv")
        options = ["--method", "maxmargin", "--no-comparison"]
        run("learn", "rows.npy", "--pairs", "pairs.csv", *options, "--out", "one")
        run("learn", "rows.npy", "--pairs", "heavy.csv", *options, "--out", "two")
        one, two = Metric.load(folder / "one"), Metric.load(folder / "two")
        np.testing.assert_allclose(one.matrix, two.matrix, atol=1e-6)

    @pytest.mark.parametrize(
        ("table", "option", "message"),
        [
            ("a,b,similar\n0,999,true\n", "--pairs", "rows 0 to 149"),
            ("a,b,similar\n0,x,true\n", "--pairs", "--id NAME"),
            ("a,b,similar\n0,1,maybe\n", "--pairs", "true or false"),
            ("a,b,similar\n0,,true\n", "--pairs", "nothing in"),
            ("a,b\n0,1\n", "--pairs", "no column 'similar'"),
            ("anchor,near\n0,1\n", "--triplets", "no column 'far'"),
            ("x,y\n0,1\n", "--triplets", "needs the columns anchor, near, far"),
            ("a,b,similar\n", "--pairs", ""),
        ],
    )
    def test_bad_judgements(self, run, table, option, message):
        Path("bad.csv").write_text(table)
        result = run("learn", "rows.npy", option, "bad.csv", code=2)
        assert message in result.stderr
        assert result.stderr.count("\n") == 1

    def test_names_that_no_row_has(self, run):
        Path("bad.csv").write_text("a,b,similar\nflower 1,tree 2,true\n")
        source = ["iris.csv", "--drop", "species", "--id", "name", "--pairs", "bad.csv"]
        assert "'tree 2'" in run("learn", *source, code=2).stderr

    def test_names_that_two_rows_have(self, run):
        source = ["iris.csv", "--drop", "name", "--id", "species", "--pairs", "pairs.csv"]
        assert "not one for each row" in run("learn", *source, code=2).stderr

    def test_auto_needs_labels(self, run):
        result = run("learn", "rows.npy", "--pairs", "pairs.csv", "--method", "auto", code=2)
        assert "needs labels" in result.stderr

    @pytest.mark.parametrize("method", ["lda", "inverse-covariance"])
    def test_plain_methods(self, run, folder, method):
        found = document(run("learn", "iris.csv", *LABELS, "--method", method, "--json"))
        assert found["comparison"]["n_folds"] == 5
        metric = Metric.load(folder / "iris.safetensors")
        assert metric.feature_names == tuple(NAMES)
        if method == "lda":
            assert metric.n_components == 2
        run("learn", "iris.csv", *LABELS, "--method", method, "--no-comparison")

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (["--method", "lda", "--rounds", 3], "for learners"),
            (["--method", "auto", "--set", "C=1"], "for learners"),
            (["--method", "auto", "--no-comparison"], "leave out --no-comparison"),
            (["--goal", "gold"], "classification or ranking"),
            (["--out", "iris.csv"], "what is read"),
            (["--out", "same", "--checkpoint", "same"], "the same file"),
            (["--checkpoint", "iris.csv"], "what is read"),
            (["--checkpoint", "nowhere/journal"], "no folder"),
            (["--checkpoint", "metric.safetensors"], "not a journal"),
            (["--out", "pipe"], "a device or a pipe"),
            (["--out", "loop"], "leads nowhere"),
            (["--neighbors", 200], "--neighbors 200 is more than"),
        ],
    )
    def test_what_does_not_go_together(self, run, folder, options, message):
        os.mkfifo("pipe")
        (folder / "loop").symlink_to("loop")
        before = (folder / "iris.csv").read_bytes()
        result = run("learn", "iris.csv", *LABELS, *options, code=2)
        assert message in result.stderr
        assert (folder / "iris.csv").read_bytes() == before

    def test_auto_points_to_the_other_goal(self, run):
        result = run("learn", "iris.csv", *LABELS, "--method", "auto", "--budget", "20s", code=3)
        assert "For ranking --goal ranking has" in result.stdout

    def test_a_checkpoint_of_other_fits_stays(self, run, folder):
        from nearfar.journal import Journal

        with Journal("journal"):
            BoostMetric(max_iter=7).fit(X, Y)
        options = ["--method", "nca", "--rounds", 5, "--no-comparison", "--checkpoint", "journal"]
        result = run("learn", "iris.csv", *LABELS, *options)
        assert "also keeps other fits" in result.stderr
        assert (folder / "journal").exists()
        options[1] = "boost"
        run("learn", "iris.csv", *LABELS, *options[:-1], "other")
        assert not (folder / "other").exists()

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("a;b;y\n1;2;x\n", "separated by ';'"),
            ("a,b,y\n", "has no rows"),
            ("a,a,y\n1,2,x\n", "two columns 'a'"),
            ("a,b,y\n1,1e300,x\n2,3,z\n", "numbers beyond 1e+150: b"),
            ("a,b,y\n1,2,0.5\n2,3,1.5\n", "decimal numbers"),
        ],
    )
    def test_tables_that_make_no_sense(self, run, text, message):
        Path("bad.csv").write_text(text)
        result = run("learn", "bad.csv", "--label", "y", code=2)
        assert message in result.stderr
        assert result.stderr.count("\n") == 1

    def test_utf16(self, run):
        Path("bad.csv").write_bytes("a,y\n1,x\n".encode("utf-16"))
        assert "UTF-16" in run("learn", "bad.csv", "--label", "y", code=2).stderr

    def test_whole_numbers_are_classes_however_written(self, run):
        table = pl.read_csv("iris.csv").with_columns(species=pl.Series(Y.astype(float)))
        table.write_csv("floats.csv")
        found = document(run("compare", "floats.csv", *LABELS, *QUICK, "--json"))
        assert found["contenders"][1]["error"] == compare(X, Y, [], cv=2)["Euclidean"].error

    def test_unknown_names_are_answered_with_known_ones(self, run):
        assert "There is" in run("learn", "irsi", code=2).stderr
        assert "wine" in run("learn", "irsi", code=2).stderr

    def test_one_of_a_kind(self, run):
        Path("one.csv").write_text("a,y\n" + "".join(f"{i},{i % 2}\n" for i in range(40)))
        result = run("learn", "one.csv", "--label", "y", *QUICK)
        assert "40 rows x 1 feature, 2 classes" in result.stdout


class TestTransform:
    def test_same_as_in_python(self, run):
        run("transform", "metric.safetensors", "iris.csv", "out.parquet", "--keep", "name")
        table = pl.read_parquet("out.parquet")
        expected = Metric.load("metric.safetensors").transform(X)
        np.testing.assert_array_equal(table.drop("name").to_numpy(), expected)
        assert table["name"][3] == "flower 3"

    def test_json(self, run):
        found = document(run("transform", "metric.safetensors", "rows.npy", "out.npy", "--json"))
        assert found["rows"] == 150
        assert np.load("out.npy").shape == (150, 4)

    def test_errors(self, run):
        assert "no file" in run("transform", "none", "rows.npy", "out.npy", code=2).stderr
        result = run("transform", "iris.csv", "rows.npy", "out.npy", code=2)
        assert "not a safetensors file" in result.stderr
        result = run("transform", "metric.safetensors", "rows.npy", "out.xlsx", code=2)
        assert "kind of file that is written" in result.stderr


class TestNeighbors:
    def test_of_chosen_rows(self, run):
        options = ["--row", 3, "--row", 140, "--neighbors", 4, "--label", "species", "--json"]
        found = document(
            run("neighbors", "metric.safetensors", "iris.csv", "--text", "name", *options)
        )
        metric = Metric.load("metric.safetensors")
        distances, rows = kneighbors(metric, X, n_neighbors=4)
        np.testing.assert_array_equal([line["neighbor"] for line in found], rows[[3, 140]].ravel())
        np.testing.assert_allclose(
            [line["distance"] for line in found], distances[[3, 140]].ravel(), rtol=1e-6
        )
        assert found[0]["query"] == 3
        assert found[0]["label"] == "setosa"
        assert found[0]["text"] == f"flower {rows[3, 0]}"

    def test_of_all_rows(self, run):
        run("neighbors", "metric.safetensors", "iris.csv", "--id", "name", "--out", "out.tsv")
        table = pl.read_csv("out.tsv", separator="\t")
        assert table.shape == (750, 4)
        assert (table["query"] != table["neighbor"]).all()

    def test_of_other_rows(self, run):
        pl.read_csv("iris.csv")[:2].drop("species").write_csv("asked.csv")
        options = ["--queries", "asked.csv", "--neighbors", 1, "--label", "species", "--json"]
        found = document(run("neighbors", "metric.safetensors", "iris.csv", *options))
        assert [line["neighbor"] for line in found] == [0, 1]
        assert found[0]["distance"] == pytest.approx(0, abs=1e-6)

    def test_on_the_terminal(self, run):
        options = ["--id", "name", "--text", "species", "--row", "flower 7"]
        result = run("neighbors", "metric.safetensors", "iris.csv", *options)
        assert "iris, row flower 7: setosa" in result.stdout
        assert result.stdout.count("│ flower ") == 5

    def test_of_a_gated_metric(self, run):
        gated = _gated()
        gated.save("gated.safetensors")
        found = document(run("neighbors", "gated.safetensors", "iris", "--row", 5, "--json"))
        expected = kneighbors(gated, X, n_neighbors=5)[1][5]
        assert [line["neighbor"] for line in found] == expected.tolist()

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (["--row", "150"], "no row '150'; it has 0 to 149"),
            (["--row", "x", "--id", "name"], "no row 'x'; it has flower 0, flower 1"),
            (["--neighbors", "150"], "more than the 149 rows"),
            (["--out", "out.npy"], "kind of file that is written"),
            (["--out", "iris.csv"], "what is read"),
            (["--out", "nowhere/out.csv"], "no folder"),
            (["--queries", "rows.csv"], "no file"),
        ],
    )
    def test_errors(self, run, options, message):
        result = run("neighbors", "metric.safetensors", "iris.csv", *options, code=2)
        assert message in result.stderr

    def test_wrong_number_of_features(self, run):
        np.save("narrow.npy", X[:, :3])
        result = run("neighbors", "metric.safetensors", "narrow.npy", code=2)
        assert "3 features, the metric is for 4" in result.stderr


class TestVerify:
    def test_a_threshold_from_judged_pairs(self, run):
        found = document(run("verify", "metric.safetensors", "rows.npy", "pairs.csv", "--json"))
        table = pl.read_csv("pairs.csv")
        pairs = Pairs(table.select("a", "b").to_numpy(), table["similar"].to_numpy())
        expected = evaluate.verification(Metric.load("metric.safetensors"), X, pairs)
        assert found["threshold"] == expected.accuracy_threshold
        assert found["accuracy"] == pytest.approx(expected.accuracy)
        assert found["auc"] == expected.auc

    def test_a_given_threshold(self, run):
        pl.read_csv("pairs.csv").drop("similar").write_csv("asked.csv")
        options = ["--threshold", 0.7, "--out", "out.csv"]
        run("verify", "metric.safetensors", "rows.npy", "asked.csv", *options)
        table = pl.read_csv("out.csv")
        assert ((table["distance"] <= 0.7) == table["same"]).all()

    @pytest.mark.parametrize("criterion", ["accuracy", "eer", "fpr"])
    def test_criteria(self, run, criterion):
        options = ["--criterion", criterion, "--max-fpr", 0.05]
        result = run("verify", "metric.safetensors", "rows.npy", "pairs.csv", *options)
        assert "AUC" in result.stdout
        assert "The first 20" in result.stdout

    @pytest.mark.parametrize("threshold", ["nan", "-1", "inf"])
    def test_thresholds_are_distances(self, run, threshold):
        options = ["--threshold", threshold]
        result = run("verify", "metric.safetensors", "rows.npy", "pairs.csv", *options, code=2)
        assert "distance of 0 or more" in result.stderr

    @pytest.mark.parametrize("name", ["iris.csv", "pairs.csv", "metric.safetensors"])
    def test_what_is_read_is_not_written(self, run, folder, name):
        before = (folder / name).read_bytes()
        options = ["--drop", "species", "--drop", "name", "--out", name]
        run("verify", "metric.safetensors", "iris.csv", "pairs.csv", *options, code=2)
        assert (folder / name).read_bytes() == before

    def test_errors(self, run):
        pl.read_csv("pairs.csv").drop("similar").write_csv("asked.csv")
        result = run("verify", "metric.safetensors", "rows.npy", "asked.csv", code=2)
        assert "give --threshold" in result.stderr
        options = ["--criterion", "luck"]
        result = run("verify", "metric.safetensors", "rows.npy", "pairs.csv", *options, code=2)
        assert "accuracy, eer or fpr" in result.stderr


class TestEvaluate:
    def test_everything(self, run):
        judgements = ["--triplets", "triplets.csv", "--pairs", "pairs.csv"]
        source = ["both.npz", *judgements, "--json"]
        found = document(run("evaluate", "metric.safetensors", *source))["learned"]
        metric = Metric.load("metric.safetensors")
        assert found["3-NN error"] == evaluate.leave_one_out_error(metric, X, Y)
        assert found["MAP@R"] == evaluate.map_at_r(metric, X, Y)
        table = pl.read_csv("triplets.csv").to_numpy()
        assert found["triplets right"] == evaluate.triplet_accuracy(metric, X, table)
        assert set(found) >= {"pairs, AUC", "pairs, equal error rate", "precision at 1"}

    def test_something_to_measure_by(self, run):
        result = run("evaluate", "metric.safetensors", "rows.npy", code=2)
        assert "--label, --triplets or --pairs" in result.stderr


class TestShow:
    def test_a_metric(self, run):
        found = document(run("show", "metric.safetensors", "--json"))["metrics"][0]
        metric = Metric.load("metric.safetensors")
        share = np.diag(metric.matrix) / np.trace(metric.matrix)
        assert found["features"]["c"] == pytest.approx(share[2])
        assert found["rank"] == 4

    def test_a_gated_metric(self, run):
        _gated().save("gated")
        result = run("show", "gated")
        assert "Metric 2:" in result.stdout

    def test_a_kernel(self, run):
        from nearfar import MaxMarginMetric

        kernel = MaxMarginMetric(kernel="rbf", n_basis=10, random_state=0)
        kernel.fit(X, Y).metric_.save("kernel")
        assert "Kernel: rbf" in run("show", "kernel").stdout

    def test_unused_metrics_of_a_gate(self, run):
        parts = [Metric(np.eye(4)), Metric(np.zeros((1, 4)))]
        GatedMetric(parts, np.eye(2, 4), np.zeros(2)).save("gated")
        assert "Unused: all its distances are zero." in run("show", "gated").stdout
        assert document(run("show", "gated", "--json"))["metrics"][1]["unused"]

    def test_many_features(self, run):
        Metric.identity(40).save("wide")
        assert "... and 25 more" in run("show", "wide").stdout


def test_json_has_null_where_there_is_no_number(run):
    pl.DataFrame({"a": [0, 1], "b": [100, 101], "similar": [True, False]}).write_csv("few.csv")
    text = run("verify", "metric.safetensors", "rows.npy", "few.csv", "--json").stdout
    assert "Infinity" not in text
    assert "NaN" not in text
    json.loads(text)


def _start(*arguments):
    return subprocess.Popen(
        [sys.executable, "-m", "nearfar.cli", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )


def _wait_for(condition, process):
    end = time.monotonic() + 60
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.02)


def _hard_problem():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(4000, 30))
    np.savez("hard.npz", X=rows, y=rng.integers(3, size=4000))


LONG = [
    *("learn", "hard.npz", "--no-comparison", "--method", "nca"),
    *("--rounds", "25", "--set", "tol=0"),
]


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    """What a long fit writes if it is left alone."""
    before = Path.cwd()
    os.chdir(tmp_path_factory.mktemp("alone"))
    try:
        _hard_problem()
        process = _start(*LONG)
        process.communicate(timeout=300)
        return Path("hard.safetensors").read_bytes()
    finally:
        os.chdir(before)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_interrupted_and_resumed_is_uninterrupted(folder, uninterrupted, how):
    _hard_problem()
    kept = folder / "hard.journal"
    process = _start(*LONG, "--checkpoint", "hard.journal")
    _wait_for(lambda: kept.exists() and kept.stat().st_size > 20_000, process)
    process.send_signal(how)
    _, messages = process.communicate(timeout=60)
    assert not (folder / "hard.safetensors").exists()
    assert kept.exists()
    if how == signal.SIGINT:
        assert process.returncode == 130
        assert "run the same command again" in messages
        assert "Traceback" not in messages
    done = _start(*LONG, "--checkpoint", "hard.journal")
    assert "Traceback" not in done.communicate(timeout=300)[1]
    assert done.returncode == 0
    assert (folder / "hard.safetensors").read_bytes() == uninterrupted
    assert not kept.exists()


def test_an_interrupted_fit_leaves_the_old_metric(folder):
    _hard_problem()
    old = (folder / "metric.safetensors").read_bytes()
    process = _start(*LONG, "--out", "metric.safetensors")
    assert "4000 rows" in process.stdout.readline()
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert (folder / "metric.safetensors").read_bytes() == old
    assert not [name for name in os.listdir(folder) if name.startswith(".")]


def test_a_closed_pipe_is_no_error(folder):
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m nearfar.cli show metric.safetensors | head -n 1"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0
    assert "Traceback" not in done.stderr


def test_a_closed_pipe_does_not_cost_the_metric(folder):
    command = f"{sys.executable} -m nearfar.cli learn iris --no-comparison --out kept | true"
    subprocess.run(["bash", "-c", command], check=True)
    assert Metric.load(folder / "kept").n_features == 4


def test_a_terminal_without_signs(folder):
    plain = {**os.environ, "PYTHONIOENCODING": "ascii"}
    for options in ([], ["--json"]):
        done = subprocess.run(
            [sys.executable, "-m", "nearfar.cli", "compare", "iris.csv", *LABELS, *QUICK, *options],
            capture_output=True,
            env=plain,
            check=True,
        )
        assert b"Euclidean" in done.stdout


def test_a_termination_leaves_nothing_half_written(folder):
    _hard_problem()
    process = _start(*LONG, "--out", "metric.safetensors")
    assert "4000 rows" in process.stdout.readline()
    process.terminate()
    process.communicate(timeout=60)
    assert process.returncode == 143
    assert not [name for name in os.listdir(folder) if name.startswith(".")]


def test_a_full_disk_is_one_line(run, monkeypatch):
    def full(self, *_, **__):
        raise pl.exceptions.ComputeError("no space left on device\nand more")

    monkeypatch.setattr(pl.DataFrame, "write_parquet", full)
    result = run("neighbors", "metric.safetensors", "iris.csv", "--out", "out.parquet", code=2)
    assert "out.parquet cannot be written: no space left" in result.stderr
    assert result.stderr.count("\n") == 1


def test_the_time_that_remains(monkeypatch):
    from nearfar.cli import terminal

    monkeypatch.setattr(terminal.time, "monotonic", lambda: 110.0)
    assert terminal._left(100.0, 25, 100) == "30 s left"
    assert terminal._left(100.0, 1, 100) == "16 min left"
    assert terminal._left(100.0, 0, 100) == ""
    assert terminal._left(109.5, 50, 100) == ""


def test_progress_is_for_terminals(folder):
    done = _start("compare", "iris.csv", *LABELS, *QUICK)
    assert done.communicate(timeout=120)[1] == ""


def test_progress_on_a_terminal(folder):
    import pty

    main, other = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "nearfar.cli", "compare", "iris.csv", *LABELS, *QUICK],
        stdout=subprocess.DEVNULL,
        stderr=other,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100"},
    )
    os.close(other)
    seen = b""
    while True:
        try:
            part = os.read(main, 4096)
        except OSError:
            break
        if not part:
            break
        seen += part
    assert process.wait(timeout=60) == 0
    assert b"of 14" in seen
