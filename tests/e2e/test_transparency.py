"""Three sidecars in a row change nothing: proved with raw bytes, with curl, and with openai-python.

A worker sends bodies whose every byte is known, and sends a piece only when the reader has the one before it. So what
arrives is the same, and nothing on the way waits for more. The same goes for request bodies, for the request id and
for the trace context. Everything holds on asyncio's own loop and on uvloop.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import shutil
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass
from urllib.parse import parse_qs

import pytest
import pytest_asyncio

from tests.support import bodies
from tests.support.processes import Collector, Fleet, Sidecar, command
from tests.support.wire import Asked, Worker, asking, get, post, request, worker

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(60), pytest.mark.asyncio(loop_scope="module")]

HOPS = ("model-worker", "inference-proxy", "gateway")
CHAT = "/v1/chat/completions"
SSE = "text/event-stream; charset=utf-8"
TRACE_ID, PARENT_ID = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TRACEPARENT = f"00-{TRACE_ID}-{PARENT_ID}-01"
FIELDS = ("Server: model/1", "Date: Mon, 01 Jan 2024 00:00:00 GMT", "Set-Cookie: a=1", "set-cookie: b=2", "X-Empty:")


@dataclass(frozen=True)
class Body:
    """One response body: how it is sent."""

    content_type: str
    pieces: list[bytes]
    fields: tuple[str, ...] = ()
    is_chunked: bool = True

    @property
    def data(self) -> bytes:
        return b"".join(self.pieces)


AWKWARD = bodies.awkward_chat()
PLAIN = bodies.binary(100_003)
BODIES = {
    "chat": Body(SSE, bodies.cut(AWKWARD)),
    "gzip": Body(SSE, bodies.gzipped(bodies.cut(AWKWARD, (97, 1_009))), ("Content-Encoding: gzip",)),
    "ndjson": Body("application/x-ndjson", bodies.cut(bodies.ndjson())),
    "plain": Body(
        "image/png", bodies.cut(PLAIN, (8_191, 16_384, 1)), (f"Content-Length: {len(PLAIN)}",), is_chunked=False
    ),
}


@dataclass
class Path:
    """The worker, the three sidecars before it (source first), and the collector."""

    worker: Worker
    chain: list[Sidecar]
    collector: Collector
    passed: dict[str, asyncio.Queue[None]]
    """By request id: the reader has the piece, send the next one."""

    @property
    def port(self) -> int:
        return self.chain[-1].port


@pytest_asyncio.fixture(loop_scope="module", scope="module", params=["uvloop", "asyncio"])
async def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Path]:
    passed: dict[str, asyncio.Queue[None]] = {}

    async def answer(asked: Asked) -> None:
        query = parse_qs(asked.target.partition(b"?")[2].decode())
        body = BODIES[query.get("body", ["chat"])[0]]
        await asked.head(*FIELDS, *body.fields, content_type=body.content_type)
        if asked.method == b"HEAD":
            return
        for number, piece in enumerate(body.pieces):
            await (asked.chunk(piece) if body.is_chunked else asked.raw(piece))
            if "stepwise" in query and number + 1 < len(body.pieces):
                await passed[query["stepwise"][0]].get()
        if body.is_chunked:
            await asked.end()

    async def take(asked: Asked) -> None:
        digest = hashlib.sha256(asked.body).hexdigest()
        await asked.head(f"Content-Length: {len(digest)}", content_type="text/plain")
        await asked.raw(digest.encode())

    folder = tmp_path_factory.mktemp("path")
    with Fleet(folder) as fleet:
        async with worker({CHAT: answer, "/upload": take}) as running:
            collector = fleet.collector()
            chain: list[Sidecar] = []
            for hop in HOPS:
                upstream = chain[-1].url if chain else running.url
                flags = ("--loop", request.param)
                chain.append(fleet.sidecar(hop, upstream, *flags, export=collector.otlp_url))
            await fleet.ready()
            yield Path(running, chain, collector, passed)


def ids() -> str:
    return str(uuid.uuid4())


@pytest.mark.parametrize("name", BODIES)
async def test_a_raw_reader_gets_each_piece_at_once_and_exactly_the_bytes(path: Path, name: str) -> None:
    body, request_id = BODIES[name], ids()
    path.passed[request_id] = asyncio.Queue()
    async with asking(
        path.port, get(f"{CHAT}?body={name}&stepwise={request_id}", f"X-Request-Id: {request_id}")
    ) as reader:
        expected = 0
        async with asyncio.timeout(20):
            for piece in body.pieces:  # the worker sends none before we have the one before it
                expected += len(piece)
                await reader.at_least(expected)
                path.passed[request_id].put_nowait(None)
            got = await reader.rest()

    assert got == body.data
    assert reader.is_whole
    assert reader.status == 200
    sent = [(line.partition(":")[0].lower(), line.partition(":")[2].strip()) for line in FIELDS + body.fields]
    sent += [("content-type", body.content_type), ("x-request-id", request_id)]
    lines = (line.partition(":") for line in reader.raw_head.decode().splitlines()[1:] if line)
    fields = [(field.lower(), value.strip()) for field, _, value in lines]
    assert sorted(field for field in fields if field[0] != "transfer-encoding") == sorted(sent)

    verdict = await path.collector.verdict(request_id, hops=3)
    assert [hop["hop"] for hop in verdict["hops"]] == list(HOPS)
    for hop in verdict["hops"]:
        assert (hop["outcome"], hop["bytes_in"], hop["bytes_out"]) == ("complete", len(body.data), len(body.data))


@pytest.mark.peers
@pytest.mark.parametrize("name", BODIES)
async def test_curl_gets_exactly_the_bytes(path: Path, name: str) -> None:
    curl = shutil.which("curl")
    if curl is None:
        pytest.skip("curl is not installed")
    url = f"{path.chain[-1].url}{CHAT}?body={name}"
    done = await command(curl, "-N", "--silent", "--show-error", "--noproxy", "*", url)

    assert (done.code, done.errors) == (0, b"")
    assert done.out == BODIES[name].data


@pytest.mark.peers
@pytest.mark.parametrize("name", ["chat", "gzip"])
async def test_openai_python_gets_the_same_chunks_and_text_as_from_the_worker_itself(path: Path, name: str) -> None:
    openai = pytest.importorskip("openai", reason="openai-python is not installed; it comes with gapline[peers]")

    async def chunks(port: int) -> list[str]:
        http = openai.DefaultAsyncHttpxClient(trust_env=False)  # no proxy that the environment may name
        async with openai.AsyncOpenAI(
            base_url=f"http://127.0.0.1:{port}/v1", api_key="none", max_retries=0, http_client=http
        ) as client:
            stream = await client.chat.completions.create(
                model="tiny", messages=[{"role": "user", "content": "hi"}], stream=True, extra_query={"body": name}
            )
            return [chunk.model_dump_json() async for chunk in stream]

    through, direct = await chunks(path.port), await chunks(path.worker.port)
    assert through == direct
    text = "".join(chunk.choices[0].delta.content or "" for chunk in map(_parsed, through))
    assert text.startswith("Grüße, 👩‍👩‍👧‍👦日本語 🇫🇷 é😀two lines\u2028\u0085 · xxx")


def _parsed(chunk: str):
    from openai.types.chat import ChatCompletionChunk

    return ChatCompletionChunk.model_validate_json(chunk)


async def test_the_answer_to_head_has_its_fields_and_no_body(path: Path) -> None:
    async with asking(path.port, request("HEAD", f"{CHAT}?body=plain")) as reader:
        await reader.head()
        assert reader.fields("content-length") == [str(len(PLAIN)).encode()]
        reader.writer.write_eof()
        assert await reader._stream.read() == b""


async def test_a_request_body_with_its_length_arrives_unchanged(path: Path) -> None:
    sent, request_id = bodies.binary(300_001), ids()
    async with asking(path.port, post("/upload", f"X-Request-Id: {request_id}", body=sent)) as reader:
        assert await reader.rest() == hashlib.sha256(sent).hexdigest().encode()

    asked = path.worker.of(request_id)
    assert asked.body == sent
    assert asked.fields("content-length") == [b"300001"]
    assert asked.fields("transfer-encoding") == []


async def test_a_gzip_request_body_arrives_as_gzip(path: Path) -> None:
    sent, request_id = gzip.compress(b'{"prompt": "' + b"a" * 50_000 + b'"}', mtime=0), ids()
    fields = ("Content-Encoding: gzip", "Content-Type: application/json", f"X-Request-Id: {request_id}")
    async with asking(path.port, post("/upload", *fields, body=sent)) as reader:
        await reader.rest()

    asked = path.worker.of(request_id)
    assert asked.body == sent
    assert (asked.fields("content-encoding"), asked.fields("content-type")) == ([b"gzip"], [b"application/json"])


async def test_twenty_megabytes_without_a_length_arrive_unchanged(path: Path) -> None:
    sent, request_id = bodies.binary(20_000_000), ids()
    head = request("POST", "/upload", "Transfer-Encoding: chunked", f"X-Request-Id: {request_id}")
    async with asking(path.port, head) as reader:
        for piece in bodies.cut(sent, (1, 65_537, 200_003, 7)):
            reader.writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            await reader.writer.drain()
        reader.writer.write(b"0\r\n\r\n")
        async with asyncio.timeout(30):
            assert await reader.rest() == hashlib.sha256(sent).hexdigest().encode()

    asked = path.worker.of(request_id)
    assert len(asked.body) == len(sent)
    assert (asked.fields("content-length"), asked.fields("transfer-encoding")) == ([], [b"chunked"])


async def test_a_request_id_is_made_where_there_is_none_and_is_the_same_everywhere(path: Path) -> None:
    before = len(path.worker.asked)
    async with asking(path.port, get(CHAT)) as reader:
        await reader.rest()

    (made,) = reader.fields("x-request-id")
    (asked,) = path.worker.asked[before:]
    assert asked.fields("x-request-id") == [made]
    assert uuid.UUID(made.decode()).version == 4
    assert asked.fields("traceparent") == []
    verdict = await path.collector.verdict(made.decode(), hops=3)
    assert verdict["request_id"] == made.decode()


async def test_a_request_id_and_a_trace_context_pass_unchanged_and_both_are_recorded(path: Path) -> None:
    request_id, state = f"Req-{ids()}", "vendor=opaque, other=1"
    fields = (f"x-request-id: {request_id}", f"traceparent: {TRACEPARENT}", f"tracestate: {state}")
    async with asking(path.port, get(CHAT, *fields)) as reader:
        await reader.rest()

    asked = path.worker.of(request_id)
    assert (asked.fields("traceparent"), asked.fields("tracestate")) == ([TRACEPARENT.encode()], [state.encode()])
    assert reader.fields("x-request-id") == [request_id.encode()]
    verdict = await path.collector.verdict(request_id, hops=3)
    assert (verdict["request_id"], verdict["trace_id"]) == (request_id, TRACE_ID)
    assert {hop["trace_id"] for hop in verdict["hops"]} == {TRACE_ID}
    assert len({hop["span_id"] for hop in verdict["hops"]} - {PARENT_ID}) == 3
