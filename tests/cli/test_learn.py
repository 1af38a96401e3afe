from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from nearfar import MLKR, AutoMetric, BoostMetric, Metric, Triplets
from nearfar.comparison import default_methods
from nearfar.comparison.goals import GoalComparison
from nearfar.comparison.methods import baseline_metrics
from nearfar.evidence.verdict import COSINE, STANDARDISED, UNSCALED
from nearfar.learners.selection.auto_problem import EUCLIDEAN
from nearfar.tables.methods import AUTO, LEARNERS

from .conftest import LABELS, NAMES, NCA_ONLY, QUICK

BASELINES = [UNSCALED, STANDARDISED, COSINE]
NUMBERS = ["--label", "d", "--drop", "species", "--drop", "name"]
UNLABELLED = ["iris.csv", "--drop", "species", "--drop", "name"]
PAIRS = ["rows.npy", "--pairs", "pairs.csv", "--method", "maxmargin", "--no-comparison"]


def noise(n=60, seed=0):
    """Write a table whose labels have nothing to do with its columns."""
    rng = np.random.default_rng(seed)
    table = pl.DataFrame(rng.normal(size=(n, 2)), schema=["a", "b"])
    table.with_columns(pl.Series("y", rng.integers(2, size=n))).write_csv("noise.csv")
    return ["noise.csv", "--label", "y", "--folds", 2]


