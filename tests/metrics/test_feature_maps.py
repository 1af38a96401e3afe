"""Leaves, pieces and maps side by side: what comes before the linear map of a metric."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file
from sklearn.ensemble import ExtraTreesClassifier

from nearfar import Metric, measures
from nearfar.metrics.feature_maps import Forest, LeafMap, PieceMap, SideBySide, moved

RANDOM = np.random.RandomState(0)
X = RANDOM.normal(size=(60, 4))
Y = (X[:, 0] * X[:, 1] > 0).astype(int)
NEW = RANDOM.normal(size=(25, 4))
TREES = ExtraTreesClassifier(30, random_state=0).fit(X, Y)
FOREST = Forest.of(TREES.estimators_)


def leaf_map(n_components: int = 60, rows: np.ndarray = X) -> LeafMap:
    return LeafMap.of(FOREST, rows, n_components, TREES.feature_importances_)


def shares(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Share of the trees in which rows meet, counted one by one."""
    out = np.zeros((len(left), len(right)))
    for tree in TREES.estimators_:
        a, b = tree.apply(left.astype(np.float32)), tree.apply(right.astype(np.float32))
        for i in range(len(left)):
            for j in range(len(right)):
                out[i, j] += a[i] == b[j]
    return out / len(TREES.estimators_)


def pieces_one_by_one(x: float, knots: list[float]) -> list[float]:
    """Ramps of a number: what of it lies between two knots; the outer ones have no end."""
    if not knots:
        return [x]
    ramps = [min(x, knots[0]) - knots[0]]
    ramps += [min(max(x, a), b) - a for a, b in itertools.pairwise(knots)]
    return [*ramps, max(x, knots[-1]) - knots[-1]]


class TestForest:
    def test_leaves_are_those_of_scikit_learn(self):
        for rows in (X, NEW):
            expected = TREES.apply(rows.astype(np.float32)) + FOREST.roots
            np.testing.assert_array_equal(FOREST.leaves(rows.astype(np.float32)), expected)

    def test_points_on_a_threshold_go_left_as_in_scikit_learn(self):
        tree = TREES.estimators_[0].tree_
        inner = np.flatnonzero(tree.children_left >= 0)
        rows = np.repeat(X[:1], len(inner), axis=0)
        rows[np.arange(len(inner)), tree.feature[inner]] = tree.threshold[inner]
        expected = TREES.apply(rows.astype(np.float32)) + FOREST.roots
        np.testing.assert_array_equal(FOREST.leaves(rows.astype(np.float32)), expected)

    def test_trees_without_splits(self):
        forest = Forest(np.arange(3), np.zeros(3), np.zeros(3), np.zeros(3))
        np.testing.assert_array_equal(forest.leaves(np.zeros((2, 1), np.float32)), [[0, 1, 2]] * 2)

    @pytest.mark.parametrize("right", [[0, 0, 1], [1, 0, 0], [9, 0, 0]])
    def test_children_must_come_after_their_parents(self, right):
        with pytest.raises(ValueError, match="children"):
            Forest(np.array([0]), np.zeros(3), np.zeros(3), np.array(right))


class TestLeafMap:
    def test_distances_are_those_of_common_leaves(self):
        metric = Metric(np.eye(leaf_map().n_components), feature_map=leaf_map())
        np.testing.assert_allclose(
            metric.distances(X) ** 2, 2 * (1 - shares(X, X)), rtol=0, atol=1e-5
        )

    def test_new_points_have_the_same_nearest_rows(self):
        found = leaf_map().transform(NEW) @ leaf_map().transform(X).T
        exact = shares(NEW, X)
        # Dividing a new point by its length does not change the order of rows.
        lengths = found.max(axis=1, keepdims=True) / exact.max(axis=1, keepdims=True)
        np.testing.assert_allclose(found / lengths, exact, rtol=0, atol=1e-4)

    def test_few_components_are_the_best_ones(self):
        K = shares(X, X)
        values, vectors = np.linalg.eigh(K)
        low_rank = (vectors[:, -5:] * values[-5:]) @ vectors[:, -5:].T
        length = np.sqrt(np.diag(low_rank))
        found = leaf_map(5).transform(X)
        np.testing.assert_allclose(
            found @ found.T, low_rank / np.outer(length, length), rtol=0, atol=1e-4
        )

    def test_float32_stays_float32_and_blocks_do_not_matter(self, monkeypatch):
        whole = leaf_map().transform(NEW)
        assert leaf_map().transform(NEW.astype(np.float32)).dtype == np.float32
        monkeypatch.setattr("nearfar.metrics.feature_maps._BLOCK_ROWS", 7)
        np.testing.assert_allclose(leaf_map().transform(NEW), whole, rtol=0, atol=1e-6)

    def test_a_basis_of_some_rows(self):
        assert leaf_map(256, X[:20]).transform(NEW).shape == (25, 20)


