"""
A search that learns from judgements
====================================

Somebody has judged which documents answer which queries. `RetrievalAdapter` maps the vectors of
queries, so that right documents come first; the index of documents stays as it is. Held-out
queries decide whether anything is changed.
"""

import matplotlib.pyplot as plt
import numpy as np

from nearfar import Relevance, RetrievalAdapter, compare_retrieval

rng = np.random.default_rng(0)
topics = rng.normal(size=(60, 24))
manner = np.r_[np.zeros(12), np.full(12, 2.5)]
X = np.repeat(topics, 10, axis=0) + rng.normal(size=(600, 24))
Q = np.repeat(topics, 4, axis=0) + manner * rng.normal(size=(240, 24))
query, document = np.nonzero(np.arange(240)[:, None] // 4 == np.arange(600) // 10)
relevance = Relevance(query, document)

found = compare_retrieval(Q, X, relevance)
print(found)

# %%
# The adapter itself; ``chosen_`` says what held-out queries decided.
adapter = RetrievalAdapter().fit(Q, X, relevance)
print(adapter.chosen_)

# %%
# The map turns down the columns in which queries differ from their documents by manner only.
fig, ax = plt.subplots(figsize=(7, 3.6), layout="constrained")
ax.bar(range(24), np.diag(adapter.W_))
ax.set(xlabel="column of the vectors", ylabel="weight in the score")
ax.axvspan(11.5, 23.5, alpha=0.15, color="C3", label="manner of asking")
ax.legend()
