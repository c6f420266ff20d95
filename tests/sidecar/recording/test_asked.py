"""What is known of a request: ids, its head, and what its body told."""

import pytest

from sidecar.identity import Identity
from sidecar.recording.asked import PATH_CHARS, Asked, Caller

IDENTITY = Identity(request_id="r", request_id_source="header", trace_id="1" * 32, span_id="2" * 16, aliases=("a",))
JSON = "application/json"


def asked(**head) -> Asked:
    return Asked(IDENTITY, **({"method": "POST", "path": "/v1/chat/completions"} | head))


def facts(found):
    return found.exchange(status=200, error_type=None)


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("/a?secret=1", "/a"),
        ("/a#secret", "/a"),
        ("/ä\udcff?x", "/??"),
        ("/" + "a" * 999, ("/" + "a" * 999)[:PATH_CHARS]),
    ],
)
def test_a_path_is_kept_short_plain_and_without_its_query(path, shown):
    assert asked(path=path).path == shown


def test_each_other_id_is_an_alias_once():
    found = asked()
    for request_id in ("b", "r", "a", "b", "c d"):
        found.alias_seen(request_id)

    assert found.aliases[:2] == ("a", "b")
    assert len(found.aliases) == 3


def test_its_body_tells_the_model_and_its_size_counts():
    found = asked(content_type=JSON)
    body = b'{"model":"m","stream":true,"messages":["hello"]}'
    found.passed(body[:20])
    found.passed(body[20:])

    assert (found.model, found.is_stream, found.size_bytes) == ("m", True, len(body))
    assert facts(found).prompt_bucket == "<1K"


def test_of_what_may_not_be_looked_at_only_the_size_is_known():
    for head in ({}, {"content_type": JSON, "content_encoding": "gzip"}):
        found = asked(**head)
        found.passed(b'{"model":"m"}')
        assert (found.model, found.is_stream, found.size_bytes) == (None, None, 13)


def test_what_cannot_be_looked_at_is_counted_and_goes_on():
    found = asked(content_type=JSON)
    found.passed(b'{"model":"m"')
    found._scan._steps = None  # looking on is an error
    found.passed(b',"messages":[1]}')

    assert (found.failure_count, found.size_bytes, found.model) == (1, 28, None)


def test_muted_it_is_looked_at_no_more():
    found = asked(content_type=JSON)
    found.mute()
    found.passed(b'{"model":"m"}')

    assert (found.model, found.size_bytes) == (None, 13)


@pytest.mark.parametrize(
    ("caller", "prompt", "is_probe"),
    [
        (Caller(), "hi", False),
        (Caller(is_probe=True), "a longer one", True),
        (Caller(probe_bytes=16), "hi", True),
        (Caller(probe_bytes=16), "a prompt that somebody wants to have answered", False),
    ],
)
def test_a_probe_is_told_by_its_head_or_its_small_prompt(caller, prompt, is_probe):
    found = asked(content_type=JSON, caller=caller)
    found.passed(b'{"messages":"%b"}' % prompt.encode())

    assert facts(found).is_probe is found.is_probe is is_probe


def test_without_a_body_a_size_tells_nothing():
    assert not asked(caller=Caller(probe_bytes=16)).is_probe


def test_dimensions_are_those_of_the_caller():
    found = asked(caller=Caller(dimensions=(("region", "eu"),)))

    assert facts(found).dimensions == (("region", "eu"),)
    assert found.dimensions == {"region": "eu"}
