import itertools
from collections.abc import AsyncIterator
from dataclasses import replace
from urllib.parse import quote

import orjson
import pytest
from aiohttp.test_utils import TestClient, TestServer
from yarl import URL

from otel.config import is_loopback
from otel.findings import Policy
from otel.glance import Moment
from otel.hop import State
from otel.ids import recorded
from otel.judging import Clock, Judge, Rules
from otel.live import LiveStreams
from otel.settling import Settling
from otel.store.base import SECOND_NS, RetentionPolicy, StoreError
from otel.store.memory import MemoryStore
from otel.store.threads import AsyncStore
from otel.view.app import HEADERS, QueryApi
from otel.view.openapi import document
from tests.support.builders import a_hop
from tests.support.chain import PROXY, Chain, run
from tests.support.glances import a_glance
from tests.support.schema_check import violations

S = SECOND_NS
NOW_NS = 1_800_000_100 * S
DOCUMENT = document(version="test")
STALLED = run(Chain(stalls=((PROXY, 60, 3 * S),)))


class Collector:
    """The query API over a memory store, at an instant that stands still."""

    def __init__(self, memory: MemoryStore, **options) -> None:
        self.memory = memory
        self.store = AsyncStore(memory)
        clock = Clock(wall_ns=lambda: NOW_NS, monotonic_ns=lambda: NOW_NS)
        rules = Rules(policy=Policy(), stall_after_s=2.0)
        self.judge = Judge(self.store, rules=rules, settling=Settling(settle_ns=0, final_ns=S), clock=clock)
        self.live = LiveStreams()
        api = QueryApi(self.store, self.judge, self.live, clock=clock, metrics=self.metrics, version="test", **options)
        self.client = TestClient(TestServer(api.application()))

    async def metrics(self) -> str:
        return "up 1\n"

    async def receive(self, *hops) -> None:
        await self.store.write(hops, received_ns=NOW_NS)
        self.judge.arrived(hops)
        while await self.judge.judge_due():
            pass

    async def get(self, path: str, **headers: str) -> tuple[int, dict]:
        url = self.client.make_url("/").join(URL(path, encoded=True))
        async with self.client.session.get(url, headers=headers) as response:
            assert {name: response.headers[name] for name in HEADERS} == HEADERS
            return response.status, orjson.loads(await response.read())


async def collector_of(memory: MemoryStore | None = None, **options) -> AsyncIterator[Collector]:
    made = Collector(memory or MemoryStore(), **options)
    async with made.client:
        yield made
    await made.store.close()


@pytest.fixture
async def collector() -> AsyncIterator[Collector]:
    async for made in collector_of():
        yield made


@pytest.fixture
async def guarded() -> AsyncIterator[Collector]:
    async for made in collector_of(token="s3cret"):
        yield made


def breaches(answer: object, path: str, status: int = 200) -> list[str]:
    response = DOCUMENT["paths"][path]["get"]["responses"][str(status)]
    return list(violations(answer, response["content"]["application/json"]["schema"], DOCUMENT))


async def test_the_routes_are_the_described_ones(collector: Collector):
    routes = {
        route.resource.canonical.replace("{id:[^/]+}", "{id}") for route in collector.client.server.app.router.routes()
    }

    assert routes == set(DOCUMENT["paths"])
    assert await collector.get("/v1/openapi.json") == (200, DOCUMENT)


async def test_a_verdict_as_described(collector: Collector):
    await collector.receive(*STALLED)
    status, answer = await collector.get("/v1/requests/req-1/verdict")

    assert status == 200
    assert breaches(answer, "/v1/requests/{id}/verdict") == []
    assert (answer["cause"], answer["first_hop"], answer["as_of"]) == ("app_stall", PROXY, "2027-01-15T08:01:40.000Z")


async def test_a_timeline_as_described(collector: Collector):
    await collector.receive(*STALLED)
    status, answer = await collector.get("/v1/requests/req-1/timeline")

    assert status == 200
    assert breaches(answer, "/v1/requests/{id}/timeline") == []
    assert [tap["hop"] for tap in answer["taps"]] == [hop.place.hop for hop in STALLED]


