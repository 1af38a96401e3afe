"""A linear map learned with pytorch-metric-learning, as an estimator: for timed_fit.py.

The map starts at the identity. Adam minimises the triplet margin loss of batches with four rows of
each class. Distances are not normalised, because three nearest neighbours use them as they are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytorch_metric_learning
import torch
from pytorch_metric_learning.distances import LpDistance
from pytorch_metric_learning.losses import TripletMarginLoss
from pytorch_metric_learning.samplers import MPerClassSampler

__version__ = pytorch_metric_learning.__version__

MARGIN = 1.0
EPOCHS = 30
ROWS_OF_A_CLASS = 4
BATCH = 128
LEARNING_RATE = 1e-3


class TripletMap:
    """A square linear map; `fit` learns it from labels."""

    def __init__(self, random_state: int = 0) -> None:
        """Store the seed."""
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> TripletMap:
        """Learn the map from rows whose mean squared length is the number of columns."""
        torch.manual_seed(self.random_state)
        torch.set_num_threads(1)
        self.unit = float(np.sqrt(np.mean(np.square(X))))
        rows, labels = torch.tensor(X / self.unit, dtype=torch.float32), torch.tensor(y)
        layer = torch.nn.Linear(X.shape[1], X.shape[1], bias=False)
        torch.nn.init.eye_(layer.weight)
        loss = TripletMarginLoss(MARGIN, distance=LpDistance(normalize_embeddings=False))
        adam = torch.optim.Adam(layer.parameters(), lr=LEARNING_RATE)
        batch = min(BATCH, len(rows) // ROWS_OF_A_CLASS * ROWS_OF_A_CLASS)
        batch = min(batch, len(labels.unique()) * ROWS_OF_A_CLASS)
        sampler = MPerClassSampler(labels, ROWS_OF_A_CLASS, batch, len(rows))
        loader = torch.utils.data.DataLoader(
            torch.utils.data.TensorDataset(rows, labels), batch, sampler=sampler
        )
        for _ in range(EPOCHS):
            for chosen, classes in loader:
                adam.zero_grad()
                loss(layer(chosen), classes).backward()
                adam.step()
        self.weight = layer.weight.detach().numpy().astype(float)
        return self

    def transform(self, X: Any) -> Any:
        """Return mapped rows."""
        return X @ self.weight.T / self.unit
