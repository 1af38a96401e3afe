"""What the papers claim about speed, beside ratios of CPU seconds of the same run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from papers.curves.curve import Panels, stored
from papers.task import Array

LEVEL = 1.1
"""A ratio between this and its inverse counts as level, and an exponent up to it as linear."""


def claims(runs: Mapping[str, list[Panels]] | None = None) -> Iterator[tuple[str, str, str, str]]:
    """Yield method, claim, what it is here, and whether it holds; of figures that have runs."""
    found = stored() if runs is None else runs
    if panels := found.get("boostmetric/F1"):
        name = "LMNN, full eigendecompositions"
        few, many = (ratio(panels, "", name, "BoostMetric")[[0, -1]]).round(1)
        ours = ratio(panels, "", "LMNN of nearfar", "BoostMetric")[-1]
        yield (
            "BoostMetric",
            "with many columns faster than LMNN, which needs all eigenvalues; level with few",
            f"50 columns: LMNN takes {few} times as long; 1,000: {many} times. "
            f"nearfar's LMNN, which needs none, {ours:.2f} times",
            word(many),
        )
    if panels := found.get("metricboost/T3"):
        for title in panels[0]:
            ratios = ratio(panels, title, "BoostMetric", "MetricBoost")
            names = panels[0][title]["xlabel"].removeprefix("set: ").split(", ")
            told = ", ".join(f"{n} {r:.2f}" for n, r in zip(names, ratios, strict=True))
            yield (
                "MetricBoost",
                f"1.7 to 5.5 times as fast as BoostMetric on these sets; {title}",
                told,
                f"{word(float(np.exp(np.log(ratios).mean())))}, {(ratios > 1).sum()} of 6",
            )
    if panels := found.get("metricboost/pairs"):
        by_pairs, listed = (
            exponent(panels, "", f"MetricBoost by {n}") for n in ("pairs", "triplets")
        )
        gain = ratio(panels, "", "MetricBoost by triplets", "MetricBoost by pairs")[-1]
        yield (
            "MetricBoost",
            "all triplets at the price of pairs: square of the rows in place of their cube",
            f"50 to 300 rows: time grows with exponent {by_pairs:.1f} in place of {listed:.1f}; "
            f"300 rows: {gain:.0f} times as fast",
            word(gain),
        )
    if panels := found.get("drmetric/seconds"):
        (title,) = panels[0]
        boost, matrix = (
            ratio(panels, title, n, "DRMetric")[-1] for n in ("BoostMetric", "MetricBoost")
        )
        yield (
            "DRMetric",
            "168 s on Corel; BoostMetric 245 s (1.46 times), MatrixBoost 239 s (1.43 times)",
            f"BoostMetric takes {boost:.2f} times as long, MatrixBoost {matrix:.1f} times",
            f"{word(boost)}; {word(matrix)}",
        )
    if panels := found.get("maxmargin/pairs"):
        plain, kernel = (exponent(panels, "", f"max-margin{n}", 3) for n in ("", ", RBF kernel"))
        yield (
            "Max-margin",
            "time linear in the number of pairs, also with a kernel",
            f"128,000 to 1,024,000 pairs: exponent {plain:.2f}, with a kernel {kernel:.2f}",
            "holds" if max(plain, kernel) <= LEVEL else "does not hold",
        )


def word(slower: float) -> str:
    """Return whether a claim of being faster holds, by how much slower the other is."""
    return "holds" if slower > LEVEL else "reversed" if slower < 1 / LEVEL else "level"


def ratio(panels: list[Panels], title: str, slow: str, fast: str) -> Array:
    """Return how many times as long one line takes as another, the geometric mean over runs."""
    return np.exp(
        np.mean([np.log(_y(p[title], slow) / _y(p[title], fast)) for p in panels], axis=0)
    )


def exponent(panels: list[Panels], title: str, name: str, last: int = 0) -> float:
    """Return the slope of a line in logarithms; over its last intervals, or all."""
    slopes = []
    for each in panels:
        x, y = np.log(each[title]["lines"][name][0]), np.log(_y(each[title], name))
        slopes.append(
            np.polyfit(x[-last - 1 :] if last else x, y[-last - 1 :] if last else y, 1)[0]
        )
    return float(np.mean(slopes))


def _y(panel: Mapping[str, Any], name: str) -> Array:
    return np.array(panel["lines"][name][1])
