"""Neighbours as images, against `kneighbors`."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits

from nearfar import Metric, plots
from nearfar.neighbors import kneighbors
from wines import BROKEN, GATED, PLAIN, X, Y, kernel_metric


class TestPictures:
    def test_neighbors_titles_and_frames(self):
        images, labels = load_digits(return_X_y=True)
        metrics = {"plain": Metric.identity(64), "one": Metric(np.eye(64)[[28]])}
        axes = plots.neighbor_pictures(
            metrics, images, [5, 37], image_shape=(8, 8), n_neighbors=3, y=labels
        )
        assert axes.shape == (4, 4)
        found = {name: kneighbors(m, images, n_neighbors=3)[1] for name, m in metrics.items()}
        for row, (query, name) in zip(axes[::2], [(5, "plain"), (37, "plain")], strict=True):
            assert row[0].get_ylabel() == name
            assert row[0].get_title() == f"query: {labels[query]}"
            for ax, number in zip(row[1:], found[name][query], strict=True):
                drawn = ax.images[0].get_array()
                np.testing.assert_allclose(drawn, images[number].reshape(8, 8) / 16)
                right = labels[number] == labels[query]
                assert ax.get_title() == f"{'' if right else '× '}{labels[number]}"
                assert ax.spines["left"].get_linestyle() == ("-" if right else "--")
        assert axes[1, 0].get_ylabel() == "one"

    def test_without_labels_and_on_given_axes(self):
        metrics = {"gate": GATED, "kernel": kernel_metric()}
        axes = plots.neighbor_pictures(metrics, X, [7], image_shape=(1, 13), n_neighbors=2)
        nearest = kneighbors(kernel_metric(), X, n_neighbors=2)[1][7]
        titles = [ax.get_title() for ax in axes[1]]
        assert titles == ["query: row 7", *(f"row {number}" for number in nearest)]
        flat = axes.ravel().tolist()
        again = plots.neighbor_pictures(
            metrics, X, [8], image_shape=(1, 13), n_neighbors=2, axes=flat
        )
        assert again[1, 2] is axes[1, 2]

    def test_colours(self, rng):
        images = rng.integers(0, 255, size=(6, 12))
        plain = {"plain": Metric.identity(12)}
        axes = plots.neighbor_pictures(plain, images, 0, image_shape=(2, 2, 3), n_neighbors=1)
        assert axes[0, 0].images[0].get_array().shape == (2, 2, 3)

    def test_refusals(self):
        one = {"plain": PLAIN}
        for change, message in [
            ({"queries": [178]}, "from 0 to 177"),
            ({"queries": [0.5]}, "integers"),
            ({"queries": []}, "no queries"),
            ({"n_neighbors": 178}, "n_neighbors"),
            ({"n_neighbors": 0}, "n_neighbors"),
            ({"y": Y[1:]}, "one label each"),
            ({"metrics": {}}, "by name"),
            ({"X": BROKEN}, "NaN"),
        ]:
            given = {"metrics": one, "X": X, "queries": [1]} | change
            with pytest.raises(ValueError, match=message):
                plots.neighbor_pictures(**given, image_shape=(1, 13))
        for shape in [(2, 6), (13,), (1, 13, 1)]:
            with pytest.raises(ValueError, match="image_shape"):
                plots.neighbor_pictures(one, X, [1], image_shape=shape)
