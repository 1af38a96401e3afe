"""Checks what is compared, and runs every method on every fold or within a time budget."""

from __future__ import annotations

import os
import time
from importlib.metadata import version
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state
from sklearn.utils.validation import _num_samples, check_array, check_X_y

from nearfar.comparison.classifiers import reference_classifiers
from nearfar.comparison.compared_methods import Learners, default_methods
from nearfar.comparison.comparison_checkpoint import ComparisonCheckpoint
from nearfar.comparison.schedule import run_within
from nearfar.comparison.splits import checked_count, folds_among, is_count
from nearfar.comparison.table import Comparison
from nearfar.comparison.tasks import ComparisonTask, Features, JudgedRows, LabelledRows
from nearfar.comparison.trials import Progress, TrialRunner
from nearfar.constraints import Copies, Pairs, Supervision, Triplets, keep_copies_together, kind_of
from nearfar.constraints.supervision import are_numbers, warn_of_integers
from nearfar.evaluate.measures import measures_for
from nearfar.learners.pipelines import Estimator
from nearfar.numerics.missing import (
    at_rows,
    labelled_rows,
    naming_remedies,
    refuse_masked,
    refuse_missing,
)
from nearfar.runtime.deadline import Clock
from nearfar.runtime.parameters import check_parameters, choice, number
from nearfar.typing import Floats


