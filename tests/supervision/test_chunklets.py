from __future__ import annotations

import pytest

from nearfar.supervision import Chunklets


class TestChunklets:
    def test_pairs_are_all_within(self):
        chunklets = Chunklets([1, 0, 1, -1, 1])
        assert len(chunklets) == 2
        pairs = chunklets.pairs()
        assert pairs.index.tolist() == [[0, 2], [0, 4], [2, 4]]
        assert pairs.similar.all()
        assert chunklets.restrict([0, 1]).ids.tolist() == [1, 0]
        assert chunklets.take([0]).ids.tolist() == [-1, 0, -1, -1, -1]
        assert Chunklets.from_labels(["b", "a", "b"]).ids.tolist() == [1, 0, 1]

    @pytest.mark.parametrize("ids", [[[0, 1]], [0.5, 1.0], [-2, 0]])
    def test_refuses(self, ids):
        with pytest.raises(ValueError, match=r"Chunklet"):
            Chunklets(ids)

    def test_check(self):
        with pytest.raises(ValueError, match="3 ids, but X has 4"):
            Chunklets([0, 0, 1]).check(4)
