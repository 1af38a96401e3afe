"""Commands in the documentation print what the documentation shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from nearfar.command import app
from transcripts import BLOCK, commands, differences, prepare, run, with_time

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
DOCS = [page for page in sorted(ROOT.glob("docs/**/*.md")) if "```console" in page.read_text()]
PAGES = [README, *DOCS]


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_transcripts(page, tmp_path):
    for kind, text in BLOCK.findall(page.read_text()):
        if kind == "python":
            if page is not README:
                prepare(text, tmp_path)
            continue
        for command, expected in commands(text):
            found = differences(expected, run(command, tmp_path))
            assert not found, f"$ {command}\n" + "\n".join(found)


@pytest.mark.slow
def test_python_in_the_readme(tmp_path):
    blocks = [text for kind, text in BLOCK.findall(README.read_text()) if kind == "python"]
    prepare("\n".join(blocks), tmp_path)


def test_commands_have_time():
    assert with_time("nearfar learn a | tail") == "nearfar learn --budget 1h a | tail"
    for command in ("nearfar compare a --budget 9s", "nearfar show a", "head nearfar learn"):
        assert with_time(command) == command


def test_every_command_has_a_transcript():
    shown = " ".join(page.read_text() for page in PAGES)
    for name in app.list_commands(None):
        assert f"$ nearfar {name} " in shown


def test_differences_are_seen():
    assert not differences("a 1.00 b\n2 rows in 0.10 s\n", "a 1.01 b\n2 rows in 7.00 s\n")
    table = "      error %  balanced %   MAP@R  fit s\n"
    for figures in ("1.0 ± 0.2 +    90.0    0.500 +", "88.1 ± 1.2 +   90.0           "):
        row = f"LSML  {figures}".ljust(len(table) - len("0.02\n"))
        assert not differences(f"{table}{row}0.02\n", f"{table}{row}1.70\n")
        assert differences(f"{row}0.02\n", f"{row}1.70\n")
    assert differences("a 1.0 b\n", "a 1.2 b\n")
    assert differences("a 1.0 b\n", "a 1.0 c\n")
    assert differences("a\n", "a\nb\n")
