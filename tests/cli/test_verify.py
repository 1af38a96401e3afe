from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from nearfar import Metric, Pairs, measures
from nearfar.metrics.training_facts import save_learned
from verification.populations import all_pairs, population

VERIFY = ["verify", "metric.safetensors", "rows.npy"]


def test_a_threshold_from_known_pairs(document, iris):
    found = document(*VERIFY, "pairs.csv")
    table = pl.read_csv("pairs.csv")
    pairs = Pairs(table.select("a", "b").to_numpy(), table["similar"].to_numpy())
    expected = measures.verification(Metric.load("metric.safetensors"), iris[0], pairs)
    assert found["threshold"] == expected.accuracy_threshold
    assert found["accuracy"] < expected.accuracy
    assert found["auc"] == expected.auc
    assert (found["criterion"], found["chosen_here"]) == ("accuracy", True)


def halves():
    table = pl.read_csv("pairs.csv")
    table[:150].write_csv("first.csv")
    table[150:].write_csv("second.csv")


def test_the_threshold_is_kept_for_other_pairs(document, run, iris):
    halves()
    before = Metric.load("metric.safetensors")
    first = document(*VERIFY, "first.csv")
    np.testing.assert_array_equal(Metric.load("metric.safetensors").L, before.L)
    second = document(*VERIFY, "second.csv")
    assert second["threshold"] == first["threshold"]
    assert not second["chosen_here"]
    table = pl.read_csv("second.csv")
    distances = before.pair_distances(iris[0], table.select("a", "b").to_numpy())
    right = (distances <= first["threshold"]) == table["similar"].to_numpy()
    assert second["accuracy"] == pytest.approx(right.mean())
    table.drop("similar").write_csv("asked.csv")
    assert document(*VERIFY, "asked.csv")["threshold"] == first["threshold"]
    assert f"Threshold for pairs: {first['threshold']:.6g}" in run("show", VERIFY[1]).stdout


def test_the_same_pairs_again_are_not_tested_on_their_own_threshold(document):
    one, two = (document(*VERIFY, "pairs.csv") for _ in range(2))
    assert one == two


def test_the_file_keeps_what_it_had(document, run):
    run("learn", "rows.npy", "--label", "labels.npy", "--method", "lda", "--write")
    document("verify", "rows.safetensors", "rows.npy", "pairs.csv")
    assert document("show", "rows.safetensors")["standardised"]


def test_a_given_threshold(run):
    pl.read_csv("pairs.csv").drop("similar").write_csv("asked.csv")
    run(*VERIFY, "asked.csv", "--threshold", 0.7, "--out", "out.csv")
    table = pl.read_csv("out.csv")
    assert ((table["distance"] <= 0.7) == table["same"]).all()


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


def test_a_threshold_that_cannot_be_saved(run, monkeypatch):
    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("nearfar.tables.verify.save_threshold", refuse)
    result = run(*VERIFY, "pairs.csv")
    assert "not saved in metric.safetensors: Permission denied" in result.stderr
    assert "Threshold saved" not in result.stdout


def test_no_pair_is_the_same(document, run):
    pl.DataFrame({"a": [0, 1], "b": [100, 2], "similar": [True, False]}).write_csv("few.csv")
    found = document(*VERIFY, "few.csv")
    assert (found["threshold"], found["same"], found["accuracy"]) == (None, 0, None)
    assert not document(*VERIFY, "pairs.csv")["chosen_here"]
    assert "Threshold for pairs: -inf" in run("show", VERIFY[1]).stdout
    assert "too few pairs to test" in run(*VERIFY, "few.csv").stderr


def test_a_damaged_threshold(fail):
    Metric.identity(4).save("bad", metadata={"threshold": '{"value": "x"}'})
    assert "damaged entry 'threshold'" in fail("verify", "bad", "rows.npy", "pairs.csv")


@pytest.fixture
def people(folder):
    """Pairs of 60 persons, and a metric that did not see them."""
    X, y = population(60, 3, np.random.default_rng(0))
    np.save("people.npy", X)
    Metric.identity(8).save("people.safetensors")
    pairs = all_pairs(y)
    table = {"a": pairs.index[:, 0], "b": pairs.index[:, 1], "similar": pairs.similar}
    kept = pairs.similar | (np.arange(len(pairs)) % 4 == 0)
    pl.DataFrame(table).filter(kept).write_csv("known.csv")
    return ["verify", "people.safetensors", "people.npy", "known.csv"]


@pytest.mark.slow
@pytest.mark.parametrize("target", ["fmr<=0.03", "recall>=0.8", "precision>=0.9"])
def test_a_target(document, run, people, target):
    options = ["--target", target, "--prevalence", 0.5, "--confidence", 0.9]
    found = document(*people, *options)
    assert (found["criterion"], found["chosen_here"], found["saved"]) == (target, True, True)
    point = found["target"]
    assert (point["confidence"], point["prevalence"], point["n_classes"]) == (0.9, 0.5, 60)
    assert found["threshold"] == point["threshold"]
    side = "at most" if target.startswith("fmr") else "at least"
    text = run(*people, *options).stdout
    assert f"{target} is certified with 90 % confidence: {point['estimate']:.4g}, {side}" in text
    assert "pairs of 60 classes: false match rate" in text
    assert not document(*people)["chosen_here"]
    assert document(*people)["threshold"] == point["threshold"]


@pytest.mark.parametrize("target", ["recall>=0.8", "fmr<=0.2"])
def test_rows_that_the_metric_was_learned_from_certify_nothing(run, fail, people, target):
    """The file has digests of what it was learned from."""
    X = np.load("people.npy")
    save_learned(Metric.identity(8), Path("people.safetensors"), X[::3])
    before = Path("people.safetensors").read_bytes()
    assert "the metric was learned from 33 % of these rows" in fail(*people, "--target", target)
    assert Path("people.safetensors").read_bytes() == before
    assert "learned from 33 %" in " ".join(run(*people).stderr.split())
    save_learned(Metric.identity(8), Path("people.safetensors"), X + 1.0)
    assert "learned from" not in run(*people, "--target", "fmr<=0.2").stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--target", "fmr<=1e-6"], "cannot be certified at 95 % confidence with 60 classes"),
        (["--target", "luck"], "target must be"),
        (["--target", "fmr<=0.2", "--threshold", 1], "Give only one of"),
        (["--target", "fmr<=0.2", "--confidence", 1], "--confidence must be"),
        (["--target", "fmr<=0.2", "--prevalence", 0], "--prevalence must be"),
    ],
)
def test_targets_that_are_refused(fail, people, options, message):
    assert message in fail(*people, *options)


def test_labels_are_the_classes(document, fail, people):
    """Pairs that join few rows of a person look like more persons than there are."""
    table = pl.read_csv("known.csv")
    table.filter(~pl.col("similar") | (pl.col("a") % 3 == 0) & (pl.col("b") % 3 == 1)).write_csv(
        "known.csv"
    )
    np.save("persons.npy", np.repeat(np.arange(60), 3))
    classes = [
        document(*people, "--target", "fmr<=0.2", *label)["target"]["n_classes"]
        for label in ([], ["--label", "persons.npy"])
    ]
    assert classes == [120, 60]


def test_a_target_needs_known_pairs(fail, people):
    pl.read_csv("known.csv").drop("similar").write_csv("asked.csv")
    assert "--target needs pairs with a column" in fail(
        *people[:3], "asked.csv", "--target", "fmr<=0.2"
    )
