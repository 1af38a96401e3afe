import pickle

import numpy as np
import pandas as pd
import pytest
from scipy.stats import sem
from sklearn.base import TransformerMixin, clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from nearfar import Relevance, RetrievalAdapter
from nearfar.search import JudgedRanking, learning, search
from nearfar.search.learning import _mean_gains
from nearfar.search.ranking import document_groups
from search.cranfield import read_cranfield
from search.problems import topic_search


def ndcg(adapter, Q, X, relevance):
    ranking = search(
        adapter.transform_queries(Q),
        adapter.transform_documents(X),
        10,
        queries=relevance.queries,
    )
    return JudgedRanking(ranking, relevance).ndcg(10).mean()


def untouched(Q, X, relevance):
    return JudgedRanking(search(Q, X, 10, queries=relevance.queries), relevance).ndcg(10).mean()


@pytest.mark.parametrize("side", ["query", "both"])
def test_raises_ndcg_of_new_queries(side):
    Q, X, relevance = topic_search(n_queries=4)
    seen, new = relevance.queries[::2], relevance.queries[1::2]
    adapter = RetrievalAdapter(side=side, score="dot").fit(Q, X, relevance.subset(seen))
    assert adapter.chosen_.helps
    assert "rises" in str(adapter.chosen_)
    later = relevance.subset(new)
    assert ndcg(adapter, Q, X, later) > untouched(Q, X, later) + 0.02


def test_noise_leaves_the_vectors_alone():
    n_changed = 0
    for seed in range(10):
        rng = np.random.RandomState(seed)
        Q, X = rng.normal(size=(30, 8)), rng.normal(size=(200, 8))
        relevance = Relevance(np.repeat(np.arange(30), 3), rng.permutation(200)[:90])
        adapter = RetrievalAdapter(score="dot").fit(Q, X, relevance)
        n_changed += adapter.chosen_.helps
        if not adapter.chosen_.helps:
            assert str(adapter.chosen_).startswith("Unchanged: no adapter")
            np.testing.assert_array_equal(adapter.W_, np.eye(8))
            np.testing.assert_array_equal(adapter.transform_queries(Q), Q)
            assert len(adapter.history_) == 0
    assert n_changed <= 1


@pytest.mark.parametrize("side", ["query", "both"])
def test_cranfield(data_folder, side):
    Q, X, relevance = read_cranfield(data_folder)
    new = relevance.subset(np.arange(0, 225, 3))
    seen = relevance.subset(np.setdiff1d(np.arange(225), np.arange(0, 225, 3)))
    adapter = RetrievalAdapter(side=side).fit(Q, X, seen)
    assert ndcg(adapter, Q, X, new) > untouched(Q, X, new) + 0.005
    known = RetrievalAdapter(side=side, answers="seen").fit(Q, X, seen)
    assert ndcg(known, Q, X, new) > untouched(Q, X, new) + 0.02
    few = RetrievalAdapter(side=side).fit(Q, X, seen.subset(seen.queries[:10]))
    assert ndcg(few, Q, X, new) > untouched(Q, X, new) - 0.005


def test_too_few_queries_leave_the_vectors_alone():
    Q, X, relevance = topic_search()
    adapter = RetrievalAdapter().fit(Q, X, relevance.subset([0, 2, 4]))
    assert not adapter.chosen_.helps
    assert "too few" in str(adapter.chosen_)


def test_begins_at_the_covariance_of_relevant_pairs():
    Q, X, relevance = topic_search()
    W = RetrievalAdapter(cv=None, strength=1e9, score="dot").fit(Q, X, relevance).W_
    apart = (Q[:, None] - X)[relevance.query, relevance.document]
    S = np.cov(apart.T, bias=True)
    S = (S * 8 / np.trace(S) + np.eye(8)) / 2
    np.testing.assert_allclose(W @ S @ W, np.eye(8), atol=1e-6)
    assert np.diag(W)[:4].min() > np.diag(W)[4:].max()


@pytest.mark.parametrize("side", ["query", "both"])
def test_inner_products_of_transformed_rows_are_the_score(side):
    Q, X, relevance = topic_search()
    adapter = RetrievalAdapter(side=side, cv=None, score="dot").fit(Q, X, relevance)
    P, D = adapter.transform_queries(Q), adapter.transform_documents(X)
    scores, documents = adapter.kneighbors(Q, X, 5)
    np.testing.assert_allclose(scores, np.sort(P @ D.T, axis=1)[:, :-6:-1])
    np.testing.assert_array_equal(documents, np.argsort(-P @ D.T, axis=1)[:, :5])
    if side == "query":
        assert adapter.transform_documents(X) is X
        np.testing.assert_allclose(P @ D.T, Q @ adapter.W_ @ X.T)
    else:
        np.testing.assert_allclose(np.linalg.norm(D, axis=1), 1)


