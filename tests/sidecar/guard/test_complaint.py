"""A complaint says which limit of which hop passed, in numbers, and has the status of a gateway."""

import pytest

from sidecar.guard.complaint import TOKENS, Complaint, complaint_for


@pytest.mark.parametrize(
    ("token", "status", "message"),
    [
        ("first_event_timeout", 504, "gw: the upstream sent no first event for 301.0 s (limit 300 s)"),
        ("next_event_timeout", 504, "gw: the upstream fell silent between two events for 301.0 s (limit 300 s)"),
        ("content_timeout", 504, "gw: the upstream sent signs of life only, and no event for 301.0 s (limit 300 s)"),
    ],
)
def test_a_limit_that_passed_is_told_with_both_numbers(token, status, message):
    assert complaint_for(token, hop="gw", waited_s=301.04, limit_s=300.0) == Complaint(token, message, status)


@pytest.mark.parametrize("token", ["upstream_cut", "missing_terminal"])
def test_what_has_no_limit_is_told_without(token):
    assert complaint_for(token, hop="gw").status == 502
    assert complaint_for(token, hop="gw").message.startswith("gw: the ")
    assert complaint_for(token, hop="gw", waited_s=0.25).message.endswith(", 0.2 s after its last byte")


def test_every_token_has_a_complaint_and_nothing_else_has():
    assert [complaint_for(token, hop="h").type for token in TOKENS] == list(TOKENS)
    with pytest.raises(ValueError, match="'slow_reader' is none of first_event_timeout, "):
        complaint_for("slow_reader", hop="h")
