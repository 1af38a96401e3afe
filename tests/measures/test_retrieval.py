"""Each measure against a loop over queries, scikit-learn's own, and cases worked out by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest
from sklearn.metrics import average_precision_score
from sklearn.model_selection import LeaveOneOut, cross_val_predict
from sklearn.neighbors import KNeighborsClassifier

from nearfar import measures
from nearfar.measures.neighbor_votes import majority
from nearfar.metrics import gallery as search
from nearfar.metrics.metric import Metric
from nearfar.supervision import Triplets

LINE = Metric.identity(1)


@pytest.fixture(params=["tiles", "tables", "few rows of tiles", "few rows of a table"])
def route(request, monkeypatch):
    """Take every path through the search: few or many neighbours, in one or in many chunks."""
    monkeypatch.setattr(search, "_FEW", 0 if "tiles" in request.param else 10**9)
    if "few" in request.param:
        monkeypatch.setattr(search, "_MAX_ELEMENTS", 400)


class Problem:
    """A random metric, a gallery with unequal classes, and queries of which some have no answer."""

    def __init__(self, seed, own):
        rng = np.random.default_rng(seed)
        self.metric = Metric(rng.standard_normal((2, 3)))
        self.y = rng.choice(["a", "b", "c", "d"], size=40, p=[0.5, 0.3, 0.15, 0.05])
        self.y[0] = "z"
        self.X = rng.standard_normal((40, 3)) + 0.7 * (self.y == "a")[:, None]
        self.data = self.metric, self.X, self.y
        self.queries: dict[str, Any] = {}
        X_query, y_query = self.X, self.y
        if not own:
            X_query, y_query = (
                rng.standard_normal((15, 3)),
                rng.choice(["a", "b", "c", "x"], size=15),
            )
            self.queries = {"X_query": X_query, "y_query": y_query}
        self.distances = self.metric.distances(X_query, self.X)
        self.same = y_query[:, None] == self.y
        self.own = own

    def rankings(self):
        """Relevance of each query's gallery in the order of distance, one plain list a query."""
        for query, (distance, same) in enumerate(zip(self.distances, self.same, strict=True)):
            order = [int(row) for row in np.argsort(distance) if not (self.own and row == query)]
            yield [bool(same[row]) for row in order]

    def answerable(self):
        return [ranking for ranking in self.rankings() if any(ranking)]

    def without_self(self, table):
        """Drop the diagonal of a (query, gallery) table where queries are the gallery."""
        n = len(table)
        return table[~np.eye(n, dtype=bool)].reshape(n, n - 1) if self.own else table


@pytest.fixture(params=[(0, True), (1, True), (2, False), (3, False)], ids=str)
def problem(request):
    return Problem(*request.param)


def test_the_problems_have_queries_without_an_answer(problem):
    assert 0 < len(problem.answerable()) < len(list(problem.rankings()))


@pytest.mark.usefixtures("route")
class TestRetrievalAgainstLoops:
    @pytest.mark.parametrize("k", [1, 4, 39])
    def test_precision(self, problem, k):
        expected = np.mean([sum(ranking[:k]) / k for ranking in problem.answerable()])
        found = measures.precision_at_k(*problem.data, k=k, **problem.queries)
        assert found == pytest.approx(expected)

    @pytest.mark.parametrize("k", [1, 4, 39])
    def test_recall(self, problem, k):
        some = np.mean([any(ranking[:k]) for ranking in problem.answerable()])
        share = np.mean([sum(ranking[:k]) / sum(ranking) for ranking in problem.answerable()])
        arguments = {"k": k, **problem.queries}
        assert measures.recall_at_k(*problem.data, **arguments) == pytest.approx(some)
        assert measures.recall_at_k(*problem.data, kind="share", **arguments) == pytest.approx(
            share
        )

    def test_map_at_r(self, problem):
        expected = []
        for ranking in problem.answerable():
            R = sum(ranking)
            precisions = [sum(ranking[: i + 1]) / (i + 1) for i in range(R) if ranking[i]]
            expected.append(sum(precisions) / R)
        found = measures.map_at_r(*problem.data, **problem.queries)
        assert found == pytest.approx(np.mean(expected))

    def test_map_at_r_is_the_average_precision_of_the_first_r_rows(self, problem):
        expected = []
        for ranking in problem.answerable():
            R = sum(ranking)
            top = ranking[:R]
            average = average_precision_score(top, -np.arange(R)) if any(top) else 0.0
            expected.append(average * sum(top) / R)
        found = measures.map_at_r(*problem.data, **problem.queries)
        assert found == pytest.approx(np.mean(expected))

    def test_neighbor_accuracy_curve(self, problem):
        expected = np.mean([ranking[:12] for ranking in problem.rankings()], axis=0)
        found = measures.neighbor_accuracy_curve(*problem.data, max_k=12, **problem.queries)
        np.testing.assert_allclose(found, expected)


