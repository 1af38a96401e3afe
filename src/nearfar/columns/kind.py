"""What all kinds of columns share.

A kind is fitted to the cells of a column. What it learns (medians, levels) is a few numbers and
words, which JSON can hold; `Kind.again` learns it again from other rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass, fields
from typing import ClassVar, Self

from nearfar.columns.cells import Cells
from nearfar.typing import Array, Floats

MISSING = "(missing)"
"""Stands for missing values in the names of features."""


@dataclass(frozen=True)
class Kind(ABC):
    """A column, and what becomes of it.

    Attributes
    ----------
    name: Name of the column.
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
