"""
Rows that belong together
=========================

Ten measurements of one patient resemble each other for reasons that have nothing to do with the
disease. If some of them are learned from and others tested on, every method looks too good.
``groups`` keeps the rows of a patient on one side.
"""

import matplotlib.pyplot as plt
import numpy as np

from nearfar import compare

rng = np.random.default_rng(0)
patient = np.repeat(np.arange(40), 10)
disease = rng.integers(0, 2, 40)[patient]
X = 2.0 * rng.normal(size=(40, 8))[patient] + 0.5 * rng.normal(size=(400, 8))
X[:, 0] += 1.5 * disease

methods = ["RCA", "BoostMetric"]
mixed = compare(X, disease, methods, classifiers=False)
apart = compare(X, disease, methods, groups=patient, classifiers=False)

names = [name for name in apart if name in mixed and name != "cosine"]
places = np.arange(len(names))
fig, ax = plt.subplots(figsize=(8, 3.8), layout="constrained")
for shift, found, label in ((-0.2, mixed, "rows mixed"), (0.2, apart, "patients kept together")):
    errors = [100 * found[name].losses["error"].mean() for name in names]
    ax.bar(places + shift, errors, 0.38, label=label)
ax.axhline(50, color="C7", linestyle=":", label="guessing")
ax.set_xticks(places, [name.replace(" ", "\n") for name in names])
ax.set_ylabel("error on new rows, %")
ax.legend()
