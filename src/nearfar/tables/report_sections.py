"""The sections of a report, in the order of the page; those on the data and on features.

The section that compares methods: bars with intervals, and the table behind them.

The section about classes: errors of each, and which are confused with which.

The section of neighbours: queries with their nearest rows, before and after.

The section on how to use the metric: code that works on the rows at hand.

The appendix: what it takes to do the same again, the tests, and curves.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from sklearn.metrics import confusion_matrix

from nearfar import plots
from nearfar.comparison import MethodResult
from nearfar.frames.formats import STREAM, array_names, kind_of, shown_name
from nearfar.measures.registry import ERROR, measures_for
from nearfar.metrics.explanations import (
    column_shares,
    comparable_shares,
    feature_importances,
    has_importances,
    leading_directions,
)
from nearfar.neighbors import kneighbors
from nearfar.page.blocks import (
    Bar,
    BarGroup,
    Bars,
    Block,
    Code,
    Facts,
    Figure,
    Figures,
    Items,
    Matrix,
    MatrixCell,
    Neighbor,
    Queries,
    Query,
    Section,
    Table,
    Text,
    versions,
)
from nearfar.page.figures import pixels, svgs, thumbnail
from nearfar.plots.canvas import one_axes
from nearfar.runtime.messages import suggested_ending
from nearfar.supervision import Pairs, RandomPairs, Triplets
from nearfar.tables.report_map import map_section
from nearfar.tables.report_study import Judgements, Study
from nearfar.typing import Array, Ints

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from nearfar.plots.canvas import AxesGrid

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
    builders["comparison"] = comparison_section
    if study.labels is not None:
        builders["classes"] = classes_section
    if study.supervision != "numbers":
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
    table = study.table
    n_rows, n_features = table.X.shape
    text = [f"{n_rows} rows, {n_features} features."]
    if study.labels is not None:
        text = [f"{n_rows} rows, {n_features} features, {len(np.unique(study.labels))} classes."]
    elif table.y is not None:
        y = table.y
        text.append(f"Numbers from {y.min():g} to {y.max():g}, {y.mean():g} on average.")
    elif study.judgements is not None:
        text.append(describe(study.judgements))
    if table.n_copies:
        text.append(
            f"Rows that are copies of other rows, or nearly: {table.n_copies}. A row and its "
            "copies are never both learned from and tested on, and count as one row in tests and "
            "intervals."
        )
    elif table.groups is not None:
        text.append(
            f"The rows are in {len(np.unique(table.groups))} groups. No group is both learned from "
            "and tested on, and tests and intervals count groups instead of rows."
        )
    is_constant = np.ptp(table.X, axis=0) == 0
    constant = [name for name, flat in zip(study.features, is_constant, strict=True) if flat]
    if constant:
        names = ", ".join(constant[:_MAX_NAMES])
        more = len(constant) - _MAX_NAMES
        names = f"{names} and {more} more" if more > 0 else names
        text.append(f"Features with the same value in all rows: {names}.")
    spread = table.X.std(axis=0)[~is_constant]
    if len(spread) and spread.max() > _LARGE_SPREAD_RATIO * spread.min():
        text.append(
            f"The standard deviations of the features differ by a factor of up to "
            f"{spread.max() / spread.min():,.0f}. Without standardisation, the features with the "
            "largest ones dominate the distances."
        )
    n_duplicates = n_rows - len(np.unique(table.X, axis=0))
    if n_duplicates and not table.n_copies:
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
    """Return the number of judgements in a sentence."""
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
    draw = partial(
        plots.importances, named, study.table.X, n_features=_MAX_FEATURES, columns=columns
    )
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
    shares = feature_importances(named, study.table.X)
    shares = shares if columns is None else column_shares(shares, columns)[1]
    if comparable_shares(shares)[1]:
        size = float(np.abs(shares).sum())
        text += (
            f" Here {what}s mostly cancel each other: the absolute values of the shares sum to "
            f"{size:.1f}. The bars are divided by this sum, and the leading directions say more."
        )
    blocks: list[Block] = [Text([text]), Figures([Figure(figure, f"{label}.")])]
    if named.is_linear:
        directions = [
            str(each) for each in leading_directions(named, study.table.X, columns=columns)
        ]
        blocks.append(Items("Leading directions", directions))
    return Section(f"Which {what}s matter", "features", blocks)


def comparison_section(study: Study) -> Section:
    """Return bars of what was tested on the held-out rows, and the same as a table."""
    found = study.held_out
    measure, unit = found.measure, "rows" if study.judgements is None else study.supervision
    figures = [(r, f) for r in found.results if (f := found.figure(r)) is not None]
    longest = max([ends[2] for _, ends in figures if math.isfinite(ends[2])], default=1.0)
    scale = 100 / (longest if longest > 0 else 1.0)

    def bar(result: MethodResult, value: float, *ends: float) -> Bar:
        low, high = (scale * min(max(end, 0.0), longest) for end in ends)
        is_metric = result is found.results[0]
        role = {study.method: "this report", study.baseline: "baseline"}.get(result.name, "")
        look = "best" if is_metric and found.verdict.helps else ""
        length = scale * min(max(value, 0.0), longest)
        return Bar(result.name, measure.write(value), length, low, high, look, role)

    better = "Shorter" if measure.better == "lower" else "Longer"
    bars = Bars(
        f"{measure.title}: {measure.description}",
        [BarGroup("", [bar(result, *ends) for result, ends in figures])],
        f"{better} is better. The lines are 90 % intervals. All are tested on the same {unit}, so "
        "that their differences are surer than the lines suggest.",
    )
    sentences = [
        f"{found.n} {unit} were held out, and what is compared was learned from others.",
        *filter(None, (each.explanation for each in measures_for(study.supervision))),
    ]
    header, lines = found.lines
    table = Table(["tested", *header[1:]], lines, summary="The same as a table")
    explained = Text([" ".join(sentences)], summary="The measures")
    return Section("Does learning help?", "comparison", [bars, table, explained])


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
    after, before = (each.losses[ERROR.name] for each in study.held_out.results[:2])
    basis = f"Errors on {study.held_out.n} held-out rows."
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


def _confusions(study: Study, labels: Array) -> list[Block]:
    """Return confusion matrices, or the largest confusions of many classes."""
    test = study.split[1]
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


# As many as are on a screen, with both metrics beside each other.
_QUERIES, _NEIGHBORS = 4, 5


def neighbors_section(study: Study) -> Section:
    """Return the queries whose neighbours change most."""
    train = study.split[0]
    n_neighbors = min(_NEIGHBORS, len(train) - 1)
    which = "Rows" if study.judgements is not None else "Held-out rows"
    marks = "" if study.labels is None else " A cross marks neighbours of another class."
    text = f"{which} whose neighbours change most, for better or worse.{marks}"
    low, high = float(study.X.min()), float(study.X.max())

    @cache
    def picture(row: int) -> str:
        """Return the data address of an image; empty if there is none."""
        if study.table.pictures is not None:
            return thumbnail(study.table.pictures[row])
        if study.image_shape is not None:
            return pixels((study.X[row] - low) / ((high - low) or 1.0), study.image_shape)
        return ""

    def neighbor(row: int, query: int) -> Neighbor:
        image = picture(row)
        if study.labels is None:
            return Neighbor(study.row_title(row), image)
        # Below a picture, the class says enough.
        text = str(study.labels[row]) if image else study.row_title(row)
        return Neighbor(text, image, bool(study.labels[row] == study.labels[query]))

    queries = []
    for row in study.most_changed(_QUERIES, n_neighbors):
        neighbors = {}
        for name, metric in study.metrics.items():
            nearest = kneighbors(metric, study.X[train], study.X[[row]], n_neighbors=n_neighbors)
            neighbors[name] = [neighbor(other, row) for other in train[nearest[1][0]].tolist()]
        queries.append(Query(study.row_title(row), neighbors, picture(row)))
    return Section("Neighbours before and after", "neighbours", [Text([text]), Queries(queries)])


def usage_section(study: Study) -> Section:
    """Return code that loads the metric, and maps rows."""
    file = study.metric_file or "metric.safetensors"
    rows = "X" if study.metric.columns is None else "table"
    what = "compare these rows by" if rows == "X" else "rows of a DataFrame, to compare by"
    python = (
        "from nearfar import Metric\n\n"
        f"metric = Metric.load({file!r})\n"
        f"mapped = metric.transform({rows})   # {what} Euclidean distance\n"
        f"metric.distances({rows}, {'Y' if rows == 'X' else 'other'})\n"
    )
    name, source = shlex.quote(file), shlex.quote(study.source or "table.csv")
    table = study.table
    ids = f" --id {shlex.quote(table.id_column)}" if table.id_column and study.is_table else ""
    shell = (
        f"nearfar show {name}\n"
        f"nearfar transform {name} {source} mapped{suggested_ending()}{ids}\n"
        f"nearfar neighbors {name} {source}{ids}\n"
    )
    if table.label and study.is_table:
        shell += f"nearfar predict {name} {source} NEW.csv --label {shlex.quote(table.label)}\n"
    blocks: list[Block] = [Code("Python", python), Code("Shell", shell)]
    if (code := without_nearfar(study)) is not None:
        blocks.append(Code("Without nearfar", code))
    return Section("Use the metric", "usage", blocks)


def without_nearfar(study: Study) -> str | None:
    """Return Python code that maps the rows without nearfar; None if a few lines cannot.

    A metric with a kernel or a gate is not one map, and the columns of a table may need more than
    reading.
    """
    metric = study.metric
    if not metric.is_linear or metric.columns is not None:
        return None
    code = reading_code(study.table.source) if study.table.source else ""
    if code is None:
        return None
    file, reading = study.metric_file or "metric.safetensors", code.splitlines()
    imports = {line for line in reading if line.startswith("import ")}
    body = [f"with safe_open({file!r}, 'numpy') as file:", "    L = file.get_tensor('L')"]
    if any("[names]" in line for line in reading):
        imports.add("import json")
        body.append("    names = json.loads(file.metadata()['feature_names'])")
    body += [line for line in reading if line not in imports]
    if metric.unit_rows:
        imports.add("import numpy as np")
        body.append("X = X / np.linalg.norm(X, axis=1, keepdims=True)")
    shape = f"{metric.n_features} features to {metric.n_components}"
    body.append(f"mapped = X @ L.T   # {shape}")
    return "\n".join([*sorted(imports), "from safetensors import safe_open", "", *body, ""])


def reading_code(source: str) -> str | None:
    """Return code that reads X from a file; None if a few lines cannot.

    Columns of tables are selected by `names`, which the code around it must have.
    """
    path, shown = Path(source), shown_name(source)
    kind = kind_of(path)
    if shown == STREAM:
        return None
    if kind == ".npy":
        return f"import numpy as np\nX = np.load({shown!r})\n"
    if kind == ".npz":
        names = array_names(path)
        array = "X" if "X" in names else names[0]
        return f"import numpy as np\nX = np.load({shown!r})[{array!r}]\n"
    if kind == ".parquet":
        return f"import pandas as pd\nX = pd.read_parquet({shown!r})[names].to_numpy()\n"
    if kind == ".csv":
        with path.open("rb") as file:
            has_commas = b"," in file.readline()
        if has_commas:
            return f"import pandas as pd\nX = pd.read_csv({shown!r})[names].to_numpy()\n"
    return None


# The default of `plots.neighbor_curve`.
_MAX_CURVE_NEIGHBORS = 30


def appendix_section(study: Study) -> Section:
    """Return what it takes to do the same again, and curves."""
    learner, found = study.learner, study.held_out
    splits = "one split" if found.n_splits == 1 else f"{found.n_splits} splits"
    facts = [("Random seed", str(study.random_state)), ("Held out", f"{found.n} in {splits}")]
    facts += [("Baseline in this report", study.baseline), ("Versions", versions())]
    blocks: list[Block] = [Code("Command", study.command)] if study.command else []
    blocks.append(Facts(facts))
    if learner is not None:
        parameters = [f"    {name}={value!r}," for name, value in learner.get_params().items()]
        call = "\n".join([f"{type(learner).__name__}(", *parameters, ")"])
        blocks.append(Code("Parameters", call))
    figures = [
        Figure(svg, caption)
        for number, (draw, caption) in enumerate(curves(study))
        for svg in svgs(draw, caption, f"curve{number}")
    ]
    return Section("Appendix", "appendix", [*blocks, Figures(figures)])


def curves(study: Study) -> Iterator[tuple[Callable[[], Axes | AxesGrid], str]]:
    """Yield functions that draw the curves that apply to a study, and captions."""
    X, y, metric, learner = study.X, study.labels, study.metric, study.learner
    train, test = study.split
    # The first metric has the main colour: that of the report.
    metrics = dict(reversed(study.metrics.items()))
    if y is not None:
        rows = "Held-out rows"
        max_k = min(_MAX_CURVE_NEIGHBORS, len(train) - 1)
        yield (
            lambda: plots.neighbor_curve(
                metrics, X[train], y[train], max_k=max_k, X_query=X[test], y_query=y[test]
            ),
            f"{rows}: how often the k-th nearest neighbour has the same class.",
        )
        pairs = RandomPairs()(X[test], y[test], np.random.RandomState(study.random_state))
        if pairs.similar.any() and not pairs.similar.all():
            yield (
                lambda: plots.roc(metrics, X[test], pairs),
                f"Pairs of {rows.lower()}: same class or not, by a threshold on the distance.",
            )
    elif (
        study.judgements is not None
        and isinstance(unseen := study.judgement_split[1], Pairs)
        and unseen.similar.any()
        and not unseen.similar.all()
    ):
        yield (
            lambda: plots.roc(metrics, X, unseen),
            "Held-out pairs: similar or not, by a threshold on the distance.",
        )
    eigenvalues = [plots.eigenvalues(part)[: part.n_components] for part in metric.parts]
    if any(np.ptp(values) > 0 for values in eigenvalues):

        def spectrum() -> Axes:
            ax = plots.spectra({study.method: metric})
            # Eigenvalues beyond the map's rows are zero.
            ax.set_xlim(right=max(part.n_components for part in metric.parts) + 0.5)
            return ax

        yield (
            spectrum,
            "Eigenvalues of the metric: the number of large ones is its effective dimension.",
        )
    if learner is not None and len(learner.history_) > 1:
        history = learner.history_
        yield lambda: plots.iterations(history, axes=one_axes), "The fit, iteration by iteration."
