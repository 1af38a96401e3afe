"""The page in Chromium: keys, touch, undo, two people, reload and back."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from ask.conftest import make_collection

pytestmark = pytest.mark.slow

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
PHONE = {"width": 390, "height": 844}
WIDE = {"width": 1200, "height": 900}
MARKUP = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as driver:
        quiet = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        started = driver.chromium.launch(executable_path=CHROMIUM, args=quiet)
        yield started
        started.close()


@pytest.fixture
def opened(browser, serve):
    """Return a function that opens a person's page, and what went wrong on the pages."""
    wrong, contexts = [], []

    def open_page(collection, person="Ann", address=None, **settings):
        context = browser.new_context(**{"viewport": WIDE, **settings})
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(600_000)
        page.on("console", lambda message: wrong.append(message.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("dialog", lambda dialog: wrong.append(dialog.message))
        address = address or serve(collection)
        page.goto(f"{address}/a/{collection.store.people[person]}")
        ready(page)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert wrong == []


def until(page, condition):
    """Wait; the page's policy does not allow Playwright to evaluate text inside it."""
    for _ in range(60_000):
        if page.evaluate(f"() => {condition}"):
            return
        page.wait_for_timeout(10)
    pytest.fail(f"The page never had {condition}.")


def ready(page):
    until(page, "!state.busy && state.queue.length > 1")


def answered(page, number):
    until(page, f"state.answered === {number} && !state.busy && state.queue.length > 1")


def screenshot(page, name):
    if folder := os.environ.get("NEARFAR_ARTEFACTS"):
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            page.screenshot(path=Path(folder) / f"ask-{name}-{scheme}.png")


def test_fifty_answers_by_keys(collection, opened, serve):
    page = opened(collection, address=serve(collection, show_results=True))
    for number in range(50):
        page.keyboard.press(["ArrowLeft", "ArrowRight", "Space"][number % 3])
        answered(page, number + 1)
    given = [each.answer for each in collection.store.answers()]
    assert given == [["left", "right", "unsure"][number % 3] for number in range(50)]
    assert all(each.seconds is not None for each in collection.store.answers())
    screenshot(page, "wide")
    page.keyboard.press("u")
    answered(page, 49)
    assert len(collection.store.answers()) == 49
    page.keyboard.press("ArrowLeft")
    answered(page, 50)
    assert collection.store.answers()[-1].answer == "left"
    page.get_by_role("link", name="Results").click()
    page.wait_for_selector("h2")
    screenshot(page, "results")
    page.go_back()
    ready(page)
    assert page.evaluate("state.answered") == 50


def test_fifty_answers_by_touch_on_a_phone(collection, opened):
    page = opened(collection, viewport=PHONE, has_touch=True, is_mobile=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    assert page.evaluate("document.documentElement.scrollHeight") <= PHONE["height"]
    screenshot(page, "phone")
    for number in range(50):
        page.locator(["#left", "#right", "#unsure"][number % 3]).tap()
        answered(page, number + 1)
    page.locator("#undo").tap()
    answered(page, 49)
    assert len(collection.store.answers()) == 49


def test_reload_and_back_go_on(collection, opened):
    page = opened(collection)
    page.keyboard.press("ArrowLeft")
    answered(page, 1)
    shown = page.evaluate("state.queue[0].id")
    page.reload()
    ready(page)
    assert page.evaluate("state.queue[0].id") == shown
    page.goto("about:blank")
    page.go_back()
    ready(page)
    assert page.evaluate("state.queue[0].id") == shown
    page.keyboard.press("u")
    answered(page, 0)


def test_two_people_at_once(collection, opened, serve):
    address = serve(collection)
    pages = [opened(collection, person, address) for person in ("Ann", "Ben")]
    for number in range(10):
        for page in pages:
            page.keyboard.press("ArrowRight")
        for page in pages:
            answered(page, number + 1)
    given = [each.person for each in collection.store.answers()]
    assert sorted(given) == ["Ann"] * 10 + ["Ben"] * 10


def test_fast_keys_answer_each_question_once(collection, opened):
    page = opened(collection)
    for _ in range(60):
        page.keyboard.press("ArrowLeft")
    page.wait_for_timeout(300)
    ready(page)
    given = collection.store.answers()
    assert 0 < len(given) <= 60
    ids = collection.store._rows("SELECT question FROM answers WHERE undone IS NULL")
    assert len({*ids}) == len(given)
    assert page.evaluate("state.answered") == len(given)


def test_texts_are_shown_as_text(tmp_path, opened):
    texts = [f"{MARKUP} {'A longer text of this object. ' * 5}"] * 30
    collection = make_collection(tmp_path / "answers.db", texts=texts)
    page = opened(collection, viewport=PHONE)
    assert MARKUP in page.locator("#anchor").inner_text()
    assert page.locator("#anchor img").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    screenshot(page, "texts")
    collection.store.close()


def test_pairs_say_what_each_button_means(tmp_path, opened):
    collection = make_collection(tmp_path / "answers.db", kind="pairs")
    page = opened(collection, viewport=PHONE, has_touch=True, is_mobile=True)
    assert page.locator("#anchor .object").count() == 2
    page.get_by_role("button", name="Different").tap()
    answered(page, 1)
    page.get_by_role("button", name="Same").tap()
    answered(page, 2)
    page.keyboard.press("ArrowLeft")
    answered(page, 3)
    given = [each.answer for each in collection.store.answers()]
    assert given == ["different", "same", "different"]
    screenshot(page, "pairs")
    collection.store.close()


def test_the_line_says_whose_answers_there_are(collection, opened, serve):
    address = serve(collection)
    page = opened(collection, "Ann", address)
    assert page.locator("#count").inner_text() == "0 answers so far."
    page.keyboard.press("ArrowLeft")
    answered(page, 1)
    assert page.locator("#count").inner_text() == "1 answer so far."
    other = opened(collection, "Ben", address)
    assert other.locator("footer").inner_text().strip() == "0 answers so far."
    assert other.get_by_role("link").count() == 0
    invited = opened(collection, "Ben", serve(collection, show_results=True))
    assert invited.locator("#count").inner_text() == "1 answer so far, 0 of them yours."
    assert "predict" in invited.locator("#progress").inner_text()
    assert invited.get_by_role("link", name="Results").count() == 1


@pytest.mark.parametrize(
    ("settings", "shown"),
    [
        ({}, True),
        ({"viewport": PHONE}, False),
        ({"has_touch": True, "is_mobile": True}, False),
    ],
    ids=["keyboard", "narrow", "touch"],
)
def test_keys_are_named_where_there_are_some(collection, opened, settings, shown):
    page = opened(collection, **settings)
    keys = page.locator("kbd")
    assert keys.count() == 4
    assert [key.is_visible() for key in keys.all()] == [shown] * 4


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("kind", ["triplets", "pairs"])
@pytest.mark.parametrize("viewport", [WIDE, PHONE], ids=["wide", "phone"])
def test_nothing_is_drawn_around_pictures(tmp_path, opened, kind, scheme, viewport):
    """A picture is as large as fits; a transparent one has a light colour behind it."""
    from PIL import Image

    paths = [tmp_path / f"{n}.png" for n in range(30)]
    for n, path in enumerate(paths):
        Image.new("RGBA", [(300, 60), (40, 200), (90, 90)][n % 3]).save(path)
    collection = make_collection(tmp_path / "answers.db", kind=kind, pictures=paths)
    page = opened(collection, viewport=viewport, color_scheme=scheme)
    images = "[...document.querySelectorAll('img')]"
    until(page, f"{images}.every(image => image.style.getPropertyValue('--ratio'))")
    for box in page.evaluate(f"{images}.map({_BOXES})"):
        width, height = box["width"], box["height"]
        assert width / height == pytest.approx(box["ratio"], rel=0.02)
        assert width <= box["room"]["width"] + 0.1
        assert height <= box["room"]["height"] + 0.1
        filled = width / box["room"]["width"], height / box["room"]["height"]
        assert max(filled) == pytest.approx(1, abs=0.01)
        assert (
            box["behind"] == {"light": "rgb(255, 255, 255)", "dark": "rgb(184, 192, 200)"}[scheme]
        )
        assert box["around"] == "rgba(0, 0, 0, 0)"
    assert page.evaluate("document.documentElement.scrollHeight") <= viewport["height"]
    screenshot(page, f"pictures-{kind}-{viewport['width']}")
    collection.store.close()


_BOXES = """image => {
    const size = node => (({width, height}) => ({width, height}))(node.getBoundingClientRect());
    const colour = node => getComputedStyle(node).backgroundColor;
    return {
        ...size(image), room: size(image.parentNode), behind: colour(image),
        ratio: image.naturalWidth / image.naturalHeight, around: colour(image.parentNode),
    };
}"""


def test_buttons_have_names_and_the_question_is_announced(collection, opened):
    page = opened(collection)
    assert page.get_by_role("button", name="Left: object").count() == 1
    assert page.get_by_role("button", name="Can't tell").count() == 1
    names = [each["name"] for each in page.evaluate("state.queue[0].objects")]
    assert page.locator("#announcement").text_content() == ". ".join(names)


def test_no_other_address_is_asked(collection, opened, serve):
    address = serve(collection)
    page = opened(collection, address=address)
    requests = []
    page.on("request", lambda request: requests.append(request.url))
    page.reload()
    ready(page)
    assert requests
    assert all(url.startswith((address, "data:")) for url in requests)
