"""What all kinds of columns share.

A kind is fitted to the cells of a column. What it learns (medians, levels) is a few numbers and
words, which JSON can hold. `KindTransformer` learns it again from other rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass, fields
from typing import ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin

from nearfar.columns.cells import Cells, column_values
from nearfar.typing import Array, Floats

MISSING = "(missing)"
"""Stands for missing values in the names of features."""


@dataclass(frozen=True)
class Kind(ABC):
    """A column, and what becomes of it.

    Attributes
    ----------
    name : str
        Name of the column.
    """

    name: str

    kind: ClassVar[str]
    """What JSON calls it."""
    added: ClassVar[tuple[str, ...]] = ()
    """Fields that files of older versions do not have."""

    @classmethod
    @abstractmethod
    def fit(cls, name: str, values: Cells) -> Self:
        """Learn from the cells of a column."""

    @property
    @abstractmethod
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features that the column becomes."""

    @abstractmethod
    def read(self, values: Cells) -> Array:
        """Return cells as the scikit-learn transformers take them, one row each."""

    @abstractmethod
    def apply(self, values: Cells) -> Floats:
        """Return the features, of shape (n_rows, n_features)."""

    def again(self, values: Cells) -> Self:
        """Learn from other cells, which are read in the same way."""
        return type(self).fit(self.name, values)

    def document(self) -> dict[str, object]:
        """Return the kind for JSON; as older versions wrote it, if they could."""
        added = {f.name: f.default for f in fields(self) if f.name in self.added}
        kept = [f.name for f in fields(self) if added.get(f.name, self) != getattr(self, f.name)]
        values = asdict(self)
        return {"kind": self.kind, **{name: values[name] for name in kept}}


class KindTransformer(TransformerMixin, BaseEstimator):
    """A column in scikit-learn's pipelines: learned again from the rows that it is fitted to.

    Parameters
    ----------
    kind : Kind
        How cells are read; its medians, levels and words are not used.
    """

    def __init__(self, kind: Kind) -> None:
        self.kind = kind

    def fit(self, X: object, y: object = None) -> Self:
        """Learn from a table with this column."""
        self.kind_ = self.kind.again(column_values(X, self.kind.name))
        return self

    def transform(self, X: object) -> Floats:
        """Return the features of a table."""
        return self.kind_.apply(column_values(X, self.kind.name))

    def get_feature_names_out(self, input_features: object = None) -> Array:
        """Return the names of the features."""
        return np.array(self.kind_.feature_names, dtype=object)
