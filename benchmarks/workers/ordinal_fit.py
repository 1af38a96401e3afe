"""Fits ordinal embeddings of one library, and prints held-out error and CPU seconds as JSON.

Usage: ordinal_fit.py LIBRARY DATA, with train, test, n_components and seed in the .npz file.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
import warnings
from typing import Any

import numpy as np

warnings.simplefilter("ignore")


LOSSES = {"SOE": "soft_ordinal", "CKL": "crowd_kernel", "TSTE": "t_student"}


def fitted(library: str, method: str, n_components: int, seed: int, train: Any) -> Any:
    """Return coordinates by the defaults of a library."""
    settings: dict[str, Any] = {"n_components": n_components, "random_state": seed}
    if library == "cblearn":
        build = getattr(importlib.import_module("cblearn.embedding"), method)
    else:
        build = importlib.import_module("nearfar").OrdinalEmbedding
        settings["loss"] = LOSSES[method]
    return build(**settings).fit(train).embedding_


def main() -> None:
    """Fit each method."""
    library, path = sys.argv[1:]
    data = np.load(path)
    version = importlib.import_module(library).__version__
    for method in LOSSES:
        seed, n_components = int(data["seed"]), int(data["n_components"])
        fitted(library, method, n_components, seed, data["train"][:50])
        start = time.process_time()
        P = fitted(library, method, n_components, seed, data["train"])
        seconds = time.process_time() - start
        anchor, near, far = (P[rows] for rows in data["test"].T)
        margins = ((anchor - far) ** 2).sum(axis=1) - ((anchor - near) ** 2).sum(axis=1)
        error = float(np.mean((1 - np.sign(margins)) / 2))
        row = {"library": library, "method": method, "error": error, "seconds": seconds}
        print(json.dumps({**row, "version": version}))


if __name__ == "__main__":
    main()
