"""The web server: the page, its questions and answers, and the page of results.

Every address has a secret key: one for each person, and one for results. A person's key shows their
questions and their own count of answers: what others answered, and what is learned, could influence
them. Only if the server listens on this machine alone does "/" lead to the first person's page.
Requests are small and few kinds; larger ones are refused before they are read. Pictures are served
by number, from paths that were resolved and checked before the server started. Texts reach the page
as JSON and are inserted as text; the pages allow no script but their own, and no other origin.

Connections of people who do not finish: uvicorn waits for them without end, this does not.

A connection has a clock that runs while it is the other side's turn: from its beginning or from the
last response to the end of the next request, and while a response is not read. Bytes that trickle
in do not set it back. If there are too many connections, the address that has most of them loses
the one that has waited longest, so that nobody can lock out others.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import hmac
import json
import os
import re
import socket
import sys
import threading
import webbrowser
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import (
    FileResponse,
    HTMLResponse,
    JSONResponse,
    RedirectResponse,
    Response,
)
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from nearfar.ask.progress import results_page
from nearfar.ask.store import Collection, StoreError, StoreUnavailableError
from nearfar.frames.table import PICTURES
from nearfar.runtime.messages import option
from nearfar.terminal import say
from nearfar.typing import Json

LARGEST_BODY, LONGEST_ADDRESS = 2048, 256
"""Several times what the page sends."""
LOOPBACK = ("127.0.0.1", "localhost")
# Of threads: after each call of the system, the thread that answers people waits so long for one
# that learns. With Python's 0.005, that was most of the time of an answer among 200 people.
_SWITCH_SECONDS = 0.0005
_NO_LINK = "This link is not valid. Ask for a new one."
_SCRIPT = re.compile(r"<script>(.*?)</script>", re.DOTALL)
_STATIC = {"page.css": "text/css", "page.js": "text/javascript"}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def make_app(
    collection: Collection,
    *,
    hosts: Sequence[str] | None = LOOPBACK,
    show_results: bool = False,
) -> Starlette:
    """Return the web application of a collection.

    Parameters
    ----------
    hosts: Names under which the server may be asked. By default those of this machine
        alone, and "/" leads to the first person's page. None allows every name, and then
        "/" leads nowhere.
    show_results: Whether people see the number of all answers, the agreement, and a link to
        the results.
    """
    pages = _Pages(collection, local=hosts is not None, show_results=show_results)
    routes = [
        Route("/", pages.start),
        Route("/static/{name}", pages.static),
        Route("/a/{key}", pages.page),
        Route("/a/{key}/questions", pages.questions),
        Route("/a/{key}/answer", pages.answer, methods=["POST"]),
        Route("/a/{key}/undo", pages.undo, methods=["POST"]),
        Route("/a/{key}/picture/{number:int}", pages.picture),
        Route("/results/{key}", pages.results),
    ]
    middleware = [Middleware(_Bounded)]
    if hosts is not None:
        middleware.insert(0, Middleware(TrustedHostMiddleware, allowed_hosts=list(hosts)))
    return Starlette(
        routes=routes,
        middleware=middleware,
        exception_handlers={HTTPException: _refused, StoreError: _refused},
    )


class _Pages:
    """What the server answers to."""

    def __init__(self, collection: Collection, *, local: bool, show_results: bool) -> None:
        self.collection, self.local, self.show_results = collection, local, show_results
        self.people = {key: name for name, key in collection.store.people.items()}

    async def start(self, request: Request) -> Response:
        """Lead to the first person's page."""
        first = next(iter(self.people), None)
        if not self.local or first is None:
            raise HTTPException(404, "Use the link that you were given.")
        return RedirectResponse(f"/a/{first}", headers=_HEADERS)

    async def static(self, request: Request) -> Response:
        """Serve the style and the script."""
        if request.path_params["name"] not in _STATIC:
            raise HTTPException(404, "There is no such file.")
        return _file(request.path_params["name"])

    def _person(self, request: Request) -> str:
        if request.path_params["key"] not in self.people:
            raise HTTPException(404, _NO_LINK)
        return self.people[request.path_params["key"]]

    async def page(self, request: Request) -> Response:
        """Serve the page of questions."""
        self._person(request)
        return _file("page.html")

    async def questions(self, request: Request) -> Response:
        """Give the question to show, the next one, and the number of answers so far."""
        collection, person = self.collection, self._person(request)

        def content() -> dict[str, Json]:
            judged, shown = collection.chooser.judgements, collection.objects.shown
            results: Json = {
                "answers": len(judged),
                "progress": collection.progress.standing,
                "address": f"/results/{collection.store.results_key}",
            }
            return {
                "kind": collection.store.kind,
                "person": person,
                "questions": [
                    {"id": asked.id, "objects": [*map(shown, asked.question.objects)]}
                    for asked in collection.questions(person)
                ],
                "answered": sum(each.person == person for each in judged),
                "last": collection.store.last_answer(person),
                "results": results if self.show_results else None,
            }

        document = await run_in_threadpool(content)
        due = BackgroundTask(collection.measure) if collection.due else None
        return JSONResponse(document, headers=_HEADERS, background=due)

    async def answer(self, request: Request) -> Response:
        """Store an answer, and confirm it."""
        person = self._person(request)
        sent = await _document(request, {"question": str, "answer": str, "seconds": float})
        fields = sent["question"], sent["answer"], sent.get("seconds")
        stored = await run_in_threadpool(self.collection.answer, person, *fields)
        return JSONResponse({"stored": True, "new": stored}, headers=_HEADERS)

    async def undo(self, request: Request) -> Response:
        """Take back the last answer."""
        person = self._person(request)
        sent = await _document(request, {"question": str})
        done = await run_in_threadpool(self.collection.undo, person, sent["question"])
        return JSONResponse({"undone": done}, headers=_HEADERS)

    async def picture(self, request: Request) -> Response:
        """Serve the picture of an object."""
        self._person(request)
        found = (self.collection.objects.pictures or ())[request.path_params["number"] :][:1]
        if not found or not os.access(path := found[0], os.R_OK):
            raise HTTPException(404, "There is no such picture.")
        headers = {**_HEADERS, "Cache-Control": "private, max-age=3600"}
        headers["Content-Security-Policy"] = "default-src 'none'; sandbox"
        return FileResponse(path, media_type=PICTURES[path.suffix.lower()], headers=headers)

    async def results(self, request: Request) -> Response:
        """Serve the page of results."""
        keys = request.path_params["key"], self.collection.store.results_key
        if not hmac.compare_digest(*(key.encode() for key in keys)):
            raise HTTPException(404, _NO_LINK)
        page = await run_in_threadpool(results_page, self.collection)
        digests = [hashlib.sha256(text.encode()).digest() for text in _SCRIPT.findall(page)]
        hashes = " ".join(f"'sha256-{base64.b64encode(each).decode()}'" for each in digests)
        policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src "
        return HTMLResponse(page, headers={**_HEADERS, "Content-Security-Policy": policy + hashes})


