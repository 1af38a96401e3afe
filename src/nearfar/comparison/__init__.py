"""Compare learners with baselines and plain methods on the same folds.

compared_methods        what is compared: baselines, plain methods, learners
classifiers             logistic regression and gradient boosting, for comparison of errors
tasks                   what methods learn from and are scored on: labelled rows, triplets or pairs
scoring                 scores of a distance on the rows of a fold
splits                  the folds, and samples of them
time_limit              how many rows there is time for
runner                  compare: runs every method on every fold
comparison_checkpoint   keeps finished results, so that an interrupted comparison can go on
verdict                 the statistic of every comparison, its categories, and their rule
verdict_wording         the sentences that say so
goal_comparison         methods compared for one goal, and the verdict on them
table                   the result: its rows and columns, and a verdict in words

The measures are in `nearfar.measures.registry`.
"""

from nearfar.comparison.compared_methods import Method, default_methods, learned_method
from nearfar.comparison.goal_comparison import GoalComparison, MethodResult
from nearfar.comparison.runner import compare
from nearfar.comparison.table import Comparison
from nearfar.comparison.verdict import Category, Gain, Verdict

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
