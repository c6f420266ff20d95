"""Nothing that a user or a model wrote is kept, sent on as telemetry, logged, shown or printed.

Canaries are planted wherever text can stand: prompt, answer, reasoning, tool arguments, error messages, values and
names of header fields, user agent, query, credentials, dimensions that are no tokens, the key that clients are hashed
with, comments, broken JSON, broken framing; on whole answers, error events, cuts, refusals, heads that cannot be
parsed, and a reader that leaves. Then every byte that the processes left behind is searched: what the exporters posted,
the collector's files (also unpacked), every answer of both query interfaces, every log at debug level, as text and as
JSON, and what the command line prints. Each place is also searched for what must be there, so that an empty place
proves nothing.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
import signal
import sqlite3
import zlib
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qs

import pytest
import pytest_asyncio

from otel.store.base import StallQuery
from otel.store.sqlite import SqliteStore
from tests.support import bodies
from tests.support.processes import Collector, Fleet, Sidecar, free_ports, gapline, get, until
from tests.support.wire import Asked, asking, post, request, tapped, worker

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(90), pytest.mark.asyncio(loop_scope="module")]

HOPS = ("model-worker", "inference-proxy", "gateway")
CHAT, MESSAGES = "/v1/chat/completions", "/v1/messages"
CANARY = b"zq7canary"
"""Every planted text begins with it and goes on with the place where it was planted."""


def planted(place: str) -> str:
    return f"{CANARY.decode()}-{place}"


def _encodings() -> Iterable[bytes]:
    """The canary as it may have been written: as it is, as hexadecimal digits, as base64 at each alignment."""
    yield CANARY
    yield CANARY.hex().encode()
    for shift in range(3):
        encoded = base64.b64encode(bytes(shift) + CANARY)
        yield encoded[-(-shift * 8 // 6) : -4]


SIGNS = tuple({sign.lower() for sign in _encodings()})


def leaks(data: bytes) -> list[bytes]:
    """What is planted in the data, with what surrounds it."""
    lower = data.lower()
    return [lower[max(0, at - 60) : at + 60] for sign in SIGNS if (at := lower.find(sign)) >= 0]


# ---------------------------------------------------------------------------------------------------- the planting

REQUEST_FIELDS = (
    f"Authorization: Bearer {planted('authorization')}",
    f"User-Agent: {planted('user-agent')}/1.0",
    f"Cookie: session={planted('cookie')}; theme={planted('second-cookie')}",
    f"X-Api-Key: {planted('api-key')}",
    f"X-Vault-Token: {planted('vault-token')}",
    f"X-Secret-{planted('field-name')}: 1",
    f"Referer: http://site.example/?q={planted('referer')}",
    f"traceparent: {planted('traceparent')}",
    f"tracestate: vendor={planted('tracestate')}",
    f"baggage: user={planted('baggage')}",
    f"X-Forwarded-For: {planted('forwarded-for')}",
    f"X-Tenant: {planted('tenant')} is not a token",
    "X-Region: eu-central-1",
    f"Accept-Language: {planted('language')}",
    f"Proxy-Authorization: Basic {planted('hop-by-hop')}",
)
PROMPT = json.dumps({
    "model": "tiny",
    "messages": [{"role": "user", "content": planted("prompt")}],
    "tools": [{"type": "function", "function": {"name": planted("tool-name"), "description": planted("tool-text")}}],
    "user": planted("user"),
    "metadata": {"key": planted("metadata")},
}).encode()  # fmt: skip
ANSWER_FIELDS = (
    f"Set-Cookie: id={planted('set-cookie')}",
    f"X-Answer: {planted('answer-field')}",
    f"X-{planted('answer-field-name')}: 1",
    f"x-request-id: {planted('answer-id')} is not plain",
    f"Server: {planted('server')}",
)

CHAT_EVENTS = [
    f": {planted('comment')}\n\n".encode(),
    f"event: {planted('event-name')}\nid: {planted('event-id')}\nretry: {planted('retry')}\n\n".encode(),
    bodies.chat_event({"role": "assistant", "content": planted("first-answer"), "name": planted("delta-name")}),
    bodies.chat_event({"reasoning_content": planted("reasoning")}),
    bodies.chat_event({"reasoning": planted("other-reasoning"), "refusal": planted("refusal")}),
    bodies.chat_event(
        {"tool_calls": [{"function": {"name": planted("called"), "arguments": json.dumps({"a": planted("argument")})}}]}
    ),
    f'data: {{"choices": [{{"delta": {{"content": "{planted("broken-json")}\n\n'.encode(),
    f"{planted('unknown-line')}\ndata: {planted('no-json')}\n\n".encode(),
    f'data: {{"model": "{planted("model with spaces")}\u00a0", "choices": []}}\n\n'.encode(),
    *[bodies.chat_event({"content": f"{planted('answer')} {number}"}) for number in range(8)],
]
CHAT_END = [bodies.chat_event({}, finish="stop"), b"data: [DONE]\n\n"]
ERROR = {
    "message": planted("error-message"),
    "type": planted("error type with words"),
    "param": planted("param"),
    "code": "overloaded",
    "metadata": {"raw": planted("raw-error")},
}
ERROR_EVENT = b"data: " + json.dumps({"error": ERROR}).encode() + b"\n\n"
MESSAGE_EVENTS = [
    f"event: {name}\ndata: {json.dumps({'type': name, **rest})}\n\n".encode()
    for name, rest in (
        ("message_start", {"message": {"id": "msg_1", "model": "tiny", "content": []}}),
        ("content_block_delta", {"delta": {"type": "thinking_delta", "thinking": planted("thinking")}}),
        ("content_block_delta", {"delta": {"type": "text_delta", "text": planted("message-text")}}),
        ("content_block_delta", {"delta": {"type": "input_json_delta", "partial_json": planted("tool-input")}}),
        ("error", {"error": {"type": "overloaded_error", "message": planted("message-error")}}),
    )
]


@dataclass
class Answers:
    """The worker's answers, by the `case` of the query."""

    go_on: defaultdict[str, asyncio.Event] = field(default_factory=lambda: defaultdict(asyncio.Event))
    """By case, set when a held stream may go on."""

    async def __call__(self, asked: Asked) -> None:
        case = parse_qs(asked.target.partition(b"?")[2].decode())["case"][0]
        await getattr(self, case)(asked)

    async def _begin(self, asked: Asked) -> None:
        await asked.head(*ANSWER_FIELDS)
        for event in CHAT_EVENTS:
            await asked.chunk(event)

    async def whole(self, asked: Asked) -> None:
        await self._begin(asked)
        await self.go_on["whole"].wait()
        for event in CHAT_END:
            await asked.chunk(event)
        await asked.end()

    async def error(self, asked: Asked) -> None:
        await self._begin(asked)
        await asked.chunk(ERROR_EVENT)
        await asked.end()

    async def messages(self, asked: Asked) -> None:
        await asked.head(*ANSWER_FIELDS)
        for event in MESSAGE_EVENTS:
            await asked.chunk(event)
        await asked.end()

    async def cut(self, asked: Asked) -> None:
        await self._begin(asked)
        await asked.chunk(CHAT_EVENTS[-1][:-20])
        await asked.cut()

    async def framing(self, asked: Asked) -> None:
        await self._begin(asked)
        await self.go_on["framing"].wait()
        await asked.raw(f"{planted('chunk-size')}\r\n".encode())
        await asked.hold()

    async def left(self, asked: Asked) -> None:
        await self._begin(asked)
        await asked.hold()

    async def guarded(self, asked: Asked) -> None:
        await asked.head(*ANSWER_FIELDS)
        for event in MESSAGE_EVENTS[:-1]:
            await asked.chunk(event)
        await asked.hold()

    async def status(self, asked: Asked) -> None:
        body = json.dumps({"error": {"message": planted("status-message"), "code": planted("with words")}}).encode()
        length, status = f"Content-Length: {len(body)}", f"400 {planted('reason')}"
        await asked.head(*ANSWER_FIELDS, length, status=status, content_type="application/json")
        await asked.raw(body)

    async def head(self, asked: Asked) -> None:
        await asked.raw(f"HTTP/1.1 200 OK\r\n{planted('no-field')}\r\nX: \x01{planted('control')}\r\n\r\n".encode())
        await asked.hold()

    async def coding(self, asked: Asked) -> None:
        await asked.head(*ANSWER_FIELDS, "Content-Encoding: gzip")
        await asked.chunk(f"{planted('not-gzip')} data: {planted('not-gzip')}\n\n".encode())
        await asked.end()

    async def kind(self, asked: Asked) -> None:
        await asked.head(*ANSWER_FIELDS, f"Content-Encoding: {planted('coding')}", content_type=planted("type/of"))
        await asked.chunk(planted("unknown-kind").encode())
        await asked.end()


