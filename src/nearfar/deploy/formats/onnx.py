"""ONNX models of a map: one matrix product; rows may be divided by their length first.

For a metric that bends, trees and ramps come before the product. A TreeEnsembleRegressor counts the
trees in which a row meets each row of the basis: a leaf adds one to each that is in it. Thresholds
are in the units of the rows, rounded so that each number of the model's type is on the same side as
in nearfar. Ramps are computed in float64, as in nearfar.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from nearfar.deploy.formats import ExportTarget
from nearfar.deploy.linear_map import LinearMap
from nearfar.runtime.atomic_write import atomic_write
from nearfar.runtime.messages import optional_package
from nearfar.typing import Array

INPUT, OUTPUT = "X", "mapped"
"""Names of the model's input and output."""

# Old versions, so that old runtimes can read the files.
_OPSET, _IR_VERSION = 13, 8
_TREES_OPSET = 3


def write_onnx(linear_map: LinearMap, path: str | os.PathLike[str], dtype: str) -> None:
    """Write a map as an ONNX model; `Metric.to_onnx` is the public way to call it."""
    onnx = optional_package("onnx", "to_onnx", "nearfar[onnx]")
    if dtype not in ("float32", "float64"):
        raise ValueError(f"dtype must be 'float32' or 'float64'; got {dtype!r}.")
    make = onnx.helper
    kind = make.np_dtype_to_tensor_dtype(np.dtype(dtype))
    constants = {"L": linear_map.L.astype(dtype), "b": linear_map.b.astype(dtype)}
    nodes, features = [], []

    def node(operator: str, inputs: list[str], output: str, **attributes: Any) -> str:
        nodes.append(make.make_node(operator, inputs, [output], **attributes))
        return output

    def constant(name: str, value: Array) -> str:
        constants[name] = value
        return name

    def unit(rows: str, name: str) -> str:
        # Rows are divided by their largest entry, then by their length: squares do not overflow.
        # Old runtimes have no ReduceL2 of float64.
        constants.update(zero=np.zeros((), dtype), one=np.ones((), dtype))
        along = {"axes": [1], "keepdims": 1}
        largest = node("ReduceMax", [node("Abs", [rows], f"{name}a")], f"{name}m", **along)
        nonzero = node("Greater", [largest, "zero"], f"{name}n")
        divisor = node("Where", [nonzero, largest, "one"], f"{name}d")
        scaled = node("Div", [rows, divisor], f"{name}s")
        square = node("ReduceSumSquare", [scaled], f"{name}q", **along)
        length = node("Sqrt", [square], f"{name}l")
        return node("Div", [scaled, node("Where", [nonzero, length, "one"], f"{name}p")], name)

    rows = unit(INPUT, "unit") if linear_map.unit_rows else INPUT
    for number, each in enumerate(linear_map.maps):
        name = f"map{number}"
        if each is None:
            features.append(rows)
        elif each.kind == "leaves":
            trees = _trees(each, dtype, onnx.numpy_helper.from_array)
            counts = node("TreeEnsembleRegressor", [rows], f"{name}k", domain="ai.onnx.ml", **trees)
            if dtype == "float64":
                counts = node("Cast", [counts], f"{name}c", to=kind)
            projection = constant(f"{name}projection", each.projection.astype(dtype))
            features.append(unit(node("MatMul", [counts, projection], f"{name}v"), name))
        else:
            wide = node("Cast", [rows], f"{name}x", to=onnx.TensorProto.DOUBLE)
            taken = node("Gather", [wide, constant(f"{name}j", each.column)], f"{name}g", axis=1)
            center, scale = each.center[each.column], each.scale[each.column]
            values = (center, scale, each.low, each.high, each.zero)
            for operator, value in zip(("Sub", "Div", "Max", "Min", "Sub"), values, strict=True):
                place = f"{name}_{len(nodes)}"
                taken = node(operator, [taken, constant(f"{place}c", value)], place)
            features.append(node("Cast", [taken], name, to=kind))
    if linear_map.maps:
        rows = node("Concat", features, "features", axis=1)
    node("Gemm", [rows, "L", "b"], OUTPUT, transB=1)
    graph = make.make_graph(
        nodes,
        "nearfar",
        [make.make_tensor_value_info(INPUT, kind, ["rows", linear_map.n_features])],
        [make.make_tensor_value_info(OUTPUT, kind, ["rows", linear_map.n_components])],
        [onnx.numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    opsets = [make.make_opsetid("", _OPSET)]
    if linear_map.maps:
        opsets.append(make.make_opsetid("ai.onnx.ml", _TREES_OPSET))
    model = make.make_model(
        graph, producer_name="nearfar", opset_imports=opsets, ir_version=_IR_VERSION
    )
    if linear_map.feature_names is not None:
        make.set_model_props(model, {"feature_names": json.dumps(linear_map.feature_names)})
    onnx.checker.check_model(model)
    with atomic_write(path) as temporary:
        temporary.write_bytes(model.SerializeToString())


def _trees(leaf_map: Any, dtype: str, tensor: Callable[[Array], Any]) -> dict[str, Any]:
    """Return the attributes of a TreeEnsembleRegressor."""
    forest, basis = leaf_map.forest, leaf_map.basis
    place = np.arange(len(forest.right))
    tree, inner = np.searchsorted(forest.roots, place, side="right") - 1, forest.right > 0
    row, of_tree = np.divmod(np.argsort(basis, axis=None, kind="stable"), basis.shape[1])
    center, scale = leaf_map.center[forest.feature], leaf_map.scale[forest.feature]
    # Bisection among the numbers of the type, which are ordered like these integers.
    kind: Any
    kind, bits = (np.int32, 31) if dtype == "float32" else (np.int64, 63)
    mask = np.iinfo(kind).max
    ends = np.array([-np.inf, np.inf], dtype=dtype).view(kind)
    low, high = (np.full(len(place), end ^ ((end >> bits) & mask), dtype=kind) for end in ends)
    with np.errstate(over="ignore"):
        for _ in range(bits + 1):
            middle = (low >> 1) + (high >> 1) + (low & high & 1)
            value = (middle ^ ((middle >> bits) & mask)).view(dtype).astype(np.float64)
            below = ((value - center) / scale).astype(np.float32) <= forest.threshold
            low, high = np.where(below, middle, low), np.where(below, high, middle)
    threshold = (low ^ ((low >> bits) & mask)).view(dtype)
    ones = np.ones(basis.size, dtype=dtype)
    values: dict[str, Any] = {"nodes_values": threshold, "target_weights": ones}
    if dtype == "float32":
        values = {name: array.tolist() for name, array in values.items()}
    else:
        values = {f"{name}_as_tensor": tensor(array) for name, array in values.items()}
    return values | {
        "n_targets": len(basis),
        "nodes_treeids": tree.tolist(),
        "nodes_nodeids": place.tolist(),
        "nodes_featureids": forest.feature.tolist(),
        "nodes_modes": np.where(inner, "BRANCH_LEQ", "LEAF").tolist(),
        "nodes_truenodeids": np.where(inner, place + 1, 0).tolist(),
        "nodes_falsenodeids": forest.right.tolist(),
        "target_treeids": of_tree.tolist(),
        "target_nodeids": basis[row, of_tree].tolist(),
        "target_ids": row.tolist(),
    }


def _write(metric: Any, path: Path) -> str:
    metric.to_onnx(path)
    return "ONNX model"


TARGET = ExportTarget("onnx", "an ONNX model", _write, (".onnx",), is_map=True)
