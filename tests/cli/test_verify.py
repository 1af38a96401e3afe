from __future__ import annotations

import json

import polars as pl
import pytest

from nearfar import Metric, Pairs, evaluate

VERIFY = ["verify", "metric.safetensors", "rows.npy"]


def test_a_threshold_from_known_pairs(document, iris):
    found = document(*VERIFY, "pairs.csv")
    table = pl.read_csv("pairs.csv")
    pairs = Pairs(table.select("a", "b").to_numpy(), table["similar"].to_numpy())
    expected = evaluate.verification(Metric.load("metric.safetensors"), iris[0], pairs)
    assert found["threshold"] == expected.accuracy_threshold
    assert found["accuracy"] == pytest.approx(expected.accuracy)
    assert found["auc"] == expected.auc


def test_a_given_threshold(run):
    pl.read_csv("pairs.csv").drop("similar").write_csv("asked.csv")
    run(*VERIFY, "asked.csv", "--threshold", 0.7, "--out", "out.csv")
    table = pl.read_csv("out.csv")
    assert ((table["distance"] <= 0.7) == table["same"]).all()


@pytest.mark.parametrize("criterion", ["accuracy", "eer", "fpr"])
def test_criteria(run, criterion):
    result = run(*VERIFY, "pairs.csv", "--criterion", criterion, "--max-fpr", 0.05)
    assert "AUC" in result.stdout
    assert "These are the first 20" in result.stdout


def test_an_unknown_criterion(run):
    result = run(*VERIFY, "pairs.csv", "--criterion", "luck", code=2)
    assert "'luck' is not one of 'accuracy', 'eer', 'fpr'" in result.stderr


@pytest.mark.parametrize("threshold", ["nan", "-1", "inf"])
def test_thresholds_are_distances(fail, threshold):
    assert "distance of 0 or more" in fail(*VERIFY, "pairs.csv", "--threshold", threshold)


def test_a_threshold_is_needed(fail):
    pl.read_csv("pairs.csv").drop("similar").write_csv("asked.csv")
    assert "give --threshold" in fail(*VERIFY, "asked.csv")


@pytest.mark.parametrize("name", ["rows.npy", "pairs.csv", "metric.safetensors"])
def test_inputs_are_not_overwritten(run, folder, name):
    before = (folder / name).read_bytes()
    run(*VERIFY, "pairs.csv", "--out", name, code=2)
    assert (folder / name).read_bytes() == before


def test_json_has_null_where_there_is_no_number(run):
    pl.DataFrame({"a": [0, 1], "b": [100, 101], "similar": [True, False]}).write_csv("few.csv")
    text = run(*VERIFY, "few.csv", "--json").stdout
    assert "Infinity" not in text
    assert "NaN" not in text
    json.loads(text)
