"""Asking a scripted engine over real sockets: when, how often, and what becomes of every bad answer."""

import asyncio
import logging
from contextlib import asynccontextmanager

import pytest

from sidecar.clock import SystemClock
from sidecar.engine import watch
from sidecar.engine.watch import BASELINE_NS, LIMIT_BYTES, LOST, EngineWatch
from tests.support.clock import FakeClock
from tests.support.script import chunk, cut, flood, hang, head, last_chunk, reset, send, upstream, wait

S = 1_000_000_000
TEXT = "text/plain; version=0.0.4; charset=utf-8"
METRICS = b'vllm:num_requests_running{model_name="canary"} 9\nvllm:num_requests_waiting{model_name="canary"} 3\n'


def answering(text=METRICS):
    return head(200, TEXT), chunk(text), last_chunk()


@asynccontextmanager
async def watching(url, *, clock=None):
    engine = EngineWatch(url + "/metrics", clock=clock or SystemClock())
    async with asyncio.TaskGroup() as group:
        task = group.create_task(engine.run())
        try:
            yield engine
        finally:
            task.cancel()


async def until(condition):
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0.005)


def now_ns():
    return SystemClock().monotonic_ns()


async def test_a_silence_gets_what_the_engine_says_then():
    taken = []
    async with upstream(*answering()) as peer, watching(peer.url) as engine:
        since_ns = now_ns()
        engine.ask(since_ns, since_ns, taken.append)
        await until(lambda: taken)

    snapshot = taken[0].snapshot
    assert (taken[0].server, snapshot.running_count, snapshot.waiting_count) == ("vllm", 9, 3)
    assert since_ns < snapshot.asked_ns < now_ns()
    assert (engine.asked_count, engine.missed_count, sum(engine.lost_counts.values())) == (1, 0, 0)
    assert peer.exchanges[0].head.startswith(b"GET /metrics HTTP/1.1\r\n")
    assert peer.exchanges[0].field("accept") == ["text/plain;version=0.0.4"]
    assert peer.exchanges[0].field("accept-encoding") == ["identity"]


async def test_however_many_streams_fall_silent_one_request_serves_them():
    taken = []
    async with upstream(wait(0.05), *answering()) as peer, watching(peer.url) as engine:
        since_ns = now_ns()
        for _ in range(200):
            engine.ask(since_ns, since_ns, taken.append)
        await until(lambda: engine.asked_count)
        engine.ask(since_ns, now_ns(), taken.append)  # while the answer is on its way
        await until(lambda: len(taken) == 201)
        engine.ask(since_ns, now_ns(), taken.append)  # and right after it

    assert len(taken) == 202
    assert (len(peer.exchanges), engine.asked_count, engine.missed_count) == (1, 1, 0)


async def test_it_is_asked_once_a_second_at_most_and_not_twice_at_a_time(monkeypatch):
    monkeypatch.setattr(watch, "EVERY_NS", 100_000_000)
    taken, began_ns = [], now_ns()
    async with upstream(wait(0.02), *answering()) as peer, watching(peer.url) as engine:
        for number in range(1, 4):
            since_ns = now_ns()  # a silence that has just begun: no earlier answer is one of it
            engine.ask(since_ns, since_ns, taken.append)
            await until(lambda wanted=number: len(taken) == wanted)

    assert len(peer.exchanges) == 3
    assert now_ns() - began_ns >= 2 * 100_000_000


async def test_who_falls_silent_while_it_is_asked_gets_the_next_answer(monkeypatch):
    monkeypatch.setattr(watch, "EVERY_NS", 1_000_000)
    first, second = [], []
    async with upstream(wait(0.05), *answering()) as peer, watching(peer.url) as engine:
        since_ns = now_ns()
        engine.ask(since_ns, since_ns, first.append)
        await until(lambda: peer.exchanges)
        later_ns = now_ns()
        engine.ask(later_ns, later_ns, second.append)
        await until(lambda: second)

    assert first[0].snapshot.asked_ns < later_ns < second[0].snapshot.asked_ns


