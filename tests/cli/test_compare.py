from __future__ import annotations

import pytest

from nearfar import compare

from .conftest import LABELS, QUICK


@pytest.mark.parametrize("source", [["iris.csv", *LABELS], ["both.npz"]])
def test_the_same_as_in_python(document, iris, source):
    found = document("compare", *source, *QUICK)
    expected = compare(*iris, ["BoostMetric"], cv=2).to_dict()
    for one, other in zip(found["methods"], expected["methods"], strict=True):
        assert one["error"] == other["error"]
    assert found["verdict"] == expected["verdict"]


def test_the_table(run):
    result = run("compare", "iris", *QUICK)
    assert result.stdout.startswith("3-NN error ± std over 2 folds, 150 rows")
    assert "BoostMetric" in result.stdout
    assert "DRMetric" not in result.stdout


def test_plain_methods_can_be_named(document):
    found = document("compare", "iris", "--method", "lda", "--folds", 2)
    assert "LDA" in [method["name"] for method in found["methods"]]
    assert {method["kind"] for method in found["methods"]} == {"baseline", "plain"}


def test_a_budget(document):
    found = document("compare", "iris", "--budget", "0s", "--folds", 2)
    assert {method["why"] for method in found["left_out"]} == {"no time left"}
    assert len(found["methods"]) == 2


def test_the_default_budget(run, monkeypatch):
    seen = []
    monkeypatch.setattr("nearfar.cli.compare.compare_methods", lambda *a, **k: seen.append((a, k)))
    run("compare", "iris")
    run("compare", "iris", "--method", "all", "--method", "lda")
    assert [k["budget"] for _, k in seen] == [120.0, 120.0]
    assert [a[2] for a, _ in seen] == [None, "all"]


def test_unknown_methods_are_answered_with_known_ones(fail):
    assert "no method 'magic'; choose from autometric" in fail(
        "compare", "iris", "--method", "magic"
    )
