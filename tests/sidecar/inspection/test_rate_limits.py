"""Rate limits in a head are taken over as numbers, whoever sends them; nothing else is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel.hop import RateLimits
from sidecar.inspection.rate_limits import LIMIT_S, limits_of

SECOND_NS = 1_000_000_000


def test_those_of_openai():
    fields = [
        ("X-RateLimit-Limit-Requests", "500"),
        ("x-ratelimit-remaining-requests", "499"),
        ("x-ratelimit-reset-requests", "120ms"),
        ("x-ratelimit-limit-tokens", "30000"),
        ("x-ratelimit-remaining-tokens", "0"),
        ("x-ratelimit-reset-tokens", "6m0.5s"),
    ]

    assert limits_of(fields) == RateLimits(
        request_limit=500,
        request_remaining=499,
        request_reset_ns=120_000_000,
        token_limit=30_000,
        token_remaining=0,
        token_reset_ns=360_500_000_000,
    )


def test_those_of_anthropic_whose_resets_are_dates():
    fields = [
        ("anthropic-ratelimit-requests-limit", "50"),
        ("anthropic-ratelimit-requests-remaining", "49"),
        ("anthropic-ratelimit-requests-reset", "2026-01-01T00:00:00Z"),
        ("anthropic-ratelimit-tokens-limit", "40000"),
        ("anthropic-ratelimit-tokens-remaining", "39000"),
        ("retry-after", "20"),
    ]

    assert limits_of(fields) == RateLimits(
        request_limit=50,
        request_remaining=49,
        token_limit=40_000,
        token_remaining=39_000,
        retry_after_ns=20 * SECOND_NS,
    )


@pytest.mark.parametrize(
    ("name", "value", "limits"),
    [
        ("ratelimit-limit", "100", RateLimits(request_limit=100)),
        ("ratelimit-reset", " 30 ", RateLimits(request_reset_ns=30 * SECOND_NS)),
        ("x-ratelimit-reset", "1764500000", None),
        ("retry-after-ms", "1500", RateLimits(retry_after_ns=1_500_000_000)),
        ("retry-after", "0.5", RateLimits(retry_after_ns=500_000_000)),
        ("retry-after", "0", RateLimits(retry_after_ns=0)),
        ("retry-after", "Wed, 21 Oct 2026 07:28:00 GMT", None),
        ("retry-after", "-1", None),
        ("retry-after", str(LIMIT_S + 1), None),
        ("x-ratelimit-reset-tokens", "1h2m3s4ms", RateLimits(token_reset_ns=3_723_004_000_000)),
        ("x-ratelimit-limit-tokens", "10, 10;w=60", None),
        ("x-ratelimit-limit-tokens", "١٢", None),
        ("x-ratelimit-limit-tokens", "9" * 40, None),
        ("x-ratelimit-limit-tokens", "", None),
        ("x-ratelimit-something-new", "7", None),
        ("content-length", "7", None),
    ],
)
def test_a_field_is_a_number_or_nothing(name, value, limits):
    assert limits_of([(name, value)]) == limits


def test_the_first_that_says_something_counts():
    assert limits_of([("retry-after", "soon"), ("Retry-After", "2"), ("retry-after", "9")]) == RateLimits(
        retry_after_ns=2 * SECOND_NS
    )


_NAMES = st.sampled_from(["retry-after", "Retry-After-Ms", "x-ratelimit-reset-tokens", "ratelimit-limit", "x"])


@given(st.lists(st.tuples(_NAMES, st.text(max_size=8) | st.from_regex(r"[0-9.]{1,12}(s|ms|h)?", fullmatch=True))))
def test_no_field_raises_and_every_wait_fits_a_span(fields):
    limits = limits_of(fields)

    if limits is not None:
        waits = (limits.request_reset_ns, limits.token_reset_ns, limits.retry_after_ns)
        assert all(0 <= wait <= LIMIT_S * SECOND_NS for wait in waits if wait is not None)
