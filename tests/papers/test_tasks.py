"""Tasks: their cells, readings and splits."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics.pairwise import manhattan_distances

from nearfar import Metric
from nearfar.metrics.variants import SignedForm
from papers import results
from papers.cells import published
from papers.methods import METHODS, Distance, Neighbors, chi_square, nearest, vote
from papers.readings import readings
from papers.task import PAPERS, Folds, PerClass, RandomSplit, Table, protocol, tasks

TASKS = list(tasks())
CELLS = {cell.id: cell for cell in published()}


def test_every_task_has_a_printed_cell_that_can_be_had():
    assert [task.cell for task in TASKS if not CELLS[task.cell].obtainable] == []


def test_keys_are_unique():
    assert Counter(task.key for task in TASKS).most_common(1)[0][1] == 1


def test_variants_belong_to_own_methods():
    for task in TASKS:
        assert (task.variant in ("paper", "default")) == CELLS[task.cell].own
        assert task.method in METHODS


@pytest.mark.parametrize("paper", PAPERS)
def test_readings_join_candidates_that_are_not_refuted(paper):
    candidates = {each.id: each for reading in readings() for each in reading.candidates}
    joined = protocol(paper).READINGS
    for names in joined.values():
        assert len({name.rpartition(".")[0] for name in names}) == len(names)
        assert all(candidates[name].status != "refuted" for name in names)
    assert {task.reading for task in tasks(paper)} == set(joined)


def test_parameters_are_text_that_says_everything():
    """No address of an object: the text of a parameter is the same in every process."""
    for task in TASKS:
        text = str(results.described(task))
        assert " at 0x" not in text
        assert "random_state" not in text or task.method == "SVM"


Y = np.repeat([0, 1, 2], [30, 20, 11])


def test_random_split_rounds_down_and_covers_all_rows():
    train, test = RandomSplit(0.3)(Y, run=4)
    assert len(test) == 18
    np.testing.assert_array_equal(np.sort(np.append(train, test)), np.arange(61))
    assert not np.array_equal(test, RandomSplit(0.3)(Y, run=5)[1])


def test_folds_of_a_repetition_test_every_row_once():
    rows = [Folds(5)(Y, run)[1] for run in range(5, 10)]
    np.testing.assert_array_equal(np.sort(np.concatenate(rows)), np.arange(61))
    train, test = Folds(5)(Y, 7)
    swapped = Folds(5, swapped=True)(Y, 7)
    np.testing.assert_array_equal(swapped[0], test)
    np.testing.assert_array_equal(swapped[1], train)


def test_per_class_trains_on_the_same_number_of_each_class():
    train, test = PerClass(7)(Y, 0)
    assert np.bincount(Y[train]).tolist() == [7, 7, 7]
    assert np.bincount(Y[test]).tolist() == [23, 13, 4]


def test_preparation():
    X = np.array([[0.0, 5], [1, 5], [4, 7], [2, 6]])
    train = np.array([0, 1, 3])
    np.testing.assert_allclose(
        Table("any", interval=True).prepared(X, train), [[-1, -1], [-0.5, -1], [1, 1], [0, 0]]
    )
    standard = Table("any", standardise=True).prepared(X, train)[train]
    np.testing.assert_allclose(standard.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(standard.std(axis=0), 1)


def test_vote_takes_the_nearest_of_equally_common_labels():
    distances = np.array([[3.0, 1, 2, 0], [1, 0, 2, 3], [9, 2, 1, 3]])
    y = np.array([0, 2, 1, 2])
    assert vote(distances, y, 3).tolist() == [2, 2, 2]
    assert vote(distances, y, 1).tolist() == [2, 2, 1]


def test_neighbours_of_many_rows_are_those_of_a_sort():
    rng = np.random.default_rng(0)
    X, queries, y = rng.normal(size=(40, 3)), rng.normal(size=(601, 3)), rng.integers(0, 5, 40)
    D = ((queries[:, None] - X) ** 2).sum(axis=2)
    for k in (1, 3):
        found = nearest(X, y, queries, k)
        for row, label in zip(D, found, strict=True):
            labels = y[np.argsort(row)[:k]].tolist()
            assert labels.count(label) == max(map(labels.count, labels))
            if len(set(labels)) == k:
                assert label == labels[0]


def test_chi_square():
    X, Z = np.array([[1.0, 0, 3]]), np.array([[2.0, 0, 1], [1, 0, 3]])
    np.testing.assert_allclose(chi_square(X, Z), [[1 / 3 + 4 / 4, 0]])


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("kind", ["metric", "form", "distance"])
def test_equally_distant_rows_come_in_random_order(k, kind):
    """Files are often sorted by class: the first of a file would always win."""
    X, y = np.zeros((2, 2)), np.array([0, 1])
    models = {
        "metric": Neighbors(Metric.identity(2), X, y),
        "form": Neighbors(SignedForm(np.eye(2)), X, y),
        "distance": Distance(manhattan_distances, X, y),
    }
    winners = []
    for seed in range(40):
        # The order depends on the rows of one neighbour, and on the number of rows of several.
        rows = np.full((50, 2), float(seed)) if k == 1 else np.zeros((20 + seed, 2))
        model = replace(models[kind], X=rows, y=np.arange(len(rows)) * 2 // len(rows))
        winners.append(int(model.predict(rows[:1], k)[0]))
    assert 4 < sum(winners) < 36


def test_max_margin_has_the_papers_penalty():
    """Distances are divided by their mean where a reading says so, or where it must be."""
    own = [t for t in TASKS if t.cell.startswith("maxmargin/") and t.variant == "paper"]
    divided = [t for t in own if t.parameters.get("scale", "auto") is not None]
    rows = {t.cell.split("/")[2] for t in divided if t.reading in ("X0", "X1", "X5")}
    assert rows == {"Breast", "USPS"}
    assert {t.reading for t in divided} == {"X0", "X1", "X2", "X3", "X4"}
