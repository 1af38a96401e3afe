from __future__ import annotations

import itertools

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.exceptions import ConvergenceWarning

from nearfar import MixtureNCA
from nearfar.learners.nca import mixture_nca as mixture_problem
from nearfar.learners.nca.mixture_nca import Mixture, MixtureModel, coarse_to_fine
from nearfar.learners.nca.soft_neighbors import SoftNeighbors
from problems import points_with_a_single


def numbered(sizes):
    """Points that are their own row numbers, in classes of given sizes, shuffled."""
    codes = np.random.default_rng(0).permutation(np.repeat(np.arange(len(sizes)), sizes))
    return np.arange(float(len(codes)))[:, None], codes


def parts(Z, codes, seed=0):
    """Row numbers of each part."""
    stages = coarse_to_fine(Z, codes, np.random.RandomState(seed))
    return [np.sort(stage.X[:, 0].astype(int)) for stage in stages]


class TestStages:
    @pytest.mark.parametrize(
        "sizes", [[9000, 8000], [1, 2, 3, 30, 500, 9000], [20] * 900, [20000, 1, 1, 2]]
    )
    def test_parts_grow_to_all_points(self, sizes):
        Z, codes = numbered(sizes)
        found = parts(Z, codes)
        assert len(found) > 1
        np.testing.assert_array_equal(found[-1], np.arange(len(codes)))
        for part, larger in itertools.pairwise(found):
            assert set(part) < set(larger)
            assert 2 * len(part) < 1.2 * len(larger)
        smallest = max(1000, 8 * len(sizes))
        for number, part in enumerate(found[:-1]):
            members = np.bincount(codes[part], minlength=len(sizes))
            assert (members >= np.minimum(sizes, 2)).all()
            share = smallest * 4**number / len(codes)
            expected = np.minimum(sizes, np.maximum(2, np.ceil(share * np.array(sizes))))
            np.testing.assert_array_equal(members, expected)

    @pytest.mark.parametrize("sizes", [[9000, 8000], [1, 2, 3, 30, 500, 9000], [80] * 900])
    def test_few_points_count_among_many(self, sizes):
        """Pairs would grow with the square of the points."""
        Z, codes = numbered(sizes)
        smallest = max(1000, 8 * len(sizes))
        for stage in coarse_to_fine(Z, codes, np.random.RandomState(0)):
            members = np.bincount(codes[stage.X[stage.counted, 0].astype(int)])
            assert members.sum() <= 4 * smallest + len(sizes)
            assert members.sum() >= min(len(stage.X), 4 * smallest) - np.count_nonzero(
                np.array(sizes) == 1
            )
            assert (members[np.array(sizes) > 1] >= 2).all()

    def test_parts_that_count_add_up(self):
        X, y, rng = points_with_a_single(5, n=30)
        counted = rng.random(30) < 0.4
        model = MixtureModel(
            rng.standard_normal((2, 3, 3)), rng.standard_normal((2, 3)), rng.standard_normal(2)
        )
        parts = []
        for anchors in (None, counted, ~counted):
            mixture = Mixture(SoftNeighbors(X, y, anchors=anchors), 2, 0.0, 0.0)
            gain, by = mixture.likelihood(model)
            parts.append([gain.value, *gain.by_map, mixture.n * by.V, mixture.n * by.b])
        for whole, one, other in zip(*parts, strict=True):
            np.testing.assert_allclose(whole, one + other, atol=1e-10)

    def test_the_paper_variant_counts_all_points(self, monkeypatch):
        monkeypatch.setattr(mixture_problem, "_COARSE_ROWS", 40)
        X, y = load_wine(return_X_y=True)
        learner = MixtureNCA(variant="paper", n_metrics=1, max_iter=3)
        found = learner.fit(X, y).history_.objective
        monkeypatch.undo()
        np.testing.assert_array_equal(found, learner.fit(X, y).history_.objective)

    def test_parts_depend_on_the_seed(self):
        Z, codes = numbered([2000, 3000])
        first, same, other = (parts(Z, codes, seed)[0].tolist() for seed in (0, 0, 1))
        assert first == same != other

    def test_few_points_have_one_stage(self):
        for sizes in ([1000, 1000], [2] * 1200, [40, 2]):
            Z, codes = numbered(sizes)
            state = np.random.RandomState(0)
            before = state.get_state()[1].copy()
            (only,) = coarse_to_fine(Z, codes, state)
            assert len(only.X) == len(codes)
            np.testing.assert_array_equal(state.get_state()[1], before)

    def test_iterations_go_from_few_points_to_all(self, monkeypatch):
        monkeypatch.setattr(mixture_problem, "_COARSE_ROWS", 40)
        X, y = load_wine(return_X_y=True)
        learner = MixtureNCA(
            scale="standard", n_metrics=2, n_init=2, random_state=0, max_iter=60
        ).fit(X, y)
        for _, run in itertools.groupby(learner.history_, lambda i: i.restart):
            rows = [iteration.n_rows for iteration in run]
            assert rows == sorted(rows)
            assert rows[-1] == 178
            assert len(rows) == 1 or (rows[0] < 50 and len(rows) <= 60)
        with pytest.warns(ConvergenceWarning, match="max_iter"):
            learner.set_params(max_iter=2).fit(X, y)
