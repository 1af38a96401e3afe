from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest

import nearfar.runtime.atomic_write as temporary_files
from nearfar.runtime.atomic_write import (
    always_cleaned_up,
    atomic_write,
    clear_abandoned,
    temporary_folder,
    temporary_name,
    temporary_path,
)

_HOLD = """
import sys
from pathlib import Path
import nearfar.runtime.atomic_write as module
if sys.argv[2] == "named":
    module.path_of = lambda descriptor: None
folder = Path(sys.argv[1])
with (
    module.temporary_folder(parent=folder) as other,
    module.atomic_write(folder / "file") as temporary,
):
    (other / "part").write_text("half")
    temporary.write_text("half")
    print("ready", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def new_process(monkeypatch):
    """Look at every folder again."""
    monkeypatch.setattr(temporary_files, "_cleared", set())


@contextmanager
def another_run(folder, how="named"):
    """A process that is writing a file, and has a temporary folder."""
    command = [sys.executable, "-c", _HOLD, folder, how]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"ready\n"
        yield process
        process.stdin.close()


def write(path):
    with atomic_write(path) as temporary:
        temporary.write_text("new")


def test_a_killed_run_leaves_no_file(tmp_path):
    pytest.importorskip("fcntl")
    with another_run(tmp_path, "unnamed") as process:
        names = os.listdir(tmp_path)
        process.send_signal(signal.SIGKILL)
    assert len(names) == 1
    assert (tmp_path / names[0] / "part").exists()


def test_the_next_run_deletes_what_a_killed_run_left(tmp_path):
    with another_run(tmp_path) as process:
        process.send_signal(signal.SIGKILL)
    assert len(os.listdir(tmp_path)) == 2
    write(tmp_path / "other")
    assert os.listdir(tmp_path) == ["other"]


def test_what_a_living_run_uses_stays(tmp_path):
    with another_run(tmp_path):
        before = set(os.listdir(tmp_path))
        write(tmp_path / "other")
        assert set(os.listdir(tmp_path)) == before | {"other"}
    assert sorted(os.listdir(tmp_path)) == ["file", "other"]
    assert (tmp_path / "file").read_text() == "half"


def test_only_names_of_our_own_are_deleted(tmp_path):
    kept = {".nearfar-tmp-x", ".nearfar", "nearfar-tmp-0123456789abcdef.csv", "data.csv"}
    for name in kept | {temporary_name()}:
        (tmp_path / name).write_text("some")
    target = tmp_path / "data.csv"
    (tmp_path / temporary_name()).symlink_to(target)
    clear_abandoned(tmp_path)
    assert target.read_text() == "some"
    left = set(os.listdir(tmp_path))
    assert kept <= left
    assert all((tmp_path / name).is_symlink() for name in left - kept)


def test_a_name_that_is_deleted_at_once_is_made_again(tmp_path, monkeypatch):
    """Another run may come between the creation and the lock."""
    fcntl, deleted = pytest.importorskip("fcntl"), []

    def delete_first(descriptor, operation, lock=fcntl.flock):
        if not deleted:
            deleted.extend(tmp_path.iterdir())
            deleted[0].rmdir()
        lock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", delete_first)
    with temporary_folder(parent=tmp_path) as folder:
        assert deleted == [folder]
        assert folder.is_dir()
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("has_paths", [True, False])
def test_a_temporary_path(tmp_path, monkeypatch, has_paths):
    if not has_paths:
        monkeypatch.setattr(temporary_files, "path_of", lambda descriptor: None)
    with temporary_path(tmp_path) as path:
        path.write_text("some")
        assert path.read_text() == "some"
    assert os.listdir(tmp_path) == []


def test_a_second_interrupt_does_not_stop_the_cleaning_up():
    calls = []

    def cleanup():
        calls.append(len(calls))
        if len(calls) == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), always_cleaned_up(cleanup):
        raise ValueError
    assert calls == [0, 1]
