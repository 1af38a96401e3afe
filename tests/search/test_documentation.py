"""The examples of docs/reference/retrieval.md run."""

from __future__ import annotations

from pathlib import Path

import pytest

from transcripts import BLOCK, prepare

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "retrieval.md"


@pytest.mark.slow
def test_examples(tmp_path: Path) -> None:
    blocks = [text for kind, text in BLOCK.findall(PAGE.read_text()) if kind == "python"]
    assert len(blocks) > 3
    prepare("\n".join(blocks), tmp_path)
    assert (tmp_path / "adapter.safetensors").exists()
