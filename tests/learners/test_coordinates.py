"""Coordinates do not depend on the order of rows, the layout of memory or rounding."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_wine

from nearfar import GMML, LDA, NCA, AutoMetric, BoostMetric, InverseCovariance, Metric
from nearfar.learners.base import known_learners
from nearfar.learners.problem import shortest_factor

WINE = load_wine(return_X_y=True)

# Sums over rows or over pairs of all rows. The others draw rows or pairs by their numbers, hold
# out rows, or make triplets of the nearest rows, of which each class has as many as it has rows.
WITHOUT_DRAWS = ["DCA", "GMML", "InverseCovariance", "KISSME", "LDA", "LFDA", "MLKR"]
WITHOUT_DRAWS += ["PLDA", "RCA", "SparseNCA", "XQDA"]
# OrdinalEmbedding has no vectors.
LEARNERS = [name for name in known_learners() if name != "OrdinalEmbedding"]

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def wide_points():
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    return rng.standard_normal((60, 100)) + 2 * np.eye(3)[y] @ rng.standard_normal((3, 100)), y


def coordinates(name, X, y, rows):
    """Fit a learner to X, and map other rows: by each of its maps, if there are several."""
    learner = known_learners()[name]()
    if "random_state" in learner.get_params():
        learner.set_params(random_state=0)
    if name == "AutoMetric":
        learner.set_params(budget=1e6, candidates=["RCA", "BoostMetric"])
    y = y.astype(float) if learner.supervision == ("numbers",) else y
    parts = learner.fit(X, y).metric_.parts
    return np.hstack([part.transform(rows) for part in parts])


def assert_close(found, expected, tolerance=1e-6):
    assert found.shape == expected.shape
    assert np.abs(found - expected).max() <= tolerance * np.abs(expected).max()


@pytest.mark.parametrize("name", LEARNERS)
def test_neither_layout_nor_rounding_matters(name, rng):
    X, y = WINE
    expected = coordinates(name, X, y, X)
    assert_close(coordinates(name, np.asfortranarray(X), y, X), expected)
    rounded = X * (1 + 2e-16 * rng.standard_normal(X.shape))
    assert_close(coordinates(name, rounded, y, X), expected)


@pytest.mark.slow
def test_kernels_of_blas_do_not_matter(tmp_path):
    # The first is that of any processor of the last twenty years, the second that of most.
    script = f"import test_coordinates; test_coordinates.write_coordinates({str(tmp_path)!r})"
    written = []
    for kernel in ("Prescott", "Haswell"):
        environment = os.environ | {"OPENBLAS_CORETYPE": kernel, "PYTHONPATH": ":".join(sys.path)}
        subprocess.run([sys.executable, "-c", script], env=environment, check=True)
        with np.load(tmp_path / "coordinates.npz") as arrays:
            written.append(dict(arrays))
    for name, expected in written[0].items():
        assert_close(written[1][name], expected)


def write_coordinates(folder):
    X, y = WINE
    warnings.simplefilter("ignore")
    found = {name: coordinates(name, X, y, X) for name in ("BoostMetric", "GMML", "LMNN", "NCA")}
    np.savez(Path(folder) / "coordinates.npz", **found)


@pytest.mark.parametrize("name", WITHOUT_DRAWS)
@pytest.mark.parametrize("points", ["wine", "wide"])
def test_the_order_of_rows_does_not_matter(points, name, rng):
    X, y = WINE if points == "wine" else wide_points()
    order = rng.permutation(len(X))
    expected = coordinates(name, X, y, X)
    assert_close(coordinates(name, X[order], y[order], X), expected)


def test_directions_that_nothing_was_learned_of_keep_the_columns(rng):
    # Of the identity and one direction, all but two coordinates have the same length.
    base, v = np.eye(6), np.array([0.0, 3.0, 4.0, 0.0, 0.0, 0.0])
    L = shortest_factor(np.vstack([base, v]))
    np.testing.assert_allclose(L[0], v * np.sqrt(26) / 5, atol=1e-12)
    np.testing.assert_allclose(L[[1, 3, 4, 5]], base[[0, 3, 4, 5]], atol=1e-12)
    rotation = np.linalg.qr(rng.standard_normal((7, 7)))[0]
    np.testing.assert_allclose(shortest_factor(rotation @ np.vstack([base, v])), L, atol=1e-12)


def test_covariances_of_equal_eigenvalues(rng):
    # Shrunk to a multiple of the identity, no axis is more important than another.
    X = rng.standard_normal((40, 6))
    order = rng.permutation(40)
    learner = InverseCovariance(shrinkage=1.0, scale="unit")
    first, second = (learner.fit(rows).components_ for rows in (X, X[order]))
    np.testing.assert_allclose(first, second, atol=1e-9)
    spread = learner.set_params(n_components=2).fit(X).transform(X).var(axis=0)
    largest = np.linalg.eigvalsh(np.cov(X.T))[::-1][:2]
    assert spread[0] / spread[1] == pytest.approx(largest[0] / largest[1], rel=1e-6)


@pytest.mark.parametrize("n_components", [None, 3])
def test_a_metric_near_the_inverse_covariance(n_components, rng):
    # Mapped points have the same spread in all directions but those that were learned.
    X, y = WINE
    learner = BoostMetric(
        prior="covariance", max_iter=2, n_components=n_components, validation_fraction=None
    )
    expected = learner.fit(X, y).transform(X)
    assert_close(learner.fit(np.asfortranarray(X), y).transform(X), expected)


def test_columns_of_other_units_survive_shrinkage():
    # In the units of X, one entry of M is 1e-24 of another.
    X, y = WINE
    learner = NCA(scale="standard", validation_fraction=0.2).fit(X, y)
    assert learner.prior_share_ > 0
    other = NCA(scale="standard", validation_fraction=0.2).fit(X * ([1e12] + [1] * 12), y)
    np.testing.assert_allclose(other.metric_.L * ([1e12] + [1] * 12), learner.metric_.L, rtol=1e-6)


def test_signs_follow_the_largest_entry_of_scaled_columns():
    X, y = WINE
    for learner in (GMML(), LDA(), BoostMetric(), AutoMetric(budget=5.0, candidates=["RCA"])):
        learner.set_params(scale="standard")
        L = learner.fit(X, y).components_ * X.std(axis=0)
        assert (L[range(len(L)), np.abs(L).argmax(axis=1)] > 0).all()


def test_a_file_keeps_its_coordinates(tmp_path):
    L = np.array([[-1.0, 0.5], [0.0, 3.0]])
    Metric(L).save(tmp_path / "metric.safetensors")
    np.testing.assert_array_equal(Metric.load(tmp_path / "metric.safetensors").L, L)