async def test_while_exchanges_run_it_is_asked_now_and_then_so_that_there_is_something_to_compare_with():
    clock = FakeClock(monotonic_ns=S)
    taken = []
    async with upstream(*answering()) as peer, watching(peer.url, clock=clock) as engine:
        engine.tick(clock.monotonic_ns())
        await until(lambda: engine.asked_count == 1)
        await until(lambda: peer.exchanges and not engine._wanted.is_set())
        clock.advance(BASELINE_NS - 1)
        engine.tick(clock.monotonic_ns())
        assert not engine._wanted.is_set()
        clock.advance(1)
        engine.tick(clock.monotonic_ns())
        await until(lambda: engine.asked_count == 2)
        since_ns = clock.monotonic_ns()
        clock.advance(2 * S)
        engine.ask(since_ns, clock.monotonic_ns(), taken.append)
        await until(lambda: taken)

    evidence = engine.evidence(taken[0], since_ns=since_ns, anchor_ns=since_ns)
    assert (evidence.silent_since_ns, evidence.during.asked_ns, evidence.earlier.asked_ns) == (0, 2 * S, 0)


async def test_one_who_cannot_take_the_answer_keeps_nobody_else_from_it():
    taken = []
    async with upstream(*answering()) as peer, watching(peer.url) as engine:
        engine.ask(0, now_ns(), lambda _seen: 1 // 0)
        engine.ask(0, now_ns(), taken.append)
        await until(lambda: taken)

    assert (len(taken), engine.missed_count) == (1, 1)


FAR = b"#" + b"x" * 65_000 + b"\n"
BAD = {
    "an answer that never begins": ("no_answer", [hang()]),
    "an answer that never ends": ("no_answer", [head(200, TEXT), chunk(METRICS), hang()]),
    "no metrics": ("status", [head(404), last_chunk()]),
    "another place": ("status", [head(307, None, "Location: http://127.0.0.1:1/x"), last_chunk()]),
    "more than is read": ("too_large", [head(200, TEXT), flood(b"fe01\r\n" + b"x" * 0xFE01 + b"\r\n")]),
    "an unknown server": ("unknown", answering(b"llamacpp:requests_processing 1\n")),
    "nothing": ("unknown", [head(200, TEXT), last_chunk()]),
    "a page": ("unknown", answering(b"<html>")),
    "a cut": ("failed", [head(200, TEXT), chunk(METRICS), cut()]),
    "a reset": ("failed", [head(200, TEXT), chunk(METRICS), reset()]),
    "no HTTP": ("failed", [send(b"SSH-2.0-x\r\n\r\n"), cut()]),
    "a head without end": ("failed", [send(b"HTTP/1.1 200 OK\r\n"), flood(b"X: " + b"y" * 4_000 + b"\r\n")]),
}


@pytest.mark.parametrize("name", BAD)
async def test_every_bad_answer_is_counted_by_its_reason_told_once_and_costs_only_the_numbers(
    name, monkeypatch, caplog
):
    monkeypatch.setattr(watch, "TIMEOUT_S", 0.2)
    monkeypatch.setattr(watch, "EVERY_NS", 1_000_000)
    reason, steps = BAD[name]
    caplog.set_level(logging.INFO)
    async with upstream(*steps) as peer, watching(peer.url) as engine:
        for number in (1, 2):
            since_ns = now_ns()
            engine.ask(since_ns, since_ns, lambda seen: pytest.fail(f"took {seen}"))
            await until(lambda wanted=number: engine.missed_count == wanted)

    assert engine.lost_counts == dict.fromkeys(LOST, 0) | {reason: 2}
    (line,) = [record for record in caplog.records if record.name == watch.__name__]
    assert (line.levelname, line.getMessage(), line.reason) == ("WARNING", "the engine does not tell", reason)


async def test_an_engine_that_is_not_there_is_counted_and_may_come_later(monkeypatch, caplog):
    monkeypatch.setattr(watch, "EVERY_NS", 1_000_000)
    caplog.set_level(logging.INFO)
    async with upstream(*answering()) as peer:
        gone = peer.url
    async with watching(gone) as engine:
        engine.tick(0)
        await until(lambda: engine.lost_counts["failed"] == 1)
        async with upstream(*answering()) as peer:
            engine._url = peer.url
            taken = []
            engine.ask(0, now_ns(), taken.append)
            await until(lambda: taken)

    assert [record.getMessage() for record in caplog.records if record.name == watch.__name__] == [
        "the engine does not tell",
        "the engine tells",
    ]


async def test_metrics_of_the_greatest_size_that_is_read():
    text = METRICS + FAR * ((LIMIT_BYTES - len(METRICS)) // len(FAR))
    taken = []
    async with upstream(*answering(text)) as peer, watching(peer.url) as engine:
        engine.ask(0, now_ns(), taken.append)
        await until(lambda: taken)

    assert taken[0].snapshot.running_count == 9
