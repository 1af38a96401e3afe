"""Pictures in reports: small, of bounded size, and those of the rows."""

from __future__ import annotations

import base64
import io
import re
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from nearfar import BoostMetric, RandomTriplets
from nearfar.frames.reading import read_table
from nearfar.page.figures import pixels, thumbnail
from nearfar.tables.report import write_report
from studies import study_of, wine_study, wines

ADDRESS = re.compile(r"data:image/(?:png|webp);base64,([\w+/=]+)")
LARGEST = 160


def opened(address):
    """Return the image of a data address."""
    return Image.open(io.BytesIO(base64.b64decode(ADDRESS.fullmatch(address)[1])))


def noise(*shape):
    return np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)


@pytest.mark.parametrize(
    ("mode", "name", "size"),
    [
        ("RGB", "a.jpg", (900, 300)),
        ("L", "a.jpg", (30, 60)),
        ("CMYK", "a.jpg", (400, 400)),
        ("RGB", "a.webp", (20, 20)),
        ("P", "a.gif", (200, 100)),
        ("1", "a.png", (200, 100)),
        ("LA", "a.PNG", (90, 180)),
    ],
)
def test_small_copies(tmp_path, mode, name, size):
    Image.new("RGB", size, (180, 180, 180)).convert(mode).save(tmp_path / name)
    small = opened(thumbnail(tmp_path / name))
    assert max(small.size) == LARGEST
    assert small.width / small.height == pytest.approx(size[0] / size[1], rel=0.02)
    middle = small.convert("RGB").getpixel((small.width // 2, small.height // 2))
    if mode != "1":  # which is dithered
        np.testing.assert_allclose(middle, 180, atol=6)


def test_transparent_parts_stay_transparent(tmp_path):
    picture = Image.new("RGBA", (200, 200))
    picture.paste((255, 0, 0, 255), (0, 0, 100, 200))
    picture.save(tmp_path / "a.png")
    picture.convert("P").save(
        tmp_path / "b.gif", transparency=picture.convert("P").getpixel((150, 9))
    )
    for name in ("a.png", "b.gif"):
        small = opened(thumbnail(tmp_path / name))
        assert small.getpixel((40, 80))[3] == 255
        assert small.getpixel((120, 80))[3] == 0


def test_pictures_are_turned_as_their_camera_says(tmp_path):
    picture = Image.new("RGB", (300, 100))
    exif = picture.getexif()
    exif[0x0112] = 6  # turned by 90 degrees
    picture.save(tmp_path / "a.jpg", exif=exif)
    small = opened(thumbnail(tmp_path / "a.jpg"))
    assert small.height == LARGEST > small.width


def test_what_is_no_picture_has_none(tmp_path, monkeypatch):
    whole = tmp_path / "whole.png"
    Image.fromarray(noise(50, 50, 3)).save(whole)
    data = whole.read_bytes()
    broken = {"empty": b"", "text": b"text", "half": data[: len(data) // 2]}
    broken["changed"] = data[:60] + bytes(40) + data[100:]
    for name, content in broken.items():
        path = tmp_path / f"{name}.png"
        path.write_bytes(content)
        assert thumbnail(path) == "", name
    assert thumbnail(tmp_path / "none.png") == ""
    assert thumbnail(None) == ""
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)
    assert thumbnail(whole) == ""


@pytest.mark.parametrize("shape", [(8, 8), (3, 5), (28, 28, 1), (8, 8, 3), (200, 300), (1, 9)])
def test_rows_of_pixels(shape):
    values = np.linspace(0, 1, np.prod(shape))
    image = opened(pixels(values, shape))
    assert max(image.size) == LARGEST
    levels = np.asarray(image.convert("L"), dtype=float) / 255
    corners = values.reshape(*shape[:2], -1).mean(axis=2)[[0, -1], [0, -1]]
    np.testing.assert_allclose(levels[[0, -1], [0, -1]], corners, atol=0.02)


@pytest.mark.slow
def test_a_page_of_noise_is_bounded(tmp_path):
    """The size of a report does not grow with that of the pictures."""
    paths = []
    for row in range(178):
        paths.append(tmp_path / f"{row}.png")
        Image.fromarray(noise(200 + row, 200, 4)).save(paths[-1], compress_level=0)
    for name, pictures in (("with", paths), ("without", None)):
        study = replace(wine_study(), table=wines(pictures=pictures))
        write_report(tmp_path / f"{name}.html", study)
    text = (tmp_path / "with.html").read_text()
    assert len(ADDRESS.findall(text)) == 44
    assert len(text) - (tmp_path / "without.html").stat().st_size < 2_500_000


def test_each_row_has_its_picture(tmp_path):
    """Pictures are as red as the number of their row; some rows have none."""
    paths = []
    for row in range(60):
        paths.append(tmp_path / f"{row}.png")
        Image.new("RGB", (20, 20), (4 * row, 0, 0)).save(paths[-1])
    paths[7] = None
    random = np.random.default_rng(0)
    X = random.normal(size=(60, 3))
    triplets = RandomTriplets(200)(X, (X[:, 0] > 0).astype(int), np.random.RandomState(0))
    names = [f"row-{row}" for row in range(60)]
    table = replace(read_table(X, triplets=triplets), ids=names, pictures=paths)
    write_report(tmp_path / "rows.html", study_of(table, BoostMetric(max_iter=3)))
    shown = re.findall(
        r'<(?:li|h3)><img src="([^"]*)" alt=""> row-(\d+)<', (tmp_path / "rows.html").read_text()
    )
    assert len(shown) > 20
    for address, row in shown:
        np.testing.assert_allclose(
            opened(address).convert("RGB").getpixel((80, 80))[0], 4 * int(row), atol=4
        )
    assert "7" not in {row for _, row in shown}
