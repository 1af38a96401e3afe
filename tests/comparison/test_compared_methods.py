from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.preprocessing import StandardScaler

import nearfar
from nearfar import LDA, MLKR, AutoMetric, BoostMetric, InverseCovariance, compare
from nearfar.comparison import default_methods
from nearfar.comparison import methods as compared_methods
from nearfar.comparison.methods import DEFAULT_JUDGEMENT_LEARNERS, DEFAULT_LEARNERS
from nearfar.learners.base import MetricLearner, known_learners
from nearfar.metrics.gallery import Gallery

QUICK = AutoMetric(candidates=["NCA"])
USUAL = [name for name in DEFAULT_LEARNERS if name in known_learners()]
METHODS = default_methods([QUICK, *USUAL[1:]])


def test_every_exported_learner_is_found():
    exported = {
        name
        for name in nearfar.__all__
        if isinstance(getattr(nearfar, name), type)
        and issubclass(getattr(nearfar, name), MetricLearner)
    }
    assert set(known_learners()) == exported


def test_the_inverse_covariance_is_a_plain_method():
    X, y = load_iris(return_X_y=True)
    plain = [method for method in METHODS if "covariance" in method.name.lower()]
    assert [method.kind for method in plain] == ["plain"]
    expected = InverseCovariance().fit(X).metric_.matrix
    np.testing.assert_allclose(plain[0].learn(X, y).matrix, expected, rtol=1e-9)


def test_a_learner_defined_later_is_found():
    Later = type("LaterMetric", (BoostMetric,), {"__module__": "nearfar.later"})
    try:
        assert known_learners()["LaterMetric"] is Later
    finally:
        Later.__module__ = "elsewhere"
    assert "LaterMetric" not in known_learners()


def names(*chosen):
    return [method.name for method in default_methods(*chosen) if method.kind == "learned"]


def test_the_learners_of_a_comparison():
    assert names() == list(DEFAULT_LEARNERS)
    assert DEFAULT_LEARNERS[0] == "AutoMetric"
    found = known_learners().items()
    plain = (InverseCovariance, LDA)
    labelled = [n for n, k in found if "labels" in k.supervision and k not in plain]
    assert names("all") == labelled
    assert set(DEFAULT_LEARNERS) <= set(labelled)


def test_learners_from_numbers_are_left_out():
    assert "MLKR" in known_learners()
    assert "MLKR" not in names("all")
    for chosen in ("MLKR", [MLKR()], {"mine": MLKR()}):
        with pytest.raises(ValueError, match="does not learn from class labels"):
            default_methods(chosen)


def test_methods_that_plan_their_time():
    auto, boost = default_methods([AutoMetric(budget=9.0, random_state=3), BoostMetric()])[-2:]
    assert auto.plans_time
    assert not boost.plans_time
    short = auto.within(2.0)
    assert short.estimator.get_params() == auto.estimator.get_params() | {"budget": 2.0}
    assert auto.within(20.0).estimator.budget == auto.estimator.budget == 9.0


def test_same_name_twice():
    assert names([BoostMetric(), BoostMetric(max_iter=3)]) == [
        "BoostMetric",
        "BoostMetric(max_iter=3)",
    ]
    assert names([LDA(), LDA(scale="unit")]) == ["LDA()", "LDA(scale='unit')"]
    assert default_methods({"LDA": BoostMetric()})[-1].name == "LDA'"
    assert default_methods("NCA")[-1].name == "NCA"


@pytest.mark.parametrize(
    "method", [m for m in METHODS if m.gives_metric], ids=lambda method: method.name
)
def test_the_metric_learned_from_all_rows_is_the_one_compared(method):
    X, y = load_iris(return_X_y=True)
    X, y = X[::2], y[::2]
    scaled = X if method.raw else StandardScaler().fit_transform(X)
    expected = np.empty((len(X), len(X)))
    for rows, table in Gallery(method.fit(scaled, y), scaled).search(scaled).tables():
        expected[rows] = table
    np.testing.assert_allclose(
        method.learn(X, y).distances(X) ** 2, expected, rtol=1e-4, atol=1e-5 * expected.max()
    )


def test_methods_without_a_metric():
    X, y = load_iris(return_X_y=True)
    without = [method for method in METHODS if not method.gives_metric]
    assert [method.name for method in without] == ["L1", "chi-square"]
    assert [method.learn(X, y) for method in without] == [None, None]


def test_names_of_plain_methods_are_known():
    assert [m.name for m in default_methods(["lda", "Cosine"])] == [
        m.name for m in default_methods([])
    ]
    with pytest.raises(ValueError, match="no method 'LDA'"):
        default_methods(["LDA"], supervision="triplets")


@pytest.mark.parametrize("supervision", ["labels", "triplets", "pairs"])
def test_methods_learn_from_what_there_is(supervision):
    for chosen in (None, "all"):
        methods = default_methods(chosen, supervision=supervision)
        assert all(supervision in method.supervision for method in methods)
        assert "AutoMetric" in [method.name for method in methods]


def test_the_documentation_names_the_default_learners():
    page = (Path(__file__).parents[2] / "docs" / "reference" / "comparison.md").read_text()
    (line,) = (line for line in page.splitlines() if line.startswith("| learners |"))
    listed, judged = line.split("|")[2].split("; for triplets and pairs also ")
    assert tuple(listed.removesuffix(", with default parameters").strip().split(", ")) == (
        DEFAULT_LEARNERS
    )
    assert judged.split("; ")[0].split(", ") == ["LSML", "ITML"]
    assert judged.split("; ")[1] == "for numbers MLKR"
    assert (*DEFAULT_LEARNERS, "LSML", "ITML", "MLKR") == DEFAULT_JUDGEMENT_LEARNERS


def test_lda_with_a_column_that_tells_the_class(rng):
    y = np.arange(90) % 3
    X = np.column_stack([rng.normal(size=(90, 4)), np.eye(6)[2 * y + rng.integers(2, size=90)]])
    found = compare(X, y, [], classifiers=False)
    assert found["LDA"].error == 0.0


@pytest.mark.parametrize("unit_rows", [False, True])
def test_plain_distances_of_wide_rows_have_no_square_matrix(rng, unit_rows):
    X = rng.normal(size=(5, 20_000))
    metric = compared_methods._euclidean(X, None, unit_rows=unit_rows)
    points = X / np.linalg.norm(X, axis=1, keepdims=True) if unit_rows else X
    found = metric.distances(X, X)[0, 1]
    np.testing.assert_allclose(found, np.linalg.norm(points[0] - points[1]), rtol=1e-12)
    assert "L" not in vars(metric)
