"""Learn the distance a task needs.

>>> from sklearn.datasets import load_iris
>>> from nearfar import BoostMetric
>>> X, y = load_iris(return_X_y=True)
>>> metric = BoostMetric().fit(X, y).metric_
>>> metric.distances(X[:1], X[:2]).shape
(1, 2)
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

try:
    from nearfar._version import __version__  # the build writes this file
except ModuleNotFoundError:  # a checkout that was never installed
    __version__ = "0.2.0.dev0"

_HOME: dict[str, str] = {}
_NEEDS_POLARS = (
    "nearfar.frames",
    "nearfar.tables",
    "nearfar.records.match",
    "nearfar.search.adapt",
    "nearfar.search.gate",
)


def _home() -> dict[str, str]:
    """Return the module of each public name, as the stub `__init__.pyi` imports it."""
    if not _HOME:
        # Imported here because `import nearfar` alone should take no time.
        import ast
        from pathlib import Path

        stub = ast.parse(Path(__file__).with_suffix(".pyi").read_text("utf-8"))
        for statement in stub.body:
            if isinstance(statement, ast.ImportFrom):
                _HOME.update((name.name, str(statement.module)) for name in statement.names)
    return _HOME


def __getattr__(name: str) -> object:
    if name == "__all__":
        # `from nearfar import *` also works without the packages that read tables.
        return [each for each in __dir__() if find_spec("polars") or not _of_tables(each)]
    if name not in _home():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if _HOME[name] == __name__:
        return import_module(f"{__name__}.{name}")
    if _of_tables(name):
        from nearfar.runtime.messages import optional_package

        optional_package("polars", f"nearfar.{name}", "nearfar[cli]")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def _of_tables(name: str) -> bool:
    return _home().get(name, "").startswith(_NEEDS_POLARS)


def __dir__() -> list[str]:
    return sorted([*_home(), "__version__"])
