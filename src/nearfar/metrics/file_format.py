"""The file format of metrics: one safetensors file, readable in any language.

==========  =======================================================================  ==============
version     arrays (float64)                                                         metadata
==========  =======================================================================  ==============
1           L; votes.directions, votes.alphas, votes.thresholds if there are votes
2           as 1; basis.points, basis.whitening, basis.center, basis.scale           kernel
3           L.0, L.1, ... (one per metric), gate.V, gate.b
4           as 1, 2 or 3                                                             rows: "unit"
5           as 1, 2 or 3                                                             columns
==========  =======================================================================  ==============

The metadata always has "format" and "version". "feature_names" is a JSON list, and "kernel" a JSON
list of the kernel's name and its parameters. In version 4, points are divided by their length
before everything else. In version 5, "columns" is the JSON of `nearfar.columns.Columns`: what the
columns of a table become before that; it may have "rows" too. All other metadata is the caller's;
the command line keeps the spreads of the features ("feature_spreads") and a threshold for pairs
("threshold") there, as JSON.

Reading a file runs no code, and safetensors checks sizes and offsets against the length of the
file before an array is allocated.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from nearfar.columns import Columns
from nearfar.metrics.gated import GatedMetric
from nearfar.metrics.kernel_map import KERNELS, KernelMap
from nearfar.metrics.metric import MAX_FILE_BYTES, Metric
from nearfar.metrics.votes import Votes
from nearfar.runtime.atomic_write import atomic_write
from nearfar.typing import Matrix

_FORMAT = "nearfar.metric"
_LINEAR, _KERNEL, _GATED, _UNIT_ROWS, _COLUMNS = "1", "2", "3", "4", "5"
_VOTES = ("votes.directions", "votes.alphas", "votes.thresholds")
_BASIS = ("basis.points", "basis.whitening", "basis.center", "basis.scale")
_RESERVED = frozenset({"format", "version", "feature_names", "kernel", "rows", "columns"})
_INVALID = (
    ValueError,
    TypeError,
    LookupError,
    ArithmeticError,
    AttributeError,
    RecursionError,
)

Tensors = dict[str, NDArray[Any]]


def write_metric(path: str | os.PathLike[str], metric: Metric, metadata: Mapping[str, str]) -> None:
    """Write a metric and text to `path`; `Metric.save` is the public way to call it."""
    taken = _RESERVED & metadata.keys()
    if taken:
        raise ValueError(f"The metadata key {min(taken)!r} is reserved for the file format.")
    if isinstance(metric, GatedMetric):
        tensors, header = _encode_gated(metric)
    else:
        tensors, header = _encode_linear(metric)
    header |= {"format": _FORMAT, **metadata}
    if metric.unit_rows:
        header |= {"version": _UNIT_ROWS, "rows": "unit"}
    if metric.columns is not None:
        header |= {"version": _COLUMNS, "columns": metric.columns.to_json()}
    if metric.feature_names is not None:
        header["feature_names"] = json.dumps(metric.feature_names)
    # safetensors writes the memory of an array as it is, whatever its strides.
    contiguous = {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}
    try:
        content = memoryview(save(contiguous, metadata=header))
    except SafetensorError as error:
        raise ValueError(f"{path}: the metric can't be saved: {error}.") from error
    with atomic_write(path) as temporary, temporary.open("wb") as file:
        file.writelines(with_sorted_metadata(content))


def read_metric(path: str | os.PathLike[str], *, max_bytes: int = MAX_FILE_BYTES) -> Metric:
    """Read a metric; `Metric.load` is the public way to call it.

    Raises
    ------
    OSError
        If the file cannot be opened.
    ValueError
        If it is not a metric, is damaged, or has more than `max_bytes` bytes.
    """
    with _opened(path, max_bytes) as file:
        return _DECODERS[file.metadata["version"]](file)


def read_metadata(path: str | os.PathLike[str]) -> dict[str, str]:
    """Return the text that was passed to `Metric.save` as `metadata`.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from nearfar import Metric
    >>> from nearfar.metrics.file_format import read_metadata
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "metric.safetensors"
    ...     Metric.identity(2).save(path, metadata={"iterations": "12"})
    ...     read_metadata(path)
    {'iterations': '12'}
    """
    with _opened(path, math.inf) as file:
        return {key: text for key, text in file.metadata.items() if key not in _RESERVED}


def with_sorted_metadata(content: memoryview) -> tuple[bytes, bytes, memoryview]:
    """Sort the metadata, which safetensors writes in random order: equal metrics, equal files."""
    end = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(bytes(content[8:end]))
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little"), text, content[end:]


@contextmanager
def _opened(path: str | os.PathLike[str], max_bytes: float) -> Iterator[_File]:
    """Open a metric's file; errors inside the context name the file."""
    with Path(path).open("rb") as stream:
        size = os.fstat(stream.fileno()).st_size
    if size > max_bytes:
        raise ValueError(f"{path}: the file has {size} bytes, more than the limit of {max_bytes}.")
    try:
        with safe_open(path, framework="numpy") as tensors:
            metadata = tensors.metadata() or {}
            if metadata.get("format") != _FORMAT:
                raise ValueError("it is a safetensors file of another format")
            if metadata.get("version") not in _DECODERS:
                raise ValueError(
                    f"its format version is {metadata.get('version')!r}, and this nearfar reads "
                    f"versions {', '.join(_DECODERS)}"
                )
            yield _File(tensors, metadata)
    except SafetensorError as error:
        raise ValueError(f"{path}: not a safetensors file, or a damaged one: {error}.") from error
    except _INVALID as error:
        raise ValueError(f"{path}: not a valid metric: {str(error).rstrip('.')}.") from error


