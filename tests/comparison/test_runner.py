from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.covariance import ledoit_wolf_shrinkage
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.decomposition import PCA
from sklearn.metrics.pairwise import additive_chi2_kernel
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    LeaveOneOut,
    StratifiedKFold,
    cross_val_score,
)
from sklearn.neighbors import KNeighborsClassifier, NeighborhoodComponentsAnalysis
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler

import nearfar
from comparison.helpers import Failing, FakeClock
from nearfar import LDA, BoostMetric, MixtureNCA, compare
from nearfar.comparison import tasks as scoring
from nearfar.evidence.verdict import UNSCALED
from nearfar.measures.neighbor_votes import NUMBERS
from nearfar.metrics import gallery as search
from nearfar.runtime.progress import OutOfTimeError, deadline

SCIKIT_NCA = NeighborhoodComponentsAnalysis(max_iter=5, random_state=0)
FOLDS = StratifiedKFold(5, shuffle=True, random_state=0)
X, Y = load_iris(return_X_y=True)


class Whitened(TransformerMixin, BaseEstimator):
    """Mahalanobis distance with scikit-learn's shrinkage, in the space that the rows span."""

    def fit(self, X, y=None):
        values, vectors = np.linalg.eigh(np.cov(X, rowvar=False))
        kept = values > 1e-12 * values[-1]
        values, vectors = values[kept], vectors[:, kept]
        share = ledoit_wolf_shrinkage(X @ vectors) * len(X) / (len(X) - 1)
        self.map_ = vectors / np.sqrt((1 - share) * values + share * values.mean())
        return self

    def transform(self, X):
        return X @ self.map_


class ChiSquare(TransformerMixin, BaseEstimator):
    """Chi-square distances to the training rows."""

    def fit(self, X, y=None):
        self.X_ = X
        return self

    def transform(self, X):
        return -additive_chi2_kernel(X, self.X_)


def scikit_learn_errors(X, y):
    """Errors of scikit-learn pipelines for the plain methods, on the same folds."""
    votes = KNeighborsClassifier(3, algorithm="brute")
    manhattan = KNeighborsClassifier(3, algorithm="brute", metric="manhattan")
    models = {
        "Euclidean (unscaled)": votes,
        "Euclidean (standardised)": make_pipeline(StandardScaler(), votes),
        "cosine": make_pipeline(Normalizer(), votes),
        "L1": make_pipeline(StandardScaler(), manhattan),
        "inverse covariance": make_pipeline(StandardScaler(), Whitened(), votes),
        "LDA": make_pipeline(StandardScaler(), LDA(shrinkage=0), votes),
        "NCA": make_pipeline(StandardScaler(), SCIKIT_NCA, votes),
    }
    if X.min() >= 0:
        table = KNeighborsClassifier(3, algorithm="brute", metric="precomputed")
        models["chi-square"] = make_pipeline(ChiSquare(), table)
    return {name: 1 - cross_val_score(model, X, y, cv=FOLDS) for name, model in models.items()}


@pytest.mark.filterwarnings("ignore:.*NCA did not converge")
@pytest.mark.parametrize("name", ["wine", "digits", "ionosphere"])
def test_plain_methods_agree_with_scikit_learn(name, request):
    if name == "ionosphere":
        request.getfixturevalue("data_folder")
        data = nearfar.datasets.load("ionosphere")
        X, y = data.X, data.y
    else:
        X, y = {"wine": load_wine, "digits": load_digits}[name](return_X_y=True)
        X, y = X[:250], y[:250]
    found = compare(X, y, {"NCA": SCIKIT_NCA}, n_neighbors=3)
    expected = scikit_learn_errors(X, y)
    assert set(found) == set(expected)
    assert ("chi-square" in found) == (name != "ionosphere")
    for method, errors in expected.items():
        # A descent of many steps ends where rounding leads it: one or two rows may differ.
        few = 0.03 if method == "NCA" else 1e-12
        np.testing.assert_allclose(found[method].errors, errors, atol=few, err_msg=method)


