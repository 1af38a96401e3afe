"""The sections of a report, in the order of the page; those on the data and on features."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from nearfar import plots
from nearfar.constraints import Triplets
from nearfar.metrics.importance import (
    column_shares,
    comparable_shares,
    feature_importances,
    has_importances,
    leading_directions,
)
from nearfar.report.appendix import appendix_section
from nearfar.report.bars import comparison_section
from nearfar.report.blocks import Block, Figure, Figures, Items, Section, Table, Text
from nearfar.report.classes import classes_section
from nearfar.report.figures import svgs
from nearfar.report.map_section import map_section
from nearfar.report.neighbor_section import neighbors_section
from nearfar.report.study import Judgements, Study
from nearfar.report.usage import usage_section

Progress = Callable[[int, int, str], None]

# Longer tables are folded, as readers scroll past them.
_LONG_TABLE = 12
# Bars of a figure as high as a screen; the title has the sum of the others.
_MAX_FEATURES = 20
# Of features in a sentence.
_MAX_NAMES = 10
# Squared, one such feature outweighs ten thousand others.
_LARGE_SPREAD_RATIO = 100


def sections(study: Study, progress: Progress | None = None) -> Iterator[Section]:
    """Yield the sections that apply to a study, in the order of the page."""
    builders: dict[str, Callable[[Study], Section]] = {}
    if study.comparison is not None:
        builders["comparison"] = comparison_section
    if study.labels is not None:
        builders["classes"] = classes_section
    if not study.numbers:
        builders["map"] = map_section
    builders["neighbours"] = neighbors_section
    if has_importances(study.metric):
        builders["features"] = features_section
    builders |= {"data": data_section, "usage": usage_section, "appendix": appendix_section}
    for number, (name, build) in enumerate(builders.items()):
        if progress is not None:
            progress(number, len(builders), f"report, {name}")
        yield build(study)


def data_section(study: Study) -> Section:
    """Return sizes, what is odd about rows and features, what columns became, and the classes."""
    n_rows, n_features = study.X.shape
    text = [f"{n_rows} rows, {n_features} features."]
    if study.labels is not None:
        text = [f"{n_rows} rows, {n_features} features, {len(np.unique(study.labels))} classes."]
    elif study.targets is not None:
        y = study.targets
        text.append(f"Numbers from {y.min():g} to {y.max():g}, {y.mean():g} on average.")
    elif study.judgements is not None:
        text.append(describe(study.judgements))
    if study.n_copies:
        text.append(
            f"Rows that are copies of other rows, or nearly: {study.n_copies}. A row and its "
            "copies are never both learned from and tested on, and count as one row in tests and "
            "intervals."
        )
    elif study.groups is not None:
        text.append(
            f"The rows are in {len(np.unique(study.groups))} groups. No group is both learned from "
            "and tested on, and tests and intervals count groups instead of rows."
        )
    is_constant = np.ptp(study.X, axis=0) == 0
    constant = [name for name, flat in zip(study.features, is_constant, strict=True) if flat]
    if constant:
        names = ", ".join(constant[:_MAX_NAMES])
        more = len(constant) - _MAX_NAMES
        names = f"{names} and {more} more" if more > 0 else names
        text.append(f"Features with the same value in all rows: {names}.")
    spread = study.X.std(axis=0)[~is_constant]
    if len(spread) and spread.max() > _LARGE_SPREAD_RATIO * spread.min():
        text.append(
            f"The standard deviations of the features differ by a factor of up to "
            f"{spread.max() / spread.min():,.0f}. Without standardisation, the features with the "
            "largest ones dominate the distances."
        )
    n_duplicates = n_rows - len(np.unique(study.X, axis=0))
    if n_duplicates and not study.n_copies:
        text.append(f"Rows that are copies of other rows: {n_duplicates}.")
    blocks: list[Block] = [Text(text)]
    if study.column_examples:
        rows = [list(example) for example in study.column_examples]
        summary = f"What all {len(rows)} columns became" if len(rows) > _LONG_TABLE else ""
        blocks.append(Table(["column", "taken as", "example"], rows, summary=summary))
    if study.labels is not None:
        classes, counts = np.unique(study.labels, return_counts=True)
        rows = [
            [str(classes[i]), str(counts[i]), f"{100 * counts[i] / n_rows:.1f} %"]
            for i in np.argsort(-counts, kind="stable")
        ]
        summary = f"Sizes of all {len(classes)} classes" if len(classes) > _LONG_TABLE else ""
        blocks.append(Table(["class", "rows", "share"], rows, summary=summary))
    return Section("The data", "data", blocks)


def describe(judgements: Judgements) -> str:
    """Return the number of judgements in a sentence.

    Examples
    --------
    >>> from nearfar import Pairs
    >>> from nearfar.report.sections import describe
    >>> describe(Pairs([[0, 1], [1, 2], [4, 5]], [True, False, False]))
    '3 pairs of 5 rows: 1 similar, 2 dissimilar.'
    """
    n_rows = len(np.unique(judgements.index))
    if isinstance(judgements, Triplets):
        n_anchors = len(np.unique(judgements.index[:, 0]))
        text = f"{len(judgements)} triplets of {n_rows} rows, with {n_anchors} anchors."
    else:
        n_similar = int(judgements.similar.sum())
        kinds = f"{n_similar} similar, {len(judgements) - n_similar} dissimilar"
        text = f"{len(judgements)} pairs of {n_rows} rows: {kinds}."
    if judgements.n_raters < 2:
        return text
    return (
        f"{text} They are from {judgements.n_raters} people. No person is both learned from and "
        "tested on."
    )


def features_section(study: Study) -> Section:
    """Return the share of each feature in the distances, and the leading directions."""
    named = study.metric.named(study.features)
    columns = study.columns
    what = "feature" if columns is None else "column"
    label = f"Share of each {what} in the mean squared distance"
    draw = partial(plots.importances, named, study.X, n_features=_MAX_FEATURES, columns=columns)
    (figure,) = svgs(draw, label, "features")
    text = (
        f"The share of each {what} in the mean squared distance between two rows. A negative "
        f"share means that the {what} mostly cancels differences in other {what}s."
    )
    if columns is not None:
        text += (
            " A column with several features, such as a category, has the sum of their shares; in "
            "the leading directions it has their joint size, without a sign."
        )
    shares = feature_importances(named, study.X)
    shares = shares if columns is None else column_shares(shares, columns)[1]
    if comparable_shares(shares)[1]:
        size = float(np.abs(shares).sum())
        text += (
            f" Here {what}s mostly cancel each other: the absolute values of the shares sum to "
            f"{size:.1f}. The bars are divided by this sum, and the leading directions say more."
        )
    blocks: list[Block] = [Text([text]), Figures([Figure(figure, f"{label}.")])]
    if named.is_linear:
        directions = [str(each) for each in leading_directions(named, study.X, columns=columns)]
        blocks.append(Items("Leading directions", directions))
    return Section(f"Which {what}s matter", "features", blocks)
