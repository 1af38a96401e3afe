"""scikit-learn's own checks of everything public that has `fit`.

Whatever is not checked, or fails a check, is listed here with the reason. An entry that is no
longer needed fails, as expected failures are strict.
"""

from __future__ import annotations

import importlib
import pkgutil

import numpy as np
import pytest
from scipy.sparse import coo_matrix, csr_array
from sklearn.base import BaseEstimator, clone
from sklearn.datasets import load_iris
from sklearn.utils.estimator_checks import parametrize_with_checks

import nearfar
from docs.pages import ROOT, Page
from learners.test_learners import ALL_LEARNERS, ONE_OF_EACH_FAMILY, quick
from nearfar import (
    MLKR,
    NCA,
    PLDA,
    RCA,
    BoostMetric,
    InverseCovariance,
    MatchingPursuitBasis,
    Metric,
    MetricNeighborsClassifier,
    MetricNeighborsRegressor,
    Pairs,
    PairVerifier,
    Relevance,
    RetrievalAdapter,
)
from nearfar.neighbors import MetricNeighbors

X, Y = (part[::3] for part in load_iris(return_X_y=True))
PAIRS = Pairs([[0, 1], [0, 20]], [True, False])
NUMBERS = X[:, 0] + X[:, 1]

NOT_CHECKED = {
    "Columns": "It learns from a DataFrame of mixed columns. tests/columns has its conventions.",
    "OrdinalEmbedding": "It learns from triplets of objects, which have no X.",
    "PairVerifier": "It predicts pairs of rows of X. tests/verification adapts it to the checks.",
    "RecordMatcher": "It learns from two tables, and from pairs of their records.",
    "RetrievalAdapter": "It learns from queries, documents and relevance. tests/search adapts "
    "it to the checks.",
    "SourceWeights": "It learns from rankings of sources, by their names.",
}
"""What does not take X and y, so that the checks cannot be run."""

COPIES = "A copy of a row is its nearest neighbour; a row of weight two is not its own."
DRAWN = "Constraints are drawn at random: other ones where rows are repeated."
EXPECTED = {
    **dict.fromkeys(["BoostMetric", "DRMetric", "FrobMetric", "LMNN", "PSDBoost"], COPIES),
    **dict.fromkeys(["LFDA", "MLKR", "MixtureNCA", "NCA", "SparseNCA"], COPIES),
    **dict.fromkeys(["ITML", "LSML", "MMC", "MaxMarginMetric"], DRAWN),
    "AutoMetric": COPIES,
    "ForestMetric": "Trees and the basis of their vectors are drawn from the rows.",
    "MetricBoost": "A triplet of two copies and another row is none of a row of weight two.",
    "MetricNeighborsClassifier": "Each row votes once.",
    "MetricNeighborsRegressor": "Each row counts once in the linear part and in means.",
    "PiecewiseMetric": "Pieces lie between quantiles of the rows, which count once there.",
}
"""Why a row of weight w is not w equal rows: `check_sample_weight_equivalence_on_dense_data` fails.

Scatter matrices pass it. All other checks pass everywhere."""


def public_estimators():
    """Return all public classes of estimators by name."""
    found = {name: getattr(nearfar, name) for name in nearfar.__all__}
    for _, room, _ in pkgutil.iter_modules(nearfar.__path__):
        module = importlib.import_module(f"nearfar.{room}")
        found |= {name: getattr(module, name) for name in getattr(module, "__all__", [])}
    return {
        name: cls
        for name, cls in found.items()
        if isinstance(cls, type) and issubclass(cls, BaseEstimator) and callable(cls.fit)
    }


OTHERS = [
    MatchingPursuitBasis(),
    MatchingPursuitBasis(variant="paper"),
    MetricNeighbors(n_neighbors=1),
    MetricNeighborsClassifier(quick(BoostMetric)),
    MetricNeighborsRegressor(InverseCovariance(), n_neighbors=2),
]


def expected_failures(estimator):
    reason = EXPECTED.get(type(estimator).__name__)
    return {"check_sample_weight_equivalence_on_dense_data": reason} if reason else {}


