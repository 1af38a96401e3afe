"""Maps for programs that have NumPy and not nearfar: a Python module, or the arrays."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any

import numpy as np

from nearfar.deploy.formats import ExportTarget
from nearfar.deploy.linear_map import LinearMap
from nearfar.runtime.atomic_write import atomic_write
from nearfar.typing import Matrix

# Characters of a line of digits: shorter than what editors wrap.
_LINE = 96
_SUFFIXES = (".py", ".npz")

_MODULE = '''"""{title} Needs only NumPy; written by nearfar."""

import base64

import numpy as np

FEATURE_NAMES = {names!r}


def transform(X):
    """Map rows. {use}"""
    X = np.asarray(X, dtype=np.float64)
    if X.ndim != 2 or X.shape[1] != L.shape[1]:
        raise ValueError(f"X must have shape (n, {{L.shape[1]}}); got {{X.shape}}.")
{unit}    return X @ L.T + b


def _array(text, shape):
    return np.frombuffer(base64.b64decode(text), dtype="<f8").reshape(shape)


L = _array(
    """
{L}
    """,
    {shape},
)
b = _array(
    """
{b}
    """,
    {width},
)
'''

_UNIT = """    largest = np.abs(X).max(axis=1, keepdims=True)
    X = X / np.where(largest > 0, largest, 1)
    length = np.sqrt((X**2).sum(axis=1, keepdims=True))
    X = X / np.where(length > 0, length, 1)
"""


def write_numpy(
    linear_map: LinearMap,
    path: str | os.PathLike[str],
    *,
    what: str = "A metric",
    use: str = "Euclidean distances between mapped rows are the metric's.",
) -> None:
    """Write a module or arrays; `Metric.to_numpy` is the public way to call it.

    `what` and `use` say in the module what is mapped, and what for.
    """
    suffix = Path(path).suffix
    if suffix not in _SUFFIXES:
        raise ValueError(f"Name a .py file for a module, or .npz for arrays; got {path}.")
    with atomic_write(path) as temporary, temporary.open("wb") as file:
        names, shape = linear_map.feature_names, linear_map.L.shape
        if suffix == ".npz":
            arrays: dict[str, Any] = {} if names is None else {"feature_names": np.array(names)}
            arrays |= {"L": linear_map.L, "b": linear_map.b, "unit_rows": linear_map.unit_rows}
            np.savez(file, **arrays)
            return
        mapped = "1 coordinate" if shape[0] == 1 else f"{shape[0]} coordinates"
        module = _MODULE.format(
            title=f"{what}: {shape[1]} features to {mapped}.",
            use=use,
            names=names,
            unit=_UNIT if linear_map.unit_rows else "",
            L=_text(linear_map.L),
            b=_text(linear_map.b[None]),
            shape=shape,
            width=shape[0],
        )
        file.write(module.encode())


def _text(array: Matrix) -> str:
    text = base64.b64encode(np.ascontiguousarray(array, dtype="<f8").tobytes()).decode()
    return "\n".join(text[start : start + _LINE] for start in range(0, len(text), _LINE))


def _write(metric: Any, path: Path) -> str:
    metric.to_numpy(path)
    return "Python module" if path.suffix == ".py" else "Arrays"


TARGET = ExportTarget(
    "numpy", "a Python module that needs only NumPy, or arrays", _write, _SUFFIXES, is_map=True
)
