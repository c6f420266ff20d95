"""The log of real processes: every line is an object, and each exchange has one at its start and one at its end."""

from __future__ import annotations

import asyncio
import json
import signal
from collections import Counter

import aiohttp
import pytest

from tests.support.processes import Fleet
from tests.support.script import chunk, head, last_chunk, upstream

pytestmark = pytest.mark.e2e

CHAT = "/v1/chat/completions"
ANSWER = (
    head(200, "text/event-stream"),
    chunk(b'data: {"choices":[{"index":0,"delta":{"content":"hello"}}]}\n\n'),
    chunk(b"data: [DONE]\n\n"),
    last_chunk(),
)
AGENTS = ("kube-probe/1.29", "OpenAI/Python 1.52.0", "checkout/2.0")
EACH = 7


async def test_both_lines_of_every_exchange_of_all_workers_can_be_joined(tmp_path):
    flags = ("--workers", "2", "--log-format", "json", "--log-start", "--dimensions", "zone=x-zone")
    async with upstream(*ANSWER) as up:
        with Fleet(tmp_path) as fleet:
            sidecar = fleet.sidecar("here", up.url, *flags)
            await sidecar.ready()
            async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as session:
                asked = [
                    _ask(session, f"{sidecar.url}{CHAT}", agent, f"r-{agent.partition('/')[0]}-{number}")
                    for agent in AGENTS
                    for number in range(EACH)
                ]
                await asyncio.gather(*asked)
            sidecar.signal(signal.SIGTERM)
            assert await sidecar.ended() == 0
            lines = [json.loads(line) for line in sidecar.said.splitlines()]

    assert all(list(line)[:3] == ["time", "level", "message"] for line in lines)
    started = {line["request_id"]: line for line in lines if line["message"] == "exchange started"}
    ended = {line["request_id"]: line for line in lines if line["message"] == "exchange ended"}
    assert started.keys() == ended.keys()
    assert len(ended) == len(AGENTS) * EACH == sum(line["message"] == "exchange ended" for line in lines)
    assert len({tuple(line) for line in ended.values()}) == len({tuple(line) for line in started.values()}) == 1
    for request_id, line in ended.items():
        same = {"trace_id", "hop", "method", "path", "probe", "dimensions", "listener", "upstream", "worker"}
        assert {key: line[key] for key in same} == {key: started[request_id][key] for key in same}
        assert (line["outcome"], line["cause"], line["events"], line["status"]) == ("complete", None, 2, 200)
    clients = Counter((line["dimensions"]["client"], line["probe"]) for line in ended.values())
    assert clients == {("kube-probe/1.29", True): EACH, ("OpenAI/Python/1.52.0", False): EACH, ("other", False): EACH}
    assert {line["dimensions"]["zone"] for line in ended.values()} == {"a"}


async def _ask(session: aiohttp.ClientSession, url: str, agent: str, request_id: str) -> None:
    fields = {"User-Agent": agent, "X-Request-Id": request_id, "X-Zone": "a"}
    async with session.post(url, json={"model": "tiny", "stream": True}, headers=fields) as response:
        assert (await response.read()).endswith(b"[DONE]\n\n")
