"""Methods that were tried on different cells are compared on those that both have."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest

from nearfar.comparison import Category, Comparison, default_methods
from nearfar.comparison.method_results import CellResult, Trials, paired
from nearfar.comparison.scoring import Scores
from nearfar.comparison.splits import Splits

METHODS = {m.name: m for m in default_methods(["BoostMetric", "DRMetric", "NCA"])}
Y = np.arange(1500) % 5
ROWS = np.arange(1500)
FOLDS = [(ROWS[fold != ROWS // 300], ROWS[fold == ROWS // 300]) for fold in range(5)]
SPLITS = Splits(FOLDS, Y)
SAMPLE, FIRST, OTHERS = SPLITS.stages
EVERY = [*SAMPLE, *FIRST, *OTHERS]
ON_SAMPLE = ", measured on 1 of 5 folds, 300 of 1200 training rows"


def trials(name, cells, *errors, early=False):
    """Results with so many errors in a hundred test rows, in different rows for each cell."""
    found = Trials(METHODS[name], SPLITS)
    for cell, error in zip(cells, np.broadcast_to(errors, len(cells)), strict=True):
        test = SPLITS.rows(cell)[1]
        wrong = (np.arange(len(test)) % 100 < error).astype(float)
        noise = np.random.default_rng(cell).normal(0, 1e-4, len(test))
        losses = {"error": wrong, "map_at_r": 0.1 + 0.5 * wrong - noise}
        scores = Scores(losses | {"triplet_accuracy": np.full(len(test), 0.5)})
        found.results[cell] = CellResult(scores, 1.0, 1.0, early)
    return found


def comparison(*found):
    return Comparison([one.result() for one in found], n_neighbors=3, n_folds=5, n_rows=1500)


EUCLIDEAN = trials("Euclidean (standardised)", EVERY, 40, 20, 20, 20, 20, 20)


def test_the_result_on_the_most_rows():
    assert trials("LDA", [], 0).result().note == "no time left"
    sample, one, all_of_them = (trials("LDA", EVERY[:n], 10).result() for n in (1, 2, 6))
    assert sample.partial == ON_SAMPLE.removeprefix(", measured on ")
    assert one.partial == "1 of 5 folds"
    assert all_of_them.partial == ""
    assert [r.complete for r in (sample, one, all_of_them)] == [False, False, True]
    assert sample.extent < one.extent < all_of_them.extent
    assert trials("LDA", FIRST, 10, early=True).result().extent < sample.extent


@pytest.mark.parametrize(("n", "cells"), [(1, SAMPLE), (2, FIRST), (4, [*FIRST, *OTHERS[:2]])])
def test_pairs_share_the_largest_cells(n, cells):
    one, other = paired(trials("LDA", EVERY[:n], 10).result(), EUCLIDEAN.result())
    assert one.cells == other.cells == tuple(cells)
    assert other.error == pytest.approx(0.4 if n == 1 else 0.2)
    tested = np.concatenate([SPLITS.rows(cell)[1] for cell in cells])
    np.testing.assert_array_equal(np.flatnonzero(~np.isnan(one.wrong)), np.unique(tested))


def test_nothing_in_common():
    one, other = trials("LDA", SAMPLE, 10).result(), trials("NCA", FIRST, 10).result()
    assert paired(one, other) is None
    found = comparison(EUCLIDEAN, trials("LDA", SAMPLE, 10)).classification
    assert found.p_value(one, other) == 1
    assert not found.is_better(one, other)


def test_p_values_use_the_rows_that_both_have():
    found = comparison(EUCLIDEAN, trials("NCA", SAMPLE, 30)).classification
    expected = binomtest(0, 3 * 10).pvalue
    assert found.p_values["NCA"] == pytest.approx(expected)
    assert found.mark(found.results[1]) == "+"


def test_rankings_on_one_fold_are_not_tested():
    one = comparison(EUCLIDEAN, trials("NCA", EVERY[:2], 0))
    assert one.ranking.p_values["NCA"] == 1
    assert one.classification.mark(one["NCA"]) == "+"
    assert one.ranking.winner is None
    assert one.ranking.verdict.headline.startswith(
        "Use NCA: MAP@R 0.900 instead of 0.800 with Euclidean distance, measured on 1 of 5 folds "
        "(clearly "
    )
    three = comparison(EUCLIDEAN, trials("NCA", EVERY[:4], 0))
    assert three.ranking.mark(three["NCA"]) == "+"


def test_fits_stopped_early_do_not_win():
    found = comparison(EUCLIDEAN, trials("NCA", SAMPLE, 0, early=True))
    assert found.classification.winner is None
    assert found.classification.verdict.category == Category.NOTHING


WINNERS = {
    "a complete result beats a better partial one": (
        {"BoostMetric": (6, 10), "NCA": (2, 9)},
        "BoostMetric",
        "Use BoostMetric: error 10.0 % instead of 20.0 % with Euclidean distance (clearly better: ",
    ),
    "unless that is clearly better on the same rows": (
        {"BoostMetric": (6, 10), "NCA": (2, 1)},
        "NCA",
        "Use NCA: error 1.0 % instead of 20.0 % with Euclidean distance, measured on 1 of 5 folds ",
    ),
    "a sample never beats all training rows": (
        {"BoostMetric": (6, 10), "NCA": (1, 0)},
        "BoostMetric",
        "Use BoostMetric: error 10.0 % instead of 20.0 % with Euclidean distance (clearly better: ",
    ),
    "a sample is better than nothing": (
        {"BoostMetric": (6, 20), "NCA": (1, 20)},
        "NCA",
        f"Use NCA: error 20.0 % instead of 40.0 % with Euclidean distance{ON_SAMPLE} (clearly ",
    ),
    "a plain method and a learner on a sample": (
        {"LDA": (6, 10), "NCA": (1, 5)},
        "LDA",
        "Use LDA: error 10.0 % instead of 20.0 % with Euclidean distance (clearly better: ",
    ),
    "a learner on one fold and a plain method": (
        {"LDA": (6, 18), "NCA": (2, 15)},
        "NCA",
        "Use NCA: error 15.0 % instead of 20.0 % with Euclidean distance, measured on 1 of 5 folds",
    ),
    "a sample that is hardly better": (
        {"NCA": (1, 39)},
        None,
        f"Keep Euclidean distance: error 40.0 %{ON_SAMPLE}. A tie with the best other method, "
        "NCA: 39.0 % there. Too little was tried to tell them apart (",
    ),
}


@pytest.mark.parametrize("case", WINNERS)
def test_winners(case):
    tried, winner, beginning = WINNERS[case]
    methods = [trials(name, EVERY[:n], error) for name, (n, error) in tried.items()]
    found = comparison(EUCLIDEAN, *methods)
    assert (found.classification.winner and found.classification.winner.name) == winner
    headline = found.classification.verdict.headline
    assert headline.startswith(beginning)
    if "LDA" in tried and winner == "LDA":
        where = ON_SAMPLE.removeprefix(", measured on ")
        assert headline.endswith(
            f" On {where}, NCA has 5.0 % and LDA 10.0 %, but NCA was tried on less."
        )
    assert found.verdicts[0].startswith("Only partly tried for lack of time: NCA (1 of 5 folds")


def test_the_table_has_a_part_for_each_kind_of_data():
    found = comparison(
        EUCLIDEAN,
        trials("NCA", SAMPLE, 30),
        trials("DRMetric", SAMPLE, 35, early=True),
        trials("BoostMetric", EVERY[:2], 10),
    )
    lines = [line.split("  ")[0] for line in str(found).splitlines()]
    assert lines[2:10] == [
        "Euclidean (standardised)",
        "1 of 5 folds:",
        "Euclidean (standardised)",
        "BoostMetric",
        "1 of 5 folds, 300 of 1200 training rows:",
        "Euclidean (standardised)",
        "NCA",
        "DRMetric *",
    ]
    assert found.to_html().count('scope="rowgroup"') == 2
    rows = {row["name"]: row for row in found.to_dict()["methods"]}
    assert rows["NCA"]["reference"][0]["error"] == pytest.approx(0.4)
    assert rows["Euclidean (standardised)"]["reference"] is None
    assert found.to_dict()["incomplete"]
    assert found.verdicts[0] == (
        "Only partly tried for lack of time: NCA, DRMetric (1 of 5 folds, 300 of 1200 training "
        "rows); BoostMetric (1 of 5 folds)."
    )
