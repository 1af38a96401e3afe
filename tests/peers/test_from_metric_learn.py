"""The page for users of metric-learn: its code runs, and it leaves nothing out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

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


def test_every_argument_is_there(values):
    sections = {
        name: text for title, text in SECTIONS.items() for name in re.findall(r"\w+", title)
    }
    for name, arguments in values["arguments"].items():
        missing = set(arguments) - code_in(sections[name]) - EVERYWHERE
        assert not missing, f"{name}: {missing}"
    assert code_in(PAGE) >= EVERYWHERE


def test_every_method_is_there(values):
    methods = SECTIONS["Attributes and methods"] + SECTIONS["Labels"]
    assert code_in(methods) >= set(values["methods"])


def test_links_lead_somewhere():
    anchors = {re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in SECTIONS}
    assert anchors >= set(re.findall(r"\]\(#(.*?)\)", PAGE))
