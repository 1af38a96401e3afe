from __future__ import annotations

import os
import stat

import pytest

from nearfar.runtime.atomic_write import always_cleaned_up, atomic_write


@pytest.fixture
def path(tmp_path):
    (tmp_path / "file").write_text("old")
    return tmp_path / "file"


def write(path, text="new"):
    with atomic_write(path) as temporary:
        temporary.write_text(text)


def test_the_new_file_takes_the_place_of_the_old(path):
    with atomic_write(str(path)) as temporary:
        temporary.write_text("new")
        assert temporary.parent == path.parent
        assert path.read_text() == "old"
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
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space"):
        write(path)
    assert path.read_text() == "old"
    assert os.listdir(path.parent) == ["file"]


def test_what_cannot_be_written_is_refused_at_once(path, tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match="no folder"):
        write(tmp_path / "missing" / "file")
    with pytest.raises(ValueError, match="not a regular file"):
        write(tmp_path)

    def forbidden(self, **options):
        raise PermissionError(13, "Permission denied", "a temporary name")

    monkeypatch.setattr(type(path), "touch", forbidden)
    with pytest.raises(PermissionError, match=f"'{path}'"):
        write(path)


def test_a_second_interrupt_does_not_stop_the_cleaning_up():
    calls = []

    def cleanup():
        calls.append(len(calls))
        if len(calls) == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), always_cleaned_up(cleanup):
        raise ValueError
    assert calls == [0, 1]
