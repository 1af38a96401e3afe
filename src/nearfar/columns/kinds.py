"""The kinds of columns, by the name that JSON has for them."""

from __future__ import annotations

from nearfar.columns.category import Category
from nearfar.columns.free_text import FreeText
from nearfar.columns.kind import Kind
from nearfar.columns.measured import Boolean, Date, Number, Vector
from nearfar.columns.several_numbers import SeveralNumbers

KINDS: dict[str, type[Kind]] = {
    kind.kind: kind for kind in (Number, SeveralNumbers, Boolean, Date, Vector, Category, FreeText)
}

__all__ = [
    "KINDS",
    "Boolean",
    "Category",
    "Date",
    "FreeText",
    "Kind",
    "Number",
    "SeveralNumbers",
    "Vector",
]
