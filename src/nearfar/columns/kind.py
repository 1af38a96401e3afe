"""What all kinds of columns share.

A kind is fitted to the cells of a column. What it learns (medians, levels) is a few numbers and
words, which JSON can hold; `transformer` returns the scikit-learn pipeline that learns the same.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass, fields
from typing import ClassVar, Self

from sklearn.base import TransformerMixin
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer

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

    @abstractmethod
    def _encoder(self) -> TransformerMixin:
        """Return the scikit-learn transformer that comes after `read`."""

    def transformer(self) -> Pipeline:
        """Return an unfitted scikit-learn transformer of a table with this column."""
        return make_pipeline(FunctionTransformer(self._read_column), self._encoder())

    def _read_column(self, frame: object) -> Array:
        return self.read(column_values(frame, self.name))

    def document(self) -> dict[str, object]:
        """Return the kind for JSON; as older versions wrote it, if they could."""
        added = {f.name: f.default for f in fields(self) if f.name in self.added}
        kept = [f.name for f in fields(self) if added.get(f.name, self) != getattr(self, f.name)]
        values = asdict(self)
        return {"kind": self.kind, **{name: values[name] for name in kept}}
