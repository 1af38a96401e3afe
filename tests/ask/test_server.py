"""What the server answers, and what it refuses."""

from __future__ import annotations

import json
import socket
import sqlite3
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import pytest

pytest.importorskip("starlette", reason="starlette is not installed")
pytest.importorskip("httpx", reason="httpx is not installed")

from PIL import Image
from starlette.testclient import TestClient

from ask.conftest import Server, make_collection
from nearfar.ask.server import LARGEST_BODY, make_app
from nearfar.ask.store import OPEN, StoreError

MARKUP = "<script>alert(1)</script>"


@pytest.fixture
def client(collection):
    return TestClient(make_app(collection), base_url="http://127.0.0.1:8765")


@pytest.fixture
def home(collection):
    return f"/a/{collection.store.people['Ann']}"


def questions(client, home):
    return client.get(f"{home}/questions").json()


def test_questions_are_answered(client, home, collection):
    first = questions(client, home)
    assert first["kind"] == "triplets"
    assert len(first["questions"]) == OPEN
    assert first["answered"] == 0
    assert questions(client, home)["questions"] == first["questions"]
    document = {"question": first["questions"][0]["id"], "answer": "left", "seconds": 2}
    assert client.post(f"{home}/answer", json=document).json() == {"stored": True, "new": True}
    assert client.post(f"{home}/answer", json=document).json() == {"stored": True, "new": False}
    later = questions(client, home)
    assert later["questions"][0] == first["questions"][1]
    assert later["answered"] == 1
    assert len(collection.store.answers()) == len(collection.chooser.judgements) == 1


def test_undo(client, home, collection):
    first = questions(client, home)["questions"][0]
    client.post(f"{home}/answer", json={"question": first["id"], "answer": "unsure"})
    last = questions(client, home)["last"]
    assert last == first["id"]
    for done in (True, False):
        found = client.post(f"{home}/undo", json={"question": last}).json()
        assert found == {"undone": done}
    assert questions(client, home)["questions"][0]["objects"] == first["objects"]
    assert collection.chooser.judgements == []


def test_people_have_their_own_questions(client, collection):
    homes = [f"/a/{key}" for key in collection.store.people.values()]
    shown = [questions(client, home) for home in homes]
    assert [found["person"] for found in shown] == ["Ann", "Ben"]
    ids = [asked["id"] for found in shown for asked in found["questions"]]
    assert len(set(ids)) == 2 * OPEN
    for home, found in zip(homes, shown, strict=True):
        asked = found["questions"][0]["id"]
        assert client.post(f"{home}/answer", json={"question": asked, "answer": "left"}).is_success
    other = shown[1]["questions"][1]["id"]
    refused = client.post(f"{homes[0]}/answer", json={"question": other, "answer": "left"})
    assert refused.status_code == 400
    assert {each.person for each in collection.store.answers()} == {"Ann", "Ben"}


def test_answers_at_the_same_time_are_stored_once_each(tmp_path):
    people = [f"person {n}" for n in range(20)]
    collection = make_collection(tmp_path / "answers.db", people=people)

    def answer(person):
        asked = collection.questions(person)[0]
        with pytest.raises(StoreError, match="no such question"):
            collection.answer(person, "none", "left", None)
        return [collection.answer(person, asked.id, "left", 1.0) for _ in range(2)]

    with ThreadPoolExecutor(20) as threads:
        assert list(threads.map(answer, people)) == [[True, False]] * 20
    assert sorted(each.person for each in collection.store.answers()) == sorted(people)
    assert sorted(j.person for j in collection.chooser.judgements) == sorted(people)
    collection.store.close()


@pytest.mark.parametrize("path", ["/a/guess", "/a/guess/questions", "/results/guess", "/a/", "/b"])
def test_without_a_key_there_is_nothing(client, path):
    assert client.get(path).status_code == 404


def test_results_need_their_own_key(client, home, collection):
    key = home.removeprefix("/a/")
    assert client.get(f"/results/{key}").status_code == 404
    assert client.get(f"/a/{collection.store.results_key}").status_code == 404


