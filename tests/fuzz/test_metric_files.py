"""Damaged metric files: a metric, or an error in a sentence."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuzz.inputs import cases, check_message
from nearfar import GatedMetric, MaxMarginMetric, Metric
from nearfar.columns import Columns
from nearfar.columns.columns import column_examples
from nearfar.columns.guess import Category, FreeText, Number
from nearfar.columns.numbers import Notation


def saved(metric):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "metric.safetensors"
        metric.save(path)
        return path.read_bytes()


@pytest.fixture(scope="module")
def contents():
    """Files of metrics of every kind."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((30, 3)), np.arange(30) % 2
    plain = Metric(rng.standard_normal((2, 3)), ["a", "b", "c"])
    gated = GatedMetric([plain, plain], np.eye(2, 3), np.zeros(2))
    kernel = MaxMarginMetric(kernel="rbf", random_state=0).fit(X, y).metric_
    columns = Columns.of((Number("a", (1.5,), True), Category("b", ("x",), False)))
    notation = Notation(",", "m", "804 cm", ("lost",), 3)
    written = Columns.of(
        (
            Number("a", (1.5,), False, notation),
            Category("b", ("x",), False, folded=True),
            FreeText("c", ("hot", "cold"), (1.0, 2.0), ((0.6, 0.8),)),
        )
    )
    tables = [plain.with_columns(recipe) for recipe in (columns, written)]
    return [saved(metric) for metric in (plain, gated, kernel, *tables)]


@cases
@given(data=st.data())
def test_damaged_file(contents, data):
    content = bytearray(data.draw(st.sampled_from(contents)))
    places = data.draw(st.lists(st.integers(0, len(content) - 1), max_size=5))
    for place in places:
        content[place] = data.draw(st.integers(0, 255))
    content = content[: data.draw(st.integers(0, len(content)) | st.just(len(content)))]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "metric.safetensors"
        path.write_bytes(bytes(content) + data.draw(st.binary(max_size=20)))
        try:
            metric = Metric.load(path)
        except ValueError as error:
            check_message(str(error))
        else:
            assert metric.n_features == 3 or places
            assert all(np.isfinite(part.L).all() for part in metric.parts)
            assert metric.columns is None or column_examples(metric.columns)
