"""PiecewiseMetric: a linear learner on columns in pieces."""

from __future__ import annotations

import numpy as np
from sklearn.preprocessing import StandardScaler

from nearfar import LDA, RCA, PiecewiseMetric, RandomTriplets
from nearfar.measures import knn_error
from nearfar.metrics.feature_maps import PieceMap

RANDOM = np.random.RandomState(0)
X = RANDOM.normal(size=(400, 3))
# Both classes have the same mean: a linear map cannot tell them apart.
Y = (np.abs(X[:, 0]) > 0.7).astype(int)


def test_it_is_the_learner_on_ramps():
    piecewise = PiecewiseMetric(learner=RCA(), n_pieces=4, scale="standard").fit(X, Y)
    Z = StandardScaler().fit_transform(X)
    ramps = PieceMap.fit(Z, 4).transform(Z)
    alone = RCA(scale=None).fit(ramps, Y)
    np.testing.assert_allclose(
        piecewise.metric_.distances(X[:20]), alone.metric_.distances(ramps[:20]), rtol=1e-6
    )


def test_it_bends_where_a_line_cannot():
    train, test = (X[:300], Y[:300]), (X[300:], Y[300:])
    linear, bent = LDA().fit(*train), PiecewiseMetric().fit(*train)
    assert knn_error(bent.metric_, *train, *test) < 0.1
    assert knn_error(linear.metric_, *train, *test) > 0.3


def test_one_piece_is_the_learner_itself():
    one = PiecewiseMetric(learner=LDA(), n_pieces=1, scale="standard").fit(X, Y)
    plain = LDA(scale="standard").fit(X, Y)
    np.testing.assert_allclose(one.metric_.distances(X[:9]), plain.metric_.distances(X[:9]))


def test_triplets_too():
    from nearfar import BoostMetric

    triplets = RandomTriplets(300)(X, Y, np.random.RandomState(0))
    bent = PiecewiseMetric(learner=BoostMetric(max_iter=20)).fit(X, triplets)
    assert bent.score(X, triplets) > BoostMetric(max_iter=20).fit(X, triplets).score(X, triplets)
