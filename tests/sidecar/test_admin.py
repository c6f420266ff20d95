import asyncio
import json
import re

import pytest
from aiohttp.test_utils import TestClient, TestServer, make_mocked_request

from otel.hop import Ending
from sidecar.admin import Admin
from sidecar.backlog import Counters
from sidecar.exchanges import Exchanges
from sidecar.lag import Canary
from sidecar.listener import RefusedHeads
from sidecar.records import Records
from tests.support.clock import FakeClock
from tests.support.script import ask, chunk, get, head, last_chunk, sidecar, upstream, wait_for


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


@pytest.fixture
async def admin():
    clock = FakeClock(monotonic_ns=10**9)
    canary = Canary(clock)
    records = Records(None, is_exact=False)
    return Admin(
        clock=clock,
        exchanges=Exchanges(clock, canary=canary, records=records, stall_after_ns=10**9),
        records=records,
        canary=canary,
        refused_heads=RefusedHeads(),
        exporter=FakeExporter(),
        build={"version": "1.2", "loop": "uvloop"},
    )


@pytest.fixture
async def client(admin):
    async with TestClient(TestServer(admin.app())) as found:
        yield found


async def test_metrics_tell_the_build_every_ending_and_the_export(client):
    async with client.get("/metrics") as response:
        text = await response.text()
        assert response.headers["Content-Type"].startswith("text/plain; version=0.0.4")

    assert 'gapline_build_info{version="1.2",loop="uvloop"} 1' in text
    for ending in Ending:
        assert f'gapline_exchanges_total{{ending="{ending.value}"}} 0' in text
    assert "gapline_export_accepted_total 3" in text
    assert 'gapline_export_dropped_total{reason="queue_full"} 2' in text
    assert "gapline_export_queue_bytes 4096" in text
    assert "gapline_export_oldest_seconds 1.5" in text
    for line in text.splitlines():
        assert re.fullmatch(r'# (HELP|TYPE) \S+ .+|[a-z_]+(\{[a-z_]+=".*"\})? [0-9.e+-]+', line), line


async def test_a_sidecar_that_drains_is_alive_but_not_ready(client, admin):
    async with client.get("/healthz") as health, client.get("/readyz") as ready:
        assert (health.status, ready.status) == (200, 200)
    admin._exchanges.is_draining = True
    async with client.get("/healthz") as health, client.get("/readyz") as ready:
        assert (health.status, ready.status) == (200, 503)


@pytest.mark.parametrize(("remote", "status"), [("127.0.0.1", 200), ("::1", 200), ("10.0.0.7", 403), (None, 403)])
async def test_the_streams_are_shown_to_this_machine_only(admin, remote, status):
    asking = make_mocked_request("GET", "/streams").clone(remote=remote)

    assert (await admin._streams(asking)).status == status


async def test_the_streams_are_those_that_run_now():
    release = asyncio.Event()
    steps = [head(200, "text/event-stream"), chunk(b"data: 1\n\n"), wait_for(release), last_chunk()]
    async with upstream(*steps) as up, sidecar(up.url, admin="127.0.0.1:0") as proxy:
        asking = asyncio.ensure_future(ask(proxy.port, get("/x?secret", "X-Request-Id: r-1")))
        await asyncio.sleep(0.1)
        reply = await ask(proxy.sidecar.admin.addresses[0][1], get("/streams"))
        release.set()
        await asking
        after = await ask(proxy.sidecar.admin.addresses[0][1], get("/streams"))

    (stream,) = json.loads(reply.body)["streams"]
    assert (stream["request_id"], stream["path"], stream["phase"], stream["events"]) == ("r-1", "/x", "events", 1)
    assert stream["age_s"] >= stream["silent_s"] > 0
    assert json.loads(after.body) == {"streams": []}
