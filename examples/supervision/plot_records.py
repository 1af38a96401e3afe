"""
The same person in two tables
=============================

Two tables have the same persons, with typing errors. `match` learns from the matches of some of
them, certifies its error, and finds the others.
"""

import matplotlib.pyplot as plt
import numpy as np
import polars as pl

import nearfar

rng = np.random.default_rng(0)
n = 500
given = rng.choice(["anna", "bruno", "clara", "david", "emma", "felix", "greta", "hugo"], n)
surname = rng.choice(["abel", "berger", "conrad", "dietz", "ebert", "fink", "graf", "hahn"], n)
street = rng.choice(["oak lane", "mill road", "park street", "church hill", "lake view"], n)
phone = rng.integers(2_000_000, 9_999_999, n).astype(str)


def mistyped(text):
    """Leave out a letter of four texts in ten."""
    place = rng.integers(len(text))
    return text[:place] + text[place + 1 :] if rng.random() < 0.4 else text


columns = {"given": given, "surname": surname, "street": street, "phone": phone}
left = pl.DataFrame({"id": np.arange(n), **columns})
right = pl.DataFrame(
    {"id": np.arange(n), **{k: [mistyped(str(c)) for c in v] for k, v in columns.items()}}
)
print(right.head(2))

# %%
# The matches of 350 persons are known. Half of these are learned from; the others certify the
# threshold.
known = pl.DataFrame({"left": np.arange(350), "right": np.arange(350)})
matched = nearfar.match(left, right, known, target="fmr<=0.001")
print(matched)

# %%
# The other 150 persons played no part.
found = matched.matches
other = found.candidates[:, 0] >= 350
same = found.candidates[:, 0] == found.candidates[:, 1]
pairs = found.pairs[found.pairs[:, 0] >= 350]
print(
    f"{(pairs[:, 0] == pairs[:, 1]).sum()} of 150 found, {(pairs[:, 0] != pairs[:, 1]).sum()} wrong"
)

fig, ax = plt.subplots(figsize=(7, 3.6), layout="constrained")
bins = np.linspace(found.scores.min(), found.scores.max(), 60)
for mask, name in ((same, "same person"), (~same, "different persons")):
    ax.hist(found.scores[other & mask], bins, alpha=0.6, label=name)
ax.axvline(matched.matcher.threshold_, color="C3", label="certified threshold")
ax.set(xlabel="log-odds that two records are the same", ylabel="candidates")
ax.legend()
print(matched.table.sort("probability").head(5))  # the least sure, with the fields that decided
