"""Signals that arrive where Python drops exceptions end the command all the same."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

_COMMAND = """
import ctypes, os, signal, sys, weakref
import nearfar.cli, nearfar.command

number = getattr(signal, sys.argv[2])


def send(*_):
    os.kill(os.getpid(), number)
    return 0


class Finalized:
    __del__ = send


class Referenced:
    pass


def drop():
    if sys.argv[1] == "finalizer":
        Finalized()
    elif sys.argv[1] == "weak reference":
        one = Referenced()
        reference = weakref.ref(one, send)
        del one
    else:
        ctypes.CFUNCTYPE(ctypes.c_int)(send)()


def command():
    try:
        drop()
        for _ in range(300_000_000):
            pass
        print("went on")
    finally:
        print("cleaned up")


nearfar.command.app = command
nearfar.cli.main()
"""


@pytest.mark.posix
@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
@pytest.mark.parametrize("place", ["finalizer", "weak reference", "C"])
def test_a_dropped_signal_is_raised_again(place, name, code):
    done = subprocess.run(
        [sys.executable, "-c", _COMMAND, place, name], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (code, "cleaned up\n", "")


_OTHER = """
import nearfar.cli, nearfar.command


class Finalized:
    def __del__(self):
        raise ValueError("of its own")


nearfar.command.app = Finalized
nearfar.cli.main()
"""


def test_other_dropped_exceptions_are_printed():
    done = subprocess.run(
        [sys.executable, "-c", _OTHER], capture_output=True, text=True, check=True
    )
    assert "Exception ignored" in done.stderr
    assert "of its own" in done.stderr


@pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="Needs SIGALRM.")
def test_the_handlers_are_those_of_the_process(monkeypatch):
    from nearfar import terminal

    installed = {}
    monkeypatch.setattr(signal, "signal", installed.__setitem__)
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
    terminal.install_signals()
    assert {signal.SIGINT, signal.SIGTERM, signal.SIGALRM} == installed.keys()
    with pytest.raises(KeyboardInterrupt):
        installed[signal.SIGINT](signal.SIGINT, None)
    with pytest.raises(SystemExit) as ended:
        installed[signal.SIGTERM](signal.SIGTERM, None)
    assert ended.value.code == 143