class TestAuto:
    def test_a_dataset_by_name(self, run, folder, iris):
        options = ["--method", "auto", *NCA_ONLY, "--goal", "ranking"]
        result = run("learn", "iris", "--folds", 2, *options)
        assert result.output.startswith("iris: 150 rows x 4 features, 3 classes\n")
        for text in ("Euclidean (unscaled)", "LDA", "AutoMetric", "k-NN error", "For ranking and"):
            assert text in result.output
        found = AutoMetric(candidates=["NCA"], goal="ranking", random_state=0).fit(*iris)
        np.testing.assert_allclose(Metric.load(folder / "iris.safetensors").L, found.metric_.L)
        shares = sorted(found.weights_.items(), key=lambda item: -item[1])
        names = {EUCLIDEAN: "Euclidean distance"}
        blend = ", ".join(f"{100 * w:.0f} % {names.get(n, n)}" for n, w in shares if w > 0)
        lines = result.stdout.splitlines()
        assert lines[-4].endswith(f" s: {blend}.")
        asked = "Metric written to iris.safetensors: AutoMetric, as asked with --method."
        assert lines[-3] == asked
        assert lines[-1] == "Next: nearfar show iris.safetensors"
        run(*lines[-1].split()[2:])

    def test_the_command_that_learns_what_is_recommended(self, run, folder):
        options = ["--method", "boost", "--max-iter", 2, "--goal", "ranking", "--folds", 2]
        result = run("learn", "iris.csv", *LABELS, *options)
        line = result.stdout.splitlines()[-2]
        sentence, command = line.split(": ")
        assert sentence == "The verdict recommends LDA"
        name = "iris.csv --label species --drop name --method lda"
        assert command == f"nearfar learn {name} --goal ranking --folds 2"
        again = run(*command.split()[1:])
        assert "The verdict recommends" not in again.stdout
        assert Metric.load(folder / "iris.safetensors").n_components == 2

    def test_json(self, document):
        options = ["--no-comparison", *NCA_ONLY]
        found = document("learn", "iris.csv", *LABELS, *options)
        assert found["method"] == "AutoMetric"
        assert found["stopped"] == "blended"
        assert found["expected"]["measure"] == "error"
        assert sum(found["weights"].values()) == pytest.approx(1)

    def test_what_to_do_next_with_a_table(self, run, folder):
        result = run("learn", "iris.csv", *LABELS, "--no-comparison", *NCA_ONLY)
        last = result.stdout.splitlines()[-1]
        expected = "Next: nearfar predict iris.safetensors iris.csv NEW.csv --label species"
        assert last == expected
        (folder / "NEW.csv").write_bytes((folder / "iris.csv").read_bytes())
        run(*last.split()[2:])

    @pytest.mark.slow
    @pytest.mark.parametrize("name", ["LDA", "AutoMetric", "inverse covariance", *BASELINES])
    @pytest.mark.parametrize("goal", ["classification", "ranking"])
    def test_what_is_recommended_is_written(self, run, folder, iris, monkeypatch, name, goal):
        def chosen(self):
            wanted = name if self.goal == goal else "cosine"
            return replace(verdict(self), recommended=wanted)

        verdict = GoalComparison.verdict.func
        monkeypatch.setattr(GoalComparison, "verdict", property(chosen))
        options = ["--folds", 2, "--goal", goal, *NCA_ONLY]
        result = run("learn", "iris.csv", *LABELS, *options)
        written = f"Metric written to iris.safetensors: {name}, as recommended for {goal}."
        assert written in result.stdout.splitlines()
        assert "The verdict recommends" not in result.stdout
        metric = Metric.load(folder / "iris.safetensors")
        X, y = iris
        if name in BASELINES:
            expected = baseline_metrics(X)[name]
        elif name == "AutoMetric":
            expected = AutoMetric(candidates=["NCA"], goal=goal, random_state=0).fit(X, y).metric_
        else:
            expected = next(m for m in default_methods([]) if m.name == name).learn(X, y)
        assert metric.unit_rows == expected.unit_rows
        np.testing.assert_allclose(metric.distances(X[:9]), expected.distances(X[:9]), atol=1e-9)

    def test_nothing_is_written_where_nothing_is_better_than_a_guess(self, run, document, folder):
        options = [*noise(), *NCA_ONLY]
        result = run("learn", *options, "--checkpoint", "kept", code=3)
        assert "naming the largest class" in result.stdout
        assert "Nothing was written" in result.stdout
        assert not list(folder.glob("kept*"))
        assert not (folder / "noise.safetensors").exists()

    def test_labels_at_random_are_seldom_called_learnable(self, document, folder):
        """What is wrong once in twenty times is so four times of ten once in 1,000."""
        claims = 0
        for seed in range(10):
            options = [*noise(80, seed), "--method", "lda", "--no-classifiers"]
            found = document("learn", *options)["comparison"]
            goals = ("classification", "ranking")
            claims += any(found[goal]["category"].endswith(" better") for goal in goals)
        assert claims <= 3

    def test_a_blend_of_nothing_is_euclidean_distance(self, run, folder, iris):
        result = run("learn", "iris", "--no-comparison", "--set", "candidates=[]")
        assert ": nothing is better than Euclidean distance on " in result.stdout
        metric = Metric.load(folder / "iris.safetensors")
        expected = AutoMetric(candidates=[], random_state=0).fit(*iris).metric_
        np.testing.assert_allclose(metric.L, expected.L)

    def test_a_checkpoint_keeps_the_comparison_only(self, run, folder):
        options = [*NCA_ONLY, "--folds", 2, "--goal", "ranking", "--checkpoint", "kept"]
        result = run("learn", "iris", *options)
        assert "a fit of autometric cannot continue" in result.stderr
        assert "in kept.comparison." in result.stderr
        assert not list(folder.glob("kept*"))


def test_only_if_significant(run, folder):
    options = ["--method", "lda", "--only-if-significant"]
    result = run("learn", "iris.csv", *LABELS, *options, code=3)
    assert "LDA helps with --goal ranking." in result.stdout
    assert not (folder / "iris.safetensors").exists()
    run("learn", "iris.csv", *LABELS, *options, "--goal", "ranking")
    assert (folder / "iris.safetensors").exists()


@pytest.mark.parametrize("method", LEARNERS)
def test_each_learner_writes_a_metric(run, folder, method):
    options = ["--no-comparison", "--method", method]
    if "max_iter" in LEARNERS[method]().get_params():
        options += ["--max-iter", 3]
    if "labels" in LEARNERS[method].supervision:
        run("learn", "iris.csv", *LABELS, *options, *(NCA_ONLY if method == AUTO else []))
        names = NAMES
    else:
        run("learn", "iris.csv", *NUMBERS, *options)
        names = NAMES[:3]
    assert Metric.load(folder / "iris.safetensors").feature_names == tuple(names)


