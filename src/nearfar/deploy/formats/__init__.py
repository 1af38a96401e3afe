"""What a metric can be exported to: each file here that has a `TARGET` is a choice of `--to`.

`nearfar export` finds the files, and has their options.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pkgutil import iter_modules


@dataclass(frozen=True)
class ExportTarget:
    """How a metric is written for another program.

    Attributes
    ----------
    name: What `--to` calls it.
    help: What is written, such as "an ONNX model".
    write: Takes a metric or an adapter and a path; writes the file, and returns what it is
        in words. Its keyword-only parameters, which its docstring describes, are options of
        ``nearfar export``. With `takes_rows`, it also takes `X`, an array of rows or None.
    suffixes: How names of files end; empty if any name does.
    takes_rows: Whether rows can be part of the file.
    is_map: Whether the file is the map alone, by the method ``to_NAME(path)``.
    is_folder: Whether several files are written to a folder, which may exist.
    """

    name: str
    help: str
    write: Callable[..., str]
    suffixes: tuple[str, ...] = ()
    takes_rows: bool = False
    is_map: bool = False
    is_folder: bool = False

    @property
    def options(self) -> list[str]:
        """The parameters of `write` that are options."""
        parameters = inspect.signature(self.write).parameters.values()
        return [p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.name != "X"]


def export_targets() -> dict[str, ExportTarget]:
    """Return the targets by name."""
    modules = (import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__))
    targets = (getattr(module, "TARGET", None) for module in modules)
    return {target.name: target for target in targets if target is not None}
