"""Guides are short, have a picture and a warning, and their examples run; README has one screen."""

from __future__ import annotations

import re
from typing import Any

import pytest

from docs.pages import ROOT, Page
from transcripts import prepare

GUIDES = [path for path in sorted(ROOT.glob("docs/guides/*.md")) if path.stem != "index"]
every_guide = pytest.mark.parametrize("path", GUIDES, ids=lambda path: path.stem)


@every_guide
def test_shape(path):
    text = path.read_text()
    assert len(text.split()) <= 600
    assert ":::{figure}" in text
    assert "## What can go wrong" in text
    index = (ROOT / "docs/guides/index.md").read_text()
    assert f"({path.name})" in index
    assert f"\n{path.stem}\n" in index


@every_guide
def test_pictures_are_those_of_examples(path):
    for line in path.read_text().splitlines():
        if line.startswith(":::{figure}"):
            part, name = line.partition("auto_examples/")[2].split("/images/sphx_glr_")
            stem = name.rpartition("_")[0]
            assert (ROOT / "examples" / part / f"{stem}.py").exists()


@pytest.mark.slow
@pytest.mark.parametrize("path", [*GUIDES, ROOT / "docs/start.md"], ids=lambda path: path.stem)
def test_examples_run(path, tmp_path):
    blocks = [block.text for block in Page.read(path).blocks if block.kind == "python"]
    prepare("import matplotlib\nmatplotlib.use('agg')\n" + "\n".join(blocks), tmp_path)


def test_maps_between_models_keep_what_the_guide_says():
    page = Page.read(ROOT / "docs/guides/change-the-embedding-model.md")
    names: dict[str, Any] = {}
    exec("\n".join(block.text for block in page.blocks), names)
    (stated,) = re.findall(r"print\(recall\)  # (\S+) and (\S+)", page.text)
    found = [names["recall"]["ridge"], names["recall"]["rotation"]]
    assert found == pytest.approx([float(each) for each in stated], abs=0.01)


def test_the_readme_has_one_screen():
    lines = (ROOT / "README.md").read_text().splitlines()
    assert len(lines) <= 120
    assert next(i for i, line in enumerate(lines) if line == "```python") < 12
