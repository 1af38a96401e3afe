"""Where learners of a map begin: what the words of `init` stand for, and metrics of one's own."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.preprocessing import StandardScaler

from nearfar import LMNN, MLKR, NCA, Metric, MixtureNCA, NearestTriplets, SparseNCA
from nearfar.learners.map_learner import named_map, principal_axes
from nearfar.learners.problem import FitInput
from nearfar.learners.scaling import Scaler
from nearfar.rows import open_rows
from nearfar.supervision import Supervision

X, Y = load_wine(return_X_y=True)
Z = StandardScaler().fit_transform(X)
LEARNERS = [NCA, SparseNCA, MixtureNCA, LMNN, MLKR]
WORDS = ["auto", "identity", "pca", "lda", "random"]

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def input_of(points=Z, y=Y, seed=0):
    known = Supervision.of(y, len(points))
    return FitInput(points, Scaler.fit(Z, None), known, np.random.RandomState(seed))


def quick(cls, **parameters):
    extra = {"n_metrics": 2} if cls is MixtureNCA else {}
    return cls(max_iter=2, random_state=0, **extra, **parameters)


def test_the_identity_and_principal_axes():
    for word in ("identity", "pca"):
        np.testing.assert_array_equal(named_map(word, Z, input_of(), None), np.eye(13))
    turned = principal_axes(np.eye(13), Z)
    np.testing.assert_allclose(turned @ turned.T, np.eye(13), atol=1e-12)
    spread = turned @ np.cov(Z.T) @ turned.T
    np.testing.assert_allclose(spread, np.diag(np.diag(spread)), atol=1e-12)
    assert (np.diff(np.diag(spread)) < 0).all()
    for word in ("identity", "pca"):
        np.testing.assert_array_equal(named_map(word, Z, input_of(), 4), turned[:4])


def test_all_discriminant_axes_are_the_inverse_covariance_within_classes():
    L = named_map("lda", Z, input_of(), None)
    means = np.array([Z[code == Y].mean(axis=0) for code in range(3)])
    centered = Z - means[Y]
    S = centered.T @ centered / len(Z)
    shrunk = 0.9 * S + 0.1 * np.trace(S) / 13 * np.eye(13)
    np.testing.assert_allclose(L.T @ L, np.linalg.inv(shrunk), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("k", [1, 2, 5])
def test_the_first_discriminant_axes_are_those_of_scikit_learn(k):
    L = named_map("lda", Z, input_of(), k)
    analysis = LinearDiscriminantAnalysis(solver="eigen", shrinkage=0.1).fit(Z, Y)
    theirs = analysis.scalings_.T[: min(k, 2)]
    np.testing.assert_allclose(np.abs(L[:2] @ theirs.T), np.abs(theirs @ theirs.T), rtol=1e-9)
    # Others do not discriminate, and have the largest spread of those.
    rest = L[2:]
    lengths = np.linalg.norm(rest, axis=1)
    assert (np.diff(lengths) > 0).all()
    assert len(L) == k


def test_rows_on_disk_have_the_same_discriminant_axes(tmp_path):
    np.save(tmp_path / "rows.npy", Z)
    rows = open_rows(tmp_path / "rows.npy")
    np.testing.assert_allclose(
        named_map("lda", rows, input_of(), 2), named_map("lda", Z, input_of(), 2)
    )


def test_random_maps_come_from_the_random_state():
    one, same, other = (named_map("random", Z, input_of(seed=s), 3) for s in (0, 0, 1))
    np.testing.assert_array_equal(one, same)
    assert one.shape == (3, 13)
    assert not np.isclose(one, other).any()


@pytest.mark.parametrize(("k", "word"), [(None, "identity"), (1, "lda"), (2, "lda"), (3, "pca")])
def test_auto(k, word):
    np.testing.assert_array_equal(
        named_map("auto", Z, input_of(), k), named_map(word, Z, input_of(), k)
    )


def test_auto_without_labels_is_the_identity():
    known = input_of(y=NearestTriplets()(Z, Y))
    np.testing.assert_array_equal(named_map("auto", Z, known, 2), principal_axes(np.eye(13), Z)[:2])


@pytest.mark.parametrize("word", WORDS)
def test_constant_features_do_not_count(word):
    points = np.column_stack([Z[:, :4], np.full(len(Z), 3.0)])
    L = named_map(word, points, input_of(points), None)
    assert L.shape == (4, 5)
    assert not L[:, 4].any()


def test_classes_of_equal_rows_have_principal_axes():
    points = np.repeat(Z[:5], 4, axis=0)
    known = input_of(points, np.repeat(np.arange(5), 4))
    np.testing.assert_allclose(
        np.abs(named_map("lda", points, known, 2)),
        np.abs(principal_axes(np.eye(13), points)[:2]),
    )


@pytest.mark.parametrize("cls", LEARNERS)
@pytest.mark.parametrize("init", WORDS)
def test_learners_begin_there(cls, init):
    y = Y.astype(float) if cls is MLKR else Y
    if cls is MLKR and init == "lda":
        with pytest.raises(ValueError, match='init="lda" needs labels'):
            quick(cls, init=init).fit(X, y)
        return
    whole, few = (quick(cls, init=init, n_components=k).fit(X, y) for k in (None, 2))
    assert few.transform(X).shape == (178, 2)
    assert np.isfinite(whole.transform(X)).all()


@pytest.mark.parametrize("cls", [NCA, LMNN])
def test_starts_differ(cls):
    ends = {init: quick(cls, init=init, n_components=2).fit(X, Y).metric_.matrix for init in WORDS}
    assert not np.allclose(ends["lda"], ends["pca"])
    assert not np.allclose(ends["random"], ends["pca"])
    np.testing.assert_array_equal(ends["auto"], ends["lda"])
    np.testing.assert_array_equal(ends["identity"], ends["pca"])


def test_triplets_have_no_discriminant_axes():
    with pytest.raises(ValueError, match='init="lda" needs labels'):
        LMNN(init="lda").fit(X, NearestTriplets()(X, Y))


@pytest.mark.parametrize("cls", LEARNERS)
@pytest.mark.parametrize("scale", ["auto", "standard", None])
def test_a_metric_needs_as_many_components(cls, scale):
    y, few = Y.astype(float) if cls is MLKR else Y, Metric(np.eye(13)[:2])
    with pytest.raises(ValueError, match=r"has 2 components, fewer than n_components=4\.$"):
        quick(cls, init=few, n_components=4, scale=scale).fit(X, y)
    for enough in (few, Metric(np.eye(13)[:5])):
        learner = quick(cls, init=enough, n_components=2, scale=scale).fit(X, y)
        assert learner.metric_.n_components == 2


def test_a_warm_start_may_have_fewer():
    learner = SparseNCA(n_components=4, sparsity=0.3, warm_start=True).fit(X, Y)
    before = learner.metric_.n_components
    assert before < 4
    assert learner.fit(X, Y).metric_.n_components <= before


def test_arrays_are_told_to_be_metrics():
    with pytest.raises(ValueError, match=r"a Metric, as Metric\(L\) of an array L; got an array"):
        NCA(init=np.eye(13)).fit(X, Y)
