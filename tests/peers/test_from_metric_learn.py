"""The page for users of metric-learn: its code runs, and it leaves nothing out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import nearfar
from nearfar.learners.base import MetricLearner
from nearfar.runtime.metric_learn_names import CLASSES, METHODS, missing_parameter

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
PAGE = (Path(__file__).parents[2] / "docs" / "from-metric-learn.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
THEIRS = [block for block in BLOCKS if block.startswith("# metric-learn\n")]
OURS = [block for block in BLOCKS if block not in THEIRS]
SECTIONS = dict(re.findall(r"^##+ (.*?)\n(.*?)(?=^##|\Z)", PAGE, re.DOTALL | re.MULTILINE))
EVERYWHERE = {"X", "y", "preprocessor", "verbose", "random_state", "pairs", "triplets", "chunks"}
"""Arguments that the page explains once, for all learners."""


def code_in(text):
    return set(re.findall(r"\w+", " ".join(re.findall(r"`([^`]*)`", text))))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_our_code_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in OURS:
        exec(compile(block, "docs/from-metric-learn.md", "exec"), names)


def test_their_code_runs(run_metric_learn):
    script = "\n".join(THEIRS)
    compile(script, "docs/from-metric-learn.md", "exec")
    if run_metric_learn is not None:
        run_metric_learn("-c", script)


def test_the_errors_are_as_shown():
    (block,) = re.findall(r"^```\n(>>> .*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    lines = block.splitlines()
    known = {"LMNN": nearfar.LMNN, "learner": nearfar.LMNN(), "pairs": []}
    for code, shown in zip(lines[::2], lines[1::2], strict=True):
        with pytest.raises((TypeError, AttributeError)) as raised:
            eval(code.removeprefix(">>> "), known)
        assert f"{raised.type.__name__}: {raised.value}" == shown


def test_every_argument_is_there(values):
    sections = {
        name: text for title, text in SECTIONS.items() for name in re.findall(r"\w+", title)
    }
    for name, arguments in values["arguments"].items():
        missing = set(arguments) - code_in(sections[name]) - EVERYWHERE
        assert not missing, f"{name}: {missing}"
    assert code_in(PAGE) >= EVERYWHERE


OF_FIT = {"quadruplets", "bounds", "calibration_params"}
"""Arguments of `fit`."""


def test_every_name_is_ours_or_has_a_sentence(values):
    for name, arguments in values["arguments"].items():
        ours = getattr(nearfar, name.removesuffix("_Supervised"), None)
        if ours is None or name.endswith("_Supervised"):
            assert name in CLASSES
        if ours is None:
            continue
        assert issubclass(ours, MetricLearner)
        known = ours().get_params()
        for argument in set(arguments) - EVERYWHERE.difference({"preprocessor"}) - OF_FIT:
            assert argument in known or missing_parameter(ours(), [argument], known), argument
    learner = nearfar.ITML()
    for method in set(values["methods"]) - {"classes_"}:
        assert hasattr(learner, method) != (method in METHODS), method


def test_every_method_is_there(values):
    methods = SECTIONS["Attributes and methods"] + SECTIONS["Labels"]
    assert code_in(methods) >= set(values["methods"])


def test_links_lead_somewhere():
    anchors = {re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in SECTIONS}
    assert anchors >= set(re.findall(r"\]\(#(.*?)\)", PAGE))
