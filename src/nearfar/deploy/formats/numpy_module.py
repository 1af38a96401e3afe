"""Maps for programs that have NumPy and not nearfar: a Python module, or the arrays."""

from __future__ import annotations

import base64
import os
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from nearfar.deploy.formats import ExportTarget
from nearfar.deploy.linear_map import LinearMap
from nearfar.runtime.atomic_write import atomic_write
from nearfar.typing import Array

# Characters of a line of digits: shorter than what editors wrap.
_LINE = 96
_SUFFIXES = (".py", ".npz")

_MODULE = '''"""{title} Needs only NumPy; written by nearfar."""

import base64
import zlib

import numpy as np

FEATURE_NAMES = {names!r}


def transform(X):
    """Map rows. {use}"""
    X = np.asarray(X, dtype=np.float64)
    if X.ndim != 2 or X.shape[1] != {n_features}:
        raise ValueError(f"X must have shape (n, {n_features}); got {{X.shape}}.")
{steps}    return X @ L.T + b

{functions}
def _array(dtype, shape, text):
    data = zlib.decompress(base64.b64decode(text))
    return np.frombuffer(data, dtype=dtype).reshape(shape)


{arrays}'''

_ARRAY = '''{name} = _array(
    "{dtype}",
    {shape},
    """
{text}
    """,
)
'''

_FUNCTIONS = {
    "leaves": '''
def leaves(X, roots, feature, threshold, right, basis, projection, center, scale):
    """Return vectors whose inner products are nearly the shares of trees with a common leaf."""
    Z, rows = ((X - center) / scale).astype(np.float32), np.arange(len(X))[:, None]
    node = np.tile(roots, (len(X), 1))
    while right[node].any():
        above = Z[rows, feature[node]] > threshold[node]
        node = np.where(right[node] > 0, np.where(above, right[node], node + 1), node)
    common = np.zeros((len(X), len(basis)))
    for tree in range(len(roots)):
        common += node[:, [tree]] == basis[:, tree]
    V = common @ projection
    length = np.sqrt((V**2).sum(axis=1, keepdims=True))
    return V / np.where(length > 0, length, 1)

''',
    "pieces": '''
def pieces(X, column, low, high, center, scale):
    """Return columns as ramps."""
    zero = np.where(np.isfinite(low), low, np.where(np.isfinite(high), high, 0))
    return np.clip(((X - center) / scale)[:, column], low, high) - zero

''',
}

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
        names, n_components = linear_map.feature_names, linear_map.n_components
        arrays: dict[str, Any] = {"L": linear_map.L, "b": linear_map.b}
        steps = [_UNIT] if linear_map.unit_rows else []
        parts, kinds = [], []
        for number, each in enumerate(linear_map.maps):
            kinds.append("linear" if each is None else each.kind)
            held = {} if each is None else dict(vars(each))
            held.pop("importances", None)
            held |= vars(held.pop("forest")) if "forest" in held else {}
            arrays |= {f"{name}_{number}": array for name, array in held.items()}
            given = ", ".join(f"{name}={name}_{number}" for name in held)
            parts.append("X" if each is None else f"{each.kind}(X, {given})")
        if suffix == ".npz":
            arrays |= {} if names is None else {"feature_names": np.array(names)}
            arrays |= {"maps": np.array(kinds)} if kinds else {}
            np.savez(file, unit_rows=linear_map.unit_rows, **arrays)
            return
        if parts:
            steps.append(f"    X = np.hstack([{', '.join(parts)}])\n")
        mapped = "1 coordinate" if n_components == 1 else f"{n_components} coordinates"
        module = _MODULE.format(
            title=f"{what}: {linear_map.n_features} features to {mapped}.",
            use=use,
            names=names,
            n_features=linear_map.n_features,
            steps="".join(steps),
            functions="".join(text for kind, text in _FUNCTIONS.items() if kind in kinds),
            arrays="".join(_text(name, array) for name, array in arrays.items()),
        )
        file.write(module.encode())


def _text(name: str, array: Array) -> str:
    little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    text = base64.b64encode(zlib.compress(little.tobytes())).decode()
    lines = "\n".join(text[start : start + _LINE] for start in range(0, len(text), _LINE))
    return _ARRAY.format(name=name, dtype=little.dtype.str, shape=array.shape, text=lines)


def _write(metric: Any, path: Path) -> str:
    metric.to_numpy(path)
    return "Python module" if path.suffix == ".py" else "Arrays"


TARGET = ExportTarget(
    "numpy", "a Python module that needs only NumPy, or arrays", _write, _SUFFIXES, is_map=True
)
