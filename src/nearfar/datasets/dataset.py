"""`Dataset`: rows with labels, triplets or other supervision, validated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType

import numpy as np

from nearfar.supervision.constraints import checked_rows
from nearfar.typing import Array, Floats, Ints


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Rows of features with their labels or triplets.

    Parameters
    ----------
    name : str
        The name for `load`.
    X : ndarray of shape (n, d)
        float32 or float64. Types that fit into float32 are converted to it, others to float64.
        Missing values are NaN.
    y : ndarray of shape (n,), optional
        Integer labels, starting at 0.
    target_names : tuple of str, optional
        Names of the labels; label c has the name at position c.
    feature_names : tuple of str, optional
        Names of the d columns.
    triplets : ndarray of shape (m, 3), optional
        Row numbers (anchor, near, far).
    extra : mapping of str to ndarray
        Other arrays such as `is_train` or `image_shape`; read-only, float16 becomes float32.
    description : str
        A one-line description.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.datasets import Dataset
    >>> Dataset("two", np.eye(2), y=np.array([0, 1]), description="Two corners")
    <Dataset two: 2 x 2, 2 classes; Two corners>
    """

    name: str
    X: Floats
    y: Ints | None = None
    target_names: tuple[str, ...] | None = None
    feature_names: tuple[str, ...] | None = None
    triplets: Ints | None = None
    extra: Mapping[str, Array] = field(default_factory=dict)
    description: str = ""

    def __post_init__(self) -> None:
        """Validate every field and convert it to its standard type."""
        X = _samples(self.X)
        y, triplets = self.y, self.triplets
        if y is not None:
            y = np.asarray(y)
            if y.shape != (len(X),):
                raise ValueError(f"y has shape {y.shape}, but X has {len(X)} rows.")
            if y.dtype.kind not in "biu":
                raise ValueError(f"y must have integer labels; got {y.dtype}.")
            if y.min() < 0:
                raise ValueError(f"y must have labels from 0; got {y.min()}.")
            y = y.astype(np.intp, copy=False)
        if triplets is not None:
            triplets = checked_rows(triplets, 3, "triplets")
            if triplets.size and triplets.max() >= len(X):
                raise ValueError(f"triplets refer to rows outside 0..{len(X) - 1}.")
        extra = {}
        for key, value in self.extra.items():
            array = np.asarray(value)
            view = array.astype(np.float32) if array.dtype == np.float16 else array.view()
            view.flags.writeable = False
            extra[key] = view
        canonical = {
            "X": X,
            "y": y,
            "target_names": _names(self.target_names, "target_names"),
            "feature_names": _names(self.feature_names, "feature_names"),
            "triplets": triplets,
            "extra": MappingProxyType(extra),
        }
        for name, checked in canonical.items():
            object.__setattr__(self, name, checked)
        if self.feature_names is not None and len(self.feature_names) != X.shape[1]:
            raise ValueError(f"{len(self.feature_names)} feature_names for {X.shape[1]} columns.")
        if self.target_names is not None and y is not None and y.max() >= len(self.target_names):
            raise ValueError(
                f"y has label {y.max()}, but there are {len(self.target_names)} target_names."
            )

    def __repr__(self) -> str:
        """Return one line: name, size, classes, triplets and description."""
        parts = [f"{self.X.shape[0]} x {self.X.shape[1]}"]
        if self.y is not None:
            parts.append(f"{len(np.unique(self.y))} classes")
        if self.triplets is not None:
            parts.append(f"{len(self.triplets)} triplets")
        tail = f"; {self.description}" if self.description else ""
        return f"<Dataset {self.name}: {', '.join(parts)}{tail}>"

    def __reduce__(self) -> tuple[type[Dataset], tuple[object, ...]]:
        """Pickle the fields: a mapping proxy cannot be pickled."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        values["extra"] = dict(self.extra)
        return type(self), tuple(values.values())


def _samples(X: object) -> Floats:
    """Return X as a 2-d float32 or float64 array."""
    array = np.asarray(X)
    if array.ndim != 2 or 0 in array.shape:
        raise ValueError(f"X must be a non-empty (n, d) array; got shape {array.shape}.")
    if array.dtype.kind not in "biuf":
        raise ValueError(f"X must be numeric; got {array.dtype}.")
    single = np.promote_types(array.dtype, np.float32) == np.float32
    return np.asarray(array, dtype=np.float32 if single else np.float64)


def _names(names: object, what: str) -> tuple[str, ...] | None:
    """Return names as a tuple of strings."""
    if names is None:
        return None
    array = np.asarray(names)
    if array.ndim != 1 or array.dtype.kind != "U":
        raise ValueError(f"{what} must be a list of strings; got {array.shape} of {array.dtype}.")
    return tuple(str(name) for name in array)
