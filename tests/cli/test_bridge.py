"""``nearfar bridge``, and other commands with its file."""

from __future__ import annotations

import numpy as np
import onnxruntime
import polars as pl
import pytest

from nearfar import Bridge
from nearfar.workflow.bridging import learn_bridge


@pytest.fixture
def vectors(folder):
    """Vectors of 400 old items, and new ones of 150 of them, in another order."""
    rng = np.random.default_rng(0)
    old = rng.standard_normal((400, 6))
    rows = rng.permutation(400)[:150]
    new = (old @ rng.standard_normal((6, 8)))[rows]
    names = np.array([f"d{row}" for row in range(400)])
    pl.DataFrame({"id": names, "emb": old}).write_parquet("old.parquet")
    pl.DataFrame({"id": names[rows], "emb": new}).write_parquet("new.parquet")
    return new, old, rows


def test_items_are_matched_by_id(run, document, vectors):
    new, old, rows = vectors
    found = document("bridge", "new.parquet", "old.parquet", "--id", "id", "--out", "b")
    expected = Bridge(random_state=0).fit(new, old[rows], index=old)
    assert found["form"] == expected.form_
    assert found["recall"] == vars(expected.recall_)
    assert found["recall"]["n_searched"] == 400
    np.testing.assert_allclose(Bridge.load("b").transform(new), old[rows], atol=1e-8)
    said = run("bridge", "new.parquet", "old.parquet", "--id", "id", "--out", "b")
    assert "of their 10 nearest of 400 old vectors" in said.stdout


def test_rows_in_the_same_order(run, fail, vectors):
    new, old, rows = vectors
    np.save("new.npy", new)
    np.save("old.npy", old[rows])
    np.save("index.npy", old)
    alone = run("bridge", "new.npy", "old.npy", "--out", "b")
    assert "give all old vectors as index" in alone.stderr
    among = run("bridge", "new.npy", "old.npy", "--index", "index.npy", "--out", "b")
    assert "nearest of 400 old" in among.stdout
    assert "as index" not in among.stderr
    assert "150 rows and index.npy 400" in fail("bridge", "new.npy", "index.npy")


def test_new_items_without_an_old_vector(run, vectors):
    pl.read_parquet("old.parquet").head(300).write_parquet("less.parquet")
    said = run("bridge", "new.parquet", "less.parquet", "--id", "id", "--out", "b").stderr
    assert "of 150 new vectors have an old one of the same id" in said


def test_ids_in_common(fail, vectors):
    table = pl.read_parquet("new.parquet")
    table.with_columns(id="x" + table["id"]).write_parquet("other.parquet")
    said = fail("bridge", "other.parquet", "old.parquet", "--id", "id")
    assert "No id of other.parquet is in old.parquet (such as xd" in said


def test_queries_have_a_figure_of_their_own(run, document, vectors):
    command = ["bridge", "new.parquet", "old.parquet", "--id", "id", "--out", "b"]
    unmeasured = "Queries were not measured: embed some hundred of them with both models"
    assert unmeasured in run(*command).stdout
    assert unmeasured in run("show", "b").stdout
    rng = np.random.default_rng(1)
    names = [f"q{i}" for i in range(60)]
    for name, width in (("new_q", 8), ("old_q", 6)):
        table = pl.DataFrame({"id": names, "emb": rng.standard_normal((60, width))})
        table.sample(fraction=1, shuffle=True, seed=width).write_parquet(f"{name}.parquet")
    said = run(*command, "--queries", "new_q.parquet", "old_q.parquet")
    assert "Mapped queries find" in said.stdout
    assert "less than half of the neighbours are found; embed more queries" in said.stderr
    shown = run("show", "b").stdout
    assert "Mapped queries find" in shown
    assert unmeasured not in shown
    assert document("show", "b")["query_recall"]["n_items"] == 60


def test_a_bridge_that_keeps_little_is_warned_of(run, folder):
    rng = np.random.default_rng(0)
    np.save("new.npy", rng.standard_normal((200, 4)))
    np.save("old.npy", rng.standard_normal((200, 4)))
    said = run("bridge", "new.npy", "old.npy", "--out", "b").stderr
    assert "less than half of the neighbours are found" in said


def test_other_commands_take_its_file(run, document, fail, vectors):
    new, old, rows = vectors
    bridge = learn_bridge("new.parquet", "old.parquet", ids="id")
    bridge.save("b.safetensors")
    shown = document("show", "b.safetensors")
    assert (shown["kind"], shown["n_features"], shown["n_components"]) == ("bridge", 8, 6)
    assert "8 features to 6 coordinates" in run("show", "b.safetensors").stdout
    run("transform", "b.safetensors", "new.parquet", "mapped.npy", "--vector", "emb")
    np.testing.assert_allclose(np.load("mapped.npy"), old[rows], atol=1e-8)
    run("export", "b.safetensors", "--to", "onnx", "--out", "b.onnx")
    session = onnxruntime.InferenceSession("b.onnx", providers=["CPUExecutionProvider"])
    (mapped,) = session.run(["mapped"], {"X": new.astype(np.float32)})
    np.testing.assert_allclose(mapped, old[rows], atol=1e-3)
    run("export", "b.safetensors", "--to", "numpy", "--out", "b_map.py")
    assert "A bridge is a map" in fail("export", "b.safetensors", "--to", "sql", "--out", "b.sql")
    assert "a bridge between models, not a metric" in fail("neighbors", "b.safetensors", "new.npy")
    assert "--documents is for adapters" in fail(
        "transform", "b.safetensors", "new.parquet", "x.npy", "--documents"
    )
