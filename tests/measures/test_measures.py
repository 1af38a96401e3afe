"""The registry: a measure that is added there is everywhere."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.datasets import load_wine

from nearfar import BoostMetric, Relevance, compare, compare_retrieval
from nearfar.measures.registry import (
    ERROR,
    ClassifiedRows,
    Measure,
    measure_of,
    measures_for,
    register,
    unregister,
)

X, Y = load_wine(return_X_y=True)


def first_hit(rankings):
    """Return the reciprocal rank of the first row of the same class."""
    return 1 / (1 + rankings.hits.argmax(axis=1))


TOY = Measure(
    "mrr",
    first_hit,
    "rankings",
    ("labels",),
    "MRR",
    goal="first hits",
    use="finding one row",
    title="First hits",
    description="reciprocal rank",
    explanation="MRR: the mean of 1 / rank of the first row of the same class.",
)


@pytest.fixture
def toy():
    register(TOY)
    yield TOY
    if TOY in measures_for("labels"):
        unregister(TOY)


def test_a_measure_that_is_registered_is_in_table_and_verdict(toy):
    comparison = compare(X, Y, [BoostMetric(max_iter=3)], cv=2)
    assert str(comparison).splitlines()[1].split()[-4:] == ["MRR", "k", "fit", "s"]
    assert "For finding one row, " in comparison.verdict
    document = json.loads(json.dumps(comparison.to_dict()))
    assert document["first hits"]["headline"] == comparison.by_goal("first hits").verdict.headline
    assert 0.8 < document["methods"][1]["mrr"] <= 1
    assert "mrr_gain" in document["methods"][2]
    unregister(toy)
    found = compare(X, Y, [], cv=2)
    assert "MRR" not in str(found)
    assert "first hits" not in found.to_dict()


def test_its_values_are_those_of_the_function(toy):
    found = compare(X, Y, [], cv=2, n_neighbors=1)["Euclidean (unscaled)"]
    np.testing.assert_array_equal(found.losses["mrr"] == 0, found.losses["error"] == 0)
    ranks = 1 / (1 - found.losses["mrr"])
    np.testing.assert_allclose(ranks, ranks.round())
    assert ranks.max() > 2


def test_names_and_goals_are_unique(toy):
    with pytest.raises(ValueError, match="already a measure 'mrr'"):
        register(TOY)
    with pytest.raises(ValueError, match="already a measure 'error'"):
        register(Measure("other", first_hit, "rankings", ("labels",), "x", goal="classification"))


def test_unknown_goals():
    assert measure_of("classification") is ERROR
    with pytest.raises(ValueError, match="no goal 'first hits'; choose from classification, ran"):
        measure_of("first hits")


@pytest.mark.parametrize("kind", ["labels", "triplets", "pairs"])
def test_every_kind_of_supervision_has_a_main_measure_with_a_goal(kind):
    assert measures_for(kind)[0].goal


def test_a_measure_of_searches_is_in_their_table():
    hit = Measure("hit@{k}", lambda s: s.results.mrr(s.k) > 0, "searches", ("searches",), "hit")
    register(hit)
    try:
        found = compare_retrieval(X[:30], X, Relevance(range(30), range(30)), {}, results=5)
    finally:
        unregister(hit)
    assert found.rows()[0]["hit@5"] == np.mean(found["untouched"].values["MRR@5"] > 0)
    assert "hit@5" in str(found).splitlines()[1]


def test_balanced_errors_are_means_over_classes():
    (balanced,) = measures_for("classes")
    rows = ClassifiedRows(np.array(["a", "a", "a", "b"]), np.array([0.0, 0.0, np.nan, 1.0]))
    np.testing.assert_array_equal(balanced.losses(rows), [0.0, 1.0])
