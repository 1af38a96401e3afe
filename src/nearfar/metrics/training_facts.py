"""What a metric's file has besides the metric: facts about the rows that it was learned from.

They are JSON in the metadata of the file: the spreads of the features, their shares of distances
("importance"), digests of some rows ("learned_from"), how neighbours vote ("votes"), what was
stated of the metric, a threshold for pairs, and where the file comes from ("provenance").

The model card of a metric is Markdown with the front matter that the Hugging Face hub reads.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import MISSING, asdict, dataclass, fields, is_dataclass, replace
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import numpy as np

from nearfar.columns.columns import column_examples
from nearfar.metrics.explanations import (
    Direction,
    feature_importances,
    feature_spreads,
    has_importances,
    leading_directions,
    several_features,
)
from nearfar.metrics.file_format import read_metadata
from nearfar.metrics.metric import HUB_FILE, Metric
from nearfar.metrics.points import DIGEST_BYTES, row_digests
from nearfar.runtime.messages import counted, note
from nearfar.runtime.tensor_file import Provenance
from nearfar.typing import Array, Floats, Ints, Json

T = TypeVar("T")

# Of more rows, those with the smallest digests are kept, a random sample of 150 kB.
_DIGESTS = 10_000
# Spreads and shares of features are those of a random sample of more numbers, as they take several
# copies in float64.
_FIGURE_VALUES = 1 << 22
MANY_LEARNED_FROM = 0.05
"""With a smaller share of known rows, figures are hardly better than on new ones."""
# Squares of larger numbers may overflow.
_LARGEST = 1e150


@dataclass(frozen=True)
class Importance:
    """Shares of the features, and leading directions."""

    shares: tuple[float, ...]
    directions: list[Direction]


@dataclass(frozen=True)
class Votes:
    """How neighbours vote best, and how that did on held-out rows.

    Attributes
    ----------
    classes: Digest of the names of the classes; empty for numbers.
    best: How many neighbours are best with a whole vote each.
    n_neighbors, decay, prior_rows, linear: As in `SoftVotes`.
    counted, stated, right: For each tenth of the stated probabilities, held-out rows, the sum
        of what is stated, and right ones, as in `Reliability`; empty for numbers.
    base, scores, n_rows: As in `Margins`; without scores for classes.
    """

    classes: str
    best: int
    n_neighbors: int
    decay: float = 0.0
    prior_rows: float = 0.0
    linear: int = 0
    counted: tuple[float, ...] = ()
    stated: tuple[float, ...] = ()
    right: tuple[float, ...] = ()
    base: float = 0.0
    scores: tuple[float, ...] = ()
    n_rows: int = 0


@dataclass(frozen=True)
class Threshold:
    """A threshold for pairs, and where it comes from.

    Attributes
    ----------
    value: Minus infinity if no pair is the same.
    criterion: What it was chosen by; None if it was given.
    pairs: Identifies the pairs that it was chosen on.
    """

    value: float
    criterion: str | None = None
    pairs: str | None = None


@dataclass(frozen=True)
class Stated:
    """What was stated of a metric when it was learned.

    Attributes
    ----------
    loss: Smaller is better.
    text: The figure in words, and what it was measured on.
    verdict: What a comparison found; empty without one.
    """

    measure: str
    loss: float
    text: str
    verdict: str = ""


@dataclass(frozen=True)
class LearnedLabels:
    """The labels that a metric was learned from; their column and numbers, not their names.

    Attributes
    ----------
    column: Empty if they have no name.
    sizes: Rows of each class, the largest first; none if the labels are numbers.
    n_groups: Of rows that were never both learned from and tested on; 0 without groups.
    """

    column: str
    sizes: list[int]
    n_groups: int = 0


def save_learned(
    metric: Metric,
    path: Path,
    X: Floats,
    votes: Votes | None = None,
    stated: Stated | None = None,
    labels: LearnedLabels | None = None,
) -> None:
    """Write a metric that was learned from X, with the spreads and shares of the features."""
    digests = row_digests(X)
    kept = np.unique(digests)[:_DIGESTS].tolist()
    verdict = "" if stated is None else stated.verdict or stated.text
    provenance = Provenance.now({"rows": len(X)}, digests, verdict)
    most = max(_DIGESTS, _FIGURE_VALUES // max(1, X.shape[1]))
    if len(X) > most:
        X = X[np.sort(np.random.RandomState(0).permutation(len(X))[:most])]
    metadata = {"learned_from": json.dumps([f"{digest:012x}" for digest in kept])}
    metadata |= provenance.metadata
    if stated is not None:
        metadata["stated"] = json.dumps(asdict(stated))
    if labels is not None:
        metadata["labels"] = json.dumps(asdict(labels))
    if votes is not None:
        metadata["votes"] = json.dumps(asdict(votes))
    if metric.feature_map is None:
        metadata["feature_spreads"] = json.dumps(feature_spreads(metric, X).tolist())
    if all(map(has_importances, metric.parts)):
        columns = several_features(metric)
        importance: list[Json] = []
        for part in metric.parts:
            try:
                shares = feature_importances(part, X)
                linear = part.feature_map is None
                directions = leading_directions(part, X, columns=columns) if linear else []
            except ValueError:  # all distances are zero
                importance.append(None)
            else:
                listed: list[Json] = [asdict(direction) for direction in directions]
                importance.append({"shares": shares.tolist(), "directions": listed})
        metadata["importance"] = json.dumps(importance)
    metric.save(path, metadata=metadata)


def share_learned_from(path: Path, X: Floats) -> float:
    """Return the share of rows that a metric was learned from; 0 if its file does not say.

    If the file has digests of a sample only, it is estimated from the rows whose digests would be
    in the sample.
    """
    stored, rows = stored_digests(path), row_digests(X)
    if len(stored) >= _DIGESTS:
        rows = rows[rows <= stored.max()]
    return float(np.isin(rows, stored).mean()) if len(rows) else 0.0


def stored_digests(path: Path) -> Ints:
    """Return the digests of rows that a metric was learned from; none if its file has none."""

    def digests(value: Json) -> list[int]:
        return [int(each, 16) for each in _checked(list[str], value)]

    return np.array(_stored(path, "learned_from", digests) or [], dtype=np.int64)


def note_learned_rows(path: Path, X: Floats) -> None:
    """Say that a metric is judged on rows that it was learned from, if they are many."""
    share = share_learned_from(path, X)
    if share > MANY_LEARNED_FROM:
        note(
            f"the metric was learned from {100 * share:.0f} % of these rows; on them it looks "
            "better than on new rows.",
            warning=True,
        )


def stored_importance(path: Path, metric: Metric) -> list[Importance | None]:
    """Return shares and directions of each part of a metric, on the rows it was learned from.

    They allow for correlations of features. They are None if the file does not have them.
    """

    def importance(value: Json) -> list[Importance | None]:
        parts: list[Importance | None] = _checked(list[Importance | None], value)
        if len(parts) != len(metric.parts):
            raise ValueError("There is one entry for each part.")
        if any(part is not None and len(part.shares) != metric.n_features for part in parts):
            raise ValueError("There is one share for each feature.")
        return parts

    return _stored(path, "importance", importance) or [None] * len(metric.parts)


def stored_spreads(path: Path) -> list[float] | None:
    """Return the spreads of the features that a metric was learned from, if its file has them."""

    def spreads(value: Json) -> list[float]:
        numbers: list[float] = _checked(list[float], value)
        if not all(0 <= number <= _LARGEST for number in numbers):
            raise ValueError("Spreads are not negative, and their squares are finite.")
        return numbers

    return _stored(path, "feature_spreads", spreads)


def stored_statement(source: Path | Mapping[str, str]) -> Stated | None:
    """Return what was stated of a metric when it was learned, if its file or metadata have it."""
    return _stored(source, "stated", partial(_checked, Stated))


def stored_labels(source: Path | Mapping[str, str]) -> LearnedLabels | None:
    """Return the labels that a metric was learned from, if its file or metadata have them."""
    return _stored(source, "labels", partial(_checked, LearnedLabels))


def class_digest(classes: Array) -> str:
    """Return what tells the classes of one table from those of another."""
    names = "\n".join(sorted(map(str, classes)))
    return blake2b(names.encode(), digest_size=DIGEST_BYTES).hexdigest()


def stored_votes(source: Path | Mapping[str, str]) -> Votes | None:
    """Return how neighbours vote best, if a metric's file or metadata have it."""

    def votes(value: Any) -> Votes:
        found: Votes = _checked(Votes, value)
        pairs = zip(found.right, found.counted, strict=True)
        least = min(found.decay, found.prior_rows, found.base, found.n_rows, *found.scores)
        if min(found.n_neighbors, found.best) < 1 or least < 0:
            raise ValueError("Nothing is negative, and a neighbour votes.")
        if len(found.stated) != len(found.right) or not all(0 <= a <= b for a, b in pairs):
            raise ValueError("Right rows are among those counted.")
        return found

    return _stored(source, "votes", votes)