def test_mean_of_the_accuracy_curve_is_the_precision_if_every_query_has_an_answer():
    problem = Problem(5, own=True)
    y = np.repeat(["a", "b"], 20)
    curve = measures.neighbor_accuracy_curve(problem.metric, problem.X, y, max_k=6)
    precision = measures.precision_at_k(problem.metric, problem.X, y, k=6)
    assert curve.mean() == pytest.approx(precision)


def test_rows_are_ranked_alike_far_from_the_origin_and_in_float32():
    problem = Problem(6, own=True)
    expected = measures.map_at_r(*problem.data)
    assert measures.map_at_r(problem.metric, problem.X + 1e6, problem.y) == pytest.approx(expected)
    single = problem.X.astype(np.float32)
    assert measures.map_at_r(problem.metric, single, problem.y) == pytest.approx(expected)


class TestByHand:
    X = ((0.0,), (1.0,), (3.0,), (7.0,))
    y = (0, 1, 0, 1)
    # Ranks the rows 0 1 2 3: a miss, a hit, a miss, a hit.
    query: ClassVar[dict[str, Any]] = {"X_query": [[0.4]], "y_query": [1]}

    def test_precision_and_recall(self):
        assert measures.precision_at_k(LINE, self.X, self.y, k=4, **self.query) == 0.5
        assert measures.recall_at_k(LINE, self.X, self.y, k=1, **self.query) == 0.0
        assert measures.recall_at_k(LINE, self.X, self.y, k=2, **self.query) == 1.0
        assert measures.recall_at_k(LINE, self.X, self.y, k=2, kind="share", **self.query) == 0.5

    def test_map_at_r(self):
        assert measures.map_at_r(LINE, self.X, self.y, **self.query) == 0.5 * 0.5

    def test_the_accuracy_curve_looks_at_one_neighbour_at_a_time(self):
        curve = measures.neighbor_accuracy_curve(LINE, self.X, self.y, max_k=4, **self.query)
        assert curve.tolist() == [0, 1, 0, 1]

    def test_the_metric_matters(self):
        X = [[0.0, 0.0], [0.0, 9.0], [1.0, 0.0], [1.0, 9.0]]
        first, second = Metric([[1.0, 0.0]]), Metric([[0.0, 1.0]])
        assert measures.precision_at_k(first, X, [0, 0, 1, 1], k=1) == 1.0
        assert measures.precision_at_k(second, X, [0, 0, 1, 1], k=1) == 0.0


@pytest.mark.usefixtures("route")
class TestDuplicates:
    """A row's twin stays in its gallery; the row itself does not."""

    def test_twins_find_each_other(self):
        X, y = np.repeat(np.arange(6.0), 2)[:, None], np.repeat(np.arange(6), 2)
        assert measures.precision_at_k(LINE, X, y, k=1) == 1.0
        assert measures.map_at_r(LINE, X, y) == 1.0
        assert measures.leave_one_out_error(LINE, X, y, n_neighbors=1) == 0.0

    def test_twins_of_other_classes_are_found_in_place_of_oneself(self):
        X, y = np.repeat(np.arange(6.0), 2)[:, None], np.tile([0, 1], 6)
        assert measures.precision_at_k(LINE, X, y, k=1) == 0.0
        assert measures.neighbor_accuracy_curve(LINE, X, y, max_k=1)[0] == 0.0
        assert measures.leave_one_out_error(LINE, X, y, n_neighbors=1) == 1.0


class TestNeighborVote:
    @pytest.mark.parametrize("n_neighbors", [1, 3, 5])
    def test_error_of_a_vote(self, n_neighbors):
        problem = Problem(7, own=False)
        wrong = []
        for distance, true in zip(problem.distances, problem.queries["y_query"], strict=True):
            votes = Counter(problem.y[np.argsort(distance)[:n_neighbors]].tolist())
            winner = min(votes, key=lambda label: (-votes[label], label))
            wrong.append(winner != true)
        X_test, y_test = problem.queries.values()
        found = measures.knn_error(*problem.data, X_test, y_test, n_neighbors=n_neighbors)
        assert found == pytest.approx(np.mean(wrong))

    def test_majority(self, rng):
        labels = rng.integers(4, size=(50, 5))
        expected = [np.bincount(row).argmax() for row in labels]
        assert majority(labels).tolist() == expected

    @pytest.mark.parametrize("n_neighbors", [1, 3, 5])
    def test_leaving_one_out(self, n_neighbors):
        problem = Problem(8, own=True)
        Z = problem.metric.transform(problem.X)
        voters = KNeighborsClassifier(n_neighbors)
        predicted = cross_val_predict(voters, Z, problem.y, cv=LeaveOneOut())
        found = measures.leave_one_out_error(*problem.data, n_neighbors=n_neighbors)
        assert found == pytest.approx(np.mean(predicted != problem.y))

    def test_one_neighbor_errs_where_the_first_retrieved_row_does(self):
        problem = Problem(9, own=True)
        curve = measures.neighbor_accuracy_curve(*problem.data, max_k=1)
        error = measures.leave_one_out_error(*problem.data, n_neighbors=1)
        assert error == pytest.approx(1 - curve[0])


