"""The headline: two numbers, a badge, and why the report is about its method."""

from __future__ import annotations

import re

import numpy as np
import pytest
from sklearn.datasets import load_wine

from nearfar import BoostMetric, Metric, Triplets, compare, measures
from nearfar.comparison import Category, Comparison, MethodResult, default_methods
from nearfar.comparison.goals import compare_losses
from nearfar.metrics.training_facts import save_learned
from nearfar.tables.report import render
from nearfar.tables.report_headline import headlines, reason
from nearfar.tables.report_study import Study
from studies import boost, judgements_study, wine_study

X, Y = load_wine(return_X_y=True)


def held_out_study(**options):
    return Study("wine", X, Y, boost(X, Y).metric_, "BoostMetric", relearn=boost, **options)


def test_numbers_and_category_are_those_of_the_comparison():
    study = wine_study()
    first, second = headlines(study)
    goal = study.comparison.classification
    reference, result = goal.reference, study.comparison["BoostMetric"]
    assert first.before == f"{100 * reference.error:.1f} %"
    assert first.after == f"{100 * result.error:.1f} %"
    gain = goal.gains["BoostMetric"]
    assert f"Expected gain {100 * gain.gain:.1f} points" in first.gain
    assert second.measure == "MAP@R"
    assert second.after == f"{result.map_at_r:.3f}"
    assert second.badge == Category.CLEARLY_BETTER


def test_the_goal_that_the_method_was_chosen_for_comes_first():
    first, second = headlines(wine_study(goal="ranking"))
    assert first.measure == "MAP@R"
    assert first.basis == "Cross-validated on 2 folds."
    assert second.measure == "error"


def test_without_a_comparison_held_out_rows_decide():
    study = held_out_study()
    (headline,) = headlines(study)
    train, test = study.split
    metric = boost(X[train], Y[train]).metric_
    error = measures.knn_error(metric, X[train], Y[train], X[test], Y[test])
    assert headline.after == f"{100 * error:.1f} %"
    assert headline.reference == "Euclidean distance"
    assert headline.basis.endswith("Measured on 54 held-out rows.")


def test_a_metric_that_is_not_in_the_comparison_has_its_baseline():
    unscaled = compare(X / X.std(axis=0), Y, [], cv=2)
    assert unscaled.classification.reference.name == "Euclidean (standardised)"
    study = wine_study(comparison=unscaled, metric=Metric(np.eye(13)[:1]), relearn=None)
    (headline,) = headlines(study)
    assert study.baseline == "Euclidean (standardised)"
    assert headline.badge == Category.WORSE
    assert "Keep Euclidean distance" in headline.sentence
    assert "may have been learned from" in headline.basis


def test_a_metric_that_was_learned_from_these_rows(tmp_path):
    file = tmp_path / "wine.safetensors"
    save_learned(Metric(np.eye(13)[:1]), file, X)
    given = {"comparison": compare(X, Y, [], cv=2), "relearn": None, "metric_file": str(file)}
    (headline,) = headlines(wine_study(metric=Metric(np.eye(13)[:1]), **given))
    assert headline.basis.endswith(
        "Measured on 54 rows; the metric was learned from 100 % of them."
    )


@pytest.mark.usefixtures("plain_figures")
def test_the_same_baseline_everywhere():
    random = np.random.default_rng(0)
    Z = np.column_stack([X / X.std(axis=0), 0.01 * random.normal(size=(len(X), 20))])
    comparison = compare(Z, Y, [BoostMetric(max_iter=3)], cv=2)
    assert comparison.classification.reference.name == "Euclidean (unscaled)"
    study = wine_study(
        X=Z,
        comparison=comparison,
        metric=boost(Z, Y).metric_,
        feature_names=None,
    )
    assert list(study.metrics) == ["Euclidean (unscaled)", "BoostMetric"]
    np.testing.assert_array_equal(study.metrics["Euclidean (unscaled)"].L, np.eye(33))
    text = render(study)
    assert "error with Euclidean distance on unscaled rows" in text
    assert re.search(r"<figcaption>Euclidean \(unscaled\): \d+ % of the mean squared", text)
    assert text.count("<h4>Euclidean (unscaled)</h4>") == 4
    assert "<h4>Euclidean</h4>" not in text
    assert "<dd>Euclidean (unscaled)</dd>" in text


