"""Requests of an attacker: each is answered with a sentence, and no answer is lost."""

from __future__ import annotations

import json
import logging
import os
import random
import socket
from urllib.parse import urlsplit

import pytest

pytest.importorskip("uvicorn", reason="uvicorn is not installed")

ROUNDS = 30_000 if "NEARFAR_FUZZ" in os.environ else 600
METHODS = ["POST"] * 12 + ["GET"] * 3 + ["HEAD", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "X"]
VALUES = [
    "null",
    "true",
    "-1",
    "1e999",
    "-1e-999",
    "NaN",
    "Infinity",
    "1" * 1500,
    "[" * 900,
    "{}",
    '""',
    '"\\ud800"',
    '"\\u0000"',
    '"\u00e9\u202e"',
    '"left"',
    '"unsure"',
    '"same"',
    '"<script>"',
    '"; DROP TABLE answers; --"',
    '"' + "x" * 2100 + '"',
]
TYPES = [
    b"application/json",
    b"application/json; charset=utf-16",
    b"APPLICATION/JSON",
    b"text/plain",
    b"application/x-www-form-urlencoded",
    b"",
    b"\xff\xfe",
]
HOSTS = [b"127.0.0.1", b"localhost:1", b"evil.example", b"", b"[::1", b"127.0.0.1@evil", b"\xe9"]
ORIGINS = [b"null", b"http://[evil", b"http://evil.example", b"http://127.0.0.1", b"\xff", b"//"]
HEADERS = [
    b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\n",
    b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: \r\n",
    b"Range: bytes=0-0,1-1,2-\r\n",
    b"Range: bytes=" + b",".join(b"%d-" % n for n in range(300)) + b"\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Expect: 100-continue\r\n",
    b"Content-Length: -1\r\n",
    b"Content-Length: 99999999999999999999\r\n",
    b"X-Forwarded-For: 127.0.0.1\r\nX-Forwarded-Host: evil\r\nX-Forwarded-Proto: \xff\r\n",
    b"Cookie: " + b"x" * 4000 + b"\r\n",
    b"X: " + b"y" * 20_000 + b"\r\n",
    b"A B: c\r\n",
    b"\r\n",
]


def address(rng, home):
    """Return a path, which is mostly one of the server's, with something wrong in it."""
    paths = ["/", "/static/page.js", home, f"{home}/questions", f"{home}/answer", f"{home}/undo"]
    paths += [f"{home}/answer"] * 12 + [f"{home}/picture/0", "/results/x", "/a/x/answer"]
    path = rng.choice(paths).encode()
    wrong = [
        b"/../..",
        b"%00",
        b"%ff",
        b"%2e%2e%2f",
        b"//",
        b"?a=%",
        b";x",
        b"\\",
        b"#",
        b"%ED%A0%80",
    ]
    wrong += [b"/" + b"9" * 200, b"/-1", b"?" + b"x" * 300, b"/" * 5]
    return path + rng.choice(wrong) if rng.random() < 0.2 else path


def document(rng, questions):
    """Return JSON, or nearly."""
    known = [json.dumps(question) for question in questions]
    items = [
        ("question", rng.choice([*known, *known, rng.choice(VALUES)])),
        ("answer", rng.choice(['"left"', '"right"', rng.choice(VALUES)])),
    ]
    if rng.random() < 0.5:
        items.append(("seconds", rng.choice(["1.5", "0", *VALUES])))
    if rng.random() < 0.1:
        items.append((rng.choice(["answer", "weight", "__proto__", "\\ud800"]), rng.choice(VALUES)))
    text = "{" + ",".join(f'"{name}":{value}' for name, value in items) + "}"
    body = text.encode(rng.choice(["utf-8"] * 8 + ["utf-16", "utf-32"]))
    if rng.random() < 0.1:
        place = rng.randrange(len(body))
        body = body[:place] + bytes([rng.randrange(256)]) + body[place + rng.randrange(3) :]
    return body


def message(rng, home, questions):
    """Return the bytes of a request."""
    body = document(rng, questions)
    lines = [f"{rng.choice(METHODS)} ".encode(), address(rng, home)]
    lines.append(rng.choice([b" HTTP/1.1\r\n"] * 9 + [b" HTTP/1.0\r\n", b" HTTP/9.9\r\n", b"\r\n"]))
    lines.append(b"Host: " + rng.choice([HOSTS[0]] * 60 + HOSTS) + b"\r\n")
    lines.append(b"Content-Type: " + rng.choice([TYPES[0]] * 60 + TYPES) + b"\r\n")
    if rng.random() < 0.2:
        lines.append(b"Origin: " + rng.choice(ORIGINS) + b"\r\n")
    if rng.random() < 0.2:
        lines.append(rng.choice(HEADERS))
    length = len(body) + (rng.choice([-1, 1, 3000]) if rng.random() < 0.1 else 0)
    lines.append(f"Content-Length: {length}\r\nConnection: close\r\n\r\n".encode())
    sent = b"".join(lines) + body
    if rng.random() < 0.05:
        place = rng.randrange(len(sent))
        sent = sent[:place] + bytes([rng.randrange(256)]) + sent[place + 1 :]
    return sent


def answered(place, sent):
    """Return what the server says to a message after which nothing comes."""
    with socket.create_connection(place, timeout=60) as connection:
        found = b""
        try:
            connection.sendall(sent)
            while part := connection.recv(65536):
                found += part
        except ConnectionError:
            pass
        return found


def test_no_request_is_an_error_of_the_server(collection, serve, monkeypatch):
    # Requests that are too short for their length are waited for.
    monkeypatch.setattr("nearfar.ask.server.PATIENCE", 0.05)
    logged = logging.Handler(logging.ERROR)
    records = []
    logged.emit = records.append
    logging.getLogger("uvicorn.error").addHandler(logged)
    place = urlsplit(serve(collection))
    home = f"/a/{collection.store.people['Ann']}"
    rng, confirmed, statuses = random.Random(0), set(), set()
    for _ in range(ROUNDS):
        questions = [asked.id for asked in collection.questions("Ann")]
        found = answered((place.hostname, place.port), message(rng, home, questions))
        status = int(found.split(b" ", 2)[1]) if found else 0
        assert status < 500, found
        statuses.add(status)
        if b'"new":true' in found:
            confirmed |= set(questions) - {a.id for a in collection.store.open_questions("Ann")}
    logging.getLogger("uvicorn.error").removeHandler(logged)
    assert [record.getMessage() for record in records] == []
    assert {200, 400, 403, 404, 405, 413, 414, 415} <= statuses
    stored = collection.store.answers()
    assert confirmed <= {row[0] for row in collection.store._rows("SELECT question FROM answers")}
    assert len(confirmed) > ROUNDS / 50
    assert len(stored) == len(collection.chooser.judgements)
    collection.measure()
