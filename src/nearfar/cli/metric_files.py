"""Files that commands take: metrics and adapters to read and write, and paths to write to.

Beside a metric, its file may have, as JSON in the metadata, the spreads of the features that it was
learned from, their shares of distances, and a threshold for pairs.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from nearfar.cli.errors import UserError
from nearfar.metrics.file_format import read_metadata
from nearfar.metrics.importance import (
    Direction,
    feature_importances,
    feature_spreads,
    leading_directions,
    several_features,
)
from nearfar.metrics.metric import Metric
from nearfar.runtime.tensor_file import kind_of_file
from nearfar.tables.errors import no_file
from nearfar.tables.formats import FORMATS, STREAM, kind_of
from nearfar.typing import Floats, Vector

if TYPE_CHECKING:
    from nearfar.retrieval import RetrievalAdapter

T = TypeVar("T")

_SPREADS, _IMPORTANCE, _THRESHOLD = "feature_spreads", "importance", "threshold"
_ROWS = "learned_from"
_ROWS_KEPT, _DIGEST_BYTES = 200, 6
_LARGEST = 1e150
"""Squares of larger numbers may overflow."""


def load_metric(path: Path) -> Metric:
    """Read a metric's file."""
    if is_adapter(path):
        raise UserError(
            f"{path} is an adapter for searches, not a metric; transform, neighbors, show, export "
            "and search-report take it."
        )
    return Metric.load(path)


def is_adapter(path: Path) -> bool:
    """Tell whether a file is an adapter for searches; raise UserError if there is none."""
    if not path.is_file():
        raise no_file(path)
    return kind_of_file(path) == "adapter"


def load_adapter(path: Path) -> RetrievalAdapter:
    """Read an adapter's file."""
    from nearfar.retrieval import RetrievalAdapter

    if not is_adapter(path):
        raise UserError(f"{path} is not an adapter, as `nearfar adapt` writes it.")
    return RetrievalAdapter.load(path)


def save_metric(metric: Metric, path: Path, X: Floats) -> None:
    """Write a metric that was learned from X, with the spreads and shares of the features."""
    metadata = {_ROWS: json.dumps(_row_digests(X))}
    if metric.kernel_map is None:
        metadata[_SPREADS] = json.dumps(feature_spreads(metric, X).tolist())
        columns = several_features(metric)
        found = [_importance(part, X, columns) for part in metric.parts]
        metadata[_IMPORTANCE] = json.dumps(found)
    metric.save(path, metadata=metadata)


def _row_digests(X: Floats, *, every: bool = False) -> list[str]:
    """Return digests of some rows, evenly spaced, or of all."""
    places = np.arange(len(X))
    if not every and len(X) > _ROWS_KEPT:
        places = np.linspace(0, len(X) - 1, _ROWS_KEPT).astype(np.intp)
    rows = (np.asarray(X[place], dtype=np.float64).tobytes() for place in places)
    return [blake2b(row, digest_size=_DIGEST_BYTES).hexdigest() for row in rows]


def share_learned_from(path: Path, X: Floats) -> float:
    """Return the share of the rows that a metric was learned from which are among others.

    It is estimated from some rows, whose digests the file has; 0 without them.
    """
    known = _stored(path, _ROWS, _is_texts)
    if not known:
        return 0.0
    found = set(_row_digests(X, every=True))
    return sum(digest in found for digest in known) / len(known)


def _is_texts(found: Any) -> bool:
    return isinstance(found, list) and all(isinstance(text, str) for text in found)


def _importance(metric: Metric, X: Floats, columns: Sequence[str] | None) -> Any:
    """Return shares and directions as `nearfar show` takes them; None if distances are zero."""
    try:
        shares = feature_importances(metric, X)
        directions = leading_directions(metric, X, columns=columns)
    except ValueError:
        return None
    return {
        "shares": shares.tolist(),
        "directions": [asdict(direction) for direction in directions],
    }


def stored_importance(path: Path, metric: Metric) -> list[Importance | None]:
    """Return shares and directions of each part of a metric, on the rows it was learned from.

    They allow for correlations of features. They are None if the file does not have them.
    """

    def is_valid(found: Any) -> bool:
        return isinstance(found, list) and len(found) == len(metric.parts)

    found = _stored(path, _IMPORTANCE, is_valid) or [None] * len(metric.parts)
    try:
        return [None if part is None else Importance.of(part, metric.n_features) for part in found]
    except (LookupError, TypeError, ValueError):
        raise _damaged(path, _IMPORTANCE) from None


