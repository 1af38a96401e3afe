"""The command `nearfar report`."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner
from PIL import Image
from sklearn.datasets import load_digits, load_iris, load_wine

from cli.customers import customers
from nearfar import Metric
from nearfar.command import app


def write_judgements(kind):
    """Write iris without its labels, and triplets or pairs of its rows."""
    X, _ = load_iris(return_X_y=True)
    pl.DataFrame(X, schema=list("abcd")).write_csv("iris.csv")
    i = np.arange(150)
    near, far = (i // 50) * 50 + (i + 1) % 50, (i + 50) % 150
    triplets = pl.DataFrame({"anchor": i, "near": near, "far": far})
    similar = np.repeat([True, False], 150)
    pairs = pl.DataFrame({"a": np.tile(i, 2), "b": np.concatenate([near, far]), "similar": similar})
    {"triplets": triplets, "pairs": pairs}[kind].write_csv("known.csv")


class TestCommand:
    @pytest.fixture
    def run(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)

        def call(*arguments, code=0):
            result = CliRunner().invoke(app, ["report", *map(str, arguments)])
            assert result.exit_code == code, result.output
            return result

        return call

    @pytest.mark.slow
    def test_auto(self, run, tmp_path):
        result = run("iris", "--budget", "600s", "--goal", "ranking")
        assert "written to iris.html" in result.stdout
        assert "Metric written to iris-metric.safetensors" in result.stdout
        assert (tmp_path / "iris.html").exists()
        assert Metric.load("iris-metric.safetensors").n_features == 4

    @pytest.mark.usefixtures("plain_figures")
    def test_what_columns_became(self, run, tmp_path):
        table = customers()
        table = table.with_columns(leak=pl.col("segment").cast(pl.Categorical).to_physical())
        table = table.with_columns(
            segment=pl.when(pl.int_range(pl.len()) > 3).then(pl.col("segment"))
        )
        table = pl.concat([table, table[-40:]])
        ids = pl.Series("customer_id", [f"C-{row:04d}" for row in range(len(table))])
        table.with_columns(ids).write_csv(tmp_path / "customers.csv")
        options = ["--label", "segment", "--method", "lda", "--title", "Whom to call"]
        printed = run("customers.csv", *options, "--json")
        page = (tmp_path / "customers.html").read_text()
        header, rest = page.split("</header>")
        notes = json.loads(printed.stdout)["notes"]
        assert "leaks the label" in notes[0]
        for text in (
            "leaks the label",
            "Left out 4 rows without a label",
            "left out customer_id (looks like ids)",
            "rows are equal to earlier rows",
        ):
            assert text in header
            assert any(text in note for note in notes)
        assert "<h1>Whom to call</h1>" in header
        assert "category, 4 levels" in rest
        assert "left out: looks like ids" in rest
        directions = rest.partition("Leading directions")[2].partition("</ol>")[0]
        assert "joined" in directions
        assert "joined (" not in directions
        assert "Which columns matter" in page

    @pytest.mark.slow
    def test_why_and_by_which_command(self, run, tmp_path):
        X, y = load_iris(return_X_y=True)
        np.savez("my table.npz", X=X[::3], y=y[::3])
        run("my table.npz", "--method", "dr", "--budget", "600s", "--out", "a.html")
        text = (tmp_path / "a.html").read_text()
        assert "DRMetric" in text
        command = "nearfar report &#39;my table.npz&#39; --out a.html --method dr --budget 600s"
        assert f"<code>{command}</code>" in text

    @pytest.mark.slow
    def test_of_an_existing_metric(self, run, tmp_path):
        Metric(np.diag([1.0, 2, 3, 4])).save("mine.safetensors")
        X, y = load_iris(return_X_y=True)
        np.savez("table.npz", X=X[::5], y=y[::5])
        run("table.npz", "--metric", "mine.safetensors", "--budget", "600s")
        text = (tmp_path / "table.html").read_text()
        assert "Metric.load(&#39;mine.safetensors&#39;)" in text
        assert not (tmp_path / "table-metric.safetensors").exists()
        run("table.npz", "--metric", "mine.safetensors", "--budget", "0s")

    @pytest.mark.usefixtures("plain_figures")
    def test_images(self, run, tmp_path):
        X, y = load_digits(return_X_y=True)
        np.savez("digits.npz", X=X[:100], y=y[:100])
        options = ["--method", "dr", "--image-shape", "8x8"]
        run("digits.npz", *options, "--out", "images.html")
        assert "data:image/png;base64" in (tmp_path / "images.html").read_text()

    @pytest.mark.usefixtures("plain_figures")
    def test_pictures(self, run, tmp_path):
        X, y = load_iris(return_X_y=True)
        (tmp_path / "pictures").mkdir()
        for row in range(0, 150, 3):
            Image.new("RGB", (9, 9)).save(tmp_path / "pictures" / f"{row}.png")
        table = pl.DataFrame(X[::3], schema=list("abcd")).with_columns(
            pl.Series("y", y[::3]),
            pl.Series("row", range(0, 150, 3)),
            pl.Series("file", [f"pictures/{row}.png" for row in range(0, 150, 3)]),
        )
        table.write_csv("iris.csv")
        options = ["--label", "y", "--method", "lda", "--goal", "ranking"]
        run("iris.csv", *options, "--drop", "row", "--image", "file")
        assert (tmp_path / "iris.html").read_text().count("data:image/webp;base64") == 44
        assert Metric.load("iris-metric.safetensors").feature_names == tuple("abcd")
        named = ["--drop", "file", "--id", "row"]
        run("iris.csv", *options, *named, "--pictures", "pictures", "--out", "named.html")
        assert (tmp_path / "named.html").read_text().count("data:image/webp;base64") == 44
        assert Metric.load("named-metric.safetensors").feature_names == tuple("abcd")
        (tmp_path / "pictures" / "30.png").unlink()
        for wrong, message in (
            (["--image", "file"], "no picture 'pictures/30.png'"),
            ([*named, "--pictures", "pictures"], "no picture '30'"),
            ([*named, "--pictures", "none"], "no folder none"),
            (["--pictures", "pictures"], "names of pictures with --id, or --image"),
        ):
            found = run("iris.csv", *options, *wrong, code=2)
            assert message in " ".join(found.stderr.split())

    @pytest.mark.slow
    def test_texts(self, run, tmp_path):
        X, y = load_wine(return_X_y=True)
        table = pl.DataFrame(X).with_columns(
            pl.Series("y", y), pl.Series("story", [f"story {i}" for i in range(len(y))])
        )
        table.write_csv("wine.csv")
        options = ["--label", "y", "--show", "story", "--method", "dr"]
        run("wine.csv", *options)
        assert "story 17" in (tmp_path / "wine.html").read_text()

    @pytest.mark.slow
    @pytest.mark.parametrize("kind", ["triplets", "pairs"])
    def test_judgements(self, run, tmp_path, kind):
        write_judgements(kind)
        result = run("iris.csv", f"--{kind}", "known.csv", "--method", "lsml")
        assert "Report on LSML written to iris.html" in result.stdout
        text = (tmp_path / "iris.html").read_text()
        known = {"triplets": "150 triplets of 150 rows, with 150 anchors."}
        known["pairs"] = "300 pairs of 150 rows: 150 similar, 150 dissimilar."
        assert known[kind] in text
        assert f"held-out {kind}" in text
        assert "Which features matter" in text
        assert "classes" not in text
        # Only a metric that helps is written.
        assert (tmp_path / "iris-metric.safetensors").exists() == (kind == "pairs")

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (["--image-shape", "3x3"], "4 pixels"),
            (["--image-shape", "big"], "HEIGHTxWIDTH"),
            (["--out", "report.pdf"], ".html"),
            (["--out", "no/report.html"], "no folder"),
            (["--method", "magic"], "no method"),
            (["--image", "file"], "Only tables"),
        ],
    )
    def test_errors(self, run, options, message):
        assert message in run("iris", *options, code=2).stderr
