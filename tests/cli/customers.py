"""A table of customers with ids, categories, dates and missing values."""

from __future__ import annotations

import datetime

import numpy as np
import polars as pl


def customers(n=120):
    rng = np.random.default_rng(0)
    segment = np.arange(n) % 3
    days = [datetime.date(2020, 1, 1) + datetime.timedelta(days=int(d)) for d in range(0, 7 * n, 7)]
    table = pl.DataFrame(
        {
            "customer_id": [f"C-{i:04d}" for i in range(n)],
            "age": np.round(rng.normal(30 + 12 * segment, 6), 1),
            "city": np.array(["Bonn", "Köln", "Ulm"])[rng.integers(3, size=n)],
            "is_active": rng.random(n) < 0.3 + 0.2 * segment,
            "joined": [days[i] for i in rng.permutation(n)],
            "comment": [f"the comment of customer number {i}" for i in range(n)],
            "segment": np.array(["basic", "plus", "pro"])[segment],
        }
    )
    holes = pl.int_range(n) % 11 == 3
    return table.with_columns(pl.when(~holes).then(pl.col("age", "city", "joined")))
