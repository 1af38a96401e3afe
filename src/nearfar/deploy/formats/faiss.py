"""faiss indexes that contain the map: rows and queries need not be mapped first.

An `IndexPreTransform` divides rows by their length (`NormalizationTransform`), if the metric does,
and maps them (`LinearTransform`) before they reach the index. faiss computes in float32. Mapped
rows are therefore centred by the bias of the map: inner products of small numbers lose fewer digits
to cancellation. An index for an adapter has inner products, and maps only queries.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from nearfar.deploy.export_targets import ExportOption, ExportTarget
from nearfar.deploy.linear_map import LinearMap
from nearfar.runtime.atomic_write import atomic_write
from nearfar.runtime.optional_package import optional_package
from nearfar.typing import Floats, Vector

_LINKS = 32
"""Links of a node of an HNSW graph."""
_ROWS_PER_LIST = 39
"""Fewest rows for each list of an IVF index that faiss trains without a warning."""
_PROBED = 1 / 8
"""Share of its lists that an IVF index searches."""
_BLOCK_ROWS = 1 << 16


def faiss_index(linear_map: LinearMap, X: Floats | None, index: str) -> Any:
    """Return a faiss index that maps rows; `Metric.to_faiss` is the public way to call it."""
    faiss = optional_package("faiss", "to_faiss", "nearfar[faiss]")
    if X is None and index != "flat" and index != "hnsw":
        raise ValueError(f"An index {index!r} is trained on rows; pass them as X.")
    n_rows = 0 if X is None else len(X)
    inner = _inner_index(faiss, linear_map.n_components, n_rows, index)
    bias = linear_map.b if X is None else -_mapped_mean(linear_map, X)
    found = faiss.IndexPreTransform(_linear_transform(faiss, linear_map, bias), inner)
    if linear_map.unit_rows:
        found.prepend_transform(faiss.NormalizationTransform(linear_map.n_features, 2.0))
    if X is not None:
        if not found.is_trained:
            found.train(_float32(X))
        for start in range(0, len(X), _BLOCK_ROWS):
            found.add(_float32(X[start : start + _BLOCK_ROWS]))
    return found


def faiss_search_index(queries: LinearMap, documents: Floats, index: str) -> Any:
    """Return a faiss index of mapped documents that maps queries.

    `RetrievalAdapter.to_faiss` is the public way to call it.
    """
    faiss = optional_package("faiss", "to_faiss", "nearfar[faiss]")
    inner = _inner_index(faiss, queries.n_components, len(documents), index, products=True)
    if not inner.is_trained:
        inner.train(_float32(documents))
    for start in range(0, len(documents), _BLOCK_ROWS):
        inner.add(_float32(documents[start : start + _BLOCK_ROWS]))
    found = faiss.IndexPreTransform(_linear_transform(faiss, queries, queries.b), inner)
    if queries.unit_rows:
        found.prepend_transform(faiss.NormalizationTransform(queries.n_features, 2.0))
    return found


def _inner_index(faiss: Any, width: int, n_rows: int, index: str, *, products: bool = False) -> Any:
    """Return an empty index of mapped rows, by distances or by inner products."""
    measure = faiss.METRIC_INNER_PRODUCT if products else faiss.METRIC_L2
    if index == "flat":
        return faiss.IndexFlat(width, measure)
    if index == "hnsw":
        return faiss.IndexHNSWFlat(width, _LINKS, measure)
    if index == "ivf":
        n_lists = max(1, min(math.isqrt(n_rows), n_rows // _ROWS_PER_LIST))
        found = faiss.index_factory(width, f"IVF{n_lists},Flat", measure)
        found.nprobe = math.ceil(_PROBED * n_lists)
        return found
    try:
        return faiss.index_factory(width, index, measure)
    except RuntimeError as error:
        raise ValueError(
            f"index must be 'flat', 'hnsw', 'ivf' or a string for faiss.index_factory; "
            f"got {index!r}."
        ) from error


def _linear_transform(faiss: Any, linear_map: LinearMap, bias: Vector) -> Any:
    transform = faiss.LinearTransform(linear_map.n_features, linear_map.n_components, True)
    faiss.copy_array_to_vector(_float32(linear_map.L).ravel(), transform.A)
    faiss.copy_array_to_vector(_float32(bias), transform.b)
    transform.is_trained = True
    return transform


def _mapped_mean(linear_map: LinearMap, X: Floats) -> Vector:
    """Return the mean of the mapped rows, without their constant b."""
    total = np.zeros(linear_map.n_features)
    for start in range(0, len(X), _BLOCK_ROWS):
        rows = np.asarray(X[start : start + _BLOCK_ROWS], dtype=np.float64)
        if linear_map.unit_rows:
            lengths = np.linalg.norm(rows, axis=1, keepdims=True)
            rows = rows / np.where(lengths > 0, lengths, 1)
        total += rows.sum(axis=0)
    return np.asarray(linear_map.L @ (total / max(1, len(X))))


def _float32(array: Floats) -> Any:
    return np.ascontiguousarray(array, dtype=np.float32)


def _write(metric: Any, path: Path, *, X: Floats | None, index: str) -> str:
    found = metric.to_faiss(X, index)
    with atomic_write(path) as temporary:
        optional_package("faiss", "to_faiss", "nearfar[faiss]").write_index(found, str(temporary))
    return f"faiss index of {found.ntotal} row{'s' * (found.ntotal != 1)}"


TARGET = ExportTarget(
    "faiss",
    "a faiss index that maps rows itself",
    _write,
    options=(ExportOption("index", "flat, hnsw, ivf, or a string for index_factory.", "flat"),),
    takes_rows=True,
)