# case -> (path, how the hop nearest the reader records its end)
CASES = {
    "whole": (CHAT, "complete"),
    "error": (CHAT, "error_event"),
    "messages": (MESSAGES, "error_event"),
    "cut": (CHAT, "upstream_cut"),
    "framing": (CHAT, "upstream_cut"),
    "left": (CHAT, "client_disconnect"),
    "guarded": (MESSAGES, "timed_out_next_event"),
    "status": (CHAT, "complete"),
    "head": (CHAT, "complete"),
    "coding": (CHAT, "complete"),
    "kind": (CHAT, "complete"),
}
REFUSED = "req-refused"
GUARD = ("--guard", "enforce", "--guard-rule", f"path={MESSAGES};next=1s", "--keepalive", "200ms", "--digests")
DIMENSIONS = (
    *("--dimensions", "region=X-Region", "--dimensions", "tenant=X-Tenant", "--client-key", planted("client-key")),
    *("--log-format", "json", "--log-start"),
)


@dataclass
class Left:
    """What the processes left behind, in every place: place -> its bytes."""

    places: dict[str, bytes]
    outcomes: dict[str, list[str]]
    asked: list[Asked]
    answered: dict[str, bytes]


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def left(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Left]:
    answers = Answers()
    with Fleet(tmp_path_factory.mktemp("canary")) as fleet:
        async with worker({CHAT: answers, MESSAGES: answers}) as up:
            otlp_port, query_port, nowhere_port = free_ports(3)
            collector = fleet.collector("--log-level", "debug", "--stall-after", "1ms", ports=(otlp_port, query_port))
            async with tapped(otlp_port) as (tap_port, posted):
                flags = ("--log-level", "debug", "--stall-after", "300ms", "--heartbeat", "100ms")
                export = f"http://127.0.0.1:{tap_port}"
                chain: list[Sidecar] = []
                for hop in HOPS:
                    upstream = chain[-1].url if chain else up.url
                    more = (*DIMENSIONS, *GUARD) if hop == HOPS[-1] else ()
                    chain.append(fleet.sidecar(hop, upstream, *flags, *more, export=export))
                lonely = fleet.sidecar("lonely", f"http://127.0.0.1:{nowhere_port}", *flags, export=export)
                await fleet.ready()
                places: dict[str, bytes] = {}
                answered = await _run_all(chain, lonely, answers, places, collector)
                request_ids = [f"req-{case}" for case in CASES]
                outcomes = {
                    case: [hop["outcome"] for hop in (await collector.verdict(f"req-{case}", hops=3))["hops"]]
                    for case in CASES
                }
                outcomes["refused"] = [hop["outcome"] for hop in (await collector.verdict(REFUSED))["hops"]]
                await until(lambda: _is_listed(collector), "stalls are listed")
                await _look(places, [*chain, lonely], collector, [*request_ids, REFUSED])
                places["posted"] = bytes(posted)
                for process in (*chain, lonely, collector):
                    process.signal(signal.SIGTERM)
                    assert await process.ended() == 0
            places["files after the end"] = _files(collector.data)
            places |= {f"log of {process.name}": process.log.read_bytes() for process in fleet.processes}
            yield Left(places, outcomes, up.asked, answered)


