"""The receiver over gRPC, with grpcio's client and the packaged exporter as senders."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import grpc
import pytest
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace.export import SpanExportResult

from otel import receiver as receiver_module
from otel import receiver_grpc as module
from otel.glance import Glance, glance_to_log
from otel.otlp import decode_response, encode_request
from otel.otlp_logs import decode_logs_response
from otel.receiver import Receiver
from otel.receiver_grpc import MESSAGE_BYTES, grpc_server
from otel.span import hop_to_span
from tests.otel.test_receiver import BROKEN_LOG, CHAIN, FOREIGN, GLANCES, OTHERS_LOG, SPANS, logs_protobuf
from tests.support.builders import a_hop, a_timeline
from tests.support.peers import readable
from tests.support.stores import TroubledStore

LOGS = "/opentelemetry.proto.collector.logs.v1.LogsService/Export"
EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"


class Serving:
    def __init__(self, target: str, store: TroubledStore, receiver: Receiver, noticed: list[Glance]) -> None:
        self.target, self.store, self.receiver, self.noticed = target, store, receiver, noticed

    async def export(self, body: bytes, method: str = EXPORT, **metadata: str) -> bytes:
        limit = [("grpc.max_send_message_length", -1)]
        async with grpc.aio.insecure_channel(self.target, options=limit) as channel:
            return await channel.unary_unary(method)(body, metadata=tuple(metadata.items()))


@asynccontextmanager
async def serving(*, token: str | None = None):
    store = TroubledStore()
    noticed: list[Glance] = []
    receiver = Receiver(store.write, notice=noticed.append, token=token)
    server = grpc_server(receiver)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield Serving(f"127.0.0.1:{port}", store, receiver, noticed)
    finally:
        await server.stop(None)


@pytest.fixture
async def server():
    async with serving() as made:
        yield made


async def test_hops_are_stored_as_they_were_recorded(server):
    assert await server.export(encode_request(SPANS)) == b""
    assert server.store.hops == list(CHAIN)


async def test_rejected_spans_are_told(server):
    answer = await server.export(encode_request([FOREIGN, *SPANS]))
    assert decode_response(answer, as_json=False) == (1, "1 × gapline.schema: missing")
    assert server.store.hops == list(CHAIN)


async def test_a_store_in_trouble_is_unavailable_and_the_sender_comes_again(server):
    server.store.script = ["later"]
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await server.export(encode_request(SPANS))
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    assert server.store.hops == []
    await server.export(encode_request(SPANS))
    assert server.store.hops == list(CHAIN)


async def test_a_body_that_is_no_request_is_an_invalid_argument(server):
    with pytest.raises(grpc.aio.AioRpcError, match="is not a protobuf") as caught:
        await server.export(b"\xff\xff")
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_requests_of_more_than_4_mib_are_taken(server):
    spans = [hop_to_span(a_hop(request_id=f"r{i}")) for i in range(3_000)]
    body = encode_request(spans)
    assert len(body) > 4 << 20
    assert await server.export(body) == b""
    assert len(server.store.hops) == 3_000


async def test_requests_past_the_limit_are_refused_by_grpc(server):
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await server.export(b"\x00" * (MESSAGE_BYTES + 1))
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_a_message_waits_for_its_turn_on_the_wire(server, monkeypatch):
    is_free = asyncio.Event()
    plain = server.store.write

    async def slow(hops):
        await is_free.wait()
        return await plain(hops)

    server.receiver._write = slow
    monkeypatch.setattr(receiver_module, "HELD_BYTES", 3 * (2 << 20))
    body = encode_request([hop_to_span(a_hop(request_id=f"r{i}")) for i in range(1_300)])
    assert 1.5 * len(body) > (2 << 20)
    async with asyncio.timeout(20):
        sent = [asyncio.ensure_future(server.export(body)) for _ in range(8)]
        done: set[asyncio.Future[bytes]] = set()
        while len(done) < 4:
            done, _ = await asyncio.wait(sent, timeout=0.05)
        assert {future.exception().code() for future in done} == {grpc.StatusCode.UNAVAILABLE}
        assert server.receiver._room._taken_bytes <= receiver_module.HELD_BYTES
        is_free.set()
        await asyncio.wait(sent)
    assert server.receiver._room._taken_bytes == 0


async def test_a_message_that_does_not_come_is_not_waited_for(server, monkeypatch):
    monkeypatch.setattr(module, "BODY_S", 0.05)
    async with asyncio.timeout(5), grpc.aio.insecure_channel(server.target) as channel:
        call = channel.stream_unary(EXPORT)()
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


@pytest.mark.parametrize("metadata", [{}, {"authorization": "Bearer wrong"}, {"token": "s3cret"}])
async def test_without_the_token_nobody_sends(metadata):
    async with serving(token="s3cret") as server:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await server.export(encode_request(SPANS), **metadata)
        assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
        assert server.store.hops == []
        assert server.receiver.counters.refused_requests == 1


async def test_with_the_token_everybody_does():
    async with serving(token="s3cret") as server:
        assert await server.export(encode_request(SPANS), authorization="Bearer s3cret") == b""


async def test_other_methods_are_not_implemented(server):
    async with grpc.aio.insecure_channel(server.target) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await channel.unary_unary("/opentelemetry.proto.collector.metrics.v1.MetricsService/Export")(b"")
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


@pytest.mark.parametrize("compression", [grpc.Compression.NoCompression, grpc.Compression.Gzip])
async def test_the_packaged_grpc_exporter_delivers_to_us(server, compression):
    exporter = OTLPSpanExporter(server.target, insecure=True, compression=compression, timeout=5)
    long = a_hop("gateway", request_id="long", timeline=a_timeline([0.3 + 0.02 * i for i in range(3_000)]))
    sent = [readable(span) for span in [*SPANS, hop_to_span(long)]]
    assert await asyncio.to_thread(exporter.export, sent) is SpanExportResult.SUCCESS
    await asyncio.to_thread(exporter.shutdown)
    assert sorted(server.store.hops, key=str) == sorted([*CHAIN, long], key=str)


async def test_glances_are_noticed_and_the_records_of_others_dropped(server):
    body = logs_protobuf([OTHERS_LOG, *map(glance_to_log, GLANCES), BROKEN_LOG])
    answer = await server.export(body, method=LOGS)
    assert decode_logs_response(answer, as_json=False) == (1, "1 × gapline.request_id: missing")
    assert server.noticed == GLANCES


async def test_logs_need_the_token_too():
    async with serving(token="s3cret") as server:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await server.export(logs_protobuf([]), method=LOGS)
        assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
        assert await server.export(logs_protobuf([]), method=LOGS, authorization="Bearer s3cret") == b""