def test_learners_are_fitted_to_the_same_standardised_rows():
    X, y = load_wine(return_X_y=True)
    boost = BoostMetric(max_iter=20, scale="standard")
    found = compare(X, y, {"boost": boost}, n_neighbors=3)
    model = make_pipeline(StandardScaler(), boost, KNeighborsClassifier(3, algorithm="brute"))
    np.testing.assert_allclose(found["boost"].errors, 1 - cross_val_score(model, X, y, cv=FOLDS))


def test_the_number_of_neighbours_is_chosen_on_other_rows():
    random = np.random.RandomState(0)
    X = random.normal(size=(400, 3))
    y = ((X[:, 0] > 0) ^ (random.uniform(size=400) < 0.3)).astype(int)
    found = compare(X, y, [], n_neighbors="auto")[UNSCALED]
    for fold, (train, test) in enumerate(FOLDS.split(X, y)):
        k = found.n_neighbors[fold]
        assert k in NUMBERS[1:]
        order = np.argsort(cdist(X[test], X[train]), axis=1)
        votes = np.round(y[train][order[:, :k]].mean(axis=1))
        np.testing.assert_array_equal(found.wrong[test], votes != y[test])
    assert found.error < compare(X, y, [], n_neighbors=1)[UNSCALED].error


def test_test_rows_have_no_part_in_the_number_of_neighbours(rng):
    X, y = rng.normal(size=(200, 3)), rng.integers(2, size=200)
    cv = [(np.arange(150), np.arange(150, 200))]
    other = np.append(y[:150], 1 - y[150:])
    one, two = (compare(X, labels, ["RCA"], cv=cv, classifiers=False) for labels in (y, other))
    for name, result in one.items():
        np.testing.assert_array_equal(result.n_neighbors, two[name].n_neighbors)
        np.testing.assert_array_equal(result.wrong[150:], 1 - two[name].wrong[150:])


def test_classes_of_three_rows_and_names_of_classes(rng):
    y = np.repeat(np.arange(20), 3)
    X = rng.normal(size=(60, 4)) + 5 * rng.normal(size=(20, 4))[y]
    found = compare(X, y, ["InverseCovariance", "LDA", "RCA"], classifiers=False)
    assert found.n_folds == 3
    assert "3 folds instead of 5" in found.notes[0]
    assert not found.left_out or found.left_out[0].name == "chi-square"
    assert list(found)[-1] == "RCA"


def test_small_tiles_change_nothing(monkeypatch):
    whole = compare(X, Y, []).to_dict()
    monkeypatch.setattr(search, "_MAX_ELEMENTS", 2000)
    parts = compare(X, Y, []).to_dict()
    for one, other in zip(whole["methods"], parts["methods"], strict=True):
        assert one["error"] == other["error"]
        assert one["map_at_r"] == pytest.approx(other["map_at_r"])


def test_estimators_without_a_metric_and_gated_ones():
    learners = [PCA(2), MixtureNCA(n_metrics=2, max_iter=5, random_state=0)]
    found = compare(X, Y, learners, cv=3, n_neighbors=3)
    pca = make_pipeline(StandardScaler(), PCA(2), KNeighborsClassifier(3, algorithm="brute"))
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    np.testing.assert_allclose(found["PCA"].errors, 1 - cross_val_score(pca, X, Y, cv=folds))
    assert found["MixtureNCA"].error < 0.2


def test_repeated_and_partial_folds():
    rows = np.arange(150)
    folds = [(rows[::2], rows[1::2]), (rows[1::2], rows[::2]), (rows[::2], rows[1::2])]
    found = compare(X, Y, [], cv=folds)
    assert found.n_folds == 3
    assert np.isin(found["Euclidean (standardised)"].wrong, [0, 0.5, 1]).all()
    part = compare(X, Y, [], cv=[(rows[::2], rows[1::10])])
    assert np.isnan(part["Euclidean (standardised)"].wrong).sum() == 135


