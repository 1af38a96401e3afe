"""`ExportTarget`: how a metric is written for another program.

A target is a file in `deploy/formats/` with a constant `TARGET`. `nearfar export` finds it there,
and has its options.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pkgutil import iter_modules

from nearfar.deploy import formats


@dataclass(frozen=True)
class ExportOption:
    """An option of a target, which is text.

    Attributes
    ----------
    name : str
    help : str
    default : str or None
    """

    name: str
    help: str
    default: str | None = None


@dataclass(frozen=True)
class ExportTarget:
    """How a metric is written for another program.

    Attributes
    ----------
    name : str
        What `--to` calls it.
    help : str
        What is written, such as "an ONNX model".
    write : callable
        Takes a metric or an adapter, a path and the options by name; writes the file, and returns
        what it is in words. With `takes_rows`, it also takes `X`, an array of rows or None.
    suffixes : tuple of str
        How names of files end; empty if any name does.
    options : tuple of ExportOption
    takes_rows : bool
        Whether rows can be part of the file.
    is_map : bool
        Whether the file is the map alone, by the method ``to_NAME(path)``.
    """

    name: str
    help: str
    write: Callable[..., str]
    suffixes: tuple[str, ...] = ()
    options: tuple[ExportOption, ...] = ()
    takes_rows: bool = False
    is_map: bool = False


def export_targets() -> dict[str, ExportTarget]:
    """Return the targets by name.

    Examples
    --------
    >>> from nearfar.deploy.export_targets import export_targets
    >>> sorted(export_targets())
    ['faiss', 'numpy', 'onnx', 'sql']
    """
    modules = (
        import_module(f"{formats.__name__}.{m.name}") for m in iter_modules(formats.__path__)
    )
    targets = (getattr(module, "TARGET", None) for module in modules)
    return {target.name: target for target in targets if target is not None}
