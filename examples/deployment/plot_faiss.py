"""
Text embeddings and a faiss index
=================================

Passages from the descriptions of scikit-learn's datasets become vectors (TF-IDF and SVD). A metric
learned from half of the passages helps to find passages about the same dataset among the others,
and runs inside a faiss index, which takes the vectors as they are.
"""

from importlib.resources import files

import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

from nearfar import AutoMetric, Metric
from nearfar.measures import precision_at_k

texts, y = [], []
for source, file in enumerate(sorted(files("sklearn.datasets.descr").iterdir(), key=str)):
    words = file.read_text(encoding="utf-8").split() if file.name.endswith(".rst") else []
    texts += [" ".join(words[i : i + 25]) for i in range(0, len(words) - 24, 25)]
    y += [source] * (len(texts) - len(y))
y = np.array(y)
embed = make_pipeline(TfidfVectorizer(min_df=2), TruncatedSVD(100, random_state=0), Normalizer())
X = embed.fit_transform(texts)
learned = np.random.default_rng(0).random(len(y)) < 0.5
print(f"{len(texts)} passages of {len(np.unique(y))} descriptions")

auto = AutoMetric(candidates=["RCA", "PLDA", "LDA", "NCA"], goal="ranking")
metric = auto.fit(X[learned], y[learned]).metric_
print(auto.expected_)

# %%
# Precision of the first passages among those that were not learned from:
fig, ax = plt.subplots(figsize=(6, 3.6), layout="constrained")
for name, used in {"Euclidean": Metric.identity(X.shape[1]), "learned": metric}.items():
    found = [precision_at_k(used, X[~learned], y[~learned], k=k) for k in range(1, 11)]
    ax.plot(range(1, 11), found, "o-", label=name)
ax.set(xlabel="passages looked at", ylabel="share about the same dataset")
ax.legend()

# %%
# The index contains the map. faiss is optional: ``pip install "nearfar[faiss]"``.
try:
    index = metric.to_faiss(X)
except ImportError as error:
    print(error)
else:
    _, rows = index.search(X[:1].astype(np.float32), 3)
    print(*(texts[row] for row in rows[0]), sep="\n")
