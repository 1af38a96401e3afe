from __future__ import annotations

import pytest
from sklearn.datasets import load_wine

from nearfar import MaxMarginMetric, max_margin_path
from problems import random_pairs


class TestPath:
    def test_each_step_is_the_optimum_of_its_penalty(self):
        X, pairs = random_pairs(10, n=200)
        path = max_margin_path(
            X,
            pairs,
            C=[1000.0, 1.0, 30.0],
            learner=MaxMarginMetric(scale="standard", tol=1e-6),
            cv=None,
        )
        assert path.C.tolist() == [1.0, 30.0, 1000.0]
        alone_iterations = warm_iterations = 0
        for C, warm in zip(path.C, path.learners, strict=True):
            alone = MaxMarginMetric(scale="standard", C=C, tol=1e-6).fit(X, pairs)
            assert warm.history_.objective[-1] == pytest.approx(
                alone.history_.objective[-1], rel=3e-6
            )
            alone_iterations += alone.n_iter_
            warm_iterations += warm.n_iter_
        assert warm_iterations < alone_iterations
        with pytest.raises(ValueError, match="not cross-validated"):
            _ = path.best

    def test_cross_validated_choice(self):
        X, y = load_wine(return_X_y=True)
        path = max_margin_path(X, y, C=[1e-4, 100.0], cv=3, random_state=0)
        assert path.scores.shape == (2, 3)
        assert path.best is path.learners[int(path.scores.mean(axis=1).argmax())]
        assert path.best.C == 100.0
