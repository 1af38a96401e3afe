"""Cut-offs: what they return, that the stated confidence holds, and that less is refused."""

from __future__ import annotations

import re
from dataclasses import asdict, replace

import numpy as np
import pytest
from scipy.stats import binom, norm
from scipy.stats import t as student

from nearfar import Relevance, RetrievalAdapter
from nearfar.evidence.certify import clopper_pearson
from nearfar.search.cutoff import AnswerEvidence, choose_cutoff, search_target
from nearfar.search.ranking import vector_digests
from nearfar.verification import TargetNotCertifiedError
from search.problems import topic_search

N_DOCUMENTS = 40
# Scores of relevant documents: their mean, and what documents and queries add to it. Others: 0.7.
MEAN, OF_DOCUMENT, OF_QUERY, OTHERS = 1.8, 0.8, 0.6, 0.7
NOTHING = 0.15


def searches(n_queries, rng, *, popularity=0.0):
    """Scores as vectors of queries: documents are asked for again, some far more than others."""
    chances = 1.0 / np.arange(1, N_DOCUMENTS + 1) ** popularity
    document = rng.choice(N_DOCUMENTS, n_queries, p=chances / chances.sum())
    grade = (rng.random(n_queries) >= NOTHING).astype(float)
    S = OTHERS * rng.normal(size=(n_queries, N_DOCUMENTS))
    relevant = MEAN + OF_DOCUMENT * rng.normal(size=N_DOCUMENTS)[document]
    relevant += OF_QUERY * rng.normal(size=n_queries)
    rows = np.flatnonzero(grade)
    S[rows, document[rows]] = relevant[rows]
    return S, np.eye(N_DOCUMENTS), Relevance(np.arange(n_queries), document, grade)


def true_figure(measure, cutoff):
    """The mean over queries for other documents like these, in closed form."""
    hit = norm.sf((cutoff - MEAN) / np.hypot(OF_DOCUMENT, OF_QUERY))
    if measure == "recall":
        return hit
    other = norm.sf(cutoff / OTHERS)
    none = (1 - other) ** N_DOCUMENTS
    share = (1 - none) / (N_DOCUMENTS * other)  # mean of 1 / (1 + number of others)
    answered = 1 - (1 - hit) * none / (1 - other)
    return (1 - NOTHING) * hit * share / ((1 - NOTHING) * answered + NOTHING * (1 - none))


@pytest.mark.parametrize("popularity", [0.0, 1.0], ids=["repeated", "heavy"])
@pytest.mark.parametrize("target", ["recall>=0.8", "precision>=0.6"])
def test_the_confidence_holds_for_other_documents(target, popularity):
    bound, draws, rng = search_target(target), 100, np.random.default_rng(0)
    missed = naive = certified = 0
    for _ in range(draws):
        evidence = AnswerEvidence(*searches(150, rng, popularity=popularity))
        figure = evidence.figures(np.full(150, True))[bound.measure]
        met = np.flatnonzero(figure >= bound.value)
        just = evidence.cutoffs[met[-1 if bound.measure == "recall" else 0]]
        naive += true_figure(bound.measure, just) < bound.value
        try:
            cutoff = choose_cutoff(evidence, bound).value
        except TargetNotCertifiedError:
            continue
        certified += 1
        missed += true_figure(bound.measure, cutoff) < bound.value
    assert missed <= binom.ppf(0.999, draws, 0.05)
    assert naive > binom.ppf(0.999, draws, 0.05)
    assert certified > draws / 4


@pytest.mark.slow
def test_a_flat_precision_below_the_target_is_not_certified():
    """Whether an answer is relevant does not depend on its score: no cut-off meets the target."""
    rng, target, certified = np.random.default_rng(0), search_target("precision>=0.8"), 0
    for _ in range(150):
        S = np.diag(rng.random(100))
        relevance = Relevance(range(100), range(100), (rng.random(100) < 0.798).astype(float))
        try:
            choose_cutoff(AnswerEvidence(S, np.eye(100), relevance), target)
        except TargetNotCertifiedError:
            continue
        certified += 1
    assert certified <= binom.ppf(0.999, 150, 0.05)


