"""The figure of ours against printed numbers, as SVG that is the same on every machine."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from papers.verdicts import Outcome

SIDE = 190
MARGIN = 34
TOP = 30
MOST = 60
"""The axes end here, in percent; what is beyond is drawn at the edge."""
COLORS = {
    "reproduced": "#2b8a3e",
    "consistent": "#8bc34a",
    "better": "#1971c2",
    "worse": "#c92a2a",
    "undecided": "#e8890c",
    "protocol unknown": "#999999",
}


def error(value: float, better: str) -> float:
    """Return a percentage as an error."""
    return value if better == "lower" else 100 - value


def figure(papers: dict[str, list[Outcome]]) -> str:
    """Return one panel for each paper, with the printed error to the right and ours upwards."""
    width = len(papers) * (SIDE + MARGIN) + MARGIN
    height = SIDE + TOP + 66
    panels = [
        panel(title, outcomes, MARGIN + number * (SIDE + MARGIN))
        for number, (title, outcomes) in enumerate(papers.items())
    ]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            'font-family="sans-serif" font-size="11">',
            "<title>Errors here against printed errors, in percent</title>",
            f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
            *panels,
            *_legend(height - 14),
            "</svg>",
            "",
        ]
    )


def panel(title: str, outcomes: Iterable[Outcome], left: int) -> str:
    """Return the points of one paper; own methods are disks, others circles."""
    bottom = TOP + SIDE
    parts = [
        f'<text x="{left}" y="{TOP - 10}" font-weight="bold">{escape(title)}</text>',
        f'<rect x="{left}" y="{TOP}" width="{SIDE}" height="{SIDE}" fill="none" stroke="#444444"/>',
        f'<path d="M{left} {bottom}L{left + SIDE} {TOP}" stroke="#bbbbbb"/>',
        f'<text x="{left + SIDE / 2:.0f}" y="{bottom + 28}" text-anchor="middle">'
        "printed error, %</text>",
    ]
    for tick in range(0, MOST + 1, 20):
        x, y = _place(tick, tick, left)
        parts.append(f'<text x="{x:.1f}" y="{bottom + 14}" text-anchor="middle">{tick}</text>')
        parts.append(f'<text x="{left - 4}" y="{y + 4:.1f}" text-anchor="end">{tick}</text>')
    parts += [_point(outcome, left) for outcome in outcomes]
    return "\n".join(parts)


def _point(outcome: Outcome, left: int) -> str:
    cell, color = outcome.cell, COLORS[outcome.word]
    x, y = _place(error(cell.value, cell.better), error(outcome.mean, cell.better), left)
    inside = color if cell.own else "none"
    told = (
        f"{cell.id} ({outcome.variant}): {outcome.mean:.2f}, printed {cell.value}; {outcome.word}"
    )
    return (
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{inside}" stroke="{color}">'
        f"<title>{escape(told)}</title></circle>"
    )


def _place(printed: float, ours: float, left: int) -> tuple[float, float]:
    scale = SIDE / MOST
    return left + min(printed, MOST) * scale, TOP + SIDE - min(ours, MOST) * scale


def _legend(y: int) -> list[str]:
    parts, x = [], MARGIN
    for word, color in COLORS.items():
        parts.append(f'<circle cx="{x}" cy="{y - 4}" r="4" fill="{color}"/>')
        parts.append(f'<text x="{x + 8}" y="{y}">{word}</text>')
        x += 24 + 7 * len(word)
    told = "filled: the paper's own method; upwards: error here, %"
    return [*parts, f'<text x="{x}" y="{y}">{told}</text>']
