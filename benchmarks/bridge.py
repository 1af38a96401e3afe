"""Recall that bridges keep on held-out items, for vectors of the same texts by two models.

The old vectors are those of the data. New vectors are made from them: rotated and shifted, cut to
half and to a quarter of their principal axes and rotated, with noise, or squashed (a rotation of
tanh of the vectors). Each form of a bridge is learned from the items that are not held out, and
from 500 of them.

    python benchmarks/bridge.py [--toy]
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from nearfar import Bridge, datasets
from protocol import Array, arguments, commit, record
from protocol import stored as read

TABLES = ("cranfield_emb256", "clinc150_emb256")
FORMS = ("orthogonal", "low-rank", "linear", "auto")
MOST_ITEMS = 6000
FEW_ITEMS = 500


def rotated(X: Array, width: int, rng: np.random.Generator) -> Array:
    turn = np.linalg.qr(rng.standard_normal((X.shape[1], X.shape[1])))[0]
    return np.asarray(X @ turn[:, :width])


def principal(X: Array, width: int) -> Array:
    centred = X - X.mean(axis=0)
    axes = np.linalg.eigh(centred.T @ centred)[1][:, ::-1]
    return np.asarray(centred @ axes[:, :width])


def models(old: Array, rng: np.random.Generator) -> dict[str, Array]:
    """Return new vectors by name."""
    width = old.shape[1]
    spread = old.std()
    return {
        "rotated": 2 * rotated(old, width, rng) + 1,
        "half of the axes": rotated(principal(old, width // 2), width // 2, rng),
        "quarter of the axes": rotated(principal(old, width // 4), width // 4, rng),
        "rotated, noise": rotated(old, width, rng) + 0.5 * spread * rng.standard_normal(old.shape),
        "squashed": np.tanh(rotated(old, width, rng) / spread),
    }


def measure(name: str, old: Array) -> list[dict[str, Any]]:
    rows = []
    rng = np.random.default_rng(0)
    for model, new in models(old, rng).items():
        for n in sorted({min(FEW_ITEMS, len(old)), len(old)}):
            for form in FORMS:
                start = time.perf_counter()
                bridge = Bridge(form).fit(new[:n], old[:n])  # type: ignore[arg-type]
                rows.append(
                    {
                        "table": name,
                        "model": model,
                        "items": n,
                        "form": form,
                        "chosen": bridge.form_,
                        **vars(bridge.recall_),
                        "seconds": time.perf_counter() - start,
                        "commit": commit(),
                    }
                )
    return rows


def stored() -> list[dict[str, Any]]:
    """Return the raw results."""
    return read("bridge")


def table(rows: list[dict[str, Any]]) -> str:
    """Return the recall that ``form="auto"`` keeps, in Markdown."""
    found = {(r["model"], r["table"], r["items"]): r for r in rows if r["form"] == "auto"}
    columns = list(dict.fromkeys(key[1:] for key in found))
    lines = ["| new vectors | " + " | ".join(f"{t}, {n:,} items" for t, n in columns) + " |"]
    lines.append("| --- |" + " --- |" * len(columns))
    for model in dict.fromkeys(key[0] for key in found):
        own = [found[model, *column] for column in columns]
        cells = [f"{r['value']:.3f} ({r['chosen']})" for r in own]
        lines.append(f"| {model} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    given = arguments(__doc__)
    rows = []
    if given.toy:
        rng = np.random.default_rng(1)
        rows = measure("toy", rng.standard_normal((300, 16)) * np.logspace(0, -1, 16))
    else:
        for name in TABLES:
            X = np.asarray(datasets.load(name).X, dtype=np.float64)
            order = np.random.default_rng(0).permutation(len(X))[:MOST_ITEMS]
            rows += measure(name, X[order])
        record("bridge", rows)
    print(table(rows))


if __name__ == "__main__":
    main()
