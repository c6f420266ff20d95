"""One response as it comes, from its first byte to its last: what each read brought, in order.

However the bytes are cut, the outputs are the same, with the pieces of content joined; only `surplus` and `rest` are
what came in the same read. Nothing raises. Content that arrived before a fault is given out before the fault is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final, Literal

from sidecar.http1.chunked import ChunkedReader, WholeChunks, whole_chunks
from sidecar.http1.framing import Framing, FramingKind, framing_of, is_reusable
from sidecar.http1.head import HEAD_BYTES, Http1Error, ResponseHead, Section

INTERIMS: Final = 64
"""Most interim answers before the final one. Servers send one or two; this one would keep a reader waiting for ever.
Together they are no longer than one head may be, since nothing holds them back for a reader that does not read."""

Cut = Literal["fin", "framing"]
"""How an answer broke: its connection ended in order but too early, or its bytes are not what was announced."""


@dataclass(frozen=True, slots=True)
class Interim:
    """A 1xx answer; the final one follows."""

    head: ResponseHead


@dataclass(frozen=True, slots=True)
class Head:
    """The final answer's head."""

    head: ResponseHead
    framing: Framing


@dataclass(frozen=True, slots=True)
class Content:
    """A piece of the body without its framing, never empty."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Finished:
    """The answer is complete. is_reusable: for another exchange; never when bytes came that are none of it."""

    trailers: tuple[tuple[str, str], ...]
    is_reusable: bool
    surplus: bytes


@dataclass(frozen=True, slots=True)
class Upgraded:
    """The connection speaks another protocol from here on. rest: its first bytes."""

    head: ResponseHead
    rest: bytes


@dataclass(frozen=True, slots=True)
class Broken:
    """The answer will never be complete, or is none."""

    rule: str
    cut: Cut


Output = Interim | Head | Content | Finished | Upgraded | Broken


class _At(Enum):
    HEAD = "head"
    LENGTH = "content of a known length"
    CHUNKS = "chunks"
    CLOSE = "content until the connection closes"
    END = "nothing"


class ResponseReader:
    """The answer to one request. Finished, Upgraded or Broken is the last output; after it there are none.

    content: what these bytes bring, if that is content and nothing else, of a body that is not in chunks. None where
    there may be more to it: nothing was taken then, and they are to be fed.
    """

    __slots__ = (
        "_at",
        "_chunks",
        "_interim_bytes",
        "_interim_count",
        "_is_reusable",
        "_left_bytes",
        "_method",
        "_section",
        "_wants_upgrade",
        "content",
        "is_head_seen",
    )

    def __init__(self, method: str, *, wants_upgrade: bool = False, whole_chunks: WholeChunks = whole_chunks) -> None:
        self.is_head_seen = False  # the final one
        self._method = method
        self._wants_upgrade = wants_upgrade
        self._at = _At.HEAD
        self._section = Section(is_head=True)
        self._interim_count = 0
        self._interim_bytes = 0
        self._chunks = ChunkedReader(whole_chunks)
        self._left_bytes: int | None = None
        self._is_reusable = False
        self.content: Callable[[bytes], bytes | None] = _nothing  # asked of every read: the one that fits, and no more

    @property
    def missing_bytes(self) -> int | None:
        """Content that was announced and has not come; None when no length was announced."""
        return self._left_bytes

    @property
    def is_between_chunks(self) -> bool:
        """The next byte begins a chunk: whole ones need not be fed."""
        return self._at is _At.CHUNKS and self._chunks.is_between

    @property
    def is_over(self) -> bool:
        """The last output has been given out."""
        return self._at is _At.END

    def feed(self, data: bytes) -> list[Output]:
        """What these bytes bring."""
        out: list[Output] = []
        if self._at is _At.HEAD:
            try:
                data = self._read_heads(data, out)
            except Http1Error as error:
                out.append(self._break(error.rule, "framing"))
                return out
        if self._at is _At.CHUNKS:
            self._read_chunks(data, out)
        elif self._at is _At.LENGTH:
            self._read_length(data, out)
        elif self._at is _At.CLOSE and data:
            out.append(Content(data))
        return out

    def eof(self) -> list[Output]:
        """The connection has ended in order."""
        if self._at is _At.END:
            return []
        if self._at is _At.CLOSE:
            return [self._finish(b"")]
        rule = "an answer has a head" if self._at is _At.HEAD else "a body ends as its framing says"
        return [self._break(rule, "fin")]

    def _read_heads(self, data: bytes, out: list[Output]) -> bytes:
        """Interim answers, and the final one's head; what is left of the data. Raises Http1Error."""
        at = 0
        while self._at is _At.HEAD and (at := self._section.feed(data, at)) >= 0:
            head = self._section.head()
            framing = framing_of(self._method, head, wants_upgrade=self._wants_upgrade)
            if head.status >= 200:
                self._begin_body(head, framing, out)
            elif head.status == 101:
                self._at = _At.END
                out.append(Upgraded(head, data[at:]))
            else:
                self._interim_count += 1
                self._interim_bytes += self._section.size_bytes
                if self._interim_count > INTERIMS or self._interim_bytes > HEAD_BYTES:
                    raise Http1Error("interim answers come to an end")
                self._section = Section(is_head=True)
                out.append(Interim(head))
        return data[at:] if at >= 0 else b""

    def _begin_body(self, head: ResponseHead, framing: Framing, out: list[Output]) -> None:
        self.is_head_seen = True
        self._is_reusable = is_reusable(head, framing)
        self._left_bytes = framing.length_bytes
        if framing.kind is FramingKind.CHUNKED:
            self._at = _At.CHUNKS
        elif framing.kind is FramingKind.CLOSE:
            self._at, self.content = _At.CLOSE, _all
        else:
            self._at, self.content = _At.LENGTH, self._within
        out.append(Head(head, framing))

    def _read_chunks(self, data: bytes, out: list[Output]) -> None:
        out += map(Content, self._chunks.feed(data))
        if self._chunks.error is not None:
            out.append(self._break(self._chunks.error, "framing"))
        elif self._chunks.is_done:
            out.append(self._finish(self._chunks.rest))

    def _read_length(self, data: bytes, out: list[Output]) -> None:
        left_bytes = self._left_bytes or 0  # none: there is no body
        if content := data[:left_bytes]:
            out.append(Content(content))
            self._left_bytes = left_bytes - len(content)
        if len(content) == left_bytes:
            out.append(self._finish(data[left_bytes:]))

    def _within(self, data: bytes) -> bytes | None:
        """Content of a known length, and not its last."""
        if self._left_bytes is None or not 0 < len(data) < self._left_bytes:
            return None
        self._left_bytes -= len(data)
        return data

    def _finish(self, surplus: bytes) -> Finished:
        self._at, self.content = _At.END, _nothing
        return Finished(self._chunks.trailers, self._is_reusable and not surplus, surplus)

    def _break(self, rule: str, cut: Cut) -> Broken:
        self._at, self.content = _At.END, _nothing
        return Broken(rule, cut)


def _nothing(_data: bytes) -> bytes | None:
    return None


def _all(data: bytes) -> bytes | None:
    return data or None
