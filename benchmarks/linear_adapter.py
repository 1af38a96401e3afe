"""`RetrievalAdapter` beside a linear adapter in torch, on Cranfield.

The linear adapter follows llama-index: a square map of the queries without a bias that starts at
the identity, in-batch softmax of cosines times 20, AdamW with a learning rate of 2e-5, linear
warm-up over a tenth of the steps and linear decay, gradients clipped at norm 1, batches of 10.
With its defaults it sees each query once, with one relevant document. Other rows give it all
relevant documents, more epochs and larger learning rates, as a user would who sees that the
defaults change nothing. "Strength given" repeats the last fit of `RetrievalAdapter` without the
choice on held-out queries.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

import numpy as np
from scipy.stats import ttest_rel

from cranfield import cranfield, folds, measured
from nearfar import Relevance, RetrievalAdapter
from protocol import Array, record

try:
    import torch
except ImportError:
    torch = None

SETTINGS = {
    "defaults": {"all_documents": False, "epochs": 1, "rate": 2e-5},
    "4 epochs": {"all_documents": False, "epochs": 4, "rate": 2e-5},
    "all pairs, 4 epochs": {"all_documents": True, "epochs": 4, "rate": 2e-5},
    "all pairs, 30 epochs, 1e-4": {"all_documents": True, "epochs": 30, "rate": 1e-4},
    "all pairs, 30 epochs, 1e-3": {"all_documents": True, "epochs": 30, "rate": 1e-3},
}


def pairs(relevance: Relevance, queries: Array, all_documents: bool) -> Array:
    """Return (query, relevant document): the best one of each query, or all in random order."""
    found = []
    for query in queries:
        documents, grades = relevance.of(query)
        order = np.argsort(-grades, kind="stable")
        wanted = np.count_nonzero(grades) if all_documents else 1
        found += [(query, document) for document in documents[order][:wanted]]
    edges = np.array(found)
    # Documents of the same query in one batch would be each other's negatives.
    return np.random.RandomState(0).permutation(edges) if all_documents else edges


def linear_adapter(Q: Array, X: Array, edges: Array, epochs: int, rate: float) -> Array:
    """Train a map of the queries in torch; return it so that it multiplies from the right."""
    torch.manual_seed(0)
    layer = torch.nn.Linear(Q.shape[1], Q.shape[1], bias=False)
    layer.weight.data.copy_(torch.eye(Q.shape[1]))
    queries, documents = torch.from_numpy(Q[edges[:, 0]]), torch.from_numpy(X[edges[:, 1]])
    batches = list(zip(queries.split(10), documents.split(10), strict=True))
    n_steps = epochs * len(batches)
    n_warm = n_steps // 10
    optimizer = torch.optim.AdamW(layer.parameters(), lr=rate)

    def share(step: int) -> float:
        if step < n_warm:
            return step / max(1, n_warm)
        return max(0.0, (n_steps - step) / max(1, n_steps - n_warm))

    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, share)
    for _ in range(epochs):
        for query, document in batches:
            mapped = torch.nn.functional.normalize(layer(query), dim=1)
            scores = 20 * mapped @ torch.nn.functional.normalize(document, dim=1).T
            loss = torch.nn.functional.cross_entropy(scores, torch.arange(len(query)))
            loss.backward()
            torch.nn.utils.clip_grad_norm_(layer.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
    return np.asarray(layer.weight.detach().numpy().T)


def compare(toy: bool) -> list[dict[str, Any]]:
    """Run every method on every fold."""
    Q, X, relevance = cranfield()
    splits = folds(relevance.queries, 2 if toy else 5)
    settings = dict(list(SETTINGS.items())[:2]) if toy else SETTINGS
    scores: dict[str, list[Array]] = {}
    times: dict[str, list[float]] = {}

    def keep(method: str, mapped: Array, start: float, new: Relevance) -> None:
        times.setdefault(method, []).append(time.perf_counter() - start)
        scores.setdefault(method, []).append(measured(mapped, X, new))

    for train, test in splits:
        old, new = relevance.subset(train), relevance.subset(test)
        keep("untouched", Q, time.perf_counter(), new)
        start = time.perf_counter()
        adapter = RetrievalAdapter().fit(Q, X, old)
        keep("RetrievalAdapter", adapter.transform_queries(Q), start, new)
        best = adapter.chosen_
        if best.helps:
            start = time.perf_counter()
            fixed = RetrievalAdapter(cv=None, strength=best.strength, max_iter=best.n_iter)
            fixed.fit(Q, X, old)
            keep("RetrievalAdapter, strength given", fixed.transform_queries(Q), start, new)
        for name, setting in settings.items():
            start = time.perf_counter()
            edges = pairs(relevance, train, bool(setting["all_documents"]))
            W = linear_adapter(Q, X, edges, int(setting["epochs"]), setting["rate"])
            keep(f"torch, {name}", Q @ W, start, new)
    rows = []
    base = np.concatenate(scores["untouched"])
    for method, parts in scores.items():
        values = np.concatenate(parts)
        paired = len(values) == len(base) and bool((values != base).any())
        p = float(ttest_rel(values[:, 0], base[:, 0]).pvalue) if paired else 1.0
        rows.append(
            {
                "method": method,
                "ndcg": float(values[:, 0].mean()),
                "mrr": float(values[:, 1].mean()),
                "recall": float(values[:, 2].mean()),
                "p": p,
                "seconds": float(np.mean(times[method])),
            }
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--toy", action="store_true", help="two folds, two settings")
    arguments = parser.parse_args()
    if torch is None:
        print("This benchmark needs torch; install it with: pip install torch")
        sys.exit(0 if arguments.toy else 1)
    rows = compare(arguments.toy)
    if not arguments.toy:
        record("linear_adapter", rows)
    print(f"{'':34s}{'nDCG@10':>9s}{'MRR':>8s}{'recall@10':>11s}{'p':>10s}{'seconds':>9s}")
    for row in rows:
        print(
            f"{row['method']:34s}{row['ndcg']:9.3f}{row['mrr']:8.3f}{row['recall']:11.3f}"
            f"{row['p']:10.1e}{row['seconds']:9.2f}"
        )


if __name__ == "__main__":
    main()