async def _run_all(
    chain: list[Sidecar], lonely: Sidecar, answers: Answers, places: dict[str, bytes], collector: Collector
) -> dict[str, bytes]:
    """One request of each case; what came of it."""

    def asked(case: str, path: str, request_id: str) -> bytes:
        target = f"{path}?case={case}&key={planted('query')}"
        return post(target, *REQUEST_FIELDS, f"X-Request-Id: {request_id}", body=PROMPT)

    gateway, answered = chain[-1], dict[str, bytes]()
    for case, (path, _) in CASES.items():
        async with asking(gateway.port, asked(case, path, f"req-{case}")) as reader:
            if case in {"whole", "framing", "left"}:
                await reader.at_least(sum(map(len, CHAT_EVENTS)))
            if case == "whole":
                await asyncio.sleep(0.6)  # long enough that it counts as stalled, and an open segment is sent
                await _glance(places, [*chain, lonely], "while a stream runs")
                await _look_at_live(places, gateway, collector)
            answers.go_on[case].set()
            if case != "left":
                await reader.rest()
            answered[case] = reader.raw_head + bytes(reader.body)
    async with asking(lonely.port, asked("refused", CHAT, REFUSED)) as reader:
        await reader.rest()
        assert reader.status == 502
    strange = (
        asked("whole", f"http://user:{planted('password')}@host.example{CHAT}", "req-absolute"),
        asked("whole", CHAT, f"{planted('request-id')} is not plain"),
        request("POST", f"{CHAT}?case=whole", f"bad field {planted('bad-field')}", body=b""),
        request(planted("METHOD").upper(), CHAT, body=b""),
        f"{planted('not-http')}\r\n\r\n".encode(),
        request("POST", f"{CHAT}?case=whole", "Transfer-Encoding: chunked") + f"{planted('size')}\r\n".encode(),
    )
    for head in strange:
        async with asking(gateway.port, head) as reader:
            await reader.rest()
    return answered


