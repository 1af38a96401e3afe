"""RecordMatcher: decisions, what it learns from, certificates, files and errors."""

from __future__ import annotations

import sys
from copy import copy

import numpy as np
import pytest
from scipy.special import expit

from nearfar import RecordMatcher
from nearfar.records import matcher as matcher_module
from nearfar.records.model import LabelledPairs
from nearfar.records.records import Records
from nearfar.verification import TargetNotCertifiedError
from tests.records.people import equal_in_one_field, messy, people

N = 120
RNG = np.random.default_rng(0)
LEFT = people(N, RNG)
RIGHT = messy(LEFT, RNG)
MATCHES = np.column_stack([np.arange(N)] * 2)
PAIRS = np.concatenate([MATCHES, RNG.integers(0, N, (800, 2))])
SAME = PAIRS[:, 0] == PAIRS[:, 1]
ALL = {"complete": True, "candidates": equal_in_one_field}


@pytest.fixture(scope="module")
def fitted() -> RecordMatcher:
    return RecordMatcher(random_state=0).fit(LEFT, RIGHT, PAIRS, SAME)


@pytest.fixture(scope="module")
def certified() -> RecordMatcher:
    return RecordMatcher("fmr<=0.05", random_state=0).fit(LEFT, RIGHT, MATCHES, [True] * N, **ALL)


def test_new_people_are_matched(fitted):
    rng = np.random.default_rng(1)
    left = people(N, rng)
    right = messy(left, rng)
    pairs = np.argwhere(np.ones((N, N)))
    same = pairs[:, 0] == pairs[:, 1]
    found = fitted.predict(left, right, pairs)
    assert found[same].mean() > 0.9
    assert found[~same].mean() < 0.005


def test_scores_decisions_and_probabilities_agree(fitted):
    scores = fitted.scores(LEFT, RIGHT, PAIRS)
    decisions = fitted.predict(LEFT, RIGHT, PAIRS)
    np.testing.assert_array_equal(decisions, scores >= fitted.threshold_)
    np.testing.assert_array_equal(fitted.predict_proba(LEFT, RIGHT, PAIRS), expit(scores))
    np.testing.assert_array_equal(fitted.scores(LEFT, RIGHT, PAIRS[::-1]), scores[::-1])
    assert fitted.scores(LEFT, RIGHT, np.empty((0, 2), dtype=int)).shape == (0,)


def test_scores_in_blocks(monkeypatch, fitted):
    whole = fitted.scores(LEFT, RIGHT, PAIRS)
    monkeypatch.setattr(matcher_module, "_BLOCK", 100)
    np.testing.assert_allclose(fitted.scores(LEFT, RIGHT, PAIRS), whole, rtol=1e-9)


def test_fields_are_described(fitted):
    kinds = [(field.name, field.kind) for field in fitted.fields_]
    expected = [("first", "text"), ("last", "text"), ("born", "date"), ("zip", "code")]
    assert kinds == [*expected, ("(whole record)", "text")]
    assert "swapped" in fitted.fields_[2].ways


def test_in_one_table_the_order_of_two_records_does_not_matter():
    table, pairs = LEFT + RIGHT, PAIRS + np.array([0, N])
    matcher = RecordMatcher(random_state=0).fit(table, None, pairs, SAME)
    scores = matcher.scores(table, None, pairs)
    np.testing.assert_array_equal(matcher.scores(table, None, pairs[:, ::-1]), scores)
    np.testing.assert_array_equal(matcher.scores(table, table, pairs), scores)
    assert (matcher.predict(table, None, pairs) == SAME).mean() > 0.95


def test_explanations_say_which_field_speaks_against_a_match(fitted):
    other = [{**row, "last": "qqqqqq"} for row in LEFT]
    own, changed = (fitted.explain(LEFT, right, MATCHES) for right in (LEFT[:], other))
    assert own.shape == (N, len(fitted.fields_))
    assert (changed[:, 1] < own[:, 1]).all()
    assert (own[:, 1] > 0).mean() > 0.9


