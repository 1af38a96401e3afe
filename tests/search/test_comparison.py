"""Searches with adapted and with untouched vectors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.frozen import FrozenEstimator

from nearfar import Relevance, RetrievalAdapter, compare_retrieval
from nearfar.comparison import Category
from nearfar.metrics.points import unit_length
from nearfar.search import JudgedRanking, comparison, search
from nearfar.typing import Floats
from search.adapters import Stretched, noisy_searches
from search.cranfield import read_cranfield
from search.oracle import by_ir_measures


class Spy(Stretched):
    """Records what each fit was given."""

    fits: list[tuple[Floats, Relevance]]

    def fit(self, Q: Floats, X: Floats, relevance: Relevance) -> Spy:
        Spy.fits.append((Q, relevance))
        super().fit(Q, X, relevance)
        return self


def test_an_adapter_never_sees_the_queries_that_it_is_judged_on() -> None:
    Q, X, relevance, weights = noisy_searches(30)
    Spy.fits = []
    found = compare_retrieval(Q, X, relevance, Spy(weights), folds=3)
    assert len(Spy.fits) == 3
    for fold, (seen, judged) in enumerate(Spy.fits):
        held_out = found.queries[found.folds == fold]
        kept = np.setdiff1d(np.arange(30), held_out)
        np.testing.assert_array_equal(seen, Q[kept])
        np.testing.assert_array_equal(judged.query, np.arange(len(kept)))
        np.testing.assert_array_equal(judged.document, relevance.document[kept])


def test_figures_are_those_of_one_search() -> None:
    Q, X, relevance, weights = noisy_searches()
    found = compare_retrieval(Q, X, relevance, Stretched(weights), results=5)
    plain = JudgedRanking(search(unit_length(Q), unit_length(X), 100), relevance)
    np.testing.assert_allclose(found["untouched"].values["nDCG@5"], plain.ndcg(5))
    np.testing.assert_allclose(found["untouched"].values["AP@100"], plain.average_precision(100))
    assert found.headroom == pytest.approx(plain.best_ndcg(5).mean())
    adapted = JudgedRanking(search(Q * weights, X, 100), relevance)
    for measure, values in {
        "nDCG@5": adapted.ndcg(5),
        "MRR@5": adapted.mrr(5),
        "recall@5": adapted.recall(5),
        "recall@100": adapted.recall(100),
    }.items():
        np.testing.assert_allclose(found["adapted"].values[measure], values)


def test_cranfield_figures_are_those_of_ir_measures(tmp_path: Path, data_folder: Path) -> None:
    Q, X, relevance = read_cranfield(data_folder)
    found = compare_retrieval(Q, X, relevance, Stretched(np.linspace(0.5, 1.5, 256)))
    for result in found.values():
        expected = by_ir_measures(tmp_path, result.ranking, relevance, [10, 100])
        for name, key in {
            "nDCG@10": ("ndcg", 10),
            "MRR@10": ("mrr", 10),
            "recall@10": ("recall", 10),
            "recall@100": ("recall", 100),
            "AP@100": ("average_precision", 100),
        }.items():
            np.testing.assert_allclose(result.values[name], expected[key], rtol=0, atol=1e-9)


def test_doing_nothing_is_no_gain() -> None:
    Q, X, relevance, weights = noisy_searches()
    found = compare_retrieval(unit_length(Q), X, relevance, Stretched(np.ones_like(weights)))
    assert found.verdict.category is Category.SAME
    assert found.mark(found["adapted"]) == ""
    assert not found.verdict.helps
    assert found.changes() == ([], [])


def test_a_good_adapter_helps_and_a_bad_one_does_harm() -> None:
    Q, X, relevance, weights = noisy_searches(80)
    good = compare_retrieval(Q, X, relevance, Stretched(weights))
    assert good.verdict.category is Category.CLEARLY_BETTER
    assert good.verdict.helps
    assert good.verdict.headline.startswith("It helps: nDCG@10 0.")
    assert good.mark(good["adapted"]) == "+"
    bad = compare_retrieval(Q, X, relevance, Stretched(1 - weights))
    assert bad.verdict.category is Category.WORSE
    assert bad.verdict.headline.startswith("It does harm: nDCG@10 0.")
    assert bad.mark(bad["adapted"]) == "-"


def test_the_better_of_two_is_named() -> None:
    Q, X, relevance, weights = noisy_searches()
    named = {"bad": Stretched(1 - weights), "good": Stretched(weights)}
    found = compare_retrieval(Q, X, relevance, named)
    assert found.verdict.method == "good"
    assert found.verdict.headline.startswith("Use good: ")
    assert list(found) == ["untouched", "bad", "good"]
    alone = compare_retrieval(Q, X, relevance, Stretched(weights))
    assert found.mark(found["good"]) == alone.mark(alone["adapted"]) == "+"
    assert found.mark(found["bad"]) == "-"


def test_the_default_is_a_retrieval_adapter_with_the_same_score() -> None:
    Q, X, relevance, _ = noisy_searches(60)
    found = compare_retrieval(Q, 3 * X, relevance, score="cosine", folds=2)
    same = RetrievalAdapter(score="cosine", random_state=0)
    expected = compare_retrieval(Q, 3 * X, relevance, same, folds=2)
    for name in ("untouched", "adapted"):
        np.testing.assert_array_equal(
            found[name].ranking.documents, expected[name].ranking.documents
        )


def test_adapters_with_different_scores_need_a_usual_one() -> None:
    Q, X, relevance, _ = noisy_searches(20)
    named = {score: RetrievalAdapter(score=score) for score in ("dot", "cosine")}  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="different values of score; say which"):
        compare_retrieval(Q, X, relevance, named)


def test_groups_stay_together() -> None:
    Q, X, relevance, weights = noisy_searches(40)
    groups = np.arange(40) // 4
    found = compare_retrieval(Q, X, relevance, Stretched(weights), groups=groups)
    for group in range(10):
        assert len(np.unique(found.folds[groups == group])) == 1


def test_equal_queries_are_held_out_together() -> None:
    Q, X, _, _ = noisy_searches(30)
    twice = np.concatenate([Q, Q])
    found = compare_retrieval(twice, X, Relevance(range(60), range(60)), {})
    np.testing.assert_array_equal(found.folds[:30], found.folds[30:])


def test_the_same_seed_gives_the_same_folds() -> None:
    Q, X, relevance, _ = noisy_searches()
    first, again, other = (
        compare_retrieval(Q, X, relevance, {}, random_state=seed) for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first.folds, again.folds)
    assert (first.folds != other.folds).any()


def test_queries_without_a_relevant_document_are_left_out() -> None:
    Q, X, _, _ = noisy_searches(20)
    judged = Relevance(np.arange(12), np.arange(12), np.repeat([1, 0], [10, 2]))
    found = compare_retrieval(Q, X, judged, {}, folds=2)
    assert found.queries.tolist() == list(range(10))


def test_inner_products_rank_by_length_too() -> None:
    X = np.array([[1.0, 0.0], [3.0, 3.0], [0.0, 1.0]])
    Q = np.array([[1.0, 0.0], [0.0, 1.0]])
    relevance = Relevance([0, 1], [1, 1])
    for score, expected in (("cosine", 0.0), ("dot", 1.0)):
        found = compare_retrieval(Q, X, relevance, {}, folds=2, results=1, score=score)  # type: ignore[arg-type]
        assert found.untouched.means["MRR@1"] == expected


def test_the_queries_that_change_most_come_first() -> None:
    Q, X, relevance, weights = noisy_searches()
    names = [f"text {row}" for row in range(len(Q))]
    found = compare_retrieval(Q, X, relevance, Stretched(weights), query_names=names)
    gaining, losing = found.changes(4)
    difference = found.difference(found.best)
    assert [change.gain for change in gaining] == pytest.approx(np.sort(difference)[::-1][:4])
    assert all(change.gain < 0 for change in losing)
    assert gaining[0].text == f"text {gaining[0].query}"
    up, down = found.counts()
    assert up == (difference > 0).sum() > 10
    assert down == (difference < 0).sum()


class Clock:
    """Each fit takes as long as is said."""

    def __init__(self, seconds: float) -> None:
        self.now, self.seconds = 0.0, seconds

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("budget", "n_folds"), [(None, 5), (100.0, 5), (50.0, 5), (49.0, 4), (20.0, 2), (0.0, 1)]
)
def test_folds_that_do_not_fit_into_the_budget_are_left_out(
    monkeypatch: pytest.MonkeyPatch, budget: float | None, n_folds: int
) -> None:
    Q, X, relevance, weights = noisy_searches(60)
    clock = Clock(10.0)

    class Slow(Stretched):
        def fit(self, Q: Floats, X: Floats, relevance: Relevance) -> Slow:
            clock.now += clock.seconds
            return super().fit(Q, X, relevance)  # type: ignore[return-value]

    monkeypatch.setattr(comparison, "_clock", clock)
    found = compare_retrieval(Q, X, relevance, Slow(weights), budget=budget)
    every = compare_retrieval(Q, X, relevance, Stretched(weights))
    assert (found.n_folds, found.left_out) == (n_folds, 5 - n_folds)
    assert found["adapted"].seconds == 10.0
    kept = every.folds < n_folds
    np.testing.assert_array_equal(found.queries, every.queries[kept])
    for name in ("untouched", "adapted"):
        values = every[name].values["nDCG@10"][kept]
        np.testing.assert_allclose(found[name].values["nDCG@10"], values)
    title = f"{kept.sum()} queries, 150 documents, {n_folds} of 5 folds"
    assert (title in str(found)) == (n_folds < 5)


def test_adapters_that_were_learned_before_are_not_fitted() -> None:
    Q, X, relevance, weights = noisy_searches()
    Spy.fits = []
    fitted = Spy(weights).fit(Q, X, relevance)
    found = compare_retrieval(Q, X, relevance, FrozenEstimator(fitted))
    assert len(Spy.fits) == 1
    assert found.folds is None
    expected = compare_retrieval(Q, X, relevance, Stretched(weights))
    for name in ("untouched", "adapted"):
        np.testing.assert_array_equal(
            found[name].ranking.documents, expected[name].ranking.documents
        )
    assert str(found).startswith("Searches: 80 queries, 150 documents\n")
    assert "on these searches" in found.verdict.headline
    one = compare_retrieval(Q, X, Relevance([0], [3]), FrozenEstimator(fitted))
    assert len(one.queries) == 1


def test_text_dict_frame_and_html_say_the_same() -> None:
    Q, X, relevance, weights = noisy_searches()
    found = compare_retrieval(Q, X, relevance, {"<b>": Stretched(weights)})
    lines = str(found).splitlines()
    assert lines[0] == "Searches that were held out: 80 queries, 150 documents, 5 folds"
    assert lines[-1] == found.verdict.headline
    assert f"{found.headroom:.3f}" in str(found)
    mean = found["<b>"].means["nDCG@10"]
    assert f"{mean:.3f}" in next(line for line in lines if line.startswith("<b>"))
    row = found.to_dict()["searches"][1]
    assert row["nDCG@10"] == pytest.approx(mean)
    assert row["low"] < mean < row["high"]
    assert "&lt;b&gt;" in found.to_html()
    assert "<b>" not in found.to_html()
    assert repr(found) == "<SearchComparison: untouched, <b>; 80 queries>"


NOT_A_NUMBER = np.ones((10, 2))
NOT_A_NUMBER[3, 1] = np.nan


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"Q": np.ones((10, 3))}, "Q has 3 columns and X has 2; both must come from the same"),
        ({"Q": NOT_A_NUMBER}, "Row 3 of Q has missing or infinite values"),
        ({"X": NOT_A_NUMBER}, "Row 3 of X has missing or infinite values"),
        ({"X": np.ones(4)}, r"X must be a 2-d array, a vector per row; got \(4,\)"),
        ({"X": np.ones((0, 2))}, "X must be a 2-d array"),
        ({"Q": [["a", "b"]] * 10}, "Q must have numbers"),
        ({"relevance": Relevance([30], [0])}, "query 30, but Q has only 10 rows"),
        ({"relevance": Relevance([0], [0], [0])}, "No document is relevant to any query"),
        ({"relevance": Relevance([0, 1], [0, 0])}, "5 folds need at least 5 queries with a"),
        ({"Q": np.ones((10, 2))}, "5 folds need at least 5 groups of queries; got 1"),
        ({"groups": [0] * 10}, "5 folds need at least 5 groups of queries; got 1"),
        ({"groups": [0]}, r"10 queries need one group each; got shape \(1,\)"),
        ({"results": 11}, "results is 11, but there are only 10 documents"),
        ({"results": 0}, "results must be an integer >= 1"),
        ({"folds": 1}, "folds must be an integer >= 2"),
        ({"budget": -1}, "not a length of time"),
        ({"score": "l2"}, 'score must be "cosine" or "dot"'),
        ({"query_names": ["a"]}, "10 queries need one name each; got 1"),
        ({"adapters": {"untouched": Stretched(np.ones(2))}}, "'untouched' is the name of the"),
    ],
)
def test_mistakes_are_named(change: dict[str, Any], message: str) -> None:
    given = {
        "Q": np.arange(20.0).reshape(10, 2),
        "X": np.ones((10, 2)),
        "relevance": Relevance(range(10), range(10)),
        "adapters": {},
    } | change
    with pytest.raises(ValueError, match=message):
        compare_retrieval(**given)
