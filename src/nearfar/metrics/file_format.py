"""The file format of metrics: one safetensors file, readable in any language.

==========  =======================================================================  ==============
version     arrays (float64)                                                         metadata
==========  =======================================================================  ==============
1           L; votes.directions, votes.alphas, votes.thresholds if there are votes
2           as 1; basis.points, basis.whitening, basis.center, basis.scale           kernel
3           L.0, L.1, ... (one per metric), gate.V, gate.b
4           as 1, 2 or 3                                                             rows: "unit"
5           as 1, 2 or 3                                                             columns
6           wide.weights, wide.U, wide.B in place of L; votes as in 1
7           L; arrays of map 0, 1, ... side by side, as map.0.forest.right                   maps
==========  =======================================================================  ==============

The metadata always has "format" and "version". Parameters of a metric in the metadata are declared
in `_FIELDS`. "feature_names" is a JSON list, and "kernel" a JSON list of the kernel's name and its
parameters. In version 4, points are divided by their length before everything else. In version 5,
"columns" is the JSON of `nearfar.columns.Columns`: what the columns of a table become before that;
it may have "rows" too. In version 6, L = diag(weights) + U B; it may have "rows" and "columns". In
version 7, "maps" is a JSON list of what comes before L, side by side: "linear" for the points
themselves, "leaves" for a forest (`nearfar.metrics.feature_maps`), "pieces" for columns in pieces
(`nearfar.metrics.feature_maps`), or a kernel as in version 2. All
other metadata is the caller's; the command line keeps the spreads of the features
("feature_spreads"), their shares ("importance"), digests of rows ("learned_from"), a threshold for
pairs ("threshold") and where the file comes from ("provenance") there, as JSON.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from nearfar.columns import Columns
from nearfar.metrics.feature_maps import (
    KERNELS,
    FeatureMap,
    Forest,
    KernelMap,
    LeafMap,
    PieceMap,
    SideBySide,
    side_by_side,
)
from nearfar.metrics.metric import MAX_FILE_BYTES, Metric, Votes
from nearfar.metrics.variants import GatedMetric, WideMetric
from nearfar.runtime.messages import quoted
from nearfar.runtime.tensor_file import TensorFile, open_tensors, write_tensors
from nearfar.typing import Array, Json, Matrix

_LINEAR, _KERNEL, _GATED, _UNIT_ROWS, _COLUMNS, _WIDE, _MAPS = _VERSIONS = (1, 2, 3, 4, 5, 6, 7)
_VOTES = ("votes.directions", "votes.alphas", "votes.thresholds")
_WIDE_MAP = ("wide.weights", "wide.U", "wide.B")
_BASIS = ("basis.points", "basis.whitening", "basis.center", "basis.scale")
_FOREST = ("forest.roots", "forest.feature", "forest.threshold", "forest.right")
_LEAVES = (
    "leaves.basis",
    "leaves.projection",
    "leaves.center",
    "leaves.scale",
    "leaves.importances",
)
_PIECES = ("pieces.column", "pieces.low", "pieces.high", "pieces.center", "pieces.scale")
# Squares of larger numbers may overflow.
_LARGEST = 1e150


class _Field(NamedTuple):
    """A parameter of `Metric` that is kept in the metadata."""

    parameter: str
    key: str
    version: int
    encode: Callable[[Any], str | None]
    decode: Callable[[str], Any]


def _names(text: str) -> list[str]:
    names = json.loads(text)
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError("its feature names are not a list of text")
    return names


_ROWS = ("", "unit")
_FIELDS = (
    _Field("feature_names", "feature_names", 0, json.dumps, _names),
    _Field("unit_rows", "rows", _UNIT_ROWS, lambda unit: "unit" if unit else None, _ROWS.index),
    _Field("columns", "columns", _COLUMNS, Columns.to_json, Columns.from_json),
)
_RESERVED = frozenset({"format", "version", "kernel", "maps"}) | {field.key for field in _FIELDS}


def write_metric(path: str | os.PathLike[str], metric: Metric, metadata: Mapping[str, str]) -> None:
    """Write a metric and text to `path`; `Metric.save` is the public way to call it."""
    if reserved := _RESERVED & metadata.keys():
        raise ValueError(f"The metadata key {min(reserved)!r} is reserved for the file format.")
    header: dict[str, str] = {}
    tensors: dict[str, Array]
    if isinstance(metric, GatedMetric):
        version = _GATED
        tensors = {f"L.{number}": part.L for number, part in enumerate(metric.parts)}
        tensors |= {"gate.V": metric.V, "gate.b": metric.b}
    elif isinstance(metric, WideMetric):
        version, tensors = _WIDE, _arrays(metric, _WIDE_MAP)
    elif metric.feature_map is None:
        version, tensors = _LINEAR, {"L": metric.L}
    elif isinstance(metric.feature_map, KernelMap):
        version, (kernel, arrays) = _KERNEL, _encoded(metric.feature_map)
        header["kernel"], tensors = json.dumps(kernel), {"L": metric.L, **arrays}
    else:
        version, tensors, maps = _MAPS, {"L": metric.L}, []
        for number, each in enumerate(side_by_side(metric.feature_map)):
            kind, arrays = _encoded(each)
            maps.append(kind)
            tensors |= {f"map.{number}.{name}": array for name, array in arrays.items()}
        header["maps"] = json.dumps(maps)
    if metric.votes is not None:
        tensors |= _arrays(metric.votes, _VOTES)
    for field in _FIELDS:
        value = getattr(metric, field.parameter)
        text = None if value is None else field.encode(value)
        if text is not None:
            header[field.key] = text
            version = max(field.version, version)
    write_tensors(path, "metric", tensors, {**header, **metadata, "version": str(version)})


def _encoded(feature_map: FeatureMap | None) -> tuple[Json, dict[str, Array]]:
    """Return what a map is, and its arrays."""
    if feature_map is None:
        return "linear", {}
    if isinstance(feature_map, LeafMap):
        arrays = _arrays(feature_map.forest, _FOREST) | _arrays(feature_map, _LEAVES)
        return "leaves", arrays
    if isinstance(feature_map, PieceMap):
        return "pieces", _arrays(feature_map, _PIECES)
    assert isinstance(feature_map, KernelMap)
    if not isinstance(feature_map.kernel, str):
        raise ValueError("A metric whose kernel is a Python function can't be saved.")
    kernel: Json = [feature_map.kernel, dict(feature_map.parameters)]
    return kernel, _arrays(feature_map, _BASIS)


def _decoded(kind: Any, file: TensorFile, prefix: str = "") -> FeatureMap | None:
    """Return the map of a kind from its arrays."""
    if kind == "linear":
        return None
    if kind == "leaves":
        forest = Forest(*(_array(file, prefix + name) for name in _FOREST))
        return LeafMap(forest, *(_array(file, prefix + name) for name in _LEAVES))
    if kind == "pieces":
        return PieceMap(*(_array(file, prefix + name) for name in _PIECES))
    kernel, parameters = kind
    if kernel not in KERNELS:
        raise ValueError(f"unknown kernel {quoted(kernel)}")
    parameters = {str(name): float(value) for name, value in parameters.items()}
    points, whitening, center, scale = (_array(file, prefix + name) for name in _BASIS)
    return KernelMap(points, whitening, kernel, parameters, center, scale)


def _arrays(owner: object, names: tuple[str, ...]) -> dict[str, Array]:
    """Return attributes under the names that they have in the file."""
    return {name: getattr(owner, name.split(".")[1]) for name in names}


def read_metric(path: str | os.PathLike[str], *, max_bytes: int = MAX_FILE_BYTES) -> Metric:
    """Read a metric; `Metric.load` is the public way to call it.

    Raises
    ------
    OSError
        If the file cannot be opened.
    ValueError
        If it is not a metric, is damaged, or has more than `max_bytes` bytes.
    """
    with open_tensors(path, "metric", _VERSIONS, max_bytes) as file:
        metric = _metric(file)
        vars(metric)["_metadata"] = _of_caller(file)
        return metric


def _metric(file: TensorFile) -> Metric:
    version = int(file.metadata["version"])
    fields = {
        field.parameter: field.decode(file.metadata[field.key])
        for field in _FIELDS
        if version == field.version or (version > field.version and field.key in file.metadata)
    }
    if version == _GATED or "gate.V" in file:
        b = file["gate.b"]
        parts = [Metric(_array(file, f"L.{number}"), **fields) for number in range(len(b))]
        return GatedMetric(parts, _array(file, "gate.V"), b)
    if any(name in file for name in _VOTES):
        directions, *others = _VOTES
        fields["votes"] = Votes(_array(file, directions), *(file[name] for name in others))
    if version == _WIDE:
        return WideMetric(*(_array(file, name) for name in _WIDE_MAP), **fields)
    if version == _KERNEL or "basis.points" in file:
        fields["feature_map"] = _decoded(json.loads(file.metadata["kernel"]), file)
    if version == _MAPS:
        kinds = json.loads(file.metadata["maps"])
        maps = [_decoded(kind, file, f"map.{n}.") for n, kind in enumerate(kinds)]
        n_features = max(each.n_features for each in maps if each is not None)
        fields["feature_map"] = maps[0] if len(maps) == 1 else SideBySide(maps, n_features)
    return Metric(_array(file, "L"), **fields)


def _array(file: TensorFile, name: str) -> Matrix:
    """Return an array, or raise ValueError if squared distances overflow; ramps may be infinite."""
    array = file[name]
    largest = float(np.abs(array).max(initial=0.0, where=np.isfinite(array)))
    if largest > _LARGEST:
        raise ValueError(f"its array {name!r} has numbers up to {largest:.0e}: distances overflow")
    return array


def read_metadata(path: str | os.PathLike[str]) -> dict[str, str]:
    """Return the text that was passed to `Metric.save` as `metadata`."""
    with open_tensors(path, "metric", _VERSIONS) as file:
        return _of_caller(file)


def _of_caller(file: TensorFile) -> dict[str, str]:
    return {key: text for key, text in file.metadata.items() if key not in _RESERVED}