def test_the_confidence_holds_if_queries_have_equal_vectors():
    """A tenth of all queries has no content; without them, half of the queries find too much."""
    missed, draws, truth = 0, 40, 4000

    def asked(n, X, rng):
        document = rng.integers(len(X), size=n)
        Q = X[document] + 0.4 * rng.normal(size=(n, X.shape[1]))
        Q[rng.random(n) < 0.1] = 0
        return Q, document

    for seed in range(draws):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(100, 6))
        Q, document = asked(300, X, rng)
        adapter = RetrievalAdapter(target="recall>=0.9", cv=None, max_iter=1, random_state=seed)
        adapter.fit(Q, X, Relevance(range(300), document))
        Q, document = asked(truth, X, rng)
        mapped = adapter.transform_queries(Q), adapter.transform_documents(X)[document]
        reached = np.mean(np.einsum("ij,ij->i", *mapped) >= adapter.cutoff_.value)
        missed += reached < 0.9
    assert missed <= binom.ppf(0.999, draws, 0.05)


def test_rare_failures_are_allowed_for():
    """Graded losses that are nearly equal, and a few queries that find nothing."""
    rng, target, missed = np.random.default_rng(0), search_target("recall>=0.8"), 0
    for _ in range(60):
        # Twenty relevant documents of each query, at scores that all queries have in common.
        S = np.kron(np.eye(60), np.linspace(0, 1, 20)) + 0.001 * rng.normal(size=(60, 1200))
        S[rng.random(60) < 0.03] -= 2.0
        query, document = np.nonzero(np.kron(np.eye(60), np.ones(20)))
        found = choose_cutoff(AnswerEvidence(S, np.eye(1200), Relevance(query, document)), target)
        missed += 0.97 * np.mean(np.linspace(0, 1, 20) >= found.value) < 0.8
    assert missed <= binom.ppf(0.999, 60, 0.05)


def test_counts_are_those_of_a_loop():
    rng = np.random.default_rng(1)
    Q, X = rng.normal(size=(12, 4)), rng.normal(size=(30, 4))
    relevance = Relevance([0, 0, 3, 3, 3, 5, 9], [1, 2, 2, 7, 8, 4, 6], [1, 2, 1, 1, 1, 0, 3])
    evidence = AnswerEvidence(Q, X, relevance)
    figures = evidence.figures(np.full(4, True))
    for place, cutoff in enumerate(evidence.cutoffs):
        found = {q: set(np.flatnonzero(X @ Q[q] >= cutoff)) for q in (0, 3, 5, 9)}
        relevant = {0: {1, 2}, 3: {2, 7, 8}, 5: set(), 9: {6}}
        recalls = [len(found[q] & relevant[q]) / len(relevant[q]) for q in (0, 3, 9)]
        precisions = [len(found[q] & relevant[q]) / len(found[q]) for q in found if found[q]]
        assert figures["recall"][place] == pytest.approx(np.mean(recalls))
        assert figures["precision"][place] == pytest.approx(np.mean(precisions))
        assert figures["size"][place] == np.mean([len(each) for each in found.values()])
        assert figures["empty"][place] == np.mean([not each for each in found.values()])


def test_bound_of_independent_queries_is_that_of_clopper_and_pearson():
    rng, n = np.random.default_rng(2), 80
    S = rng.normal(size=(n, n))
    evidence = AnswerEvidence(S, np.eye(n), Relevance(range(n), range(n)))
    figure, bound, effective = evidence.bounds(search_target("recall>=0.7"), 0.95)
    some = (figure > 0) & (figure < 1)
    few = (norm.ppf(0.95) / student.ppf(0.95, n - 1)) ** 2
    assert effective[some] == pytest.approx((n - 1) * few)
    assert bound[some] == pytest.approx(
        1 - clopper_pearson(1 - figure[some], (n - 1) * few, 0.95)[1]
    )


def test_the_same_query_asked_again_adds_nothing():
    rng, n = np.random.default_rng(3), 40
    S = rng.normal(size=(n, n))
    once = AnswerEvidence(S, np.eye(n), Relevance(range(n), range(n)))
    rows = np.tile(np.arange(n), 3)
    again = AnswerEvidence(S[rows], np.eye(n), Relevance(range(3 * n), rows))
    free = AnswerEvidence(S[rows], np.eye(n), Relevance(range(3 * n), rows), same_documents=True)
    target = search_target("recall>=0.7")
    common = np.intersect1d(once.cutoffs, again.cutoffs)
    bounds = [
        each.bounds(target, 0.95)[1][np.isin(each.cutoffs, common)] for each in (once, again, free)
    ]
    assert len(common) > 50
    assert bounds[1] == pytest.approx(bounds[0])
    assert (bounds[2][bounds[0] > 0.1] > bounds[0][bounds[0] > 0.1]).all()