def _file(name: str) -> Response:
    text = (Path(__file__).parent / name).read_text(encoding="utf-8")
    headers = {**_HEADERS, "Content-Security-Policy": _POLICY}
    return Response(text, media_type=_STATIC.get(name, "text/html"), headers=headers)


async def _document(request: Request, fields: dict[str, type]) -> dict[str, Any]:
    """Read a small JSON object from a page of this server."""
    origin = request.headers.get("origin")
    if origin is not None and origin.partition("://")[2] != request.headers.get("host"):
        raise HTTPException(403, "This request is from another page.")
    if request.headers.get("content-type", "").partition(";")[0] != "application/json":
        raise HTTPException(415, "Send JSON.")
    try:
        sent = json.loads(await request.body())
    except (ValueError, RecursionError):
        raise HTTPException(400, "This is not JSON.") from None
    except ClientDisconnect:
        raise HTTPException(400, "The request is not complete.") from None
    if not isinstance(sent, dict) or not set(sent) <= set(fields):
        raise HTTPException(400, f"Send an object with {', '.join(fields)}.")
    for name, kind in fields.items():
        if name not in sent and kind is not float:
            raise HTTPException(400, f"{name} is missing.")
        value = sent.get(name, kind())
        # Halves of characters are JSON, but no text. Ids and answers are plain letters.
        plain = not isinstance(value, str) or value.isascii()
        if not plain or not isinstance(value, (int, float) if kind is float else kind):
            raise HTTPException(400, f"{name} is of another kind.")
    return sent


async def _refused(_: Request, error: Exception) -> Response:
    if isinstance(error, HTTPException):
        return _error(error.status_code, error.detail)
    return _error(503 if isinstance(error, StoreUnavailableError) else 400, str(error))


