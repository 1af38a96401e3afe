"""Copies of rows are found, exactly or nearly, and kept on one side of every split."""

from __future__ import annotations

import numpy as np
import pytest

from nearfar import Chunklets, Pairs, Triplets
from nearfar.supervision import Supervision, keep_copies_together
from nearfar.supervision.copies import find_copies

RNG = np.random.default_rng(0)
POINTS = RNG.standard_normal((100, 8))
PLACE = RNG.permutation(np.tile(np.arange(100), 3))
FIRST = np.array([np.flatnonzero(place == PLACE)[0] for place in PLACE])


class TestEqualRows:
    @pytest.mark.parametrize("seed", range(5))
    def test_the_first_of_equal_rows_as_in_a_loop(self, seed):
        X = np.random.default_rng(seed).integers(0, 3, (60, 3)).astype(float)
        expected = [next(i for i in range(60) if (X[i] == X[row]).all()) for row in range(60)]
        found = find_copies(X)
        assert found.first.tolist() == expected
        assert len(found) == 60 - len(np.unique(X, axis=0))
        assert found.n_near == 0

    def test_zeros_of_either_sign_and_float32(self):
        X = np.array([[0.0, 1.0], [2.0, 3.0], [-0.0, 1.0]], dtype=np.float32)
        assert find_copies(X).first.tolist() == [0, 1, 0]
        assert find_copies(np.asfortranarray(X)).first.tolist() == [0, 1, 0]

    def test_rows_in_several_blocks(self, monkeypatch):
        monkeypatch.setattr("nearfar.supervision.copies._BLOCK", 20)
        assert find_copies(POINTS[PLACE]).first.tolist() == FIRST.tolist()

    def test_equal_rows_of_different_classes_are_different_cases(self):
        X = np.array([[0.0], [0.0], [1.0], [1.0], [1.0], [2.0]])
        assert find_copies(X, np.array([5, 5, 7, 7, 8, 5])).first.tolist() == [0, 0, 2, 3, 4, 5]
        assert find_copies(X[2:], np.array([7, 7, 8, 5])) is None

    def test_few_copies_are_left_alone(self):
        X = RNG.standard_normal((199, 3))
        assert find_copies(np.vstack([X, X[:1]])) is None
        assert len(find_copies(np.vstack([X, X[:3]]))) == 3

    def test_cases_of_a_few_kinds_are_not_copies(self):
        kinds = RNG.integers(0, 2, (500, 4)).astype(float)
        assert find_copies(kinds) is None

    def test_classes_of_one_row_are_not_copies(self):
        """Nothing could be held out of them."""
        y = np.repeat(np.arange(20), 5)
        for noise in (0.0, 1e-5):
            X = POINTS[y] + noise * RNG.standard_normal((100, 8))
            assert keep_copies_together(X, Supervision.of(y, 100))[1] is None

    def test_one_row_or_none(self):
        assert find_copies(np.ones((1, 2))) is None
        assert find_copies(np.ones((0, 2))) is None

    def test_the_sentence(self):
        assert str(find_copies(POINTS[PLACE])) == (
            "200 of 300 rows are equal to earlier rows; equal rows stay on one side of every split"
        )
        near = find_copies(POINTS[PLACE] + 1e-6 * RNG.standard_normal((300, 8)))
        assert "200 of 300 rows are equal to earlier rows, or nearly;" in str(near)