@pytest.mark.parametrize("kind", ["triplets", "pairs"])
def test_judgements(kind):
    study = judgements_study(kind)
    (headline,) = headlines(study)
    seen, unseen = study.judgement_split
    assert len(seen) + len(unseen) == len(study.y)
    metric = study.relearn(X, seen).metric_
    if kind == "triplets":
        assert headline.after == f"{100 * measures.triplet_accuracy(metric, X, unseen):.1f} %"
    else:
        assert headline.after == f"{measures.verification(metric, X, unseen).auc:.3f}"
    assert headline.basis == f"Measured on {len(unseen)} held-out {kind}."
    verdict = study.held_out.verdict
    assert headline.badge == verdict.category.text(kind)


def triplets_study(index, weight=None):
    """A report on a metric that is given, about triplets."""
    return Study("wine", X, Triplets(index, weight), Metric(np.eye(13)[:2]), "mine")


def test_weights_of_judgements_count(rng):
    index = np.array([rng.choice(len(X), 3, replace=False) for _ in range(300)])
    study = triplets_study(index, rng.uniform(0, 5, size=300))
    unseen = study.judgement_split[1]
    weighted = measures.triplet_accuracy(study.metric, X, unseen)
    assert abs(weighted - measures.triplet_accuracy(study.metric, X, unseen.index)) > 0.001
    (headline,) = headlines(study)
    assert headline.after == f"{100 * weighted:.1f} %"
    integers = rng.integers(1, 4, size=300)
    one, copies = (
        triplets_study(index, integers),
        triplets_study(np.repeat(index, integers, axis=0)),
    )
    assert one.held_out.gains["mine"].gain == pytest.approx(copies.held_out.gains["mine"].gain)


def test_judgements_of_one_anchor_are_not_independent(rng):
    anchors = rng.permutation(len(X))[:90]
    others = np.array(
        [rng.choice(np.setdiff1d(range(178), [a]), 2, replace=False) for a in anchors]
    )
    index = np.column_stack([anchors, others])
    once, ten_times = triplets_study(index), triplets_study(np.repeat(index, 10, axis=0))
    assert 10 * len(once.judgement_split[1]) == len(ten_times.judgement_split[1])
    intervals = [study.held_out.interval(study.held_out.results[-1]) for study in (once, ten_times)]
    assert intervals[0] == pytest.approx(intervals[1], abs=1e-9)
    gains = [study.held_out.gains["mine"] for study in (once, ten_times)]
    assert gains[0].probability == pytest.approx(gains[1].probability)


@pytest.mark.parametrize(
    ("n_before", "n_after", "category"),
    [
        (50, 10, Category.CLEARLY_BETTER),
        (50, 50, Category.SAME),
        (10, 60, Category.WORSE),
    ],
)
def test_categories(n_before, n_after, category):
    rows = np.arange(200)
    losses = {"Euclidean (standardised)": (rows < n_before).astype(float)}
    losses["mine"] = (rows < n_after).astype(float)
    found = compare_losses("classification", losses)
    assert found.verdict.category == category


def test_reason():
    asked = wine_study(reason="This report is about BoostMetric, as asked.")
    assert reason(asked) == "This report is about BoostMetric, as asked."
    assert reason(wine_study(comparison=None)) == "This report is about BoostMetric."


SENTENCES = {
    (50, 10, None): "mine improves on Euclidean distance.",
    (50, 10, 1): "mine improves on Euclidean distance. The comparison recommends LDA.",
    (50, 50, None): "Keep Euclidean distance: mine does not improve on it.",
    (10, 60, None): "Keep Euclidean distance: mine does worse.",
    (20, 18, None): "Keep Euclidean distance: there is no clear difference to mine.",
}


@pytest.mark.parametrize("errors", SENTENCES)
def test_the_sentence_says_what_the_verdict_recommends(errors):
    rows = np.arange(178)
    names = ("Euclidean (standardised)", "mine", "LDA")
    known = {method.name: method for method in default_methods({"mine": BoostMetric()})}
    results = []
    for name, n in zip(names, errors, strict=True):
        if n is not None:
            losses = dict.fromkeys(["error", "map_at_r"], (rows < n).astype(float))
            means = {measure: np.array([values.mean()]) for measure, values in losses.items()}
            results.append(MethodResult(known[name], losses, means))
    comparison = Comparison(results, n_neighbors=3, n_folds=1, n_rows=178)
    study = wine_study(comparison=comparison, method="mine")
    headline = headlines(study)[0]
    assert headline.sentence == SENTENCES[errors]
    used = comparison.classification.verdict.recommended
    assert ("Keep" in SENTENCES[errors]) == (used == "Euclidean (standardised)")