class _Bounded:
    """Refuses long addresses and large bodies, whether their length is announced or not."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        if len(scope["raw_path"]) + len(scope["query_string"]) > LONGEST_ADDRESS:
            await _error(414, "The address is too long.")(scope, receive, send)
            return
        length = dict(scope["headers"]).get(b"content-length", b"0")
        if not length.isdigit() or int(length) > LARGEST_BODY:
            await _error(413, "The request is too large.")(scope, receive, send)
            return
        received = 0

        async def counted() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > LARGEST_BODY:
                raise HTTPException(413, "The request is too large.")
            return message

        await self.app(scope, counted, send)


def _error(status: int, text: str) -> JSONResponse:
    return JSONResponse({"error": text}, status, headers=_HEADERS)


PATIENCE = 5.0
"""Seconds to send a request, or to read 64 kB of a response."""
MOST_CONNECTIONS = 400
"""Pages of 200 people, with pictures; far below the files that a process may open."""
# Bytes of the head of a request; browsers send about one thousand.
_LARGEST_HEAD = 16_384


def server_of(app: ASGIApp) -> uvicorn.Server:
    """Return a server that closes connections which do not finish."""
    config = uvicorn.Config(
        app,
        http=Connection,
        log_level="warning",
        access_log=False,
        server_header=False,
        h11_max_incomplete_event_size=_LARGEST_HEAD,
        ws="none",
        lifespan="off",
    )
    return uvicorn.Server(config)


class Connection(H11Protocol):
    """A connection with a clock."""

    _clock: asyncio.TimerHandle

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the clock; if there are too many connections, close one."""
        super().connection_made(transport)
        self._clock = self.loop.call_later(PATIENCE, transport.abort)
        if len(self.connections) > MOST_CONNECTIONS:
            connections = [each for each in self.connections if isinstance(each, Connection)]
            crowd = Counter(each.address for each in connections)
            waiting = [each for each in connections if each.is_waiting]
            longest = max(waiting, key=lambda each: (crowd[each.address], -each._clock.when()))
            self.connections.discard(longest)
            longest.transport.abort()

    @property
    def address(self) -> str:
        """The address of the other side."""
        return self.client[0] if self.client else ""

    @property
    def is_waiting(self) -> bool:
        """Whether it is the other side's turn."""
        cycle = self.cycle
        idle = cycle is None or cycle.response_complete or cycle.more_body
        return idle or self.flow.write_paused

    def _restart_clock(self) -> None:
        self._clock.cancel()
        if self.is_waiting:
            self._clock = self.loop.call_later(PATIENCE, self.transport.abort)

    def handle_events(self) -> None:
        """Stop the clock if the request is complete."""
        super().handle_events()
        if not self.is_waiting:
            self._clock.cancel()

    def on_response_complete(self) -> None:
        """Wait for the next request, which may be there already."""
        self._restart_clock()
        super().on_response_complete()

    def pause_writing(self) -> None:
        """Wait until the response is read."""
        super().pause_writing()
        self._restart_clock()

    def resume_writing(self) -> None:
        """Stop the clock, unless the response is complete."""
        super().resume_writing()
        self._restart_clock()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clock."""
        self._clock.cancel()
        super().connection_lost(exc)


def is_local(host: str) -> bool:
    """Tell whether the page may be opened without a link: only at the usual local address."""
    return host in LOOPBACK


def serve(
    collection: Collection, host: str, port: int, *, show_results: bool, browser: bool
) -> None:
    """Serve the page until interrupted, and say the links of people and of the results.

    Without a link the page opens only at the usual local address.
    """
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server((host, port), family=family)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ValueError(
            f"Cannot listen on {host}, port {port}: {reason}; name another {option('port')}."
        ) from error
    local = is_local(host)
    app = make_app(collection, hosts=LOOPBACK if local else None, show_results=show_results)
    host, port = listening.getsockname()[:2]
    base = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    links = {name: f"{base}/a/{key}" for name, key in collection.store.people.items()}
    for name, link in links.items():
        say(f"{name}: {link}")
    say(f"Results: {base}/results/{collection.store.results_key}")
    say("Press Ctrl+C to end. Answers are kept, and the same command continues.")
    if browser and local:
        threading.Timer(0.5, webbrowser.open, [next(iter(links.values()))]).start()
    sys.setswitchinterval(_SWITCH_SECONDS)
    with contextlib.suppress(KeyboardInterrupt):
        server_of(app).run(sockets=[listening])
