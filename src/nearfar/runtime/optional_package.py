"""Packages that only some features need, imported where they are used."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any


def optional_package(module: str, needed_by: str, install: str) -> Any:
    """Import a module, or raise ImportError that says what to install.

    Examples
    --------
    >>> from nearfar.runtime.optional_package import optional_package
    >>> optional_package("no_such_package", "to_nothing", "nearfar[nothing]")
    Traceback (most recent call last):
    ...
    ImportError: to_nothing needs no_such_package; run pip install "nearfar[nothing]".
    """
    package = module.partition(".")[0]
    try:
        import_module(package)
        return import_module(module)
    except ImportError as error:
        raise ImportError(f'{needed_by} needs {package}; run pip install "{install}".') from error


def suggested_ending() -> str:
    """Return the format of tables that commands suggest: Parquet, if its package is installed."""
    return ".csv" if find_spec("pyarrow") is None else ".parquet"
