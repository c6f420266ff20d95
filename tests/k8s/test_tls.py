"""The webhook's certificate: taken, renewed and shared, and what is to be trusted is told before."""

from __future__ import annotations

import asyncio
import ssl
from base64 import b64decode, b64encode

import pytest

from k8s.certificates import made
from k8s.tally import Tally
from k8s.tls import CHECK_S, RENEW_S, Files, Keeper, Own
from tests.support.api_server import CONFIGURATION
from tests.support.certificates import make_pair
from tests.support.clock import FakeClock

SECRET = "/api/v1/namespaces/gapline/secrets/gapline-injector-tls"
DAY_NS = 86_400_000_000_000


def own(api, clock):
    return Own(
        api,
        namespace="gapline",
        service="gapline-injector",
        secret="gapline-injector-tls",
        webhook="gapline-injector",
        clock=clock,
    )


def trusted(server):
    return {each["clientConfig"].get("caBundle") for each in server.objects[CONFIGURATION]["webhooks"]}


async def test_the_first_replica_makes_a_certificate_and_has_it_trusted(api, server):
    cert, key = await own(api, FakeClock()).pair()
    data = server.objects[SECRET]["data"]
    assert {b64decode(data["tls.crt"]), b64decode(data["tls.key"])} == {cert, key}
    assert trusted(server) == {data["ca.crt"]}


async def test_the_second_one_takes_it(api, server):
    first = await own(api, FakeClock()).pair()
    assert await own(api, FakeClock()).pair() == first
    assert [method for method, _ in server.asked].count("PATCH") == 1


async def test_two_that_start_at_once_agree(api, server):
    keepers = [Keeper(own(api, FakeClock()), tally=Tally()) for _ in range(2)]
    pauses = await asyncio.gather(*(keeper.look() for keeper in keepers))
    assert sorted(pauses) in ([0.1, RENEW_S], [RENEW_S, RENEW_S])
    assert [await keeper.look() for keeper in keepers] == [RENEW_S, RENEW_S]
    assert {keeper._tally.failures["certificate"] for keeper in keepers} == {0}
    assert trusted(server) == {server.objects[SECRET]["data"]["ca.crt"]}


async def test_who_empties_the_configuration_finds_it_filled_again(api, server):
    source = own(api, FakeClock())
    await source.pair()
    wanted = trusted(server)
    for webhook in server.objects[CONFIGURATION]["webhooks"]:
        webhook["clientConfig"]["caBundle"] = ""
    await source.pair()
    assert trusted(server) == wanted


async def test_a_due_certificate_is_renewed_in_the_secret(api, server):
    clock = FakeClock()
    source = own(api, clock)
    first, _ = await source.pair()
    clock.advance(61 * DAY_NS)
    second, _ = await source.pair()
    assert second != first
    assert b64decode(server.objects[SECRET]["data"]["tls.crt"]) == second


async def test_a_secret_that_holds_something_else_is_filled_and_keeps_its_type(api, server):
    server.put(SECRET, {"metadata": {"name": "gapline-injector-tls"}, "type": "Opaque", "data": {"tls.crt": "?"}})
    cert, _ = await own(api, FakeClock()).pair()
    assert server.objects[SECRET]["type"] == "Opaque"
    assert b64decode(server.objects[SECRET]["data"]["tls.crt"]) == cert


async def test_a_certificate_is_not_shown_before_it_is_trusted(api, server):
    server.failing = {"mutatingwebhookconfigurations"}
    keeper = Keeper(own(api, FakeClock()), tally=Tally())
    assert await keeper.look() == CHECK_S
    assert not keeper.is_loaded
    server.failing = set()
    assert await keeper.look() == RENEW_S
    assert keeper.is_loaded


async def test_files_are_read_anew_and_a_bad_pair_changes_nothing(tmp_path):
    first, second = make_pair(tmp_path, "a"), make_pair(tmp_path, "b")
    cert, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    cert.write_bytes(first.cert.read_bytes())
    key.write_bytes(first.key.read_bytes())
    tally = Tally()
    keeper = Keeper(Files(cert, key), tally=tally)
    assert await keeper.look() == CHECK_S
    assert (tally.certificate_loads, await shown(keeper.context)) == (1, first.cert.read_text())
    assert await keeper.look() == CHECK_S
    assert tally.certificate_loads == 1
    cert.write_bytes(second.cert.read_bytes())  # the key of the first
    await keeper.look()
    assert (tally.failures["certificate"], await shown(keeper.context)) == (1, first.cert.read_text())
    key.write_bytes(second.key.read_bytes())
    await keeper.look()
    assert (tally.certificate_loads, await shown(keeper.context)) == (2, second.cert.read_text())


@pytest.mark.parametrize("text", [b"", b"nothing", None])
async def test_no_certificate_is_told_and_tried_again(tmp_path, text):
    cert, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    if text is not None:
        cert.write_bytes(text)
        key.write_bytes(text)
    tally = Tally()
    keeper = Keeper(Files(cert, key), tally=tally)
    assert await keeper.look() == CHECK_S
    assert (keeper.is_loaded, tally.failures["certificate"]) == (False, 1)


async def shown(context):
    """The certificate that a server with this context shows to whoever connects now."""
    server = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]
    try:
        return await asyncio.to_thread(ssl.get_server_certificate, ("127.0.0.1", port), timeout=5)
    finally:
        server.close()


def test_material_survives_the_secret():
    from datetime import UTC, datetime

    from k8s.tls import _FIELDS, _material

    material = made(["a.b.svc"], datetime(2026, 11, 30, tzinfo=UTC))
    data = {field: b64encode(getattr(material, name)).decode() for name, field in _FIELDS.items()}
    assert _material({"data": data}) == material
    assert _material({"data": {**data, "tls.key": "%"}}) is None
    assert _material({}) is None
