"""The command `nearfar learn`."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from cli.conftest import LABELS, NAMES, NCA_ONLY, QUICK
from nearfar import MLKR, AutoMetric, BoostMetric, Metric, Triplets
from nearfar.tables.methods import AUTO, LEARNERS

pytestmark = pytest.mark.usefixtures("metrics_alone")
NUMBERS = ["--label", "d", "--drop", "species", "--drop", "name"]
UNLABELLED = ["iris.csv", "--drop", "species", "--drop", "name"]
PAIRS = ["rows.npy", "--pairs", "pairs.csv", "--method", "maxmargin", "--write"]


def test_autometric(run, folder, iris):
    result = run("learn", "iris", *NCA_ONLY, "--goal", "ranking", "--write")
    lines = result.stdout.splitlines()
    assert lines[0].startswith("iris: 150 rows x 4 features, 3 classes; 150 rows held out")
    found = AutoMetric(candidates=["NCA"], goal="ranking", random_state=0).fit(*iris)
    np.testing.assert_allclose(Metric.load(folder / "iris.safetensors").L, found.metric_.L)
    assert "% NCA" in lines[-3]
    assert lines[-2] == "Metric written to iris.safetensors."
    assert lines[-1] == "Next: nearfar show iris.safetensors"
    run(*lines[-1].split()[2:])


def test_json(document):
    found = document("learn", "iris.csv", *LABELS, *NCA_ONLY, "--write")
    assert (found["method"], found["stopped"]) == ("AutoMetric", "blended")
    assert sum(found["weights"].values()) == pytest.approx(1)
    assert found["methods"][0]["name"] == "AutoMetric"
    assert found["metric"] == "iris.safetensors"


def test_what_to_do_next_with_a_table(run, folder):
    last = run("learn", "iris.csv", *LABELS, *QUICK).stdout.splitlines()[-1]
    assert last == "Next: nearfar predict iris.safetensors iris.csv NEW.csv --label species"
    (folder / "NEW.csv").write_bytes((folder / "iris.csv").read_bytes())
    run(*last.split()[2:])


def test_nothing_is_written_where_nothing_is_gained(run, folder):
    options = ["learn", "iris.csv", *LABELS, "--method", "euclidean-unscaled"]
    result = run(*options, code=3)
    assert "Nothing was written; --write writes the metric to iris.safetensors." in result.stdout
    assert not (folder / "iris.safetensors").exists()
    run(*options, "--write")
    assert (folder / "iris.safetensors").exists()


def test_a_blend_of_nothing_is_euclidean_distance(run, folder, iris):
    result = run("learn", "iris", "--set", "candidates=[]", "--write")
    assert ": Euclidean distance on " in result.stdout
    metric = Metric.load(folder / "iris.safetensors")
    expected = AutoMetric(candidates=[], random_state=0).fit(*iris).metric_
    np.testing.assert_allclose(metric.L, expected.L)


@pytest.mark.parametrize("method", LEARNERS)
def test_each_learner_writes_a_metric(run, folder, method):
    options = ["--write", "--method", method]
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
    def test_are_learned_from(self, run, folder, iris):
        result = run("learn", "iris.csv", *NUMBERS, "--method", "mlkr", "--write")
        X, _ = iris
        expected = MLKR(random_state=0).fit(X[:, :3], X[:, 3]).metric_.L
        np.testing.assert_array_equal(Metric.load(folder / "iris.safetensors").L, expected)
        assert "150 rows x 3 features, numbers from 0.1 to 2.5" in result.stdout
        assert "R² (90 % interval)" in result.stdout
        assert "took the labels as numbers to predict: 22 different values." in result.stderr

    def test_of_arrays(self, run, folder):
        np.save(folder / "numbers.npy", np.linspace(0.0, 1.0, 150))
        run("learn", "rows.npy", "--label", "numbers.npy", "--method", "mlkr", "--write")
        assert Metric.load(folder / "rows.safetensors").n_features == 4

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["iris.csv", *LABELS], "Column species has 'setosa'; the method learns from finite"),
            (["infinite.csv", "--label", "y"], "Column y has 'inf'"),
            (["rows.npy", "--triplets", "triplets.csv"], "learns from numbers, not from triplets"),
        ],
    )
    def test_other_labels_are_refused(self, fail, folder, arguments, message):
        table = pl.DataFrame({"x": [1.0, 2.0, 4.0], "y": [0.5, None, None]})
        table.with_columns(y=pl.Series([0.5, np.inf, 1.0])).write_csv("infinite.csv")
        assert message in fail("learn", *arguments, "--method", "mlkr")
        assert not list(folder.glob("*.safetensors.part"))


def test_max_iter_and_settings(document, folder, iris):
    options = ["--write", "--method", "boost", "--max-iter", 2, "--set", "n_components=2"]
    found = document("learn", "iris", *options)
    assert (found["iterations"], found["stopped"]) == (2, "max_iter")
    expected = BoostMetric(max_iter=2, n_components=2).fit(*iris).metric_.L
    np.testing.assert_array_equal(Metric.load(folder / "iris.safetensors").L, expected)


def test_triplets(document, folder, iris):
    options = ["--triplets", "triplets.csv", "--method", "boost", "--write"]
    found = document("learn", *UNLABELLED, *options)
    table = pl.read_csv("triplets.csv").to_numpy()
    expected = BoostMetric(random_state=0).fit(iris[0], Triplets(table)).metric_.L
    np.testing.assert_array_equal(Metric.load(folder / "iris.safetensors").L, expected)
    assert found["n_held_out"] == len(table)
    assert found["methods"][0]["name"] == "BoostMetric"


def test_nothing_is_written_if_triplets_are_random(run, folder):
    rng = np.random.default_rng(0)
    index = np.array([rng.choice(150, 3, replace=False) for _ in range(200)])
    pl.DataFrame(index, schema=["anchor", "near", "far"]).write_csv("random.csv")
    run("learn", *UNLABELLED, "--triplets", "random.csv", "--method", "lsml", code=3)
    assert not (folder / "iris.safetensors").exists()


def test_scale(run, folder):
    options = ["--write", "--method", "boost", "--max-iter", 2]
    run("learn", "iris", *options, "--scale", "cosine")
    assert Metric.load(folder / "iris.safetensors").unit_rows
    run("learn", "iris", *options, "--scale", "unit")
    assert not Metric.load(folder / "iris.safetensors").unit_rows


def test_bad_settings_fail_before_anything_is_read(fail):
    for method, setting, message in [
        ("boost", "penalty=-1", "penalty must be"),
        ("boost", "scale=golden", "scale must be"),
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
        (["--method", "lda", "--max-iter", 3], "no parameter 'max_iter'"),
        (["--method", "boost", "--set", "penalty=-1"], "penalty must be"),
        (["--budget", "soon"], "not a length of time"),
        (["--out", "iris.csv"], "is an input"),
        (["--out", "new.csv"], "name the metric .safetensors"),
        (["--out", "-"], "name the metric .safetensors"),
        (["--out", "folder"], "is a folder"),
        (["--out", "nowhere/metric"], "no folder"),
        (["--out", "pipe"], "a device or a pipe"),
        (["--out", "loop"], "not a valid path"),
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


def test_brackets_are_only_brackets(run, fail):
    rows = "".join(f"{i},{i * 7 % 5},{'ab'[i % 2]}\n" for i in range(20))
    Path("we[bold]ird.csv").write_text("a[b],[/x],y\n" + rows)
    result = run("learn", "we[bold]ird.csv", "--label", "y", *QUICK)
    assert "we[bold]ird: 20 rows" in result.output
    assert "a[b], [/x], y" in fail("learn", "we[bold]ird.csv", "--label", "zz")


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
    assert message in fail("learn", "t.csv", "--label", "label")


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
