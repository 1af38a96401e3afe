"""Reports on rows in groups of near copies, with classes at random."""

from __future__ import annotations

import numpy as np
import pytest

from nearfar import RCA, MetricBoost, RandomTriplets
from nearfar.comparison import default_methods, learned_method
from nearfar.tables.report import write_report
from nearfar.tables.report_study import Study
from problems import noisy_copies

X, Y, GROUPS = noisy_copies()


def study(groups):
    seen = []

    def relearn(X, y, groups=None):
        seen.append(groups)
        return RCA().fit(X, y, groups=groups)

    made = Study("copies", X, Y, RCA().fit(X, Y).metric_, "RCA", relearn=relearn, groups=groups)
    return made, seen


def test_held_out_rows_are_of_other_groups():
    found, seen = study(GROUPS)
    train, test = found.split
    assert sorted([*train, *test]) == list(range(480))
    assert not set(GROUPS[train]) & set(GROUPS[test])
    assert 0.25 < len(test) / 480 < 0.4
    plain, unseen = study(None)
    errors = [
        {result.name: result.error for result in each.held_out.results}["RCA"]
        for each in (plain, found)
    ]
    assert errors[0] < 0.05
    assert errors[1] > 0.35
    np.testing.assert_array_equal(seen[0], GROUPS[train])
    assert unseen == [None]


def test_intervals_count_groups():
    found, _ = study(GROUPS)
    goal = found.held_out
    n_groups = len(np.unique(GROUPS[found.split[1]]))
    counted = goal.counted(np.ones(len(found.split[1])))
    assert (~np.isnan(counted)).sum() == n_groups
    low, high = goal.interval(goal.results[-1])
    assert high - low > 2 * 1.6 * 0.4 / np.sqrt(n_groups)


@pytest.mark.usefixtures("plain_figures")
def test_the_page(tmp_path):
    path = tmp_path / "report.html"
    write_report(path, study(GROUPS)[0])
    page = path.read_text()
    assert "The rows are in 60 groups." in page
    assert "No group is among both." in page
    write_report(path, study(None)[0])
    assert "groups" not in path.read_text()


def test_triplets():
    triplets = RandomTriplets(4000)(X, Y, np.random.RandomState(0))
    learner = MetricBoost(max_iter=5).fit(X, triplets)
    found = Study(
        "copies",
        X,
        triplets,
        learner.metric_,
        "MetricBoost",
        relearn=lambda X, y, groups: MetricBoost(max_iter=5).fit(X, y, groups=groups),
        groups=GROUPS,
    )
    seen, unseen = (set(GROUPS[part.index].ravel()) for part in found.judgement_split)
    assert seen
    assert unseen
    assert not seen & unseen
    low, high = found.held_out.interval(found.held_out.results[-1])
    assert low < 0.5 < high


def test_a_method_is_learned_again():
    lda = next(method for method in default_methods([]) if method.name == "LDA")
    metric = RCA().fit(X, Y).metric_
    for method, learn in (
        (learned_method("RCA", RCA()), lambda X, y, groups: RCA().fit(X, y, groups=groups).metric_),
        (lda, lambda X, y, groups: lda.learn(X, y)),
    ):
        again = Study("copies", X, Y, metric, method.name, relearn=method, groups=GROUPS)
        train, _ = again.split
        expected = learn(X[train], Y[train], GROUPS[train])
        np.testing.assert_array_equal(again.evaluated_metric.L, expected.L)


def test_too_little_to_hold_out():
    found, _ = study(np.zeros(480, dtype=int))
    with pytest.raises(ValueError, match="too little to hold out"):
        found.split  # noqa: B018