@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_units_do_not_matter(scale):
    Q, X, relevance = topic_search()
    adapter = RetrievalAdapter(cv=None).fit(Q, X, relevance)
    scaled = RetrievalAdapter(cv=None).fit(scale * Q, scale * X, relevance)
    np.testing.assert_allclose(scaled.W_, adapter.W_, rtol=1e-4, atol=1e-5)


def test_cosine_ignores_lengths():
    Q, X, relevance = topic_search()
    lengths = np.random.RandomState(0).uniform(1, 5, size=len(X))[:, None]
    adapter = RetrievalAdapter(cv=None, score="cosine")
    W = adapter.fit(Q, X, relevance).W_
    np.testing.assert_allclose(adapter.fit(Q, X * lengths, relevance).W_, W, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(adapter.transform_documents(X), axis=1), 1)


def test_grades_are_weights():
    rng = np.random.RandomState(0)
    Q, X = rng.normal(size=(6, 3)), rng.normal(size=(40, 3))
    query, document = np.repeat(np.arange(6), 2), np.arange(12)
    adapter = RetrievalAdapter(cv=None, score="dot")
    only = adapter.fit(Q, X, Relevance(query[::2], document[::2])).W_
    mostly = adapter.fit(Q, X, Relevance(query, document, [1e6, 1] * 6)).W_
    equal = adapter.fit(Q, X, Relevance(query, document)).W_
    np.testing.assert_allclose(mostly, only, atol=1e-3)
    assert not np.allclose(equal, only, atol=1e-3)


def test_mined_negatives_agree_with_the_whole_corpus(monkeypatch):
    Q, X, relevance = topic_search()
    whole = RetrievalAdapter(cv=None, max_iter=30).fit(Q, X, relevance).W_
    monkeypatch.setattr(learning, "WHOLE_CORPUS", 10)
    monkeypatch.setattr(learning, "_POOL", 20)
    monkeypatch.setattr(learning, "_NEGATIVES", 200)
    mined = RetrievalAdapter(cv=None, max_iter=30).fit(Q, X, relevance)
    np.testing.assert_allclose(mined.W_, whole, rtol=0.02, atol=0.02)
    monkeypatch.setattr(learning, "_NEGATIVES", 5)
    assert RetrievalAdapter().fit(Q, X, relevance).chosen_.helps


def test_groups_by_document():
    relevance = Relevance([0, 1, 1, 2, 3], [0, 0, 1, 2, 1], [1, 1, 1, 1, 0])
    assert document_groups(relevance).tolist() == [0, 0, 1]
    Q, X, relevance = topic_search()
    assert RetrievalAdapter(answers="unseen").fit(Q, X, relevance).chosen_.n_queries == len(Q)
    same = Relevance(np.arange(len(Q)), np.zeros(len(Q), dtype=int))
    with pytest.raises(ValueError, match='use answers="seen"'):
        RetrievalAdapter(answers="unseen").fit(Q, X, same)


def test_queries_that_share_documents_count_as_one():
    differences = np.random.RandomState(0).normal(size=(3, 12))
    means, errors = _mean_gains(differences, np.arange(12))
    np.testing.assert_allclose(means, differences.mean(axis=1))
    np.testing.assert_allclose(errors, sem(differences, axis=1))
    again = _mean_gains(np.tile(differences, 2), np.tile(np.arange(12), 2))
    np.testing.assert_allclose(again, [means, errors])


def test_same_seed_same_bytes_and_float32():
    Q, X, relevance = topic_search()
    adapter = RetrievalAdapter(random_state=3)
    first = adapter.fit(Q, X, relevance).W_
    np.testing.assert_array_equal(clone(adapter).fit(Q, X, relevance).W_, first)
    rough = clone(adapter).fit(Q.astype(np.float32), X.astype(np.float32), relevance)
    assert rough.transform_queries(Q.astype(np.float32)).dtype == np.float32
    assert rough.transform_queries(Q.astype(np.float16)).dtype == np.float32
    assert pickle.loads(pickle.dumps(adapter)).kneighbors(Q, X)[1].shape == (len(Q), 10)


@pytest.mark.parametrize("parameters", [{}, {"side": "both"}])
def test_survives_a_file(tmp_path, parameters):
    Q, X, relevance = topic_search()
    adapter = RetrievalAdapter(**parameters).fit(Q, X, relevance)
    path = tmp_path / "adapter.safetensors"
    adapter.save(path)
    loaded = RetrievalAdapter.load(path)
    np.testing.assert_array_equal(loaded.transform_queries(Q), adapter.transform_queries(Q))
    np.testing.assert_array_equal(loaded.transform_documents(X), adapter.transform_documents(X))
    assert loaded.chosen_ == adapter.chosen_
    assert loaded.get_params() == adapter.get_params()
    content = path.read_bytes()
    loaded.save(path)
    assert path.read_bytes() == content
    path.write_bytes(content[:-9])
    with pytest.raises(ValueError, match="damaged"):
        RetrievalAdapter.load(path)


