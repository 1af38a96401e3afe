from __future__ import annotations

from pathlib import Path

import duckdb
import faiss
import numpy as np
import onnxruntime
import polars as pl
import pytest

from nearfar import ForestMetric, Metric
from nearfar.columns import Columns


@pytest.fixture
def metric(folder):
    return Metric.load(folder / "metric.safetensors")


def test_faiss(run, document, metric, iris):
    result = run(
        "export", "metric.safetensors", "--to", "faiss", "--out", "i", "--rows", "iris.csv"
    )
    assert result.stdout.startswith("faiss index of 150 rows, 4 features to ")
    index = faiss.read_index("i")
    found = index.search(iris[0][:5].astype(np.float32), 3)[0]
    expected = np.sort(metric.distances(iris[0][:5], iris[0]) ** 2, axis=1)[:, :3]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    options = ["--to", "faiss", "--index", "hnsw", "--out", "i"]
    assert document("export", "metric.safetensors", *options)["rows"] == 0
    assert faiss.read_index("i").ntotal == 0


def test_a_forest(run, fail, iris):
    X, y = iris
    forest = ForestMetric(n_trees=10).fit(X, y).metric_.named("abcd")
    forest.save("forest.safetensors")

    def export(to, out, *options):
        return run("export", "forest.safetensors", "--to", to, "--out", out, *options).stdout

    shape = f"4 features to {forest.n_components} coordinates"
    assert export("numpy", "f.py") == f"Python module, {shape}, written to f.py\n"
    export("faiss", "i", "--rows", "iris.csv")
    mapped = forest.transform(X).astype(np.float32)
    distances = faiss.read_index("i").search(mapped[:5], 1)[0]
    np.testing.assert_allclose(distances, 0, atol=1e-6)
    assert 'form="linear"' in fail("export", "forest.safetensors", "--to", "sql", "--out", "m.sql")


def test_onnx(run, metric, iris):
    assert (
        "ONNX model"
        in run("export", "metric.safetensors", "--to", "onnx", "--out", "m.onnx").stdout
    )
    session = onnxruntime.InferenceSession("m.onnx", providers=["CPUExecutionProvider"])
    X = iris[0].astype(np.float32)
    found = session.run(None, {"X": X})[0]
    np.testing.assert_allclose(found, metric.transform(X), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["m.py", "m.npz"])
def test_numpy(run, metric, iris, name):
    run("export", "metric.safetensors", "--to", "numpy", "--out", name)
    if name == "m.npz":
        np.testing.assert_array_equal(np.load(name)["L"], metric.L)
        return
    module = {}
    exec(Path(name).read_text(), module)
    np.testing.assert_allclose(module["transform"](iris[0]), metric.transform(iris[0]))


def test_sql(run, metric, iris, folder):
    run("export", "metric.safetensors", "--to", "sql", "--out", "m.sql")
    expression = (folder / "m.sql").read_text()
    found = duckdb.sql(f"SELECT {expression} FROM 'iris.csv'").fetchall()
    np.testing.assert_allclose([row[0] for row in found], metric.transform(iris[0]))
    run("export", "metric.safetensors", "--to", "sql", "--table", "flowers", "--out", "m.sql")
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE flowers AS SELECT * FROM 'iris.csv'")
        statements, _, order = (folder / "m.sql").read_text().partition("-- ORDER BY ")
        connection.execute(statements)
        query = iris[0][7]
        names = connection.execute(
            f"SELECT name FROM flowers ORDER BY {order} LIMIT 4", {"query": query.tolist()}
        ).fetchall()
    nearest = np.argsort(metric.distances([query], iris[0])[0], kind="stable")[:4]
    assert {name for (name,) in names} == {f"flower {i}" for i in nearest}


def test_tables_with_a_recipe(run, fail):
    table = pl.DataFrame({"age": [1.0, 2.0], "city": ["Bonn", "Ulm"]})
    columns = Columns().fit(table)
    Metric.identity(len(columns.feature_names)).with_columns(columns).save("recipe")
    assert "takes features" in run("export", "recipe", "--to", "onnx", "--out", "m.onnx").stderr
    result = run("export", "recipe", "--to", "sql", "--out", "m.sql", code=2)
    assert "name their column" in result.stderr


def test_errors(fail):
    def error(*options, metric="metric.safetensors"):
        return fail("export", metric, "--to", *options)

    assert "no file" in error("onnx", "--out", "m.onnx", metric="none")
    assert "use .onnx" in error("onnx", "--out", "m.txt")
    assert "--rows is for --to faiss" in error("onnx", "--out", "m.onnx", "--rows", "iris.csv")
    assert "several maps cannot be exported" in error(
        "onnx", "--out", "m.onnx", metric="gated.safetensors"
    )
    assert "dialect must be" in error("sql", "--out", "m.sql", "--dialect", "mysql")
    assert "trained on rows" in error("faiss", "--out", "i", "--index", "ivf")
    assert "is an input" in error("faiss", "--out", "metric.safetensors")