def test_people_do_not_see_results(client, home, collection):
    """A page that shows results influences the answers."""
    for each in ["Ann"] * 30 + ["Ben"] * 30:
        asked = collection.questions(each)[0]
        collection.answer(each, asked.id, "left", 1.0)
    collection.measure()
    assert collection.progress.agreement is not None
    found = client.get(f"{home}/questions")
    shown = found.json()
    assert set(shown) == {"kind", "person", "questions", "answered", "last", "results"}
    assert shown["results"] is None
    assert shown["answered"] == 30
    for asked in shown["questions"]:
        assert set(asked) == {"id", "objects"}
        assert all(set(each) == {"name", "number"} for each in asked["objects"])
    document = {"question": shown["questions"][0]["id"], "answer": "left"}
    answers = [found, client.post(f"{home}/answer", json=document), client.get(home)]
    answers += [client.post(f"{home}/undo", json={"question": document["question"]})]
    for answer in answers:
        assert answer.is_success
        assert collection.store.results_key not in answer.text
        assert collection.progress.standing not in answer.text
    keys = ["", "/", *(f"/{key}" for key in collection.store.people.values()), "/guess"]
    for path in [f"/results{key}" for key in keys] + [f"{home}/results"]:
        assert client.get(path).status_code == 404
    assert client.get(f"/results/{collection.store.results_key}").is_success


def test_people_who_are_invited_see_results(home, collection):
    invited = TestClient(make_app(collection, show_results=True), base_url="http://127.0.0.1")
    asked = collection.questions("Ben")[0]
    collection.answer("Ben", asked.id, "left", 1.0)
    results = questions(invited, home)["results"]
    assert results["answers"] == 1
    assert results["progress"] == collection.progress.standing
    assert invited.get(results["address"]).is_success


def test_the_start_page_is_for_this_machine_alone(client, home, collection):
    found = client.get("/", follow_redirects=False)
    assert found.headers["location"] == home
    outside = TestClient(make_app(collection, hosts=None), base_url="http://192.0.2.1")
    assert outside.get("/", follow_redirects=False).status_code == 404
    assert outside.get(f"{home}/questions").status_code == 200
    assert outside.get("/a/guess/questions").status_code == 404


def test_other_names_of_the_machine_are_refused(collection, home):
    other = TestClient(make_app(collection), base_url="http://evil.example")
    assert other.get(f"{home}/questions").status_code == 400


@pytest.fixture(params=["locked", "full", "read-only"])
def trouble(request, collection):
    """Return functions that make the file of answers unusable, and mend it."""
    if request.param == "locked":
        other = sqlite3.connect(collection.store.path, isolation_level=None)
        yield lambda: other.execute("BEGIN IMMEDIATE"), lambda: other.execute("ROLLBACK")
        other.close()
        return
    change = collection.store._rows
    (pages,) = change("PRAGMA page_count")[0]
    bad, good = {
        "full": (f"max_page_count={pages}", "max_page_count=1000000"),
        "read-only": ("query_only=ON", "query_only=OFF"),
    }[request.param]
    yield lambda: change(f"PRAGMA {bad}"), lambda: change(f"PRAGMA {good}")


def test_a_file_that_cannot_be_written_loses_nothing(client, home, collection, trouble):
    """The page tries again with the same id after 503."""
    spoil, mend = trouble
    stored = []
    spoil()
    # A file that is full still has room on its last pages.
    for _ in range(100):
        found = client.get(f"{home}/questions")
        if found.is_success:
            document = {"question": found.json()["questions"][0]["id"], "answer": "left"}
            found = client.post(f"{home}/answer", json=document)
            stored += [document["question"]] * found.is_success
        if not found.is_success:
            break
    assert found.status_code == 503
    assert "cannot be used for answers now" in found.json()["error"]
    collection.measure()
    mend()
    document = {"question": questions(client, home)["questions"][0]["id"], "answer": "left"}
    assert client.post(f"{home}/answer", json=document).json() == {"stored": True, "new": True}
    stored.append(document["question"])
    assert [
        row[0] for row in collection.store._rows("SELECT question FROM answers ORDER BY number")
    ] == stored
    assert len(collection.chooser.judgements) == len(stored)


