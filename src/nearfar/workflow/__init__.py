"""The workflow as functions: what the commands do, for Python.

learning           `learn`: compare, decide, fit, explain; `Learned`
searching          `adapt`: the same for judged searches; `Adapted`
gating             `gate`: whether a new version is better than the old one; `Gated`
matching           `match`: records of tables that are the same; `Matched`
record_tables      tables of records, their ids, known pairs and questions
methods            methods by name, and which one is used
comparing          comparisons on a table: the folds it allows, and numbers to predict
fitting            a fit to all rows: its cost, its progress, what it found
checkpoint         interrupted work continues
reporting          the report on what was learned
prediction_table   predictions for new rows
neighbor_table     nearest rows, or best documents
decisions          whether pairs are the same
evaluation         a metric on labels, triplets and pairs
description        the file of a metric in figures
"""
