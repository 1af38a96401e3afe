"""
Pipelines and grid search
=========================

Learners are scikit-learn transformers. In a pipeline they stand before any classifier, and their
parameters can be searched.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

from nearfar import LFDA

X, y = load_digits(return_X_y=True)
pipeline = make_pipeline(PCA(30), LFDA(), KNeighborsClassifier(3))
grid = {"lfda__n_components": [2, 5, 9, 20], "kneighborsclassifier__n_neighbors": [1, 5]}
search = GridSearchCV(pipeline, grid, cv=3).fit(X, y)

fig, ax = plt.subplots(figsize=(6, 3.8), layout="constrained")
for k in (1, 5):
    mine = search.cv_results_["param_kneighborsclassifier__n_neighbors"] == k
    sizes = search.cv_results_["param_lfda__n_components"][mine].astype(int)
    ax.plot(sizes, search.cv_results_["mean_test_score"][mine], "o-", label=f"{k} neighbours")
ax.set(xlabel="components of the metric", ylabel="accuracy, three folds")
ax.legend()

# %%
print(search.best_params_)
