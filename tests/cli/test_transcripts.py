"""Commands in the documentation print what the documentation shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from nearfar.cli.app import app
from transcripts import BLOCK, commands, differences, prepare, run

DOCS = Path(__file__).parents[2] / "docs"
PAGES = [page for page in sorted(DOCS.glob("*.md")) if "```console" in page.read_text()]


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_transcripts(page, tmp_path):
    for kind, text in BLOCK.findall(page.read_text()):
        if kind == "python":
            prepare(text, tmp_path)
            continue
        for command, expected in commands(text):
            found = differences(expected, run(command, tmp_path))
            assert not found, f"$ {command}\n" + "\n".join(found)


def test_every_command_has_a_transcript():
    shown = " ".join(page.read_text() for page in PAGES)
    for command in app.registered_commands:
        assert f"$ nearfar {command.callback.__name__} " in shown


def test_differences_are_seen():
    assert not differences("a 1.00 b\n2 rows in 0.10 s\n", "a 1.01 b\n2 rows in 7.00 s\n")
    assert differences("a 1.0 b\n", "a 1.2 b\n")
    assert differences("a 1.0 b\n", "a 1.0 c\n")
    assert differences("a\n", "a\nb\n")