def test_refuses_other_files(tmp_path):
    from nearfar import Metric

    path = tmp_path / "metric.safetensors"
    Metric.identity(2).save(path)
    with pytest.raises(ValueError, match="not a valid adapter"):
        RetrievalAdapter.load(path)


def spoiled(rows, value):
    rows = rows.copy()
    rows[3, 1] = value
    return rows


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda Q, X, r: (Q, X, Relevance([], [])), "No document is relevant"),
        (lambda Q, X, r: (Q, X, Relevance([0], [0], [0])), "No document is relevant"),
        (lambda Q, X, r: (Q[:5], X, r), "Relevance refers to query 39"),
        (lambda Q, X, r: (Q, X[:5], r), "Relevance refers to document 199"),
        (lambda Q, X, r: (Q[:, :7], X, r), "Q has 7 columns and X has 8"),
        (lambda Q, X, r: (spoiled(Q, np.nan), X, r), "Row 3 of Q has missing"),
        (lambda Q, X, r: (Q, spoiled(X, np.inf), r), "Row 3 of X has missing"),
        (lambda Q, X, r: (Q, X[0], r), "X must be a 2-d array"),
        (lambda Q, X, r: (Q.astype(str), X, r), "Q must have numbers"),
        (lambda Q, X, r: (Q, np.ones_like(X), r), "All scores|same vector"),
        (lambda Q, X, r: (0 * Q, X, r), "All scores of judged queries are equal"),
        (lambda Q, X, r: (Q, X, [0, 1]), "relevance must be a Relevance"),
        (
            lambda Q, X, r: (Q[:2], X[:3], Relevance(np.arange(6) // 3, np.arange(6) % 3)),
            "Every document is relevant",
        ),
    ],
)
def test_bad_input_is_one_sentence(change, message):
    with pytest.raises(ValueError, match=message) as raised:
        RetrievalAdapter(score="dot").fit(*change(*topic_search()))
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "parameters",
    [
        {"side": "document"},
        {"score": "l2"},
        {"strength": 0.0},
        {"max_iter": 0},
        {"cv": 1},
        {"answers": "some"},
    ],
)
def test_bad_parameters(parameters):
    (name,) = parameters
    with pytest.raises(ValueError, match=f"^{name} must be"):
        RetrievalAdapter(**parameters).fit(*topic_search())


def test_other_vectors_at_search():
    Q, X, relevance = topic_search()
    adapter = RetrievalAdapter(cv=None).fit(Q, X, relevance)
    with pytest.raises(ValueError, match="learned on 8"):
        adapter.transform_queries(Q[:, :4])


class OfClasses(TransformerMixin, RetrievalAdapter):
    """Takes what scikit-learn's checks pass: rows find rows of their class."""

    def fit(self, X, y):
        labels = np.zeros(0) if y is None else np.asarray(y)
        return super().fit(X, X, Relevance(*np.nonzero(labels[:, None] == labels)))

    def transform(self, X):
        return self.transform_queries(X)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


SCORE = "`score` is a parameter, and no method."
WORDS = "The message speaks of queries, in other words."


@parametrize_with_checks(
    [OfClasses(cv=None, max_iter=3)],
    expected_failed_checks=lambda _: {
        "check_fit_score_takes_y": SCORE,
        "check_pipeline_consistency": SCORE,
        "check_array_api_input": SCORE,
        "check_transformer_n_iter": "The number of iterations is in history_.",
        "check_n_features_in_after_fitting": WORDS,
        "check_complex_data": WORDS,
        "check_dtype_object": WORDS,
        "check_estimators_empty_data_messages": WORDS,
        "check_fit2d_1sample": WORDS,
        "check_fit2d_predict1d": WORDS,
        "check_requires_y_none": WORDS,
    },
)
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


class TestTables:
    Q, X, RELEVANCE = topic_search()

    def table(self, rows, order=1):
        names = [f"v{i}" for i in range(rows.shape[1])]
        return pd.DataFrame(rows, columns=names)[names[::order]]

    def test_columns_in_another_order_are_refused(self):
        adapter = RetrievalAdapter(cv=None, max_iter=3, score="dot")
        with pytest.raises(ValueError, match="Q and X have different columns, or in another order"):
            adapter.fit(self.table(self.Q), self.table(self.X, -1), self.RELEVANCE)
        adapter.fit(self.table(self.Q), self.table(self.X), self.RELEVANCE)
        assert adapter.feature_names_in_[0] == "v0"
        for method in (adapter.transform_queries, adapter.transform_documents):
            method(self.table(self.Q))
            method(self.Q)
            with pytest.raises(ValueError, match="same order"):
                method(self.table(self.Q, -1))