def stored_threshold(source: Path | Mapping[str, str]) -> Threshold | None:
    """Return the threshold for pairs that a metric's file has, if there is one."""

    def threshold(value: Any) -> Threshold:
        if value["value"] is None:
            return replace(_checked(Threshold, value | {"value": 0}), value=-math.inf)
        return _checked(Threshold, value)

    return _stored(source, "threshold", threshold)


def save_threshold(path: Path, threshold: Threshold) -> None:
    """Add a threshold for pairs to a metric's file."""
    value = threshold.value if math.isfinite(threshold.value) else None
    text = json.dumps(asdict(threshold) | {"value": value})
    Metric.load(path).save(path, metadata=read_metadata(path) | {"threshold": text})


def _stored(source: Path | Mapping[str, str], key: str, parse: Callable[[Json], T]) -> T | None:
    """Return what a file or its metadata have under a key, or raise ValueError if it is damaged."""
    text = (read_metadata(source) if isinstance(source, Path) else source).get(key)
    if text is None:
        return None
    with suppress(LookupError, TypeError, ValueError, OverflowError, RecursionError):
        return parse(json.loads(text))
    where = source if isinstance(source, Path) else "The metric"
    raise ValueError(f"{where} has a damaged entry {key!r}; learn the metric again.")


def _checked(kind: Any, value: Any) -> Any:
    """Return JSON as a dataclass, list, text or number, or raise an error if it is another."""
    arguments = get_args(kind)
    if type(None) in arguments:
        return None if value is None else _checked(arguments[0], value)
    if isinstance(kind, type) and is_dataclass(kind):
        hints = get_type_hints(kind)
        names = [f.name for f in fields(kind) if f.default is MISSING or f.name in value]
        return kind(**{name: _checked(hints[name], value[name]) for name in names})
    expected: Any = {str: str, float: (int, float), int: (int, float)}.get(kind, list)
    if not isinstance(value, expected) or isinstance(value, bool):
        raise TypeError(f"not {kind}")
    if expected is list:
        return get_origin(kind)(_checked(arguments[0], each) for each in value)
    if kind is not str and not math.isfinite(value):
        raise ValueError("not finite")
    return kind(value)