def test_explanations_follow_their_rule(fitted):
    one, two = Records.of(LEFT, "left"), Records.of(RIGHT, "right")
    X = fitted.comparisons_.compare(one, two, PAIRS)
    log_odds = fitted.model_.log_odds
    instead = []
    for typical in fitted.model_.typical:
        Z = X.copy()
        for column, (name, _) in enumerate(fitted.comparisons_.names):
            if name == "born":
                Z[:, column] = typical[column]
        instead.append(log_odds(Z))
    expected = log_odds(X) - np.mean(instead, axis=0)
    np.testing.assert_array_equal(fitted.explain(LEFT, RIGHT, PAIRS)[:, 2], expected)


def test_nothing_is_fitted_to_records_that_calibrate(monkeypatch):
    parts = []
    split = LabelledPairs.split

    def spy(self, share, random):
        parts.append(split(self, share, random))
        return parts[-1]

    monkeypatch.setattr(LabelledPairs, "split", spy)
    first = RecordMatcher("fmr<=0.05", random_state=0).fit(LEFT, RIGHT, MATCHES, [True] * N, **ALL)
    learning, calibrating = parts[0]
    assert not set(learning.entities[0]) & set(calibrating.entities[0])
    assert len(calibrating.left) == N // 2
    # The same records to learn from, and others to calibrate on.
    held_out = set(calibrating.entities[0])
    rng = np.random.default_rng(5)
    left = [people(1, rng)[0] if row in held_out else LEFT[row] for row in range(N)]
    right = [messy([left[row]], rng)[0] if row in held_out else RIGHT[row] for row in range(N)]
    second = RecordMatcher("fmr<=0.05", random_state=0).fit(left, right, MATCHES, [True] * N, **ALL)
    one, two = ({**vars(each.model_), **vars(each.model_.forest)} for each in (first, second))
    for name in one.keys() - {"forest"}:
        np.testing.assert_array_equal(two[name], one[name])
    for one, two in zip(first.comparisons_.fields, second.comparisons_.fields, strict=True):
        assert (one.kind, one.notation) == (two.kind, two.notation)
        for way, weight in one.rarity.items():
            np.testing.assert_array_equal(two.rarity[way], weight)
    assert not first.comparisons_.rivals


def test_a_certified_threshold_holds_for_new_people():
    rng = np.random.default_rng(7)
    left = people(400, rng)
    right, every = messy(left, rng), np.column_stack([np.arange(400)] * 2)
    matcher = RecordMatcher("fmr<=1e-3", random_state=0)
    matcher.fit(left, right, every, [True] * 400, **ALL)
    point = matcher.operating_point_
    assert point.fmr <= point.bound <= 1e-3
    assert matcher.threshold_ == -point.threshold
    # All pairs count, not only those that are compared.
    assert (point.n_classes, point.n_pairs) == (200, 200 * 200)
    new = people(400, rng)
    others = messy(new, rng)
    pairs = equal_in_one_field(Records.of(new, "left"), Records.of(others, "right"))
    found = pairs[matcher.predict(new, others, pairs)]
    wrong = (found[:, 0] != found[:, 1]).sum()
    # The bound is 1e-3 with 95 % confidence; twice as many would be far beyond it.
    assert wrong / (400 * 399) < 2e-3
    assert (found[:, 0] == found[:, 1]).sum() > 300


def test_given_pairs_can_be_certified_without_complete_matches():
    matcher = RecordMatcher("fmr<=0.2", random_state=0).fit(LEFT, RIGHT, PAIRS, SAME)
    point = matcher.operating_point_
    assert point.bound <= 0.2
    assert point.n_pairs < len(PAIRS) / 2


def test_a_target_that_is_out_of_reach_is_refused():
    with pytest.raises(TargetNotCertifiedError, match=r"120 known matches.* give about \d+"):
        RecordMatcher("fmr<=1e-6", random_state=0).fit(LEFT, RIGHT, MATCHES, [True] * N, **ALL)


