"""
Boosting, round by round
========================

`BoostMetric` adds one direction in each round: the one that helps most with the triplets that are
still in the wrong order. ``staged_metrics`` yields the metric after each round.
"""

import matplotlib.pyplot as plt
from matplotlib.animation import FuncAnimation

from nearfar import BoostMetric, datasets, plots
from nearfar.measures import leave_one_out_error
from nearfar.metrics.explanations import feature_importances

X, y = datasets.make_circles(300, n_features=10, n_classes=3, random_state=0)
learner = BoostMetric(max_iter=24, validation_fraction=None, random_state=0).fit(X, y)
stages = [learner.metric_.identity(10), *learner.staged_metrics()]

fig, (left, right) = plt.subplots(1, 2, figsize=(8.5, 4), layout="constrained")


def draw(round_number):
    """Draw the points and the shares of the columns after a round."""
    metric = stages[round_number]
    left.clear()
    right.clear()
    plots.projections(metric, X, y, axes=[left])
    right.bar(range(10), 100 * feature_importances(metric, X))
    right.set(ylim=(0, 60), xlabel="column", ylabel="share, %", xticks=range(10))
    left.set_title(f"round {round_number}")
    right.set_title(f"{leave_one_out_error(metric, X, y):.1%} error of three neighbours")


animation = FuncAnimation(fig, draw, frames=range(0, len(stages), 2), interval=500)

# %%
# The objective and what validates it, round by round:
axes = plots.iterations(learner.history_)
