"""How uncertain the difference between two methods is by judgements, over draws and as estimated.

Judges go by the distance of rows with four features, with noise. A method sees two of the features,
or the other two, and is over draws as good with the one as with the other. The benchmark compares
the standard error of the difference that is estimated with the one over draws. Learning from the
judgements (LSML) takes longer and has fewer draws.

    python benchmarks/judgement_noise.py [--toy] [--draws N]

docs/reference/comparison.md has the table that is derived from the raw results.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from nearfar import LSML, Pairs, Triplets, compare
from protocol import Array, commit, record
from protocol import stored as stored_rows

CASES = [("triplets", 3000, 300), ("triplets", 100, 400), ("triplets", 40, 3000)]
CASES += [("pairs", 2000, 300), ("pairs", 100, 300), ("pairs", 40, 600)]


def view(X: Array) -> Array:
    """Return the first two features."""
    return X[:, :2]


def other_view(X: Array) -> Array:
    """Return the last two features."""
    return X[:, 2:]


def draw(kind: str, n_rows: int, number: int, seed: int) -> tuple[Array, Triplets | Pairs]:
    """Rows and judgements of them."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 4))
    width = 3 if kind == "triplets" else 2
    index = np.array([rng.choice(n_rows, width, replace=False) for _ in range(number)])
    apart = [
        ((X[index[:, 0]] - X[index[:, k]]) ** 2).sum(axis=1) + rng.normal(size=number)
        for k in range(1, width)
    ]
    if kind == "pairs":
        return X, Pairs(index, apart[0] < np.quantile(apart[0], 0.3))
    right = apart[0] < apart[1]
    return X, Triplets(np.where(right[:, None], index, index[:, [0, 2, 1]]))


def difference(
    kind: str, n_rows: int, number: int, seed: int, *, learned: bool
) -> tuple[float, float]:
    """Difference between two methods, and its variance as estimated."""
    X, judgements = draw(kind, n_rows, number, seed)
    after = [LSML(random_state=0)] if learned else []
    methods = {
        part.__name__: make_pipeline(FunctionTransformer(part), *after)
        for part in (view, other_view)
    }
    found = compare(X, judgements, methods, random_state=seed)
    goal = found.by_goal(kind)
    assert goal.overlap is not None
    one, other = (found[name] for name in methods)
    gap = one.wrong - other.wrong
    return float(gap.mean()), goal.overlap.variance(gap)


def measure(case: tuple[str, int, int], n_draws: int, *, learned: bool) -> dict[str, Any]:
    """Return standard errors over draws and as estimated."""
    draws = [difference(*case, seed, learned=learned) for seed in range(n_draws)]
    gaps, variances = np.array(draws).T
    return {
        "kind": case[0],
        "rows": case[1],
        "judgements": case[2],
        "learned": learned,
        "draws": n_draws,
        "true": float(gaps.std()),
        "estimated": float(np.sqrt(variances.mean())),
        "commit": commit(),
    }


def stored() -> list[dict[str, Any]]:
    """Read the raw results."""
    return stored_rows("judgement_noise")


def table(rows: list[dict[str, Any]]) -> str:
    """Return standard errors in Markdown."""
    lines = [
        "| | rows | judgements | learned | draws | true | estimated |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        cells = [row["kind"], row["rows"], row["judgements"], "yes" if row["learned"] else "no"]
        cells += [row["draws"], f"{row['true']:.3f}", f"{row['estimated']:.3f}"]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--toy", action="store_true", help="two draws")
    parser.add_argument("--draws", type=int, default=150)
    options = parser.parse_args()
    rows = []
    for learned in (False, True):
        n_draws = 2 if options.toy else options.draws // (3 if learned else 1)
        for case in CASES:
            rows.append(measure(case, n_draws, learned=learned))
            print(table(rows[-1:]).splitlines()[-1], flush=True)
    record("judgement_noise_toy" if options.toy else "judgement_noise", rows)


if __name__ == "__main__":
    main()
