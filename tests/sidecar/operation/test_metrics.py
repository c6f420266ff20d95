import asyncio
import re

import pytest

from otel.exposition import openmetrics, sample_of, sampled_as
from otel.hop import Ending
from sidecar.downstream.refusals import RULES
from sidecar.engine.watch import LOST as REASONS
from sidecar.export.backlog import DROPPED, Counters
from sidecar.export.log_queue import LOST, LogCounters
from sidecar.export.spool.disk import GAVE_WAY, UNREADABLE
from sidecar.export.spool.turn import FAILURES
from sidecar.guard.complaint import TOKENS
from sidecar.operation.merge import GREATEST, merged
from sidecar.operation.metrics import GUARD_MODES, Metrics
from sidecar.telling.dimensions import Dimensions
from sidecar.telling.observations import Observations
from tests.support.certificates import make_pair
from tests.support.clock import FakeClock
from tests.support.script import ask, chunk, get, head, last_chunk, sidecar, upstream, wait_for

SSE = "text/event-stream"


async def numbers(proxy):
    """Every series by its name, labels in braces behind it."""
    return numbers_in(await proxy.sidecar.account.metrics())


def numbers_in(text):
    samples = (sample_of(line) for line in text.split("\n") if line and not line.startswith("#"))
    return {sample.key: float(sample.value) for sample in samples}


async def test_it_is_an_exposition_and_every_series_is_there_from_the_start():
    async with sidecar("http://127.0.0.1:1", egress="far=127.0.0.1:0=http://127.0.0.1:1") as proxy:
        text = await proxy.sidecar.account.metrics()
        found = await numbers(proxy)

    for line in text.splitlines():
        assert re.fullmatch(r'# (HELP|TYPE) \S+ .+|# EOF|[a-z_]+(\{[a-z_]+=".*"\})? [0-9.e+-]+', line), line
    for ending in Ending:
        assert found[f'gapline_exchanges_total{{ending="{ending.value}",cause="",model="",probe="false"}}'] == 0
    for token in TOKENS:
        for mode in GUARD_MODES:
            assert found[f'gapline_guard_fired_total{{limit="{token}",mode="{mode}"}}'] == 0
    for listener in ("listen", "egress:far"):
        assert found[f'gapline_upstream_connections{{listener="{listener}"}}'] == 0
    for rule in RULES:
        assert found[f'gapline_refused_heads_total{{rule="{rule}"}}'] == 0
    for protocol in ("http2", "tls"):
        assert found[f'gapline_opaque_connections_total{{protocol="{protocol}"}}'] == 0


async def test_no_two_metrics_have_one_name_in_openmetrics():
    """A counter is called without its `_total` there, and parsers refuse the whole text for a name that comes twice."""
    async with sidecar("http://127.0.0.1:1") as proxy:
        text = await proxy.sidecar.account.metrics()

    families = re.findall(r"# TYPE (\S+)", text)
    assert sorted({*families}) == sorted(families)


async def test_numbers_of_two_workers_can_be_added():
    async with sidecar("http://127.0.0.1:1") as proxy:
        text = await proxy.sidecar.account.metrics()
        twice = merged([text, text])

    kinds = {sampled_as(*each): each[1] for each in re.findall(r"# TYPE (\S+) (\S+)", text)}
    sums = numbers_in(twice)
    for key, value in numbers_in(text).items():
        name = key.partition("{")[0]
        is_greatest = kinds.get(name) == "gauge" and name.endswith(GREATEST)
        assert sums[key] == (value if is_greatest else 2 * value), key
    assert all(name.endswith("_total") is (kind == "counter") for name, kind in kinds.items())


async def test_a_stream_is_counted_while_it_runs_and_when_it_has_ended():
    release = asyncio.Event()
    steps = [head(200, SSE), chunk(b"data: 1\n\n"), wait_for(release), last_chunk()]
    async with upstream(*steps) as up, sidecar(up.url, max_streams="3") as proxy:
        asking = asyncio.ensure_future(ask(proxy.port, get()))
        async with asyncio.timeout(5):
            while not up.exchanges:
                await asyncio.sleep(0.005)
        during = await numbers(proxy)
        release.set()
        await asking
        await proxy.hop()
        after = await numbers(proxy)

    assert (during["gapline_streams"], after["gapline_streams"]) == (1, 0)
    assert during["gapline_connections"] == 1
    assert during['gapline_admitted_streams{listener="listen"}'] == 1
    assert during['gapline_admitted_limit{listener="listen"}'] == 3
    assert during['gapline_upstream_opened_total{listener="listen"}'] == 1
    assert during["gapline_memory_used_bytes"] > 1e6
    assert sum(value for key, value in after.items() if key.startswith("gapline_exchanges_total")) == 1
    assert after['gapline_exchange_duration_seconds_count{model="",probe="false",stream="true"}'] == 1
    assert after['gapline_bytes_in_total{model="",probe="false"}'] == 9


