"""`prior="covariance"`: the inverse covariance of the rows of each fit."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.covariance import ledoit_wolf, ledoit_wolf_shrinkage
from sklearn.datasets import load_wine

import nearfar
from nearfar import ITML, LSML, InverseCovariance, PSDBoost, RandomPairs, RandomTriplets
from nearfar.learners.base import ConstraintLearner
from nearfar.learners.problem import FitInput, inverse_covariance
from nearfar.learners.scaling import Scaler
from nearfar.rows import open_rows
from nearfar.supervision import Supervision

X, Y = load_wine(return_X_y=True)
LEARNERS = [
    cls
    for cls in (getattr(nearfar, name) for name in nearfar.__all__)
    if isinstance(cls, type) and issubclass(cls, ConstraintLearner)
]


def input_of(points, scale):
    scaler = Scaler.fit(points, scale)
    known = Supervision.of(Y[: len(points)], len(points))
    return FitInput(scaler.transform(points), scaler, known, np.random.RandomState(0))


@pytest.mark.parametrize("scale", ["standard", "unit", None])
def test_it_is_the_inverse_of_the_shrunk_covariance(scale):
    data = input_of(X, scale)
    wanted = np.linalg.inv(ledoit_wolf(data.Z)[0])
    wanted /= np.multiply.outer(data.scaler.scale, data.scaler.scale)
    np.testing.assert_allclose(inverse_covariance(data).matrix, wanted, rtol=1e-6)


def test_it_is_that_of_inverse_covariance():
    # Which divides by n - 1 in place of n, here and in the estimate of the shrinkage.
    data, n = input_of(X, "standard"), len(X)
    share = ledoit_wolf_shrinkage(data.Z) * n / (n - 1)
    found = inverse_covariance(data).matrix
    learned = InverseCovariance(scale="standard", shrinkage=share * (n - 1) / n).fit(X)
    np.testing.assert_allclose(found, learned.metric_.matrix * n / (n - 1), rtol=1e-6)
    auto = InverseCovariance(scale="standard").fit(X).metric_.matrix
    given = InverseCovariance(scale="standard", shrinkage=share).fit(X).metric_.matrix
    np.testing.assert_allclose(auto, given, rtol=1e-6)


def test_directions_without_spread_have_no_distance():
    wide = np.column_stack([X[:8], X[:8, :2] @ [[1.0], [2.0]], np.full(8, 3.0)])
    metric = inverse_covariance(input_of(wide, "standard"))
    assert metric.n_components == 7
    assert not metric.L[:, -1].any()
    same = np.ones((4, 3))
    assert inverse_covariance(input_of(same, None)).matrix.tolist() == np.eye(3).tolist()


def test_rows_on_disk_are_many_and_not_shrunk(tmp_path):
    np.save(tmp_path / "rows.npy", X)
    rows = open_rows(tmp_path / "rows.npy")
    scaler = Scaler.fit(rows, "standard")
    Z = rows.mapped(scaler.transform_block)
    data = FitInput(Z, scaler, Supervision.of(Y, len(X)), np.random.RandomState(0))
    wanted = np.linalg.inv(np.cov(X.T, bias=True))
    np.testing.assert_allclose(inverse_covariance(data).matrix, wanted, rtol=1e-8)


def test_unit_rows():
    metric = inverse_covariance(input_of(X, "cosine"))
    np.testing.assert_allclose(metric.transform(X), metric.transform(5 * X))


@pytest.mark.parametrize("cls", LEARNERS)
@pytest.mark.parametrize("y", ["labels", "constraints"])
def test_it_is_the_metric_in_place_of_its_name(cls, y):
    made = RandomTriplets(300) if "triplets" in cls.supervision else RandomPairs(300)
    known = Y if y == "labels" else made(X, Y, np.random.RandomState(0))
    given = inverse_covariance(input_of(X, "standard"))
    by_name, by_metric = (
        cls(prior=prior, scale="standard", random_state=0).fit(X, known)
        for prior in ("covariance", given)
    )
    np.testing.assert_array_equal(by_name.metric_.matrix, by_metric.metric_.matrix)
    assert by_name.get_params()["prior"] == "covariance"


def test_a_result_is_shrunk_to_it():
    learner = PSDBoost(
        prior="covariance", scale="standard", validation_fraction=0.2, random_state=0
    ).fit(X, Y)
    assert learner.prior_share_ > 0
    parts = (learner._learned_metric, inverse_covariance(input_of(X, "standard")))
    # In units of the standard deviations, in which entries are alike.
    unit = np.multiply.outer(X.std(axis=0), X.std(axis=0))
    matrices = [(metric.matrix * unit).ravel() for metric in (*parts, learner.metric_)]
    weights, residual, *_ = np.linalg.lstsq(np.transpose(matrices[:2]), matrices[2], rcond=None)
    assert (weights > 0).all()
    assert residual[0] < 1e-20 * np.sum(matrices[2] ** 2)


@pytest.mark.parametrize("learner", [ITML, LSML])
def test_arrays_are_told_to_be_metrics(learner):
    with pytest.raises(ValueError, match=r"as Metric\.from_matrix\(M\) of an array M; got an arr"):
        learner(prior=np.eye(13)).fit(X, Y)
    with pytest.raises(ValueError, match=r"prior must be .*; got 'random'"):
        learner(prior="random").fit(X, Y)


def test_a_kernel_has_no_covariance_of_rows():
    with pytest.raises(ValueError, match="With a kernel the prior must be"):
        nearfar.MaxMarginMetric(kernel="rbf", prior="covariance").fit(X, Y)
