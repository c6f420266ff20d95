"""The receiver over HTTP: what is acknowledged is stored, what is refused is told, and nothing is both."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import zlib
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import aiohttp
import pytest
from aiohttp import web
from google.rpc import status_pb2
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry._logs import LogRecord as AnyRecord
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.sdk._logs.export import LogRecordExportResult
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace.export import SpanExportResult

from otel import receiver as module
from otel.glance import Glance, Moment, glance_to_log
from otel.grain import LEFT_OUT
from otel.otlp import decode_response, encode_request, encode_request_json
from otel.otlp_logs import LogRecord, decode_logs_response, encode_logs_json, encode_record, request_of
from otel.receiver import Receiver, TryLaterError, http_runner
from otel.span import Span, hop_to_span, without_timeline
from tests.support.builders import a_chain, a_hop, a_timeline
from tests.support.glances import a_glance
from tests.support.peers import readable
from tests.support.stores import TROUBLES, TroubledStore

PROTOBUF, JSON = "application/x-protobuf", "application/json"
CHAIN = a_chain("gateway", "inference-proxy", "model-worker")
SPANS = [hop_to_span(hop) for hop in CHAIN]
FOREIGN = Span(trace_id="ab" * 16, span_id="cd" * 8, name="GET /", start_ns=1, end_ns=2)
NEWER = replace(SPANS[0], attributes={**SPANS[0].attributes, "gapline.schema": 2})
ENCODE = {PROTOBUF: encode_request, JSON: encode_request_json}


@dataclass(frozen=True)
class Serving:
    url: str
    store: TroubledStore
    receiver: Receiver
    noticed: list[Glance]

    async def post(
        self, body: bytes, *, content_type: str = PROTOBUF, path: str = "/v1/traces", **headers: str
    ) -> tuple[int, bytes, str]:
        """Status, body and content type of the answer."""
        named = {"Content-Type": content_type} | {name.replace("_", "-"): value for name, value in headers.items()}
        async with (
            aiohttp.ClientSession() as session,
            session.post(self.url + path, data=body, headers=named) as response,
        ):
            return response.status, await response.read(), response.content_type


@asynccontextmanager
async def serving(*, token: str | None = None):
    store = TroubledStore()
    noticed: list[Glance] = []
    receiver = Receiver(store.write, notice=noticed.append, token=token)
    runner = http_runner(receiver)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield Serving(f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}", store, receiver, noticed)
    finally:
        await runner.cleanup()


@pytest.fixture
async def server():
    async with serving() as made:
        yield made


@pytest.mark.parametrize("content_type", [PROTOBUF, JSON])
class TestBothEncodings:
    async def test_hops_are_stored_as_they_were_recorded(self, server, content_type):
        status, body, answered = await server.post(ENCODE[content_type](SPANS), content_type=content_type)
        assert (status, answered) == (200, content_type)
        assert decode_response(body, as_json=content_type == JSON) == (0, "")
        assert server.store.hops == list(CHAIN)

    async def test_others_spans_are_rejected_and_the_rest_is_kept(self, server, content_type):
        sent = ENCODE[content_type]([FOREIGN, *SPANS, NEWER, FOREIGN])
        status, body, _ = await server.post(sent, content_type=content_type)
        assert status == 200
        assert decode_response(body, as_json=content_type == JSON) == (
            3,
            "2 × gapline.schema: missing; 1 × gapline.schema: this reader knows 1 to 1; 2 needs a newer gapline",
        )
        assert server.store.hops == list(CHAIN)
        assert server.receiver.counters.foreign == 2

    async def test_a_store_in_trouble_makes_the_sender_come_again(self, server, content_type):
        server.store.script = ["later"]
        sent = ENCODE[content_type](SPANS)
        status, body, answered = await server.post(sent, content_type=content_type)
        assert (status, answered) == (503, content_type)
        assert b"the store cannot take it now" in body
        assert server.store.hops == []
        assert (await server.post(sent, content_type=content_type))[0] == 200
        assert server.store.hops == list(CHAIN)

    async def test_what_the_store_refuses_for_good_is_rejected(self, server, content_type):
        server.store.script = ["never"]
        status, body, _ = await server.post(ENCODE[content_type](SPANS), content_type=content_type)
        assert status == 200
        assert decode_response(body, as_json=content_type == JSON) == (3, "3 × disk full")

    async def test_a_body_that_is_no_request_is_a_bad_request(self, server, content_type):
        status, body, answered = await server.post(b"\xff<html>", content_type=content_type)
        assert (status, answered) == (400, content_type)
        if content_type == PROTOBUF:
            assert "is not a protobuf" in status_pb2.Status.FromString(body).message
        else:
            assert "is not JSON" in json.loads(body)["message"]
        assert server.receiver.counters.refused_requests == 1


@pytest.mark.parametrize("content_type", [PROTOBUF, JSON])
async def test_a_hop_whose_timeline_was_left_out_is_kept_without_it(server, content_type):
    sent = ENCODE[content_type](map(without_timeline, SPANS))
    status, body, _ = await server.post(sent, content_type=content_type)
    assert (status, decode_response(body, as_json=content_type == JSON)) == (200, (0, ""))
    assert server.store.hops == [replace(hop, timeline=LEFT_OUT) for hop in CHAIN]


async def test_a_few_kilobytes_that_unfold_to_millions_of_stamps_are_refused(server):
    count = 3_000_000
    payload = b"\x01\x00\x01\x01" + bytes([count & 0x7F | 0x80, count >> 7 & 0x7F | 0x80, count >> 14 & 0x7F | 0x80, 1])
    payload += b"\x10" * count + bytes(3)
    parts = {"bytes": len(payload), "crc32": zlib.crc32(payload), "events": count, "parts": 1}
    parts["part.00"] = base64.b64encode(payload).decode()
    events = [
        replace(event, attributes={**event.attributes, **{f"gapline.timeline.{name}": parts[name] for name in parts}})
        if event.name == "gapline.timeline"
        else event
        for event in SPANS[0].events
    ]
    body = gzip.compress(encode_request([replace(SPANS[0], events=tuple(events))]))
    status, answer, _ = await server.post(body, Content_Encoding="gzip")
    assert len(body) < 10_000
    assert (status, server.store.hops) == (200, [])
    assert decode_response(answer, as_json=False) == (
        1,
        "1 × gapline.timeline: the 1 parts have 4000016 characters, more than 900000",
    )


async def test_a_duplicate_is_no_new_hop_and_no_rejection(server):
    assert (await server.post(encode_request(SPANS)))[0] == 200
    status, body, _ = await server.post(encode_request([*SPANS, SPANS[0]]))
    assert (status, decode_response(body, as_json=False)) == (200, (0, ""))
    assert server.store.hops == list(CHAIN)
    assert server.receiver.counters.duplicate == 4


async def test_a_request_of_no_spans_is_fine_and_the_store_hears_nothing(server):
    server.store.script = ["later"]
    assert await server.post(b"") == (200, b"", PROTOBUF)


async def test_an_unexpected_failure_of_the_store_is_one_to_come_again_for(server, caplog):
    server.store.script = ["crash"]
    assert (await server.post(encode_request(SPANS)))[0] == 503
    assert caplog.records[0].exc_info[0] is ZeroDivisionError


async def test_an_answer_waits_until_the_store_is_done(server):
    is_durable = asyncio.Event()
    plain = server.store.write

    async def slow(hops):
        await is_durable.wait()
        return await plain(hops)

    server.receiver._write = slow
    answer = asyncio.ensure_future(server.post(encode_request(SPANS)))
    done, _ = await asyncio.wait([answer], timeout=0.1)
    assert not done
    is_durable.set()
    assert (await answer)[0] == 200


class TestSizes:
    @pytest.mark.parametrize(("coding", "compress"), [("gzip", gzip.compress), ("deflate", zlib.compress)])
    @pytest.mark.parametrize("spans", [SPANS, SPANS * 40])
    async def test_compressed_bodies_are_read(self, server, coding, compress, spans):
        status, body, _ = await server.post(compress(encode_request(spans)), Content_Encoding=coding)
        assert (status, decode_response(body, as_json=False)) == (200, (0, ""))
        assert server.store.hops == list(CHAIN)

    async def test_gzip_of_several_members_is_read(self, server):
        body = b"".join(gzip.compress(encode_request([span])) for span in SPANS)
        assert (await server.post(body, Content_Encoding="GZIP"))[0] == 200
        assert server.store.hops == list(CHAIN)

    @pytest.mark.parametrize(
        "body", [b"nonsense", gzip.compress(encode_request(SPANS))[:-9], gzip.compress(b"x") + b"tail"]
    )
    async def test_broken_compression_is_a_bad_request(self, server, body):
        assert (await server.post(body, Content_Encoding="gzip"))[0] == 400

    async def test_a_bomb_does_not_go_off(self, server, monkeypatch):
        monkeypatch.setattr(module, "BODY_BYTES", 100_000)
        bomb = gzip.compress(b"\x00" * 50_000_000)
        assert len(bomb) < 100_000
        assert (await server.post(bomb, Content_Encoding="gzip"))[0] == 413
        assert server.receiver.counters.refused_requests == 1

    async def test_a_body_past_the_limit_is_refused_before_it_is_read(self, server, monkeypatch):
        monkeypatch.setattr(module, "BODY_BYTES", 100)
        assert (await server.post(b"\x00" * 101))[0] == 413

    async def test_so_is_one_that_does_not_say_its_size(self, server, monkeypatch):
        monkeypatch.setattr(module, "BODY_BYTES", 100)

        async def endless():
            for _ in range(10):
                yield b"\x00" * 50

        assert (await server.post(endless()))[0] == 413

    async def test_too_many_bodies_at_once_are_asked_to_come_again(self, server, monkeypatch):
        monkeypatch.setattr(module, "HELD_BYTES", 10)
        assert (await server.post(encode_request(SPANS)))[0] == 503
        assert server.receiver.counters.failed_requests == 1

    async def test_what_has_come_in_of_a_body_is_held_already(self, server, monkeypatch):
        monkeypatch.setattr(module, "HELD_BYTES", 3_000)
        host, port = server.url.removeprefix("http://").split(":")
        _, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\n")
        writer.write(b"Content-Length: 100000\r\n\r\n" + b"\x00" * 2_900)
        await writer.drain()
        async with asyncio.timeout(5):
            while server.receiver._room._taken_bytes < 2_900:
                await asyncio.sleep(0.01)
        assert (await server.post(encode_request(SPANS)[:1_000]))[0] == 503
        assert server.receiver.counters.failed_requests == 1

        writer.close()
        async with asyncio.timeout(5):
            while server.receiver._room._taken_bytes:
                await asyncio.sleep(0.01)
        assert (await server.post(encode_request(SPANS[:1])))[0] == 200

    @pytest.mark.parametrize("size", [500, 5_000_000])
    async def test_what_a_body_is_inflated_to_is_held_while_it_is(self, server, monkeypatch, size):
        monkeypatch.setattr(module, "HELD_BYTES", size // 2)
        assert (await server.post(gzip.compress(b"\x00" * size), Content_Encoding="gzip"))[0] == 503
        assert server.receiver._room._taken_bytes == 0

    async def test_a_body_that_does_not_come_in_is_not_waited_for(self, server, monkeypatch):
        monkeypatch.setattr(module, "BODY_S", 0.05)

        async def endless():
            yield b"\x00"
            await asyncio.sleep(5)

        async with asyncio.timeout(4):
            assert (await server.post(endless()))[0] == 503
        assert server.receiver._room._taken_bytes == 0

    async def test_gzip_of_countless_members_is_a_bad_request(self, server):
        body = gzip.compress(b"") * (module.GZIP_MEMBERS + 1)
        assert (await server.post(body, Content_Encoding="gzip"))[0] == 400

    @pytest.mark.parametrize("events", [1, 6, 11, 1_000])
    async def test_a_large_request_is_unpacked_and_kept_in_portions(self, server, monkeypatch, events):
        monkeypatch.setattr(module, "PORTION_EVENTS", events)
        hops = [a_hop(request_id=f"r{i}") for i in range(5)]
        sent = [FOREIGN, *map(hop_to_span, hops), hop_to_span(hops[0]), NEWER]
        status, body, _ = await server.post(encode_request(sent))
        assert (status, decode_response(body, as_json=False)[0]) == (200, 2)
        assert server.store.hops == hops
        counters = server.receiver.counters
        assert (counters.spans, counters.stored, counters.duplicate, counters.foreign) == (8, 5, 1, 1)

    async def test_what_was_kept_before_the_store_failed_is_a_duplicate_the_next_time(self, server, monkeypatch):
        monkeypatch.setattr(module, "PORTION_EVENTS", 1)
        server.store.script = ["ok", "ok", "later"]
        sent = encode_request(SPANS)
        assert (await server.post(sent))[0] == 503
        assert (await server.post(sent))[0] == 200
        assert server.store.hops == list(CHAIN)
        counters = server.receiver.counters
        assert (counters.spans, counters.stored, counters.duplicate) == (3, 1, 2)

    async def test_a_sender_that_leaves_in_mid_body_changes_nothing(self, server):
        host, port = server.url.removeprefix("http://").split(":")
        _, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\n")
        writer.write(b"Content-Length: 1000\r\n\r\n" + encode_request(SPANS)[:100])
        await writer.drain()
        writer.close()
        assert (await server.post(encode_request(SPANS)))[0] == 200


@pytest.mark.parametrize("content_type", ["text/plain", "application/octet-stream", "application/x-protobuf2"])
async def test_other_content_types_are_not_supported(server, content_type):
    assert (await server.post(encode_request(SPANS), content_type=content_type))[0] == 415


async def test_other_codings_are_not_supported(server):
    assert (await server.post(b"x", Content_Encoding="snappy"))[0] == 415


async def test_a_charset_does_not_disturb(server):
    assert (await server.post(encode_request_json(SPANS), content_type=JSON + "; charset=utf-8"))[0] == 200


class TestToken:
    @pytest.mark.parametrize(
        "header", [None, "", "s3cret", "Bearer", "Bearer S3CRET", "Bearer s3cretx", "Basic s3cret"]
    )
    async def test_without_the_right_one_nobody_sends(self, header):
        async with serving(token="s3cret") as server:
            headers = {} if header is None else {"Authorization": header}
            status, _, _ = await server.post(encode_request(SPANS), **headers)
            assert (status, server.store.hops) == (401, [])
            assert server.receiver.counters.refused_requests == 1

    async def test_with_it_everybody_does(self):
        async with serving(token="s3cret") as server:
            assert (await server.post(encode_request(SPANS), Authorization="Bearer s3cret"))[0] == 200
            assert server.store.hops == list(CHAIN)


class TestReasons:
    @pytest.fixture
    def receiver(self):
        return Receiver(TroubledStore().write, notice=lambda glance: None)

    async def test_are_few_short_and_escaped(self, receiver):
        hostile = "\x1b[2J" + "x" * 100_000
        spans = [
            replace(SPANS[0], attributes={**SPANS[0].attributes, name: hostile})
            for name in ("gapline.hop.role", "gapline.state", "gapline.ending", "gapline.phase", "gapline.ended_by")
        ]
        rejected, message = await receiver.take(encode_request(spans), as_json=False)
        assert rejected == 5
        assert message.endswith("; 2 more reasons")
        assert len(message) < 700
        assert message.isprintable()

    @given(st.binary(max_size=200), st.booleans())
    async def test_any_body_is_answered_or_refused(self, body, as_json):
        receiver = Receiver(TroubledStore().write, notice=lambda glance: None)
        try:
            rejected, _ = await receiver.take(body, as_json=as_json)
        except module.OtlpError:
            assert receiver.counters.spans == 0
        else:
            assert rejected == receiver.counters.spans


@given(
    st.lists(st.sampled_from(sorted(TROUBLES)), max_size=6),
    st.lists(st.lists(st.sampled_from([*SPANS, FOREIGN, NEWER]), max_size=4), max_size=4),
)
async def test_whatever_the_store_answers_sent_is_stored_or_rejected_and_nothing_is_both(script, requests):
    store = TroubledStore(script=list(script))
    receiver = Receiver(store.write, notice=lambda glance: None)
    rejected = 0
    for spans in requests:
        while True:
            try:
                refused, _ = await receiver.take(encode_request(spans), as_json=False)
            except TryLaterError:
                continue
            rejected += refused
            break
    counters = receiver.counters
    assert counters.spans == sum(map(len, requests)) == counters.stored + counters.duplicate + counters.rejected
    assert counters.rejected == rejected
    assert counters.stored == len(store.hops) == len({hop.span_id for hop in store.hops})
    assert counters.failed_requests <= len([name for name in script if name in {"later", "crash"}])


@pytest.mark.parametrize("compression", Compression)
async def test_the_packaged_http_exporter_delivers_to_us(server, compression):
    exporter = OTLPSpanExporter(server.url + "/v1/traces", compression=compression, timeout=5)
    long = a_hop("gateway", request_id="long", timeline=a_timeline([0.3 + 0.02 * i for i in range(3_000)]))
    sent = [readable(span) for span in [*SPANS, hop_to_span(long)]]
    assert await asyncio.to_thread(exporter.export, sent) is SpanExportResult.SUCCESS
    await asyncio.to_thread(exporter.shutdown)
    assert sorted(server.store.hops, key=str) == sorted([*CHAIN, long], key=str)


GLANCES = [a_glance(Moment.STALLED), a_glance(number=2)]
OTHERS_LOG = LogRecord(event_name="", at_ns=1, attributes={"log.file.name": "app.log"})
BROKEN_LOG = LogRecord(event_name="gapline.stream.open", at_ns=1, trace_id="ab" * 16, span_id="cd" * 8)


def logs_protobuf(records) -> bytes:
    return request_of(map(encode_record, records), resource={"service.name": "x"}, scope_name="gapline")


def logs_json(records) -> bytes:
    return encode_logs_json(records, resource={"service.name": "x"}, scope_name="gapline")


@pytest.mark.parametrize(("content_type", "encode"), [(PROTOBUF, logs_protobuf), (JSON, logs_json)])
@pytest.mark.parametrize("coding", ["identity", "gzip"])
class TestLogRecords:
    async def test_glances_are_noticed_and_the_records_of_others_are_taken_and_dropped(
        self, server, content_type, encode, coding
    ):
        body = encode([OTHERS_LOG, *map(glance_to_log, GLANCES), OTHERS_LOG])
        sent = gzip.compress(body) if coding == "gzip" else body
        status, answer, answered = await server.post(
            sent, content_type=content_type, path="/v1/logs", Content_Encoding=coding
        )
        assert (status, answered) == (200, content_type)
        assert decode_logs_response(answer, as_json=content_type == JSON) == (0, "")
        assert server.noticed == GLANCES
        counters = server.receiver.counters
        assert (counters.glances, counters.foreign_logs, counters.rejected_logs, counters.spans) == (2, 2, 0, 0)

    async def test_what_means_to_be_a_glance_and_is_none_is_told(self, server, content_type, encode, coding):
        del coding
        body = encode([BROKEN_LOG, *map(glance_to_log, GLANCES)])
        status, answer, _ = await server.post(body, content_type=content_type, path="/v1/logs")
        assert status == 200
        told = decode_logs_response(answer, as_json=content_type == JSON)
        assert told == (1, "1 × gapline.request_id: missing")
        assert server.noticed == GLANCES


async def test_logs_need_the_token_too():
    async with serving(token="s3cret") as server:
        body = logs_protobuf(map(glance_to_log, GLANCES))
        assert (await server.post(body, path="/v1/logs"))[0] == 401
        assert (await server.post(body, path="/v1/logs", Authorization="Bearer s3cret"))[0] == 200
        assert server.noticed == GLANCES


async def test_logs_that_are_none_are_refused(server):
    assert (await server.post(b"\xff\xff", path="/v1/logs"))[0] == 400
    assert (await server.post(b"[]", content_type=JSON, path="/v1/logs"))[0] == 400
    assert server.receiver.counters.refused_requests == 2


async def test_many_glances_are_taken_in_portions(server, monkeypatch):
    monkeypatch.setattr(module, "PORTION_GLANCES", 3)
    many = [a_glance(number=number) for number in range(1, 11)]
    assert (await server.post(logs_protobuf(map(glance_to_log, many)), path="/v1/logs"))[0] == 200
    assert server.noticed == many


async def test_the_packaged_exporter_of_logs_finds_its_records_taken(server):
    exporter = OTLPLogExporter(endpoint=server.url + "/v1/logs")
    record = ReadableLogRecord(AnyRecord(timestamp=1, body="somebody's text", event_name="other"), Resource({}))
    result = await asyncio.to_thread(exporter.export, [record])
    assert result is LogRecordExportResult.SUCCESS
    assert server.receiver.counters.foreign_logs == 1