async def test_the_oldest_silence_is_that_of_the_upstream_which_has_been_silent_the_longest():
    clock = FakeClock()
    release = asyncio.Event()
    steps = [head(200, SSE), chunk(b"data: 1\n\n"), wait_for(release), last_chunk()]
    async with upstream(*steps) as up, sidecar(up.url, clock=clock) as proxy:
        before = await numbers(proxy)
        asking = asyncio.ensure_future(ask(proxy.port, get()))
        async with asyncio.timeout(5):
            while not up.exchanges:
                await asyncio.sleep(0.005)
        await asyncio.sleep(0.05)
        clock.advance(7_500_000_000)
        during = await numbers(proxy)
        release.set()
        await asking
        after = await numbers(proxy)

    name = "gapline_oldest_silence_seconds"
    assert (before[name], after[name]) == (0, 0)
    assert during[name] == 7.5


async def test_who_has_not_sent_all_of_a_request_does_not_wait_for_the_upstream():
    clock = FakeClock()
    async with upstream() as up, sidecar(up.url, clock=clock) as proxy:
        _, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(b"POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nhalf")
        async with asyncio.timeout(5):
            while not [live for live in proxy.sidecar.exchanges.running() if live.body_wait_since_ns is not None]:
                await asyncio.sleep(0.005)
        clock.advance(7_500_000_000)
        during = await numbers(proxy)
        writer.close()

    assert during["gapline_streams"] == 1
    assert during["gapline_oldest_silence_seconds"] == 0


class FakeExporter:
    counters = Counters(
        offered=9,
        accepted=3,
        rejected=1,
        dropped={"queue_full": 2},
        queued=3,
        queued_bytes=4_096,
        oldest_age_s=1.5,
        timelines_left_out=0,
    )


class FakeLogs:
    counters = LogCounters(
        offered=8, accepted=5, queued=1, queued_bytes=300, retried=4, lost={"queue_full": 2, "unsupported": 0}
    )


async def test_the_export_is_told_where_there_is_one():
    async with sidecar("http://127.0.0.1:1") as proxy:
        parts = proxy.sidecar
        metrics = Metrics(
            build={"version": "1.2", "loop": "uvloop"},
            exchanges=parts.exchanges,
            records=parts.records,
            canary=parts.canary,
            doors=parts.sides[0].listener._doors,
            connection_limit=None,
            refused_heads=parts.sides[0].listener._refused_heads,
            sides=parts.sides,
            tls=None,
            exporter=FakeExporter(),
            observations=Observations(),
            dimensions=Dimensions(),
            logs=FakeLogs(),
            engine=None,
            now=lambda: 0,
        )
        text = openmetrics(metrics.series())

    assert 'gapline_build_info{version="1.2",loop="uvloop"} 1' in text
    for line in (
        "gapline_export_accepted_total 3",
        'gapline_export_dropped_total{reason="queue_full"} 2',
        *(f'gapline_export_dropped_total{{reason="{reason}"}} 0' for reason in (*DROPPED[1:], GAVE_WAY, UNREADABLE)),
        *(f'gapline_spool_failures_total{{kind="{kind}"}} 0' for kind in FAILURES),
        "gapline_export_queue_bytes 4096",
        "gapline_export_oldest_seconds 1.5",
        "gapline_log_records_accepted_total 5",
        'gapline_log_records_lost_total{reason="queue_full"} 2',
        *(f'gapline_log_records_lost_total{{reason="{reason}"}} 0' for reason in LOST[1:]),
        "gapline_log_records_queue_bytes 300",
    ):
        assert f"\n{line}\n" in text


@pytest.mark.parametrize("option", ["off", "http://127.0.0.1:1/metrics"])
async def test_what_the_engine_was_asked_is_told_where_there_is_one(option):
    async with sidecar("http://127.0.0.1:1", engine_metrics=option) as proxy:
        found = await numbers(proxy)

    names = {"gapline_engine_asked_total", "gapline_engine_missed_total"}
    names |= {f'gapline_engine_lost_total{{reason="{reason}"}}' for reason in REASONS}
    assert {name: 0 for name in names if option != "off"} == {
        name: value for name, value in found.items() if name.startswith("gapline_engine_")
    }


@pytest.mark.parametrize(("option", "is_there"), [("off", False), ("1G", True)])
async def test_a_limit_of_memory_is_shown_where_there_is_one(option, is_there):
    async with sidecar("http://127.0.0.1:1", memory_limit=option) as proxy:
        assert ("gapline_memory_limit_bytes" in await numbers(proxy)) is is_there


async def test_a_head_that_is_refused_is_counted_by_its_rule():
    async with sidecar("http://127.0.0.1:1") as proxy:
        await ask(proxy.port, b"nonsense\r\n\r\n")
        found = await numbers(proxy)

    assert found['gapline_refused_heads_total{rule="bad_request_line"}'] == 1


@pytest.mark.parametrize("end", GREATEST)
async def test_each_kind_of_number_that_is_no_amount_is_one_that_there_is(end, tmp_path):
    pair = make_pair(tmp_path, "here")
    async with sidecar("http://127.0.0.1:1", tls_cert=str(pair.cert), tls_key=str(pair.key)) as proxy:
        text = await proxy.sidecar.account.metrics()

    assert re.search(rf"# TYPE \S+{end} gauge", text)
