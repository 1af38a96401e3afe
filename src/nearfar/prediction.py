"""The earlier place of `nearfar.neighbors.prediction`."""

from nearfar.neighbors.prediction import NeighborPredictor, Prediction

__all__ = ["NeighborPredictor", "Prediction"]
