from __future__ import annotations

import polars as pl

from nearfar import Metric, evaluate


def test_labels_triplets_and_pairs(document, iris):
    options = ["both.npz", "--triplets", "triplets.csv", "--pairs", "pairs.csv"]
    found = document("evaluate", "metric.safetensors", *options)
    assert list(found) == ["learned", "Euclidean (standardised)", "Euclidean (unscaled)"]
    learned = found["learned"]
    metric = Metric.load("metric.safetensors")
    assert learned["3-NN error"] == evaluate.leave_one_out_error(metric, *iris)
    assert learned["MAP@R"] == evaluate.map_at_r(metric, *iris)
    triplets = pl.read_csv("triplets.csv").to_numpy()
    expected = evaluate.triplet_accuracy(metric, iris[0], triplets)
    assert learned["triplets correct"] == expected
    assert set(learned) >= {"pairs, AUC", "pairs, equal error rate", "precision at 1"}


def test_on_the_terminal(run):
    result = run("evaluate", "metric.safetensors", "iris.csv", "--label", "species")
    assert "iris: 150 rows" in result.stdout
    assert "3-NN error" in result.stdout


def test_something_to_evaluate_on(fail):
    message = fail("evaluate", "metric.safetensors", "rows.npy")
    assert "--label, --triplets or --pairs" in message
