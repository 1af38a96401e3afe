"""Connections of people who do not finish: uvicorn waits for them without end, this does not.

A connection has a clock that runs while it is the other side's turn: from its beginning or from the
last response to the end of the next request, and while a response is not read. Bytes that trickle
in do not set it back. If there are too many connections, the address that has most of them loses
the one that has waited longest, so that nobody can lock out others.
"""

from __future__ import annotations

import asyncio
from collections import Counter

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

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
