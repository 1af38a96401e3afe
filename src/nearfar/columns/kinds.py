"""The kinds of columns, by the name that JSON has for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nearfar.columns.category import Category
from nearfar.columns.free_text import FreeText
from nearfar.columns.kind import Kind
from nearfar.columns.measured import Boolean, Date, Number, Vector
from nearfar.columns.several_numbers import SeveralNumbers

KINDS: dict[str, type[Kind]] = {
    kind.kind: kind for kind in (Number, SeveralNumbers, Boolean, Date, Vector, Category, FreeText)
}


def read_kind(document: Mapping[str, Any]) -> Kind:
    """Return the kind that wrote `Kind.document`."""
    parts = dict(document)
    if not isinstance(parts["name"], str):
        raise TypeError(f"{parts['name']!r} is not the name of a column")
    return KINDS[parts.pop("kind")](**parts)


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
    "read_kind",
]
