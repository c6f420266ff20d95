import asyncio
from dataclasses import replace

import pytest

from otel.hop import Ending, State, TapRole
from sidecar import assembly
from sidecar.assembly import build, exporter_of, share
from sidecar.clock import SystemClock
from sidecar.config import config_of
from tests.support.certificates import make_pair
from tests.support.clock import FakeClock
from tests.support.parts import each_kind
from tests.support.script import ask, chunk, get, head, last_chunk, sidecar, upstream, wait, wait_for

SSE = "text/event-stream"


def configured(**options):
    return config_of({"hop": "here", "upstream": "http://127.0.0.1:1", "listen": "127.0.0.1:0", **options}, {})


async def test_what_the_service_asks_goes_through_a_tap_of_its_own_under_the_name_of_the_far_side():
    async with (
        upstream(head(200, SSE), chunk(b"data: near\n\n"), last_chunk()) as near,
        upstream(head(200, SSE), chunk(b"data: far\n\n"), last_chunk()) as far,
        sidecar(near.url, egress=f"far=127.0.0.1:0={far.url}") as proxy,
    ):
        inner = proxy.sidecar.sides[1].listener.port
        replies = [await ask(port, get("/x", "X-Request-Id: r")) for port in (proxy.port, inner)]
        hops = await proxy.hops(2)

    assert [reply.body for reply in replies] == [b"data: near\n\n", b"data: far\n\n"]
    assert near.exchanges[0].field("host") == ["h"]
    assert far.exchanges[0].field("host") == [far.url.removeprefix("http://")]
    assert [(hop.place.hop, hop.place.role) for hop in hops] == [("here", TapRole.INGRESS), ("here", TapRole.EGRESS)]


async def test_all_listeners_drain_and_close():
    async with sidecar("http://127.0.0.1:1", egress="far=127.0.0.1:0=http://127.0.0.1:1") as proxy:
        ports = [side.listener.port for side in proxy.sidecar.sides]
        for port in ports:
            assert (await ask(port, get())).status == 502
        await proxy.sidecar.drain(timeout_s=1)
        for port in ports:
            with pytest.raises(ConnectionRefusedError):
                await ask(port, get())


async def test_while_an_answer_runs_the_service_can_still_ask_others():
    release = asyncio.Event()
    async with (
        upstream(head(200, SSE), wait_for(release), last_chunk()) as near,
        upstream(head(200, SSE), chunk(b"data: far\n\n"), last_chunk()) as far,
        sidecar(near.url, egress=f"far=127.0.0.1:0={far.url}") as proxy,
    ):
        asking = asyncio.ensure_future(ask(proxy.port, get()))
        async with asyncio.timeout(5):
            while not near.exchanges:
                await asyncio.sleep(0.005)
        draining = asyncio.ensure_future(proxy.sidecar.drain(timeout_s=5))
        async with asyncio.timeout(5):
            while not proxy.sidecar.exchanges.is_draining:
                await asyncio.sleep(0.005)
        inner = await ask(proxy.sidecar.sides[1].listener.port, get())
        release.set()
        outer = await asking
        await draining

    assert (inner.status, inner.body, outer.status, outer.is_clean) == (200, b"data: far\n\n", 200, True)


async def test_at_the_drain_limit_what_runs_is_ended_and_recorded():
    release = asyncio.Event()
    async with upstream(head(200, SSE), chunk(b"data: 1\n\n"), lambda _: release.wait()) as up:
        async with sidecar(up.url) as proxy:
            asking = asyncio.ensure_future(ask(proxy.port, get()))
            async with asyncio.timeout(5):
                while not up.exchanges:
                    await asyncio.sleep(0.005)
            await proxy.sidecar.drain(timeout_s=0.05)
            reply = await asking
            hop = await proxy.hop()
        release.set()

    assert reply.is_clean is not True
    assert hop.end.ending is Ending.DRAINED


def test_limits_of_the_sidecar_are_divided_among_its_workers_and_rounded_up():
    config = configured(
        max_streams="10", max_queue="0", max_connections="4", memory_limit="1G", spool_bytes="7", export_queue="32M"
    )
    part = share(config, 3)

    assert (part.max_streams, part.max_queue, part.max_connections, part.spool_bytes) == (4, 0, 2, 3)
    assert part.memory_limit == (1 << 30) // 3
    assert part.export_queue * 3 >= config.export_queue
    assert part.admin is None
    assert replace(part, **{name: getattr(config, name) for name in CHANGED}) == config


CHANGED = ("max_streams", "max_queue", "max_connections", "memory_limit", "spool_bytes", "export_queue", "admin")


@pytest.mark.parametrize(("option", "found", "shared"), [("auto", 900, 300), ("auto", None, None), ("off", 900, None)])
def test_the_memory_of_the_container_is_divided_too(monkeypatch, option, found, shared):
    monkeypatch.setattr(assembly, "cgroup_limit_bytes", lambda: found)

    assert share(configured(memory_limit=option), 3).memory_limit == shared


