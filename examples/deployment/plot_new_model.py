"""
A new embedding model without a new index
=========================================

A new model gives other vectors, and an index of the old ones would have to be rebuilt. A `Bridge`
learns, from some items embedded by both, to map new vectors to the old space.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from nearfar import Bridge

X, _ = load_digits(return_X_y=True)
rng = np.random.RandomState(0)
old = np.tanh(X @ rng.normal(size=(64, 48)) / 60)
new = np.tanh(X @ rng.normal(size=(64, 80)) / 60)

sizes = [60, 100, 200, 400, 800]
recalls = [Bridge(random_state=0).fit(new[:m], old[:m]).recall_ for m in sizes]
values = np.array([recall.value for recall in recalls])
low = values - [recall.low for recall in recalls]
high = np.array([recall.high for recall in recalls]) - values

fig, ax = plt.subplots(figsize=(6, 3.8), layout="constrained")
ax.errorbar(sizes, values, [low, high], fmt="o-", capsize=3)
ax.set(xlabel="items embedded by both models", ylabel="recall of the old neighbours", ylim=(0, 1))

# %%
bridge = Bridge(random_state=0).fit(new[:800], old[:800])
print(bridge.transform(new[800:803]).shape)
