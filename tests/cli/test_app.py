from __future__ import annotations

import subprocess
import sys

import pytest

from nearfar import __version__
from nearfar.cli.app import app


def test_version(run):
    assert run("--version").output.strip() == f"nearfar {__version__}"


COMMANDS = [c.callback.__name__.replace("_", "-") for c in app.registered_commands]


@pytest.mark.parametrize("command", COMMANDS)
def test_help(run, command):
    assert command in run("--help").output
    assert (
        f"nearfar {command}" in run(command, "--help").output
        or "Usage:" in run(command, "--help").output
    )


@pytest.mark.parametrize("package", ["typer", "pyarrow"])
def test_without_its_extra_the_command_says_what_to_install(tmp_path, package):
    broken = f"raise ModuleNotFoundError('No {package}', name='{package}')"
    (tmp_path / f"{package}.py").write_text(broken)
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from nearfar.cli import main; main()"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert result.returncode == 1
    assert result.stderr.strip().endswith(f"needs {package}: pip install 'nearfar[cli]'")
