"""How often `compare` finds a difference between two methods that are equally good.

Rows have one informative feature and two groups of four noise features. A method that uses the
informative feature and one group is, over draws of the data, as good as one that uses it and the
other group. The benchmark counts how often one of them is called clearly better, with a probability
of at least 95 %.

    python benchmarks/comparison_noise.py [--toy] [--draws N]

docs/reference/comparison.md has the table that is derived from the raw results.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.feature_selection import SelectKBest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from nearfar import NCA, BoostMetric, compare
from nearfar.evidence.verdict import CLEAR
from protocol import commit, record
from protocol import stored as stored_rows

VIEWS = ([0, 1, 2, 3, 4], [0, 5, 6, 7, 8])


class Columns(FunctionTransformer):
    """Selects columns."""

    def __init__(self, columns: list[int]) -> None:
        super().__init__()
        self.columns = columns

    def transform(self, X: Any) -> Any:
        """Return the selected columns."""
        return X[:, self.columns]


def false_alarms(learner: Any, draws: int, n: int) -> tuple[float, float]:
    """Share of draws in which one is clearly better by errors, and by rankings."""
    count = np.zeros(2)
    for seed in range(draws):
        rng = np.random.default_rng(seed)
        y = np.arange(n) % 3
        X = rng.normal(size=(n, 9))
        X[:, 0] += 1.5 * y
        one, other = (make_pipeline(Columns(view), clone(learner)) for view in VIEWS)
        found = compare(X, y, {"one": one, "other": other}, classifiers=False)
        for number, goal in enumerate((found.classification, found.ranking)):
            pair = found["one"], found["other"]
            count[number] += any(goal.probability_better(*p) >= CLEAR for p in (pair, pair[::-1]))
    return count[0] / draws, count[1] / draws


def stored() -> list[dict[str, Any]]:
    """Read the raw results."""
    return stored_rows("comparison_noise")


def table(rows: list[dict[str, Any]]) -> str:
    """Return the shares of false alarms in Markdown."""
    lines = ["| | rows | draws | errors | ranking |", "| --- | --- | --- | --- | --- |"]
    lines += [
        f"| {row['learner']} | {row['rows']} | {row['draws']} | {100 * row['errors']:.1f} % "
        f"| {100 * row['ranking']:.1f} % |"
        for row in rows
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--toy", action="store_true", help="two draws")
    parser.add_argument("--draws", type=int, default=200)
    options = parser.parse_args()
    draws = 2 if options.toy else options.draws
    learners = {
        "Euclidean": SelectKBest(k="all"),
        "BoostMetric": BoostMetric(max_iter=20),
        "NCA": NCA(max_iter=10, tol=0.01, random_state=0),
    }
    rows = []
    for name, learner in learners.items():
        for n in (90, 300):
            errors, ranking = false_alarms(learner, draws, n)
            shares = {"errors": errors, "ranking": ranking, "commit": commit()}
            rows.append({"learner": name, "rows": n, "draws": draws, **shares})
            print(table(rows[-1:]).splitlines()[-1], flush=True)
    record("comparison_noise_toy" if options.toy else "comparison_noise", rows)


if __name__ == "__main__":
    main()
