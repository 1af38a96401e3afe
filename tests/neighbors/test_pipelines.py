"""Pipelines in `MetricNeighborsClassifier`: fitted to training rows, and again to calibrate."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_wine
from sklearn.decomposition import PCA
from sklearn.feature_selection import SelectKBest
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from nearfar import LFDA, RCA, MetricNeighborsClassifier

X, Y = load_wine(return_X_y=True)


def test_rows_are_transformed_before_the_metric_measures_them():
    classifier = MetricNeighborsClassifier(make_pipeline(PCA(4), LFDA()), votes="whole")
    classifier.fit(X[::2], Y[::2])
    pca = PCA(4).fit(X[::2])
    plain = MetricNeighborsClassifier(LFDA(), classifier.n_neighbors_, votes="whole")
    plain.fit(pca.transform(X[::2]), Y[::2])
    np.testing.assert_array_equal(
        classifier.predict(X[1::2]), plain.predict(pca.transform(X[1::2]))
    )
    assert classifier.metric_.n_features == 4
    assert classifier.explain(X[1::2]).probability.shape == (89,)
    assert classifier.n_features_in_ == 13


def test_columns_chosen_by_labels_do_not_flatter_the_probabilities():
    """Noise: whatever is chosen among 500 columns, votes are right half of the time."""
    rng = np.random.default_rng(0)
    rows, coins = rng.normal(size=(100, 500)), np.arange(100) % 2
    chosen = SelectKBest(k=8)
    inside = MetricNeighborsClassifier(make_pipeline(chosen, RCA())).fit(rows, coins)
    new = rng.normal(size=(200, 500))
    claimed = inside.predict_proba(new).max(axis=1).mean()
    ready = clone(chosen).fit(rows, coins)
    outside = MetricNeighborsClassifier(RCA()).fit(ready.transform(rows), coins)
    assert outside.predict_proba(ready.transform(new)).max(axis=1).mean() > 0.65
    assert claimed < 0.6


def test_a_table_with_words_in_a_grid_search():
    frame = pd.DataFrame({"kind": np.where(Y == 0, "a", "b"), "ash": X[:, 2], "hue": X[:, 10]})
    columns = make_column_transformer((OneHotEncoder(), ["kind"]), ("passthrough", ["ash", "hue"]))
    classifier = MetricNeighborsClassifier(make_pipeline(columns, RCA()), votes="whole")
    search = GridSearchCV(classifier, {"n_neighbors": [1, 5]}, cv=3, error_score="raise")
    assert search.fit(frame, Y).best_score_ > 0.7
    assert search.predict(frame[::-1]).shape == (178,)


def test_a_pipeline_ends_in_a_learner():
    with pytest.raises(TypeError, match="must end in a learner of a metric"):
        MetricNeighborsClassifier(make_pipeline(PCA(2))).fit(X, Y)