async def test_stalls_as_described(collector: Collector):
    await collector.receive(*STALLED, *run(Chain(request_id="healthy")))
    status, answer = await collector.get("/v1/stalls?since=1h&min_gap=2.5&hop=inference-proxy&model=&limit=5")

    assert status == 200
    assert breaches(answer, "/v1/stalls") == []
    assert [stall["request_id"] for stall in answer["stalls"]] == ["req-1"]
    assert answer["has_more"] is False
    assert (await collector.get("/v1/stalls?since=1h&min_gap=9"))[1]["stalls"] == []


async def test_links_lead_through_all_pages(collector: Collector):
    for i in range(7):
        hops = run(Chain(stalls=((PROXY, 60, 3 * S),), request_id=f"r{i}"))
        await collector.receive(*hops)
    path, pages = "/v1/stalls?limit=3&hop=inference-proxy&model=tiny", []
    while path:
        async with collector.client.get(path) as response:
            answer = orjson.loads(await response.read())
            path = str(response.links["next"]["url"].relative()) if response.links else ""
        pages.append([stall["request_id"] for stall in answer["stalls"]])
        assert answer["has_more"] is bool(path)

    assert [len(page) for page in pages] == [3, 3, 1]
    assert set(itertools.chain(*pages)) == {f"r{i}" for i in range(7)}


async def test_an_unknown_request_is_not_found(collector: Collector):
    for question in ("verdict", "timeline"):
        status, answer = await collector.get(f"/v1/requests/req-1/{question}")

        assert (status, answer["error"]["type"]) == (404, "not_found")
        assert breaches(answer, f"/v1/requests/{{id}}/{question}", 404) == []


async def test_a_verdict_outlives_its_hops(collector: Collector):
    await collector.receive(*STALLED)
    _, before = await collector.get("/v1/requests/req-1/verdict")
    await collector.store.prune(NOW_NS + 40 * 86_400 * S, RetentionPolicy())
    status, answer = await collector.get("/v1/requests/req-1/verdict")

    assert status == 200
    assert answer == {**before, "verdict_final": True}
    assert (await collector.get("/v1/requests/req-1/timeline"))[0] == 404


HOSTILE = [
    "a/b",
    "..",
    "%",
    "a b",
    "'; DROP TABLE hops; --",
    "{id}",
    "naïve",
    "\0",
    "\n",
    "<script>",
    "x" * 300,
    "?",
    "#",
]


@pytest.mark.parametrize("hostile", HOSTILE, ids=range(len(HOSTILE)))
async def test_any_id_that_a_hop_can_see_can_be_asked_for(collector: Collector, hostile: str):
    await collector.receive(*(replace(hop, request_id=recorded(hostile)) for hop in STALLED))
    encoded = quote(hostile, safe="").replace(".", "%2E")
    status, answer = await collector.get(f"/v1/requests/{encoded}/verdict")

    assert (status, answer.get("request_id")) == (200, recorded(hostile))


async def test_parameters_that_are_wrong_are_all_named(collector: Collector):
    status, answer = await collector.get("/v1/stalls?since=soon&limit=0&%ff=1")

    assert status == 400
    assert breaches(answer, "/v1/stalls", 400) == []
    assert answer["error"]["type"] == "bad_request"
    assert [part.split(":")[0] for part in answer["error"]["message"].split("; ")] == ["since", "limit", "'\ufffd'"]
    assert (await collector.get("/v1/requests/req-1/verdict?pretty"))[0] == 400
    assert (await collector.get(f"/v1/requests/{'x' * 5_000}/timeline"))[0] == 400


async def test_what_there_is_not_is_an_error_of_the_same_form(collector: Collector):
    assert await collector.get("/v2/stalls") == (404, {"error": {"type": "not_found", "message": "404: Not Found"}})
    async with collector.client.post("/v1/stalls") as response:
        assert (response.status, response.headers["Allow"]) == (405, "GET,HEAD")
        assert orjson.loads(await response.read())["error"]["type"] == "method_not_allowed"


# ----------------------------------------------------------------------------------------- access

EVERYTHING = [
    "/v1/requests/a/verdict",
    "/v1/requests/a/timeline",
    "/v1/stalls",
    "/v1/openapi.json",
    "/metrics",
    "/nothing",
]


@pytest.mark.parametrize("path", EVERYTHING)
@pytest.mark.parametrize(
    "shown", [None, "", "s3cret", "Bearer ", "Bearer s3cre", "Bearer s3cret2", "Basic s3cret", "Bearer \udcff"]
)
async def test_without_the_token_there_is_no_answer(guarded: Collector, path: str, shown: str | None):
    headers = {} if shown is None else {"Authorization": shown}
    status, answer = await guarded.get(path, **headers)

    assert (status, answer["error"]["type"]) == (401, "unauthorized")


