"""The workflow as functions: what the commands do, for Python.

learning         `learn`: compare, decide, fit, explain; `Learned`
searching        `adapt`: the same for judged searches; `Adapted`
methods          methods by name, and which one is used
comparing        comparisons on a table: the folds it allows, and numbers to predict
fitting          a fit to all rows: its cost, its progress, what it found
checkpoint       interrupted work continues
reporting        the report on what was learned
training_table   rows with what is known of their similarity
"""

from nearfar.workflow.learning import Learned, learn

__all__ = ["Learned", "learn"]
