"""The end of the process: streams finish or are aborted, never ended cleanly, and records are delivered."""

from __future__ import annotations

import asyncio
import signal

import pytest

from otel.hop import Ending, Side
from tests.faults import fault, report
from tests.support.processes import Fleet, free_ports, until
from tests.support.processes import get as asked_url
from tests.support.raw_peers import CUT, RESET, WHOLE, asked_once, raw_client, raw_upstream, streaming
from tests.support.script import get
from tests.support.sidecars import collecting, ended_lines, is_quiet

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(60)]

CHAT = "/v1/chat/completions"
HELLO = b'data: {"id":"chatcmpl-1","model":"m","choices":[{"index":0,"delta":{"content":"hello"}}]}\n\n'
DONE = b"data: [DONE]\n\n"
STREAMS = 10
LOOPS = pytest.mark.parametrize("loop", ["uvloop", "asyncio"])


@fault(33, "ready 503, live 200, streams complete, exit 0 right after the last")
@report("R130", "a rolling restart")
@LOOPS
async def test_a_process_that_is_told_to_end_lets_its_streams_finish(tmp_path, loop):
    release = asyncio.Event()

    async def answer(asked):
        await asked.send(streaming())
        await asked.chunk(HELLO)
        await release.wait()
        await asked.chunk(DONE)
        await asked.send(b"0\r\n\r\n")

    with Fleet(tmp_path) as fleet:
        async with collecting() as records, raw_upstream(answer) as up:
            sidecar = fleet.sidecar("here", up.url, "--loop", loop, "--drain-timeout", "10s", export=records.url)
            await fleet.ready()
            running = [asyncio.ensure_future(asked_once(sidecar.port, get(CHAT), within_s=20)) for _ in range(STREAMS)]
            async with raw_client(sidecar.port, get(CHAT)) as kept:
                await until(lambda: len(up.asked) == STREAMS + 1, "all run")
                sidecar.signal(signal.SIGTERM)

                async def is_not_ready():
                    return (await asked_url(sidecar.ready_url))[0] == 503

                await until(is_not_ready, "it is not ready", within_s=1)
                assert (await asked_url(f"{sidecar.admin_url}/healthz"))[0] == 200
                with pytest.raises(ConnectionRefusedError):
                    await asked_once(sidecar.port, get("/new"))
                await asyncio.sleep(0.3)
                assert sidecar.is_running
                release.set()
                last = await kept.answer()
            got = await asyncio.gather(*running)
            assert await sidecar.ended(within_s=3) == 0
            hops, said = list(records.final), sidecar.said

    assert all((bytes(each.body), each.end) == (HELLO + DONE, WHOLE) for each in (*got, last))
    assert [hop.end.ending for hop in hops] == [Ending.COMPLETE] * (STREAMS + 1)
    assert len(ended_lines(said)) == STREAMS + 1
    assert is_quiet(said)


@fault(34, "aborted at the limit, never ended cleanly; recorded, and the record delivered")
@report("R132", "a client that does not read, at the limit of a drain")
@report("R133", "a stream that runs, at the limit of a drain")
@LOOPS
async def test_at_the_limit_of_a_drain_streams_are_aborted_and_recorded(tmp_path, loop):
    async def answer(asked):
        await asked.send(streaming())
        while True:
            await asked.chunk(HELLO * (100 if asked.target == "/flood" else 1))
            if asked.target != "/flood":
                await asyncio.sleep(0.05)

    with Fleet(tmp_path) as fleet:
        async with collecting() as records, raw_upstream(answer) as up:
            sidecar = fleet.sidecar("here", up.url, "--loop", loop, "--drain-timeout", "1s", export=records.url)
            await fleet.ready()
            async with (
                raw_client(sidecar.port, receive_bytes=4_096) as stuck,
                raw_client(sidecar.port, get(CHAT, "X-Request-Id: runs")) as runs,
            ):
                stuck.transport.pause_reading()
                stuck.send(get("/flood", "X-Request-Id: stuck"))
                head = await runs.head()
                await until(lambda: len(up.asked) == 2, "both run")
                await asyncio.sleep(0.3)
                began = asyncio.get_running_loop().time()
                sidecar.signal(signal.SIGTERM)
                got = await runs.rest(head)
                code = await sidecar.ended(within_s=3)
                took_s = asyncio.get_running_loop().time() - began
                stuck.transport.resume_reading()
                stuck_got = await stuck.answer()
            hops = [*records.of("runs"), *records.of("stuck")]

    assert code == 0
    assert 0.9 < took_s < 2.5
    assert got.end in {CUT, RESET}
    assert stuck_got.end in {CUT, RESET}
    assert [(hop.end.ending, hop.end.ended_by) for hop in hops] == [(Ending.DRAINED, Side.SIDECAR)] * 2


