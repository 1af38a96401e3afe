"""Draw the pictures of README and of the site: ``python docs/images/draw.py``.

`circles.png` is drawn by an example. The others are figures in HTML, which a page includes so that
they have its colours. Their points and the numbers in their captions are stored results.
"""

from __future__ import annotations

import runpy
import sys
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
WIDTH, HEIGHT = 360, 300
LEFT, RIGHT, TOP, BOTTOM = 44, 12, 22, 42

CHOICES = [
    ("Labels", "classes of rows", "table", [["AutoMetric"], ["boostmetric", "nca"]]),
    ("Numbers", "to predict", "numbers", [["AutoMetric"], ["MLKR", "ForestMetric"]]),
    ("Pairs", "same or different", "pairs", [["PairVerifier"], ["maxmargin", "ITML"]]),
    ("Triplets", "a more like b than c", "triplets", [["BoostMetric"], ["AutoMetric", "LMNN"]]),
    ("Judged searches", "queries and answers", "search", [["RetrievalAdapter"]]),
    ("Several sources", "title, picture, BM25", "hybrid-search", [["SourceWeights"]]),
    ("Records", "same in two tables", "records", [["RecordMatcher"]]),
    ("Only people", "who can answer", "no-judgements", [["nearfar ask"]]),
    ("Nothing at all", "rows only", "no-judgements", [["InverseCovariance"]]),
]
"""What is known, its guide, and learners or their pages, the first one first."""
PAGES = {
    "boostmetric": "BoostMetric",
    "nca": "NCA",
    "maxmargin": "MaxMarginMetric",
}
ELSEWHERE = {"nearfar ask": "../reference/ask.html"}


def circles() -> None:
    """Draw points before and after."""
    import matplotlib as mpl

    mpl.use("agg")
    example = runpy.run_path(str(ROOT / "examples/start/plot_circles.py"))
    example["fig"].savefig(HERE / "circles.png", dpi=110)


def figures() -> dict[str, str]:
    """Return the figures in HTML by the names of their files."""
    return {
        "choose.html": choose(),
        "tables.html": tables("Euclidean 3-NN", "Euclidean neighbours"),
        "forest.html": tables("random forest", "a random forest"),
        "search.html": search(),
        "judgements.html": judgements(),
    }


def choose() -> str:
    """Return the way from what is known to a learner; every node is a link, from docs/methods."""
    step, top = 54, 48
    height = top + step * len(CHOICES)
    parts = [
        '<rect class="root" x="0.5" y="0.5" width="359" height="32" rx="6"/>',
        text(WIDTH / 2, 22, "What do you know?", "middle", "strong"),
        f'<path class="edge" d="M14 33V{height - step / 2 - 5:g}"/>',
    ]
    for number, (known, hint, guide, learners) in enumerate(CHOICES):
        y = top + step * number
        parts += [
            f'<path class="edge" d="M14 {y + 22}H26M166 {y + 22}H180m-5 -4l5 4l-5 4"/>',
            f'<rect class="known" x="26.5" y="{y}" width="139" height="44" rx="6"/>',
            f'<rect class="learner" x="180.5" y="{y}" width="179" height="44" rx="6"/>',
            link(f"../guides/{guide}.html", text(34, y + 19, known, kind="strong")),
            text(34, y + 35, hint, kind="small"),
        ]
        for line, names in enumerate(learners):
            words = [link(*learner(name)) for name in names]
            style = ("small" if line else "strong") + " linked"
            place = y + (26 if len(learners) == 1 else (19, 35)[line])
            parts.append(f'<text class="{style}" x="188" y="{place}">{", ".join(words)}</text>')
    return svg("A chart from what you know to a learner", parts, height, " choose")


def learner(name: str) -> tuple[str, str]:
    """Return where a learner is described, and its name."""
    if name in PAGES:
        return f"{name}.html", PAGES[name]
    return ELSEWHERE.get(name, f"../api/generated/nearfar.{name}.html"), name


