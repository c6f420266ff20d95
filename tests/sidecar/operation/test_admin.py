import asyncio
import json

import pytest
from aiohttp import ClientSession
from aiohttp.test_utils import TestClient, TestServer
from hypothesis import given
from hypothesis import strategies as st

from otel.exposition import Distribution, Exemplar, classic, openmetrics, series
from otel.settings import Address
from sidecar.operation.admin import CONNECTIONS, Admin, AdminSite, is_from_here

WAITS = openmetrics(
    [series("wait_seconds", "histogram", "h", [({}, Distribution((1.0,), (1, 0), 0.5, (Exemplar("a", 0.5, 0), None)))])]
)


class FakeAccount:
    def __init__(self):
        self.ready = True
        self.is_on = False

    async def is_ready(self):
        return self.ready

    async def metrics(self):
        return WAITS

    async def streams(self):
        return [{"request_id": "r-1"}]

    async def is_passthrough(self):
        return self.is_on

    async def switch_passthrough(self, *, is_on):
        self.is_on = is_on

    async def reload(self):
        raise NotImplementedError


@pytest.fixture
def account():
    return FakeAccount()


@pytest.fixture
async def client(account):
    async with TestClient(TestServer(Admin(account).app())) as found:
        yield found


@pytest.mark.parametrize("accept", [None, "*/*", "text/plain;version=0.0.4"])
async def test_metrics_are_an_exposition(client, accept):
    async with client.get("/metrics", headers={} if accept is None else {"Accept": accept}) as response:
        assert await response.text() == classic(WAITS)
        assert response.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        assert response.headers["Vary"] == "Accept"


async def test_who_reads_openmetrics_gets_the_exemplars_too(client):
    headers = [("Accept", "text/plain;q=0.2"), ("Accept", "application/openmetrics-text;version=1.0.0;q=0.5")]
    async with client.get("/metrics", headers=headers) as response:
        assert await response.text() == WAITS
        assert response.headers["Content-Type"] == "application/openmetrics-text; version=1.0.0; charset=utf-8"


async def test_what_is_not_ready_is_alive(client, account):
    async with client.get("/healthz") as health, client.get("/readyz") as ready:
        assert (health.status, ready.status) == (200, 200)
    account.ready = False
    async with client.get("/healthz") as health, client.get("/readyz") as ready:
        assert (health.status, ready.status) == (200, 503)


async def test_streams_are_listed(client):
    async with client.get("/streams") as response:
        assert await response.json() == {"streams": [{"request_id": "r-1"}]}


@pytest.mark.parametrize("on", ["true", "false", "on", "0"])
async def test_the_kill_switch_is_shown_and_turned(client, account, on):
    wanted = on in {"true", "on"}
    account.is_on = not wanted
    async with client.get("/passthrough") as response:
        assert await response.json() == {"passthrough": not wanted}
    async with client.post(f"/passthrough?on={on}") as response:
        assert (response.status, await response.json()) == (200, {"passthrough": wanted})
    assert account.is_on is wanted


@pytest.mark.parametrize("query", ["", "?on=", "?on=maybe", "?off=true"])
async def test_a_kill_switch_that_is_told_nothing_stays(client, account, query):
    account.is_on = True
    async with client.post(f"/passthrough{query}") as response:
        assert response.status == 400
    assert account.is_on is True


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "rebound.example:24090"},  # a page whose name was made to point at this machine
        {"Origin": "http://evil.example"},  # a page that posts to this machine
        {"Origin": "null"},
        {"Host": "10.0.0.7:24090"},
    ],
)
@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/streams"), ("GET", "/passthrough"), ("POST", "/passthrough?on=true")]
)
async def test_a_page_sees_and_changes_nothing(client, account, method, path, headers):
    async with client.request(method, path, headers=headers) as response:
        assert response.status == 403
        assert "r-1" not in await response.text()
    assert account.is_on is False


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics"])
async def test_the_rest_is_for_everybody(client, path):
    async with client.get(path, headers={"Host": "10.0.0.7:24090", "Origin": "http://evil.example"}) as response:
        assert response.status == 200


LOOPBACK = "127.0.0.1"


@pytest.mark.parametrize(
    ("ends", "host", "is_here"),
    [
        ((LOOPBACK, LOOPBACK), "127.0.0.1:24090", True),
        ((LOOPBACK, LOOPBACK), "127.0.0.1", True),
        ((LOOPBACK, LOOPBACK), "localhost:24090", True),
        ((LOOPBACK, LOOPBACK), "LocalHost", True),
        (("::1", "::1"), "[::1]:24090", True),
        (("::ffff:127.0.0.1", "::ffff:127.0.0.1"), "127.0.0.1:24090", True),
        (("127.0.0.6", "10.1.2.3"), "127.0.0.1:24090", False),  # a mesh proxy that hands on what came from outside
        (("10.1.2.9", "10.1.2.3"), "127.0.0.1:24090", False),
        (("::ffff:10.1.2.9", "::1"), "[::1]:24090", False),
        (("", ""), "localhost", False),
        ((LOOPBACK, LOOPBACK), "localhost.example", False),
        ((LOOPBACK, LOOPBACK), "127.0.0.1.example:24090", False),
        ((LOOPBACK, LOOPBACK), "[::1", True),
        ((LOOPBACK, LOOPBACK), "", False),
    ],
)
def test_who_is_on_this_machine(ends, host, is_here):
    assert is_from_here(list(ends), hosts=[host], is_from_page=False) is is_here


def test_one_host_field_says_where_a_call_goes():
    assert not is_from_here([LOOPBACK] * 2, hosts=[], is_from_page=False)
    assert not is_from_here([LOOPBACK] * 2, hosts=["localhost", "localhost"], is_from_page=False)


@given(st.lists(st.ip_addresses().map(str) | st.text(), min_size=2, max_size=2), st.text(), st.booleans())
def test_any_call_is_judged(ends, host, is_from_page):
    assert is_from_here(ends, hosts=[host], is_from_page=is_from_page) in {True, False}
    assert not is_from_here(ends, hosts=[host], is_from_page=True)


async def test_an_answer_ends_with_a_line(client):
    async with client.get("/streams") as response:
        text = await response.text()
    assert text.endswith("}\n")
    assert json.loads(text)


async def until(condition):
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0.005)


async def test_a_crowd_that_says_nothing_keeps_no_probe_out(account):
    site = AdminSite(account)
    assert site.port == 0
    await site.start(Address("127.0.0.1", 0))
    crowd = [await asyncio.open_connection("127.0.0.1", site.port) for _ in range(3 * CONNECTIONS)]
    async with ClientSession() as session, session.get(f"http://127.0.0.1:{site.port}/healthz") as response:
        assert await response.text() == "ok\n"
    await until(lambda: sum(reader.at_eof() for reader, _ in crowd) >= 2 * CONNECTIONS)
    assert len(site._runner.server.connections) <= CONNECTIONS
    for _, writer in crowd:
        writer.close()
    await site.close()


async def test_the_oldest_goes_first(account):
    site = AdminSite(account)
    await site.start(Address("127.0.0.1", 0))
    crowd = []
    for _ in range(CONNECTIONS + 1):
        crowd.append(await asyncio.open_connection("127.0.0.1", site.port))
        await asyncio.sleep(0.001)
    await until(crowd[0][0].at_eof)
    assert not any(reader.at_eof() for reader, _ in crowd[1:])
    for _, writer in crowd:
        writer.close()
    await site.close()