def test_candidates_that_miss_matches_bound_the_recall():
    def few(left: Records, right: Records) -> np.ndarray:
        found = equal_in_one_field(left, right)
        return found[(found[:, 0] != found[:, 1]) | (found[:, 0] % 4 > 0)]

    with pytest.raises(TargetNotCertifiedError, match="no candidates"):
        RecordMatcher("recall>=0.9", random_state=0).fit(
            LEFT, RIGHT, MATCHES, [True] * N, complete=True, candidates=few
        )


@pytest.mark.parametrize("name", ["fitted", "certified"])
def test_files_give_the_same_matcher(tmp_path, request, name):
    matcher = request.getfixturevalue(name)
    path = tmp_path / "people.safetensors"
    matcher.save(path)
    loaded = RecordMatcher.load(path)
    scores = matcher.scores(LEFT, RIGHT, PAIRS)
    np.testing.assert_array_equal(loaded.scores(LEFT, RIGHT, PAIRS), scores)
    np.testing.assert_array_equal(
        loaded.explain(LEFT, RIGHT, PAIRS), matcher.explain(LEFT, RIGHT, PAIRS)
    )
    assert loaded.threshold_ == matcher.threshold_
    assert loaded.operating_point_ == matcher.operating_point_
    assert loaded.fields_ == matcher.fields_
    assert loaded.target == matcher.target
    loaded.save(tmp_path / "again.safetensors")
    assert (tmp_path / "again.safetensors").read_bytes() == path.read_bytes()


def test_files_of_other_kinds_are_refused(tmp_path, fitted):
    path = tmp_path / "people.safetensors"
    fitted.save(path)
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(ValueError, match="damaged"):
        RecordMatcher.load(path)


def test_a_file_whose_arrays_do_not_fit_together_is_refused(tmp_path, fitted):
    path = tmp_path / "people.safetensors"
    model = fitted.model_
    fitted = copy(fitted)
    fitted.model_ = copy(model)
    vars(fitted.model_)["step"] = model.step[:-1]
    fitted.save(path)
    with pytest.raises(ValueError, match="do not fit together"):
        RecordMatcher.load(path)


@pytest.mark.parametrize(
    ("pairs", "same", "message"),
    [
        ([[0, N]], [True], "rows of the tables, which have 120 and 120 records"),
        ([[0, -1]], [True], "row numbers of 0 or more"),
        ([[0.5, 1.0]], [True], "row numbers"),
        ([0, 1], [True, False], "row numbers"),
        ([[0, 0], [0, 1]], [True], "same must be True or False for each of the 2 pairs"),
        ([[0, 0], [0, 1]], [1, 2], "same must be True or False"),
        ([[0, 0], [1, 1]], [True, True], "pairs that are different are needed; got 2 and 0"),
        ([[0, 0], [0, 1]], [True, False], "too few pairs"),
    ],
)
def test_wrong_pairs_are_refused(pairs, same, message):
    with pytest.raises(ValueError, match=message):
        RecordMatcher().fit(LEFT, RIGHT, pairs, same)


def test_other_mistakes_are_refused(fitted):
    with pytest.raises(ValueError, match="two different rows"):
        fitted.scores(LEFT, None, [[3, 3]])
    with pytest.raises(ValueError, match="no field 'last'"):
        fitted.scores(LEFT, [{"first": "Ann"}], [[0, 0]])
    with pytest.raises(ValueError, match="calibration"):
        RecordMatcher(calibration=2.0).fit(LEFT, RIGHT, PAIRS, SAME)


def test_without_rapidfuzz_an_error_says_what_to_install(monkeypatch, fitted):
    monkeypatch.setitem(sys.modules, "rapidfuzz", None)
    with pytest.raises(ImportError, match=r"pip install \"nearfar\[match\]\""):
        fitted.scores(LEFT, RIGHT, PAIRS)