async def test_where_no_limit_of_connections_is_set_it_is_what_fits():
    for options, wanted in (({}, 50), ({"max_connections": "7"}, 7)):
        parts = build(configured(admin="off", **options), clock=SystemClock(), exporter=None, most_connections=50)
        await parts.start()
        assert f"gapline_connections_limit {wanted}\n" in await parts.account.metrics()
        await parts.close()


@each_kind()
async def test_what_runs_says_whether_its_parts_are_compiled(parts):
    choice = {"compiled": "on" if parts.is_compiled else "off", "admin": "off"}
    built = build(configured(**choice), clock=SystemClock(), exporter=None)
    await built.start()
    assert f'compiled="{"yes" if parts.is_compiled else "no"}"' in await built.account.metrics()
    await built.close()


METRICS = b"""\
vllm:num_requests_running{model_name="zq7canary"} 9
vllm:num_requests_waiting{model_name="zq7canary"} 3
vllm:kv_cache_usage_perc{model_name="zq7canary"} 0.97
vllm:num_preemptions_total{model_name="zq7canary"} 14
"""


async def test_the_engine_is_asked_while_a_stream_is_silent_and_the_record_has_what_it_said():
    async with (
        upstream(head(200, SSE), chunk(b"data: 1\n\n"), wait(1.8), chunk(b"data: 2\n\n"), last_chunk()) as up,
        upstream(head(200, "text/plain"), chunk(METRICS), last_chunk()) as engine,
        sidecar(
            up.url,
            egress=f"far=127.0.0.1:0={up.url}",
            stall_after="1.3",
            engine_metrics=engine.url + "/metrics",
        ) as proxy,
    ):
        far = asyncio.ensure_future(ask(proxy.sidecar.sides[1].listener.port, get()))
        reply = await ask(proxy.port, get())
        await far
        final = await proxy.hops(2)
        spans = repr(proxy.shelf.spans)
        segments = await proxy.hops(state=State.OPEN)

    assert reply.is_clean
    (hop,) = [hop for hop in final if hop.place.role is TapRole.INGRESS]
    (beyond,) = [hop for hop in final if hop.place.role is TapRole.EGRESS]
    during = hop.engine.during
    assert (hop.engine.server, during.running_count, during.waiting_count) == ("vllm", 9, 3)
    assert (during.kv_cache_share, during.preemption_count) == (0.97, 14)
    first, second = hop.timeline.stamps
    assert first.arrived_ns <= during.asked_ns <= second.arrived_ns
    assert hop.engine.earlier is not None  # when the stream began, nothing had run for long
    assert beyond.engine is None
    assert any(segment.engine == hop.engine for segment in segments)  # told while it was silent
    assert len(engine.exchanges) <= 3  # a second apart
    assert "canary" not in spans


async def test_an_engine_that_does_not_answer_costs_no_stream_anything():
    async with (
        upstream(head(200, SSE), chunk(b"data: 1\n\n"), wait(0.5), chunk(b"data: 2\n\n"), last_chunk()) as up,
        sidecar(up.url, stall_after="0.2", engine_metrics="http://127.0.0.1:1/metrics") as proxy,
    ):
        reply = await ask(proxy.port, get())
        hop = await proxy.hop()
        text = await proxy.sidecar.account.metrics()

    assert reply.is_clean
    assert hop.engine is None
    assert 'gapline_engine_lost_total{reason="failed"} ' in text


@pytest.mark.parametrize(
    ("options", "limits"),
    [
        ({}, (2_000_000_000, 300_000_000_000, None, None)),
        ({"slow_reader": "end", "write_deadline": "7"}, (2_000_000_000, 300_000_000_000, 7_000_000_000, None)),
        ({"answer_timeout": "3", "request_body_timeout": "1"}, (2_000_000_000, 1_000_000_000, None, 3_000_000_000)),
    ],
)
def test_how_long_is_waited_for_whom(options, limits):
    found = assembly._limits(configured(**options))

    assert (found.stall_after_ns, found.body_idle_ns, found.write_deadline_ns, found.answer_ns) == limits


def test_without_an_endpoint_nothing_is_exported():
    assert exporter_of(configured(), FakeClock()) is None


async def test_a_head_that_is_refused_is_told_with_the_listener_at_which_it_came(caplog):
    async with sidecar("http://127.0.0.1:1", egress="far=127.0.0.1:0=http://127.0.0.1:1") as proxy:
        await ask(proxy.sidecar.sides[1].listener.port, b"nonsense\r\n\r\n")

    assert [line.listener for line in caplog.records if line.message == "head refused"] == ["egress:far"]


async def test_the_certificate_is_told_at_the_start(tmp_path, caplog):
    caplog.set_level("INFO")
    pair = make_pair(tmp_path, "here")
    async with sidecar("http://127.0.0.1:1", tls_cert=str(pair.cert), tls_key=str(pair.key)):
        pass

    assert [line.cert for line in caplog.records if line.message == "certificate loaded"] == [str(pair.cert)]
