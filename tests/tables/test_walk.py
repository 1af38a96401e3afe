"""The walk of the guide on tables: a messy table, from the file to the report."""

from __future__ import annotations

import pytest

from docs.pages import ROOT, Page

BLOCKS = [
    block.text
    for block in Page.read(ROOT / "docs/guides/table.md").blocks
    if block.kind == "python"
]


@pytest.mark.slow
def test_six_lines_from_a_messy_table_to_a_report(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    making, walk = BLOCKS
    assert len(walk.split("\n\n")[-1].splitlines()) + 1 <= 6
    names: dict[str, object] = {}
    exec(making, names)
    exec(walk, names)
    printed = capsys.readouterr().out
    assert "held out" in printed
    assert "random forest" in printed
    assert "Metric written to" not in printed
    assert "38%" not in printed
    notes = " ".join(note.text for note in names["learned"].notes)
    assert "left out plot (looks like ids)" in notes
    assert (tmp_path / "soils.safetensors").exists()
    assert "<h1>soils</h1>" in (tmp_path / "soils.html").read_text()