def test_refusal_says_how_many_are_needed():
    rng = np.random.default_rng(4)
    few = AnswerEvidence(*searches(25, rng))
    with pytest.raises(TargetNotCertifiedError, match="give about") as refused:
        choose_cutoff(few, search_target("recall>=0.97"))
    error = refused.value
    assert error.queries_needed > 25
    assert choose_cutoff(few, search_target(error.strongest)).bound >= 0.5
    with pytest.raises(TargetNotCertifiedError, match="choose a weaker target") as refused:
        choose_cutoff(AnswerEvidence(*searches(400, rng)), search_target("precision>=0.999"))
    assert refused.value.strongest is not None


def test_a_refusal_finds_low_targets():
    rng = np.random.default_rng(0)
    X, rows = rng.normal(size=(2000, 16)), rng.integers(2000, size=600)
    judged = Relevance(range(600), rows)
    hard = AnswerEvidence(X[rows] + 1.6 * rng.normal(size=(600, 16)), X, judged)
    with pytest.raises(TargetNotCertifiedError, match=r"choose a weaker target\. With") as refused:
        choose_cutoff(hard, search_target("precision>=0.9"))
    strongest = search_target(refused.value.strongest)
    assert strongest.value < 0.5
    assert choose_cutoff(hard, strongest).bound >= strongest.value
    hopeless = AnswerEvidence(rng.normal(size=(600, 16)), X, judged)
    message = r"is 0\.\d+\. With these queries, no precision of 0\.01 or more can be certified"
    with pytest.raises(TargetNotCertifiedError, match=message) as refused:
        choose_cutoff(hopeless, search_target("precision>=0.2"))
    assert refused.value.strongest is None


def set_aside(Q, relevance, answers):
    parts = RetrievalAdapter(answers=answers).set_aside(Q, relevance)
    return [np.unique(part.query) for part in parts]


@pytest.mark.parametrize("answers", ["all", "seen", "unseen"])
def test_set_aside(answers):
    rng = np.random.RandomState(0)
    document = np.repeat(np.arange(40), 3)
    grade = np.arange(120) % 10 > 0
    relevance = Relevance(np.arange(120), document, grade.astype(float))
    Q = rng.normal(size=(120, 4))
    Q[7] = Q[80]
    learned, aside = set_aside(Q, relevance, answers)
    assert not set(learned) & set(aside)
    assert 20 <= len(aside) <= 80
    together = not ({7, 80} & set(learned) and {7, 80} & set(aside))
    assert together or answers != "unseen"
    sharing = relevance.sharing(aside[grade[aside]], learned)
    assert sharing.all() if answers == "seen" else True
    assert not sharing.any() if answers == "unseen" else True
    assert (~grade[aside]).any()


def test_queries_share_all_documents():
    with pytest.raises(ValueError, match="share documents"):
        set_aside(np.eye(6), Relevance(range(6), [0] * 6), "unseen")


def test_a_fit_learns_from_queries_that_do_not_calibrate(tmp_path):
    Q, X, relevance = topic_search(n_topics=30, n_queries=6)
    adapter = RetrievalAdapter(target="recall>=0.5").fit(Q, X, relevance)
    learned, aside = set_aside(Q, relevance, "all")
    alone = RetrievalAdapter().fit(Q, X, relevance.subset(learned))
    assert np.array_equal(adapter.W_, alone.W_)
    assert alone.cutoff_ is None
    assert alone.set_cutoff(Q, X, relevance.subset(aside), "recall>=0.5").cutoff_ == adapter.cutoff_
    assert adapter.cutoff_.parts["all"]["n_queries"] == len(aside)
    assert adapter.cutoff_.parts["seen"]["n_queries"] <= len(aside)
    with pytest.raises(ValueError, match=rf"{len(learned)} of these {len(Q)} queries"):
        alone.set_cutoff(Q, X, relevance, "recall>=0.5")
    alone.set_cutoff(Q, X, relevance, "recall>=0.5", repeated=True)
    assert alone.cutoff_.parts["all"]["n_queries"] == len(Q)
    adapter.save(tmp_path / "a.safetensors")
    loaded = RetrievalAdapter.load(tmp_path / "a.safetensors")
    assert asdict(loaded.cutoff_) == asdict(adapter.cutoff_)
    assert np.array_equal(loaded.cutoff_queries_, vector_digests(Q[aside]))
    assert "All queries" in loaded.tested_cutoff(Q, X, relevance)
    assert loaded.get_params() == adapter.get_params()


