"""faiss indexes that contain the map: rows and queries need not be mapped first.

An `IndexPreTransform` divides rows by their length (`NormalizationTransform`), if the metric does,
and maps them (`LinearTransform`) before they reach the index. faiss computes in float32. Mapped
rows are therefore centred by the bias of the map: inner products of small numbers lose fewer digits
to cancellation. An index for an adapter has inner products, and maps queries and documents apart.

Trees and ramps are not among the transforms of faiss. An index for a metric that bends has mapped
rows, and its methods in Python map what they get; one that was read from a file takes mapped rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearfar.deploy.formats import ExportTarget
from nearfar.deploy.linear_map import LinearMap
from nearfar.runtime.atomic_write import atomic_write
from nearfar.runtime.messages import optional_package
from nearfar.typing import Array, Floats, Ints, Vector

# Links of a node of an HNSW graph, the default of faiss.
_LINKS = 32
# Fewest rows for each list of an IVF index that faiss trains without a warning.
_ROWS_PER_LIST = 39
# Share of its lists that an IVF index searches: more finds more neighbours, and takes longer.
_PROBED = 1 / 8
# Rows that are copied to float32 at a time.
_BLOCK_ROWS = 1 << 16


def faiss_index(linear_map: LinearMap, X: Floats | None, index: str) -> Any:
    """Return a faiss index that maps rows; `Metric.to_faiss` is the public way to call it."""
    faiss = optional_package("faiss", "to_faiss", "nearfar[faiss]")
    if X is None and index != "flat" and index != "hnsw":
        raise ValueError(f"An index {index!r} is trained on rows; pass them as X.")
    n_rows, bias = 0 if X is None else len(X), linear_map.b
    if X is not None:
        # Mapped rows are centred by their mean, without the constant b.
        total = np.zeros(linear_map.n_features)
        for start in range(0, len(X), _BLOCK_ROWS):
            rows = np.asarray(X[start : start + _BLOCK_ROWS], dtype=np.float64)
            if linear_map.unit_rows:
                lengths = np.linalg.norm(rows, axis=1, keepdims=True)
                rows = rows / np.where(lengths > 0, lengths, 1)
            total += rows.sum(axis=0)
        bias = -(linear_map.L @ (total / max(1, len(X))))
    inner = _inner_index(faiss, linear_map.n_components, n_rows, index)
    whole = _with_map(faiss, linear_map, bias, inner)
    if X is not None:
        _fill(whole, X)
    return whole


def mapping_index(
    map_rows: Callable[[Any], Array], width: int, X: ArrayLike | None, index: str
) -> Any:
    """Return a faiss index of mapped rows, whose methods map rows in Python."""
    mapped = None if X is None else map_rows(X)
    whole = faiss_index(LinearMap(np.eye(width), np.zeros(width)), mapped, index)

    def of_rows(method: Callable[..., Any]) -> Callable[..., Any]:
        return lambda rows, *more, **options: method(_float32(map_rows(rows)), *more, **options)

    for name in ("train", "add", "add_with_ids", "search", "range_search"):
        setattr(whole, name, of_rows(getattr(whole, name)))
    return whole


def faiss_search_index(
    queries: LinearMap, X: Floats, map_documents: Callable[[Floats], Floats], index: str
) -> Any:
    """Return a faiss index of mapped documents that maps queries.

    `RetrievalAdapter.to_faiss` is the public way to call it.
    """
    faiss = optional_package("faiss", "to_faiss", "nearfar[faiss]")
    inner = _inner_index(faiss, queries.n_components, len(X), index, products=True)
    if not inner.is_trained:
        inner.train(_float32(map_documents(X)))
    # faiss would map added documents as queries. This index maps them as documents. One that was
    # read from a file refuses them: faiss adds to an index with ids by `add` of the one inside,
    # and if that has ids too, its `add` refuses.
    placed = faiss.IndexIDMap(inner)
    numbered = faiss.IndexIDMap(placed)
    whole = _with_map(faiss, queries, queries.b, numbered)

    def add_with_ids(rows: Floats, ids: Ints) -> None:
        known = faiss.vector_to_array(numbered.id_map)
        every = np.concatenate([known, np.asarray(ids, dtype=np.int64)])
        placed.add_with_ids(_float32(map_documents(rows)), np.arange(len(known), len(every)))
        faiss.copy_array_to_vector(every, numbered.id_map)
        numbered.ntotal = whole.ntotal = placed.ntotal

    def add(rows: Floats) -> None:
        add_with_ids(rows, numbered.ntotal + np.arange(len(rows)))

    whole.add, whole.add_with_ids = add, add_with_ids
    for start in range(0, len(X), _BLOCK_ROWS):
        add(X[start : start + _BLOCK_ROWS])
    return whole


def _inner_index(
    faiss: ModuleType, width: int, n_rows: int, index: str, *, products: bool = False
) -> Any:
    """Return an empty index of mapped rows, by distances or by inner products."""
    measure = faiss.METRIC_INNER_PRODUCT if products else faiss.METRIC_L2
    if index == "flat":
        return faiss.IndexFlat(width, measure)
    if index == "hnsw":
        return faiss.IndexHNSWFlat(width, _LINKS, measure)
    if index == "ivf":
        n_lists = max(1, min(math.isqrt(n_rows), n_rows // _ROWS_PER_LIST))
        inner = faiss.index_factory(width, f"IVF{n_lists},Flat", measure)
        inner.nprobe = math.ceil(_PROBED * n_lists)
        return inner
    try:
        return faiss.index_factory(width, index, measure)
    except RuntimeError as error:
        raise ValueError(
            f"index must be 'flat', 'hnsw', 'ivf' or a string for faiss.index_factory; "
            f"got {index!r}."
        ) from error


def _with_map(faiss: ModuleType, linear_map: LinearMap, bias: Vector, inner: Any) -> Any:
    """Return an index that maps what it gets before it reaches the inner one."""
    transform = faiss.LinearTransform(linear_map.n_features, linear_map.n_components, True)
    faiss.copy_array_to_vector(_float32(linear_map.L).ravel(), transform.A)
    faiss.copy_array_to_vector(_float32(bias), transform.b)
    transform.is_trained = True
    whole = faiss.IndexPreTransform(transform, inner)
    if linear_map.unit_rows:
        whole.prepend_transform(faiss.NormalizationTransform(linear_map.n_features, 2.0))
    return whole


def _fill(index: Any, rows: Floats) -> None:
    if not index.is_trained:
        index.train(_float32(rows))
    for start in range(0, len(rows), _BLOCK_ROWS):
        index.add(_float32(rows[start : start + _BLOCK_ROWS]))


def _float32(array: Floats) -> NDArray[np.float32]:
    return np.ascontiguousarray(array, dtype=np.float32)


def _write(metric: Any, path: Path, *, X: Floats | None = None, index: str = "flat") -> str:
    """Write an index.

    Parameters
    ----------
    index: For faiss: flat, hnsw, ivf, or a string for index_factory.
    """
    whole = metric.to_faiss(X, index)
    with atomic_write(path) as temporary:
        faiss = optional_package("faiss", "to_faiss", "nearfar[faiss]")
        faiss.write_index(whole, str(temporary))
    return f"faiss index of {whole.ntotal} row{'s' * (whole.ntotal != 1)}"


TARGET = ExportTarget(
    "faiss",
    "a faiss index that maps rows itself",
    _write,
    takes_rows=True,
)
