"""ONNX models of a map: one matrix product; rows may be divided by their length first."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from nearfar.deploy.formats import ExportTarget
from nearfar.deploy.linear_map import LinearMap
from nearfar.runtime.atomic_write import atomic_write
from nearfar.runtime.optional_package import optional_package

INPUT, OUTPUT = "X", "mapped"
"""Names of the model's input and output."""

# Old versions, so that old runtimes can read the files.
_OPSET, _IR_VERSION = 13, 8


def write_onnx(linear_map: LinearMap, path: str | os.PathLike[str], dtype: str) -> None:
    """Write a map as an ONNX model; `Metric.to_onnx` is the public way to call it."""
    onnx = optional_package("onnx", "to_onnx", "nearfar[onnx]")
    if dtype not in ("float32", "float64"):
        raise ValueError(f"dtype must be 'float32' or 'float64'; got {dtype!r}.")
    make = onnx.helper
    kind = make.np_dtype_to_tensor_dtype(np.dtype(dtype))
    constants = {"L": linear_map.L, "b": linear_map.b}
    rows, nodes = INPUT, []
    if linear_map.unit_rows:
        # Rows are divided by their largest entry, then by their length: squares do not overflow.
        # Old runtimes have no ReduceL2 of float64.
        constants |= {"zero": np.zeros(()), "one": np.ones(())}
        rows, along = "unit", {"axes": [1], "keepdims": 1}
        nodes = [
            make.make_node("Abs", [INPUT], ["absolute"]),
            make.make_node("ReduceMax", ["absolute"], ["largest"], **along),
            make.make_node("Greater", ["largest", "zero"], ["nonzero"]),
            make.make_node("Where", ["nonzero", "largest", "one"], ["divisor"]),
            make.make_node("Div", [INPUT, "divisor"], ["scaled"]),
            make.make_node("ReduceSumSquare", ["scaled"], ["square"], **along),
            make.make_node("Sqrt", ["square"], ["length"]),
            make.make_node("Where", ["nonzero", "length", "one"], ["positive"]),
            make.make_node("Div", ["scaled", "positive"], ["unit"]),
        ]
    nodes.append(make.make_node("Gemm", [rows, "L", "b"], [OUTPUT], transB=1))
    graph = make.make_graph(
        nodes,
        "nearfar",
        [make.make_tensor_value_info(INPUT, kind, ["rows", linear_map.n_features])],
        [make.make_tensor_value_info(OUTPUT, kind, ["rows", linear_map.n_components])],
        [
            onnx.numpy_helper.from_array(np.asarray(value, dtype=dtype), name)
            for name, value in constants.items()
        ],
    )
    model = make.make_model(
        graph,
        producer_name="nearfar",
        opset_imports=[make.make_opsetid("", _OPSET)],
        ir_version=_IR_VERSION,
    )
    if linear_map.feature_names is not None:
        make.set_model_props(model, {"feature_names": json.dumps(linear_map.feature_names)})
    onnx.checker.check_model(model)
    with atomic_write(path) as temporary:
        temporary.write_bytes(model.SerializeToString())


def _write(metric: Any, path: Path) -> str:
    metric.to_onnx(path)
    return "ONNX model"


TARGET = ExportTarget("onnx", "an ONNX model", _write, (".onnx",), is_map=True)
