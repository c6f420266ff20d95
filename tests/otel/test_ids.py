"""Ids: what is recorded is harmless, equal requests are equal, and every hop arrives at the same trace."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel.ids import (
    REQUEST_ID_CHARS,
    normalised,
    parse_traceparent,
    recorded,
    span_id_of,
    tells_answers_apart,
    trace_id_of,
)
from tests.support.builders import hex_ids

ANY_TEXT = st.text(st.characters(), max_size=300)
UUID = "3f2a9c10-7b1e-4c55-8d1f-0123456789ab"


class TestRecorded:
    @given(ANY_TEXT)
    def test_is_printable_ascii_of_at_most_200_characters(self, request_id):
        text = recorded(request_id)
        assert 1 <= len(text) <= REQUEST_ID_CHARS
        assert all(0x21 <= ord(char) <= 0x7E for char in text)

    @given(ANY_TEXT)
    def test_twice_is_once(self, request_id):
        assert recorded(recorded(request_id)) == recorded(request_id)

    @pytest.mark.parametrize("request_id", [UUID, "x", "chatcmpl-7", "~" * 200, "a/b?c=d"])
    def test_of_a_sane_id_is_the_id(self, request_id):
        assert recorded(request_id) == request_id

    @pytest.mark.parametrize("request_id", ["", "a b", "a\n", "\x1b[2J", "é", "x" * 201, "\udcff"])
    def test_of_a_hostile_id_is_a_digest_that_still_joins(self, request_id):
        assert recorded(request_id).startswith("sha256:")
        assert recorded(request_id) == recorded(request_id)
        assert recorded(request_id) != recorded(request_id + "x")


class TestNormalised:
    @pytest.mark.parametrize(
        "spelling",
        [
            UUID,
            UUID.upper(),
            f"chatcmpl-{UUID}",
            f"cmpl-{UUID}",
            f"resp_{UUID}",
            f"msg_{UUID}",
            f"req_{UUID}",
            f"req-{UUID}",
            f"CHATCMPL-{UUID.upper()}",
            UUID[:14] + "9" + UUID[15:],
            UUID[:14] + "a" + UUID[15:],
            "chatcmpl-" + UUID[:14] + "b" + UUID[15:],
        ],
    )
    def test_every_spelling_of_one_request_is_equal(self, spelling):
        assert normalised(spelling) == UUID

    @pytest.mark.parametrize(
        ("one", "other"),
        [(UUID, UUID[:-1] + "c"), ("abc", "abd"), (UUID[:15] + "d" + UUID[16:], UUID), ("chatcmpl-", "cmpl-")],
    )
    def test_different_requests_stay_different(self, one, other):
        assert normalised(one) != normalised(other)

    def test_a_prefix_alone_is_an_id(self):
        assert normalised("chatcmpl-") == "chatcmpl-"

    @given(st.uuids(version=4), st.sampled_from(["", "chatcmpl-", "req_"]), st.sampled_from("49ab"))
    def test_what_gateways_do_to_a_uuid_does_not_matter(self, uuid, prefix, nibble):
        text = str(uuid)
        assert normalised(prefix + text[:14] + nibble + text[15:]) == text


class TestMadeIds:
    @given(ANY_TEXT)
    def test_are_valid_and_the_same_at_every_hop(self, request_id):
        trace_id = trace_id_of(request_id)
        assert len(trace_id) == 32
        assert int(trace_id, 16) != 0
        assert trace_id == trace_id_of(normalised(request_id))

    def test_trace_ids_never_change(self):
        assert trace_id_of(UUID) == trace_id_of(f"chatcmpl-{UUID}") == "0a3aa4100e6b2d08dc382ebc2a1e0d5c"

    def test_span_ids_depend_on_every_part_and_on_where_it_ends(self):
        made = {
            span_id_of("t", "gateway", 1),
            span_id_of("t", "gateway", 2),
            span_id_of("t", "gatewa", "y1"),
            span_id_of("u", "gateway", 1),
            span_id_of("t", "gateway1"),
        }
        assert len(made) == 5
        assert {len(span_id) for span_id in made} == {16}


class TestTraceparent:
    @given(hex_ids(32), hex_ids(16), st.sampled_from(["00", "01", "ff"]))
    def test_of_version_0_is_read(self, trace_id, parent_id, flags):
        assert parse_traceparent(f"00-{trace_id}-{parent_id}-{flags}") == (trace_id, parent_id)

    def test_of_a_later_version_may_be_longer(self):
        assert parse_traceparent(f"01-{'a' * 32}-{'b' * 16}-01-more") == ("a" * 32, "b" * 16)

    @pytest.mark.parametrize(
        "value",
        [
            "",
            f"ff-{'a' * 32}-{'b' * 16}-01",
            f"00-{'a' * 32}-{'b' * 16}-01-more",
            f"00-{'0' * 32}-{'b' * 16}-01",
            f"00-{'a' * 32}-{'0' * 16}-01",
            f"00-{'A' * 32}-{'b' * 16}-01",
            f"00-{'a' * 31}-{'b' * 16}-01",
            f"00-{'a' * 32}-{'b' * 16}-01\n",
        ],
    )
    def test_that_is_invalid_is_none(self, value):
        assert parse_traceparent(value) is None

    @given(ANY_TEXT)
    def test_never_raises(self, value):
        assert parse_traceparent(value) is None


@pytest.mark.parametrize(
    "answer_id",
    [
        UUID,
        f"chatcmpl-{UUID}",
        "chatcmpl-CFxW7bqgLhRlJNrxPnzWyJ0p7Cvwi",
        "msg_01XFDUDYJgAACzvnptvVoYEL",
        "resp_67ccd2bed1ec8190b14f964abc0542670bb6a6b452d3795b",
        "cmpl-0f3ab1c29f5d4e7c8a",
    ],
)
def test_ids_of_answers_as_servers_make_them_tell_answers_apart(answer_id):
    assert tells_answers_apart(answer_id)


@pytest.mark.parametrize("answer_id", ["", "chatcmpl-", "chatcmpl-7", "chatcmpl-417", "cmpl-1764500000", "0" * 32])
def test_ids_that_count_or_say_nothing_do_not(answer_id):
    assert not tells_answers_apart(answer_id)
