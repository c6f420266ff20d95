from itertools import product

import pytest

from otel.hop import Ending, Side
from sidecar.recording.endings import ENDINGS, Facts, ending_of


@pytest.mark.parametrize(
    ("facts", "ending", "side"),
    [
        (Facts(is_upstream_clean=True), Ending.COMPLETE, Side.UPSTREAM),
        (Facts(is_upstream_clean=True, has_error_event=True), Ending.ERROR_EVENT, Side.UPSTREAM),
        (Facts(is_upstream_clean=True, needs_terminal=True), Ending.MISSING_TERMINAL, Side.UPSTREAM),
        (Facts(is_upstream_clean=True, needs_terminal=True, is_terminal_passed=True), Ending.COMPLETE, Side.UPSTREAM),
        (Facts(is_upstream_broken=True, is_terminal_passed=True), Ending.COMPLETE, Side.UPSTREAM),
        (Facts(is_upstream_broken=True, has_client_left=True), Ending.UPSTREAM_CUT, Side.UPSTREAM),
        (Facts(has_client_left=True), Ending.CLIENT_DISCONNECT, Side.DOWNSTREAM),
        (Facts(stopped=Ending.CLIENT_DISCONNECT), Ending.CLIENT_DISCONNECT, Side.SIDECAR),
        (
            Facts(stopped=Ending.CLIENT_DISCONNECT, has_client_left=True),
            Ending.CLIENT_DISCONNECT,
            Side.DOWNSTREAM,
        ),
        (Facts(has_reader_closed=True, has_client_left=True), Ending.COMPLETE, Side.DOWNSTREAM),
        (Facts(has_reader_closed=True, is_upstream_broken=True), Ending.COMPLETE, Side.DOWNSTREAM),
        (Facts(has_reader_closed=True, is_terminal_passed=True), Ending.COMPLETE, Side.DOWNSTREAM),
        (Facts(has_client_left=True, needs_terminal=True), Ending.CLIENT_DISCONNECT, Side.DOWNSTREAM),
        (Facts(is_upstream_clean=True, has_client_left=True), Ending.CLIENT_DISCONNECT, Side.DOWNSTREAM),
        (Facts(is_upstream_clean=True, has_unmarked_end=True), Ending.UNKNOWN_END, Side.UPSTREAM),
        (Facts(stopped=Ending.REFUSED), Ending.REFUSED, Side.UPSTREAM),
        (Facts(stopped=Ending.REJECTED), Ending.REJECTED, Side.SIDECAR),
        (Facts(stopped=Ending.DRAINED), Ending.DRAINED, Side.SIDECAR),
        (Facts(stopped=Ending.TIMED_OUT_NEXT_EVENT), Ending.TIMED_OUT_NEXT_EVENT, Side.SIDECAR),
        (Facts(), Ending.LOST, Side.SIDECAR),
    ],
)
def test_the_ending_that_the_facts_tell(facts, ending, side):
    assert ending_of(facts) == (ending, side)


def test_every_ending_can_be_reached_and_every_set_of_facts_has_one():
    names = [name for name in Facts.__dataclass_fields__ if name != "stopped"]
    stops = [None, *(ending for ending in Ending)]
    found = {
        ending_of(Facts(**dict(zip(names, flags, strict=True)), stopped=stop))[0]
        for flags in product((False, True), repeat=len(names))
        for stop in stops
    }

    assert found == set(Ending) == {ending for ending, _, _ in ENDINGS}
