"""The appendix: what it takes to do the same again, the tests, and curves."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

from nearfar.comparison import Comparison
from nearfar.report.blocks import Block, Code, Facts, Section, Table
from nearfar.report.curves import curve_figures
from nearfar.report.study import Study

_PACKAGES = ("nearfar", "numpy", "scipy", "scikit-learn", "matplotlib")


def appendix_section(study: Study) -> Section:
    """Return what it takes to do the same again, p-values and curves."""
    blocks: list[Block] = []
    if study.command:
        blocks.append(Code("Command", study.command))
    facts = [("Random seed", str(study.random_state))]
    if study.comparison is not None:
        compared = f"{study.comparison.n_folds} folds, {study.comparison.n_rows} rows"
        facts.append(("Comparison", compared))
    facts.append(("Baseline in this report", study.baseline))
    facts += study.notes
    facts.append(("Versions", versions()))
    blocks.append(Facts(facts))
    if study.learner is not None:
        shown = [f"    {name}={value!r}," for name, value in study.learner.get_params().items()]
        call = "\n".join([f"{type(study.learner).__name__}(", *shown, ")"])
        blocks.append(Code("Parameters", call))
    if study.comparison is not None:
        blocks.append(_tests(study, study.comparison))
    blocks.append(curve_figures(study))
    return Section("Appendix", "appendix", blocks)


def versions() -> str:
    """Return the versions of Python and of the packages that matter."""
    found = [f"Python {platform.python_version()}"]
    for package in _PACKAGES:
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    return ", ".join(found)


def _tests(study: Study, comparison: Comparison) -> Table:
    """Return gains and p-values of all methods, for each goal."""
    goals = study.compared_goals
    header = ["method"]
    for goal in goals:
        name = goal.measure.column
        header += [f"gain, {name}", f"p, {name}"]
    rows = []
    for result in comparison.results:
        row = [result.name]
        for goal in goals:
            gain, p = goal.gains.get(result.name), goal.p_values.get(result.name)
            row.append(
                "" if gain is None else goal.measure.write_gain(gain.gain, gain.low, gain.high)
            )
            row.append("" if p is None else _p_value(p))
        if any(row[1:]):
            rows.append(row)
    caption = (
        "Expected gain over the baseline with its 90 % interval, and p-values adjusted for "
        "the number of methods (Holm)."
    )
    return Table(header, rows, caption, summary="Expected gains and p-values")


def _p_value(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"{p:.3f}"