def tables(rival: str, words: str) -> str:
    """Return the errors of AutoMetric beside those of another method, a point for each table."""
    bench = benchmark("beyond_linear")
    by = {(r["table"], r["method"], r["split"]): r for r in bench["stored"]() if "wrong" in r}
    names = [rival, bench["AUTO"]]
    by = bench["common"](by, names)
    sets = list(dict.fromkeys(name for name, _, _ in by))
    errors = bench["mean_errors"](by, names, sets)
    signs = [bench["clear"](by, bench["AUTO"], rival, name) for name in sets]
    x, y = scale((0, 80), (LEFT, WIDTH - RIGHT)), scale((0, 80), (HEIGHT - BOTTOM, TOP))
    parts = [*axes(x, y, range(0, 81, 20), range(0, 81, 20), f"error, %: {words}")]
    parts += [
        text(LEFT, 13, "error, %: AutoMetric"),
        f'<path class="edge" d="M{x(0):g} {y(0):g}L{x(80):g} {y(80):g}"/>',
        text(x(64), y(69), "the same", "end", "small"),
        text(x(78), y(3), "AutoMetric is better", "end", "small"),
    ]
    parts += [
        f'<circle class="learned" cx="{x(other):.1f}" cy="{y(own):.1f}" r="4">'
        f"<title>{escape(name)}: {own:.1f} %, {words} {other:.1f} %</title></circle>"
        for name, (other, own) in zip(sets, errors, strict=True)
    ]
    theirs, ours = errors.mean(axis=0)
    caption = (
        f"{len(sets)} tables, three splits, default parameters: {theirs:.1f} % mean error with "
        f"{words}, {ours:.1f} % with neighbours by AutoMetric; "
        f"clearly better on {signs.count(1)} tables, clearly worse on {signs.count(-1)}."
    )
    return framed(svg(f"Errors of AutoMetric and of {words}", parts, HEIGHT), caption)


def search() -> str:
    """Return nDCG@10 of new queries by the number of judged ones."""
    rows = [
        row
        for row in benchmark("cranfield")["stored"]()
        if row["data"] == "Cranfield" and row["side"] == "query"
    ]
    before = rows[0]["before"][0]
    points = [(0, before), *((row["n_train"], row["after"][0]) for row in rows)]
    x, y = scale((0, 190), (LEFT, WIDTH - RIGHT)), scale((0.32, 0.36), (HEIGHT - BOTTOM, TOP))
    parts = [
        *axes(x, y, range(0, 181, 60), [0.32, 0.33, 0.34, 0.35, 0.36], "judged queries"),
        text(LEFT, 13, "nDCG@10 of new queries"),
        f'<path class="other" d="M{x(0):g} {y(before):.1f}H{x(190):g}"/>',
        text(x(190), y(before) + 16, "vectors as they are", "end", "small"),
        text(x(115), y(0.3435), "RetrievalAdapter", kind="small"),
    ]
    path = "L".join(f"{x(a):.1f} {y(b):.1f}" for a, b in points)
    parts.append(f'<path class="learned" d="M{path}"/>')
    parts += [
        f'<circle class="learned" cx="{x(a):.1f}" cy="{y(b):.1f}" r="4.5">'
        f"<title>{a}: {b:.3f}</title></circle>"
        for a, b in points
    ]
    first, last = rows[0], rows[-1]
    caption = (
        f"Cranfield, 1,400 abstracts: nDCG@10 of new queries rises from {before:.3f} to "
        f"{last['after'][0]:.3f} with {last['n_train']} judged queries (p = {last['p']:.0e}). "
        f"With {first['n_train']}, {first['adapted'] or 'none'} of {first['fits']} fits changed "
        "the vectors."
    )
    return framed(svg("nDCG@10 by the number of judged queries", parts, HEIGHT), caption)


