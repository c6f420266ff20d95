"""The guard in one process: what it compares, what it complains about, and that it believes no proxy."""

from __future__ import annotations

import asyncio

import pytest

from tests.bench import inproc
from tests.bench.contenders import OURS, PLAIN
from tests.bench.inproc import DIRECT, MOST, Reader, Source, compared, cost_ns, plain, proxies, too_dear
from tests.bench.spreads import Spread


def test_what_costs_nothing_but_the_loop_is_taken_off() -> None:
    found = compared({DIRECT: [10.0, 20.0], PLAIN: [30.0, 40.0], OURS: [25.0, 40.0]})
    assert (found[OURS].least, found[OURS].most) == (0.75, 1.0)
    assert found[PLAIN] == Spread(1.0, 1.0, 1.0, 2)


def test_only_what_is_far_off_is_too_dear() -> None:
    near, far = (Spread(figure, 0.1, 9.0, 3) for figure in (MOST, MOST + 0.01))
    assert too_dear({OURS: near, "ours-pull": far}, has_compiled=True) == []
    assert too_dear({OURS: far}, has_compiled=False) == []
    complaint = f"ours costs {far.text()} times the plain proxy's, more than {MOST:g}"
    assert too_dear({OURS: far}, has_compiled=True) == [complaint]


@pytest.fixture
def sources() -> set[Source]:
    return set()


async def test_each_proxy_passes_a_few_rounds(sources: set[Source]) -> None:
    server = await asyncio.get_running_loop().create_server(lambda: Source(sources), "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        for proxy in proxies(f"http://127.0.0.1:{port}").values():
            async with proxy as proxy_port:
                assert await cost_ns(proxy_port, sources, rounds=3) > 0
        async with plain(f"http://127.0.0.1:{port}") as plain_port:
            assert plain_port != port
        assert not sources


async def test_a_proxy_that_changes_a_byte_is_no_proxy(sources: set[Source], monkeypatch: pytest.MonkeyPatch) -> None:
    got = Reader.data_received
    monkeypatch.setattr(Reader, "data_received", lambda self, data: got(self, data.replace(b"000007", b"000008")))
    server = await asyncio.get_running_loop().create_server(lambda: Source(sources), "127.0.0.1", 0)
    async with server:
        with pytest.raises(ValueError, match="not what its source said"):
            await cost_ns(server.sockets[0].getsockname()[1], sources, rounds=3)


async def test_a_proxy_that_keeps_an_event_fails_in_time(monkeypatch: pytest.MonkeyPatch, sources: set[Source]) -> None:
    monkeypatch.setattr(inproc, "WITHIN_S", 0.2)
    monkeypatch.setattr(Reader, "data_received", lambda self, data: None)
    server = await asyncio.get_running_loop().create_server(lambda: Source(sources), "127.0.0.1", 0)
    async with server:
        with pytest.raises(TimeoutError):
            await cost_ns(server.sockets[0].getsockname()[1], sources, rounds=3)
