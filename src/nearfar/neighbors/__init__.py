"""Nearest neighbours under a metric.

search        kneighbors and MetricNeighbors: exact search
classifier    MetricNeighborsClassifier
regressor     MetricNeighborsRegressor
prediction    which neighbours decide, and how sure it is
calibration   how neighbours vote, chosen on held-out rows
strangeness   which rows are unlike all others
"""

from nearfar.neighbors.classifier import MetricNeighborsClassifier
from nearfar.neighbors.prediction import NeighborPredictor, Prediction
from nearfar.neighbors.regressor import MetricNeighborsRegressor
from nearfar.neighbors.search import MetricNeighbors, kneighbors

__all__ = [
    "MetricNeighbors",
    "MetricNeighborsClassifier",
    "MetricNeighborsRegressor",
    "NeighborPredictor",
    "Prediction",
    "kneighbors",
]
