"""A worker whose engine hangs: what it says of itself on /metrics stands in the verdict, while it hangs and afterwards.

The engine is a server that shows metrics as vLLM does; sidecar, collector and command are real processes.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.support import bodies
from tests.support.processes import Fleet, gapline, until
from tests.support.wire import Asked, asking, get, worker

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(60)]

CHAT = "/v1/chat/completions"
SERIES = """\
# HELP vllm:{name} As the engine describes it.
# TYPE vllm:{name} {kind}
vllm:{name}{{engine="0",model_name="zq7canary/model"}} {value}
"""


class Engine:
    """Streams at its pace, and hangs once for want of cache until it is let go: it preempts, and more requests wait."""

    def __init__(self) -> None:
        self.is_hanging = False
        self.released = asyncio.Event()

    async def chat(self, asked: Asked) -> None:
        events = bodies.chat_events(40)
        await asked.head()
        for number, event in enumerate(events):
            if number == 20:
                self.is_hanging = True
                await self.released.wait()
            self.is_hanging = False
            await asyncio.sleep(0.02)
            await asked.chunk(event)
        await asked.end()

    async def metrics(self, asked: Asked) -> None:
        late = self.is_hanging
        await asked.head(content_type="text/plain; version=0.0.4; charset=utf-8")
        for name, kind, value in (
            ("num_requests_running", "gauge", 9.0 if late else 4.0),
            ("num_requests_waiting", "gauge", 3.0 if late else 0.0),
            ("kv_cache_usage_perc", "gauge", 0.97 if late else 0.51),
            ("num_preemptions_total", "counter", 14.0 if late else 12.0),
        ):
            await asked.chunk(SERIES.format(name=name, kind=kind, value=value).encode())
        await asked.end()


async def test_the_workers_stall_carries_the_engines_numbers(tmp_path: Path) -> None:
    engine = Engine()
    with Fleet(tmp_path) as fleet:
        async with worker({CHAT: engine.chat, "/metrics": engine.metrics}) as up:
            collector = fleet.collector()
            flags = ("--engine-metrics", f"{up.url}/metrics")
            beside = fleet.sidecar("model-worker", up.url, *flags, export=collector.otlp_url)
            gateway = fleet.sidecar("gateway", beside.url, export=collector.otlp_url)
            await fleet.ready()

            async def hanging() -> dict:
                """What there is to say of the engine while the answer hangs; nothing before it has been asked."""
                told = await gapline("why", "--collector", collector.query_url, "r", "--json")
                return told.json["evidence"].get("engine", {}) if told.code == 10 else {}

            async with asking(gateway.port, get(CHAT, "X-Request-Id: r")) as reader:
                early = await until(hanging, "the engine's numbers of an open stream", within_s=25)
                assert engine.is_hanging
                engine.released.set()
                await reader.rest()
            verdict = await collector.verdict("r", hops=2)
            shown = await gapline("why", "--collector", collector.query_url, "r")
            counted = await beside.metrics()

    assert (verdict["cause"], verdict["first_hop"]) == ("source_stall", "model-worker")
    facts = verdict["evidence"]["engine"]
    assert early == facts
    assert 1.9 <= facts.pop("asked_after_s") <= verdict["gap_s"]
    assert facts == {
        "server": "vllm",
        "running": 9,
        "waiting": 3,
        "kv_cache_share": 0.97,
        "preemptions_since_last_event": 2,
        "before_running": 4,
        "before_waiting": 0,
        "before_kv_cache_share": 0.51,
    }
    words = " ".join(shown.out.decode().split())
    assert "vLLM, 9 running, 3 waiting, KV cache 97%, 2 preemptions since the last event" in words
    assert counted["gapline_engine_missed_total"] == 0
    assert 2 <= counted["gapline_engine_asked_total"] <= 5
    assert "canary" not in words + str(verdict)