def test_answers_are_at_or_above_the_cutoff():
    Q, X, relevance = topic_search(n_topics=30, n_queries=6)
    adapter = RetrievalAdapter(target="recall>=0.5", learn=False).fit(Q, X, relevance)
    assert np.array_equal(adapter.W_, np.eye(8))
    assert "nothing was learned" in str(adapter.chosen_)
    found = adapter.answer(Q, X)
    scores = adapter.transform_queries(Q) @ adapter.transform_documents(X).T
    for row, (values, documents) in zip(scores, found, strict=True):
        assert set(documents) == set(np.flatnonzero(row >= adapter.cutoff_.value))
        assert (np.diff(values) <= 0).all()
    sizes = [len(documents) for _, documents in found]
    assert adapter.cutoff_.parts["all"]["size"] == pytest.approx(np.mean(sizes))
    with pytest.warns(UserWarning, match=r"queries get 2 answers \(k\) and may have more"):
        best = adapter.answer(Q, X, k=2)
    assert max(len(documents) for _, documents in best) == 2
    for (some, _), (values, _) in zip(best, found, strict=True):
        np.testing.assert_array_equal(some, values[:2])
    with pytest.raises(ValueError, match="no cut-off"):
        RetrievalAdapter(learn=False).fit(Q, X, relevance).answer(Q, X)


def test_sentences():
    rng = np.random.default_rng(5)
    cutoff = choose_cutoff(
        AnswerEvidence(*searches(300, rng)),
        search_target("recall>=0.8"),
        {"seen": np.arange(300) < 200, "unseen": np.arange(300) >= 200},
    )
    text = str(cutoff)
    assert "recall>=0.8 is certified with 95 % confidence" in text
    assert f"{N_DOCUMENTS} documents" in text
    assert "200 of them are for seen documents" in text
    assert "deserve nothing: " in text
    assert "more than 25 % of all documents" not in text
    wide = replace(cutoff, parts={"all": cutoff.parts["all"] | {"size": 11, "precision": 0.00012}})
    assert "more than 25 % of all documents" in str(wide)
    assert "precision 0.00012, 11.0 documents" in str(wide)
    low = cutoff.parts["unseen"] | {"recall": 0.7}
    weak = replace(cutoff, parts=cutoff.parts | {"unseen": low})
    assert 'Use answers="unseen" to certify recall>=0.8 for these.' in str(weak)


@pytest.mark.parametrize("target", ["fmr<=0.1", "eer", "recall=0.9", "recall>=1"])
def test_other_targets_are_refused(target):
    Q, X, relevance = topic_search()
    with pytest.raises(ValueError, match=r"The target of a search is") as refused:
        RetrievalAdapter(target=target).fit(Q, X, relevance)
    assert ('Did you mean "recall>=0.9"?' in str(refused.value)) == (target == "recall=0.9")


def test_other_queries_test_a_cutoff():
    Q, X, relevance = topic_search(n_topics=30, n_queries=6)
    some = np.arange(len(Q)) % 3 > 0
    adapter = RetrievalAdapter(target="recall>=0.5", learn=False)
    adapter.fit(Q, X, relevance.subset(np.flatnonzero(some)))
    assert adapter.provenance_.data["queries"] == some.sum()
    answers = [set(found) for _, found in adapter.answer(Q[~some], X, k=len(X))]
    wanted = [set(relevance.of(row)[0]) for row in np.flatnonzero(~some)]
    recall = np.mean([len(a & b) / len(b) for a, b in zip(answers, wanted, strict=True)])
    text = adapter.tested_cutoff(Q, X, relevance)
    assert text.startswith(f"{(~some).sum()} queries of this report took no part")
    assert f"recall {recall:.3f}, " in text
    assert f"{np.mean([len(each) for each in answers]):.1f} documents on average" in text


@pytest.mark.parametrize("promised", [0.5, 0.95, 0.999])
def test_a_tested_cutoff_is_within_chance_or_not(promised):
    Q, X, relevance = topic_search(n_topics=30, n_queries=6)
    adapter = RetrievalAdapter(target="recall>=0.5", learn=False)
    adapter.fit(Q, X, relevance.subset(np.arange(0, len(Q), 2)))
    adapter.cutoff_ = replace(adapter.cutoff_, target=f"recall>={promised:g}")
    text = adapter.tested_cutoff(Q, X, relevance)
    found = re.search(r"The recall is (\S+) \(90 % interval (\S+) to (\S+)\), (.*)\.$", text)
    figure, low, high = map(float, found.groups()[:3])
    assert low < figure < high
    if figure >= promised:
        assert found[4] == "as promised"
    else:
        size = "no more" if high >= promised else "more"
        assert found[4] == f"below the promised {promised:g} by {size} than chance explains"
