"""Pictures as small images inside the page."""

from __future__ import annotations

import base64
import io
from pathlib import Path

import numpy as np

from nearfar.typing import Vector

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
