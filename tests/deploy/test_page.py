"""The examples of docs/reference/deploy.md run."""

from __future__ import annotations

from pathlib import Path

import pytest

from transcripts import BLOCK, prepare

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "deploy.md"


@pytest.mark.slow
def test_examples(tmp_path):
    blocks = [text for kind, text in BLOCK.findall(PAGE.read_text()) if kind == "python"]
    assert len(blocks) > 5
    prepare("\n".join(blocks), tmp_path)
    written = {path.name for path in tmp_path.iterdir()}
    assert written >= {"circles.faiss", "circles.onnx", "circles_metric.py"}
