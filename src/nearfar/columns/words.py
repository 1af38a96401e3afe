"""Columns of words, one feature per level.

Free text as a few numbers: its words by TF-IDF, reduced by a truncated SVD.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from typing import Self

import numpy as np
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer

from nearfar.columns.cells import MISSING, Cells, Kind, is_missing, texts
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
    levels: The levels that are not rare.
    rare: Whether there is a feature for rare levels.
    min_frequency: 1 % of the rows, and at least 2.
    folded: Whether capital letters and additional spaces do not count, because some levels
        were written in several ways.
    respelled: A spelling that is not its level's, and the level; empty if there is none.
    rare_share: Share of the rows that had a rare level.
    """

    kind = "category"
    added = ("folded", "respelled", "rare_share")

    levels: tuple[str, ...]
    rare: bool
    min_frequency: int = 2
    folded: bool = False
    respelled: tuple[str, ...] = ()
    rare_share: float = 0.0

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
        share = sum(counts[level] for level in joined) / max(1, len(values))
        return cls(name, tuple(levels), bool(joined), least, folded, kept, share)

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


# Together they bound the size of a metric file: about half a megabyte for each column.
_MOST_WORDS, _MOST_AXES = 1000, 20
_WORD = r"(?u)\b\w{2,40}\b"


@dataclass(frozen=True)
class FreeText(Kind):
    """Text, as its coordinates on the main axes of the words' TF-IDF weights.

    Rows without text, or without any of the words, are at the origin.

    Attributes
    ----------
    words: The most frequent words that more than one row has.
    weights: Inverse document frequencies of the words.
    axes: Of shape (n_axes, n_words).
    """

    kind = "text"

    words: tuple[str, ...]
    weights: tuple[float, ...]
    axes: tuple[tuple[float, ...], ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "words", tuple(str(word) for word in self.words))
        object.__setattr__(self, "weights", tuple(float(weight) for weight in self.weights))
        axes = tuple(tuple(float(entry) for entry in axis) for axis in self.axes)
        object.__setattr__(self, "axes", axes)
        n_words = len(self.words)
        sizes = {len(self.weights), *map(len, axes)}
        if not axes or sizes != {n_words} or len(set(self.words)) < n_words:
            raise ValueError(f"column {self.name!r} needs a weight and an entry for each word")
        if not (np.isfinite(self.weights).all() and np.isfinite(axes).all()):
            raise ValueError(f"column {self.name!r} has words without finite weights")

    @classmethod
    def fit(cls, name: str, values: Cells) -> Self:
        """Learn the words and the axes."""
        cells = _texts(values)
        try:
            vectorizer = _vectorizer().fit(cells)
        except ValueError:
            raise ValueError("it has no words") from None
        with suppress(ValueError):
            # Words of a single row do not make rows similar.
            vectorizer = _vectorizer(min_df=2).fit(cells)
        words, weights = vectorizer.get_feature_names_out().tolist(), vectorizer.idf_.tolist()
        axes = np.eye(1)
        if len(words) > 1:
            svd = TruncatedSVD(min(_MOST_AXES, len(words)), random_state=0)
            # If all rows have the same words, shares of the variance are 0 / 0.
            with np.errstate(divide="ignore", invalid="ignore"):
                axes = svd.fit(vectorizer.transform(cells)).components_
        return cls(name, tuple(words), tuple(weights), tuple(map(tuple, axes.tolist())))

    def again(self, values: Cells) -> Self:
        """Learn the words and the axes; without words, nothing changes."""
        with suppress(ValueError):
            return type(self).fit(self.name, values)
        return self

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The column's name with the numbers of the axes, from 1."""
        return tuple(f"{self.name} (text {number + 1})" for number in range(len(self.axes)))

    def read(self, values: Cells) -> Cells:
        """Return the text of each row; it is empty if it is missing."""
        return _texts(values)

    def apply(self, values: Cells) -> Floats:
        """Return the coordinates of each row."""
        vectorizer = _vectorizer(vocabulary=list(self.words))
        vectorizer.idf_ = np.array(self.weights)
        return np.asarray(vectorizer.transform(self.read(values)) @ np.array(self.axes).T)


def _texts(values: Cells) -> Cells:
    cells = texts(values)
    cells[is_missing(cells)] = ""
    return cells


def _vectorizer(**options: int | list[str]) -> TfidfVectorizer:
    most = None if "vocabulary" in options else _MOST_WORDS
    return TfidfVectorizer(
        strip_accents="unicode",
        sublinear_tf=True,
        token_pattern=_WORD,
        max_features=most,
        **options,
    )