class TestPieceMap:
    def test_ramps_are_those_of_the_definition(self):
        pieces = PieceMap.fit(X, 4)
        mapped = pieces.transform(NEW)
        for j in range(4):
            knots = [low for low in pieces.low[pieces.column == j] if np.isfinite(low)]
            expected = [pieces_one_by_one(x, knots) for x in NEW[:, j]]
            np.testing.assert_allclose(mapped[:, pieces.column == j], expected, atol=1e-12)

    def test_ramps_of_a_column_add_up_to_it(self):
        pieces = PieceMap.fit(X, 5)
        sums = np.stack([pieces.transform(NEW)[:, pieces.column == j].sum(1) for j in range(4)]).T
        np.testing.assert_allclose(sums - sums[0], NEW - NEW[0], atol=1e-12)

    def test_columns_with_few_values_have_few_pieces(self):
        rows = np.column_stack([np.ones(9), np.arange(9) % 2, np.arange(9.0)])
        assert np.bincount(PieceMap.fit(rows, 3).column).tolist() == [0, 1, 3]


MAPS = {
    "leaves": leaf_map(8),
    "pieces": PieceMap.fit(X, 3),
    "side by side": SideBySide((None, leaf_map(8), PieceMap.fit(X, 3)), 4),
}


@pytest.mark.parametrize("feature_map", MAPS.values(), ids=MAPS)
class TestEveryMap:
    def test_files_and_pickles_give_the_same_distances(self, feature_map, tmp_path):
        L = np.random.RandomState(1).normal(size=(3, feature_map.n_components))
        metric = Metric(L, list("abcd"), feature_map=feature_map)
        metric.save(tmp_path / "bent.safetensors")
        for copy in (
            Metric.load(tmp_path / "bent.safetensors"),
            pickle.loads(pickle.dumps(metric)),
        ):
            np.testing.assert_array_equal(copy.transform(NEW), metric.transform(NEW))
            assert copy.feature_names == metric.feature_names

    def test_it_is_not_linear(self, feature_map):
        metric = Metric(np.eye(feature_map.n_components), feature_map=feature_map)
        assert not metric.is_linear
        with pytest.raises(ValueError, match='form="linear"'):
            metric.linear_map  # noqa: B018


@pytest.mark.parametrize("name", ["leaves", "pieces"])
def test_moved_maps_are_for_other_units(name):
    center, scale = np.array([1.0, 2.0, 3.0, 4.0]), np.array([1.0, 0.5, 2.0, 4.0])
    there = moved(MAPS[name], center, scale)
    np.testing.assert_allclose(
        there.transform(NEW * scale + center), MAPS[name].transform(NEW), atol=1e-9
    )


def test_squared_distances_add_up():
    terms = [
        Metric([[1.0, 2.0, 0.0, 0.0]]),
        Metric(2 * np.eye(8), feature_map=MAPS["leaves"]),
        Metric(np.eye(MAPS["pieces"].n_components), feature_map=MAPS["pieces"]),
    ]
    both = Metric.sum([Metric.sum(terms[:2]), terms[2]])
    expected = sum(term.distances(NEW, X) ** 2 for term in terms)
    np.testing.assert_allclose(both.distances(NEW, X) ** 2, expected, rtol=1e-9)
    linear = Metric.sum([terms[0], terms[0]])
    assert linear.is_linear
    np.testing.assert_allclose(linear.matrix, 2 * terms[0].matrix)


