"""Compare learners with baselines and plain methods on the same folds.

methods       what is compared: baselines, plain methods, learners, reference classifiers
tasks         the folds; what methods learn from and are scored on: labelled rows, triplets or pairs
runner        compare: runs every method on every fold, of as many rows as there is time for
checkpoint    keeps finished results, so that an interrupted comparison can go on
goals         methods compared for one goal, and the verdict on them
table         the result: its rows and columns, and a verdict in words

The measures are in `nearfar.measures.registry`.
"""

from nearfar.comparison.goals import GoalComparison, MethodResult
from nearfar.comparison.methods import Method, default_methods, learned_method
from nearfar.comparison.runner import compare
from nearfar.comparison.table import Comparison
from nearfar.evidence.gain import Gain
from nearfar.evidence.verdict import Category, Verdict

__all__ = [
    "Category",
    "Comparison",
    "Gain",
    "GoalComparison",
    "Method",
    "MethodResult",
    "Verdict",
    "compare",
    "default_methods",
    "learned_method",
]