class TestNumbers:
    def test_are_learned_from(self, document, run, folder, iris):
        found = document("learn", "iris.csv", *NUMBERS, "--method", "mlkr", "--folds", 3)
        X, _ = iris
        expected = MLKR(random_state=0).fit(X[:, :3], X[:, 3]).metric_.L
        np.testing.assert_array_equal(Metric.load(folder / "iris.safetensors").L, expected)
        r2 = {method["name"]: method["r2"] for method in found["comparison"]["methods"]}
        assert r2["MLKR"] > 0.8
        assert {"Euclidean (unscaled)", "Euclidean (standardised)"} < set(r2)
        boosting = found["comparison"]["classifiers"][-1]
        assert boosting["name"] == "gradient boosting"
        assert boosting["r2"] > 0.8
        result = run("learn", "iris.csv", *NUMBERS, "--method", "mlkr", "--folds", 2)
        assert "150 rows x 3 features, numbers from 0.1 to 2.5" in result.stdout
        assert "k-NN R² ± std over 2 folds" in result.stdout
        assert "took the labels as numbers to predict: 22 different values." in result.stderr

    def test_of_arrays(self, run, folder):
        np.save(folder / "numbers.npy", np.linspace(0.0, 1.0, 150))
        options = ["--label", "numbers.npy", "--method", "mlkr", "--no-comparison"]
        run("learn", "rows.npy", *options)
        assert Metric.load(folder / "rows.safetensors").n_features == 4

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["iris.csv", *LABELS], "Column species has 'setosa'; the method learns from finite"),
            (["infinite.csv", "--label", "y"], "Column y has 'inf'"),
            (["rows.npy", "--label", "text.npy"], "The labels are not numbers"),
            (["rows.npy", "--triplets", "triplets.csv"], "learns from numbers, not from triplets"),
        ],
    )
    def test_other_labels_are_refused(self, fail, folder, arguments, message):
        table = pl.DataFrame({"x": [1.0, 2.0, 4.0], "y": [0.5, None, None]})
        table.with_columns(y=pl.Series([0.5, np.inf, 1.0])).write_csv("infinite.csv")
        np.save("text.npy", np.repeat(["a", "b"], 75))
        assert message in fail("learn", *arguments, "--method", "mlkr")
        assert not list(folder.glob("*.safetensors.part"))

    def test_are_not_compared(self, fail):
        message = "mlkr learns from numbers, not from labels"
        assert message in fail("compare", "iris.csv", *LABELS, "--method", "mlkr")
        message = "Column species has 'setosa'"
        assert message in fail("report", "iris.csv", *LABELS, "--method", "mlkr")


@pytest.mark.parametrize("method", ["lda", "inverse-covariance"])
def test_plain_methods(document, run, folder, method):
    found = document("learn", "iris.csv", *LABELS, "--method", method, "--folds", 2)
    assert found["comparison"]["n_folds"] == 2
    assert found["iterations"] is None
    metric = Metric.load(folder / "iris.safetensors")
    assert metric.feature_names == tuple(NAMES)
    assert metric.n_components == {"lda": 2, "inverse-covariance": 4}[method]
    result = run("learn", "iris.csv", *LABELS, "--method", method, "--no-comparison")
    assert "Learned from all rows in" in result.stdout


def test_max_iter_and_settings(document, folder, iris):
    options = ["--no-comparison", "--method", "boost", "--max-iter", 2, "--set", "n_components=2"]
    found = document("learn", "iris", *options)
    assert (found["iterations"], found["stopped"]) == (2, "max_iter")
    expected = BoostMetric(max_iter=2, n_components=2).fit(*iris).metric_.L
    np.testing.assert_array_equal(Metric.load(folder / "iris.safetensors").L, expected)


@pytest.mark.usefixtures("few_learners")
class TestBest:
    def test_keeps_the_best_method(self, document, run, folder):
        options = ["--method", "best", "--goal", "ranking"]
        found = document("learn", "iris.csv", *LABELS, *options)
        assert found["method"] == found["comparison"]["ranking"]["recommended"]
        assert Metric.load(folder / "iris.safetensors").feature_names == tuple(NAMES)
        result = run("learn", "iris.csv", *LABELS, *options)
        assert f": {found['method']}, as recommended for ranking." in result.stdout

    def test_only_if_significant(self, run, folder):
        options = ["--method", "best", "--only-if-significant"]
        result = run("learn", "iris.csv", *LABELS, *options, code=3)
        assert "for classification. LDA helps with --goal ranking." in result.stdout
        assert not (folder / "iris.safetensors").exists()


