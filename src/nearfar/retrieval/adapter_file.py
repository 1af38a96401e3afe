"""The file of an adapter: one safetensors file, readable in any language.

Arrays (float64): W; center and whitening if both tables are whitened. Metadata: "format" and
"version", and the JSON of the parameters and of what held-out queries chose, in "state".
"""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np

from nearfar.runtime.tensor_file import open_tensors, write_tensors
from nearfar.typing import Matrix


def write_adapter(path: str | os.PathLike[str], arrays: dict[str, Matrix], state: Any) -> None:
    """Write arrays and their state; `RetrievalAdapter.save` is the public way to call it."""
    write_tensors(path, "adapter", arrays, {"version": "1", "state": json.dumps(state)})


def read_adapter(path: str | os.PathLike[str]) -> tuple[dict[str, Matrix], Any]:
    """Read arrays and their state; `RetrievalAdapter.load` is the public way to call it.

    Raises
    ------
    OSError
        If the file cannot be opened.
    ValueError
        If it is not an adapter, or is damaged.
    """
    with open_tensors(path, "adapter") as file:
        arrays = {name: file[name] for name in file}
        W = arrays["W"]
        square = W.ndim == 2 and W.shape[0] == W.shape[1]
        whole = {"center", "whitening"}.isdisjoint(arrays) or (
            arrays["center"].shape == W.shape[:1] and arrays["whitening"].shape == W.shape
        )
        if not (square and whole and all(np.isfinite(array).all() for array in arrays.values())):
            raise ValueError("its arrays do not fit together")
        return arrays, json.loads(file.metadata["state"])
