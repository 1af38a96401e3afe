from __future__ import annotations

import pytest

from nearfar import NCA, RCA, AutoMetric, BoostMetric, MetricBoost
from nearfar.tables.methods import AUTO, LEARNERS, METHOD_NAMES, choose_methods, find_method


@pytest.mark.parametrize("name", METHOD_NAMES)
def test_every_name_is_found(name):
    assert find_method(name).name == name
    assert find_method(name.upper()).name == name


def test_the_beginning_of_a_name_is_enough():
    assert find_method("boost").name == "boostmetric"
    assert isinstance(find_method("nca").learner, NCA)
    assert find_method("inv").method.name == "inverse covariance"


def test_auto_is_autometric():
    assert find_method("auto").name == AUTO == METHOD_NAMES[0]
    assert isinstance(find_method("auto").learner, AutoMetric)


def test_what_a_choice_compares():
    assert find_method("best").learners is None
    assert find_method("lda").learners == {}
    assert list(find_method("boost").learners) == ["BoostMetric"]


def test_what_several_choices_compare():
    assert list(choose_methods(["nca", "lda", BoostMetric()]).learners) == ["NCA", "BoostMetric"]
    assert choose_methods(["best"]).learners is choose_methods(["nca", "best"]).learners is None
    assert choose_methods(["nca", "all"]).learners == "all"
    for wrong in ([], 3):
        with pytest.raises(ValueError, match="a name, a learner or a list"):
            choose_methods(wrong)


@pytest.mark.parametrize("name", METHOD_NAMES)
def test_what_a_method_learns_from(name):
    known = ("labels",) if name == "lda" else ("labels", "numbers", "pairs", "triplets")
    known = LEARNERS[name].supervision if name in LEARNERS else known
    for kind in ("labels", "numbers", "triplets", "pairs"):
        if kind in known:
            find_method(name).check(kind)
        else:
            with pytest.raises(ValueError, match=f"learns from .*, not from {kind}"):
                find_method(name).check(kind)


def test_what_needs_numbers():
    numbers = {name: find_method(name).numbers for name in METHOD_NAMES}
    assert [name for name in numbers if numbers[name]] == ["mlkr"]
    assert {numbers["nca"], numbers["lda"]} == {False}
    assert {numbers["autometric"], numbers["euclidean-unscaled"], numbers["best"]} == {None}


def test_settings():
    settings = ["n_components=2", "response=normalized"]
    learner = find_method("metricboost", seed=3, max_iter=7, settings=settings).learner
    expected = MetricBoost(random_state=3, max_iter=7, n_components=2, response="normalized")
    assert learner.get_params() == expected.get_params()
    assert find_method("boost").learner.get_params() == BoostMetric(random_state=0).get_params()
    found = find_method("rca", seed=3, settings=["shrinkage=0.2"]).learner
    assert found.get_params() == RCA(shrinkage=0.2).get_params()


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("magic", {}, "no method 'magic'; choose from autometric"),
        ("m", {}, "'m' may be any of metricboost, mlkr, mmc, maxmarginmetric, mixturenca"),
        ("boost", {"settings": ["penalty=-1"]}, "--set penalty=-1: penalty must be"),
        ("boost", {"settings": ["magic=1"]}, "no parameter 'magic'; boostmetric has .*penalty"),
        ("boost", {"settings": ["penalty"]}, "write NAME=VALUE"),
        ("lda", {"max_iter": 3}, "lda has no parameters"),
        ("auto", {"settings": ["C=1"]}, "no parameter 'C'; autometric has budget"),
        ("auto", {"max_iter": 3}, "autometric has none"),
        ("best", {"settings": ["C=1"]}, "best has no parameters"),
        ("rca", {"max_iter": 3}, "rca has none"),
    ],
)
def test_errors(name, options, message):
    with pytest.raises(ValueError, match=message):
        find_method(name, **options)
