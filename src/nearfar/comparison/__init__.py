"""Compare learners with baselines and plain methods on the same folds.

compared_methods        what is compared: baselines, plain methods, learners
classifiers             logistic regression and gradient boosting, for comparison of errors
tasks                   what methods learn from and are scored on: labelled rows, triplets or pairs
scoring                 scores of a distance on the rows of a fold
splits                  the folds, and small samples of them
trials                  fits and scores a method on a training set
schedule                what to run within a time budget
fit_cost                how long that takes
method_results          results of a method, and of two methods on the same rows
significance            tests of the difference between two methods
gains                   expected gains over the baseline, and how sure they are
verdict                 which method to use: the answer of a comparison, and its categories
goal_verdict            how it is found, for metrics and for searches
wording                 the sentences that say so
runner                  compare: runs every method on every fold, or within a time budget
comparison_checkpoint   keeps finished results, so that an interrupted comparison can go on
results_table           a table as text and as HTML
table                   the result: its rows and columns, and a verdict in words

The measures are in `nearfar.evaluate.measures`.
"""

from nearfar.comparison.compared_methods import Method, default_methods, learned_method
from nearfar.comparison.gains import Gain
from nearfar.comparison.goal_verdict import GoalComparison
from nearfar.comparison.method_results import MethodResult
from nearfar.comparison.runner import compare
from nearfar.comparison.table import Comparison
from nearfar.comparison.verdict import Category, Verdict

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
