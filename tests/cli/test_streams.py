"""Rows from stdin, and tables to stdout."""

from __future__ import annotations

import gzip
import io
import json
import tempfile
from pathlib import Path

import polars as pl
import pytest
from click.testing import CliRunner

from nearfar.command import app


@pytest.fixture
def pipe(folder, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(folder / "scratch"))
    (folder / "scratch").mkdir()

    def call(source, *arguments):
        content = Path(source).read_bytes()
        result = CliRunner().invoke(app, [str(a) for a in arguments], input=content)
        assert result.exit_code == 0, result.output
        assert not list((folder / "scratch").iterdir())
        return result

    return call


@pytest.mark.parametrize(
    "source",
    [
        "iris.csv",
        "iris.csv.gz",
        "iris.parquet",
        "iris.feather",
        "iris.jsonl",
        "rows.npy",
        "both.npz",
    ],
)
def test_every_format_through_a_pipe(pipe, source):
    pl.read_csv("iris.csv").write_ndjson("iris.jsonl")
    pl.read_csv("iris.csv").write_ipc("iris.feather")
    Path("iris.csv.gz").write_bytes(gzip.compress(Path("iris.csv").read_bytes()))
    result = pipe(source, "neighbors", "metric.safetensors", "-", "--row", "3", "--json")
    expected = CliRunner().invoke(
        app, ["neighbors", "metric.safetensors", source, "--row", "3", "--json"]
    )
    assert json.loads(result.stdout) == json.loads(expected.stdout)


def test_learn_from_stdin(pipe):
    options = ["--label", "species", "--method", "lda", "--write"]
    result = pipe("iris.csv", "learn", "-", *options)
    assert "stdin: 150 rows x 4 features" in result.stdout
    assert "Next: nearfar predict stdin.safetensors - NEW.csv --label species" in result.stdout
    assert Path("stdin.safetensors").exists()


def test_transform_to_stdout(pipe):
    result = pipe("iris.csv", "transform", "metric.safetensors", "-", "-", "--id", "name")
    table = pl.read_csv(io.BytesIO(result.stdout_bytes))
    assert table.shape == (150, 5)
    assert "Mapped 150 rows" in result.stderr


def test_neighbors_to_stdout(pipe):
    options = ["--queries", "-", "--id", "name", "--neighbors", "1", "--out", "-"]
    result = pipe("iris.csv", "neighbors", "metric.safetensors", "iris.csv", *options)
    table = pl.read_csv(io.BytesIO(result.stdout_bytes))
    assert (table["query"] == table["neighbor"]).sum() > 140
    assert "written to stdout" in result.stderr


def test_messages_return_to_stdout(pipe):
    pipe("iris.csv", "transform", "metric.safetensors", "-", "-", "--id", "name")
    result = pipe("iris.csv", "transform", "metric.safetensors", "-", "out.csv")
    assert "Mapped 150 rows" in result.stdout
