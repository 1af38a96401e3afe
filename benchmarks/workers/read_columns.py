"""Find out what the columns of tables become, with nearfar or skrub, in a process of its own.

    python read_columns.py nearfar|skrub FOLDER

For each NAME.csv of the folder, NAME.npz gets the features of each column, and NAME.json the kind
of each column, errors, versions and the CPU time. If a table is refused, its columns are tried one
by one.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Found = tuple[dict[str, Any], dict[str, str]]
"""Features and kind of each column that is used."""


def by_nearfar(frame: Any) -> Found:
    from nearfar.columns import Columns

    columns = Columns().fit(frame)
    X = columns.apply(frame)
    sources = np.array(columns.sources)
    features = {name: X[:, sources == name] for name in columns.names}
    return features, {kind.name: kind.kind for kind in columns.kinds_}


def by_skrub(frame: Any) -> Found:
    skrub = importlib.import_module("skrub")
    vectorizer = skrub.TableVectorizer(drop_if_constant=True, drop_if_unique=True).fit(frame)
    X = vectorizer.transform(frame)
    outputs = {
        name: list(made)
        for name, made in vectorizer.input_to_outputs_.items()
        if set(made) <= set(X.columns) and made
    }
    features = {name: X[made].to_numpy(dtype=np.float64) for name, made in outputs.items()}
    kinds = vectorizer.column_to_kind_
    return features, {name: str(kinds[name]) for name in outputs}


def read_text(path: Path) -> Any:
    import polars as pl

    return pl.read_csv(path, infer_schema=False)


def read_typed(path: Path) -> Any:
    import pandas as pd

    return pd.read_csv(path)


NUMBER = ["(a number)"]
"""A column of numbers in every file: a table of one column that is left out would be refused."""
SYSTEMS: dict[str, tuple[Callable[[Path], Any], Callable[[Any], Found]]] = {
    "nearfar": (read_text, by_nearfar),
    "skrub": (read_typed, by_skrub),
}


def work(system: str, path: Path) -> None:
    read, vectorize = SYSTEMS[system]
    frame = read(path)
    names = [name for name in frame.columns if name not in NUMBER]
    errors: dict[str, str] = {}
    start = time.process_time()
    try:
        features, kinds = vectorize(frame[names])
    except Exception as error:
        errors[""] = str(error)
        features, kinds = {}, {}
        for name in names:
            try:
                own = vectorize(frame[[name, *NUMBER]])
            except Exception as error:
                errors[name] = str(error)
            else:
                features |= {name: F for name, F in own[0].items() if name not in NUMBER}
                kinds |= {name: kind for name, kind in own[1].items() if name not in NUMBER}
    document = {
        "kinds": kinds,
        "errors": errors,
        "seconds": round(time.process_time() - start, 3),
        "versions": {name: version(name) for name in (system, "numpy", "scikit-learn")},
    }
    # Names of columns may hold anything; arrays are numbered.
    np.savez(path.with_suffix(".npz"), **{str(n): F for n, F in enumerate(features.values())})
    path.with_suffix(".json").write_text(json.dumps(document | {"names": list(features)}))


def version(package: str) -> str:
    return importlib.metadata.version(package)


if __name__ == "__main__":
    for found in sorted(Path(sys.argv[2]).glob("*.csv")):
        work(sys.argv[1], found)
