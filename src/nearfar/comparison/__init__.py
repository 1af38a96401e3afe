"""Is it worth it? Learners beside doing nothing and beside plain methods, on the same folds.

contenders   who competes: doing nothing, plain methods, learners
judging      what a distance achieves on the rows of a fold
contest      who is worth it for a goal, beyond noise
race         every contender on every fold, or as far as a budget of time goes
table        the result: a table with marks and a verdict in words
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