@pytest.mark.parametrize("path", ["/v1/stalls", "/v1/openapi.json"])
async def test_with_the_token_there_is(guarded: Collector, path: str):
    assert (await guarded.get(path, Authorization="Bearer s3cret"))[0] == 200


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
async def test_health_wants_no_token(guarded: Collector, path: str):
    assert await guarded.get(path) == (200, {"status": "ok"})


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:24070", 200),
        ("localhost", 200),
        ("[::1]:80", 200),
        ("evil.example", 403),
        ("127.0.0.1.evil.example", 403),
        ("[", 403),
    ],
)
async def test_without_a_token_no_foreign_name_may_lead_here(host: str, status: int):
    async for collector in collector_of(is_host_allowed=is_loopback):
        assert (await collector.get("/v1/stalls", Host=host))[0] == status
        assert (await collector.get("/healthz", Host=host))[0] == 200


async def test_metrics_are_text(collector: Collector):
    async with collector.client.get("/metrics") as response:
        assert response.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        assert await response.text() == "up 1\n"


# --------------------------------------------------------------------------------------- failures


class FailingStore(MemoryStore):
    error: Exception = StoreError("disk on fire at /secret/place")

    def hops_of(self, key):
        raise self.error

    def stats(self):
        raise self.error


@pytest.mark.parametrize("path", ["/v1/requests/a/verdict", "/readyz"])
async def test_a_store_that_fails_is_unavailable(path: str):
    async for collector in collector_of(FailingStore()):
        status, answer = await collector.get(path)

        assert (status, answer["error"]["type"]) == (503, "unavailable")
        assert "secret" not in answer["error"]["message"]
        assert (await collector.get("/healthz"))[0] == 200


async def test_a_mistake_of_ours_is_an_error_that_tells_nothing(caplog: pytest.LogCaptureFixture):
    store = FailingStore()
    store.error = ZeroDivisionError("secret")
    async for collector in collector_of(store):
        status, answer = await collector.get("/v1/requests/a/verdict")

        assert (status, answer["error"]["type"]) == (500, "internal")
        assert "secret" not in answer["error"]["message"]
    assert [record.message for record in caplog.records] == ["question failed"]


async def test_nothing_of_an_open_request_is_called_final(collector: Collector):
    await collector.receive(*(a_hop(hop.place.hop, state=State.OPEN) for hop in STALLED))
    status, answer = await collector.get("/v1/requests/req-1/verdict")

    assert (status, answer["open"], answer["verdict_final"]) == (200, True, False)


async def test_live_as_described(collector: Collector):
    collector.live.seen(a_glance(Moment.STALLED, is_stalled=True, silent_s=2.0), at_ns=NOW_NS - 5 * S)
    collector.live.seen(a_glance(number=2, model=None, status=None, listener=None), at_ns=NOW_NS - S)

    status, answer = await collector.get("/api/live")
    assert (status, breaches(answer, "/api/live")) == (200, [])
    assert [(each["request_id"], each["silent_s"], each["told_s"]) for each in answer["streams"]] == [
        ("req-1", 7.0, 5.0),
        ("req-2", 0.1, 1.0),
    ]
    assert (answer["open"], answer["has_more"]) == (2, False)

    for asked, found in {
        "stalled=true": ["req-1"],
        "min_silence=7": ["req-1"],
        "min_silence=7.1s": [],
        "stalled=false": ["req-1", "req-2"],
        "limit=1": ["req-1"],
    }.items():
        _, answer = await collector.get(f"/api/live?{asked}")
        assert [each["request_id"] for each in answer["streams"]] == found
        assert (answer["open"], answer["has_more"]) == (2, asked == "limit=1")


async def test_a_question_for_live_streams_that_is_none_says_what_is_wrong(collector: Collector):
    status, answer = await collector.get("/api/live?stalled=maybe&limit=0&hop=x")
    assert (status, breaches(answer, "/api/live", 400)) == (400, [])
    for name in ("stalled", "limit", "'hop': no such parameter"):
        assert name in answer["error"]["message"]


async def test_live_wants_the_token_too(guarded: Collector):
    assert (await guarded.get("/api/live"))[0] == 401
    assert (await guarded.get("/api/live", Authorization="Bearer s3cret"))[0] == 200
