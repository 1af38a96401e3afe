"""Plots as inline SVG: text stays text, and follows the colours of the page.

Pictures as small images inside the page.
"""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nearfar.plots.canvas import HOVER_ID
from nearfar.plots.scatters import LABEL_ID
from nearfar.typing import Vector

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from nearfar.plots.canvas import AxesGrid

# Drawn in this unused colour, then replaced by the page's own text colour.
_TEXT_COLOR = "#0a0b0c"
_STYLE: Any = {
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
    "legend.frameon": False,
    **dict.fromkeys(
        ["text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"],
        _TEXT_COLOR,
    ),
}


def svgs(draw: Callable[[], Axes | AxesGrid], label: str, prefix: str) -> list[str]:
    """Draw figures and return each as an SVG element.

    Points with a `hover_id` get their titles, which browsers show under the pointer.

    Parameters
    ----------
    draw: A function that makes axes, in one figure or in several, and returns them.
    label: Description for screen readers.
    prefix: Prefix of the ids in these figures; it must be unique on the page.
    """
    try:
        import matplotlib as mpl
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError('A report needs matplotlib: pip install "nearfar[report]".') from error
    with mpl.rc_context({**_STYLE, "svg.hashsalt": prefix}), pyplot.ioff():
        before = set(pyplot.get_fignums())
        drawings = []
        try:
            axes = np.ravel(np.asarray(draw(), dtype=object))
            for number, figure in enumerate(dict.fromkeys(ax.figure for ax in axes)):
                buffer = io.StringIO()
                figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
                drawings.append(inline(buffer.getvalue(), label, f"{prefix}-{number}"))
        finally:
            for number in set(pyplot.get_fignums()) - before:
                pyplot.close(number)
    return drawings


def inline(document: str, label: str, prefix: str) -> str:
    """Turn an SVG document into an element of a page."""
    text = document[document.index("<svg") :]
    text = re.sub(r"\s*<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    # matplotlib writes lines of length zero as paths without d, which HTML does not allow.
    text = re.sub(r"<path(?![^>]*\bd=)[^>]*/>", "", text)
    # matplotlib writes ids that have double quotes in single ones.
    text = re.sub(
        rf"""<g id=(["']){HOVER_ID}(\d+):([^<>]*)\1>""",
        lambda found: (
            f'<g class="hover" data-group="{found[2]}"><title>%s</title>'
            % found[3].replace('"', "&quot;")
        ),
        text,
    )
    text = text.replace(f'<g id="{LABEL_ID}">', '<g class="label">')
    used = set(re.findall(r'(?:xlink:href="#|url\(#)([^")]+)', text))
    text = re.sub(
        r' id="([^"]*)"', lambda name: f' id="{prefix}-{name[1]}"' if name[1] in used else "", text
    )
    text = re.sub(r'(xlink:href="#|url\(#)', rf"\g<1>{prefix}-", text)
    text = text.replace("xlink:href", "href").replace(_TEXT_COLOR, "currentColor")
    view = re.search(r'viewBox="([^"]*)"', text)
    assert view is not None
    escaped = label.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
    width = float(view[1].split()[2])
    opening = (
        f'<svg role="img" aria-label="{escaped}" viewBox="{view[1]}" '
        f'style="max-width: {width * 4 / 3:.0f}px">'
    )
    return opening + text[text.index(">") + 1 :].rstrip()


# Twice the size on the page, for fine screens. Photographs take about 5 kB, noise 22 kB, and with
# noisy transparency 56 kB; a page has at most 44.
_SIZE = 160
_QUALITY = 75


def thumbnail(path: Path | None) -> str:
    """Return the data address of a small copy of a picture; empty if it cannot be read."""
    if path is None:
        return ""
    from PIL import Image, ImageOps

    buffer = io.BytesIO()
    try:
        with Image.open(path) as picture:
            # Large JPEG files are decoded at a part of their size.
            picture.draft("RGB", (2 * _SIZE, 2 * _SIZE))
            small = ImageOps.exif_transpose(picture)
            see_through = "A" in small.getbands() or "transparency" in small.info
            small = small.convert("RGBA" if see_through else "RGB")
            ImageOps.contain(small, (_SIZE, _SIZE)).save(buffer, "WEBP", quality=_QUALITY)
    except (OSError, EOFError, SyntaxError, ValueError, Image.DecompressionBombError):
        return ""
    return _data_address(buffer, "webp")


def pixels(values: Vector, shape: tuple[int, ...]) -> str:
    """Return the data address of an image with values from 0 to 1.

    Parameters
    ----------
    shape: Height and width (and channels).
    """
    from PIL import Image, ImageOps

    levels = np.round(255 * np.asarray(values, dtype=np.float64)).astype(np.uint8)
    image = Image.fromarray(levels.reshape(shape[:2] if shape[2:] == (1,) else shape))
    sampling = Image.Resampling
    way = sampling.NEAREST if max(shape[:2]) < _SIZE else sampling.BICUBIC
    buffer = io.BytesIO()
    ImageOps.contain(image, (_SIZE, _SIZE), way).save(buffer, "PNG")
    return _data_address(buffer, "png")


def _data_address(buffer: io.BytesIO, kind: str) -> str:
    return f"data:image/{kind};base64,{base64.b64encode(buffer.getvalue()).decode()}"
