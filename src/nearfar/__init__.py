"""Learn the distance a task needs.

>>> from sklearn.datasets import load_iris
>>> from nearfar import BoostMetric
>>> X, y = load_iris(return_X_y=True)
>>> metric = BoostMetric().fit(X, y).metric_
>>> metric.distances(X[:1], X[:2]).shape
(1, 2)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nearfar import datasets, evaluate, losses, neighbors, plots, retrieval
    from nearfar.bridge import Bridge
    from nearfar.comparison import Comparison, compare
    from nearfar.constraints import (
        AllTriplets,
        Chunklets,
        FarTargetTriplets,
        NearestTriplets,
        Pairs,
        RandomPairs,
        RandomTriplets,
        Triplets,
    )
    from nearfar.learners.boosting import BoostMetric, DRMetric, MetricBoost, PSDBoost
    from nearfar.learners.classic import (
        DCA,
        GMML,
        ITML,
        KISSME,
        LDA,
        LFDA,
        LMNN,
        LSML,
        MLKR,
        MMC,
        PLDA,
        RCA,
        XQDA,
        InverseCovariance,
    )
    from nearfar.learners.max_margin import (
        FrobMetric,
        MaxMarginMetric,
        MaxMarginPath,
        max_margin_path,
    )
    from nearfar.learners.max_margin.matching_pursuit import MatchingPursuitBasis
    from nearfar.learners.nca import NCA, MixtureNCA, SparseNCA
    from nearfar.learners.ordinal import OrdinalEmbedding
    from nearfar.learners.selection.auto import AutoMetric
    from nearfar.metrics.gated import GatedMetric
    from nearfar.metrics.metric import Metric
    from nearfar.neighbors import MetricNeighborsClassifier
    from nearfar.retrieval import Relevance, RetrievalAdapter, compare_retrieval
    from nearfar.rows import open_rows
    from nearfar.runtime.executors import executor
    from nearfar.verification import PairVerifier

__version__ = "0.1.0"

__all__ = [
    "DCA",
    "GMML",
    "ITML",
    "KISSME",
    "LDA",
    "LFDA",
    "LMNN",
    "LSML",
    "MLKR",
    "MMC",
    "NCA",
    "PLDA",
    "RCA",
    "XQDA",
    "AllTriplets",
    "AutoMetric",
    "BoostMetric",
    "Bridge",
    "Chunklets",
    "Comparison",
    "DRMetric",
    "FarTargetTriplets",
    "FrobMetric",
    "GatedMetric",
    "InverseCovariance",
    "MatchingPursuitBasis",
    "MaxMarginMetric",
    "MaxMarginPath",
    "Metric",
    "MetricBoost",
    "MetricNeighborsClassifier",
    "MixtureNCA",
    "NearestTriplets",
    "OrdinalEmbedding",
    "PSDBoost",
    "PairVerifier",
    "Pairs",
    "RandomPairs",
    "RandomTriplets",
    "Relevance",
    "RetrievalAdapter",
    "SparseNCA",
    "Triplets",
    "__version__",
    "compare",
    "compare_retrieval",
    "datasets",
    "evaluate",
    "executor",
    "losses",
    "max_margin_path",
    "neighbors",
    "open_rows",
    "plots",
    "retrieval",
]

_HOME = {
    "datasets": "nearfar.datasets",
    "evaluate": "nearfar.evaluate",
    "losses": "nearfar.losses",
    "neighbors": "nearfar.neighbors",
    "plots": "nearfar.plots",
    "retrieval": "nearfar.retrieval",
    "Bridge": "nearfar.bridge",
    "Comparison": "nearfar.comparison",
    "compare": "nearfar.comparison",
    "AllTriplets": "nearfar.constraints",
    "Chunklets": "nearfar.constraints",
    "FarTargetTriplets": "nearfar.constraints",
    "NearestTriplets": "nearfar.constraints",
    "Pairs": "nearfar.constraints",
    "RandomPairs": "nearfar.constraints",
    "RandomTriplets": "nearfar.constraints",
    "Triplets": "nearfar.constraints",
    "BoostMetric": "nearfar.learners.boosting",
    "DRMetric": "nearfar.learners.boosting",
    "MetricBoost": "nearfar.learners.boosting",
    "PSDBoost": "nearfar.learners.boosting",
    "DCA": "nearfar.learners.classic",
    "GMML": "nearfar.learners.classic",
    "ITML": "nearfar.learners.classic",
    "KISSME": "nearfar.learners.classic",
    "LDA": "nearfar.learners.classic",
    "LFDA": "nearfar.learners.classic",
    "LMNN": "nearfar.learners.classic",
    "LSML": "nearfar.learners.classic",
    "MLKR": "nearfar.learners.classic",
    "MMC": "nearfar.learners.classic",
    "PLDA": "nearfar.learners.classic",
    "RCA": "nearfar.learners.classic",
    "XQDA": "nearfar.learners.classic",
    "InverseCovariance": "nearfar.learners.classic",
    "FrobMetric": "nearfar.learners.max_margin",
    "MaxMarginMetric": "nearfar.learners.max_margin",
    "MaxMarginPath": "nearfar.learners.max_margin",
    "max_margin_path": "nearfar.learners.max_margin",
    "MatchingPursuitBasis": "nearfar.learners.max_margin.matching_pursuit",
    "NCA": "nearfar.learners.nca",
    "MixtureNCA": "nearfar.learners.nca",
    "SparseNCA": "nearfar.learners.nca",
    "OrdinalEmbedding": "nearfar.learners.ordinal",
    "AutoMetric": "nearfar.learners.selection.auto",
    "GatedMetric": "nearfar.metrics.gated",
    "Metric": "nearfar.metrics.metric",
    "MetricNeighborsClassifier": "nearfar.neighbors",
    "Relevance": "nearfar.retrieval",
    "RetrievalAdapter": "nearfar.retrieval",
    "compare_retrieval": "nearfar.retrieval",
    "open_rows": "nearfar.rows",
    "executor": "nearfar.runtime.executors",
    "PairVerifier": "nearfar.verification",
}
"""The module of each name; it is imported when the name is first used."""

_RENAMED = {"C_path": "max_margin_path", "CPath": "MaxMarginPath"}


def __getattr__(name: str) -> Any:
    if name in _RENAMED:
        from nearfar.runtime.deprecation import renamed

        return renamed(__name__, _RENAMED)(name)
    if name not in _HOME:
        from nearfar.runtime.metric_learn_names import missing_name

        raise missing_name(__name__, name)
    module = import_module(_HOME[name])
    value = module if _HOME[name] == f"nearfar.{name}" else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