@report("R133", "a second signal ends it at once")
async def test_a_second_signal_ends_it_at_once_and_not_cleanly(tmp_path):
    async def answer(asked):
        await asked.send(streaming())
        await asked.chunk(HELLO)
        await asked.wire.gone.wait()

    with Fleet(tmp_path) as fleet:
        async with raw_upstream(answer) as up:
            sidecar = fleet.sidecar("here", up.url, "--drain-timeout", "30s")
            await fleet.ready()
            async with raw_client(sidecar.port, get(CHAT)) as client:
                got = await client.head()
                sidecar.signal(signal.SIGTERM)
                await asyncio.sleep(0.3)
                assert sidecar.is_running
                sidecar.signal(signal.SIGTERM)
                await client.rest(got)
                code = await sidecar.ended(within_s=2)

    assert got.end in {CUT, RESET}
    assert code == 1


@fault(34, "an idle connection does not hold up the end")
@LOOPS
async def test_idle_connections_do_not_hold_up_the_end(tmp_path, loop):
    async def answer(asked):
        await asked.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    with Fleet(tmp_path) as fleet:
        async with raw_upstream(answer) as up:
            sidecar = fleet.sidecar("here", up.url, "--loop", loop, "--drain-timeout", "10s")
            await fleet.ready()
            async with raw_client(sidecar.port, get("/x")) as used, raw_client(sidecar.port) as fresh:
                assert (await used.answer()).status == 200
                sidecar.signal(signal.SIGTERM)
                assert await sidecar.ended(within_s=3) == 0
                assert await used.closed(within_s=1) in {"fin", "reset"}
                assert await fresh.closed(within_s=1) in {"fin", "reset"}


@fault(35, "clients see a reset or a cut, the port is free at once, no line of the log is broken")
async def test_a_killed_process_can_be_started_again_at_once(tmp_path):
    async def answer(asked):
        await asked.send(streaming())
        for _ in range(200):
            await asked.chunk(HELLO)
            await asyncio.sleep(0.002)
        await asked.chunk(DONE)
        await asked.send(b"0\r\n\r\n")

    (port,) = free_ports(1)
    with Fleet(tmp_path) as fleet:
        async with raw_upstream(answer) as up:
            first = fleet.sidecar("first", up.url, port=port)
            await fleet.ready()
            done = [await asked_once(port, get(CHAT, "X-Request-Id: one"), within_s=20)]
            running = [asyncio.ensure_future(asked_once(port, get(CHAT), within_s=20)) for _ in range(20)]
            await until(lambda: len(up.asked) == 21, "all run")
            await asyncio.sleep(0.1)
            first.signal(signal.SIGKILL)
            assert await first.ended() == -signal.SIGKILL
            got = await asyncio.gather(*running)
            second = fleet.sidecar("second", up.url, port=port)
            await second.ready()
            done.append(await asked_once(port, get(CHAT), within_s=20))
            lines = first.said.splitlines(keepends=True)

    assert {each.end for each in got} <= {CUT, RESET}
    assert [each.end for each in done] == [WHOLE, WHOLE]
    assert all(line.endswith("\n") for line in lines)
    assert len([line for line in ended_lines("".join(lines)) if line["request_id"] == "one"]) == 1


@fault(35, "the upstream hears of a killed sidecar at once")
async def test_the_upstream_of_a_killed_process_is_free_at_once(tmp_path):
    async def answer(asked):
        await asked.send(streaming())
        await asked.wire.gone.wait()

    with Fleet(tmp_path) as fleet:
        async with raw_upstream(answer) as up:
            sidecar = fleet.sidecar("here", up.url)
            await fleet.ready()
            async with raw_client(sidecar.port, get(CHAT)) as client:
                await client.head()
                sidecar.signal(signal.SIGKILL)
                await asyncio.wait_for(up.asked[0].wire.gone.wait(), 1)
