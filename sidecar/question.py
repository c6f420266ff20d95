"""The request on its way up: which fields it has there, its body as it comes, and who answers an expectation."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Final

from aiohttp import web

from sidecar import headers
from sidecar.downstream.response import Response
from sidecar.failures import Failure, refusal_of
from sidecar.http1.head import ResponseHead
from sidecar.identity import IdField
from sidecar.inspection.dialects import Dialect
from sidecar.inspection.splitter import EVENT_STREAM
from sidecar.live import Live
from sidecar.upstream import Answer, Upstream, authority_of, origin_form

EXPECT_S: Final = 0.5
"""A client that waits for 100 sends its body after about a second anyhow; until then the upstream may say it itself."""
READ_BYTES: Final = 16_384
"""Most that one read of a body takes."""
_SSE_QUERY: Final = "alt=sse"
"""How Google's APIs are asked for SSE; without it they stream one JSON array."""
_SSE: Final = frozenset({"sse"})
_ENDS_HERE: Final = frozenset({"host", "trailer"})
"""Host is put first; the trailers of a request are not passed on (RFC 9110, 6.5.1), so it must not announce any."""


class Question:
    """One request.

    is_plain: its answer must not be packed, whatever the client takes. wants_upgrade: to a WebSocket. offers_upgrade:
    it would speak another protocol too, which is ignored. has_bad_body: its body broke the rules of its framing.
    """

    __slots__ = (
        "_awaits_continue",
        "_fields",
        "_host",
        "_id_field",
        "_is_answered",
        "_is_plain",
        "_live",
        "_now",
        "_request",
        "_response",
        "_version",
        "has_bad_body",
        "offers_upgrade",
        "wants_upgrade",
    )

    def __init__(
        self,
        request: web.Request,
        fields: headers.Fields,
        *,
        id_field: IdField,
        host: str | None,
        live: Live,
        response: Response,
        now: Callable[[], int],
        is_plain: bool = False,
    ) -> None:
        self._request = request
        self._fields = fields
        self._id_field = id_field
        self._host = host
        self._live = live
        self._response = response
        self._now = now
        self._version = (request.version.major, request.version.minor)
        self._awaits_continue = self._version >= (1, 1) and headers.value_of(fields, "expect") is not None
        self._is_answered = False
        self._is_plain = is_plain
        self.wants_upgrade = headers.is_websocket(request.method, self._version, fields)
        self.offers_upgrade = "upgrade" in headers.connection_options(fields) and not self.wants_upgrade
        self.has_bad_body = False

    def refusal(self) -> Failure | None:
        """Why it is not even passed on."""
        return refusal_of(self._request.method, self._version, self._fields)

    @property
    def is_body_in_doubt(self) -> bool:
        """Nobody said 100, so the body may come or not: what is behind it cannot be told from it."""
        return self._awaits_continue

    def is_answered_by_sse(self, dialect: Dialect) -> bool:
        """A stream that answers it is SSE, and neither lines nor frames: it says so, or its API has no other.

        dialect: of its path."""
        accepted = headers.value_of(self._fields, "accept") or ""
        options = self._request.raw_path.partition("?")[2].split("&")
        if EVENT_STREAM in accepted.lower() or _SSE_QUERY in options:
            return True
        return dialect.is_inference and dialect.framings == _SSE

    async def ask(self, upstream: Upstream) -> Answer:
        """Pass it on, and wait for the head of the answer. Raises what `Upstream.ask` raises."""
        request, live = self._request, self._live
        has_body = request.body_exists
        waiting = None
        if self._awaits_continue and has_body:
            waiting = asyncio.get_running_loop().call_later(EXPECT_S, self._continue)
        else:
            self._awaits_continue = False
        live.is_uploading = has_body
        try:
            return await upstream.ask(
                request.method,
                origin_form(request.raw_path),
                self._passed(upstream.origin.authority),
                body=self._upload() if has_body else None,
                head_sent=self._head_sent,
                on_interim=self._interim,
                wants_upgrade=self.wants_upgrade,
            )
        finally:
            self._is_answered = True
            live.asked_ns = live.body_wait_since_ns = None
            if waiting is not None:
                waiting.cancel()

    def _passed(self, authority: str) -> list[tuple[str, str]]:
        fields = [field for field in headers.end_to_end(self._fields) if field[0].lower() not in _ENDS_HERE]
        host = self._host or authority_of(self._request.raw_path) or headers.value_of(self._fields, "host")
        fields.insert(0, ("Host", authority if host is None else host))  # only HTTP/1.0 comes without one
        id_field = self._id_field
        if headers.request_id_of(fields, (id_field.name,)) is None:  # it came empty, not at all, or as hop-by-hop
            fields = [field for field in fields if field[0].lower() != id_field.name.lower()]
            fields.append((id_field.name, id_field.value))
        if self._is_plain:
            fields = [field for field in fields if field[0].lower() != "accept-encoding"]
            fields.append(("Accept-Encoding", "identity"))
        if self.wants_upgrade:
            fields += [("Connection", "Upgrade"), ("Upgrade", "websocket")]
        return fields

    async def _upload(self) -> AsyncIterator[bytes]:
        live, recorder, content = self._live, self._live.recorder, self._request.content
        try:
            while True:
                if not self._is_answered:  # from then on the client may send on for as long as it reads
                    live.body_wait_since_ns = self._now()
                try:
                    data = await content.read(READ_BYTES)
                finally:
                    live.body_wait_since_ns = None
                if not data:
                    return
                self._awaits_continue = False  # RFC 9110, 10.1.1: it did not wait
                yield data
                live.asked_ns = None if live.asked_ns is None else self._now()
                recorder.asked.passed(data)
        except Exception:
            self.has_bad_body = True
            raise
        finally:
            live.is_uploading = False

    def _head_sent(self) -> None:
        self._live.asked_ns = self._now()
        self._live.recorder.request_forwarded(self._live.asked_ns)

    def _interim(self, head: ResponseHead) -> None:
        """Pass on what comes before the answer (RFC 9110, 15.2)."""
        if head.status == 100:
            self._continue()  # who did not ask for it gets none
        else:
            self._say(head.status, head.reason, headers.end_to_end(head.fields))

    def _continue(self) -> None:
        """Let the client send its body: once, whoever says it first."""
        if self._awaits_continue:
            self._awaits_continue = False
            self._say(100, "Continue")

    def _say(self, status: int, reason: str, fields: headers.Fields = ()) -> None:
        """Answer before the answer, which is no part of that."""
        self._response.interim(status, reason, fields)
        if self._live.connection is not None:
            self._live.connection.sent(None)
