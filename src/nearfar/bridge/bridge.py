"""`Bridge`: new queries search old vectors.

A new embedding model gives other vectors than the old one, so that an index of old vectors cannot
be searched with new queries. From vectors of the same items by both models, a bridge learns a map
of new vectors into the space of the old ones. Items that were held out tell how many of the old
neighbours it keeps. The more vectors are searched, the fewer these are, so that the whole index is
searched, if that is given.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_array, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from nearfar.bridge.local import Regions, local, n_regions
from nearfar.bridge.maps import Centred, Ridge, orthogonal
from nearfar.deploy.linear_map import LinearMap
from nearfar.evaluate.intervals import value_interval
from nearfar.metrics.learned_from import row_digests
from nearfar.numerics.missing import naming_remedies, refuse_masked
from nearfar.numerics.nearest_rows import NearestRows
from nearfar.runtime.parameters import ParameterRule, check_parameters, choice, integer, number
from nearfar.runtime.provenance import Provenance
from nearfar.runtime.tensor_file import open_tensors, write_tensors
from nearfar.runtime.threads import limited_threads
from nearfar.typing import Floats, Ints, Vector

_DTYPES = [np.float64, np.float32]
# With fewer, too few are left to learn from after two parts are held out.
_FEWEST_ITEMS = 20
# Parts of items are held out until so many were searched for: enough for an interval of about 2
# points.
_MOST_SEARCHED = 2000
# Variance of a mean relative to that of independent items: those held out together share a
# map. It is what searches have (`evaluate.measures`); `benchmarks/claims_search.py` counts.
_NOISE = 1.25
# Rows whose features of regions are held at a time.
_BLOCK = 1024
# Ranks to try, relative to the number of features; more would cost a fit each.
_RANK_SHARES = (1 / 8, 1 / 4, 1 / 2)


class Bridge(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """A map from the vectors of a new model to those of an old one.

    Parameters
    ----------
    form : {"auto", "orthogonal", "linear", "low-rank", "local"}, default="auto"
        A rotation with one scale, ridge regression, the same with a lower rank, or with a
        correction in each of up to 16 regions. "auto" takes the one that keeps most neighbours of
        items that are held out for this choice, and "local" only if it keeps more beyond noise.
    n_neighbors : int, default=10
        Neighbours of an item that are counted.
    test_fraction : float, default=0.1
        Share of the items that are held out to measure `recall_`. Further parts of this size follow
        until 2,000 items were held out, or all. The final map is learned from all items.
    random_state : int, RandomState instance or None, default=0
        Chooses the items that are held out.

    Attributes
    ----------
    linear_map_ : LinearMap
        The map, learned from all items.
    form_ : str
        Its form: "orthogonal", "linear", "local", or "low-rank" with its rank.
    recall_ : Recall
        What maps that were learned from the other items keep of the neighbours of the items that
        were held out, with an interval. It is for an index of the size that was searched, and lower
        in a larger one. ``print(bridge.recall_)`` writes a sentence.
    provenance_ : Provenance or None
        When it was learned, by which version and from how much; None if an earlier file does not
        say.
    n_features_in_ : int
        Number of features of new vectors.
    feature_names_in_ : array of str
        Their names, if `fit` gets a table with names.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar import Bridge
    >>> rng = np.random.default_rng(0)
    >>> old = rng.standard_normal((500, 8))
    >>> new = old @ np.linalg.qr(rng.standard_normal((8, 8)))[0] + 1
    >>> bridge = Bridge().fit(new, old)
    >>> bridge.form_, bridge.recall_.value
    ('orthogonal', 1.0)
    >>> np.allclose(bridge.transform(new), old)
    True
    """

    _parameter_rules: dict[str, ParameterRule] = {  # noqa: RUF012
        "form": choice("auto", "orthogonal", "linear", "low-rank", "local"),
        "n_neighbors": integer(at_least=1),
        "test_fraction": number(above=0.0, below=1.0),
    }

    def __init__(
        self,
        form: Literal["auto", "orthogonal", "linear", "low-rank", "local"] = "auto",
        *,
        n_neighbors: int = 10,
        test_fraction: float = 0.1,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        self.form = form
        self.n_neighbors = n_neighbors
        self.test_fraction = test_fraction
        self.random_state = random_state

    def fit(self, new: ArrayLike, old: ArrayLike, index: ArrayLike | None = None) -> Self:
        """Learn the map.

        Parameters
        ----------
        new : array-like of shape (n_samples, n_new)
            Vectors of the items by the new model.
        old : array-like of shape (n_samples, n_old)
            Vectors of the same items by the old model, in the same order.
        index : array-like of shape (n_index, n_old), optional
            All old vectors that will be searched; those of the items may be among them. Without it,
            `recall_` is for an index of these items alone.
        """
        check_parameters(self._parameter_rules, self.get_params())
        if old is None:
            raise ValueError(
                "Bridge requires y to be passed, but the target y is None: give the old vectors."
            )
        refuse_masked(new, "new")
        refuse_masked(old, "old")
        with naming_remedies():
            X: Floats = validate_data(self, new, dtype=_DTYPES, ensure_min_samples=2)
            Y: Floats = check_array(old, dtype=_DTYPES, input_name="old")
        if len(X) != len(Y):
            raise ValueError(
                f"New and old vectors must be of the same items; got {len(X)} and {len(Y)}."
            )
        if len(X) < max(_FEWEST_ITEMS, self.n_neighbors + 1):
            raise ValueError(
                f"A bridge needs at least {max(_FEWEST_ITEMS, self.n_neighbors + 1)} items; "
                f"got {len(X)}."
            )
        searched = Y if index is None else _with_index(Y, index)
        with limited_threads():
            items = check_random_state(self.random_state).permutation(len(X))
            size = max(2, round(self.test_fraction * len(items)))
            shares: list[Vector] = []
            for start in range(0, min(len(items), _MOST_SEARCHED), size):
                test = items[start : start + size][:_MOST_SEARCHED]
                rest = np.concatenate([items[start + size :], items[:start]])
                form = self._choose(X, Y, rest, searched)
                partial = _forms(X[rest], Y[rest], self.form)[form]()
                neighbors = OldNeighbors(searched, test, self.n_neighbors)
                shares.append(neighbors.shares(_mapped(partial, X[test])))
            self.recall_ = Recall.of(np.concatenate(shares), self.n_neighbors, len(searched))
            self.form_ = self._choose(X, Y, items, searched)
            self.linear_map_ = _forms(X, Y, self.form)[self.form_]()
        numbers = {"items": len(X), "vectors to search": len(searched)}
        self.provenance_: Provenance | None = Provenance.now(numbers, row_digests(X))
        return self

    def transform(self, new: ArrayLike) -> Floats:
        """Map new vectors to the space of the old ones; the result is float32 if they are."""
        check_is_fitted(self)
        refuse_masked(new, "new")
        with naming_remedies():
            vectors = validate_data(self, new, reset=False, dtype=_DTYPES, ensure_min_samples=0)
        return _mapped(self.linear_map_, vectors).astype(vectors.dtype, copy=False)

    @property
    def _n_features_out(self) -> int:
        return len(self.linear_map_.L)

    @property
    def linear_map(self) -> LinearMap:
        """The map, as the functions in `nearfar.deploy` take it."""
        check_is_fitted(self)
        return self.linear_map_

    def to_onnx(self, path: str | os.PathLike[str], *, dtype: str = "float32") -> None:
        """Write `transform` as an ONNX model, from the input "X" to the output "mapped".

        Parameters
        ----------
        path : path-like
        dtype : {"float32", "float64"}, default="float32"
            Type of the input, the output and the arithmetic. A vector on the border of two regions
            may be in the other one after rounding.
        """
        from nearfar.deploy.formats.onnx import write_onnx

        write_onnx(self.linear_map, path, dtype)

    def to_numpy(self, path: str | os.PathLike[str]) -> None:
        """Write `transform` for programs without nearfar, as a .py module or as .npz arrays."""
        from nearfar.deploy.formats.numpy_module import write_numpy

        write_numpy(self.linear_map, path, what="A bridge", use="New vectors become like old ones.")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the map to a safetensors file with the arrays L and b, and centers of regions.

        An existing file is replaced only once the new one is complete.
        """
        check_is_fitted(self)
        arrays = {"L": self.linear_map_.L, "b": self.linear_map_.b}
        local = bool(self.linear_map_.maps)
        arrays |= {"centers": self.linear_map_.maps[0].centers} if local else {}
        recall = {name: repr(value) for name, value in vars(self.recall_).items()}
        header = {"version": "2" if local else "1", "form": self.form_, **recall}
        header |= self.provenance_.metadata if self.provenance_ is not None else {}
        write_tensors(path, "bridge", arrays, header)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a bridge that `save` wrote."""
        with open_tensors(path, "bridge", versions=(1, 2)) as file:
            maps = (Regions(file["centers"]),) if "centers" in file else ()
            linear_map, header = LinearMap(file["L"], file["b"], maps=maps), file.metadata
            value, low, high = (float(header[name]) for name in ("value", "low", "high"))
            # Files of version 0.1 do not say how many vectors were searched.
            numbers = (int(header.get(n, 0)) for n in ("n_items", "n_neighbors", "n_searched"))
            recall, form = Recall(value, low, high, *numbers), header["form"]
            provenance = Provenance.read(header)
            width = linear_map.n_features
            if maps:
                width = len(maps[0].centers) * (width + 1)
            if linear_map.L.ndim != 2 or linear_map.L.shape != (len(linear_map.b), width):
                raise ValueError("its arrays do not fit together")
        bridge = cls(n_neighbors=recall.n_neighbors)
        bridge.linear_map_, bridge.form_, bridge.recall_ = linear_map, form, recall
        bridge.n_features_in_, bridge.provenance_ = linear_map.n_features, provenance
        return bridge

    def _choose(self, new: Floats, old: Floats, items: Ints, searched: Floats) -> str:
        """Return the form that keeps most neighbours of held-out items, the first of ties."""
        n_held_out = max(2, len(items) // 5)
        held_out, rest = items[:n_held_out][:_MOST_SEARCHED], items[n_held_out:]
        forms = _forms(new[rest], old[rest], self.form)
        if len(forms) == 1:
            return next(iter(forms))
        neighbors = OldNeighbors(searched, held_out, self.n_neighbors)
        shares = {
            name: neighbors.shares(_mapped(learn(), new[held_out])) for name, learn in forms.items()
        }
        linear = [name for name in forms if name != "local"]
        best = max(linear, key=lambda name: float(shares[name].mean()))
        if "local" in forms:
            gain = shares["local"] - shares[best]
            if gain.mean() > gain.std() / len(gain) ** 0.5:
                return "local"
        return best

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.single_output, tags.target_tags.multi_output = False, True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _forms(new: Floats, old: Floats, form: str) -> dict[str, Callable[[], LinearMap]]:
    """Return what learns a map of each form to be tried, the simplest first."""
    data = Centred.of(new, old)
    forms: dict[str, Callable[[], LinearMap]] = {}
    if form in ("auto", "orthogonal"):
        forms["orthogonal"] = lambda: orthogonal(data)
    if form == "orthogonal":
        return forms
    ridge = Ridge(data)
    if form in ("auto", "low-rank"):
        most = min(data.X.shape[1], data.Y.shape[1])
        for rank in sorted({max(1, round(share * most)) for share in _RANK_SHARES}):
            forms[f"low-rank {rank}"] = lambda rank=rank: ridge.low_rank(rank)  # type: ignore[misc]
    if form in ("auto", "linear"):
        forms["linear"] = ridge.linear
    if form in ("auto", "local") and n_regions(len(new)) > 1:
        forms["local"] = lambda: local(new, old, ridge.linear())
    if not forms:
        raise ValueError('Too few items for form="local": at least about 300 are needed.')
    return forms


def _with_index(old: Floats, index: ArrayLike) -> Floats:
    """Return the old vectors of the items, and those of the index that are not among them."""
    others: Floats = check_array(index, dtype=_DTYPES, input_name="index")
    if others.shape[1] != old.shape[1]:
        raise ValueError(
            f"The index has {others.shape[1]} columns, and the old vectors have {old.shape[1]}."
        )
    # In float32, as most indexes are.
    known = np.isin(row_digests(others.astype(np.float32)), row_digests(old.astype(np.float32)))
    return np.concatenate([old, others[~known]])


def _mapped(linear_map: LinearMap, vectors: Floats) -> Floats:
    if not linear_map.maps:
        return np.asarray(vectors @ linear_map.L.T + linear_map.b)
    (regions,) = linear_map.maps
    parts = np.array_split(vectors, 1 + len(vectors) // _BLOCK)
    return np.concatenate([regions.features(part) @ linear_map.L.T for part in parts])


@dataclass(frozen=True)
class Recall:
    """Share of the old neighbours that mapped new vectors find, on items not learned from.

    Attributes
    ----------
    value : float
    low, high : float
        90 % interval.
    n_items : int
        Items whose neighbours were searched.
    n_neighbors : int
    n_searched : int
        Number of old vectors that were searched. In a larger index, fewer neighbours are found.
    """

    value: float
    low: float
    high: float
    n_items: int
    n_neighbors: int
    n_searched: int

    @classmethod
    def of(cls, shares: Vector, n_neighbors: int, n_searched: int) -> Recall:
        """Average the shares of the items.

        Examples
        --------
        >>> import numpy as np
        >>> from nearfar.bridge import Recall
        >>> print(Recall.of(np.array([0.8, 0.9, 1.0, 0.9]), 10, 500))
        New vectors find 90.0 % (81.6 % to 94.8 %) of the 10 nearest of 500 old vectors, on 4 ...
        """
        low, high = value_interval(shares, _NOISE)
        return cls(float(shares.mean()), low, high, len(shares), n_neighbors, n_searched)

    def __str__(self) -> str:
        return (
            f"New vectors find {self.value:.1%} ({self.low:.1%} to {self.high:.1%}) of the "
            f"{self.n_neighbors} nearest of {self.n_searched:,} old vectors, on {self.n_items:,} "
            "items that were not learned from. In a larger index they find fewer."
        ).replace("%", " %")


class OldNeighbors:
    """The neighbours of items among the old vectors.

    Parameters
    ----------
    old : array of shape (n_samples, n_old)
    items : array of int
        Rows whose neighbours are searched; they do not find themselves.
    n_neighbors : int
    """

    def __init__(self, old: Floats, items: Ints, n_neighbors: int) -> None:
        self.items, self.k = items, n_neighbors
        self.mean = old.mean(axis=0, dtype=np.float64)
        self.rows = NearestRows(old - self.mean)
        self.expected = self._nearest(old[items])

    def shares(self, mapped: Floats) -> Vector:
        """Return how many of an item's neighbours its mapped new vector finds, as shares."""
        nearest = self._nearest(mapped)
        hits = (nearest[:, :, None] == self.expected[:, None, :]).any(axis=2)
        return np.asarray(hits.mean(axis=1))

    def _nearest(self, vectors: Floats) -> Ints:
        return self.rows.nearest(vectors - self.mean, self.k, self.items)[1]
