from __future__ import annotations

import json
from html.parser import HTMLParser

import numpy as np
import pytest

from comparison.helpers import Fixed
from nearfar.comparison import Comparison, MethodResult, default_methods
from nearfar.evidence.verdict import STANDARDISED, UNSCALED


def comparison(n_neighbors=3, **notes):
    """Made-up results of the plain methods and a learner on three folds of 30 rows."""
    rng = np.random.default_rng(0)
    results = []
    for method in default_methods({"<mine>": Fixed(), "other": Fixed()}):
        if method.name in notes:
            results.append(MethodResult(method, note=notes[method.name]))
            continue
        losses = {"error": rng.integers(2, size=30).astype(float)}
        losses["map_at_r"] = 1 - rng.uniform(size=30)
        losses["triplet_accuracy"] = rng.uniform(size=3).repeat(10)
        results.append(
            MethodResult(
                method,
                losses,
                {name: values.reshape(3, 10).mean(axis=1) for name, values in losses.items()},
                seconds=rng.uniform(size=3),
            )
        )
    return Comparison(results, n_neighbors=n_neighbors, n_folds=3, n_rows=30)


def test_text():
    found = comparison(other="failed: too hot")
    lines = str(found).splitlines()
    assert lines[0] == "3-NN error ± std over 3 folds, 30 rows"
    assert [line.split("  ")[0] for line in lines[2:10]] == list(found)
    assert lines[-4].startswith("+ clearly better, - clearly worse than Euclidean")
    assert lines[-3] == "Left out: other (failed: too hot)."
    assert lines[-2:] == found.verdicts
    assert lines[-2].startswith("For classification with 3 neighbours, ")
    assert lines[-1].startswith("For ranking and search, ")
    assert repr(found) == "<Comparison: 8 methods, 3 folds>"
    assert "with 1 neighbour, " in comparison(n_neighbors=1).verdict


def test_mapping_and_goals():
    found = comparison()
    assert found["LDA"].name == "LDA"
    assert len(found) == len(list(found)) == 9
    assert found.by_goal("ranking") is found.ranking
    assert found.by_goal("classification") is found.classification


def test_json_and_pandas():
    found = comparison(other="failed: too hot")
    document = json.loads(json.dumps(found.to_dict()))
    assert document["n_folds"] == 3
    assert [row["name"] for row in document["methods"]] == list(found)
    assert {row["kind"] for row in document["methods"]} == {"baseline", "plain", "learned"}
    assert document["left_out"] == [{"name": "other", "why": "failed: too hot"}]
    for goal in ("classification", "ranking"):
        assert document[goal]["headline"] == found.by_goal(goal).verdict.headline
        assert document[goal]["probability"] == found.by_goal(goal).verdict.probability
    rows = {row["name"]: row for row in document["methods"]}
    assert rows["LDA"]["error_gain"] == found.classification.gains["LDA"].gain
    assert rows["LDA"]["map_at_r_gain_probability"] == found.ranking.gains["LDA"].probability
    assert rows["Euclidean (standardised)"]["error_gain"] is None
    table = found.to_pandas()
    assert list(table.index) == list(found)
    assert table.loc["LDA", "error"] == found["LDA"].error


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open = []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_html():
    found = comparison()
    markup = found.to_html()
    assert "&lt;mine&gt;" in markup
    assert "<mine>" not in markup
    assert found._repr_html_().endswith(found.to_html(verdict=False))
    assert "<strong>" not in found.to_html(verdict=False)
    parser = Tags()
    parser.feed(markup)
    assert parser.open == []


def test_a_comparison_needs_a_baseline():
    with pytest.raises(ValueError, match=r"Euclidean \(unscaled\) failed\."):
        comparison(**dict.fromkeys([UNSCALED, STANDARDISED], "failed"))