@dataclass(frozen=True)
class Importance:
    """Shares of the features, and leading directions."""

    shares: Vector
    directions: list[Direction]

    @classmethod
    def of(cls, document: dict[str, Any], n_features: int) -> Importance:
        """Check a part of the file."""
        shares = np.array(document["shares"], dtype=np.float64)
        directions = [
            Direction(
                float(known["share"]),
                tuple(map(str, known["features"])),
                tuple(map(float, known["loadings"])),
            )
            for known in document["directions"]
        ]
        if shares.shape != (n_features,) or not np.isfinite(shares).all():
            raise ValueError("There is one finite share for each feature.")
        return cls(shares, directions)


def stored_spreads(path: Path) -> list[float] | None:
    """Return the spreads of the features that a metric was learned from, if its file has them."""
    return _stored(path, _SPREADS, _is_spreads)


def _is_spreads(found: Any) -> bool:
    return isinstance(found, list) and all(
        _is_number(value) and 0 <= value <= _LARGEST for value in found
    )


def _is_threshold(found: Any) -> bool:
    texts = (str, type(None))
    return (
        isinstance(found, dict)
        and {"value", "criterion", "pairs"} <= found.keys()
        and (found["value"] is None or _is_number(found["value"]))
        and isinstance(found["criterion"], texts)
        and isinstance(found["pairs"], texts)
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def save_threshold(path: Path, threshold: dict[str, Any]) -> None:
    """Add a threshold for pairs to a metric's file."""
    metadata = read_metadata(path) | {_THRESHOLD: json.dumps(threshold)}
    Metric.load(path).save(path, metadata=metadata)


def stored_threshold(path: Path) -> dict[str, Any] | None:
    """Return the threshold for pairs that a metric's file has, if there is one.

    It has a `value` (None if no pair is the same), the `criterion` that it was chosen by, and what
    identifies the `pairs` that it was chosen on.
    """
    return _stored(path, _THRESHOLD, _is_threshold)


def _stored(path: Path, key: str, is_valid: Callable[[Any], bool]) -> Any:
    """Return what a metric's file has besides the metric, or raise UserError if it is damaged."""
    text = read_metadata(path).get(key)
    if text is None:
        return None
    with suppress(ValueError, OverflowError, RecursionError):
        found = json.loads(text)
        if is_valid(found):
            return found
    raise _damaged(path, key)


def _damaged(path: Path, key: str) -> UserError:
    return UserError(f"{path} has a damaged entry {key!r}; learn the metric again.")


def check_metric_output(path: Path, inputs: Iterable[str | Path | None] = ()) -> None:
    """Raise UserError unless a metric can be written there."""
    if str(path) == STREAM:
        raise UserError("A metric is written to a file, not to stdout; name it with --out.")
    check_output(path, None, inputs)
    if kind_of(path) in FORMATS:
        raise UserError(f"{path} has the name of a table; name the metric .safetensors.")


def check_output(
    path: Path, formats: tuple[str, ...] | None, inputs: Iterable[str | Path | None] = ()
) -> None:
    """Raise UserError unless a file of one of the formats can be written, and is not an input."""
    if str(path) == STREAM and formats is not None and ".csv" in formats:
        return
    if formats is not None and path.suffix.lower() not in formats:
        raise UserError(f"{path} cannot be written in this format; use {', '.join(formats)}.")
    if path.is_dir():
        raise UserError(f"{path} is a folder; name a file.")
    try:
        resolved = path.resolve()
    except (OSError, RuntimeError) as error:
        raise UserError(f"{path} is not a valid path: {error}") from error
    if resolved.is_symlink():
        raise UserError(f"{path} is not a valid path: it is a link that leads to itself.")
    folder = resolved.parent
    if not folder.is_dir():
        link = f", which {path} is a link to" if path.is_symlink() else ""
        raise UserError(f"There is no folder {folder if link else path.parent}{link}.")
    if path.exists() and not path.is_file():
        raise UserError(f"{path} is a device or a pipe; name a file.")
    if not os.access(folder, os.W_OK):
        raise UserError(f"The folder {folder} is not writable.")
    for given in inputs:
        if given is not None and path.exists() and Path(given).exists() and path.samefile(given):
            raise UserError(f"{path} is an input; name another file to write to.")
