"""The section about classes: errors of each, and which are confused with which."""

from __future__ import annotations

import numpy as np
from sklearn.metrics import confusion_matrix

from nearfar.report.blocks import Block, Matrix, MatrixCell, Section, Table, Text
from nearfar.report.study import Study
from nearfar.typing import Array, Ints, Vector

# A larger matrix does not fit a narrow page.
_MAX_MATRIX_CLASSES = 12
# Longer tables are folded.
_MANY_CLASSES = 12
# What a reader looks at; the rest are rare confusions.
_MAX_CONFUSIONS = 15


def classes_section(study: Study) -> Section:
    """Return the errors by class, and the confusions of held-out rows."""
    labels = study.labels
    assert labels is not None
    before, after, basis = _losses(study)
    tested = ~(np.isnan(before) | np.isnan(after))
    names, codes = np.unique(labels[tested], return_inverse=True)
    counts = np.bincount(codes)
    errors = [np.bincount(codes, losses[tested]) / counts for losses in (before, after)]
    rows = [
        [
            str(names[i]),
            str(counts[i]),
            f"{100 * errors[0][i]:.1f} %",
            f"{100 * errors[1][i]:.1f} %",
            _change(errors[1][i] - errors[0][i]),
        ]
        for i in np.lexsort((-counts, -errors[0], -errors[1]))
    ]
    header = ["class", "rows", study.baseline, study.method, "change"]
    summary = f"Errors of all {len(names)} classes" if len(names) > _MANY_CLASSES else ""
    table = Table(header, rows, f"{basis} Largest errors first.", summary=summary)
    return Section("Which classes are confused", "classes", [table, *_confusions(study, labels)])


def _losses(study: Study) -> tuple[Vector, Vector, str]:
    """Errors of all rows before and after, nan for rows not tested, and where they come from."""
    comparison = study.comparison
    before, after = np.full((2, len(study.X)), np.nan)
    if comparison is not None and study.method in comparison:
        basis = f"Cross-validated errors on {comparison.n_folds} folds."
        return comparison[study.baseline].wrong, comparison[study.method].wrong, basis
    test = study.split[1]
    by_name = {result.name: result.wrong for result in study.held_out.results}
    before[test], after[test] = by_name[study.baseline], by_name[study.method]
    return before, after, f"Errors on {len(test)} rows."


def _confusions(study: Study, labels: Array) -> list[Block]:
    """Return confusion matrices, or the largest confusions of many classes.

    They are not of the rows of the cross-validated errors, so the captions say of which.
    """
    train, test = study.split
    rows_of = f"one more split: {len(train)} rows to learn from and {len(test)} to test"
    if study.relearn is None:
        rows_of = f"{len(test)} rows"
    elif study.comparison is None or study.method not in study.comparison:
        rows_of = f"{len(test)} held-out rows"
    names = np.unique(labels)
    counts = {
        name: confusion_matrix(labels[test], predicted, labels=names)
        for name, predicted in study.predicted_classes.items()
    }
    if len(names) <= _MAX_MATRIX_CLASSES:
        matrices: list[Block] = []
        for name in (study.method, study.baseline):
            caption = (
                f"Confusion matrix of {name}, {rows_of}: actual classes in rows, predicted ones in "
                "columns."
            )
            summary = f"Confusion matrix of {name}" if name == study.baseline else ""
            matrices.append(_matrix(names, counts[name], caption, summary))
        return matrices
    before, after = counts[study.baseline], counts[study.method]
    off = after.copy()
    np.fill_diagonal(off, 0)
    order = np.argsort(-off, axis=None, kind="stable")[:_MAX_CONFUSIONS]
    rows = [
        [f"{names[i]} → {names[j]}", str(before[i, j]), str(after[i, j])]
        for i, j in zip(*np.unravel_index(order, off.shape), strict=True)
        if off[i, j]
    ]
    if not rows:
        return [Text([f"None of the {len(test)} rows is classified wrongly ({rows_of})."])]
    caption = (
        f"The largest confusions, with the number of rows ({rows_of}): actual class → predicted "
        "class."
    )
    return [Table(["confusion", *counts], rows, caption)]


def _change(difference: float) -> str:
    """Return a difference in points, with a proper minus sign."""
    text = f"{100 * abs(difference):.1f}"
    if text == "0.0":
        return "0"
    return f"{'−' if difference < 0 else '+'}{text}"


def _matrix(names: Array, counts: Ints, caption: str, summary: str) -> Matrix:
    totals = np.maximum(counts.sum(axis=1), 1)
    # Errors are darker, as they are fewer.
    shades = 0.12 + 0.6 * (counts / totals[:, None])
    np.fill_diagonal(shades, 0.45 * (counts.diagonal() / totals))
    rows = [
        [
            MatrixCell(str(count) if count else "", shade, i == j)
            for j, (count, shade) in enumerate(zip(row, of_row, strict=True))
        ]
        for i, (row, of_row) in enumerate(zip(counts.tolist(), shades.tolist(), strict=True))
    ]
    return Matrix([str(name) for name in names], rows, caption, summary=summary)
