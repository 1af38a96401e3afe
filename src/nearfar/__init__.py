"""Learn the distance a task needs.

>>> from sklearn.datasets import load_iris
>>> from nearfar import BoostMetric
>>> X, y = load_iris(return_X_y=True)
>>> metric = BoostMetric().fit(X, y).metric_
>>> metric.distances(X[:1], X[:2]).shape
(1, 2)
"""

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
from nearfar.learners.selection.auto import AutoMetric
from nearfar.metrics.gated import GatedMetric
from nearfar.metrics.metric import Metric
from nearfar.neighbors import MetricNeighborsClassifier
from nearfar.retrieval import Relevance, RetrievalAdapter, compare_retrieval
from nearfar.rows import open_rows
from nearfar.runtime.deprecation import renamed
from nearfar.runtime.executors import executor
from nearfar.verification import PairVerifier

__version__ = "0.1.0"

__all__ = [
    "DCA",
    "GMML",
    "ITML",
    "KISSME",
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

__getattr__ = renamed(__name__, {"C_path": "max_margin_path", "CPath": "MaxMarginPath"})