def test_triplets(document, folder, iris):
    options = ["--triplets", "triplets.csv", "--method", "boost", "--folds", 3]
    found = document("learn", *UNLABELLED, *options)
    table = pl.read_csv("triplets.csv").to_numpy()
    expected = BoostMetric(random_state=0).fit(iris[0], Triplets(table)).metric_.L
    np.testing.assert_array_equal(Metric.load(folder / "iris.safetensors").L, expected)
    compared = found["comparison"]
    assert (compared["n_folds"], compared["n_triplets"]) == (3, len(table))
    accuracy = {method["name"]: method["triplet_accuracy"] for method in compared["methods"]}
    assert accuracy["BoostMetric"] > accuracy["Euclidean (standardised)"]
    assert "LDA" not in accuracy


def test_triplets_and_pairs_on_the_terminal(run):
    one = ["--set", "candidates=['LSML']"]
    result = run("learn", *UNLABELLED, "--triplets", "triplets.csv", "--folds", 2, *one)
    assert "accuracy of held-out triplets ± std over 2 folds" in result.stdout
    assert "On new data, expect" not in result.stdout
    result = run("learn", *PAIRS[:-1], "--folds", 2)
    assert "AUC of held-out pairs ± std over 2 folds" in result.stdout
    assert "AUC 0." in result.stdout


def test_the_best_for_triplets(document, folder):
    options = ["--triplets", "triplets.csv", "--method", "best", "--folds", 2]
    found = document("learn", *UNLABELLED, *options)
    assert found["method"] == found["comparison"]["triplets"]["recommended"]
    assert {m["name"] for m in found["comparison"]["methods"]} >= {"BoostMetric", "LSML", "cosine"}
    assert Metric.load(folder / "iris.safetensors").n_features == 4


def test_nothing_is_written_if_triplets_are_random(run, folder):
    rng = np.random.default_rng(0)
    index = np.array([rng.choice(150, 3, replace=False) for _ in range(200)])
    pl.DataFrame(index, schema=["anchor", "near", "far"]).write_csv("random.csv")
    options = ["--triplets", "random.csv", "--method", "lsml", "--only-if-significant"]
    result = run("learn", *UNLABELLED, *options, code=3)
    sentence = "Nothing was written: LSML is not clearly better than Euclidean distance"
    assert sentence in result.stdout
    assert not (folder / "iris.safetensors").exists()


def test_scale(run, fail, folder):
    options = ["--no-comparison", "--method", "boost", "--max-iter", 2]
    run("learn", "iris", *options, "--scale", "cosine")
    assert Metric.load(folder / "iris.safetensors").unit_rows
    run("learn", "iris", *options, "--scale", "unit")
    assert not Metric.load(folder / "iris.safetensors").unit_rows
    assert "--scale and --set are for learners" in fail(
        "learn", "iris", "--method", "lda", "--scale", "unit"
    )


def test_bad_settings_fail_before_anything_is_read(fail):
    for method, setting, message in [
        ("boost", "penalty=-1", "--set penalty=-1: penalty must be"),
        ("boost", "scale=golden", "--set scale=golden: scale must be"),
        ("auto", "candidates=['Magic']", "There is no learner 'Magic'"),
    ]:
        found = fail("learn", "no-such-file.csv", "--method", method, "--set", setting)
        assert message in found


def test_weights_of_pairs(run, folder):
    pl.read_csv("pairs.csv").with_columns(weight=pl.lit(2.0)).write_csv("heavy.csv")
    run("learn", *PAIRS, "--out", "one")
    run("learn", *PAIRS, "--pairs", "heavy.csv", "--out", "two")
    one, two = Metric.load(folder / "one"), Metric.load(folder / "two")
    np.testing.assert_allclose(one.matrix, two.matrix, atol=1e-6)


