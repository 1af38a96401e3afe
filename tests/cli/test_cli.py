from __future__ import annotations

import subprocess
import sys

import numpy as np
import polars as pl
import pytest
from sklearn.datasets import load_iris
from typer.testing import CliRunner

from nearfar import Metric, __version__
from nearfar.cli.app import app
from nearfar.cli.methods import METHODS, find_method


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NEARFAR_DATA", raising=False)

    def call(*arguments):
        return CliRunner().invoke(app, [str(a) for a in arguments], env={"COLUMNS": "200"})

    return call


@pytest.fixture
def flowers(tmp_path):
    X, y = load_iris(return_X_y=True)
    table = pl.DataFrame(X, schema=["a", "b", "c", "d"])
    return table.with_columns(
        pl.Series("species", np.array(["setosa", "versicolor", "virginica"])[y]),
        pl.Series("note", ["x"] * 150),
    )


def test_a_dataset_by_name(run, tmp_path):
    result = run("learn", "iris")
    assert result.exit_code == 0, result.output
    assert "150 rows x 4 features, 3 classes" in result.output
    for word in ("Euclidean, as is", "LDA", "BoostMetric", "3-NN error", "Ranking and search:"):
        assert word in result.output
    assert Metric.load(tmp_path / "iris.safetensors").n_features == 4


@pytest.mark.parametrize("method", list(METHODS))
def test_each_method_writes_a_metric(run, tmp_path, method):
    result = run("learn", "iris", "--method", method, "--folds", 2, "--rounds", 5)
    assert result.exit_code == 0, result.output
    assert Metric.load(tmp_path / "iris.safetensors").n_features == 4


@pytest.mark.parametrize("kind", ["csv", "tsv", "parquet"])
def test_a_table(run, flowers, tmp_path, kind):
    path = tmp_path / f"flowers.{kind}"
    if kind == "parquet":
        flowers.write_parquet(path)
    else:
        flowers.write_csv(path, separator="," if kind == "csv" else "\t")
    options = ["--label", "species", "--drop", "note", "--method", "boost", "--folds", 3]
    result = run("learn", path, *options, "--out", tmp_path / "metric.safetensors")
    assert result.exit_code == 0, result.output
    metric = Metric.load(tmp_path / "metric.safetensors")
    assert metric.feature_names == ("a", "b", "c", "d")
    assert str(tmp_path / "metric.safetensors") in result.output


def test_rounds(run):
    result = run("learn", "iris", "--rounds", 2, "--folds", 2)
    assert "(2 rounds, stopped: max_iter)" in result.output


def test_the_metric_is_that_of_the_learner(run, tmp_path):
    from nearfar import BoostMetric

    run("learn", "iris")
    expected = BoostMetric().fit(*load_iris(return_X_y=True)).metric_.L
    np.testing.assert_array_equal(Metric.load(tmp_path / "iris.safetensors").L, expected)


USER_ERRORS = {
    "no such dataset": (["irsi"], "iris"),
    "no such file": (["missing.csv", "--label", "y"], "no file"),
    "no label": (["flowers.csv"], "--label NAME; flowers.csv has a, b"),
    "two kinds of judgement": (["iris", "--pairs", "p.csv", "--triplets", "t.csv"], "only one of"),
    "no such setting": (["iris", "--set", "magic=1"], "penalty"),
    "a bad setting": (["iris", "--set", "penalty=-1"], "penalty must be"),
    "no length of time": (["iris", "--method", "auto", "--budget", "soon"], "no length of time"),
    "no such goal": (["iris", "--method", "auto", "--goal", "gold"], "classification or ranking"),
    "ambiguous method": (["iris", "--method", "m"], "no method 'm'"),
    "columns of an array": (["rows.npy", "--drop", "a"], "Only tables"),
    "not an array": (["junk.npy"], "cannot be read"),
    "no labels of an array": (["rows.npy"], "has no labels"),
    "labels of an array": (["rows.npy", "--label", "y"], "another .npy file"),
    "objects": (["objects.npy"], "cannot be read"),
    "three dimensions": (["cube.npy"], "needs a table of numbers"),
    "no X": (["no_x.npz"], "no array 'X'"),
    "no such label": (["flowers.csv", "--label", "kind"], "species"),
    "no such column": (["flowers.csv", "--label", "species", "--drop", "q"], "no column 'q'"),
    "words": (["flowers.csv", "--label", "species"], "--drop note"),
    "decimal labels": (["flowers.csv", "--label", "a", "--drop", "note"], "decimal"),
    "holes": (["holes.csv", "--label", "y"], "missing or infinite values: x"),
    "missing labels": (["nolabel.csv", "--label", "y"], "have no label"),
    "only labels": (["only.csv", "--label", "y"], "no columns besides"),
    "one class": (["one.csv", "--label", "y"], "two classes"),
    "empty file": (["empty.csv", "--label", "y"], "cannot be read"),
    "label dropped": (
        ["flowers.csv", "--label", "species", "--drop", "species"],
        "cannot be dropped",
    ),
    "too many folds": (["iris", "--folds", "60"], "more than any class has rows (50)"),
    "a kind that is not read": (["sheet.xlsx", "--label", "y"], "not a kind of file"),
    "no such method": (["iris", "--method", "magic"], "no method 'magic'"),
    "no such folder": (["iris", "--out", "nowhere/metric.safetensors"], "no folder"),
    "label of a dataset": (["iris", "--label", "y"], "for files"),
}


