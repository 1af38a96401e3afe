"""People who do not finish are disconnected, and others are answered."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from urllib.parse import urlsplit

import pytest

from ask.conftest import make_collection

connections = pytest.importorskip("nearfar.ask.server", reason="uvicorn is not installed")

HALF = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(connections, "PATIENCE", 0.2)


def connect(address):
    place = urlsplit(address)
    return socket.create_connection((place.hostname, place.port), timeout=60)


def received(connection):
    """Return everything until the other side closes the connection."""
    data = b""
    with contextlib.suppress(ConnectionError):
        while part := connection.recv(65536):
            data += part
    return data


def get(address, path="/static/page.css"):
    with connect(address) as connection:
        request = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
        connection.sendall(request.encode())
        return received(connection)


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        HALF,
        b"POST /a/KEY/answer HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        b"Content-Length: 9\r\n\r\n{",
        b"GET /none HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" + HALF,
        b"GET /none HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    ],
    ids=["nothing", "head", "body", "second head", "kept alive"],
)
def test_the_unfinished_are_disconnected(collection, serve, impatient, sent):
    address = serve(collection)
    with connect(address) as slow:
        slow.sendall(sent.replace(b"KEY", collection.store.people["Ann"].encode()))
        found = received(slow)
    assert found.startswith(b"HTTP/1.1 404") == sent.startswith(b"GET /none")
    assert get(address).startswith(b"HTTP/1.1 200")


def test_bytes_that_trickle_in_do_not_help(collection, serve, impatient):
    with connect(serve(collection)) as slow:
        slow.sendall(HALF)

        def trickle():
            for _ in range(1000):
                slow.sendall(b"x")
                time.sleep(0.02)

        with pytest.raises(ConnectionError):
            trickle()


def test_a_response_that_nobody_reads_is_given_up(tmp_path, serve, impatient, monkeypatch):
    lost, lose = threading.Event(), connections.Connection.connection_lost

    def connection_lost(self, error):
        lose(self, error)
        lost.set()

    monkeypatch.setattr(connections.Connection, "connection_lost", connection_lost)
    picture = tmp_path / "large.png"
    picture.write_bytes(bytes(30_000_000))
    collection = make_collection(tmp_path / "answers.db", pictures=[picture] * 30)
    path = f"/a/{collection.store.people['Ann']}/picture/0"
    with connect(serve(collection)) as slow:
        slow.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        assert lost.wait(60)
        assert len(received(slow)) < 30_000_000
    collection.store.close()


def test_many_do_not_lock_out_others(collection, serve, monkeypatch):
    """Of 30 connections that wait, those are closed that have waited longest."""
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", 10)
    monkeypatch.setattr(connections, "PATIENCE", 600.0)
    address = serve(collection)
    with contextlib.ExitStack() as stack:
        slow = [stack.enter_context(connect(address)) for _ in range(30)]
        for connection in slow:
            with contextlib.suppress(ConnectionError):
                connection.sendall(HALF)
        for _ in range(3):
            assert get(address).startswith(b"HTTP/1.1 200")
        assert [received(connection) for connection in slow[:20]] == [b""] * 20


def test_the_address_with_most_connections_loses_first(collection, serve, monkeypatch):
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", 5)
    monkeypatch.setattr(connections, "PATIENCE", 600.0)
    place = urlsplit(serve(collection))
    target = (place.hostname, place.port)
    with contextlib.ExitStack() as stack:
        try:
            alone = socket.create_connection(target, 60, ("127.0.0.2", 0))
        except OSError:
            pytest.skip("This machine has no address 127.0.0.2.")
        stack.enter_context(alone)
        for _ in range(20):
            stack.enter_context(socket.create_connection(target, 60))
        alone.sendall(b"GET /none HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        assert received(alone).startswith(b"HTTP/1.1 404")
