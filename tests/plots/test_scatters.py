"""Scatter plots: coordinates, names and shares."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot
from matplotlib.text import Text

from nearfar import NCA, Metric, plots
from wines import BROKEN, GATED, NAMES, PLAIN, X, Y


def points_of(ax):
    return np.vstack([np.asarray(c.get_offsets()) for c in ax.collections])


def legend_of(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def same_up_to_sign(drawn, expected):
    signs = np.sign((drawn * expected).sum(axis=0))
    np.testing.assert_allclose(drawn * signs, expected, atol=1e-8 * np.abs(expected).max())


def principal(P):
    P = P - P.mean(axis=0)
    return P @ np.linalg.svd(P, full_matrices=False)[2][:2].T


class TestProjections:
    def test_of_a_gate(self):
        axes = plots.projections(GATED, X, Y)
        chosen = GATED.assign(X)
        for number, ax in enumerate(axes):
            rows = np.flatnonzero(chosen == number)
            assert 0 < len(rows) < 178
            assert ax.get_title() == f"metric {number + 1} ({len(rows)} points)"
            order = rows[np.argsort(Y[rows], kind="stable")]
            drawn = principal(GATED.parts[number].transform(X[rows]))
            same_up_to_sign(points_of(ax), drawn[np.searchsorted(rows, order)])
        with pytest.raises(ValueError, match="2 axes"):
            plots.projections(GATED, X, Y, axes=[axes[0]])

    def test_of_one_metric(self):
        (ax,) = plots.projections(Metric.identity(13), X)
        same_up_to_sign(points_of(ax), principal(X))
        assert ax.get_legend() is None
        assert plots.projections(Metric.identity(13), X, Y, axes=[ax])[0] is ax

    def test_many_points(self):
        (ax,) = plots.projections(PLAIN, np.tile(X, (20, 1)))
        assert len(points_of(ax)) == 2000
        assert ax.get_title() == "2000 of 3560 points"


class TestBeforeAndAfter:
    def test_coordinates_names_and_shares(self):
        metric = NCA(n_components=4).fit(X, Y).metric_
        before, after = plots.before_and_after(metric, X, NAMES)
        order = np.argsort(NAMES, kind="stable")
        same_up_to_sign(points_of(before), principal((X - X.mean(axis=0)) / X.std(axis=0))[order])
        same_up_to_sign(points_of(after), principal(metric.transform(X))[order])
        assert legend_of(after) == ["barbera", "barolo", "grignolino"]
        assert before.get_legend() is None
        spread = np.linalg.eigvalsh(np.cov(metric.transform(X).T))[::-1]
        assert after.get_xlabel() == f"axis 1 ({100 * spread[0] / spread.sum():.0f} %)"
        assert "before" in before.get_title()

    def test_classes_look_alike_in_both_and_differ_by_mark(self):
        before, after = plots.before_and_after(PLAIN, X, Y)
        for one, other in zip(before.collections, after.collections, strict=True):
            np.testing.assert_array_equal(one.get_facecolor(), other.get_facecolor())
        marks = {path.get_paths()[0].vertices.tobytes() for path in before.collections}
        colours = {path.get_facecolor().tobytes() for path in before.collections}
        assert len(marks) == len(colours) == 3

    def test_many_points_by_a_fixed_choice_of_each_class(self):
        many, labels = np.tile(X, (20, 1)), np.tile(Y, 20)
        first = plots.before_and_after(PLAIN, many, labels)
        again = plots.before_and_after(PLAIN, many, labels)
        for ax, other in zip(first, again, strict=True):
            assert "2000 of 3560 points" in ax.get_title()
            counts = [len(c.get_offsets()) for c in ax.collections]
            assert sum(counts) == 2000
            np.testing.assert_allclose(counts, np.bincount(labels) * 2000 / 3560, atol=1)
            np.testing.assert_array_equal(points_of(ax), points_of(other))
        assert len(points_of(plots.before_and_after(PLAIN, many)[1])) == 2000

    def test_of_more_than_ten_classes_the_largest_are_named(self):
        codes = np.concatenate([np.arange(178 - 30) % 12, np.full(30, 7)])
        labels = np.array([f"class {c:02}" for c in codes])
        before, after = plots.before_and_after(PLAIN, X, labels)
        assert after.get_legend() is None
        named = ["class 07", *(f"class {c:02}" for c in range(7))]
        assert [text.get_text() for text in before.texts] == named
        colours = {c.get_label(): c.get_facecolor()[0, :3].tolist() for c in after.collections}
        assert len(colours) == 12
        assert colours["class 11"] == colours["class 09"] == [0.5, 0.5, 0.5]
        assert len({tuple(colours[name]) for name in named}) == len(named)
        ids = {c.get_gid() for c in after.collections}
        assert ids == {f"hover:{c}:class {c:02}" for c in range(12)}

    @pytest.mark.slow
    @pytest.mark.parametrize("n_classes", [12, 40, pytest.param(178, marks=pytest.mark.slow)])
    def test_names_do_not_overlap(self, n_classes):
        labels = np.array([f"a class with number {c}" for c in np.arange(178) % n_classes])
        for ax in plots.before_and_after(PLAIN, X, labels):
            ax.figure.canvas.draw()
            boxes = [Text.get_window_extent(text) for text in ax.texts]
            assert len(boxes) > 4
            for box, other in itertools.combinations(boxes, 2):
                assert not box.overlaps(other)
            frame = ax.get_window_extent()
            for box in boxes:
                assert frame.x0 <= box.x0 <= box.x1 <= frame.x1

    def test_one_coordinate_by_class(self):
        before, after = plots.before_and_after(Metric([[2.0]]), X[:, :1], NAMES)
        for ax in (before, after):
            rows = [set(c.get_offsets()[:, 1].tolist()) for c in ax.collections]
            assert rows == [{0.0}, {1.0}, {2.0}]
            assert [t.get_text() for t in ax.get_yticklabels()] == np.unique(NAMES).tolist()
        _, rank_one = plots.before_and_after(Metric(PLAIN.L[:1]), X)
        assert not points_of(rank_one)[:, 1].any()
        assert rank_one.get_xlabel() == "axis 1 (100 %)"

    def test_refusals(self):
        with pytest.raises(ValueError, match="NaN"):
            plots.before_and_after(PLAIN, BROKEN, Y)
        with pytest.raises(ValueError, match="one label each"):
            plots.before_and_after(PLAIN, X, Y[1:])
        with pytest.raises(ValueError, match="Labels must not be NaN"):
            plots.before_and_after(PLAIN, X, np.where(Y == 1, np.nan, Y))
        with pytest.raises(ValueError, match="13 features"):
            plots.before_and_after(PLAIN, X[:, :4], Y)
        frame = pd.DataFrame(X).rename(columns=str)
        with pytest.raises(ValueError, match="the table lacks"):
            plots.before_and_after(PLAIN.named([f"f{j}" for j in range(13)]), frame)


def test_dark_style():
    with pyplot.style.context("dark_background"):
        _, after = plots.before_and_after(PLAIN, X, np.arange(178) % 12)
        assert after.texts[0].get_color() == "white"
        assert after.texts[0].get_bbox_patch().get_facecolor()[:3] == (0, 0, 0)
        after.figure.canvas.draw()