def test_other_pages_are_refused(client, home):
    asked = questions(client, home)["questions"][0]["id"]
    document = {"question": asked, "answer": "left"}
    for origin in ("http://evil.example", "http://[evil", "null", "", "http://127.0.0.1:1"):
        headers = {"Origin": origin}
        assert client.post(f"{home}/answer", json=document, headers=headers).status_code == 403
    headers = {"Origin": "http://127.0.0.1:8765"}
    assert client.post(f"{home}/answer", json=document, headers=headers).status_code == 200
    plain = {"Content-Type": "text/plain"}
    text = json.dumps(document)
    assert client.post(f"{home}/answer", content=text, headers=plain).status_code == 415


@pytest.mark.parametrize(
    "document",
    [
        [],
        {},
        {"question": 3, "answer": "left"},
        {"question": "x", "answer": ["left"]},
        {"question": "x", "answer": "left", "more": 1},
        {"question": "x", "answer": "left", "seconds": "long"},
        {"question": "no such", "answer": "left"},
        {"question": "\ud800", "answer": "left"},
        {"question": "x", "answer": "\udfff"},
    ],
)
def test_malformed_answers_are_refused(client, home, collection, document):
    headers = {"Content-Type": "application/json"}
    sent = json.dumps(document)
    assert client.post(f"{home}/answer", content=sent, headers=headers).status_code == 400
    assert collection.store.answers() == []


def test_wrong_json_is_refused(client, home):
    headers = {"Content-Type": "application/json"}
    for text in (b"{", b"\xff", b"[" * (LARGEST_BODY - 1)):
        found = client.post(f"{home}/answer", content=text, headers=headers)
        assert found.status_code == 400


def test_requests_are_bounded(client, home, collection):
    headers = {"Content-Type": "application/json"}
    large = b" " * (LARGEST_BODY + 1)
    assert client.post(f"{home}/answer", content=large, headers=headers).status_code == 413
    parts = (b" " * 1000 for _ in range(1000))
    assert client.post(f"{home}/answer", content=parts, headers=headers).status_code == 413
    assert client.get(f"{home}/questions?{'x' * 1000}").status_code == 414
    for _ in range(5):
        questions(client, home)
    assert len(collection.store.open_questions()) == OPEN


def test_headers(client, home):
    for path in (home, f"{home}/questions", "/static/page.js"):
        found = client.get(path)
        assert found.headers["x-content-type-options"] == "nosniff"
        assert found.headers["referrer-policy"] == "no-referrer"
    policy = client.get(home).headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


def test_markup_is_text(tmp_path):
    collection = make_collection(tmp_path / "answers.db", people=(MARKUP,), texts=[MARKUP] * 30)
    client = TestClient(make_app(collection), base_url="http://127.0.0.1")
    home = f"/a/{collection.store.people[MARKUP]}"
    found = client.get(f"{home}/questions")
    assert found.headers["content-type"] == "application/json"
    assert found.json()["questions"][0]["objects"][0]["text"] == MARKUP
    assert MARKUP not in client.get(home).text
    asked = found.json()["questions"][0]["id"]
    client.post(f"{home}/answer", json={"question": asked, "answer": "left"})
    results = client.get(f"/results/{collection.store.results_key}").text
    assert "&lt;script&gt;alert(1)" in results
    assert MARKUP not in results
    collection.store.close()


