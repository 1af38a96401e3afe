"""The section about classes: errors of each, and which are confused with which."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearfar.comparison.method_results import paired
from nearfar.report.blocks import Block, Matrix, MatrixCell, Section, Table, Text
from nearfar.report.study import Study
from nearfar.typing import Ints, Vector

_MAX_MATRIX_CLASSES = 12
_LONG_TABLE = 12
_MAX_CONFUSIONS = 15


def classes_section(study: Study) -> Section:
    """Return the errors by class, and the confusions of held-out rows."""
    labels = study.labels
    assert labels is not None
    before, after, basis = _losses(study)
    blocks: list[Block] = [_errors_by_class(study, labels, before, after, basis)]
    actual = labels[study.split[1]]
    found = study.predicted_classes
    names = np.unique(labels)
    if len(names) <= _MAX_MATRIX_CLASSES:
        for name in (study.method, study.baseline):
            caption = (
                f"Confusion matrix of {name}, {_tested(study)}: actual classes in rows, predicted "
                "ones in columns."
            )
            counts = confusion_counts(names, actual, found[name])
            summary = f"Confusion matrix of {name}" if name == study.baseline else ""
            blocks.append(_matrix(names, counts, caption, summary))
    else:
        blocks.append(_largest_confusions(study, names, actual, found))
    return Section("Which classes are confused", "classes", blocks)


def _tested(study: Study) -> str:
    """Say which rows confusions are of; they are not those of the cross-validated errors."""
    train, test = study.split
    if study.relearn is None:
        return f"{len(test)} rows"
    if study.comparison is None or study.method not in study.comparison:
        return f"{len(test)} held-out rows"
    return f"one more split: {len(train)} rows to learn from and {len(test)} to test"


def _losses(study: Study) -> tuple[Vector, Vector, str]:
    """Errors of all rows before and after, nan for rows not tested, and where they come from."""
    comparison = study.comparison
    if comparison is not None and study.method in comparison:
        pair = paired(comparison[study.baseline], comparison[study.method])
        if pair is not None:
            folds = pair[1].partial or f"all {pair[1].n_folds} folds"
            return pair[0].wrong, pair[1].wrong, f"Cross-validated errors on {folds}."
    before, after = np.full((2, len(study.X)), np.nan)
    test = study.split[1]
    by_name = {result.name: result.wrong for result in study.held_out.results}
    before[test], after[test] = by_name[study.baseline], by_name[study.method]
    return before, after, f"Errors on {len(test)} rows."


def _errors_by_class(
    study: Study, labels: NDArray[Any], before: Vector, after: Vector, basis: str
) -> Table:
    tested = ~(np.isnan(before) | np.isnan(after))
    names, codes = np.unique(labels[tested], return_inverse=True)
    counts = np.bincount(codes)
    errors = [np.bincount(codes, losses[tested]) / counts for losses in (before, after)]
    order = np.lexsort((-counts, -errors[0], -errors[1]))
    rows = [
        [
            str(names[i]),
            str(counts[i]),
            f"{100 * errors[0][i]:.1f} %",
            f"{100 * errors[1][i]:.1f} %",
            _change(errors[1][i] - errors[0][i]),
        ]
        for i in order
    ]
    header = ["class", "rows", study.baseline, study.method, "change"]
    summary = f"Errors of all {len(names)} classes" if len(names) > _LONG_TABLE else ""
    return Table(header, rows, f"{basis} Largest errors first.", summary=summary)


def _change(difference: float) -> str:
    """Return a difference in points, with a proper minus sign."""
    text = f"{100 * abs(difference):.1f}"
    if text == "0.0":
        return "0"
    return f"{'−' if difference < 0 else '+'}{text}"


def confusion_counts(names: NDArray[Any], actual: NDArray[Any], predicted: NDArray[Any]) -> Ints:
    """Return how often rows of each class were predicted to be of each class.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.report.classes import confusion_counts
    >>> actual, predicted = np.array(["a", "a", "b"]), np.array(["a", "b", "b"])
    >>> confusion_counts(np.array(["a", "b"]), actual, predicted)
    array([[1, 1],
           [0, 1]])
    """
    counts = np.zeros((len(names), len(names)), dtype=np.intp)
    np.add.at(counts, (np.searchsorted(names, actual), np.searchsorted(names, predicted)), 1)
    return counts


def _matrix(names: NDArray[Any], counts: Ints, caption: str, summary: str) -> Matrix:
    totals = np.maximum(counts.sum(axis=1), 1)
    rows = [
        [
            MatrixCell(str(count) if count else "", _shade(count / total, right=i == j), i == j)
            for j, count in enumerate(row)
        ]
        for i, (row, total) in enumerate(zip(counts.tolist(), totals, strict=True))
    ]
    return Matrix([str(name) for name in names], rows, caption, summary=summary)


def _shade(share: float, *, right: bool) -> float:
    """Return the shade of a share of a class; errors are darker, as they are fewer."""
    return 0.45 * share if right else 0.12 + 0.6 * share


def _largest_confusions(
    study: Study, names: NDArray[Any], actual: NDArray[Any], found: dict[str, NDArray[Any]]
) -> Block:
    """Return a table of the classes that are confused most, after learning."""
    before, after = (confusion_counts(names, actual, predicted) for predicted in found.values())
    off = after.copy()
    np.fill_diagonal(off, 0)
    order = np.argsort(-off, axis=None, kind="stable")[:_MAX_CONFUSIONS]
    rows = [
        [f"{names[i]} → {names[j]}", str(before[i, j]), str(after[i, j])]
        for i, j in zip(*np.unravel_index(order, off.shape), strict=True)
        if off[i, j]
    ]
    if not rows:
        return Text([f"None of the {len(actual)} rows is classified wrongly ({_tested(study)})."])
    caption = (
        f"The largest confusions, with the number of rows ({_tested(study)}): actual class → "
        "predicted class."
    )
    return Table(["confusion", *found], rows, caption)
