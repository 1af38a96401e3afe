"""
Same or different, with a certified threshold
=============================================

`PairVerifier` chooses the distance below which two rows count as the same person. With a target
such as "at most 1 % false matches", the threshold is certified for persons that it has not seen.
"""

import matplotlib.pyplot as plt
import numpy as np

from nearfar import RCA, PairVerifier

rng = np.random.default_rng(0)
person = np.repeat(np.arange(400), 4)
noise = 0.25 + 1.5 * (np.arange(16) >= 8)
X = rng.normal(size=(400, 16))[person] + noise * rng.normal(size=(1600, 16))
known = person < 300

verifier = PairVerifier(RCA(), target="fmr<=0.01", calibration=0.5, random_state=0)
verifier.fit(X[known], person[known])
point = verifier.operating_point_
print(f"measured {point.fmr:.2%}, certified to be at most {point.bound:.2%} (95 % confidence)")

# %%
# Persons 300 to 399 played no part. Their pairs fall on the right sides of the threshold.
fresh, who = X[~known], person[~known]
i, j = np.triu_indices(len(fresh), 1)
distances = verifier.metric_.pair_distances(fresh, np.column_stack([i, j]))
same = who[i] == who[j]

fig, ax = plt.subplots(figsize=(7, 3.8), layout="constrained")
bins = np.linspace(0, distances.max(), 60)
for mask, name in ((same, "same person"), (~same, "different persons")):
    ax.hist(distances[mask], bins, density=True, alpha=0.6, label=name)
ax.axvline(verifier.threshold_, color="C3", label="certified threshold")
ax.set(xlabel="learned distance", ylabel="density")
ax.legend()

near = distances <= verifier.threshold_
print(f"false matches {near[~same].mean():.2%}, same persons found {near[same].mean():.1%}")