def test_pictures_by_number_only(tmp_path):
    (tmp_path / "secret.txt").write_text("secret")
    folder = tmp_path / "pictures"
    folder.mkdir()
    paths = [folder / f"{row}.png" for row in range(30)]
    for path in paths:
        path.write_bytes(b"\x89PNG")
    collection = make_collection(tmp_path / "answers.db", pictures=paths)
    client = TestClient(make_app(collection), base_url="http://127.0.0.1")
    home = f"/a/{collection.store.people['Ann']}"
    found = client.get(f"{home}/picture/3")
    assert found.content == b"\x89PNG"
    assert found.headers["content-type"] == "image/png"
    assert client.get("/a/guess/picture/3").status_code == 404
    for path in ("30", "-1", "../secret.txt", "..%2Fsecret.txt", "%2e%2e/%2e%2e/secret.txt"):
        assert client.get(f"{home}/picture/{path}").status_code == 404
    for name in ("../server.py", "..%2Fserver.py", "store.py"):
        assert client.get(f"/static/{name}").status_code == 404
    collection.store.close()


@pytest.mark.parametrize(
    ("kind", "vectors"), [("triplets", True), ("triplets", False), ("pairs", True)]
)
def test_results_show_pictures(tmp_path, kind, vectors):
    paths = [tmp_path / f"{row}.png" for row in range(30)]
    for path in paths:
        Image.new("RGB", (9, 9)).save(path)
    collection = make_collection(
        tmp_path / "answers.db", kind=kind, vectors=vectors, pictures=paths
    )
    for _ in range(40):
        asked = collection.questions("Ann")[0]
        a, b = asked.question.objects[-2:]
        given = ("left" if a < b else "right") if kind == "triplets" else "same"
        if kind == "pairs" and (a + b) % 2:
            given = "different"
        collection.answer("Ann", asked.id, given, 1.0)
    client = TestClient(make_app(collection), base_url="http://127.0.0.1")
    found = client.get(f"/results/{collection.store.results_key}")
    assert found.text.count("data:image/webp;base64") == (44 if vectors else 24)
    assert "img-src data:" in found.headers["content-security-policy"]
    collection.store.close()


def test_paths_of_addresses_are_not_normalised(collection, serve):
    address = urlsplit(serve(collection))
    key = collection.store.people["Ann"]
    request = f"GET /a/{key}/picture/../../../static/page.css HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    with socket.create_connection((address.hostname, address.port)) as connection:
        connection.sendall(request.encode())
        assert connection.recv(100).startswith(b"HTTP/1.1 404")


def test_pairs(tmp_path):
    collection = make_collection(tmp_path / "answers.db", kind="pairs")
    client = TestClient(make_app(collection), base_url="http://127.0.0.1")
    home = f"/a/{collection.store.people['Ann']}"
    for number in range(6):
        asked = questions(client, home)["questions"][0]
        assert len(asked["objects"]) == 2
        answer = "same" if number % 2 else "different"
        assert client.post(
            f"{home}/answer", json={"question": asked["id"], "answer": answer}
        ).is_success
    assert len(collection.chooser.pairs()) == 6
    collection.store.close()


def status(address):
    try:
        with urllib.request.urlopen(address) as found:
            return found.status
    except urllib.error.HTTPError as error:
        error.close()
        return error.code


def is_open(host, port):
    with socket.socket() as connection:
        return connection.connect_ex((host, port)) == 0


@pytest.mark.slow
def test_another_host_is_that_address_alone_and_needs_a_key(tmp_path):
    try:
        socket.create_server(("127.0.0.2", 0)).close()
    except OSError:
        pytest.skip("This machine has no address 127.0.0.2.")
    server = Server(tmp_path, "--host", "127.0.0.2")
    try:
        link = server.links["Ann"]
        base = urlsplit(link)
        assert base.hostname == "127.0.0.2"
        assert is_open("127.0.0.2", base.port)
        assert not is_open("127.0.0.1", base.port)
        assert status(link) == status(f"{link}/questions") == 200
        assert status(server.links["Results"]) == 200
        for path in ("/", "/a/guess", "/a/guess/questions", "/results/guess"):
            assert status(f"http://{base.netloc}{path}") == 404
    finally:
        server.kill()


def test_the_default_is_this_machine_alone(tmp_path):
    server = Server(tmp_path)
    try:
        base = urlsplit(server.links["Ann"])
        assert base.hostname == "127.0.0.1"
        assert not is_open("127.0.0.2", base.port)
        assert status(f"http://{base.netloc}/") == 200
    finally:
        server.kill()
