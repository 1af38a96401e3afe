"""Metrics that metric-learn 0.7 learns on small problems, for `test_metric_learn.py`.

    PYTHON tests/peers/metric_learn_values.py > tests/peers/metric_learn_values.json

PYTHON is an interpreter with metric-learn 0.7.0 and scikit-learn 1.5. The learners run on parts of
iris in its own units, from the identity, to much smaller tolerances than their defaults. What they
learn from is stored with the results: constraints are row numbers of every second row of iris.
"""

from __future__ import annotations

import inspect
import json
from importlib.metadata import version
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.base import BaseEstimator
from sklearn.datasets import load_iris

import metric_learn
from metric_learn import ITML, LFDA, LMNN, LSML, MLKR, MMC, NCA, RCA, SCML, Covariance

IRIS, LABELS = load_iris(return_X_y=True)
X, y = IRIS[::2], LABELS[::2]
REGRESSION = IRIS[::2, :2], IRIS[::2, 2]
BOUNDS = (1.0, 6.0)


def blobs() -> tuple[Any, Any]:
    """Return two classes that overlap, so that the best map is not infinitely long."""
    classes = np.arange(60) % 2
    noise = np.random.RandomState(2).randn(60, 2).round(3)
    return noise + np.outer(classes, [1.0, 0.3]), classes


def pairs(n: int) -> tuple[Any, Any]:
    """Return row numbers of random pairs, and 1 for a pair of one class, -1 for others."""
    rng = np.random.RandomState(0)
    index = np.array([rng.choice(len(X), 2, replace=False) for _ in range(n)])
    return index, np.where(y[index[:, 0]] == y[index[:, 1]], 1, -1)


def triplets(n: int) -> Any:
    """Return row numbers of random triplets of the two classes that overlap."""
    rng = np.random.RandomState(1)
    rows = []
    for anchor in rng.choice(np.flatnonzero(y > 0), size=n):
        same = np.setdiff1d(np.flatnonzero(y == y[anchor]), [anchor])
        rows.append([anchor, rng.choice(same), rng.choice(np.flatnonzero(y == 3 - y[anchor]))])
    return np.array(rows)


def chunks() -> Any:
    """Return chunk numbers: threes of one class, and every fourth row in none."""
    ids = np.full(len(X), -1)
    for label in np.unique(y):
        rows = np.flatnonzero(y == label)
        rows = rows[np.arange(len(rows)) % 4 != 3]
        ids[rows] = np.arange(len(rows)) // 3 + 100 * label
    ids[ids >= 0] = np.unique(ids[ids >= 0], return_inverse=True)[1]
    return ids


def matrix(learner: Any) -> Any:
    return learner.get_mahalanobis_matrix().tolist()


def lfda(kind: str) -> Any:
    return matrix(LFDA(k=3, n_components=2, embedding_type=kind).fit(X, y))


def lfda_scales(k: int) -> list[float]:
    """Return the size of each row's neighbourhood as LFDA has it.

    It partitions along one axis and reads along the other: what it finds depends on the order in
    which `np.partition` leaves other values, and so on the processor.
    """
    scales = np.empty(len(X))
    for rows in (np.flatnonzero(label == y) for label in np.unique(y)):
        squared = cdist(X[rows], X[rows]) ** 2
        scales[rows] = np.sqrt(np.partition(squared, k, axis=0)[:, k])
    return scales.tolist()


def arguments() -> dict[str, list[str]]:
    """Return the arguments of each learner and of its `fit`, without the deprecated ones."""
    found = {}
    for name, cls in vars(metric_learn).items():
        if hasattr(cls, "fit"):
            both = [*inspect.signature(cls).parameters.values()]
            both += [*inspect.signature(cls.fit).parameters.values()][1:]
            found[name] = [known.name for known in both if known.default != "deprecated"]
    return found


def main() -> None:
    index, similar = pairs(60)
    three = triplets(40)
    four = three[:, [0, 1, 0, 2]]
    violated = np.linalg.norm(X[three[:, 0]] - X[three[:, 1]], axis=1) > np.linalg.norm(
        X[three[:, 0]] - X[three[:, 2]], axis=1
    )
    alone = four[np.flatnonzero(violated)[:1]]
    ids = chunks()
    itml = ITML(gamma=1.0, tol=1e-10, max_iter=100_000).fit(X[index], similar, bounds=BOUNDS)
    values = {
        "versions": {name: version(name) for name in ("metric-learn", "scikit-learn", "numpy")},
        "arguments": arguments(),
        "methods": sorted(
            {
                name
                for cls in (ITML, LSML, SCML)
                for name in dir(cls)
                if not (name.startswith("_") or name.endswith("_request"))
                and name not in dir(BaseEstimator)
            }
        ),
        "blobs": [part.tolist() for part in blobs()],
        "pairs": index.tolist(),
        "similar": (similar == 1).tolist(),
        "triplets": three.tolist(),
        "violated triplet": alone[0, [0, 1, 3]].tolist(),
        "chunks": ids.tolist(),
        "bounds": BOUNDS,
        "LFDA scales": lfda_scales(3),
        "metrics": {
            "Covariance": matrix(Covariance().fit(X)),
            "RCA": matrix(RCA().fit(X, ids)),
            "LFDA plain": lfda("plain"),
            "LFDA weighted": lfda("weighted"),
            "LFDA orthonormalized": lfda("orthonormalized"),
            "NCA": matrix(NCA(init="identity", tol=1e-14, max_iter=5000).fit(*blobs())),
            "MLKR": matrix(MLKR(init="identity", tol=1e-14, max_iter=5000).fit(*REGRESSION)),
            "ITML": matrix(itml),
            "MMC": matrix(MMC(tol=1e-9, max_iter=20_000).fit(X[index], similar)),
            "MMC diagonal": matrix(MMC(diagonal=True, tol=1e-12).fit(X[index], similar)),
            "LSML": matrix(LSML(tol=1e-9, max_iter=10_000).fit(X[four])),
            "LSML of one comparison": matrix(LSML(tol=1e-9, max_iter=10_000).fit(X[alone])),
            "LMNN": matrix(
                LMNN(init="identity", learn_rate=1e-4, convergence_tol=1e-7, max_iter=20_000).fit(
                    X, y
                )
            ),
        },
    }
    print(json.dumps(values))


if __name__ == "__main__":
    main()
