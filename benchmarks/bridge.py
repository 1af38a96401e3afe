"""Recall that bridges keep on held-out items, for vectors of the same texts by two models.

The old vectors are those of the data. New vectors are made from them: rotated and shifted, cut to
half and to a quarter of their principal axes and rotated, with noise, or squashed (a rotation of
tanh of the vectors). Each form of a bridge is learned from the items that are not held out, and
from 500 of them.

With the vectors of another model (`workers/embed_texts.py`), bridges are learned in both directions
between two real ones. Of labelled items, the share of the ten nearest with the same label is then
what a change of the model costs: found by the new model among new vectors (embedding everything
again), by the bridge among old ones, and by the old model. Otherwise the stored results of real
models are kept.

    python benchmarks/bridge.py [--toy] [--vectors FOLDER]
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np

from nearfar import Bridge, Metric, datasets
from protocol import Array, commit, record
from protocol import stored as read

TABLES = ("cranfield_emb256", "clinc150_emb256")
FORMS = ("orthogonal", "low-rank", "linear", "local", "auto")
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


def measure(name: str, model: str, new: Array, old: Array) -> list[dict[str, Any]]:
    rows = []
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


def same_label(queries: Array, index: Array, y: Array, rows: Array) -> float:
    """Return the share of the ten nearest with the label of the query, itself left out."""
    d = Metric.identity(index.shape[1]).distances(queries, index)
    d[np.arange(len(rows)), rows] = np.inf
    nearest = np.argpartition(d, 10, axis=1)[:, :10]
    return float((y[nearest] == y[rows][:, None]).mean())


def replaced(name: str, model: str, new: Array, old: Array, y: Array) -> dict[str, Any]:
    """Return what the model, the bridge and the old model find; half of the items are learned."""
    half = len(old) // 2
    rows = np.arange(half, len(old))
    bridge = Bridge().fit(new[:half], old[:half], index=old)
    return {
        "table": name,
        "model": model,
        "items": half,
        "chosen": bridge.form_,
        "embedded again": same_label(new[rows], new, y, rows),
        "bridge": same_label(bridge.transform(new[rows]), old, y, rows),
        "old model": same_label(old[rows], old, y, rows),
        "commit": commit(),
    }


def stored() -> list[dict[str, Any]]:
    """Return the raw results."""
    return read("bridge")


def table(rows: list[dict[str, Any]]) -> str:
    """Return what ``form="auto"`` keeps, and what a change of a real model costs, in Markdown."""
    found = {(r["model"], r["table"], r["items"]): r for r in rows if r.get("form") == "auto"}
    columns = list(dict.fromkeys(key[1:] for key in found))
    lines = ["| new vectors | " + " | ".join(f"{t}, {n:,} items" for t, n in columns) + " |"]
    lines.append("| --- |" + " --- |" * len(columns))
    for model in dict.fromkeys(key[0] for key in found):
        own = [found[model, *column] for column in columns]
        cells = [f"{r['value']:.3f} ({r['chosen']})" for r in own]
        lines.append(f"| {model} | " + " | ".join(cells) + " |")
    figures = ("embedded again", "bridge", "old model")
    lines += ["", "| labelled items | change | " + " | ".join(figures) + " | kept |"]
    lines.append("| --- | --- | --- | --- | --- | --- |")
    for r in (r for r in rows if "bridge" in r):
        shares = " | ".join(f"{r[figure]:.3f}" for figure in figures)
        kept = 100 * r["bridge"] / r["embedded again"]
        lines.append(f"| {r['table']} | {r['model']} | {shares} | {kept:.0f} % |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--toy", action="store_true", help="a small run that shows it works")
    parser.add_argument("--vectors", type=Path, help="folder of vectors by another model")
    given = parser.parse_args()
    rng = np.random.default_rng(0)
    rows: list[dict[str, Any]] = []
    if given.toy:
        old = rng.standard_normal((300, 16)) * np.logspace(0, -1, 16)
        for model, new in models(old, rng).items():
            rows += measure("toy", model, new, old)
        rows.append(
            replaced("toy", "rotated", rotated(old, 16, rng), old, rng.integers(3, size=300))
        )
    else:
        kept = [row for row in stored() if " to " in row["model"]]
        for name in TABLES:
            data = datasets.load(name)
            order = np.random.default_rng(0).permutation(len(data.X))[:MOST_ITEMS]
            old = np.asarray(data.X, dtype=np.float64)[order]
            for model, new in models(old, np.random.default_rng(0)).items():
                rows += measure(name, model, new, old)
            if given.vectors is None:
                rows += [row for row in kept if row["table"] == name]
                continue
            other = np.load(given.vectors / f"{name}.npy").astype(np.float64)[order]
            changes = {"MiniLM to wordllama": (other, old), "wordllama to MiniLM": (old, other)}
            for model, (new, target) in changes.items():
                rows += measure(name, model, new, target)
                if data.y is not None:
                    rows.append(replaced(name, model, new, target, np.asarray(data.y)[order]))
        record("bridge", rows)
    print(table(rows))


if __name__ == "__main__":
    main()
