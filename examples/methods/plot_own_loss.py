"""
Your own loss
=============

A loss is a function of margins, and ten lines are enough for one. This one is zero above 1,
quadratic down to 0, and linear below: wrong triplets pull with a bounded force.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine

from nearfar import BoostMetric
from nearfar.losses import Exponential, Logistic, Loss, SquaredHinge


class SmoothHinge(Loss):
    """Quadratic between 0 and 1, linear below."""

    def value(self, m):
        """Return the loss of each margin."""
        return np.where(m < 0, 0.5 - m, np.maximum(0, 1 - m) ** 2 / 2)

    def slope(self, m):
        """Return minus the derivative."""
        return np.clip(1 - m, 0, 1)

    def curvature(self, m):
        """Return the second derivative."""
        return np.where((m > 0) & (m < 1), 1.0, 0.0)


X, y = load_wine(return_X_y=True)
for loss in (Exponential(), Logistic(), SquaredHinge(), SmoothHinge()):
    learner = BoostMetric(loss=loss, random_state=0).fit(X, y)
    print(f"{type(loss).__name__:12} score {learner.score(X, y):.4f}, {learner.n_iter_} rounds")

# %%
# The losses as functions of one margin:
margins = np.linspace(-2, 3, 200)
fig, ax = plt.subplots(figsize=(6.5, 3.8), layout="constrained")
ax.plot(margins, np.exp(-margins), label="exponential")
ax.plot(margins, np.log1p(np.exp(-margins)), label="logistic")
ax.plot(margins, np.maximum(0, 1 - margins) ** 2, label="squared hinge")
ax.plot(margins, SmoothHinge().value(margins), linewidth=3, label="your own")
ax.set(xlabel="margin of a triplet", ylabel="loss", ylim=(0, 5))
ax.legend()
