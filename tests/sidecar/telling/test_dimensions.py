"""Dimensions are short tokens of what the operator allowed; nothing else of a head is ever told."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.telling import dimensions as module
from sidecar.telling.dimensions import VALUES, Dimension, Dimensions, client_key, dimension

KEY = "sixteen characters at least"
REGION = dimension("region=X-Region")


def test_by_itself_only_the_product_of_the_client_is_told():
    fields = [("User-Agent", "OpenAI/Python 1.52.0"), ("X-Region", "eu"), ("Authorization", "Bearer secret")]
    assert Dimensions().of(fields, "10.0.0.1") == (("client", "OpenAI/Python/1.52.0"),)


def test_what_a_request_does_not_have_is_left_out():
    assert Dimensions([REGION]).of([("Host", "x")], None) == ()


def test_they_come_in_order_of_name():
    found = Dimensions([dimension("zone=x-zone"), REGION], KEY).of(
        [("X-Zone", "b"), ("x-region", " eu-central-1 "), ("User-Agent", "curl/8.5.0")], "10.0.0.1"
    )
    assert [name for name, _ in found] == ["client", "client_id", "region", "zone"]
    assert dict(found)["region"] == "eu-central-1"


@pytest.mark.parametrize(
    "value", ["", "two words", "jane.doe@example.com", "a,b", "\x1b[2J", "é", "x" * 65, "-x", '{"a":1}', "a\nb"]
)
def test_a_value_that_is_no_token_is_other_and_counted(value: str):
    told = Dimensions([REGION])
    assert told.of([("X-Region", value)], None) == (("region", "other"),)
    assert told.unfit_counts == {"region": 1}


def test_a_field_that_comes_twice_is_no_token():
    assert Dimensions([REGION]).of([("X-Region", "eu"), ("X-Region", "us")], None) == (("region", "other"),)


def test_an_unknown_product_is_other_unless_the_operator_asks_for_whatever_there_is():
    fields = [("User-Agent", "checkout-service/2.3 (jane)")]
    assert Dimensions().of(fields, None) == (("client", "other"),)
    assert Dimensions([dimension("client=User-Agent")]).of(fields, None) == (("client", "checkout-service/2.3"),)


def test_after_so_many_values_further_ones_are_other_and_the_first_stay():
    told = Dimensions([REGION, dimension("zone=x-zone")])
    for number in range(VALUES + 7):
        told.of([("X-Region", f"r{number}"), ("X-Zone", "one")], None)

    assert told.of([("X-Region", "r0")], None) == (("region", "r0"),)
    assert told.of([("X-Region", "new"), ("X-Zone", "one")], None) == (("region", "other"), ("zone", "one"))
    assert told.overflow_counts == {"region": 8}


class TestTheClientsHash:
    def test_is_there_only_with_a_key(self):
        fields = [("Authorization", "Bearer secret")]
        assert Dimensions().of(fields, "10.0.0.1") == ()
        ((name, value),) = Dimensions((), KEY).of(fields, "10.0.0.1")
        assert name == "client_id"
        assert re.fullmatch(r"[0-9a-f]{16}", value)

    def test_is_of_the_credential_else_of_the_first_address_else_of_the_peer(self):
        told = Dimensions((), KEY)

        def of(*fields, peer=None):
            return dict(told.of(fields, peer)).get("client_id")

        one, other = ("Authorization", "Bearer one"), ("x-api-key", "other")
        behind = ("X-Forwarded-For", "192.0.2.7, 10.0.0.1")
        assert of(one, behind, peer="10.0.0.1") == of(one) != of(other)
        assert of(behind, peer="10.0.0.1") == of(("x-forwarded-for", "192.0.2.7")) == of(peer="192.0.2.7")
        assert of(peer="192.0.2.7") not in {None, of(peer="192.0.2.8"), of(("Authorization", "192.0.2.7"))}
        assert of() is None

    def test_is_another_with_another_key_and_the_same_in_each_process(self):
        first, again, other = (Dimensions((), key).of([], "10.0.0.1") for key in (KEY, KEY, KEY + "!"))
        assert first == again != other

    def test_there_may_be_more_of_them_yet_not_endlessly(self, monkeypatch):
        monkeypatch.setattr(module, "CLIENT_IDS", VALUES + 10)
        told = Dimensions((), KEY)
        values = {dict(told.of([], f"peer-{number}"))["client_id"] for number in range(VALUES + 20)}
        assert (len(values), told.overflow_counts) == (VALUES + 11, {"client_id": 10})


@pytest.mark.parametrize("value", ["region=X-Region", "tenant_id=x-tenant-id", "client=User-Agent", "pool=Host"])
def test_a_rule_reads_as_it_is_shown(value: str):
    rule = dimension(value)
    assert dimension(str(rule)) == rule == Dimension(value.partition("=")[0], value.partition("=")[2].lower())


@pytest.mark.parametrize(
    "value", ["", "region", "region=", "=x", "Region=x", "9a=x", "a b=x", "a=x y", "a" * 33 + "=x"]
)
def test_what_is_no_rule_is_refused(value: str):
    with pytest.raises(ValueError, match="must be NAME=HEADER"):
        dimension(value)


@pytest.mark.parametrize(
    "header",
    [
        "authorization", "Proxy-Authorization", "cookie", "Set-Cookie", "x-api-key", "api-key", "X-Goog-Api-Key",
        "x-amz-security-token", "X-Auth-Request-Email", "x-csrf-token", "x_secret", "cf-access-jwt-assertion",
        "x-forwarded-client-cert", "X-Session-Id", "x-forwarded-for", "Forwarded", "x-real-ip", "from", "referer",
        "x-original-url", "connection", "te", "x-hub-signature-256",
    ],
)  # fmt: skip
def test_fields_that_let_somebody_in_or_tell_who_it_is_are_refused(header: str):
    with pytest.raises(ValueError, match="may hold a credential, an address"):
        dimension(f"a={header}")


@pytest.mark.parametrize("value", ["client_id=x-client", "client=x-client"])
def test_names_with_a_meaning_are_refused(value: str):
    with pytest.raises(ValueError, match="a meaning of its own"):
        dimension(value)


def test_a_key_that_could_be_guessed_is_refused():
    assert client_key(KEY) == KEY
    for bad in ("", "short", "x" * 1_001):
        with pytest.raises(ValueError, match="16 to 1000 characters"):
            client_key(bad)


@given(
    st.lists(st.tuples(st.sampled_from(["User-Agent", "X-Region", "Authorization", "Host"]), st.text(max_size=80))),
    st.none() | st.text(max_size=40),
)
def test_whatever_comes_only_tokens_are_told(fields, peer: str | None):
    found = Dimensions([REGION, dimension("host=Host")], KEY).of(fields, peer)
    assert [name for name, _ in found] == sorted({name for name, _ in found})
    assert all(re.fullmatch(r"[0-9A-Za-z][0-9A-Za-z._:/+-]{0,63}", value) for _, value in found)
