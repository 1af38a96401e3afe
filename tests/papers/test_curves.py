"""The papers' figures: every one that can be had is computed and drawn from what is stored."""

from __future__ import annotations

import numpy as np
import pytest

from papers.cells import documents
from papers.curves import curve, drawing
from papers.methods import METHODS


def test_every_obtainable_figure_has_a_curve():
    printed = {
        f"{paper}/{figure['id']}"
        for paper, document in documents().items()
        for figure in document.get("figure", [])
        if figure["obtainable"]
    }
    found = {each.name: each.shows for each in curve.all_curves()}
    assert {name for name, shows in found.items() if not shows} == printed
    claims = {name for name, shows in found.items() if shows}
    assert claims == {"metricboost/T3", "metricboost/pairs", "drmetric/seconds", "maxmargin/pairs"}


@pytest.mark.slow
def test_stored_runs_are_drawn_as_committed():
    mpl = pytest.importorskip("matplotlib")
    for name, svg in drawing.drawn():
        committed = (drawing.FOLDER / name).read_text("utf-8")
        if f"v{mpl.__version__}," not in committed:
            pytest.skip("The figures were drawn by another version of matplotlib.")
        assert svg == committed, "Run `python -m papers report`."


def test_a_run_is_stored_once_and_done_again_if_the_code_differs(tmp_path, monkeypatch):
    def panels(run: int) -> curve.Panels:
        return {"": {"xlabel": "x", "ylabel": "y", "lines": {"a": curve.line([1, 2], [run, 3])}}}

    mine = curve.Curve("msnca/F1", panels, 2, learners=("LMNN", "NCA"))
    monkeypatch.setattr(curve, "all_curves", lambda: iter([mine]))
    monkeypatch.setattr(curve, "code_digest", lambda name: f"old {name}")
    assert list(curve.compute(lambda _: True, tmp_path)) == ["msnca/F1, run 0", "msnca/F1, run 1"]
    assert list(curve.compute(lambda _: True, tmp_path)) == []
    assert curve.stored(tmp_path)["msnca/F1"][1][""]["lines"]["a"] == [[1, 2], [1, 3]]
    monkeypatch.setattr(curve, "code_digest", lambda name: f"new {name}")
    assert curve.stored(tmp_path) == {"msnca/F1": []}
    same = {("old LMNN", "new LMNN")}
    monkeypatch.setattr(curve, "same_code", lambda: same)
    assert curve.stored(tmp_path) == {"msnca/F1": []}
    same.add(("old NCA", "new NCA"))
    assert len(curve.stored(tmp_path)["msnca/F1"]) == 2


def test_lines_show_the_mean_of_runs():
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    ax = Figure().add_subplot()
    panels = [
        {"xlabel": "x", "ylabel": "y", "lines": {"a": [[1, 2], [0.0, value]]}} for value in (2, 4)
    ]
    drawing._lines(ax, panels, "a")
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), [0, 3])


@pytest.mark.parametrize("method", ["Euclidean", "L1"])
def test_shares_of_the_kth_neighbour(method):
    X, y = np.array([[0.0], [1], [5], [6]]), np.array([0, 1, 1, 1])
    model = METHODS[method](X, y, {}, 0).model
    shares = curve.neighbor_shares(model, np.array([[0.1], [5.9]]), np.array([0, 1]), (1, 2, 4))
    assert shares == [100, 50, 0]
