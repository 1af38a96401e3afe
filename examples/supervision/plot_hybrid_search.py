"""
Weights for hybrid search
=========================

Items have a title, a body and a picture, each with a vector. The title says most, the body less,
and the picture nothing. `SourceWeights` finds that out from a few judged queries.
"""

import matplotlib.pyplot as plt
import numpy as np

from nearfar import Relevance, SourceWeights
from nearfar.search import search

rng = np.random.RandomState(0)
noise = {"title": 1.0, "body": 1.6, "picture": 9.0}
documents = {name: rng.normal(size=(400, 12)) for name in noise}
queries = {
    name: documents[name][:300] + spread * rng.normal(size=(300, 12))
    for name, spread in noise.items()
}


def found(Q, X):
    """Return how many queries have their own document among the first ten."""
    unit = [rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (Q, X)]
    best = search(*unit, 10).documents
    return np.mean((best == np.arange(200, 300)[:, None]).any(axis=1))


# %%
# Queries 200 to 299 judge; the others are learned from.
test = {name: rows[200:] for name, rows in queries.items()}
sizes, learned = [10, 20, 40, 80, 160], []
for n in sizes:
    known = {name: rows[:n] for name, rows in queries.items()}
    weights = SourceWeights(random_state=0).fit(known, documents, Relevance(range(n), range(n)))
    learned.append(found(weights.transform_queries(test), weights.transform_documents(documents)))
print(weights.chosen_)

fig, ax = plt.subplots(figsize=(6, 3.8), layout="constrained")
ax.plot(sizes, learned, "o-", label="learned weights")
equal = [
    np.hstack([rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in table.values()])
    for table in (test, documents)
]
lines = {"equal weights": found(*equal)}
lines |= {f"{name} alone": found(test[name], documents[name]) for name in noise}
for style, (name, share) in zip(["--", "-.", ":", (0, (1, 4))], lines.items(), strict=True):
    ax.axhline(share, linestyle=style, color="gray", label=name)
ax.set(xlabel="judged queries", ylabel="found among the first ten", ylim=(0, 1))
ax.legend()
