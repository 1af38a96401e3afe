"""Names in the documentation that are not nearfar's, in groups with the reason for each.

Add a name here only if it belongs to something else than nearfar. Single letters need no entry:
they are mathematics.
"""

from __future__ import annotations

from itertools import chain


def _words(groups: dict[str, str]) -> frozenset[str]:
    return frozenset(chain.from_iterable(text.split() for text in groups.values()))


NAMES = _words(
    {
        "Python": "None True False NaN dict print len slice TMPDIR",
        "other libraries": "np sklearn scipy ir_measures ranx",
        "scikit-learn: classes and functions": (
            "ColumnTransformer ConvergenceWarning FrozenEstimator GridSearchCV NearestNeighbors "
            "Nystroem StratifiedKFold check_scalar cross_val_score"
        ),
        "scikit-learn: inherited methods, attributes, and its word for weights": (
            "fit_transform set_params feature_names_in_ sample_weight"
        ),
        "SciPy: functions": "brentq logsumexp softmax",
        "faiss: kinds of an index": "IndexFlatL2 IndexPreTransform",
        "sentence-transformers: modules of a model": "Dense Normalize Router",
        "LlamaIndex: an inherited method": "get_text_embedding",
        "SVG: a colour": "currentColor",
        "pytest: our marker, in pyproject.toml": "slow",
        "pip: our extras, in pyproject.toml": "all excel",
        "arrays: attributes in expressions": "shape reshape",
    }
)

ON_PAGES = {
    "README.md": _words({"a column of the example": "species"}),
    "docs/reference/cli.md": _words(
        {
            "columns of tables in examples, and names that readers look for": (
                "customer_id emb id _id query_id doc_id"
            ),
            "cells that count as missing": "NA null",
            "methods as the command line spells them": "lda",
            "words of the output": "Next",
            "a variable of the reader": "df",
        }
    ),
    "docs/reference/columns.md": _words(
        {"columns of the example": "remarks zip", "skrub": "TableVectorizer"}
    ),
    "docs/from-metric-learn.md": _words(
        {
            "metric-learn: classes": "RCA_Supervised _Supervised",
            "metric-learn: parameters": (
                "preprocessor regularization balance_param sparsity_param calibration_params "
                "output_iter k_genuine k_impostor"
            ),
            "variables of the reader": "tuples",
        }
    ),
    "docs/reference/retrieval.md": _words({"columns of a table of clicks": "clicks impressions"}),
}
"""Names that only one page may use."""

NOT_PYTHON = frozenset({"FILE.comparison"})
"""Inline code that looks like Python: the name of a file that a command writes."""

VARIABLES = {
    "columns": "Columns",
    "constraints": "Triplets",
    "data": "FitInput",
    "found": "SearchComparison",
    "history_": "History",
    "learner": "MetricLearner",
    "metric": "Metric",
    "metric_": "Metric",
    "path": "MaxMarginPath",
    "rows": "Rows",
    "sql": "SqlMap",
    "triplets": "Triplets",
    "verifier": "PairVerifier",
}
"""Variables in inline code, and their classes."""

PATHS_ELSEWHERE = (
    ".venv/*",  # made by the reader
    ".ci/artefacts",  # made by .ci/run
    "*auto_examples/*",  # pages of the gallery, made by the site
    "docs/_build/*",  # the site
    "qrels/*.tsv",  # in a BEIR folder
    "N/A",  # a cell that counts as missing
    "2024/12/31",  # a date
)

OTHER_OPTIONS = frozenset({"--toy", "--install-completion"})
"""Options of other programs: of the benchmarks, and of all commands of typer."""
