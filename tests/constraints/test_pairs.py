from __future__ import annotations

import pytest

from nearfar import Pairs


class TestPairs:
    @pytest.mark.parametrize(
        ("index", "similar", "message"),
        [
            ([[0, 1, 2]], [True], "shape"),
            ([[1, 1]], [True], "same row"),
            ([[0, 1]], [1], "one boolean per pair"),
            ([[0, 1]], [True, False], "one boolean per pair"),
        ],
    )
    def test_refuses(self, index, similar, message):
        with pytest.raises(ValueError, match=message):
            Pairs(index, similar)

    def test_restrict(self):
        pairs = Pairs([[0, 1], [1, 2], [2, 3]], [True, False, True], [1.0, 2.0, 3.0])
        kept = pairs.restrict([3, 2, 1])
        assert kept.index.tolist() == [[2, 1], [1, 0]]
        assert kept.similar.tolist() == [False, True]
        assert kept.weight.tolist() == [2.0, 3.0]
