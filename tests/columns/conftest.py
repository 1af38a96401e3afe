"""A table of customers, with everything that tables have."""

from __future__ import annotations

import datetime

import numpy as np
import polars as pl
import pytest


def some(rng, values, share=0.1):
    """Values, of which some are missing."""
    gone = rng.random(len(values)) < share
    return [None if missing else value for value, missing in zip(values, gone, strict=True)]


@pytest.fixture(scope="session")
def customers():
    rng = np.random.default_rng(0)
    n = 300
    start = datetime.datetime(2019, 3, 5, 6)
    days = [start + datetime.timedelta(days=float(d)) for d in rng.uniform(0, 900, n)]
    cities = rng.choice(["Bonn", "Köln", "Ulm", "Rheda"], n, p=[0.5, 0.3, 0.195, 0.005]).tolist()
    return pl.DataFrame(
        {
            "customer_id": rng.permutation(np.arange(n)) + 5000,
            "age": some(rng, rng.integers(18, 80, n).tolist()),
            "income": rng.lognormal(10, 1, n),
            "city": some(rng, cities),
            "active": some(rng, (rng.random(n) < 0.4).tolist()),
            "member": (rng.random(n) < 0.4).tolist(),
            "joined": some(rng, days),
            "born": [day.date() for day in days],
            "emb": [row.tolist() for row in rng.standard_normal((n, 3))],
            "comment": [f"this is the comment with number {i}" for i in range(n)],
        }
    )