_CARD = """\
---
library_name: nearfar
{license}tags: [metric-learning, nearest-neighbors]
---

# {title}

## Learned from

{facts}

## Input

{takes}

## Use

```python
from nearfar import Metric

metric = Metric.load("{file}")
metric.distances(rows[:1], rows)  # rows: a DataFrame or an array
```

## Limits

Figures are of the data above; other data may give others. The file may have names, levels and words
of columns, and hashes of rows.
"""


def model_card(metric: Metric, title: str, license: str = "") -> str:
    """Return the card of a metric, with the facts of its `metadata`."""
    known, columns = metric.metadata, metric.columns
    made, labels, votes = Provenance.read(known), stored_labels(known), stored_votes(known)
    unknown = "The file does not say what the metric was learned from."
    facts = [unknown] if made is None else str(made).splitlines()
    if made is None or not made.verdict:
        facts.append("No verdict: test whether the metric helps before you use it.")
    if labels is not None:
        column, what = f" in column {labels.column}" if labels.column else "", "numbers"
        if sizes := labels.sizes:
            errs = f"always naming the largest errs in {100 * (1 - sizes[0] / sum(sizes)):.1f}%"
            what = f"{len(sizes)} classes, of {sizes[-1]} to {sizes[0]} rows each; {errs}"
        groups = f"; {labels.n_groups} groups, each on one side of a split"
        facts.append(f"Labels{column}: {what}{groups if labels.n_groups else ''}")
    if votes is not None and votes.counted:
        of = f"right for {sum(votes.right):.0f} of {sum(votes.counted):.0f} held-out rows"
        facts.append(f"Predictions from {counted(votes.n_neighbors, 'neighbour')}: {of}")
    if (threshold := stored_threshold(known)) is not None:
        chosen = threshold.criterion or "given"
        facts.append(f"Threshold for pairs: {threshold.value:.6g} ({chosen})")
    takes = [*(metric.feature_names or [f"{counted(metric.n_features, 'number')} in each row"])]
    if columns is not None:
        takes = [f"{each.column}: {each.taken_as}" for each in column_examples(columns)]
    return _CARD.format(
        license=f"license: {json.dumps(license)}\n" if license else "",
        title=_line(title),
        facts="\n".join(f"- {_line(fact)}" for fact in facts),
        takes="\n".join(f"- {_line(column)}" for column in takes),
        file=HUB_FILE,
    )


def _line(text: str) -> str:
    """Return text of a file on one line, where it can't be a heading or HTML."""
    line = " ".join(text.split())
    return "".join(f"\\{letter}" if letter in "\\`*_<>[]|#" else letter for letter in line)