class TestTriplets:
    X = ((0.0,), (1.0,), (3.0,), (2.0,))

    def test_by_hand_with_a_tie(self):
        triplets = Triplets([[0, 1, 2], [0, 2, 1], [3, 1, 2]])
        assert measures.triplet_accuracy(LINE, self.X, triplets) == pytest.approx(1.5 / 3)

    def test_weights(self):
        triplets = Triplets([[0, 1, 2], [0, 2, 1], [3, 1, 2]], weight=[5.0, 1.0, 2.0])
        assert measures.triplet_accuracy(LINE, self.X, triplets) == pytest.approx((5 + 2 / 2) / 8)

    def test_against_a_loop(self):
        problem = Problem(10, own=True)
        rng = np.random.default_rng(0)
        index = [rng.choice(40, size=3, replace=False).tolist() for _ in range(50)]
        d = problem.distances
        expected = np.mean([d[anchor, near] < d[anchor, far] for anchor, near, far in index])
        found = measures.triplet_accuracy(problem.metric, problem.X, Triplets(index))
        assert found == pytest.approx(expected)

    def test_no_triplets(self):
        with pytest.raises(ValueError, match="at least one triplet"):
            measures.triplet_accuracy(LINE, self.X, Triplets(np.empty((0, 3), dtype=int)))

    def test_rows_that_do_not_exist(self):
        with pytest.raises(ValueError, match="row 9"):
            measures.triplet_accuracy(LINE, self.X, Triplets([[0, 1, 9]]))


class TestErrors:
    X = ((0.0,), (1.0,), (3.0,))
    y = (0, 0, 1)

    @pytest.mark.parametrize("k", [0, -1, 3])
    def test_depth_against_all_others(self, k):
        calls: list[Callable[[], Any]] = [
            lambda: measures.precision_at_k(LINE, self.X, self.y, k=k),
            lambda: measures.recall_at_k(LINE, self.X, self.y, k=k),
            lambda: measures.neighbor_accuracy_curve(LINE, self.X, self.y, max_k=k),
            lambda: measures.leave_one_out_error(LINE, self.X, self.y, n_neighbors=k),
        ]
        for call in calls:
            with pytest.raises(ValueError, match=f"from 1 to 2, .* other than .* got {k}"):
                call()

    def test_depth_against_a_gallery(self):
        queries: dict[str, Any] = {"X_query": [[0.5]], "y_query": [0]}
        measures.precision_at_k(LINE, self.X, self.y, k=3, **queries)
        with pytest.raises(ValueError, match="k must be from 1 to 3"):
            measures.precision_at_k(LINE, self.X, self.y, k=4, **queries)
        with pytest.raises(ValueError, match="n_neighbors must be from 1 to 3"):
            measures.knn_error(LINE, self.X, self.y, [[0.5]], [0], n_neighbors=4)

    def test_shapes(self):
        with pytest.raises(
            ValueError, match=r"3 gallery rows need one class each; got shape \(2,\)"
        ):
            measures.map_at_r(LINE, self.X, [0, 1])
        with pytest.raises(ValueError, match="1 query rows need one class each"):
            measures.map_at_r(LINE, self.X, self.y, X_query=[[1.0]], y_query=[[0]])
        with pytest.raises(ValueError, match="0 queries against a gallery of 3"):
            measures.knn_error(LINE, self.X, self.y, np.empty((0, 1)), [])

    def test_half_a_query(self):
        with pytest.raises(ValueError, match="only one of them"):
            measures.map_at_r(LINE, self.X, self.y, X_query=[[1.0]])
        with pytest.raises(ValueError, match="only one of them"):
            measures.map_at_r(LINE, self.X, self.y, y_query=[0])

    def test_unknown_kind_of_recall(self):
        with pytest.raises(ValueError, match="'any' or 'share'; got 'all'"):
            measures.recall_at_k(LINE, self.X, self.y, k=1, kind="all")  # type: ignore[arg-type]

    def test_no_query_with_an_answer(self):
        calls: list[Callable[[], Any]] = [
            lambda: measures.precision_at_k(LINE, self.X, [0, 1, 2], k=1),
            lambda: measures.map_at_r(LINE, self.X, self.y, X_query=[[0.0]], y_query=[7]),
        ]
        for call in calls:
            with pytest.raises(ValueError, match="No query has a relevant row"):
                call()