def compare(
    X: ArrayLike,
    y: ArrayLike | Triplets | Pairs,
    learners: Learners = None,
    *,
    cv: object = 5,
    groups: ArrayLike | None = None,
    split: Literal["rows", "classes"] = "rows",
    n_neighbors: int | Literal["auto"] = 3,
    numbers: bool | None = None,
    classifiers: bool = True,
    features: Estimator = None,
    budget: float | None = None,
    random_state: int | None = 0,
    progress: Progress | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    clock: Clock = time.perf_counter,
) -> Comparison:
    """Compare learners with Euclidean distance and plain methods, on the same folds.

    The baselines are Euclidean distance on unscaled and on standardised rows. The plain methods are
    cosine distance, L1, chi-square (on unscaled rows, if no value is negative), the inverse
    covariance, and for labels scikit-learn's linear discriminant analysis. The verdict compares
    with the better baseline or, if that is probably better, as it often is for embeddings, with
    cosine distance.

    Labels are scored by classification and ranking of held-out rows, numbers by R2 of the mean of
    neighbours, triplets by the share of held-out ones in the right order, pairs by the area under
    the ROC curve of held-out ones (`nearfar.evaluate.measures`).

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
    y : array-like of shape (n_samples,), Triplets or Pairs
        Class labels, numbers or judgements. Rows that -1 marks as unlabelled are left out, with a
        warning.
    learners : mapping of str to estimator, or iterable of estimators or names, optional
        By default the usual ones that can learn from y (`DEFAULT_LEARNERS` in
        `nearfar.comparison.compared_methods`). "all" means every learner, and scikit-learn's NCA.
        An estimator needs `fit` and `transform`. All steps of a pipeline are fitted inside each
        fold.
    cv : int, splitter or iterable, default=5
        An integer is a number of shuffled, stratified folds: of rows, of the anchors of triplets,
        or of connected groups of pairs (`Pairs.folds`); if most pairs are connected, of the rows
        that similar pairs join. Others split the rows or the judgements.
    groups : array-like of shape (n_samples,), optional
        The group of each row, such as a person or a document: rows of one group are never on both
        sides of a fold, nor of the splits that nearfar's learners validate on. Other estimators
        are fitted without groups. Significance, gains and intervals count groups instead of rows.
        With split="classes", classes that share a group stay together. Triplets and pairs between
        groups that are learned from and groups that are held out are dropped; `cv` is then a
        number of folds. By default, copies of a row are a group, and judgements of copies count as
        judgements of the first of them, unless `cv` is a splitter.
    split : {"rows", "classes"}, default="rows"
        What folds of labels hold out. With "classes", methods learn from some classes, and rows of
        the others are classified and ranked by each other: it is how a metric does on classes that
        it has never seen. Learners are then validated on held-out classes, too
        (`validation="classes"`, with `validation_fraction=0.2` where that is None), and
        significance counts classes instead of rows.
    n_neighbors : int or "auto", default=3
        Number of neighbours that vote. "auto" chooses it for each method and fold: for half of the
        test rows it is the best one for the other half. Errors are then lower, but verdicts are
        surer than they should be: they do not allow for the noise of that choice.
    numbers : bool, optional
        Whether y has numbers to predict, not classes; by default if they are not all whole, or
        floats of more than 30 values, most with fewer than five rows.
    classifiers : bool, default=True
        Whether logistic regression (ridge regression for numbers) and gradient boosting predict the
        same test rows. They are no
        metrics, but tell which error can be expected; they learn from at most 20,000 rows, and are
        not recommended. Not with split="classes".
    features : transformer, optional
        Makes numbers of X, which may then be a table with text, for all methods, such as
        `Columns()`. It is fitted to the training rows of each fold.
    budget : float, optional
        Time limit in seconds. Every method first runs on a small sample of one fold, the better
        half of the learners then on more rows, and the best on all folds. Methods that do not
        finish are shown with the results they have, and the verdict begins with their names.
        Fits of nearfar's learners stop between iterations; a fit of another estimator is not
        interrupted. If the time is long enough, the result is the same as without a limit.
    random_state : int or None, default=0
        Seed of the folds and of the learners.
    progress : callable, optional
        Called with the number of fits done, their total (with a budget, an estimate), and what is
        next: the method, the fold and the number of training rows.
    checkpoint : path-like, optional
        A file that keeps finished results. If it exists, its results are used instead of running
        those fits again, and the time they took counts towards the budget. It must come from a
        comparison of the same data, folds, `n_neighbors` and `random_state`. The file is not
        deleted at the end: delete it when it is no longer needed.
    clock : callable, default=time.perf_counter
        Returns the time in seconds.

    Returns
    -------
    Comparison
        Prints as a table with a verdict.

    Notes
    -----
    The error of the best of many methods is optimistic: expect slightly more on new rows.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from nearfar import compare
    >>> found = compare(*load_wine(return_X_y=True), ["BoostMetric"])
    >>> found["LDA"].error < found["Euclidean (unscaled)"].error
    True
    >>> found.ranking.winner.name
    'LDA'

    Triplets and pairs are compared in the same way.

    >>> import numpy as np
    >>> from nearfar import RandomPairs
    >>> X, y = load_wine(return_X_y=True)
    >>> pairs = RandomPairs(1000)(X, y, np.random.RandomState(0))
    >>> compare(X, pairs, ["RCA"]).by_goal("pairs").verdict.category
    'clearly better'
    """
    start = clock()
    check_parameters({"split": choice("rows", "classes")}, {"split": split})
    if budget is not None:
        check_parameters({"budget": number(at_least=0.0)}, {"budget": budget})
    if checkpoint is not None and random_state is None:
        raise ValueError("A checkpoint needs an integer random_state.")
    seed = int(check_random_state(random_state).randint(1 << 31))
    numbers = are_numbers(y) if numbers is None else numbers
    kind = kind_of(y, numbers=numbers)
    refuse_masked(X, "X")
    if kind == "chunklets":
        raise ValueError("Chunklets cannot be held out; give labels, Triplets or Pairs.")
    labels, made = None, None
    if kind == "labels":
        refuse_missing(y, "y")
        if (rows := labelled_rows(y)) is not None:
            cv = cv if split == "classes" else folds_among(rows, cv, np.asarray(y), groups)
            X, y, groups = at_rows(rows, X, y, groups)
    if features is not None:
        made = Features(X, features)
        X = made.fitted(np.arange(_num_samples(X)), y)(np.arange(_num_samples(X)))
    if kind in ("labels", "numbers"):
        if kind == "numbers" and split == "classes":
            raise ValueError('split="classes" needs class labels; y has numbers.')
        with naming_remedies():
            points, codes = check_X_y(X, y, dtype=[np.float64, np.float32], ensure_min_samples=2)
        labels = np.asarray(y)
    elif split == "classes":
        raise ValueError(
            'split="classes" needs class labels; pairs are split by connected group, and triplets '
            "by anchor."
        )
    else:
        with naming_remedies():
            points = check_array(X, dtype=[np.float64, np.float32], ensure_min_samples=2)
    given = y if labels is None else codes
    supervision = Supervision.of(given, len(points), groups=groups, numbers=kind == "numbers")
    if kind == "labels":
        warn_of_integers(y)
    known, copies = _together(points, supervision, cv)
    task: ComparisonTask
    if labels is None:
        task = JudgedRows(
            points,
            known.given,
            cv,
            known.groups,
            random_state,
            joined=groups is None,
            features=made,
        )
        compared = [version("nearfar"), points, vars(task.judgements), task.splits.folds, seed]
    else:
        own = known.given if kind == "numbers" else None
        task = LabelledRows(
            points,
            # Folds have as many small numbers as large ones.
            known.codes if own is None else np.argsort(np.argsort(own)) * 2 // len(own),
            cv,
            known.groups,
            random_state,
            n_neighbors=n_neighbors,
            seed=seed,
            unseen=split == "classes",
            features=made,
            numbers=own,
        )
        compared = [version("nearfar"), points, task.y, task.splits.folds, n_neighbors, seed]
    if task.groups is not None:
        compared.append(task.groups)
    if features is not None:
        compared.append(repr(features))
    methods = default_methods(learners, random_state=random_state, supervision=task.supervision)
    if kind == "numbers":
        methods = [method.for_numbers() for method in methods]
    measures = [measure.name for measure in measures_for(task.supervision)]
    if split == "classes":
        methods = [method.for_new_classes() for method in methods]
        compared.append(split)
    elif classifiers and isinstance(task, LabelledRows):
        n_classes = 0 if kind == "numbers" else int(task.y.max()) + 1
        methods += reference_classifiers(task.X.shape[1], n_classes, random_state)
    groups_shown = task.groups
    if groups_shown is not None and isinstance(task, JudgedRows):
        groups_shown = groups_shown[np.unique(task.judgements.index)]
    folds = task.splits.folds
    with ComparisonCheckpoint(checkpoint, compared, task.splits, measures, clock=clock) as results:
        runner = TrialRunner(task, methods, results, progress=progress, clock=clock)
        if budget is None:
            runner.run_all()
        else:
            run_within(runner, budget - (clock() - start))
    return Comparison(
        [trials.result() for trials in runner.trials.values()],
        n_neighbors=n_neighbors,
        n_folds=len(folds),
        n_rows=len(task.X),
        test_share=float(np.mean([len(test) / len(train) for train, test in folds])),
        supervision=task.supervision,
        overlap=task.overlap,
        unseen=task.unseen,
        groups=groups_shown,
        labels=labels,
        note=" ".join([task.note, f"{copies}, unless groups are given." if copies else ""]).strip(),
        n_copies=0 if labels is None else len(copies or ()),
    )


def _together(X: Floats, known: Supervision, cv: object) -> tuple[Supervision, Copies | None]:
    """Keep copies of rows together in folds, unless the user splits."""
    if not is_count(cv):
        return known, None
    together, copies = keep_copies_together(X, known)
    n_different = len(X) - len(copies or ())
    if copies is not None and known.kind == "labels" and cv > n_different:
        checked_count(cv, n_different, "the number of different rows")
    return together.in_classes(cv), copies
