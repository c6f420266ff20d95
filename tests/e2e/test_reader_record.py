"""A reader that sends its own record like any hop: a real collector joins it, and what no sidecar can see is named.

The reader stops in the middle while its kernel takes everything that comes: the sidecars see an answer that was
delivered on time.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from pathlib import Path

import aiohttp
import pytest

from otel.demo.answer import Answer
from otel.demo.reader import ask
from otel.hop import Hop
from otel.otlp import decode_response, encode_request
from otel.span import hop_to_span
from tests.lab.record import record
from tests.support import bodies
from tests.support.builders import a_hop
from tests.support.processes import Collector, Fleet, Sidecar, gapline
from tests.support.wire import Asked, worker

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(60), pytest.mark.asyncio]

CHAT = "/v1/chat/completions"
EVENTS, MIDDLE, PACE_S, STOPS_S = 40, 20, 0.01, 1.2
BUSY_S = 0.15
"""What a busy machine may add to a wait."""
NAMED = 10


async def answer(asked: Asked) -> None:
    await asked.head()
    for event in bodies.chat_events(EVENTS):
        await asyncio.sleep(PACE_S)
        await asked.chunk(event)
    await asked.end()


def read(port: int, request_id: str) -> Answer:
    """Read an answer, and nothing of it for a while when so many events have come."""

    def stop(events: int) -> None:
        if events == MIDDLE:
            time.sleep(STOPS_S)

    return ask("127.0.0.1", port, headers={"x-request-id": request_id}, body={"stream": True}, on_event=stop)


async def send(collector: Collector, hop: Hop) -> None:
    headers = {"Content-Type": "application/x-protobuf"}
    async with (
        aiohttp.ClientSession() as session,
        session.post(
            f"{collector.otlp_url}/v1/traces", data=encode_request([hop_to_span(hop)]), headers=headers
        ) as response,
    ):
        assert (response.status, decode_response(await response.read(), as_json=False)[0]) == (200, 0)


async def test_a_reader_that_stopped_unseen_names_itself(tmp_path: Path) -> None:
    request_id = str(uuid.uuid4())
    with Fleet(tmp_path) as fleet:
        async with worker({CHAT: answer}) as up:
            collector = fleet.collector()
            chain: list[Sidecar] = []
            for hop in ("model-worker", "gateway"):
                upstream = chain[-1].url if chain else up.url
                chain.append(fleet.sidecar(hop, upstream, export=collector.otlp_url))
            await fleet.ready()
            seen = await asyncio.to_thread(read, chain[-1].port, request_id)
            unseen = await collector.verdict(request_id, hops=2)
            assert (unseen["status"], unseen["observed_to"]) == ("healthy", "reader_kernel")

            await send(collector, record(seen, outermost=a_hop("gateway", request_id=request_id)))
            said = await collector.verdict(request_id, hops=3)
            assert (said["status"], said["cause"], said["first_hop"]) == ("named", "slow_reader", "client")
            assert said["observed_to"] == "consumed"
            assert [hop["role"] for hop in said["hops"]] == ["ingress", "ingress", "client"]
            assert said["gap_s"] == pytest.approx(seen.longest_gap_s, abs=0.002)
            assert sum(term["seconds"] for term in said["contributions"]) == pytest.approx(said["gap_s"], abs=1e-5)
            assert said["contributions"][-2]["seconds"] == pytest.approx(STOPS_S, abs=BUSY_S)

            why = await gapline("why", "--collector", collector.query_url, request_id)
            assert (why.code, b"did not take the answer" in why.out) == (NAMED, True), why.errors
            picture = await gapline("timeline", "--collector", collector.query_url, request_id, "--ascii")
            assert b"reader " in picture.out
            assert b"consumed" in picture.out