class TestNearCopies:
    @pytest.mark.parametrize("noise", [1e-12, 1e-6, 1e-4, 3e-4])
    def test_they_are_those_that_were_made(self, noise):
        X = POINTS[PLACE] + noise * RNG.standard_normal((300, 8))
        found = find_copies(X)
        assert found.first.tolist() == FIRST.tolist()
        assert found.n_near == 200

    def test_rounded_rows(self):
        X = np.vstack([POINTS, POINTS.astype(np.float32)])
        assert find_copies(X).first.tolist() == [*range(100), *range(100)]

    def test_some_are_equal_and_others_nearly(self):
        X = POINTS[PLACE]
        second = np.array([np.flatnonzero(place == PLACE)[1] for place in range(100)])
        X[second] += 1e-6
        found = find_copies(X)
        assert found.first.tolist() == FIRST.tolist()
        assert found.n_near == 100

    def test_units_and_outliers_do_not_matter(self):
        X = POINTS[PLACE] + 1e-6 * RNG.standard_normal((300, 8))
        X[0] *= 1e9
        X = X * 10.0 ** np.arange(-12, 12, 3) + 5
        expected = np.where(FIRST == 0, np.where(PLACE[0] == PLACE, 0, FIRST), FIRST)
        found = find_copies(X)
        alone = np.arange(300) == 0
        others = PLACE[0] == PLACE
        assert (found.first[~others] == expected[~others]).all()
        assert (found.first[others & ~alone] == np.flatnonzero(others)[1]).all()

    @pytest.mark.parametrize("scale", [1e-320, 1e300])
    def test_extreme_values_give_no_warning(self, scale):
        find_copies(POINTS * scale)

    @pytest.mark.parametrize("n", [50, 300, 5000])
    @pytest.mark.parametrize("n_features", [2, 3, 10])
    @pytest.mark.parametrize("kind", ["normal", "uniform", "cauchy", "curve", "clusters", "groups"])
    def test_rows_that_are_only_close_are_not_copies(self, kind, n_features, n):
        rng = np.random.default_rng([n_features, n])
        size = (n, n_features)
        X = {
            "normal": lambda: rng.standard_normal(size),
            "uniform": lambda: rng.uniform(size=size),
            "cauchy": lambda: rng.standard_cauchy(size),
            "curve": lambda: np.sin(np.linspace(0, 6, n)[:, None] * np.arange(1, n_features + 1)),
            "clusters": lambda: 9 * rng.integers(0, 2, (n, 1)) + 1e-5 * rng.standard_normal(size),
            "groups": lambda: (
                rng.standard_normal(size)[rng.integers(0, n // 8, n)]
                + 0.1 * rng.standard_normal(size)
            ),
        }[kind]()
        assert find_copies(X) is None


class TestSplits:
    def test_labelled_copies_are_on_one_side(self):
        y = (PLACE % 3 == 0).astype(int)
        X = POINTS[PLACE]
        known, copies = keep_copies_together(X, Supervision.of(y, 300))
        assert len(copies) == 200
        n_splits = 0
        for split in known.split(4, np.random.RandomState(0)):
            assert not set(PLACE[split.rows]) & set(PLACE[split.unseen_rows])
            n_splits += 1
        assert n_splits == 4

    def test_rows_with_numbers(self):
        values = PLACE.astype(float)
        known, _ = keep_copies_together(POINTS[PLACE], Supervision.of(values, 300, numbers=True))
        assert len(np.unique(known.groups)) == 100
        values[np.arange(300) == FIRST] += 1
        alone, copies = keep_copies_together(
            POINTS[PLACE], Supervision.of(values, 300, numbers=True)
        )
        assert alone.groups is None
        assert copies is None

    @pytest.mark.parametrize("kind", ["triplets", "pairs"])
    def test_judgements_of_copies_are_of_the_first_of_them(self, kind):
        rng = np.random.default_rng(1)
        index = rng.integers(0, 300, (500, 3))
        distinct = [len(set(PLACE[row])) == 3 for row in index]
        index = index[distinct]
        given = Triplets(index) if kind == "triplets" else Pairs(index[:, :2], index[:, 2] > 99)
        known, _ = keep_copies_together(POINTS[PLACE], Supervision.of(given, 300))
        judged = set(given.index.ravel())
        first = [min(set(np.flatnonzero(place == PLACE)) & judged) for place in range(100)]
        np.testing.assert_array_equal(known.given.index, np.array(first)[PLACE[given.index]])
        again, copies = keep_copies_together(POINTS[PLACE], known)
        assert again is known
        assert copies is None
        for split in known.split(3, np.random.RandomState(0)):
            seen, unseen = (part.given.index[:, 0] for part in (split.known, split.unseen))
            if kind == "triplets":
                assert not set(PLACE[seen]) & set(PLACE[unseen])

    def test_judgements_that_tell_copies_apart_stay(self):
        X = np.array([[0.0], [1.0], [0.0], [3.0]])
        pairs = Pairs([[0, 2], [2, 3]], [True, False], [1.0, 2.0])
        known, _ = keep_copies_together(X, Supervision.of(pairs, 4))
        assert known.given.index.tolist() == [[0, 2], [0, 3]]
        assert known.given.similar.tolist() == [True, False]
        assert known.given.weight.tolist() == [1.0, 2.0]

    @pytest.mark.parametrize(
        "given",
        [
            Supervision.of(PLACE, 300, groups=np.arange(300)),
            Supervision.of(Chunklets(PLACE), 300),
            Supervision.of(None, 300),
        ],
    )
    def test_what_stays_the_same(self, given):
        known, copies = keep_copies_together(POINTS[PLACE], given)
        assert known is given
        assert copies is None

    def test_without_copies_nothing_changes(self):
        given = Supervision.of(np.arange(100) % 2, 100)
        assert keep_copies_together(POINTS, given) == (given, None)
