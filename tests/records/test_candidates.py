"""Candidates against all cosines, and the share of matches that they keep."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.feature_extraction.text import HashingVectorizer

from nearfar.records import candidate_pairs
from nearfar.records import records as candidates
from nearfar.records.records import kept_matches, pair_places


def people(n, rng):
    """Return records of people, and the same people with a changed letter in each name."""
    letters = list("abcdefghijklmnop")
    names = ["".join(rng.choice(letters, 8)) for _ in range(n)]
    phones = [str(number) for number in rng.integers(10**6, 10**7, n)]
    changed = [name[:3] + "z" + name[4:] for name in names]
    return {"name": names, "phone": phones}, {"name": changed, "phone": phones}


def all_cosines(left, right):
    """Cosines of all pairs, as a dense array."""
    rows = [list(zip(*table.values(), strict=True)) for table in (left, right)]
    hashing = HashingVectorizer(
        analyzer=candidates._tokens, n_features=1 << 20, alternate_sign=False, norm=None
    )
    counts = hashing.transform(rows[0] + rows[1])
    used = counts[:, counts.getnnz(axis=0) > 0].toarray()
    rarity = 1 + np.log((1 + len(used)) / (1 + (used > 0).sum(axis=0)))
    weighted = np.where(used > 0, 1 + np.log(np.maximum(used, 1)), 0) * rarity
    unit = weighted / np.linalg.norm(weighted, axis=1, keepdims=True)
    return unit[: len(rows[0])] @ unit[len(rows[0]) :].T


def test_candidates_have_the_largest_cosines():
    left, right = people(60, np.random.default_rng(0))
    pairs, similarity = candidate_pairs(left, right, n_candidates=4)
    cosines = all_cosines(left, right)
    np.testing.assert_allclose(similarity, cosines[tuple(pairs.T)], rtol=1e-4)
    for row in range(60):
        own = np.sort(similarity[pairs[:, 0] == row])[::-1]
        best = np.sort(cosines[row])[::-1][:4]
        np.testing.assert_allclose(own, best[best > 0], rtol=1e-4)


def test_rarest_tokens_are_looked_up_first(monkeypatch):
    # Everybody has the city; only the code leads to one record.
    monkeypatch.setattr(candidates, "_MOST_LOOKED_UP", 3)
    codes = [str(11 * (100 + row)) for row in range(30)]
    left = {"city": ["bonn"] * 30, "code": codes}
    pairs, _ = candidate_pairs(left, left, n_candidates=30)
    counts = np.bincount(pairs[:, 0], minlength=30)
    assert counts.max() <= 3
    assert kept_matches(pairs, np.column_stack([np.arange(30)] * 2))[0] == 1


def test_one_table_pairs_are_listed_once_and_never_a_record_with_itself():
    left, right = people(40, np.random.default_rng(1))
    both = {name: left[name] + right[name] for name in left}
    pairs, _ = candidate_pairs(both, n_candidates=3)
    assert (pairs[:, 0] < pairs[:, 1]).all()
    assert len(np.unique(pairs, axis=0)) == len(pairs)
    matches = np.column_stack([np.arange(40), np.arange(40, 80)])
    share, (low, high) = kept_matches(pairs, matches[:, ::-1], one_table=True)
    assert (share, high) == (1, 1)
    assert low < 1


def test_missing_cells_and_accents():
    left = {"name": ["Zoë Müller", None], "city": [None, None]}
    right = {"name": ["zoe muller", "n/a"], "city": ["", "Bonn"]}
    pairs, similarity = candidate_pairs(left, right)
    assert pairs.tolist() == [[0, 0]]
    np.testing.assert_allclose(similarity, 1, rtol=1e-5)


@pytest.mark.parametrize("share", [0.8, 0.97])
def test_interval_of_kept_matches_holds_at_its_rate(share):
    # Matches of a person are lost together, so that single matches would be too sure.
    rng = np.random.default_rng(0)
    held = 0
    people, copies = 150, 4
    rows = np.arange(people * copies)
    matches = np.column_stack([rows // copies, rows])
    for _ in range(200):
        kept = np.repeat(rng.random(people) < share, copies)
        _, (low, high) = kept_matches(matches[kept], matches)
        held += low <= share <= high
    assert held >= 0.84 * 200


def test_places_of_pairs():
    pairs = np.array([[0, 1], [2, 3], [4, 0]])
    wanted = np.array([[2, 3], [1, 0], [0, 4]])
    assert pair_places(pairs, wanted).tolist() == [1, -1, -1]
    assert pair_places(pairs, wanted, one_table=True).tolist() == [1, 0, 2]
    assert pair_places(np.empty((0, 2), dtype=int), wanted).tolist() == [-1, -1, -1]
