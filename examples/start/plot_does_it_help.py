"""
Does learning help?
===================

Often a simple scaling is enough. `compare` cross-validates Euclidean distance, simple methods and
learners on the same folds, and says which one to use and how sure that is.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer

from nearfar import compare

X, y = load_breast_cancer(return_X_y=True)
found = compare(X, y, ["RCA", "NCA", "BoostMetric"])
print(found.classification.verdict.headline)

names = list(found)
errors = [100 * found[name].losses["error"].mean() for name in names]
baseline = errors[names.index(found.classification.verdict.reference)]

fig, ax = plt.subplots(figsize=(7, 3.8), layout="constrained")
ax.barh(names, errors, color=["C0" if error < baseline else "C7" for error in errors])
ax.axvline(baseline, color="C1", linestyle="--", label="Euclidean distance")
ax.invert_yaxis()
ax.set_xlabel("error of three neighbours, %")
ax.legend()

# %%
# The whole table, as a notebook shows it:
found
