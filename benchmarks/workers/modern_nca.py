"""ModernNCA (Ye, Yin, Zhan and Chao, arXiv 2407.03257) as a process: for beyond_linear.py.

    python modern_nca.py data.npz out.json BATCH_SIZE

Rows are embedded by a linear map, and the probability of a class is the share of its training rows,
weighted by the softmax of negative Euclidean distances (not squared ones). AdamW minimises the
negative log-likelihood of batches; the neighbours of a batch are the batch itself and a random half
of the other training rows. 15 % of the training rows tell when to stop, and are no neighbours.

The settings are the defaults of the authors' code: periodic embeddings of numbers with one linear
layer for all columns (PLR-lite) before the linear map, and no block of an MLP after it. A column is
numbers if it has more than two values; one-hot columns go to the linear map as they are.
"""

from __future__ import annotations

import copy
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

DIM = 128
N_FREQUENCIES, FREQUENCY_SCALE, D_EMBEDDING = 77, 0.0443, 34
SAMPLE_RATE = 0.5
LEARNING_RATE, WEIGHT_DECAY = 0.01, 2e-4
MAX_EPOCHS, PATIENCE = 200, 20
VALIDATION = 0.15
EPS = 1e-7


class Embedding(nn.Module):
    """Rows to vectors: periodic functions of numbers, then a linear map."""

    def __init__(self, numbers: Any) -> None:
        super().__init__()
        self.register_buffer("numbers", torch.tensor(numbers))
        n_numbers = int(numbers.sum())
        self.frequencies = nn.Parameter(FREQUENCY_SCALE * torch.randn(n_numbers, N_FREQUENCIES))
        self.shared = nn.Linear(2 * N_FREQUENCIES, D_EMBEDDING)
        self.linear = nn.Linear(n_numbers * D_EMBEDDING + len(numbers) - n_numbers, DIM)

    def forward(self, X: Any) -> Any:
        """Return the vectors of rows."""
        angles = 2 * torch.pi * self.frequencies * X[:, self.numbers, None]
        waves = torch.cat([angles.cos(), angles.sin()], dim=2)
        periodic = torch.relu(self.shared(waves)).flatten(1)
        return self.linear(torch.cat([periodic, X[:, ~self.numbers]], dim=1))


def shares(Z: Any, neighbours: Any, classes: Any, *, own: bool = False) -> Any:
    """Return log-probabilities of classes; `own`: the rows are the first neighbours."""
    distances = torch.cdist(Z, neighbours)
    if own:
        distances = distances.masked_fill(torch.eye(*distances.shape, dtype=torch.bool), torch.inf)
    return torch.log(torch.softmax(-distances, dim=1) @ classes + EPS)


def split(y: Any, rng: np.random.RandomState) -> tuple[Any, Any]:
    """Return training rows, and 15 % of every class for validation."""
    aside = np.zeros(len(y), dtype=bool)
    for label in np.unique(y):
        rows = rng.permutation(np.flatnonzero(y == label))
        aside[rows[: round(VALIDATION * len(rows))]] = True
    return np.flatnonzero(~aside), np.flatnonzero(aside)


def learn(X: Any, y: Any, X_test: Any, batch_size: int) -> tuple[list[int], int]:
    """Return the labels of test rows, and the number of epochs."""
    torch.manual_seed(0)
    train, aside = split(y, np.random.RandomState(0))
    numbers = np.array([len(np.unique(column)) > 2 for column in X.T])
    rows, labels = torch.tensor(X, dtype=torch.float32), torch.tensor(y, dtype=torch.long)
    classes = nn.functional.one_hot(labels).float()
    model, train = Embedding(numbers), torch.tensor(train)
    adam = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY)
    best, kept, last = -1.0, copy.deepcopy(model.state_dict()), 0
    for epoch in range(1, MAX_EPOCHS + 1):
        model.train()
        for batch in torch.randperm(len(train)).split(batch_size):
            others = torch.ones(len(train), dtype=torch.bool)
            others[batch] = False
            others = torch.nonzero(others)[:, 0]
            sample = others[torch.randperm(len(others))[: int(SAMPLE_RATE * len(others))]]
            used = train[torch.cat([batch, sample])]
            Z = model(rows[used])
            found = shares(Z[: len(batch)], Z, classes[used], own=True)
            loss = nn.functional.nll_loss(found, labels[train[batch]])
            adam.zero_grad()
            loss.backward()
            adam.step()
        model.eval()
        with torch.no_grad():
            Z = model(rows)
            guess = shares(Z[aside], Z[train], classes[train]).argmax(dim=1)
        right = float((guess == labels[aside]).float().mean())
        if right > best:
            best, kept, last = right, copy.deepcopy(model.state_dict()), epoch
        elif epoch - last >= PATIENCE:
            break
    model.load_state_dict(kept)
    with torch.no_grad():
        Z = model(torch.tensor(X_test, dtype=torch.float32))
        found = shares(Z, model(rows[train]), classes[train])
    return found.argmax(dim=1).tolist(), epoch


def main() -> None:
    data, out, batch_size = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(1)
    with np.load(data) as arrays:
        X, y, X_test = arrays["X"], arrays["y"], arrays["X_test"]
    wall, cpu = time.perf_counter(), time.process_time()
    labels, epochs = learn(X, y, X_test, batch_size)
    parameters = {k.lower(): v for k, v in globals().items() if k.isupper() and k != "EPS"}
    facts = {
        "labels": labels,
        "epochs": epochs,
        "fit_seconds": None,
        "fit_cpu": None,
        "seconds": time.perf_counter() - wall,
        "cpu": time.process_time() - cpu,
        "parameters": parameters | {"batch_size": batch_size},
        "versions": {"torch": torch.__version__, "numpy": np.__version__},
    }
    out.write_text(json.dumps(facts))


if __name__ == "__main__":
    main()