@dataclass(frozen=True)
class _File:
    """An open file: arrays by name, read when asked for, and metadata."""

    tensors: Any
    metadata: dict[str, str]

    @property
    def feature_names(self) -> list[str] | None:
        names = json.loads(self.metadata.get("feature_names", "null"))
        if names is not None and not isinstance(names, list):
            raise ValueError("its feature names are not a list")
        return names

    @property
    def unit_rows(self) -> bool:
        return (
            self.metadata["version"] in {_UNIT_ROWS, _COLUMNS}
            and self.metadata.get("rows") == "unit"
        )

    def __contains__(self, name: str) -> bool:
        return name in self.tensors.keys()  # noqa: SIM118

    def __getitem__(self, name: str) -> Matrix:
        if name not in self:
            raise ValueError(f"it has no array {name!r}")
        array: NDArray[Any] = self.tensors.get_tensor(name)
        return array.astype(np.float64, casting="safe", copy=False)


def _encode_linear(metric: Metric) -> tuple[Tensors, dict[str, str]]:
    tensors: Tensors = {"L": metric.L}
    if (votes := metric.votes) is not None:
        tensors |= {name: getattr(votes, name.removeprefix("votes.")) for name in _VOTES}
    if (basis := metric.kernel_map) is None:
        return tensors, {"version": _LINEAR}
    if not isinstance(basis.kernel, str):
        raise ValueError("A metric whose kernel is a Python function can't be saved.")
    tensors |= {name: getattr(basis, name.removeprefix("basis.")) for name in _BASIS}
    kernel = json.dumps([basis.kernel, dict(basis.parameters)])
    return tensors, {"version": _KERNEL, "kernel": kernel}


def _encode_gated(metric: GatedMetric) -> tuple[Tensors, dict[str, str]]:
    tensors: Tensors = {f"L.{number}": part.L for number, part in enumerate(metric.parts)}
    return tensors | {"gate.V": metric.V, "gate.b": metric.b}, {"version": _GATED}


def _decode_linear(file: _File, kernel_map: KernelMap | None = None) -> Metric:
    votes = None
    if any(name in file for name in _VOTES):
        votes = Votes(*(file[name] for name in _VOTES))
    return Metric(file["L"], file.feature_names, votes, kernel_map, file.unit_rows)


def _decode_kernel(file: _File) -> Metric:
    kernel, parameters = json.loads(file.metadata["kernel"])
    if kernel not in KERNELS:
        raise ValueError(f"unknown kernel {kernel!r}")
    parameters = {str(name): float(value) for name, value in parameters.items()}
    points, whitening, center, scale = (file[name] for name in _BASIS)
    return _decode_linear(file, KernelMap(points, whitening, kernel, parameters, center, scale))


def _decode_gated(file: _File) -> Metric:
    b = file["gate.b"]
    parts = [
        Metric(file[f"L.{number}"], file.feature_names, unit_rows=file.unit_rows)
        for number in range(len(b))
    ]
    return GatedMetric(parts, file["gate.V"], b)


def _decode_unit_rows(file: _File) -> Metric:
    if not file.unit_rows:
        raise ValueError(f"its rows are {file.metadata.get('rows')!r}, not 'unit'")
    return _decode_any(file)


def _decode_columns(file: _File) -> Metric:
    return _decode_any(file).with_columns(Columns.from_json(file.metadata["columns"]))


def _decode_any(file: _File) -> Metric:
    if "gate.V" in file:
        return _decode_gated(file)
    return _decode_kernel(file) if "basis.points" in file else _decode_linear(file)


_DECODERS: dict[str, Callable[[_File], Metric]] = {
    _LINEAR: _decode_linear,
    _KERNEL: _decode_kernel,
    _GATED: _decode_gated,
    _UNIT_ROWS: _decode_unit_rows,
    _COLUMNS: _decode_columns,
}
