"""How often `compare` finds a difference by judgements between methods that are equally good.

Judges go by the distance of rows with four features, with noise. A method sees two of the features,
or the other two, and is over draws as good with the one as with the other. The benchmark compares
the standard error of the difference that is estimated with the one over draws, and counts how often
the test finds a difference at the 5 % level, before the adjustment for the number of methods.
"""

from __future__ import annotations

import argparse

import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from nearfar import LSML, Pairs, Triplets, compare
from protocol import Array

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
) -> tuple[float, float, float]:
    """Difference between two methods, its variance as estimated, and the p-value."""
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
    return float(gap.mean()), goal.overlap.variance(gap), goal.p_value(one, other)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--toy", action="store_true", help="two draws")
    parser.add_argument("--learned", action="store_true", help="learn from the judgements (LSML)")
    parser.add_argument("--draws", type=int, default=300)
    options = parser.parse_args()
    n_draws = 2 if options.toy else options.draws
    print(f"{'':9} {'rows':>5} {'judgements':>10} {'true':>6} {'estimated':>9} {'alarms':>7}")
    for kind, n_rows, number in CASES:
        draws = [
            difference(kind, n_rows, number, seed, learned=options.learned)
            for seed in range(n_draws)
        ]
        gaps, variances, p = np.array(draws).T
        errors = f"{gaps.std():6.3f} {np.sqrt(variances.mean()):9.3f}"
        print(f"{kind:9} {n_rows:5} {number:10} {errors} {100 * (p < 0.05).mean():6.1f}%")


if __name__ == "__main__":
    main()