async def _glance(places: dict[str, bytes], processes: list[Sidecar], when: str) -> None:
    for process in processes:
        for path in ("streams", "metrics"):
            status, text = await get(f"{process.admin_url}/{path}")
            assert status == 200
            places[f"/{path} of {process.name} {when}"] = text.encode()


async def _look_at_live(places: dict[str, bytes], gateway: Sidecar, collector: Collector) -> None:
    """What is told of a stream while it runs."""

    async def told() -> str:
        _, text = await get(f"{collector.query_url}/api/live")
        return text if "req-whole" in text else ""

    places["collector /api/live"] = (await until(told, "the stream is told of")).encode()
    for whom in (("--collector", collector.query_url), ("--sidecar", gateway.admin_url)):
        for flags in ((), ("--json",)):
            done = await gapline("live", *whom, *flags)
            assert done.code == 0, done.errors
            places[" ".join(["gapline live", whom[0], *flags])] = done.out + done.errors


async def _look(
    places: dict[str, bytes], sidecars: list[Sidecar], collector: Collector, request_ids: list[str]
) -> None:
    """Everything that the processes show, answer and print, and the collector's files while it runs."""
    await _glance(places, sidecars, "afterwards")
    pages = [f"requests/{request_id}/{page}" for request_id in request_ids for page in ("verdict", "timeline")]
    for page in ("metrics", *(f"v1/{page}" for page in ("stalls", "stalls?limit=1000", "openapi.json", *pages))):
        status, text = await get(f"{collector.query_url}/{page}")
        assert status == 200, page
        places[f"collector /{page}"] = text.encode()
    places["files while it runs"] = _files(collector.data)
    shown = [("stalls",)] + [
        (question, f"req-{case}") for case in ("whole", "error", "cut", "refused") for question in ("why", "timeline")
    ]
    for words in shown:
        commands = [gapline(*words, *flag, "--collector", collector.query_url) for flag in ((), ("--json",))]
        for flag, done in zip(("text", "json"), await asyncio.gather(*commands), strict=True):
            assert done.code in {0, 10, 11}, done.errors
            places[f"gapline {' '.join(words)} as {flag}"] = done.out + done.errors


def _is_listed(collector: Collector) -> bool:
    """The verdicts are judged and stored, and so in the store's files and in the list of stalls."""
    with sqlite3.connect(f"file:{next(collector.data.glob('*.sqlite3'))}?mode=ro", uri=True) as connection:
        listed = {row for (row,) in connection.execute("SELECT request_id FROM verdicts WHERE is_abnormal")}
    connection.close()
    return {"req-error", "req-messages", "req-cut", "req-framing", REFUSED} <= listed


