"""Compare learners with Euclidean distance and plain methods on the same folds.

methods        what is compared: baselines, plain methods, learners
scoring        scores of a distance on the rows of a fold
significance   which methods are clearly better than Euclidean distance, and which one to use
runner         runs every method on every fold, or as many as a time budget allows
checkpoint     keeps finished results, so that an interrupted comparison can go on
table          the result: a table with marks and a verdict in words
"""

from nearfar.comparison.methods import Method, default_methods, learners
from nearfar.comparison.runner import compare
from nearfar.comparison.significance import GoalComparison, MethodResult
from nearfar.comparison.table import Comparison

__all__ = [
    "Comparison",
    "GoalComparison",
    "Method",
    "MethodResult",
    "compare",
    "default_methods",
    "learners",
]
