"""Runs commands in forked processes, each killed after a pause; imports are done once.

A request is a line of JSON with `arguments`, `folder`, `number` (of the signal) and `pause`
(seconds; None: no signal).
The answer is a line with the exit code, negative for a signal, what was printed, and the seconds.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from importlib import import_module

import nearfar.cli
from nearfar.tables import checkpoint


def load() -> None:
    """Import all commands, and what they import when they run."""
    for group in nearfar.cli.COMMANDS.values():
        for where, _ in group.values():
            import_module(f"nearfar.{where.partition(':')[0]}")
    for name in ("nearfar.page.page", "nearfar.search", "nearfar.comparison.methods"):
        import_module(name)
    import_module("matplotlib.pyplot")
    # Every iteration is kept, not one in five seconds.
    checkpoint.SECONDS_BETWEEN_WRITES = 0.0


def run(arguments: list[str], folder: str, number: int, pause: float | None) -> dict[str, object]:
    """Run a command, and send it a signal."""
    start = time.monotonic()
    with tempfile.TemporaryFile() as log:
        child = os.fork()
        if child == 0:
            os.chdir(folder)
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
            sys.argv = ["nearfar", *arguments]
            code = 70
            try:
                nearfar.cli.main()
                code = 0
            except SystemExit as end:
                code = end.code if isinstance(end.code, int) else 1
            finally:
                sys.stdout.flush()
                os._exit(code)
        if pause is not None:
            time.sleep(pause)
            os.kill(child, number)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        log.seek(0)
        text = log.read().decode(errors="replace")
    return {"code": code, "text": text, "seconds": time.monotonic() - start}


if __name__ == "__main__":
    load()
    answers = os.fdopen(os.dup(1), "w")
    for line in sys.stdin:
        print(json.dumps(run(**json.loads(line))), file=answers, flush=True)
