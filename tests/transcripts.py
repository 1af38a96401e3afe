"""Console transcripts in the documentation: run the commands, compare or update the outputs.

``python tests/transcripts.py docs/reference/cli.md`` runs the commands of a page and updates their
outputs.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import warm_process

BLOCK = re.compile(r"^```(python|console)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")
TIMED = re.compile(r"^nearfar (learn|compare|report)\b(?!.*--budget)")
TIME = re.compile(r"\d+\.\d+ s\b")
# Pages show a version as a release has it.
VERSION = re.compile(r"(?<=by nearfar )(\d+\.\d+\.\d+)\S*")
# Of numbers that may be rounded otherwise elsewhere.
FINGERPRINT = re.compile(r"fingerprint [0-9a-f]{12}")
FIT_TIMES = "fit s"
DATE = "1767225600"
"""Files are made at the beginning of 2026, so that outputs repeat."""
FIT_TIME = re.compile(r" *\d+\.\d\d$")


def commands(block: str) -> list[tuple[str, str]]:
    """Return the commands of a console block, each with its output."""
    parts = re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
    return [(part.partition("\n")[0], part.partition("\n")[2]) for part in parts]


def with_time(command: str) -> str:
    """Give a command more time than by default: its result then does not depend on the machine."""
    return TIMED.sub(r"\g<0> --budget 1h", command)


def run(command: str, folder: Path) -> str:
    """Return what a command prints on both streams but progress, and its exit code unless 0."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    keep = {k: v for k, v in os.environ.items() if k not in ("NEARFAR_DATA", "FORCE_COLOR")}
    environment = {**keep, "PATH": path, "COLUMNS": "90", "LC_ALL": "C.UTF-8"}
    environment["SOURCE_DATE_EPOCH"] = DATE
    timed = with_time(command)
    words = _words(timed)
    if words[0] == "nearfar" and not any(set(word) <= set("|&;<>") for word in words):
        exit_code, output = warm_process.run(words, folder, environment)
    else:
        done = subprocess.run(
            ["bash", "-c", timed],
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        exit_code, output = done.returncode, done.stdout
    code = "" if exit_code == 0 else f"[exit {exit_code}]\n"
    shown = VERSION.sub(r"\1", output)
    lines = [line for line in shown.splitlines() if not line.startswith("Progress: ")]
    return "".join(f"{line.rstrip()}\n" for line in lines) + code


def _words(command: str) -> list[str]:
    """Split a command as a shell does, with pipes and redirections as words of their own."""
    words = shlex.shlex(command, posix=True, punctuation_chars=True)
    words.whitespace_split = True
    return list(words)


def prepare(code: str, folder: Path) -> None:
    """Run a Python block of a page in a folder."""
    exit_code, output = warm_process.run(["python", "-c", code], folder, dict(os.environ))
    if exit_code:
        raise RuntimeError(output)


def differences(expected: str, actual: str) -> list[str]:
    """Return lines that differ in words, or in numbers by more than rounding explains."""
    left, right = _lines(expected), _lines(actual)
    if len(left) != len(right):
        return [f"{len(left)} lines expected, {len(right)} printed", *right]
    found = []
    for one, other in zip(left, right, strict=True):
        words = NUMBER.sub("#", one) == NUMBER.sub("#", other)
        numbers = zip(NUMBER.findall(one), NUMBER.findall(other), strict=False)
        if not words or any(_apart(float(a), float(b)) for a, b in numbers):
            found.append(f"expected: {one}\n printed: {other}")
    return found


def _apart(a: float, b: float) -> bool:
    return abs(a - b) > 0.02 + 0.03 * max(abs(a), abs(b))


def _lines(text: str) -> list[str]:
    text = VERSION.sub("VERSION", FINGERPRINT.sub("fingerprint", TIME.sub("TIME", text)))
    lines = _without_fit_times(text.splitlines())
    return [re.sub(r"[ ━─]+", " ", line).strip() for line in lines]


def _without_fit_times(lines: list[str]) -> list[str]:
    """Mask the last column of tables whose last column has times of fits."""
    width, masked = 0, []
    for line in lines:
        if line.endswith(FIT_TIMES):
            width = len(line)
        masked.append(FIT_TIME.sub(" TIME", line) if len(line) == width else line)
    return masked


def rewrite(page: Path) -> None:
    """Run the commands of a page and update their outputs."""
    with tempfile.TemporaryDirectory() as folder:

        def fill(block: re.Match[str]) -> str:
            kind, text = block.groups()
            if kind == "python":
                if page.name != "README.md":
                    prepare(text, Path(folder))
                return block.group()
            filled = [f"$ {command}\n{run(command, Path(folder))}" for command, _ in commands(text)]
            return f"```console\n{''.join(filled)}```"

        page.write_text(BLOCK.sub(fill, page.read_text()))


if __name__ == "__main__":
    for name in sys.argv[1:]:
        rewrite(Path(name))
