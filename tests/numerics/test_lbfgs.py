from __future__ import annotations

import numpy as np
import pytest

from nearfar.numerics.lbfgs import lbfgs


def test_lbfgs_can_be_stopped_and_fails_loudly():
    def sphere(x):
        return float(x @ x), 2 * x

    steps = lbfgs(sphere, np.full(3, 5.0), max_iter=50, tol=0.0)
    next(steps)
    steps.close()

    def broken(x):
        raise RuntimeError("no value here")

    with pytest.raises(RuntimeError, match="no value"):
        next(lbfgs(broken, np.ones(2), max_iter=5, tol=0.0))
    with pytest.raises(ValueError, match="not finite"):
        next(lbfgs(lambda x: (np.nan, x), np.ones(2), max_iter=5, tol=0.0))