@pytest.mark.posix
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--pairs", "pairs.csv"], "only one of"),
        (["--method", "lda", "--max-iter", 3], "lda has no parameters"),
        (["--method", "best", "--no-comparison"], "leave out --no-comparison"),
        (["--only-if-significant", "--no-comparison"], "needs the comparison"),
        (["--method", "boost", "--set", "penalty=-1"], "penalty must be"),
        (["--budget", "soon"], "not a length of time"),
        (["--out", "iris.csv"], "is an input"),
        (["--out", "new.csv"], "name the metric .safetensors"),
        (["--out", "-"], "to a file, not to stdout"),
        (["--out", "folder"], "is a folder"),
        (["--out", "nowhere/metric"], "no folder"),
        (["--out", "pipe"], "a device or a pipe"),
        (["--out", "loop"], "not a valid path"),
        (["--out", "same", "--checkpoint", "same"], "the same file"),
        (["--checkpoint", "iris.csv"], "is an input"),
        (["--checkpoint", "nowhere/kept"], "no folder"),
        (["--checkpoint", "metric.safetensors"], "not a checkpoint"),
    ],
)
def test_what_does_not_go_together(fail, folder, options, message):
    os.mkfifo("pipe")
    (folder / "loop").symlink_to("loop")
    (folder / "folder").mkdir()
    before = {path: path.read_bytes() for path in folder.glob("*.*")}
    assert message in fail("learn", "iris.csv", *LABELS, *options)
    assert {path: path.read_bytes() for path in folder.glob("*.*")} == before


def test_closed_choices_are_listed(run):
    result = run("learn", "iris", "--goal", "gold", code=2)
    assert "'gold' is not one of 'classification', 'ranking'" in result.stderr


@pytest.mark.parametrize("method", ["lda", "nca"])
def test_methods_that_need_labels(fail, method):
    assert "learns from labels, not from pairs" in fail("learn", *PAIRS[:3], "--method", method)


def test_folds_of_pairs(fail):
    Path("few.csv").write_text("a,b,similar\n0,1,true\n0,100,false\n")
    options = ["rows.npy", "--pairs", "few.csv", "--method", "maxmargin"]
    assert "the number of groups of pairs that share rows is 1" in fail("learn", *options)


def test_brackets_are_only_brackets(run, fail):
    rows = "".join(f"{i},{i * 7 % 5},{'ab'[i % 2]}\n" for i in range(20))
    Path("we[bold]ird.csv").write_text("a[b],[/x],y\n" + rows)
    result = run("learn", "we[bold]ird.csv", "--label", "y", *QUICK)
    assert "we[bold]ird: 20 rows" in result.output
    assert "a[b], [/x], y" in fail("learn", "we[bold]ird.csv", "--label", "zz")


def test_small_classes_are_noted(run):
    rows = "".join(f"{i},{i * i % 7},{'a' if i < 20 else 'b'}\n" for i in range(23))
    Path("small.csv").write_text("x,z,y\n" + rows)
    result = run("learn", "small.csv", "--label", "y", "--method", "lda")
    assert "smallest class has 3 rows" in result.stdout


def test_one_of_a_kind(run):
    Path("one.csv").write_text("a,y\n" + "".join(f"{i * i},{i % 2}\n" for i in range(40)))
    result = run("learn", "one.csv", "--label", "y", "--method", "lda", "--folds", 2)
    assert "40 rows x 1 feature, 2 classes" in result.stdout


class TestReplacedMetrics:
    def test_a_better_one_is_named(self, run, folder):
        options = ["learn", "iris.csv", *LABELS, "--folds", 2, "--out", "m.safetensors"]
        first = run(*options, "--method", "lda").stdout
        assert "another metric" not in first
        error = re.search(r"LDA\W+([\d.]+)", first)[1]
        second = run(*options, "--method", "inverse-covariance").stdout
        line = (
            f"The file had another metric before: error {error} % (LDA, 150 rows), a better figure."
        )
        assert line in second.splitlines()
        third = run(*options, "--method", "lda").stdout
        assert "(inverse covariance, 150 rows)." in third

    def test_figures_of_other_rows_are_not_compared(self, run, folder):
        options = [*LABELS, "--folds", 2, "--out", "m.safetensors"]
        run("learn", "iris.csv", *options, "--method", "lda")
        lines = Path("iris.csv").read_text().splitlines(keepends=True)
        Path("part.csv").write_text("".join(lines[:120]))
        said = run("learn", "part.csv", *options, "--method", "inverse-covariance").stdout
        assert "had another metric before, learned from other rows: error" in said
        assert "a better figure" not in said

    def test_of_an_unknown_one_nothing_is_said(self, document, folder):
        Metric.identity(4).save(folder / "m.safetensors")
        options = ["--folds", 2, "--out", "m.safetensors", "--method", "lda"]
        found = document("learn", "iris.csv", *LABELS, *options)
        assert found["replaced"] == ", whose error is not known"


