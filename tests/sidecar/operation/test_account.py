import asyncio
import json
import threading

from otel.exposition import series
from otel.hop import Ending
from sidecar.operation.account import OwnAccount
from tests.support.script import ask, chunk, get, head, last_chunk, sidecar, upstream, wait_for

SSE = "text/event-stream"


async def streams_of(proxy):
    return await proxy.sidecar.account.streams()


async def until_running(proxy, *, events):
    async with asyncio.timeout(5):
        while [stream["events"] for stream in await streams_of(proxy)] != [events]:
            await asyncio.sleep(0.005)


async def test_the_streams_are_those_that_run_now_on_the_admin_address_too():
    release = asyncio.Event()
    steps = [head(200, SSE), chunk(b"data: 1\n\n"), wait_for(release), last_chunk()]
    async with upstream(*steps) as up, sidecar(up.url, admin="127.0.0.1:0") as proxy:
        asking = asyncio.ensure_future(ask(proxy.port, get("/x?secret", "X-Request-Id: r-1")))
        await until_running(proxy, events=1)
        (stream,) = await streams_of(proxy)
        admin = proxy.sidecar.admin.port
        shown = await ask(admin, b"GET /streams HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        release.set()
        await asking
        assert await streams_of(proxy) == []

    assert (stream["request_id"], stream["path"], stream["phase"]) == ("r-1", "/x", "events")
    assert stream["age_s"] >= stream["silent_s"] >= 0
    assert isinstance(stream["buffered_bytes"], int)
    assert [each["request_id"] for each in json.loads(shown.body)["streams"]] == ["r-1"]


async def test_a_stream_names_its_listener_and_its_model_and_whether_it_waits_for_a_place():
    release = asyncio.Event()
    steps = [head(200, SSE), chunk(b'data: {"model":"m-1","choices":[]}\n\n'), wait_for(release), last_chunk()]
    async with upstream(*steps) as up, sidecar(up.url, max_streams="1") as proxy:
        first = asyncio.ensure_future(ask(proxy.port, get("/v1/chat/completions")))
        await until_running(proxy, events=1)
        second = asyncio.ensure_future(ask(proxy.port, get("/v1/chat/completions")))
        async with asyncio.timeout(5):
            while len(streams := await streams_of(proxy)) < 2:
                await asyncio.sleep(0.005)
        release.set()
        await asyncio.gather(first, second)

    assert [(each["listener"], each["model"], each["is_queued"]) for each in streams] == [
        ("listen", "m-1", False),
        ("listen", None, True),
    ]


async def test_what_drains_is_not_ready():
    async with sidecar("http://127.0.0.1:1") as proxy:
        assert await proxy.sidecar.account.is_ready() is True
        await proxy.sidecar.drain(timeout_s=1)
        assert await proxy.sidecar.account.is_ready() is False


async def test_the_kill_switch_mutes_what_runs_and_what_comes_and_can_be_turned_back():
    release = asyncio.Event()
    steps = [head(200, SSE), chunk(b"data: 1\n\n"), wait_for(release), chunk(b"data: 2\n\n"), last_chunk()]
    async with upstream(*steps) as up, sidecar(up.url) as proxy:
        account = proxy.sidecar.account
        running = asyncio.ensure_future(ask(proxy.port, get("/running")))
        await until_running(proxy, events=1)
        await account.switch_passthrough(is_on=True)
        assert "gapline_streams_muted 1\n" in await account.metrics()
        release.set()
        coming = await ask(proxy.port, get("/coming"))
        await account.switch_passthrough(is_on=False)
        assert await account.is_passthrough() is False
        seen = await ask(proxy.port, get("/seen"))
        hop = await proxy.hop()
        text = await account.metrics()

    assert [reply.body for reply in (await running, coming, seen)] == [b"data: 1\n\ndata: 2\n\n"] * 3
    assert (hop.exchange.path, hop.end.ending) == ("/seen", Ending.COMPLETE)
    assert len(proxy.shelf.spans) == 1
    assert "gapline_exchanges_muted_total 2\n" in text


async def test_the_kill_switch_is_said_once_in_the_log(caplog):
    async with sidecar("http://127.0.0.1:1") as proxy:
        for _ in range(2):
            await proxy.sidecar.account.switch_passthrough(is_on=True)

    assert [record.is_on for record in caplog.records if record.message == "passthrough"] == [True]


async def test_it_can_be_on_from_the_start():
    async with upstream(head(200, SSE), last_chunk()) as up, sidecar(up.url, passthrough="true") as proxy:
        await ask(proxy.port, get())
        assert await proxy.sidecar.account.is_passthrough() is True
        await asyncio.sleep(0.05)
        assert proxy.shelf.spans == []


class FakeTls:
    reloads = 0

    def reload(self):
        self.reloads += 1


async def test_a_reload_loads_the_certificate_where_there_is_one():
    tls = FakeTls()
    for each in (tls, None):
        await OwnAccount(clock=None, exchanges=None, series=list, tls=each).reload()

    assert tls.reloads == 1


async def test_metrics_are_written_beside_the_event_loop():
    goes_on = threading.Event()

    class Slow(dict[str, str]):
        """Labels that take a long time to be written."""

        def items(self):
            assert goes_on.wait(2), "the event loop waits for what is written"
            return super().items()

    found = [series("gapline_x", "gauge", "x", [(Slow(a="b"), 1)])]
    asking = asyncio.ensure_future(OwnAccount(clock=None, exchanges=None, series=lambda: found, tls=None).metrics())
    await asyncio.sleep(0)
    goes_on.set()
    assert 'gapline_x{a="b"} 1' in await asking
