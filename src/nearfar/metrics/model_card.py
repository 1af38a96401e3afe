"""The model card of a metric: Markdown with the front matter that the Hugging Face hub reads.

It states what the metric's file knows, and says what the file does not know.
"""

from __future__ import annotations

import json

from nearfar.columns.columns import column_examples
from nearfar.metrics.metric import Metric
from nearfar.metrics.training_facts import (
    LearnedLabels,
    stored_labels,
    stored_statement,
    stored_threshold,
    stored_votes,
)
from nearfar.runtime.messages import counted
from nearfar.runtime.tensor_file import Provenance

# Longer lists of features are cut.
_MOST_NAMES = 50
_CARD = """\
---
{front}
---

# {title}

A learned distance between rows of {size}.

## Learned from

{learned_from}

## Figures

{figures}

## Input

{takes}

## Use

```python
import {library}
from nearfar import Metric

metric = Metric.load("{file}")
rows = {reading}
metric.distances(rows[:1], rows)
{mapping}```

## Limits

{limits}
"""
_MAPPING = "metric.transform(rows)  # Euclidean distance between these rows is the metric\n"


def model_card(metric: Metric, file: str, title: str, license: str = "") -> str:
    """Return the card of a metric.

    Parameters
    ----------
    metric: Its `metadata` have the facts.
    file: Name of the file that it is loaded from.
    license: Left out if empty.
    """
    facts, columns, names = metric.metadata, metric.columns, metric.feature_names
    made, stated = Provenance.read(facts), stored_statement(facts)
    front = ["library_name: nearfar"]
    front += [f"license: {json.dumps(license)}"] if license else []
    front += ["tags:", "- metric-learning", "- nearest-neighbors"]
    front += ["metrics:", f"- {json.dumps(stated.measure)}"] if stated else []

    learned_from = ["The file does not say what the metric was learned from."]
    figures = []
    if made is not None:
        data = " and ".join(f"{number:,} {name}" for name, number in made.data.items())
        learned_from = [f"- Data: {data} (fingerprint {_line(made.fingerprint)})"]
        learned_from += _labels(stored_labels(facts))
        learned_from += [f"- Made: {_line(made.made)}, by nearfar {_line(made.nearfar)}"]
        figures += [f"- Verdict: {_line(made.verdict)}"] if made.verdict else []
    if (votes := stored_votes(facts)) is not None and votes.counted:
        n_rows, right = sum(votes.counted[votes.best - 1]), sum(votes.right[votes.best - 1])
        figures.append(
            f"- Votes of {counted(votes.best, 'neighbour')}: right for {right} of {n_rows} rows "
            "that took no part in learning"
        )
    if (threshold := stored_threshold(facts)) is not None:
        chosen = f", chosen for {_line(threshold.criterion)}" if threshold.criterion else ""
        figures.append(f"- Threshold for pairs: {threshold.value:.6g}{chosen}")

    takes = [f"Arrays of {counted(metric.n_features, 'number')} in each row."]
    if columns is not None:
        found = [(_line(each.column), _line(each.taken_as)) for each in column_examples(columns)]
        takes = ["| column | taken as |", "| --- | --- |", *(f"| {a} | {b} |" for a, b in found)]
    elif names is not None:
        more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
        takes = [f"Columns of numbers: {', '.join(map(_line, names[:_MOST_NAMES]))}{more}."]

    limits = ["- Figures are of the data above; other data may give others."]
    if made is None or not made.verdict:
        limits = ["- The file has no verdict: test whether the metric helps before you use it."]
    if "learned_from" in facts:
        limits.append("- The file has hashes of rows that the metric was learned from.")
    if columns is not None:
        limits.append("- The file has levels and words of these columns.")
    return _CARD.format(
        front="\n".join(front),
        title=_line(title),
        size=counted(metric.n_features, "feature"),
        learned_from="\n".join(learned_from),
        figures="\n".join(figures) or "The file has none.",
        takes="\n".join(takes),
        library="numpy as np" if names is None else "pandas as pd",
        file=file,
        reading='np.load("rows.npy")' if names is None else 'pd.read_csv("rows.csv")',
        mapping="" if len(metric.parts) > 1 else _MAPPING,
        limits="\n".join(limits),
    )


def _labels(labels: LearnedLabels | None) -> list[str]:
    if labels is None:
        return []
    column, sizes = f" in column {_line(labels.column)}" if labels.column else "", labels.sizes
    lines = [f"- Labels: numbers{column}"]
    if sizes:
        rows = f"{sizes[-1]} to {sizes[0]}" if sizes[-1] < sizes[0] else f"{sizes[0]}"
        always = 100 * (1 - sizes[0] / sum(sizes))
        lines = [
            f"- Labels: {counted(len(sizes), 'class')}{column}, of {rows} rows each; always "
            f"naming the largest errs in {always:.1f} %"
        ]
    if labels.n_groups:
        lines.append(f"- Groups: {labels.n_groups}, never both learned from and tested on")
    return lines


def _line(text: str) -> str:
    """Return text of a file on one line, where it can't be a heading, a cell or HTML."""
    line = " ".join(text.split())
    return "".join(f"\\{letter}" if letter in "\\`*_<>[]|#" else letter for letter in line)
