"""The command `nearfar report`."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from sklearn.datasets import load_digits, load_iris, load_wine
from typer.testing import CliRunner

from nearfar import Metric
from nearfar.cli.app import app


class TestCommand:
    @pytest.fixture
    def run(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)

        def call(*arguments, code=0):
            result = CliRunner().invoke(app, ["report", *map(str, arguments)])
            assert result.exit_code == code, result.output
            return result

        return call

    def test_auto(self, run, tmp_path):
        result = run("iris", "--budget", "600s", "--folds", 2)
        assert "written to iris.html" in result.stdout
        assert "Metric written to iris-metric.safetensors" in result.stdout
        assert (tmp_path / "iris.html").exists()
        assert Metric.load("iris-metric.safetensors").n_features == 4

    def test_without_time(self, run, tmp_path):
        result = run("iris", "--budget", "0s", "--folds", 2, code=2)
        assert "There was no time to try AutoMetric; increase --budget." in result.stderr
        assert not list(tmp_path.glob("iris*"))

    def test_of_an_existing_metric(self, run, tmp_path):
        Metric(np.diag([1.0, 2, 3, 4])).save("mine.safetensors")
        X, y = load_iris(return_X_y=True)
        np.savez("table.npz", X=X[::5], y=y[::5])
        run("table.npz", "--metric", "mine.safetensors", "--budget", "600s", "--folds", 2)
        assert "Metric.load(&#39;mine.safetensors&#39;)" in (tmp_path / "table.html").read_text()
        assert not (tmp_path / "table-metric.safetensors").exists()

    def test_images(self, run, tmp_path):
        X, y = load_digits(return_X_y=True)
        np.savez("digits.npz", X=X[:100], y=y[:100])
        options = ["--method", "dr", "--image-shape", "8x8", "--folds", 2]
        run("digits.npz", *options, "--out", "images.html")
        assert "data:image/png;base64" in (tmp_path / "images.html").read_text()

    def test_texts(self, run, tmp_path):
        X, y = load_wine(return_X_y=True)
        table = pl.DataFrame(X).with_columns(
            pl.Series("y", y), pl.Series("story", [f"story {i}" for i in range(len(y))])
        )
        table.write_csv("wine.csv")
        options = ["--label", "y", "--text", "story", "--method", "dr", "--folds", 2]
        run("wine.csv", *options)
        assert "story 17" in (tmp_path / "wine.html").read_text()

    @pytest.mark.parametrize("kind", ["triplets", "pairs"])
    def test_judgements(self, run, tmp_path, kind):
        X, _ = load_iris(return_X_y=True)
        pl.DataFrame(X, schema=list("abcd")).write_csv("iris.csv")
        i = np.arange(150)
        near, far = (i // 50) * 50 + (i + 1) % 50, (i + 50) % 150
        triplets = pl.DataFrame({"anchor": i, "near": near, "far": far})
        similar = np.repeat([True, False], 150)
        pairs = pl.DataFrame(
            {"a": np.tile(i, 2), "b": np.concatenate([near, far]), "similar": similar}
        )
        {"triplets": triplets, "pairs": pairs}[kind].write_csv("known.csv")
        result = run("iris.csv", f"--{kind}", "known.csv", "--method", "lsml")
        assert "Report on LSML written to iris.html" in result.stdout
        text = (tmp_path / "iris.html").read_text()
        known = {"triplets": "150 triplets of 150 rows, with 150 anchors."}
        known["pairs"] = "300 pairs of 150 rows: 150 similar, 150 dissimilar."
        assert known[kind] in text
        assert f"held-out {kind}" in text
        assert "Which features matter" in text
        assert "classes" not in text
        assert Metric.load("iris-metric.safetensors").feature_names == tuple("abcd")
        best = run("iris.csv", f"--{kind}", "known.csv", "--method", "best", "--budget", "20s")
        assert "Report on " in best.stdout

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (["--image-shape", "3x3"], "4 pixels"),
            (["--image-shape", "big"], "HEIGHTxWIDTH"),
            (["--out", "report.pdf"], ".html"),
            (["--out", "no/report.html"], "no folder"),
            (["--method", "magic"], "no method"),
        ],
    )
    def test_errors(self, run, options, message):
        assert message in run("iris", "--folds", 2, *options, code=2).stderr
