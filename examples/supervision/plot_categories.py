"""
A table with categories and gaps
================================

Learners take numbers. `Columns` turns a DataFrame with categories, dates and missing values into
numbers, and the metric then takes such tables itself.
"""

import matplotlib.pyplot as plt
import numpy as np
import polars as pl
from sklearn.pipeline import make_pipeline

from nearfar import AutoMetric, Columns, plots

rng = np.random.default_rng(0)
n = 400
city = rng.choice(["Bonn", "Jena", "Kiel", "Ulm"], n)
age = rng.integers(18, 80, n)
plan = np.where(rng.random(n) < 0.5, "basic", "plus")
leaves = (age < 40) & (city != "Kiel") & (plan == "basic")
table = pl.DataFrame(
    {
        "age": [None if gap else int(a) for a, gap in zip(age, rng.random(n) < 0.05, strict=True)],
        "city": city,
        "plan": plan,
        "height": [f"{h:.0f} cm" for h in rng.normal(172, 9, n)],
        "steps": rng.normal(8000, 2500, n).round(),
    }
)
y = np.where(leaves, "leaves", "stays")

columns, auto = make_pipeline(Columns(), AutoMetric()).fit(table, y)
metric = auto.metric_.with_columns(columns)
print(auto.expected_)

# %%
# The metric takes the table, and says which columns matter.
fig, ax = plt.subplots(figsize=(6, 3.8), layout="constrained")
plots.importances(metric, table, ax=ax)
print(metric.distances(table[:2], table[:3]).round(2))