def test_everything_with_fit_is_checked_or_listed():
    checked = {cls.__name__ for cls in [*ALL_LEARNERS, *map(type, OTHERS)]}
    assert checked.isdisjoint(NOT_CHECKED)
    assert set(public_estimators()) == checked | NOT_CHECKED.keys()
    assert checked >= EXPECTED.keys()


@pytest.mark.filterwarnings("ignore:Nothing was learned")
@parametrize_with_checks(
    [*map(quick, ONE_OF_EACH_FAMILY), *OTHERS], expected_failed_checks=expected_failures
)
def test_conventions(estimator, check):
    check(estimator)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Nothing was learned")
@parametrize_with_checks(
    [
        *(quick(cls) for cls in ALL_LEARNERS if cls not in ONE_OF_EACH_FAMILY),
        quick(NCA, batch_size=20),
    ],
    expected_failed_checks=expected_failures,
)
def test_conventions_of_the_others(estimator, check):
    check(estimator)


FITTED = {
    **{
        cls.__name__: quick(cls).fit(X, NUMBERS if cls.supervision == ("numbers",) else Y)
        for cls in [*ONE_OF_EACH_FAMILY, MLKR, PLDA]
    },
    "MatchingPursuitBasis": MatchingPursuitBasis().fit(X),
    "MetricNeighbors": MetricNeighbors().fit(X),
    "MetricNeighborsClassifier": MetricNeighborsClassifier(RCA()).fit(X, Y),
    "MetricNeighborsRegressor": MetricNeighborsRegressor(MLKR(), n_neighbors=3).fit(X, NUMBERS),
    "PairVerifier": PairVerifier(RCA(), random_state=0).fit(X, Y),
}
USES = {
    **{f"{name}.fit": lambda S, e=e: clone(e).fit(S, Y) for name, e in FITTED.items()},
    **{
        f"{name}.{method}": lambda S, e=e, m=method: getattr(e, m)(S)
        for name, e in FITTED.items()
        for method in ("transform", "predict", "predict_proba", "explain", "kneighbors")
        if hasattr(e, method) and name not in ("MaxMarginMetric", "PairVerifier")
    },
    **{f"{name}.score": lambda S, e=e: e.score(S, Y) for name, e in FITTED.items()
       if hasattr(e, "score")},
    **{f"{name}.partial_fit": lambda S, e=e: clone(e).partial_fit(S, Y)
       for name, e in FITTED.items() if hasattr(e, "partial_fit")},
    "MaxMarginMetric.transform": FITTED["MaxMarginMetric"].transform,
    "MaxMarginMetric.predict": lambda S: FITTED["MaxMarginMetric"].predict(S, PAIRS),
    "PairVerifier.predict": lambda S: FITTED["PairVerifier"].predict(S, PAIRS),
    "PLDA.score_pairs": lambda S: FITTED["PLDA"].score_pairs(S, PAIRS),
    "RetrievalAdapter.fit": lambda S: RetrievalAdapter().fit(X, S, Relevance([0, 1], [2, 3])),
    "Metric.transform": Metric.identity(4).transform,
    "Metric.distances": Metric.identity(4).distances,
}  # fmt: skip
"""What takes vectors: every public class with `fit`, but for those that take no arrays, and one
learner of each family."""


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("kind", [csr_array, coo_matrix])
def test_sparse_rows_are_refused_with_what_to_do(use, kind):
    with pytest.raises(TypeError, match=r"sparse .*SVD.*toarray.*sparse_output=False"):
        USES[use](kind(X))


def test_all_that_takes_vectors_is_tried_on_sparse_rows():
    tried = {use.partition(".")[0] for use in USES}
    of_no_arrays = {"Columns", "OrdinalEmbedding", "RecordMatcher", "SourceWeights"}
    others = {cls.__name__ for cls in ALL_LEARNERS if cls not in ONE_OF_EACH_FAMILY}
    assert tried >= set(public_estimators()) - of_no_arrays - others


def test_the_examples_of_the_page_run():
    page = Page.read(ROOT / "docs/reference/scikit-learn.md")
    names = {}
    for block in page.blocks:
        exec(compile(block.text, page.name, "exec"), names)
    assert np.isfinite(names["results"]["test_score"]).all()
    assert names["pipeline"].score(names["texts"], [0] * 20 + [1] * 20) > 0.9