@pytest.mark.parametrize("kind", USER_ERRORS)
def test_user_errors_are_one_line(run, flowers, tmp_path, kind):
    flowers.write_csv(tmp_path / "flowers.csv")
    (tmp_path / "holes.csv").write_text("x,y\n1,a\n,b\n2,a\n")
    (tmp_path / "nolabel.csv").write_text("x,y\n1,a\n3,\n2,a\n")
    (tmp_path / "only.csv").write_text("y\na\nb\n")
    (tmp_path / "one.csv").write_text("x,y\n" + "".join(f"{i},a\n" for i in range(10)))
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "sheet.xlsx").write_bytes(b"PK")
    (tmp_path / "junk.npy").write_bytes(b"junk")
    np.save(tmp_path / "rows.npy", np.ones((4, 2)))
    np.save(tmp_path / "cube.npy", np.ones((4, 2, 2)))
    np.save(tmp_path / "objects.npy", np.array([{}, {}]), allow_pickle=True)
    np.savez(tmp_path / "no_x.npz", a=np.ones(2), b=np.ones(2))
    arguments, message = USER_ERRORS[kind]
    result = run("learn", *arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith("nearfar: ")
    assert message in result.stderr
    assert "Traceback" not in result.output
    assert not list(tmp_path.glob("*.safetensors"))


def test_brackets_are_only_brackets(run, tmp_path):
    rows = "".join(f"{i},{i * 7 % 5},{'ab'[i % 2]}\n" for i in range(20))
    (tmp_path / "we[bold]ird.csv").write_text("a[b],[/x],y\n" + rows)
    result = run("learn", "we[bold]ird.csv", "--label", "y")
    assert result.exit_code == 0, result.output
    assert "we[bold]ird: 20 rows" in result.output
    result = run("learn", "we[bold]ird.csv", "--label", "zz")
    assert result.exit_code == 2
    assert "a[b], [/x], y" in result.stderr


def test_a_folder_is_no_file_to_write(run, tmp_path):
    (tmp_path / "folder").mkdir()
    result = run("learn", "iris", "--out", "folder")
    assert result.exit_code == 2
    assert "is a folder" in result.stderr


def test_small_classes_are_noted(run, tmp_path):
    rows = "".join(f"{i},{i * i % 7},{'a' if i < 20 else 'b'}\n" for i in range(23))
    (tmp_path / "small.csv").write_text("x,z,y\n" + rows)
    result = run("learn", "small.csv", "--label", "y")
    assert result.exit_code == 0, result.output
    assert "smallest class has 3 rows" in result.stderr


def test_methods_by_name_or_its_beginning():
    assert find_method("BoostMetric") is find_method("boost")
    assert find_method("nca").__name__ == "NCA"


def test_settings(run, tmp_path):
    from nearfar import MetricBoost

    options = ["--method", "metricboost", "--set", "n_components=2", "--no-comparison"]
    result = run("learn", "iris", *options, "--set", "response=normalized", "--rounds", 7)
    assert result.exit_code == 0, result.output
    learner = MetricBoost(n_components=2, response="normalized", max_iter=7)
    expected = learner.fit(*load_iris(return_X_y=True)).metric_.L
    np.testing.assert_array_equal(Metric.load(tmp_path / "iris.safetensors").L, expected)


def test_version_and_help(run):
    assert run("--version").output.strip() == f"nearfar {__version__}"
    assert "learn" in run("--help").output


def test_without_its_extra_the_command_says_what_to_install(tmp_path):
    (tmp_path / "typer.py").write_text("raise ModuleNotFoundError(\"No typer\", name='typer')")
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from nearfar.cli import main; main()"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert result.returncode == 1
    assert result.stderr.strip().endswith("pip install 'nearfar[cli]'")