def judgements() -> str:
    """Return how often distances agree with what people said about shoes."""
    rows = [r for r in benchmark("judgements")["stored"]() if r["table"] == "zappos_triplets"]
    accuracy = {
        method: np.array([100 * row["accuracy"] for row in rows if row["method"] == method])
        for method in dict.fromkeys(row["method"] for row in rows)
    }
    methods = sorted(accuracy, key=lambda method: -accuracy[method].mean())
    left, step = 96, 25
    x = scale((50, 90), (left, WIDTH - RIGHT))
    bottom = TOP + step * len(methods) + 4
    parts = [text(0, 13, "agreement with people, %")]
    for tick in range(50, 91, 10):
        parts.append(f'<path class="grid" d="M{x(tick):g} {TOP}V{bottom}"/>')
        parts.append(text(x(tick), bottom + 16, f"{tick}", "middle", "small"))
    parts.append(text(x(50), bottom + 32, "chance", "middle", "small"))
    for number, method in enumerate(methods):
        y, found = TOP + step * (number + 0.5) + 2, accuracy[method]
        kind = "other" if method == "Euclidean" else "learned"
        parts += [
            text(0, y + 5, method),
            f'<path class="{kind} bar" d="M{x(50):g} {y:g}H{x(found.mean()):.1f}"/>',
            *(f'<circle class="split" cx="{x(one):.1f}" cy="{y:g}" r="3"/>' for one in found),
        ]
    caption = (
        "“Which of these two shoes is more like this one?” Euclidean distance agrees with "
        f"{accuracy['Euclidean'].mean():.1f} % of people’s answers about shoes that were not "
        f"asked about in training, AutoMetric with {accuracy['AutoMetric'].mean():.1f} % (bars: "
        f"means; circles: {len(accuracy['AutoMetric'])} splits)."
    )
    return framed(svg("Agreement with people by method", parts, bottom + 40), caption)


def benchmark(name: str) -> dict[str, Any]:
    """Return what a benchmark defines."""
    if str(ROOT / "benchmarks") not in sys.path:
        sys.path.append(str(ROOT / "benchmarks"))
    return runpy.run_path(str(ROOT / f"benchmarks/{name}.py"))


def scale(values, places):
    """Return the function from values to places."""
    (low, high), (start, end) = values, places
    return lambda value: start + (value - low) / (high - low) * (end - start)


def axes(x, y, x_ticks, y_ticks, label):
    """Yield a grid with its numbers, and the name of the horizontal axis."""
    bottom, top = HEIGHT - BOTTOM, TOP
    for tick in x_ticks:
        yield f'<path class="grid" d="M{x(tick):.1f} {bottom}V{top}"/>'
        yield text(x(tick), bottom + 16, f"{tick:g}", "middle", "small")
    for tick in y_ticks:
        yield f'<path class="grid" d="M{LEFT} {y(tick):.1f}H{WIDTH - RIGHT}"/>'
        yield text(LEFT - 6, y(tick) + 4, f"{tick:g}", "end", "small")
    yield text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, label, "middle")


def text(x, y, words, anchor="start", kind=""):
    """Return words at a place."""
    kind = f' class="{kind}"' if kind else ""
    anchor = f' text-anchor="{anchor}"' if anchor != "start" else ""
    return f'<text x="{x:g}" y="{y:g}"{anchor}{kind}>{escape(words)}</text>'


def link(target, words):
    """Return words that lead to a page."""
    return f'<a href="{target}">{words}</a>'


def svg(title, parts, height, kind=""):
    """Return a picture."""
    role = 'role="img"' if "<a " not in "".join(parts) else 'role="group"'
    size = f'viewBox="0 0 {WIDTH} {height:g}"'
    head = f'<svg class="chart{kind}" {size} {role} aria-label="{title}">'
    return "\n".join([head, *parts, "</svg>\n"])


def framed(picture, caption):
    """Return a picture with its caption."""
    return f"<figure>\n{picture}<figcaption><p>{caption}</p></figcaption>\n</figure>\n"


if __name__ == "__main__":
    circles()
    for file, content in figures().items():
        (HERE / file).write_text(content)
