"""Free text as a few numbers: its words by TF-IDF, reduced by a truncated SVD."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Self

import numpy as np
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer

from nearfar.columns.cells import Cells, is_missing, texts
from nearfar.columns.kind import Kind
from nearfar.typing import Floats

# Together they bound the size of a metric file: about half a megabyte for each column.
_MOST_WORDS, _MOST_AXES = 1000, 20
_WORD = r"(?u)\b\w{2,40}\b"


@dataclass(frozen=True)
class FreeText(Kind):
    """Text, as its coordinates on the main axes of the words' TF-IDF weights.

    Rows without text, or without any of the words, are at the origin.

    Attributes
    ----------
    words : tuple of str
        The most frequent words that more than one row has.
    weights : tuple of float
        Inverse document frequencies of the words.
    axes : tuple of tuples of float
        Of shape (n_axes, n_words).
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
