"""`nearfar threshold`: a certified threshold on the scores of a table of judged pairs."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

import polars as pl

from nearfar.frames.formats import read_frame
from nearfar.frames.judgements import read_truths
from nearfar.frames.reader import require_columns
from nearfar.frames.table import TableError
from nearfar.verification.threshold import Threshold
from nearfar.verification.threshold import threshold as certified


def threshold(
    pairs: str | PathLike[str],
    *,
    score: str = "score",
    same: str = "same",
    left: str | None = None,
    right: str | None = None,
    group: str | None = None,
    target: str = "fmr<=0.01",
    confidence: float = 0.95,
) -> Threshold:
    """Choose a threshold on a score, with a certified error rate.

    The score is that of any model, larger for pairs that are more alike. Ids of the two things of
    each pair (`left`, `right`) tell which pairs are not independent.

    Parameters
    ----------
    pairs: Table of judged pairs.
    score: Column of scores.
    same: Column of judgements: true or false.
    left: Column of the id of one thing of each pair.
    right: Column of the id of the other thing.
    group: Column of what pairs have in common, such as a user, instead of ids.
    target: "fmr<=0.01" (false match rate: the share of different pairs that are called the
        same), "precision>=0.99" or "recall>=0.9".
    confidence: Confidence with which `target` is certified, above 0.5 and below 1.
    """
    path = Path(pairs)
    frame = read_frame(path)
    require_columns(path, frame.columns, [n for n in (score, same, left, right, group) if n])
    scores = frame[score].cast(pl.Float64, strict=False)
    if not scores.is_finite().fill_null(False).all():
        raise TableError(f"{path} has values that are not numbers in column {score}.")
    ids = [None if name is None else frame[name].to_numpy() for name in (left, right, group)]
    return certified(
        scores.to_numpy(),
        read_truths(frame[same], path),
        target=target,
        left=ids[0],
        right=ids[1],
        groups=ids[2],
        confidence=confidence,
    )
