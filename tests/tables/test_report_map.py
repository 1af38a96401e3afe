"""Maps of reports: the plane, the points, and what is said about them."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
from sklearn.datasets import load_wine

from nearfar import GatedMetric, Metric, Pairs, Triplets
from nearfar.frames.reading import read_table
from nearfar.page.blocks import Figures, Text
from nearfar.page.figures import svgs
from nearfar.tables.report_map import (
    MapPoints,
    draw_map,
    map_section,
    plane_of_judgements,
    plane_of_labels,
)
from studies import judgements_study, many_classes_study, study_of, wine_study, wines

X, Y = load_wine(return_X_y=True)


def hovers(svg):
    return re.findall(r'<g class="hover" data-group="(\d+)"><title>(.*?)</title>', svg, re.DOTALL)


def maps(study):
    text, figures = map_section(study).blocks
    assert isinstance(text, Text)
    assert isinstance(figures, Figures)
    return " ".join(text.lines), figures.figures


class TestPlane:
    @pytest.fixture
    def noisy(self, rng):
        """Three classes along two of eight axes, of which others are wider."""
        codes = np.repeat(np.arange(3), 100)
        P = rng.normal(size=(300, 8)) * [1, 1, 9, 9, 9, 2, 2, 2]
        P[:, :2] += 6 * np.array([[0, 0], [1, 0], [0, 1]])[codes]
        return P, codes

    def test_separates(self, noisy):
        P, codes = noisy
        plane = plane_of_labels(P, codes)
        np.testing.assert_allclose(plane.axes.T @ plane.axes, np.eye(2), atol=1e-9)
        assert np.linalg.norm(plane.axes[:2]) > 0.95 * np.sqrt(2)
        assert plane.share(P) < 0.1

    def test_shows_distances_of_the_metric_unchanged(self, noisy):
        P, codes = noisy
        plane = plane_of_labels(P, codes)
        flat = plane.place(P)
        shown, actual = (np.linalg.norm(Z[1:] - Z[0], axis=1) for Z in (flat, P))
        assert np.all(shown < actual)
        stretched = plane_of_labels(10 * P, codes)
        np.testing.assert_allclose(np.abs(stretched.place(10 * P)), 10 * np.abs(flat), rtol=1e-6)

    def test_of_classes_around_each_other(self, rng):
        angle, codes = rng.uniform(0, 2 * np.pi, 400), np.arange(400) % 2
        ring = (1 + codes)[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
        P = np.column_stack([0.2 * rng.normal(size=(400, 4)), ring])
        plane = plane_of_labels(P, codes)
        assert np.linalg.norm(plane.axes[4:]) > 0.95 * np.sqrt(2)

    def test_is_no_line(self, rng):
        codes = np.repeat([0, 1], 60)
        P = rng.normal(size=(120, 5)) * [1, 4, 1e-3, 1e-4, 3]
        P[:, 0] += 3 * codes
        spread = plane_of_labels(P, codes).place(P).std(axis=0)
        assert spread.min() > 0.1 * spread.max()

    @pytest.mark.parametrize("kind", ["triplets", "pairs"])
    def test_of_judgements(self, noisy, rng, kind):
        P, codes = noisy
        i, j, k = rng.integers(300, size=(3, 3000))
        kept = (codes[i] == codes[j]) & (codes[i] != codes[k]) & (i != j)
        i, j, k = i[kept], j[kept], k[kept]
        judgements = Triplets(np.column_stack([i, j, k]))
        if kind == "pairs":
            index = np.concatenate([np.column_stack([i, j]), np.column_stack([i, k])])
            judgements = Pairs(index, np.repeat([True, False], len(i)))
        plane = plane_of_judgements(P, judgements)
        assert np.linalg.norm(plane.axes[:2]) > 0.9 * np.sqrt(2)

    @pytest.mark.parametrize("points", [np.zeros((12, 3)), np.arange(12.0)[:, None]])
    def test_of_degenerate_points(self, points):
        plane = plane_of_labels(points, np.arange(12) % 3)
        assert plane.axes.shape == (points.shape[1], 2)
        assert np.isfinite(plane.place(points)).all()
        assert plane.share(points) == pytest.approx(1.0)


class TestPoints:
    def points(self, flat, **options):
        n = len(flat)
        given = {"titles": [f"row {i}" for i in range(n)], "groups": np.zeros(n, dtype=int)}
        given |= {"classes": (), "hollow": np.zeros(n, dtype=bool)} | options
        return MapPoints(np.asarray(flat, dtype=float), **given)

    def test_far_ones_are_at_the_edge(self, rng):
        flat = rng.normal(size=(200, 2))
        assert self.points(flat).n_outside == 0
        flat[0] = [500.0, 0.0]
        points = self.points(flat)
        assert points.n_outside == 1
        low, high = points.limits
        ax = draw_map(points)
        x, y = ax.lines[0].get_data()
        assert low[0] < x[0] < high[0] < 50
        assert y[0] == 0

    def test_names_cover_no_points(self, rng):
        flat = rng.normal(size=(60, 2))
        ax = draw_map(self.points(flat, names={f"object {i}": i for i in range(60)}))
        assert 10 < len(ax.texts) <= 60
        ax.figure.draw_without_rendering()
        places = ax.transData.transform(flat)
        for text in ax.texts:
            box = text.get_tightbbox() if text.arrow_patch is None else None
            box = text.get_bbox_patch().get_window_extent() if box is None else box
            assert not any(box.contains(*place) for place in places)


class TestSection:
    def test_held_out_rows_before_and_after(self):
        table = wines(ids=[f"bottle {i}" for i in range(len(Y))])
        study = replace(wine_study(), table=table)
        text, (before, after) = maps(study)
        test = study.split[1]
        assert f"{len(test)} held-out rows." in text
        for figure, name in ((before, study.baseline), (after, "BoostMetric")):
            found = hovers(figure.svg)
            assert [int(group) for group, _ in found] == Y[test].tolist()
            wrong = study.predicted_classes[name] != Y[test]
            assert figure.caption.startswith(f"{name}: ")
            assert f"{wrong.sum()} of {len(test)} rows " in figure.caption
            for row, (_, title), missed in zip(test, found, wrong, strict=True):
                assert title.startswith(f"bottle {row} [{Y[row]}]")
                assert ("classified as" in title) == missed
            assert re.search(r">bottle \d+</text>", figure.svg) or "<!-- bottle" in figure.svg

    def test_many_rows_are_sampled_by_class(self):
        more = np.tile(X, (6, 1)) * np.random.default_rng(0).uniform(0.9, 1.1, (178 * 6, 13))
        study = study_of(read_table(more, label=np.tile(Y, 6)), Metric.identity(13))
        text, (_, after) = maps(study)
        assert "200 of 356 held-out rows." in text
        counts = np.bincount([int(group) for group, _ in hovers(after.svg)])
        sizes = np.bincount(study.labels[study.split[1]])
        np.testing.assert_allclose(counts, 200 * sizes / sizes.sum(), atol=1)

    def test_of_many_classes_those_with_most_errors(self):
        study = many_classes_study()
        text, (_, after) = maps(study)
        assert "10 of the 40 classes: those with most errors" in text
        test = study.labels[study.split[1]]
        wrong = sum((p != test).astype(int) for p in study.predicted_classes.values())
        errors = {name: wrong[test == name].sum() for name in np.unique(test)}
        shown = {re.search(r"\[(.*?)\]", title)[1] for _, title in hovers(after.svg)}
        assert len(shown) == 10
        fewest = min(errors[name] for name in shown)
        assert all(errors[name] <= fewest for name in set(errors) - shown)

    @pytest.mark.slow
    @pytest.mark.parametrize("kind", ["triplets", "pairs"])
    def test_judged_objects_have_names(self, kind):
        study = judgements_study(kind)
        ids = [f"wine-{i}" for i in range(len(X))]
        study = replace(study, table=replace(study.table, ids=ids))
        text, (before, after) = maps(study)
        assert f"objects of held-out {kind}" in text
        judged = {f"wine-{i}" for i in np.unique(study.judgement_split[1].index)}
        for figure in (before, after):
            assert {title for _, title in hovers(figure.svg)} == judged
            assert figure.svg.count('<g class="label"') > 10
            assert "classified" not in figure.caption

    def test_the_map_before_is_turned_like_the_one_after(self):
        mirror = Metric(np.diag(-1.0 / X.std(axis=0))[::-1])
        study = study_of(wines(), mirror)
        _, (before, after) = maps(study)
        assert study.baseline == "Euclidean (standardised)"
        place = re.compile(r'<use href="[^"]*" x="([\d.]+)" y="([\d.]+)"')
        one, other = (np.array(place.findall(f.svg), dtype=float) for f in (before, after))
        assert len(one) == len(other) > 45
        # The baseline has the standard deviations of the training rows only.
        np.testing.assert_allclose(one[:40], other[:40], atol=10.0)

    def test_each_local_metric_has_a_map(self):
        gated = GatedMetric([Metric.identity(13), Metric(2 * np.eye(13))], np.eye(2, 13), [-13, -2])
        study = study_of(wines(), gated)
        text, figures = maps(study)
        assert len(figures) == 3
        assert "These rows use 2 of the metric's 2 local metrics." in text
        assert sum(len(hovers(figure.svg)) for figure in figures[1:]) == len(study.split[1])


class TestLines:
    """Maps of one dimension."""

    @pytest.fixture
    def points(self, rng):
        codes = np.arange(60) % 3
        line = (rng.normal(size=60) + 4 * codes)[:, None] * [0.6, 0.8]
        titles = [str(n) for n in range(60)]
        return MapPoints(line, titles, codes, ("a", "b", "c"), np.zeros(60, dtype=bool))

    def test_classes_have_bands_of_their_own(self, points):
        assert points.is_line
        x, height = points.places.T
        np.testing.assert_allclose(x, points.flat @ [0.6, 0.8], atol=1e-9)
        ends = [
            (height[points.groups == k].min(), height[points.groups == k].max()) for k in (2, 1, 0)
        ]
        assert ends[0][1] < ends[1][0] < ends[1][1] < ends[2][0]
        assert points.n_outside == 0
        assert len(draw_map(points).lines) == 60

    def test_planes_stay_as_they_are(self, points, rng):
        flat = points.flat + 0.01 * rng.normal(size=(60, 2))
        plane = MapPoints(**(vars(points) | {"flat": flat}))
        assert not plane.is_line
        assert plane.places is flat

    def test_the_caption_says_so(self):
        study = study_of(wines(), Metric(X[:1]))
        assert "the height only tells marks apart" in maps(study)[1][1].caption
        assert "the height" not in maps(study)[1][0].caption


NAMES = ['a "b"', "it's", """'both' "ways\"""", "<script>", "</title>&", "two\nlines", ' id="x"']


def test_names_with_quotes_are_shown_under_the_pointer(rng):
    n = len(NAMES)
    hollow = np.zeros(n, dtype=bool)
    points = MapPoints(rng.normal(size=(n, 2)), NAMES, np.zeros(n, int), ("</script>",), hollow)
    (figure,) = svgs(lambda: draw_map(points), 'a "map"', "m")
    assert [html.unescape(title) for _, title in hovers(figure)] == NAMES
    assert "<script>" not in figure
    ElementTree.fromstring(figure)
