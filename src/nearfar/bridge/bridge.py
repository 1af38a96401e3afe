"""`Bridge`: new queries search old vectors.

A new embedding model gives other vectors than the old one, so that an index of old vectors cannot
be searched with new queries. From vectors of the same items by both models, a bridge learns a map
of new vectors into the space of the old ones. Items that were held out tell how many of the old
neighbours it keeps. The more vectors are searched, the fewer these are, so that the whole index is
searched, if that is given.

Queries are not like documents: a map that was learned from documents alone may keep half of the
neighbours of documents and hardly any of queries. Learned from both together, it fits documents, as
they are more. With queries, the map of the items is therefore corrected by ridge regression on what
it leaves over of the queries, and queries that were held out choose its form.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_array, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from nearfar.bridge.local import Regions, local, n_regions
from nearfar.bridge.maps import Centred, Ridge, orthogonal
from nearfar.bridge.recall import OldNeighbors, Recall
from nearfar.deploy.linear_map import LinearMap
from nearfar.metrics.learned_from import row_digests
from nearfar.numerics.missing import naming_remedies, refuse_masked
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
# Parts in which queries are held out.
_QUERY_FOLDS = 10
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
        items, or of queries if there are some, that are held out for this choice, and "local" only
        if it keeps more beyond noise.
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
        were held out, with an interval. It is for vectors like the items, not for queries that
        differ from them, and for an index of the size that was searched; in a larger one it is
        lower. ``print(bridge.recall_)`` writes a sentence.
    query_recall_ : Recall or None
        The same of queries, if `fit` gets some; each was mapped by a bridge that was not learned
        from it. None without queries: `recall_` then tells little of them.
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

    def fit(
        self,
        new: ArrayLike,
        old: ArrayLike,
        index: ArrayLike | None = None,
        *,
        queries: tuple[ArrayLike, ArrayLike] | None = None,
    ) -> Self:
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
        queries : pair of array-like, optional
            Vectors of queries by the new and by the old model, at least 20. The map is then for
            queries: they correct it, choose its form, and have a recall of their own.
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
        asked = None if queries is None else self._pair(queries, Y)
        searched = Y if index is None else _with_index(Y, index)
        with limited_threads():
            random = check_random_state(self.random_state)
            items = random.permutation(len(X))
            self.query_recall_: Recall | None = None
            if asked is not None:
                self.form_, self.query_recall_ = self._of_queries(X, Y, asked, searched, random)
            else:
                self.form_ = self._choose(X, Y, items, searched)
            size = max(2, round(self.test_fraction * len(items)))
            shares: list[Vector] = []
            for start in range(0, min(len(items), _MOST_SEARCHED), size):
                test = items[start : start + size][:_MOST_SEARCHED]
                rest = np.concatenate([items[start + size :], items[:start]])
                # Queries choose the form without a look at what items keep.
                form = self._choose(X, Y, rest, searched) if asked is None else self.form_
                partial = _corrected(_forms(X[rest], Y[rest], self.form)[form](), asked)
                neighbors = OldNeighbors(searched, test, self.n_neighbors)
                shares.append(neighbors.shares(_mapped(partial, X[test])))
            self.recall_ = Recall.of(np.concatenate(shares), self.n_neighbors, len(searched))
            self.linear_map_ = _corrected(_forms(X, Y, self.form)[self.form_](), asked)
        numbers = {"items": len(X)} | ({} if asked is None else {"queries": len(asked[0])})
        numbers |= {"vectors to search": len(searched)}
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
        header = {"version": "2" if local else "1", "form": self.form_, **self.recall_.header}
        if self.query_recall_ is not None:
            header["queries"] = json.dumps(self.query_recall_.header)
        header |= self.provenance_.metadata if self.provenance_ is not None else {}
        write_tensors(path, "bridge", arrays, header)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a bridge that `save` wrote."""
        with open_tensors(path, "bridge", versions=(1, 2)) as file:
            maps = (Regions(file["centers"]),) if "centers" in file else ()
            linear_map, header = LinearMap(file["L"], file["b"], maps=maps), file.metadata
            recall, form = Recall.read(header), header["form"]
            asked = json.loads(header.get("queries", "null"))
            provenance = Provenance.read(header)
            width = linear_map.n_features
            if maps:
                width = len(maps[0].centers) * (width + 1)
            if linear_map.L.ndim != 2 or linear_map.L.shape != (len(linear_map.b), width):
                raise ValueError("its arrays do not fit together")
        bridge = cls(n_neighbors=recall.n_neighbors)
        bridge.linear_map_, bridge.form_, bridge.recall_ = linear_map, form, recall
        bridge.query_recall_ = None if asked is None else Recall.read(asked, "queries")
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
        return _most_kept(shares)

    def _pair(self, queries: tuple[ArrayLike, ArrayLike], old: Floats) -> tuple[Floats, Floats]:
        """Return the new and the old vectors of queries."""
        new_queries, old_queries = queries
        with naming_remedies():
            Q: Floats = validate_data(self, new_queries, reset=False, dtype=_DTYPES)
            Z: Floats = check_array(old_queries, dtype=_DTYPES, input_name="old vectors of queries")
        if len(Q) != len(Z) or Z.shape[1] != old.shape[1]:
            raise ValueError(
                f"Queries need a new vector and an old one of length {old.shape[1]} each; got "
                f"{len(Q)} new vectors and {len(Z)} old ones of length {Z.shape[1]}."
            )
        if len(Q) < _FEWEST_ITEMS:
            raise ValueError(
                f"The recall for queries needs at least {_FEWEST_ITEMS} queries; got {len(Q)}."
            )
        return Q, Z

    def _of_queries(
        self,
        new: Floats,
        old: Floats,
        asked: tuple[Floats, Floats],
        searched: Floats,
        random: np.random.RandomState,
    ) -> tuple[str, Recall]:
        """Return the form that keeps most neighbours of queries, and what it keeps of others.

        For the recall, the form is chosen and the map corrected again without a part of them.
        """
        maps = {name: learn() for name, learn in _forms(new, old, self.form).items()}
        Q, Z = asked

        def shares(name: str, rest: Ints, test: Ints) -> Vector:
            neighbors = OldNeighbors(searched, None, self.n_neighbors, Z[test])
            return neighbors.shares(_mapped(_corrected(maps[name], (Q[rest], Z[rest])), Q[test]))

        def chosen(some: Ints) -> str:
            test, rest = np.split(some, [len(some) // 5])
            return _most_kept({name: shares(name, rest, test) for name in maps})

        order, found = random.permutation(len(Q)), []
        for test in np.array_split(order, _QUERY_FOLDS):
            rest = order[~np.isin(order, test)]
            found.append(shares(chosen(rest), rest, test))
        kept = np.concatenate(found)
        return chosen(order), Recall.of(kept, self.n_neighbors, len(searched), "queries")

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


def _most_kept(shares: dict[str, Vector]) -> str:
    """Return the form with the largest mean share, the first of ties; local if beyond noise."""
    linear = [name for name in shares if name != "local"]
    if not linear:
        return "local"
    best = max(linear, key=lambda name: float(shares[name].mean()))
    if "local" in shares:
        gain = shares["local"] - shares[best]
        if gain.mean() > gain.std() / len(gain) ** 0.5:
            return "local"
    return best


def _corrected(linear_map: LinearMap, queries: tuple[Floats, Floats] | None) -> LinearMap:
    """Add the ridge regression of what a map leaves over of queries to it."""
    if queries is None:
        return linear_map
    new, old = queries
    own = Ridge(Centred.of(new, old - _mapped(linear_map, new))).linear()
    if not linear_map.maps:
        return LinearMap(linear_map.L + own.L, linear_map.b + own.b)
    (regions,) = linear_map.maps
    each = np.tile(np.column_stack([own.L, own.b]), len(regions.centers))
    return LinearMap(linear_map.L + each, linear_map.b, maps=linear_map.maps)


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
