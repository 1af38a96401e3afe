"""
A new embedding model without a new index
=========================================

A new model gives other vectors, and an index of the old ones would have to be rebuilt. From some
items embedded by both models, ridge regression or a rotation maps new vectors to the old space.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import RidgeCV
from sklearn.neighbors import NearestNeighbors

X, _ = load_digits(return_X_y=True)
rng = np.random.RandomState(0)
old = np.tanh(X @ rng.normal(size=(64, 48)) / 60)
new = np.tanh(X @ rng.normal(size=(64, 80)) / 60)
held_out = slice(1500, None)
index = NearestNeighbors(n_neighbors=10).fit(old)
expected = index.kneighbors(old[held_out], return_distance=False)


def ridge(m):
    """Map the held-out items by ridge regression on m others."""
    return RidgeCV(np.logspace(-6, 3, 10)).fit(new[:m], old[:m]).predict(new[held_out])


def rotation(m):
    """Map the held-out items by the rotation that fits m others best."""
    before, after = new[:m].mean(axis=0), old[:m].mean(axis=0)
    U, _, Vt = np.linalg.svd((new[:m] - before).T @ (old[:m] - after), full_matrices=False)
    return (new[held_out] - before) @ U @ Vt + after


def recall(mapped):
    """Return the share of the ten nearest old vectors that mapped ones find."""
    found = index.kneighbors(mapped, return_distance=False)
    return np.mean([np.isin(a, b).mean() for a, b in zip(expected, found, strict=True)])


# %%
sizes = [60, 100, 200, 400, 800, 1500]
fig, ax = plt.subplots(figsize=(6, 3.8), layout="constrained")
for mapping in (ridge, rotation):
    ax.plot(sizes, [recall(mapping(m)) for m in sizes], "o-", label=mapping.__name__)
ax.set(xlabel="items embedded by both models", ylabel="recall@10 of the old vectors", ylim=(0, 1))
ax.legend()
