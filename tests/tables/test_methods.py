from __future__ import annotations

import pytest

from nearfar import NCA, RCA, AutoMetric, BoostMetric, MetricBoost
from nearfar.learners.classic import LDA, InverseCovariance
from nearfar.tables.methods import (
    LEARNERS,
    METHOD_NAMES,
    check_supervision,
    find_learner,
    full_name,
    named_learners,
)


@pytest.mark.parametrize("name", METHOD_NAMES)
def test_every_name_is_found(name):
    assert full_name(name) == full_name(name.upper()) == name
    kinds = {"lda": LDA, "inverse-covariance": InverseCovariance}
    assert type(find_learner(name)) is (LEARNERS | kinds).get(name, AutoMetric)


def test_the_beginning_of_a_name_is_enough():
    assert isinstance(find_learner("nca"), NCA)
    assert isinstance(find_learner("auto"), AutoMetric)
    assert isinstance(find_learner(None, goal="ranking"), AutoMetric)
    assert find_learner(None, goal="ranking").goal == "ranking"


def test_euclidean_distance_is_a_blend_of_nothing():
    for name, scale in (("cosine", "cosine"), ("euclidean-u", "unit"), ("euclidean-s", "standard")):
        found = find_learner(name)
        assert (found.candidates, found.scale) == ([], scale)


def test_what_is_compared():
    assert named_learners([]) is None
    assert list(named_learners(["nca", "lda", "boost"])) == ["NCA", "BoostMetric"]
    assert named_learners(["nca", "all"]) == "all"


@pytest.mark.parametrize("name", LEARNERS)
def test_what_a_method_learns_from(name):
    for kind in ("labels", "numbers", "triplets", "pairs"):
        if kind in LEARNERS[name].supervision:
            check_supervision(find_learner(name), kind)
        else:
            with pytest.raises(ValueError, match=f"learns from .*, not from {kind}"):
                check_supervision(find_learner(name), kind)


def test_settings():
    settings = ["n_components=2", "response=normalized"]
    learner = find_learner("metricboost", seed=3, max_iter=7, settings=settings)
    expected = MetricBoost(random_state=3, max_iter=7, n_components=2, response="normalized")
    assert learner.get_params() == expected.get_params()
    assert find_learner("boost").get_params() == BoostMetric(random_state=0).get_params()
    found = find_learner(RCA(), seed=3, scale="unit", settings=["shrinkage=0.2"])
    assert found.get_params() == RCA(shrinkage=0.2, scale="unit").get_params()


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("magic", {}, "no method 'magic'; choose from autometric"),
        ("m", {}, "'m' may be any of metricboost, mlkr, mmc, maxmarginmetric, mixturenca"),
        ("boost", {"settings": ["penalty=-1"]}, "penalty must be"),
        ("boost", {"settings": ["magic=1"]}, "no parameter 'magic'; boostmetric has .*penalty"),
        ("boost", {"settings": ["penalty"]}, "write NAME=VALUE"),
        ("lda", {"max_iter": 3}, "no parameter 'max_iter'; lda has"),
        ("auto", {"settings": ["C=1"]}, "no parameter 'C'; autometric has budget"),
        ("rca", {"max_iter": 3}, "no parameter 'max_iter'; rca has"),
    ],
)
def test_errors(name, options, message):
    with pytest.raises(ValueError, match=message):
        find_learner(name, **options)
