"""Answers of every kind that HTTP/1.1 allows, drawn from a seed: what an upstream writes, and a reader must get.

drawn = draw(seed, 17)          # always the same seventeenth answer of this seed
for piece in drawn.writes: ...  # the answer on the wire, cut anywhere
assert drawn.differences(got) == ""
"""

from __future__ import annotations

import json
import random
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.support.raw_peers import CLOSED, WHOLE, Got

PAUSE_S = 0.002
SMALL_BYTES = 400
"""Up to here an answer may be written byte by byte."""
SHOWN = 24

TOKENS = "abcXYZ-_.09"
UNCOMPARED = {b"connection", b"keep-alive", b"trailer", b"transfer-encoding", b"x-request-id"}
"""Fields of one connection, and the one that is added."""
STATUSES = (200,) * 20 + (201, 202, 206, 299, 301, 304, 204, 400, 404, 418, 429, 451, 500, 503, 599)
FRAMINGS = ("chunked",) * 6 + ("length",) * 4 + ("close", "http/1.0", "http/1.0 length")
WORDS = ("Grüße", "日本", "👩‍👩‍👧‍👦", "error", "[DONE]", "data: x", "\u2028", "\u0085", " ", '"', "\\", "\t", "a" * 50)
ENDS = (b"\n", b"\r\n", b"\r")


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """One request and its answer."""

    seed: int
    number: int
    method: bytes
    is_old_client: bool
    request: bytes
    request_body: bytes
    status: int
    reason: bytes
    fields: list[tuple[bytes, bytes]]
    interims: list[tuple[int, list[tuple[bytes, bytes]]]]
    trailers: list[tuple[bytes, bytes]]
    framing: str
    body: bytes
    writes: list[bytes]
    pauses: frozenset[int] = field(default_factory=frozenset)
    """After which of the writes time passes."""
    kind: str = ""

    @property
    def has_body(self) -> bool:
        return self.method != b"HEAD" and self.status not in {204, 304}

    @property
    def ends_with_close(self) -> bool:
        return self.framing in {"close", "http/1.0"} and self.has_body

    def differences(self, got: Got) -> str:
        """Where the reader did not get what was sent; empty when it got everything."""
        if (got.status, got.reason) != (self.status, self.reason):
            return f"status {got.status} {got.reason!r} ({got.end}), not {self.status} {self.reason!r}"
        sent, came = (self._compared(fields) for fields in (self.fields, got.fields))
        if sent != came:
            at = next(
                (at for at, (a, b) in enumerate(zip(sent, came, strict=False)) if a != b), min(len(sent), len(came))
            )
            return f"field {at} of {len(sent)}: {shown(came[at : at + 1])}, not {shown(sent[at : at + 1])}"
        if not self.is_old_client and got.interims != self.interims:
            return f"interim answers {got.interims}, not {self.interims}"
        expected = self.body if self.has_body else b""
        if bytes(got.body) != expected:
            return first_difference(bytes(got.body), expected)
        if not self.is_old_client and got.trailers != self.trailers:
            return f"trailers {got.trailers}, not {self.trailers}"
        end = CLOSED if self.is_old_client and self.has_body and "length" not in self.framing else WHOLE
        return "" if got.end == end else f"it ended {got.end}, not {end}"

    def _compared(self, fields: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
        return [(name, value) for name, value in fields if name.lower() not in UNCOMPARED]


def shown(fields: list[tuple[bytes, bytes]]) -> str:
    return ", ".join(f"{name!r}: {value[:60]!r}" for name, value in fields) or "nothing"


def first_difference(got: bytes, expected: bytes) -> str:
    at = next(
        (at for at, (a, b) in enumerate(zip(got, expected, strict=False)) if a != b), min(len(got), len(expected))
    )
    return (
        f"{len(got)} of {len(expected)} bytes, the first difference at {at}: "
        f"{got[max(0, at - SHOWN) : at + SHOWN]!r} in place of {expected[max(0, at - SHOWN) : at + SHOWN]!r}"
    )


def draw(seed: int, number: int) -> Drawn:
    """That one of the answers of this seed."""
    rng = random.Random(f"{seed}:{number}")
    method, request_body, is_old_client = rng.choice([b"GET", b"POST", b"POST", b"HEAD"]), b"", rng.random() < 0.05
    if method == b"HEAD" and rng.random() < 0.7:
        method = b"GET"
    if method == b"POST":
        request_body = any_body(rng)[1]
    framing, status = rng.choice(FRAMINGS), rng.choice(STATUSES)
    kind, body, about = any_answer_body(rng)
    reason = rng.choice([b"OK", b"", b"Some Reason", b"n\xf6\xff \t!", b"OK OK"])
    fields = [*about, *any_fields(rng)]
    rng.shuffle(fields)
    interims = [(rng.choice([102, 103]), any_fields(rng)) for _ in range(rng.choice([0] * 12 + [1, 2]))]
    has_body = method != b"HEAD" and status not in {204, 304}
    is_chunked = framing == "chunked" and has_body
    trailers = any_trailers(rng) if is_chunked else []
    if "length" in framing and status != 204:
        fields.insert(rng.randrange(len(fields) + 1), (b"Content-Length", b"%d" % len(body)))
    if is_chunked:
        fields.insert(rng.randrange(len(fields) + 1), (b"Transfer-Encoding", rng.choice([b"chunked", b"Chunked"])))
    if framing == "http/1.0 length":
        fields.append((b"Connection", b"keep-alive"))
    if framing == "close":
        fields.append((b"Connection", rng.choice([b"close", b"Close"])))
    version = b"HTTP/1.0" if framing.startswith("http/1.0") else b"HTTP/1.1"
    wire = b"".join(_head(rng, b"HTTP/1.1", code, b"", found) for code, found in interims)
    wire += _head(rng, version, status, reason, fields)
    if has_body:
        wire += _chunks(rng, body, trailers) if is_chunked else body
    writes = cut(rng, wire)
    return Drawn(
        seed=seed,
        number=number,
        method=method,
        is_old_client=is_old_client,
        request=_request(rng, seed, number, method, request_body, is_old_client=is_old_client),
        request_body=request_body,
        status=status,
        reason=reason,
        fields=fields,
        interims=interims,
        trailers=trailers,
        framing=framing,
        body=body,
        writes=writes,
        pauses=frozenset(rng.sample(range(len(writes)), min(len(writes), rng.choice([0, 0, 0, 1, 3])))),
        kind=kind,
    )


# --------------------------------------------------------------------------------------------------------- the bodies


def any_answer_body(rng: random.Random) -> tuple[str, bytes, list[tuple[bytes, bytes]]]:
    """(what it is, its bytes on the wire, its Content-Type and Content-Encoding where it has them)."""
    kind, body = any_body(rng)
    types = {
        "sse": b"text/event-stream",
        "odd sse": b"text/event-stream; charset=latin-1",
        "ndjson": b"application/x-ndjson",
    }
    about = [
        (rng.choice([b"Content-Type", b"content-type", b"CONTENT-TYPE"]), types.get(kind, b"application/octet-stream"))
    ]
    if rng.random() < 0.1:
        about = []
    if rng.random() < 0.2:
        return *_encoded(rng, kind, body), [*about, (b"Content-Encoding", rng.choice([b"gzip", b"GZIP", b"x-gzip"]))]
    return kind, body, about


def _encoded(rng: random.Random, kind: str, body: bytes) -> tuple[str, bytes]:
    """The body as gzip, flushed here and there; at times not gzip at all, or not the whole of it."""
    if rng.random() < 0.2:
        return f"{kind}, said to be gzip", body
    deflate = zlib.compressobj(rng.randint(1, 9), zlib.DEFLATED, 31)
    encoded = b""
    for piece in cut(rng, body):
        encoded += deflate.compress(piece)
        if rng.random() < 0.3:
            encoded += deflate.flush(zlib.Z_SYNC_FLUSH)
    encoded += deflate.flush()
    if rng.random() < 0.1:
        return f"{kind}, half of its gzip", encoded[: len(encoded) // 2]
    return f"{kind}, gzip", encoded


def any_body(rng: random.Random) -> tuple[str, bytes]:
    kind, make = rng.choice(BODIES)
    return kind, make(rng)


def _sse(rng: random.Random) -> bytes:
    end = rng.choice(ENDS)
    events = [b"data: " + _json(rng) + end + end for _ in range(rng.randint(0, 40))]
    return b"".join(events) + rng.choice([b"", b"data: [DONE]" + end + end, b"data: [DONE]" + end, b"data: [DONE]"])


def _odd_sse(rng: random.Random) -> bytes:
    names = (b"data", b"event", b"id", b"retry", b"", b"unknown", b"data:", b"\xef\xbb\xbfdata")
    lines = []
    for _ in range(rng.randint(0, 60)):
        value = rng.choice([b"", b" ", b"1", rng.randbytes(rng.randint(0, 30)), _json(rng)])
        lines.append(rng.choice([b"", rng.choice(names) + rng.choice([b":", b": ", b""]) + value]) + rng.choice(ENDS))
    return rng.choice([b"", b"\xef\xbb\xbf", b"\xff\xfe"]) + b"".join(lines)


def _ndjson(rng: random.Random) -> bytes:
    end = rng.choice(ENDS[:2])
    return end.join(_json(rng) for _ in range(rng.randint(0, 40))) + rng.choice([b"", end, end + end])


def _binary(rng: random.Random) -> bytes:
    return rng.randbytes(rng.choice([0, 1, 2, rng.randint(3, 4_000), rng.randint(3, 70_000)]))


def _framing_alike(rng: random.Random) -> bytes:
    """Content that looks like the framing around it."""
    parts = (
        b"0\r\n\r\n",
        b"\r\n",
        b"5\r\nhello\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nEVIL",
        b"\0",
        b"\r",
        b"\n\n",
    )
    return b"".join(rng.choice(parts) for _ in range(rng.randint(0, 30)))


def _huge(rng: random.Random) -> bytes:
    size = rng.choice([65_535, 65_536, 65_537, 131_072, rng.randint(100_000, 1_500_000)])
    return b"data: " + b"x" * size + b"\n\n" + _sse(rng)


BODIES: tuple[tuple[str, Callable[[random.Random], bytes]], ...] = (
    *[("sse", _sse)] * 8,
    *[("odd sse", _odd_sse)] * 6,
    *[("ndjson", _ndjson)] * 3,
    *[("binary", _binary)] * 4,
    *[("framing alike", _framing_alike)] * 3,
    ("sse", _huge),
)


def _json(rng: random.Random) -> bytes:
    text = "".join(rng.choice(WORDS) for _ in range(rng.randint(0, 5)))
    value = {"choices": [{"delta": {"content": text}}]} if rng.random() < 0.5 else {"response": text, "done": False}
    return json.dumps(value, ensure_ascii=rng.random() < 0.3).encode()


# ----------------------------------------------------------------------------------------------------------- the wire


def cut(rng: random.Random, data: bytes) -> list[bytes]:
    """The bytes in pieces, cut anywhere."""
    if not data:
        return []
    how = rng.random()
    if how < 0.2:
        return [data]
    if how < 0.4 and len(data) <= SMALL_BYTES:
        return [data[at : at + 1] for at in range(len(data))]
    places = sorted(rng.sample(range(len(data)), min(len(data), rng.choice([1, 2, 5, 20, 60]))))
    pieces = [data[start:end] for start, end in zip([0, *places], [*places, len(data)], strict=True)]
    return [piece for piece in pieces if piece]


def any_fields(rng: random.Random) -> list[tuple[bytes, bytes]]:
    names = ["X-" + "".join(rng.choice(TOKENS) for _ in range(rng.randint(1, 12))) for _ in range(rng.randint(0, 4))]
    names += rng.choice(
        [[], ["Set-Cookie", "set-cookie"], ["Server"], ["Date"], ["Vary", "VARY"], ["X-Accel-Buffering"]]
    )
    return [(name.encode(), _value(rng)) for name in names]


def any_trailers(rng: random.Random) -> list[tuple[bytes, bytes]]:
    count = rng.choice([0, 0, 0, 1, 3])
    return [(b"X-Sum-%d" % number, _value(rng)) for number in range(count)]


def _value(rng: random.Random) -> bytes:
    return rng.choice(
        [
            b"",
            b"1",
            b'a "quoted" one; q=0.5',
            "ü €".encode(),
            b"\x80\xff\xfe",
            b"tab\tin it",
            b"v" * rng.randint(1, 3_000),
        ]
    )


def _head(rng: random.Random, version: bytes, status: int, reason: bytes, fields: list[tuple[bytes, bytes]]) -> bytes:
    lines = [b"%b %d %b" % (version, status, reason)]
    lines += [name + b":" + rng.choice([b" ", b"", b"\t", b"  "]) + value for name, value in fields]
    return b"\r\n".join([*lines, b"", b""])


EXTENSIONS = [b""] * 6 + [b";a", b';a="b c"']


def _chunks(
    rng: random.Random, body: bytes, trailers: list[tuple[bytes, bytes]], *, more: tuple[bytes, ...] = (b" ; a = b",)
) -> bytes:
    """more: chunk extensions beside the usual ones; white space in them is legal, and many servers refuse it."""
    extension = rng.choice([*EXTENSIONS, *more])
    size = rng.choice([b"%x", b"%X", b"%x", b"00%x"])
    wire = b"".join(size % len(piece) + extension + b"\r\n" + piece + b"\r\n" for piece in cut(rng, body))
    return wire + b"0\r\n" + b"".join(name + b": " + value + b"\r\n" for name, value in trailers) + b"\r\n"


def _request(rng: random.Random, seed: int, number: int, method: bytes, body: bytes, *, is_old_client: bool) -> bytes:
    version = b"HTTP/1.0" if is_old_client else b"HTTP/1.1"
    lines = [
        b"%b /%d/%d?q=%%2F%%e4 %b" % (method, seed, number, version),
        b"Host: h",
        b"X-Request-Id: %d-%d" % (seed, number),
    ]
    if method != b"POST":
        return b"\r\n".join([*lines, b"", b""])
    if is_old_client or rng.random() < 0.5:
        return b"\r\n".join([*lines, b"Content-Length: %d" % len(body), b"", b""]) + body
    return b"\r\n".join([*lines, b"Transfer-Encoding: chunked", b"", b""]) + _chunks(rng, body, [], more=())
