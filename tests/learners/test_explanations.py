"""What a learner says when a fit fails."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import coo_array, csr_matrix
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV, cross_val_score

import nearfar
from nearfar import (
    ITML,
    LMNN,
    LSML,
    RCA,
    BoostMetric,
    Metric,
    MetricNeighborsClassifier,
    NearestTriplets,
    Pairs,
    PairVerifier,
    RandomPairs,
    Relevance,
    RetrievalAdapter,
    Triplets,
    compare,
    measures,
    neighbors,
    plots,
)
from nearfar.learners.base import MetricLearner

X, Y = load_iris(return_X_y=True)
TRIPLETS = NearestTriplets()(X, Y)
PAIRS = RandomPairs(60)(X, Y, np.random.RandomState(0))
INDEX = np.array([[0, 1], [2, 3], [60, 70], [0, 60], [1, 120], [70, 149]])
LABELS = np.array([1, 1, 1, -1, -1, -1])


def message_of(call, *args, error=ValueError):
    with pytest.raises(error) as raised:
        call(*args)
    return str(raised.value)


@pytest.mark.parametrize(
    ("learner", "tuples", "y", "hint"),
    [
        (ITML(), X[INDEX], LABELS, "Pairs.from_points(X, similar)"),
        (BoostMetric(), X[TRIPLETS.index[:9]], None, "Triplets.from_points(X)"),
        (BoostMetric(), X[TRIPLETS.index[:9]].tolist(), np.ones(9), "Triplets.from_points(X)"),
        (
            LSML(),
            X[TRIPLETS.index[:9][:, [0, 1, 0, 2]]],
            None,
            "Triplets.from_quadruplets(np.vstack(X), np.arange(4 * len(X)).reshape(-1, 4))",
        ),
    ],
)
def test_tuples_of_points(learner, tuples, y, hint):
    message = message_of(learner.fit, tuples, y)
    sentence = f"{hint} makes rows and constraints of tuples of points."
    assert message.endswith(f". Constraints are row numbers of X. {sentence}")


def test_the_hints_work():
    ITML().fit(*Pairs.from_points(X[INDEX], LABELS == 1))
    BoostMetric().fit(*Triplets.from_points(X[TRIPLETS.index[:9]]))
    points = X[TRIPLETS.index[:9][:, [0, 1, 0, 2]]]
    LSML().fit(*Triplets.from_quadruplets(np.vstack(points), np.arange(36).reshape(-1, 4)))


@pytest.mark.parametrize("y", [TRIPLETS, PAIRS], ids=["triplets", "pairs"])
def test_cross_validation_of_constraints_names_over(y):
    learner = LMNN(max_iter=2)
    for search in (
        lambda: cross_val_score(learner, X, y),
        lambda: GridSearchCV(learner, {"push": [0.5]}).fit(X, y),
    ):
        assert message_of(search, error=TypeError) == (
            f"{type(y).__name__} are not one target for each row. For cross-validation, pass their "
            "`over(len(X))` with shuffled folds; their row numbers are `index`."
        )


SPARSE = [csr_matrix(X), coo_array(X)]
EUCLIDEAN = Metric.identity(4)
USES = {
    "transform": EUCLIDEAN.transform,
    "distances": EUCLIDEAN.distances,
    "pair_distances": lambda S: EUCLIDEAN.pair_distances(S, PAIRS),
    "prefers": lambda S: EUCLIDEAN.prefers(S, TRIPLETS),
    "kneighbors": lambda S: neighbors.kneighbors(EUCLIDEAN, S, n_neighbors=2),
    "classifier": lambda S: MetricNeighborsClassifier(RCA()).fit(S, Y),
    "verifier": lambda S: PairVerifier().fit(S, PAIRS),
    "calibration": lambda S: PairVerifier(metric=EUCLIDEAN).fit(S, PAIRS),
    "verification": lambda S: measures.verification(EUCLIDEAN, S, PAIRS),
    "knn_error": lambda S: measures.knn_error(EUCLIDEAN, S, Y, S, Y),
    "compare": lambda S: compare(S, Y),
    "strategy": lambda S: NearestTriplets()(S, Y),
    "quadruplets": lambda S: Triplets.from_quadruplets(S, [[0, 1, 2, 3]]),
    "plot": lambda S: plots.before_and_after(EUCLIDEAN, S, Y),
    "adapter": lambda S: RetrievalAdapter().fit(S, S, Relevance([0, 1], [2, 3])),
}
PUBLIC = {name: getattr(nearfar, name) for name in nearfar.__all__}
for name, cls in PUBLIC.items():
    if isinstance(cls, type) and issubclass(cls, MetricLearner):
        USES[name] = lambda S, cls=cls: cls().fit(S, Y)


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("S", SPARSE, ids=["matrix", "array"])
def test_sparse_rows_have_a_sentence(use, S):
    message = message_of(USES[use], S, error=TypeError)
    assert "dense" in message
    assert ".toarray()" in message
