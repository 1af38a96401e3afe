"""Columns of words, one feature per level."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Self

import numpy as np

from nearfar.columns.cells import Cells, is_missing, texts
from nearfar.columns.kind import MISSING, Kind
from nearfar.typing import Floats

OTHER = "(other)"
"""The level that stands for rare levels."""
_RARE_SHARE = 0.01


@dataclass(frozen=True)
class Category(Kind):
    """Words, one feature per level; rare levels are joined.

    Missing values are a level of their own. A level is rare if fewer than `min_frequency` rows
    have it. A level that was not seen counts as rare; if no level is, all features are 0.

    Attributes
    ----------
    levels : tuple of str
        The levels that are not rare.
    rare : bool
        Whether there is a feature for rare levels.
    min_frequency : int
        1 % of the rows, and at least 2.
    folded : bool
        Whether capital letters and additional spaces do not count, because some levels were
        written in several ways.
    respelled : tuple of str
        A spelling that is not its level's, and the level; empty if there is none.
    """

    kind = "category"
    added = ("folded", "respelled")

    levels: tuple[str, ...]
    rare: bool
    min_frequency: int = 2
    folded: bool = False
    respelled: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "levels", tuple(str(level) for level in self.levels))
        object.__setattr__(self, "rare", bool(self.rare))
        object.__setattr__(self, "respelled", tuple(str(word) for word in self.respelled))
        if not (self.levels or self.rare):
            raise ValueError(f"column {self.name!r} has no levels")

    @classmethod
    def fit(cls, name: str, values: Cells) -> Self:
        """Learn the levels; one that is written in several ways has the most frequent spelling."""
        least = least_frequency(len(values))
        words = Counter(texts(values).tolist())
        del words[None]
        spellings = {fold(word): word for word, _ in reversed(words.most_common())}
        folded = len(spellings) < len(words)
        plan = cls(name, tuple(spellings.values()), True, least, folded)
        counts = Counter(plan.read(values)[:, 0].tolist())
        joined = {level for level, count in counts.items() if count < least}
        levels = sorted(counts.keys() - joined)
        other = (w for w, _ in words.most_common() if w not in joined and w not in levels)
        respelled = [(word, spellings[fold(word)]) for word in other]
        kept = next((pair for pair in respelled if pair[1] in levels), ())
        return cls(name, tuple(levels), bool(joined), least, folded, kept)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the levels."""
        levels = (*self.levels, OTHER) if self.rare else self.levels
        return tuple(f"{self.name}={level}" for level in levels)

    def read(self, values: Cells) -> Cells:
        """Return the level of each row."""
        words = texts(values).copy()
        if self.folded:
            known = {fold(level): level for level in self.levels}
            words[:] = [w if w is None else known.get(fold(w), fold(w)) for w in words]
        words[is_missing(words)] = MISSING
        return words[:, None]

    def apply(self, values: Cells) -> Floats:
        """Return 1 for the level of each row, and 0 for the others."""
        place = {level: number for number, level in enumerate(self.levels)}
        number = np.array([place.get(word, len(place)) for word in self.read(values)[:, 0]])
        return np.eye(len(place) + 1)[number.astype(np.intp)][:, : len(self.feature_names)]

    def unseen(self, values: Cells, features: Floats) -> int:
        """Return how many cells have a level that is not one of the levels.

        `features` are those of the cells: only where no level is 1, cells are read.
        """
        other = ~features[:, : len(self.levels)].any(axis=1)
        return sum(word != MISSING for word in self.read(values[other])[:, 0])


def fold(word: str) -> str:
    """Return a word in small letters, with single spaces."""
    return " ".join(word.split()).casefold()


def least_frequency(n_rows: int) -> int:
    """Return how many rows a level has that is not rare."""
    return max(2, int(np.ceil(_RARE_SHARE * n_rows)))
