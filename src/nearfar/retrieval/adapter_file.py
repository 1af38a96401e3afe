"""The file of an adapter: one safetensors file, readable in any language.

Arrays (float64): W; center and whitening if both tables are whitened. Metadata: "format" and
"version", and the JSON of the parameters and of what held-out queries chose, in "state".
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from nearfar.metrics.file_format import with_sorted_metadata
from nearfar.runtime.atomic_write import atomic_write
from nearfar.typing import Matrix

_HEADER = {"format": "nearfar.adapter", "version": "1"}


def write_adapter(path: str | os.PathLike[str], arrays: dict[str, Matrix], state: Any) -> None:
    """Write arrays and their state; `RetrievalAdapter.save` is the public way to call it."""
    contiguous = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    content = memoryview(save(contiguous, metadata=_HEADER | {"state": json.dumps(state)}))
    with atomic_write(path) as temporary, temporary.open("wb") as file:
        file.writelines(with_sorted_metadata(content))


def read_adapter(path: str | os.PathLike[str]) -> tuple[dict[str, Matrix], Any]:
    """Read arrays and their state; `RetrievalAdapter.load` is the public way to call it.

    Raises
    ------
    OSError
        If the file cannot be opened.
    ValueError
        If it is not an adapter, or is damaged.
    """
    with Path(path).open("rb"):
        pass
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            if any(metadata.get(key) != value for key, value in _HEADER.items()):
                raise ValueError("it is a safetensors file of another format or version")
            arrays = {
                name: np.asarray(file.get_tensor(name), dtype=np.float64)
                for name in file.keys()  # noqa: SIM118
            }
        W = arrays["W"]
        square = W.ndim == 2 and W.shape[0] == W.shape[1]
        whole = {"center", "whitening"}.isdisjoint(arrays) or (
            arrays["center"].shape == W.shape[:1] and arrays["whitening"].shape == W.shape
        )
        if not (square and whole and all(np.isfinite(array).all() for array in arrays.values())):
            raise ValueError("its arrays do not fit together")
        return arrays, json.loads(metadata["state"])
    except SafetensorError as error:
        raise ValueError(f"{path}: not a safetensors file, or a damaged one: {error}.") from error
    except (ValueError, LookupError, TypeError) as error:
        raise ValueError(f"{path}: not a valid adapter: {error}.") from error
