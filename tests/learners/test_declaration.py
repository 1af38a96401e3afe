"""What a learner is stands on its class, and lists of learners are derived from that."""

from __future__ import annotations

import pytest

from nearfar.learners.base import known_learners

LEARNERS = known_learners()


@pytest.mark.parametrize("name", LEARNERS)
def test_a_learner_has_few_bases(name):
    ours = [cls for cls in LEARNERS[name].__mro__ if cls.__module__.startswith("nearfar.")]
    assert len(ours) <= 4


@pytest.mark.parametrize("name", LEARNERS)
def test_defaults_obey_the_rules_that_only_other_values_are_checked_by(name):
    cls = LEARNERS[name]
    assert cls._rules.keys() <= cls._defaults.keys()
    assert cls._defaults.keys() == cls().get_params().keys()
    for parameter, rule in cls._rules.items():
        assert rule.accepts(cls._defaults[parameter]), parameter


def test_parameters_that_a_learner_does_not_have_cannot_be_set():
    learner = LEARNERS["RCA"]()
    assert learner.warm_start is False
    assert "warm_start" not in learner.get_params()
    with pytest.raises(ValueError, match="Invalid parameter 'warm_start'"):
        learner.set_params(warm_start=True)
    with pytest.raises(TypeError, match="warm_start"):
        type(learner)(warm_start=True)


@pytest.mark.parametrize("order", ["auto_order", "compare_order"])
def test_places_are_taken_once(order):
    places = [getattr(cls, order) for cls in LEARNERS.values()]
    places = [place for place in places if place not in (None, 100)]
    assert sorted(places) == list(range(len(places)))
