"""The command line; ``nearfar --help`` tells what there is."""

from __future__ import annotations

import signal
import sys
from typing import Any


def main() -> None:
    """Run the command line, or say what it needs."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal that lacks a sign must not cost the result.
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    signal.signal(signal.SIGTERM, _end)
    try:
        from nearfar.cli.app import app
    except ModuleNotFoundError as error:
        if error.name not in {"typer", "rich", "polars"}:
            raise
        sys.exit(f"nearfar's command line needs {error.name}: pip install 'nearfar[cli]'")
    except KeyboardInterrupt:
        sys.exit(130)
    app()


def _end(number: int, _: Any) -> None:
    """End as if asked to, so that files that are half written are removed."""
    sys.exit(128 + number)
