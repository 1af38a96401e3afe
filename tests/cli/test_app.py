from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Literal

import click
import pytest
from click.testing import CliRunner

import nearfar
from nearfar import __version__
from nearfar.cli import COMMANDS, OPTION_GROUPS, OTHER_WORDS
from nearfar.command import app, command_of, declared, sentence_of
from nearfar.runtime.messages import forwards, spelled

NAMES = app.list_commands(None)
WHERE = {name: where for group in COMMANDS.values() for name, where in group.items()}
FUNCTIONS = NAMES


def test_version(run):
    assert run("--version").output.strip() == f"nearfar {__version__}"


@pytest.mark.parametrize("command", NAMES)
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


@pytest.mark.parametrize("name", FUNCTIONS)
def test_help_has_groups_and_an_example_that_the_command_understands(run, name):
    shown = run(name, "--help").output
    assert f"Example:\n  {WHERE[name][1]}" in shown
    assert "Arguments:" in shown
    usage = shown.partition("Usage: ")[2].partition("\n\n")[0].split()[3:]
    assert usage == [word.upper() for word in usage]
    assert not {"{", "}"} & {*"".join(usage)}
    left = shown.partition("\nOptions:\n")[2].partition("\nExample")[0]
    assert left.split()[0] == "--help"
    known = set(re.findall(r"--[\w-]+", shown))
    assert set(re.findall(r"--[\w-]+", WHERE[name][1])) <= known


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


def function_of(name):
    module, _, function = WHERE[name][0].partition(":")
    return getattr(import_module(f"nearfar.{module}"), function)


@pytest.mark.parametrize("name", NAMES)
def test_the_first_sentence_is_that_of_the_function(name):
    assert " ".join(function_of(name).__doc__.split("\n\n")[0].split()) == sentence_of(name) != ""


@pytest.mark.parametrize("name", FUNCTIONS)
def test_options_are_the_parameters_of_the_function(name):
    function, command = function_of(name), app.get_command(None, name)
    parameters = {n: p for n, p in declared(function).items() if n != "progress"}
    made = {p.name: p for p in command.params if p.name != "json"}
    assert list(made) == list(parameters)
    for key, parameter in made.items():
        assert parameters[key].text
        if isinstance(parameter, click.Option) and not parameter.required:
            assert spelled(key).partition("/")[0] == parameter.opts[0]
            assert parameter.default in (parameters[key].parameter.default, None)


def test_a_command_is_its_function(run, folder):
    given = []

    def read(path, *, label: str = "y"):
        """Read.

        Parameters
        ----------
        label : str
            What to learn.
        """

    @forwards(read, "label")
    def work(
        rows: object,
        *,
        kind: Literal["near", "far"] = "near",
        drop: Sequence[str] = (),
        max_iter: int | None = None,
        shown: bool = True,
        progress: Callable[..., None] | None = None,
        **reading: object,
    ) -> int:
        """Work.

        Parameters
        ----------
        rows : path
            Rows without `drop`.
        kind : {"near", "far"}
            Of a row.
        drop : sequence of str
            A column.
        max_iter : int
            At most.
        shown : bool
            Or not.
        """
        given.append((rows, kind, drop, max_iter, shown, progress is not None, reading))
        if max_iter == 0:
            raise ValueError("No\niterations.")
        return 7

    def call(*words):
        return CliRunner().invoke(command_of("work", work, "nearfar work"), words)

    done = call("a.csv", "--kind", "far", "--drop", "b", "--drop", "c", "--label", "z")
    assert (done.exit_code, done.stdout) == (0, "7\n")
    done = call("a.csv", "--max-iter", "0", "--no-shown")
    assert (done.exit_code, done.stderr) == (2, "nearfar: No iterations.\n")
    assert given == [
        ("a.csv", "far", ["b", "c"], None, True, True, {"label": "z"}),
        ("a.csv", "near", (), 0, False, True, {}),
    ]
    assert "Missing argument" in call().stderr
    assert "Did you mean 'near'?" in call("a.csv", "--kind", "nea").stderr
    shown = call("--help").stdout
    assert "Rows without --drop." in shown
    assert "What to learn.  [default: y]" in shown
    assert "A column. Repeatable." in shown


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


@pytest.mark.parametrize("package", ["click", "polars"])
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


@pytest.mark.parametrize("word", OTHER_WORDS)
def test_words_that_people_try(run, word):
    assert word not in NAMES
    meant = OTHER_WORDS[word]
    line = " ".join(run(word, "x.csv", code=2).stderr.split())
    assert f"No such command '{word}'. Use `nearfar {meant}`: {sentence_of(meant)}" in line


def test_mistyped_commands(run):
    assert (
        run("lern", code=2).stderr.strip().endswith("No such command 'lern'. Did you mean 'learn'?")
    )
    assert run("xyz", code=2).stderr.strip().endswith("No such command 'xyz'.")


def test_a_mistyped_choice_has_a_suggestion(run):
    result = run("match", "iris.csv", "--how", "cluster", code=2)
    assert "Did you mean 'clusters'?" in result.stderr
