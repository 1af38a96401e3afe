from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from nearfar.datasets import Dataset, load

X4 = np.arange(8, dtype=np.float32).reshape(4, 2)
Y4 = np.array([0, 1, 1, 0], dtype=np.int16)


class TestDataset:
    def test_is_frozen_and_extra_is_read_only(self):
        data: Any = Dataset("four", X4, extra={"a": Y4.copy()})
        with pytest.raises(AttributeError):
            data.name = "five"
        with pytest.raises(TypeError):
            data.extra["b"] = Y4
        with pytest.raises(ValueError, match="read-only"):
            data.extra["a"][0] = 1

    def test_extra_does_not_freeze_the_array_it_was_given(self):
        mine = Y4.copy()
        Dataset("four", X4, extra={"a": mine})
        mine[0] = 1

    def test_survives_pickling(self):
        data: Any = load("iris")
        twin = pickle.loads(pickle.dumps(data))
        assert repr(twin) == repr(data)
        assert np.array_equal(twin.X, data.X)
        digits = pickle.loads(pickle.dumps(load("digits")))
        assert not digits.extra["image_shape"].flags.writeable
