"""Generators, against their formulas and the metrics they promise."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare
from sklearn.covariance import empirical_covariance

from nearfar.datasets import (
    load,
    make_circles,
    make_helix,
    make_known_metric,
    make_triplets_from_metric,
    make_twin_peaks,
)

REAL = os.environ.get("NEARFAR_DATA", "")
SYNTHETIC = {"twin_peaks", "helix", "concentric_circles_50d"}
X4 = np.arange(8, dtype=np.float32).reshape(4, 2)

GENERATORS = {
    "twin_peaks": lambda seed: make_twin_peaks(60, random_state=seed),
    "helix": lambda seed: make_helix(60, random_state=seed),
    "circles": lambda seed: make_circles(60, n_features=5, random_state=seed),
    "known_metric": lambda seed: make_known_metric(60, random_state=seed),
    "triplets": lambda seed: (make_triplets_from_metric(X4, np.eye(2), 60, random_state=seed),),
}

RTOL = 5 / np.sqrt(2)
"""Over the root of n: five standard errors of the standard deviation of n normal numbers."""


@pytest.mark.parametrize("make", GENERATORS.values(), ids=GENERATORS.keys())
class TestSeeds:
    def test_same_seed_same_arrays(self, make):
        for seed in (3, lambda: np.random.RandomState(3), lambda: np.random.default_rng(3)):
            one, two = (make(seed() if callable(seed) else seed) for _ in range(2))
            assert all(np.array_equal(a, b) for a, b in zip(one, two, strict=True))

    def test_a_stream_moves_on(self, make):
        for stream in (np.random.RandomState(3), np.random.default_rng(3), None):
            assert not np.array_equal(make(stream)[0], make(stream)[0])

    def test_not_a_seed(self, make):
        with pytest.raises(ValueError, match="seed"):
            make("three")


class TestPeaksHelixCircles:
    def test_twin_peaks_without_noise_are_the_formula(self):
        X, y = make_twin_peaks(2000, noise=0.0, random_state=0)
        height = 10 * np.sin(np.pi * X[:, 0]) * np.tanh(3 * X[:, 1])
        np.testing.assert_allclose(X[:, 2], height, atol=1e-12)
        assert np.abs(X[:, :2]).max() <= 1
        assert np.array_equal(y, np.maximum(np.round(height), 0))
        assert y.max() == 10

    def test_twin_peaks_noise_is_scaled_with_the_height(self):
        X, y = make_twin_peaks(5000, noise=0.05, random_state=0)
        quiet, _ = make_twin_peaks(5000, noise=0.0, random_state=0)
        np.testing.assert_allclose(
            (X - quiet).std(axis=0), [0.05, 0.05, 0.5], rtol=RTOL / np.sqrt(5000)
        )
        assert np.array_equal(y, np.maximum(np.round(X[:, 2]), 0))

    def test_helix_without_noise_is_the_formula(self):
        X, y = make_helix(500, noise=0.0, random_state=0)
        t = np.mod(np.arctan2(X[:, 1], X[:, 0]), 2 * np.pi)
        t[t < 1e-9] = 2 * np.pi
        np.testing.assert_allclose(np.sort(t), 2 * np.pi * np.arange(1, 501) / 500, atol=1e-9)
        np.testing.assert_allclose(np.hypot(X[:, 0], X[:, 1]), 2 + np.cos(8 * t), atol=1e-9)
        np.testing.assert_allclose(X[:, 2], np.sin(8 * t), atol=1e-9)
        assert np.array_equal(y, np.round(t))
        assert not np.array_equal(t, np.sort(t))

    def test_circles(self):
        X, y = make_circles(2000, n_features=30, n_classes=3, noise=0.1, random_state=0)
        radius = np.hypot(X[:, 0], X[:, 1])
        assert X.shape == (2000, 30)
        assert np.unique(y).tolist() == [0, 1, 2]
        assert np.std(radius - y - 1) == pytest.approx(0.1, rel=RTOL / np.sqrt(2000))
        np.testing.assert_allclose(X[:, 2:].std(axis=0), 1.0, rtol=RTOL / np.sqrt(2000))


class TestKnownMetric:
    def test_rank_and_shape(self):
        X, y, M = make_known_metric(101, 12, 3, 5, random_state=0)
        assert X.shape == (101, 12)
        assert sorted(np.bincount(y)) == [20, 20, 20, 20, 21]
        values = np.linalg.eigvalsh(M)
        assert np.array_equal(M, M.T)
        assert values[:-3] == pytest.approx(0.0, abs=1e-12)
        assert (values[-3:] >= 0.25 - 1e-12).all()
        assert (values[-3:] <= 4.0 + 1e-12).all()

    def test_metric_is_the_restricted_inverse_of_the_covariance_within(self):
        X, y, M = make_known_metric(60000, 6, 2, 3, random_state=0)
        within = empirical_covariance(X - np.array([X[y == c].mean(axis=0) for c in range(3)])[y])
        values, vectors = np.linalg.eigh(M)
        U = vectors[:, values > 1e-9]
        restricted = U @ np.linalg.inv(U.T @ within @ U) @ U.T
        np.testing.assert_allclose(restricted, M, atol=0.05)
        np.testing.assert_allclose(U.T @ np.linalg.inv(within) @ U, U.T @ M @ U, atol=0.05)

    def test_class_means_differ_in_the_subspace_only_and_as_far_as_asked(self):
        X, y, M = make_known_metric(200000, 5, 2, 4, separation=5.0, noise=2.0, random_state=1)
        means = np.array([X[y == c].mean(axis=0) for c in range(4)])
        a, b = np.triu_indices(4, 1)
        differences = means[a] - means[b]
        squared = np.einsum("ij,jk,ik->i", differences, M, differences)
        assert np.sqrt(squared).min() == pytest.approx(5.0, abs=0.05)
        values, vectors = np.linalg.eigh(M)
        assert np.abs(differences @ vectors[:, values < 1e-9]).max() < 0.05

    def test_all_directions_may_be_informative_and_noise_absent(self):
        X, _, M = make_known_metric(50, 4, 4, 2, random_state=0)
        assert np.linalg.matrix_rank(M) == 4
        X, _, M = make_known_metric(50, 4, 1, 2, noise=0.0, random_state=0)
        assert np.linalg.matrix_rank(X - X.mean(axis=0), tol=1e-9) == 1


class TestTriplets:
    @pytest.fixture(scope="class")
    @staticmethod
    def problem():
        X, _, M = make_known_metric(80, 8, 2, 3, random_state=0)
        return X, M

    @staticmethod
    def agreement(X, M, triplets):
        i, j, k = triplets.T
        near, far = X[i] - X[j], X[i] - X[k]
        margin = ((far @ M) * far).sum(axis=1) - ((near @ M) * near).sum(axis=1)
        return np.mean(margin > 0)

    def test_agree_with_the_metric(self, problem):
        X, M = problem
        triplets = make_triplets_from_metric(X, M, 70000, random_state=0)
        assert triplets.shape == (70000, 3)
        assert triplets.dtype == np.intp
        assert self.agreement(X, M, triplets) == 1.0
        assert self.agreement(X, np.eye(8), triplets) < 0.7
        i, j, k = triplets.T
        assert ((i != j) & (i != k) & (j != k)).all()

    @pytest.mark.parametrize("noise", [0.2, 1.0])
    def test_a_share_is_flipped(self, problem, noise):
        X, M = problem
        triplets = make_triplets_from_metric(X, M, 1000, noise=noise, random_state=0)
        assert self.agreement(X, M, triplets) == pytest.approx(1 - noise)

    def test_are_drawn_uniformly(self):
        X = np.array([[0.0], [1.0], [3.0], [7.0]])
        triplets = make_triplets_from_metric(X, [[2.0]], 24000, random_state=0)
        unordered = np.column_stack([triplets[:, :1], np.sort(triplets[:, 1:], axis=1)])
        kinds, counts = np.unique(unordered, axis=0, return_counts=True)
        assert len(kinds) == 12
        assert chisquare(counts).pvalue > 1e-4

    def test_ties_are_not_judged(self):
        X = np.array([[0.0, 0.0], [0.0, 1.0], [0.0, 2.0], [5.0, 0.0]])
        triplets = make_triplets_from_metric(X, np.diag([1.0, 0.0]), 300, random_state=0)
        assert np.all(triplets[:, 0] != 3)
        assert np.all(triplets[:, 2] == 3)
        with pytest.raises(ValueError, match="all distances are equal"):
            make_triplets_from_metric(X, np.zeros((2, 2)), 5, random_state=0)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ((X4, np.eye(3), 5), "3 features"),
            ((X4, [[1.0, 2.0], [0.0, 1.0]], 5), "symmetric"),
            ((X4, np.diag([1.0, -1.0]), 5), "negative eigenvalue"),
            ((X4[:2], np.eye(2), 5), "minimum of 3"),
            ((X4 * np.nan, np.eye(2), 5), "NaN"),
            ((X4, np.eye(2), 0), "n_triplets must be an integer >= 1"),
        ],
    )
    def test_wrong_arguments(self, arguments, message):
        with pytest.raises(ValueError, match=message):
            make_triplets_from_metric(*arguments)

    @pytest.mark.parametrize("noise", [-0.1, 1.1, np.nan])
    def test_noise_is_a_share(self, noise):
        with pytest.raises(ValueError, match="noise must be a number"):
            make_triplets_from_metric(X4, np.eye(2), 5, noise=noise)


class TestWrongArguments:
    @pytest.mark.parametrize("make", [make_twin_peaks, make_helix, make_circles, make_known_metric])
    def test_samples_and_noise(self, make):
        with pytest.raises(ValueError, match="n_samples must be an integer"):
            make(0)
        with pytest.raises(ValueError, match="n_samples must be an integer"):
            make(10.0)
        for noise in (-1.0, np.nan, np.inf):
            with pytest.raises(ValueError, match="noise must be a number"):
                make(10, noise=noise)

    def test_circles(self):
        with pytest.raises(ValueError, match="n_features must be an integer >= 2"):
            make_circles(10, n_features=1)
        with pytest.raises(ValueError, match="n_classes must be an integer >= 1"):
            make_circles(10, n_classes=0)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"n_classes": 1}, "n_classes must be an integer >= 2"),
            ({"n_samples": 3}, "n_samples must be an integer >= 4"),
            ({"n_informative": 0}, "n_informative must be an integer >= 1"),
            ({"n_features": 2}, "n_features must be an integer >= 3"),
            ({"separation": 0.0}, "separation must be a number > 0"),
            ({"separation": np.nan}, "separation must be a number > 0"),
        ],
    )
    def test_known_metric(self, arguments, message):
        with pytest.raises(ValueError, match=message):
            make_known_metric(**arguments)


@pytest.mark.skipif(
    not REAL or not {path.stem for path in Path(REAL).glob("*.npz")} >= SYNTHETIC,
    reason="NEARFAR_DATA does not name a folder with the synthetic sets",
)
def test_the_files_have_the_labels_of_the_generators():
    peaks: Any = load("twin_peaks", folder=REAL)
    helix: Any = load("helix", folder=REAL)
    circles: Any = load("concentric_circles_50d", folder=REAL)
    assert np.array_equal(peaks.y, np.maximum(np.round(peaks.X[:, 2]), 0))
    assert np.array_equal(helix.y, np.round(helix.extra["t"]))
    for stored, (X, y) in [
        (peaks, make_twin_peaks(20000, random_state=0)),
        (helix, make_helix(20000, random_state=0)),
        (circles, make_circles(1000, random_state=0)),
    ]:
        assert stored.X.shape == X.shape
        np.testing.assert_allclose(stored.X.std(axis=0), X.std(axis=0), rtol=0.15)
        top = max(y.max(), stored.y.max()) + 1
        shares = [np.bincount(labels, minlength=top) / len(y) for labels in (y, stored.y)]
        np.testing.assert_allclose(shares[0], shares[1], atol=0.05)