def test_without_a_comparison_the_method_says_what_to_expect(run):
    result = run("learn", "iris.csv", *LABELS, *NCA_ONLY, "--no-comparison")
    assert "On new data, expect error " in result.stdout
    assert "Columns were prepared on all rows" not in result.stdout


def test_what_is_expected_of_prepared_columns_may_be_too_good(run, folder):
    lines = (folder / "iris.csv").read_text().splitlines()
    rows = [f"{line},{'pot' if place % 3 else 'bed'}" for place, line in enumerate(lines[1:])]
    (folder / "grown.csv").write_text("\n".join([f"{lines[0]},grown", *rows]) + "\n")
    result = run("learn", "grown.csv", *LABELS, *NCA_ONLY, "--no-comparison")
    expected, prepared = result.stdout.split("On new data, expect error ")[1].splitlines()[:2]
    assert expected.endswith("without learning.")
    assert prepared.startswith("Columns were prepared on all rows, so that this may be a little ")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x,label\n1,a\n2,b\n3,c\n4,d\n", "nothing to hold out"),
        ("5.1,3.5,a\n4.9,3,b\n6,3.5,c\n", "Its first line looks like a row; write a line"),
        ("3,1,3\n4,9,3\n6,3,7\n", "several columns named '3'; rename all but one. Its first line"),
    ],
)
def test_tables_that_cannot_be_learned_from(fail, folder, text, message):
    (folder / "t.csv").write_bytes(text.encode("latin-1"))
    assert message in fail("learn", "t.csv", "--label", "label", "--folds", 2)


@pytest.mark.parametrize("place", ["label", "name", "values"])
def test_latin_1(run, folder, place):
    table = {"x": [f"{i}.5" for i in range(30)], "word": ["No", "Yes", "No"] * 10}
    table["label"] = ["a", "b", "c"] * 10
    if place == "label":
        table["label"] = ["M\xfcller", "b", "c"] * 10
    elif place == "name":
        table = {"gr\xf6\xdfe" if name == "x" else name: v for name, v in table.items()}
    else:
        table["word"] = ["\xe9t\xe9", "hiver \x96 froid", "No"] * 10
    lines = [",".join(table), *map(",".join, zip(*table.values(), strict=True))]
    (folder / "t.csv").write_bytes("\n".join(lines).encode("latin-1"))
    result = run("learn", "t.csv", "--label", "label", *QUICK)
    assert "is not in UTF-8; it is read as Western European" in result.stderr
    if place == "values":
        assert "\xe9t\xe9" in " ".join(Metric.load("t.safetensors").feature_names)


def test_numbers_as_names_of_columns(run, folder):
    """Spectra have them, in order; a file without names is pointed out."""
    rows = [[i * 0.7, i % 3 + 0.1, "ab"[i % 2]] for i in range(30)]
    for names, told in ((["400.5", "401.0", "k"], False), (["5.1", "3.5", "k"], True)):
        pl.DataFrame(rows, schema=names, orient="row").write_csv("t.csv")
        result = run("learn", "t.csv", "--label", "k", *QUICK)
        assert ("looks like a row" in result.stderr) == told


def test_neither_a_file_nor_a_dataset(fail):
    assert "is for files" not in fail("learn", "patient", "--label", "x")


def test_labels_that_look_missing_are_left_out(run, folder):
    table = pl.DataFrame({"x": range(30), "label": ["a", "NA", "b"] * 10})
    table.write_csv(folder / "t.csv")
    result = run("learn", "t.csv", "--label", "label", *QUICK, "--numeric", "x")
    assert "left out 10 rows without a label in column label (such as 'NA')" in result.stderr
    assert "20 rows x 1 feature, 2 classes" in result.stdout
