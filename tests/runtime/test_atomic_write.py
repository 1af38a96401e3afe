from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys

import pytest

import nearfar.runtime.atomic_write as atomic_write_module
from nearfar.runtime.atomic_write import atomic_write


@pytest.fixture(params=["without a name", "with a name"])
def path(tmp_path, request, monkeypatch):
    """A file to replace; the temporary file has no name if the system can do that."""
    if request.param == "with a name":
        monkeypatch.setattr(atomic_write_module, "path_of", lambda descriptor: None)
    elif not hasattr(os, "O_TMPFILE"):
        pytest.skip("The system has no files without a name.")
    (tmp_path / "file").write_text("old")
    return tmp_path / "file"


def write(path, text="new"):
    with atomic_write(path) as temporary:
        temporary.write_text(text)


def test_the_new_file_takes_the_place_of_the_old(path):
    with atomic_write(str(path)) as temporary:
        temporary.write_text("new")
        assert temporary.read_text() == "new"
        assert path.read_text() == "old"
        assert os.listdir(path.parent) == ["file"] or temporary.parent.parent == path.parent
    assert path.read_text() == "new"
    assert os.listdir(path.parent) == ["file"]


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o755])
def test_permissions_are_kept(path, mode):
    path.chmod(mode)
    write(path)
    assert stat.S_IMODE(path.stat().st_mode) == mode


def test_a_new_file_has_the_permissions_of_the_process(path):
    write(path.with_name("other"))
    plain = path.with_name("plain")
    plain.touch()
    assert path.with_name("other").stat().st_mode == plain.stat().st_mode


def test_a_link_stays_a_link(path):
    link = path.with_name("link")
    link.symlink_to(path)
    write(link)
    assert link.is_symlink()
    assert path.read_text() == "new"


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError, SystemExit])
def test_an_interrupted_write_leaves_the_old_file(path, error):
    def write_half():
        with atomic_write(path) as temporary:
            temporary.write_text("half of it")
            raise error

    with pytest.raises(error):
        write_half()
    assert path.read_text() == "old"
    assert os.listdir(path.parent) == ["file"]


def test_a_full_disk_leaves_the_old_file(path, monkeypatch):
    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=f"No space left on device: '{path}'"):
        write(path)
    assert path.read_text() == "old"
    assert os.listdir(path.parent) == ["file"]


def test_what_cannot_be_written_is_refused_at_once(path, tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match="no folder"):
        write(tmp_path / "missing" / "file")
    with pytest.raises(ValueError, match="not a regular file"):
        write(tmp_path)

    def forbidden(name, *options, **more):
        raise PermissionError(13, "Permission denied", str(name))

    monkeypatch.setattr(os, "open", forbidden)
    with pytest.raises(PermissionError, match=f"Permission denied: '{path}'"):
        write(path)


def test_errors_about_other_files_are_not_changed(path):
    def write_what_is_not_there():
        with atomic_write(path) as temporary:
            temporary.write_bytes(path.with_name("missing").read_bytes())

    with pytest.raises(FileNotFoundError, match="missing"):
        write_what_is_not_there()


_FULL = """
import resource, sys
from nearfar.runtime.atomic_write import atomic_write
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
try:
    with atomic_write(sys.argv[1]) as temporary:
        temporary.write_bytes(bytes(10_000))
except OSError as error:
    print(error.filename, error.strerror)
"""


@pytest.mark.posix
def test_a_file_that_may_not_grow_is_named(path):
    done = subprocess.run(
        [sys.executable, "-c", _FULL, path], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == f"{path} File too large"
    assert os.listdir(path.parent) == ["file"]
