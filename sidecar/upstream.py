"""The upstream side: one client session for the process, and what came back from one request.

Nothing is added to a request and nothing of it is read anew: the target passes as one opaque string, a body as it
comes. aiohttp is used by its public names alone.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from types import SimpleNamespace
from typing import Final

import aiohttp
from aiohttp import hdrs
from multidict import CIMultiDict
from yarl import URL

from sidecar import headers
from sidecar.kernel import Connection

READ_BYTES: Final = 16_384
"""Most that one read takes: `taken` is one time for all that a read brought, so that must not be a backlog."""
HEAD_LINE_BYTES: Final = 65_536
"""Longest line of a head, up and down: more than nginx or Envoy let through."""
HEAD_LINES: Final = 256
IDLE_S: Final = 4.0
"""How long an idle connection is kept: less than the 5 s after which uvicorn and Node close theirs."""

_ABSOLUTE: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/?#]*")
_CONTROL: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")  # RFC 9110, 5.5
_AUTOMATIC: Final = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")
_BODYLESS: Final = frozenset({204, 304})


def origin_form(target: str) -> str:
    """A request target without scheme, user and host, which only forward proxies get; the rest as it came."""
    absolute = _ABSOLUTE.match(target)
    path = target if absolute is None else target[absolute.end() :]
    return path if path.startswith("/") or path == "*" else "/" + path


def fields_of(raw_headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[str, str]]:
    """The fields of a head, in order and spelling; bytes that are no UTF-8 stand in them as surrogates."""
    return [(name.decode("latin-1"), value.decode("utf-8", "surrogateescape")) for name, value in raw_headers]


def sendable(fields: headers.Fields) -> CIMultiDict[str]:
    """Fields as aiohttp can write them: it has no way to send a byte that is no UTF-8, so that byte is left out."""
    return CIMultiDict((name, value.encode("utf-8", "ignore").decode()) for name, value in fields)


class Upstream:
    """The server to which every request is passed on."""

    __slots__ = ("_authority", "_prefix", "_scheme", "_session")

    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        base = URL(url)
        self._scheme = base.scheme
        self._authority = base.raw_authority
        self._prefix = base.raw_path.rstrip("/")
        self._session = session

    async def ask(
        self,
        method: str,
        target: str,
        fields: headers.Fields,
        *,
        body: AsyncIterator[bytes] | None,
        head_sent: Callable[[], None],
    ) -> Answer:
        """Pass a request on, and wait for the head of the answer. Raises what aiohttp raises."""
        # As one path it is not parsed into parts and put together again, so not a byte of it can change.
        url = URL.build(scheme=self._scheme, authority=self._authority, path=self._prefix + target, encoded=True)
        response = await self._session.request(
            method,
            url,
            headers=sendable(fields),
            data=body,
            allow_redirects=False,
            trace_request_ctx=head_sent,
        )
        return Answer(response)


def open_session(*, connect_timeout_s: float) -> aiohttp.ClientSession:
    """The session of the process. It follows nothing, keeps no cookie, unpacks nothing and waits for ever."""
    traces = aiohttp.TraceConfig()
    traces.on_request_headers_sent.append(_head_sent)
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=IDLE_S),
        timeout=aiohttp.ClientTimeout(total=None, connect=connect_timeout_s),
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        read_bufsize=READ_BYTES,
        max_line_size=HEAD_LINE_BYTES,
        max_field_size=HEAD_LINE_BYTES,
        max_headers=HEAD_LINES,
        skip_auto_headers=_AUTOMATIC,
        trace_configs=[traces],
    )


async def _head_sent(
    _session: aiohttp.ClientSession, context: SimpleNamespace, _params: aiohttp.TraceRequestHeadersSentParams
) -> None:
    context.trace_request_ctx()


class Answer:
    """The response to one request: its head is there, its body is read from `content`.

    read_bytes: how much of the body has been taken from content, as the reader of it counts.
    """

    __slots__ = ("_closed", "_response", "content", "fields", "has_body", "is_delimited", "read_bytes", "status")

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self._closed: asyncio.Future[None] | None = None
        self.status = response.status
        self.fields = fields_of(response.raw_headers)
        self.content = response.content
        self.read_bytes = 0
        length = response.headers.get(hdrs.CONTENT_LENGTH)
        self.has_body = response.method != hdrs.METH_HEAD and self.status not in _BODYLESS and length != "0"
        self.is_delimited = not self.has_body or length is not None or hdrs.TRANSFER_ENCODING in response.headers
        protocol = None if response.connection is None else response.connection.protocol
        if protocol is not None and (closed := protocol.closed) is not None:
            self._watch(closed)

    @property
    def reason(self) -> str:
        return self._response.reason or ""

    @property
    def is_usable(self) -> bool:
        """It is a final response, with a framing and fields that may be passed on."""
        codings = [coding.strip().lower() for coding in self._response.headers.getall(hdrs.TRANSFER_ENCODING, ())]
        lengths = self._response.headers.getall(hdrs.CONTENT_LENGTH, ())
        texts = [self.reason, *(value for _, value in self.fields)]
        is_framed = codings in ([], ["chunked"]) and len(lengths) + len(codings) <= 1
        return self.status >= 200 and is_framed and not any(map(_CONTROL.search, texts))

    @property
    def is_reset(self) -> bool:
        """The body ended with its connection, and that did not end in order: to aiohttp it looks whole all the same."""
        is_over = not self.is_delimited and self._closed is not None and self._closed.done()
        return is_over and self._closed is not None and self._closed.exception() is not None

    def rest(self) -> Iterator[bytes]:
        """After a read has failed: what had arrived before, which the failure hides."""
        if self.content.exception() is not None:
            self.content.set_exception(None)  # type: ignore[arg-type]  # no other public way to reach the buffer
        while data := self.content.read_nowait(READ_BYTES):
            yield data

    def waiting(self) -> bytes:
        """What has arrived and was not read yet."""
        return b"" if self.content.exception() is not None else self.content.read_nowait()

    def unread_bytes(self) -> int | None:
        """Bytes that wait to be read, in our kernel and in front of us; None when the kernel cannot be asked."""
        waiting_bytes = self.content.total_bytes - self.read_bytes
        connection = self._response.connection
        if connection is None:  # all of the body is in front of us, and the connection is another exchange's
            return waiting_bytes
        kernel_bytes = None if connection.transport is None else Connection(connection.transport).unread_bytes()
        return None if kernel_bytes is None else waiting_bytes + kernel_bytes

    def _watch(self, closed: asyncio.Future[None]) -> None:
        """Learn when the connection closes within the body: of bytes that break its framing, a reader never hears."""
        self._closed = closed
        closed.remove_done_callback(_retrieved)  # once for each connection, however many exchanges it carries
        closed.add_done_callback(_retrieved)
        closed.add_done_callback(self._lost)
        self.content.on_eof(self._unwatch)

    def _unwatch(self) -> None:
        if self._closed is not None:
            self._closed.remove_done_callback(self._lost)

    def _lost(self, _closed: asyncio.Future[None]) -> None:
        if not self.content.is_eof() and self.content.exception() is None:
            self.content.set_exception(aiohttp.ClientPayloadError("the connection closed within the body"))

    def abort(self) -> None:
        """Close the connection now, whatever is on its way."""
        connection = self._response.connection
        if connection is not None and connection.transport is not None:
            connection.transport.abort()
        self._response.close()


def _retrieved(closed: asyncio.Future[None]) -> None:
    """Look at the outcome, so that nobody reports it as never looked at."""
    if not closed.cancelled():
        closed.exception()
