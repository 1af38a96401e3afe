"""The command line; see ``nearfar --help``."""

from __future__ import annotations

import sys

from nearfar.cli import signals


def main() -> None:
    """Run the command line, or say which packages it needs."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character must not lose the result.
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    signals.install()
    try:
        from nearfar.cli.app import app

        app()
    except ModuleNotFoundError as error:
        if error.name not in {"typer", "rich", "polars"}:
            raise
        sys.exit(f"nearfar's command line needs {error.name}: pip install 'nearfar[cli]'")
    except KeyboardInterrupt:
        sys.exit(130)
