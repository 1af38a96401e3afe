"""Code of reports: it runs on the rows at hand, or is not there."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner
from sklearn.datasets import load_wine

from cli.customers import customers
from nearfar import Metric
from nearfar.command import app
from nearfar.tables.report_sections import reading_code, usage_section, without_nearfar
from studies import wine_study, wines

X, Y = load_wine(return_X_y=True)
TITLE = "<h3>Without nearfar</h3>"


def report(*arguments):
    options = ["--method", "lda", "--goal", "ranking", "--out", "page.html"]
    result = CliRunner().invoke(app, ["report", *arguments, *options])
    assert result.exit_code == 0, result.output
    return Path("page.html").read_text(encoding="utf-8")


def code_below(page, title):
    found = re.search(rf"{title}\s*<pre><code>(.*?)</code>", page, re.DOTALL)
    return html.unescape(found[1])


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("ending", ["csv", "parquet", "npz"])
@pytest.mark.usefixtures("plain_figures")
def test_it_maps_the_rows_at_hand(ending):
    names = [f"column {j}" for j in range(13)]
    table = pl.DataFrame(X, schema=names).with_columns(pl.Series("grower", Y))
    source = f"my wines.{ending}"
    label = ["--label", "grower"]
    if ending == "csv":
        pytest.importorskip("pandas")
        table.write_csv(source)
    elif ending == "parquet":
        pytest.importorskip("pandas")
        table.write_parquet(source)
    else:
        np.savez(source, X=X, y=Y)
        label = []
    page = report(source, *label)
    scope = {}
    exec(code_below(page, TITLE), scope)
    expected = Metric.load("page-metric.safetensors").transform(X)
    np.testing.assert_allclose(scope["mapped"], expected)
    assert "nearfar" not in code_below(page, TITLE)
    assert f"nearfar transform page-metric.safetensors 'my wines.{ending}' mapped" in code_below(
        page, "<h3>Shell</h3>"
    )


@pytest.mark.parametrize(("found", "ending"), [(None, ".csv"), (object(), ".parquet")])
def test_parquet_is_suggested_if_its_package_is_installed(monkeypatch, found, ending):
    monkeypatch.setattr("nearfar.runtime.messages.find_spec", lambda name: found)
    assert f" mapped{ending}\n" in usage_section(wine_study()).blocks[1].text


def test_rows_of_unit_length():
    metric = Metric(np.eye(13)[:4], unit_rows=True)
    metric.save("unit.safetensors")
    code = without_nearfar(replace(wine_study(), metric=metric, metric_file="unit.safetensors"))
    scope = {"X": X}
    exec(code, scope)
    np.testing.assert_allclose(scope["mapped"], metric.transform(X))


@pytest.mark.usefixtures("plain_figures")
def test_it_is_not_there_if_columns_need_more_than_reading():
    customers().write_csv("customers.csv")
    page = report("customers.csv", "--label", "segment")
    assert TITLE not in page
    assert "metric.transform(table)" in page


def test_it_is_not_there_for_a_kernel_or_a_dataset_by_name(report_file):
    assert TITLE not in report_file("kernel").read_text()
    assert TITLE not in report_file("gated").read_text()
    assert reading_code("iris") is None
    study = replace(wine_study(), table=replace(wines(), source="wine"))
    assert without_nearfar(study) is None
    assert [block.title for block in usage_section(study).blocks] == ["Python", "Shell"]


def test_text_files_with_other_separators_are_not_read_by_it():
    table = pl.DataFrame({"a": [1, 2], "b": [3, 4]})
    table.write_csv("plain.csv")
    table.write_csv("other.csv", separator=";")
    assert "read_csv('plain.csv')" in reading_code("plain.csv")
    assert reading_code("other.csv") is None


def test_ids_are_named_in_commands():
    Path("wine.csv").write_text("a,b\n")
    table = replace(wines(), source="wine.csv", id_column="the name")
    shell = usage_section(replace(wine_study(), table=table)).blocks[1].text
    assert "nearfar neighbors wine.safetensors wine.csv --id 'the name'" in shell