def test_masks_and_groups(rng):
    mask = rng.permutation(np.arange(150) < 50)
    found = compare(X, Y, [], cv=[(~mask, mask)])
    assert (
        found["Euclidean (standardised)"].error
        == compare(X, Y, [], cv=[(np.flatnonzero(~mask), np.flatnonzero(mask))])[
            "Euclidean (standardised)"
        ].error
    )
    groups = np.arange(150) % 6
    found = compare(X, Y, [], cv=GroupKFold(3), groups=groups)
    assert found.n_folds == 3
    with pytest.raises(ValueError, match="rows of one group on both sides"):
        compare(X, Y, [], cv=[(np.arange(149), [149])], groups=groups)
    few = compare(X, Y, [], cv=7, groups=groups)
    assert few.n_folds == 6
    assert "6 folds instead of 7" in few.notes[0]


def test_folds_without_rows_to_rank():
    labels = np.where(np.arange(150) == 0, 3, Y)
    found = compare(X[::10], labels[::10], [], cv=LeaveOneOut())
    assert 0.5 < found["Euclidean (standardised)"].map_at_r < 1
    assert found.ranking.mark(found["Euclidean (standardised)"]) == ""


def test_without_a_seed_all_methods_are_scored_on_the_same_rows(monkeypatch):
    monkeypatch.setattr(scoring, "_RANKED_DISTANCES", 1)
    monkeypatch.setattr(scoring, "_RANKED_ROWS", 7)
    found = compare(X, Y, [], random_state=None)
    ranked = {tuple(np.isnan(result.losses["map_at_r"])) for result in found.values()}
    assert len(ranked) == 1


def test_progress_ends_at_its_total():
    seen = []
    compare(X, Y, [], cv=3, progress=lambda *call: seen.append(call))
    assert [done for done, _, _ in seen] == list(range(27))
    assert {total for _, total, _ in seen} == {27}
    assert seen[0][2] == "Euclidean (unscaled), fold 1 of 3, 100 rows"


def test_a_deadline_ends_fits_and_what_tries_several():
    search = GridSearchCV(BoostMetric(), {"max_iter": [1, 2]}, cv=2, error_score=0)
    for estimator in (BoostMetric(), MixtureNCA(random_state=0), search):
        with deadline(-1, clock=FakeClock()), pytest.raises(OutOfTimeError):
            estimator.fit(X, Y)
    BoostMetric(max_iter=1).fit(X, Y)


def test_a_method_that_fails_is_left_out():
    found = compare(X - 3, Y, {"failing": Failing()}, cv=3)
    assert {result.name: result.note for result in found.left_out} == {
        "chi-square": "needs values of 0 or more",
        "failing": "failed: not with these rows",
    }
    found = compare(X, Y, {"failing": Failing(RuntimeError)}, cv=3)
    assert found.notes == ["Left out: failing (failed: not with these rows)."]


def test_distances_that_overflow_are_no_distances():
    found = compare(X * 1e200, Y, [], cv=2)
    assert found.left_out[0].name == "Euclidean (unscaled)"
    assert "not finite" in found.left_out[0].note
    assert found.classification.reference.name == "Euclidean (standardised)"


BAD = {
    "one class": ({"y": np.zeros(10)}, "two classes"),
    "one fold": ({"cv": 1}, "from 2"),
    "no such learner": ({"learners": ["Magic"]}, "no method 'Magic'"),
    "a class, no estimator": ({"learners": [BoostMetric]}, "is not an estimator"),
    "half a neighbour": ({"n_neighbors": 2.5}, "an integer >= 1"),
    "classes of one row": (
        {"y": np.arange(10)},
        "nothing to hold out: the size of the largest class is 1, and two are needed",
    ),
    "no folds": ({"cv": []}, "no folds"),
    "training rows tested": (
        {"cv": [(np.arange(10), np.arange(5))]},
        "none of them among its training",
    ),
    "no time of its own": ({"budget": float("nan")}, "budget must be"),
    "not classes": (
        {"y": np.linspace(0, 1, 10), "numbers": False},
        "Unknown label type",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input(case, rng):
    options, message = BAD[case]
    options = {"y": np.arange(10) % 2} | options
    with pytest.raises(ValueError, match=message):
        compare(rng.normal(size=(10, 2)), **options)