def _files(folder: Path) -> bytes:
    """Every file of the collector as it is on the disk, and every value of every row, unpacked where it is packed."""
    found = [path.name.encode() + path.read_bytes() for path in sorted(folder.iterdir())]
    (database,) = folder.glob("*.sqlite3")
    connection = sqlite3.connect(f"file:{database}?mode=ro", uri=True)
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    packed = 0
    for table in tables:
        for row in connection.execute(f'SELECT * FROM "{table}"'):
            for value in row:
                if isinstance(value, bytes):
                    value = zlib.decompress(value)  # noqa: PLW2901  # and nothing in the store is packed otherwise
                    packed += 1
                found.append(value if isinstance(value, bytes) else str(value).encode())
    connection.close()
    assert packed, "no hop and no verdict in the store"
    store = SqliteStore(folder)
    for request_id in (*(f"req-{case}" for case in CASES), REFUSED):
        hops = store.hops_of(request_id)
        assert hops
        found += [repr(hops).encode(), repr(store.verdict_of(request_id)).encode()]
    found.append(repr(store.stalls(StallQuery(limit=1_000))).encode())
    store.close()
    return b"\n".join(found)


# -------------------------------------------------------------------------------------------------------- the search


async def test_a_canary_that_is_there_is_found() -> None:
    for shift in range(3):
        text = b"x" * shift + CANARY.upper() + b"-prompt"
        for data in (text, text.lower().hex().encode(), base64.b64encode(text.lower())):
            assert leaks(b"before " + data + b" after"), data


async def test_every_canary_was_really_planted_and_every_fault_happened(left: Left) -> None:
    at_worker = b"".join(asked.raw_head + asked.body for asked in left.asked)
    ends_here = {planted("hop-by-hop")}  # fields of one connection are not passed on
    for text in re.findall(rf"{CANARY.decode()}-[a-z-]+", " ".join(REQUEST_FIELDS) + PROMPT.decode()):
        assert (text.encode() in at_worker.lower()) is (text not in ends_here), text
    at_reader = b"".join(left.answered.values()).lower()
    events = b"".join((*CHAT_EVENTS, ERROR_EVENT, *MESSAGE_EVENTS)).decode() + " ".join(ANSWER_FIELDS)
    for text in re.findall(rf"{CANARY.decode()}-[a-z-]+", events):
        assert text.encode() in at_reader, text
    for case, (_, ending) in CASES.items():
        assert left.outcomes[case][-1] == ending, case
    assert left.outcomes["refused"] == ["refused"]


MUST_BE_THERE = {
    "posted": b"req-whole",
    "files while it runs": b"req-whole",
    "files after the end": b"req-whole",
    "log of sidecar of gateway": b'"request_id":"req-whole","trace_id":',
    "log of sidecar of model-worker": b"request_id=req-whole ",
    "log of sidecar of lonely": b"request_id=req-refused ",
    "log of collector": b"request_id=req-error ",
    "/streams of sidecar of gateway while a stream runs": b"req-whole",
    "/metrics of sidecar of gateway afterwards": b'gapline_exchanges_total{ending="upstream_cut",',
    "collector /metrics": b"gapline_collector_spans_total",
    "collector /v1/stalls": b"req-error",
    "collector /v1/requests/req-whole/verdict": b"model-worker",
    "collector /v1/requests/req-whole/timeline": b"reasoning",
    "gapline why req-whole as text": b"req-whole",
    "gapline timeline req-cut as json": b"req-cut",
    "gapline stalls as text": b"req-error",
    "collector /api/live": b"req-whole",
    "gapline live --collector": b"req-whole",
    "gapline live --sidecar --json": b"req-whole",
}


@pytest.mark.parametrize("place", MUST_BE_THERE)
async def test_each_place_has_what_it_must_have(left: Left, place: str) -> None:
    assert MUST_BE_THERE[place] in left.places[place]


async def test_the_lines_at_the_start_and_at_the_end_of_an_exchange_have_its_dimensions(left: Left) -> None:
    lines = [json.loads(line) for line in left.places["log of sidecar of gateway"].splitlines()]
    for message in ("exchange started", "exchange ended"):
        (line,) = [line for line in lines if line["message"] == message and line["request_id"] == "req-whole"]
        found = line["dimensions"]
        assert re.fullmatch("[0-9a-f]{16}", found.pop("client_id"))
        assert found == {"client": "other", "region": "eu-central-1", "tenant": "other"}, message


async def test_open_segments_were_sent_and_kept_too(left: Left) -> None:
    assert b"State.OPEN" in left.places["files while it runs"]


async def test_no_canary_is_anywhere(left: Left) -> None:
    found = {place: leaks(data) for place, data in left.places.items()}
    assert not {place: leaked for place, leaked in found.items() if leaked}
