"""What columns become, written with scikit-learn's transformers."""

from __future__ import annotations

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder

from nearfar.columns.cells import column_values
from nearfar.columns.guess import Category, FreeText


def column_transformer(columns):
    """Return a transformer whose cells are read by the kinds, and nothing else is."""
    pieces = [(kind.name, transformer(kind), [kind.name]) for kind in columns.kinds_]
    return ColumnTransformer(pieces, sparse_threshold=0.0)


def transformer(kind):
    read = FunctionTransformer(lambda frame: kind.read(column_values(frame, kind.name)))
    if isinstance(kind, Category):
        unknown = {"handle_unknown": "infrequent_if_exist", "sparse_output": False}
        return make_pipeline(read, OneHotEncoder(min_frequency=kind.min_frequency, **unknown))
    if isinstance(kind, FreeText):
        words = TfidfVectorizer(
            strip_accents="unicode",
            sublinear_tf=True,
            token_pattern=r"(?u)\b\w{2,40}\b",
            vocabulary=list(kind.words),
        )
        if len(kind.words) == 1:
            return make_pipeline(read, words)
        return make_pipeline(read, words, TruncatedSVD(len(kind.axes), random_state=0))
    imputer = SimpleImputer(strategy=kind.strategy, keep_empty_features=True)
    known = MissingIndicator(features="missing-only", error_on_new=False)
    return make_pipeline(read, make_union(imputer, make_pipeline(FunctionTransformer(gaps), known)))


def gaps(M):
    """Return a column that is nan where a row has a missing number."""
    return np.where(np.isnan(M).any(axis=1, keepdims=True), np.nan, 0.0)