def test_damaged_forests_are_refused(tmp_path):
    path = tmp_path / "bent.safetensors"
    Metric(np.eye(8), feature_map=MAPS["leaves"]).save(path)
    arrays = load_file(path)
    with safe_open(path, framework="numpy") as file:
        metadata = file.metadata()
    for name, value in (("forest.right", -3), ("forest.feature", 99), ("leaves.basis", 10**6)):
        damaged = arrays | {f"map.0.{name}": arrays[f"map.0.{name}"].copy()}
        damaged[f"map.0.{name}"].flat[0] = value
        save_file(damaged, path, metadata)
        with pytest.raises(ValueError, match="not a valid metric"):
            Metric.load(path)


@pytest.mark.parametrize("kind", ["leaves", "pieces"])
@pytest.mark.filterwarnings("ignore:overflow")
def test_a_flipped_bit_is_refused_or_leaves_distances_finite(kind, tmp_path):
    path = tmp_path / "bent.safetensors"
    Metric(np.eye(MAPS[kind].n_components), feature_map=MAPS[kind]).save(path)
    content, n_refused = path.read_bytes(), 0
    start = 8 + int.from_bytes(content[:8], "little")
    for byte in range(start + 3, len(content), 4 * (len(content) // 800)):
        for bit in (0x40, 0x01):
            path.write_bytes(content[:byte] + bytes([content[byte] ^ bit]) + content[byte + 1 :])
            try:
                metric = Metric.load(path)
            except ValueError:
                n_refused += 1
            else:
                assert np.isfinite(metric.distances(NEW)).all()
    assert n_refused > 5


class TestNarrowed:
    def test_a_forest_is_cut_before_its_vectors_are_of_unit_length(self):
        whole = Metric(2 * np.eye(leaf_map(40).n_components), feature_map=leaf_map(40))
        narrow = whole.narrowed(X, 8)
        expected = 2 * leaf_map(8).transform(NEW)
        np.testing.assert_allclose(narrow.transform(NEW), expected, rtol=0, atol=1e-5)

    def test_others_have_the_principal_axes_of_mapped_points(self):
        forest = Metric(np.eye(leaf_map(40).n_components), feature_map=leaf_map(40))
        whole = Metric.sum([Metric(np.diag([1.0, 2.0, 0.5, 0.1])), forest])
        narrow = whole.narrowed(X, 5)
        mapped = whole.transform(X)
        axes = np.linalg.svd(mapped - mapped.mean(axis=0))[2][:5]
        expected = whole.transform(NEW) @ axes.T
        signs = np.sign((expected * narrow.transform(NEW)).sum(axis=0))
        np.testing.assert_allclose(narrow.transform(NEW) * signs, expected, rtol=0, atol=1e-6)

    def test_all_coordinates_keep_all_neighbours(self):
        metric = Metric(RANDOM.normal(size=(3, 4)))
        assert measures.neighbor_recall(metric, metric.narrowed(X, 3), X, NEW) == 1.0

    @pytest.mark.parametrize("n_components", [0, 4])
    def test_too_few_or_too_many(self, n_components):
        with pytest.raises(ValueError, match="from 1 to 3"):
            Metric(np.ones((3, 4))).narrowed(X, n_components)


def test_recall_counts_neighbours_one_by_one():
    metric, other = Metric.identity(4), Metric(np.diag([1.0, 1.0, 0.2, 0.0]))
    nearest, found = (np.argsort(each.distances(NEW, X), axis=1)[:, :7] for each in (metric, other))
    expected = np.mean([len({*a} & {*b}) / 7 for a, b in zip(nearest, found, strict=True)])
    assert measures.neighbor_recall(metric, other, X, NEW, k=7) == pytest.approx(expected)
    index = other.to_faiss(X)
    assert measures.neighbor_recall(metric, index, X, NEW, k=7) == pytest.approx(expected)
