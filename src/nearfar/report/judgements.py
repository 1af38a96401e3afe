"""What a report says about triplets and pairs."""

from __future__ import annotations

from typing import Any

import numpy as np

from nearfar.constraints import kind_of


def describe(judgements: Any) -> str:
    """Return the number of judgements in a sentence.

    Examples
    --------
    >>> from nearfar import Pairs
    >>> from nearfar.report.judgements import describe
    >>> describe(Pairs([[0, 1], [1, 2], [4, 5]], [True, False, False]))
    '3 pairs of 5 rows: 1 similar, 2 dissimilar.'
    """
    n_rows = len(np.unique(judgements.index))
    if kind_of(judgements) == "triplets":
        n_anchors = len(np.unique(judgements.index[:, 0]))
        said = f"{len(judgements)} triplets of {n_rows} rows, with {n_anchors} anchors."
    else:
        n_similar = int(judgements.similar.sum())
        kinds = f"{n_similar} similar, {len(judgements) - n_similar} dissimilar"
        said = f"{len(judgements)} pairs of {n_rows} rows: {kinds}."
    if judgements.n_raters < 2:
        return said
    return (
        f"{said} They are from {judgements.n_raters} people. No person is both learned from and "
        "tested on."
    )


def how_compared(supervision: str, judgements: Any = None) -> str:
    """Return what methods learn from and are tested on."""
    if judgements is not None and judgements.n_raters > 1:
        return (
            f"Every method learns from the {supervision} of some people and is tested on those of "
            "others."
        )
    return {
        "labels": "Every method is fitted to some rows and evaluated on others.",
        "triplets": "Every method learns from the triplets of some anchors and is tested on those "
        "of others.",
        "pairs": "Every method learns from some pairs and is tested on others that, as far as "
        "possible, share no rows or no class with them.",
    }[supervision]
