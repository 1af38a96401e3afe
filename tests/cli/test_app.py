from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib import import_module

import pytest

import nearfar
from nearfar import __version__
from nearfar.cli.app import COMMAND_GROUPS, COMMANDS, EXAMPLES, OPTION_GROUPS, OTHER_WORDS


def test_version(run):
    assert run("--version").output.strip() == f"nearfar {__version__}"


@pytest.mark.parametrize("command", COMMANDS)
def test_help(run, command):
    assert command in run("--help").output
    assert (
        f"nearfar {command}" in run(command, "--help").output
        or "Usage:" in run(command, "--help").output
    )


def test_without_arguments_it_says_what_to_do_first(run):
    done = run()
    assert "nearfar learn circles" in done.output
    assert "--label" in done.output
    assert done.exit_code == 0


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_groups_and_an_example_that_the_command_understands(run, name):
    assert name in {each for group in COMMAND_GROUPS.values() for each in group}
    shown = run(name, "--help").output
    assert f"Example:\n  {EXAMPLES[name]}" in shown
    assert "Arguments:" in shown
    usage = shown.partition("Usage: ")[2].partition("\n\n")[0].split()[3:]
    assert usage == [word.upper() for word in usage]
    assert not {"{", "}"} & {*"".join(usage)}
    left = shown.partition("\nOptions:\n")[2].partition("\nExample")[0]
    assert left.split()[0] == "--help"
    known = set(re.findall(r"--[\w-]+", shown))
    assert set(re.findall(r"--[\w-]+", EXAMPLES[name])) <= known


def test_no_option_is_in_two_groups():
    words = " ".join(OPTION_GROUPS.values()).split()
    assert len(words) == len(set(words))


@pytest.mark.slow
def test_without_a_terminal_there_are_no_colours(tmp_path):
    keep = {k: v for k, v in os.environ.items() if k not in ("FORCE_COLOR", "NO_COLOR")}
    for words in (["--help"], ["learn", "--help"], [], ["show", "missing.safetensors"]):
        command = [sys.executable, "-m", "nearfar.cli", *words]
        done = subprocess.run(command, capture_output=True, cwd=tmp_path, env=keep, check=False)
        assert b"\x1b[" not in done.stdout + done.stderr


@pytest.mark.parametrize("name", COMMANDS)
def test_the_first_sentence_is_that_of_the_command(name):
    module, sentence = COMMANDS[name]
    function = getattr(import_module(f"nearfar.cli.{module}"), name.replace("-", "_"))
    assert " ".join(function.__doc__.split("\n\n")[0].split()) == sentence


def imported(code):
    """Return the modules that are imported when some code runs in a new interpreter."""
    listing = f"import sys\ntry:\n    {code}\nexcept SystemExit:\n    pass\nprint(*sys.modules)"
    found = subprocess.run(
        [sys.executable, "-c", listing], capture_output=True, text=True, check=True
    )
    return set(found.stdout.split())


HEAVY = {"numpy", "scipy", "sklearn", "pandas", "polars", "pyarrow", "matplotlib", "dask"}


def run_with(*arguments):
    return f"sys.argv = {['nearfar', *arguments]}; from nearfar.cli import main; main()"


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["lern"], []])
def test_nothing_heavy_is_imported_for_help_and_mistakes(arguments):
    assert not HEAVY & imported(run_with(*arguments))


@pytest.mark.slow
def test_the_package_imports_what_is_used():
    assert not HEAVY & imported("import nearfar; nearfar.__version__")
    used = imported("from nearfar import BoostMetric")
    assert not {"matplotlib", "nearfar.comparison", "nearfar.plots", "nearfar.cli"} & used
    assert HEAVY & used <= HEAVY & imported("import sklearn.metrics, sklearn.neighbors")
    assert "nearfar.plots" in imported("import nearfar; nearfar.plots")


def test_all_names_can_be_imported():
    for name in nearfar.__all__:
        assert getattr(nearfar, name) is not None
    assert set(nearfar.__all__) <= set(dir(nearfar))


@pytest.mark.parametrize("package", ["typer", "polars"])
def test_without_its_extra_the_command_says_what_to_install(tmp_path, package):
    broken = f"raise ModuleNotFoundError('No {package}', name='{package}')"
    (tmp_path / f"{package}.py").write_text(broken)
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); sys.argv = ['nearfar', 'show', 'x']; "
        "from nearfar.cli import main; main()"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert result.returncode == 1
    assert result.stderr.strip().endswith(f"needs {package}: pip install 'nearfar[cli]'")


@pytest.mark.parametrize("words", OTHER_WORDS)
def test_words_that_people_try(run, words, monkeypatch):
    first, *_ = meant = OTHER_WORDS[words].split()
    for word in words.split():
        if word not in COMMANDS:
            known = first if first in COMMANDS else meant[-1]
            line = " ".join(run(word, "x.csv", code=2).stderr.split())
            assert f"No such command '{word}'. Use `nearfar {known}`: {COMMANDS[known][1]}" in line
    monkeypatch.setitem(COMMANDS, "predict", ("learn", "Predict the labels of new rows."))
    line = " ".join(run("classify", "x.csv", code=2).stderr.split())
    assert line.endswith("'classify'. Use `nearfar predict`: Predict the labels of new rows.")


def test_other_words_are_no_commands():
    assert not {word for words in OTHER_WORDS for word in words.split()} & (
        COMMANDS.keys() - {"predict"}
    )


def test_mistyped_commands(run):
    assert (
        run("lern", code=2).stderr.strip().endswith("No such command 'lern'. Did you mean 'learn'?")
    )
    assert run("xyz", code=2).stderr.strip().endswith("No such command 'xyz'.")


def test_a_mistyped_choice_has_a_suggestion(run):
    result = run("export", "metric.safetensors", "--to", "fais", code=2)
    assert "Value error" not in result.stderr
    assert "Did you mean 'faiss'?" in result.stderr
