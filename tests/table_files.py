"""A folder of small files, and a way to run commands in it; for several conftest files."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from sklearn.datasets import load_iris
from typer.testing import CliRunner

from nearfar import BoostMetric, GatedMetric, Metric
from nearfar.cli.app import app

NAMES = ["a", "b", "c", "d"]


@pytest.fixture(scope="session")
def iris():
    return load_iris(return_X_y=True)


@pytest.fixture(scope="session")
def files(tmp_path_factory, iris):
    """Iris as tables and arrays, with a metric and constraints."""
    folder = tmp_path_factory.mktemp("files")
    X, y = iris
    table = pl.DataFrame(X, schema=NAMES).with_columns(
        pl.Series("species", np.array(["setosa", "versicolor", "virginica"])[y]),
        pl.Series("name", [f"flower {i}" for i in range(150)]),
    )
    table.write_csv(folder / "iris.csv")
    table.write_csv(folder / "iris.tsv", separator="\t")
    table.write_parquet(folder / "iris.parquet")
    np.save(folder / "rows.npy", X)
    np.save(folder / "labels.npy", y)
    np.savez(folder / "both.npz", X=X, y=y, other=y % 2)
    metric = BoostMetric(max_iter=5).fit(X, y).metric_
    metric.named(NAMES).save(folder / "metric.safetensors")
    parts = [Metric(np.diag([1.0, 2.0, 3.0, 4.0])), Metric(np.diag([4.0, 3.0, 2.0, 1.0]))]
    gated = GatedMetric(parts, [[1.0, 0, 0, 0], [-1.0, 0, 0, 0]], [-5.0, 5.0])
    gated.save(folder / "gated.safetensors")
    i, j = np.random.default_rng(0).integers(150, size=(2, 300))
    i, j = i[i != j], j[i != j]
    pl.DataFrame({"a": i, "b": j, "similar": y[i] == y[j]}).write_csv(folder / "pairs.csv")
    near, far = (i // 50) * 50 + (i + 1) % 50, (i + 50) % 150
    pl.DataFrame({"anchor": i, "near": near, "far": far}).write_csv(folder / "triplets.csv")
    return folder


@pytest.fixture
def folder(files, tmp_path, monkeypatch):
    """A working directory with copies of the files."""
    for path in files.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NEARFAR_DATA", raising=False)
    return tmp_path


@pytest.fixture
def run(folder):
    def call(*arguments, code=0):
        result = CliRunner().invoke(app, [str(a) for a in arguments], env={"COLUMNS": "120"})
        assert code in (None, result.exit_code), result.output
        assert "Traceback" not in result.output
        return result

    return call


@pytest.fixture
def fail(run):
    """Run a command that fails, and return the one line that it prints."""

    def call(*arguments):
        result = run(*arguments, code=2)
        assert result.stderr.startswith("nearfar: ")
        assert result.stderr.count("\n") == 1
        return result.stderr

    return call
