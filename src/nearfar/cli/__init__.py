"""The command line; ``nearfar --help`` tells what there is."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line, or say what it needs."""
    try:
        from nearfar.cli.app import app
    except ModuleNotFoundError as error:
        if error.name not in {"typer", "rich", "polars"}:
            raise
        sys.exit(f"nearfar's command line needs {error.name}: pip install 'nearfar[cli]'")
    except KeyboardInterrupt:
        sys.exit(130)
    app()
