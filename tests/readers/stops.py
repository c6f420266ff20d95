"""Streams that stop without an end, and the typed error that every SDK must raise when the guard ends them."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, replace

from tests.readers.reading import Read
from tests.readers.scripts import APIS
from tests.readers.streams import After, Stream, plainly

LIMIT_S = "2"
"""Far more than a rest of the other streams, also when the machine is busy."""
ENFORCING = (
    *("--guard", "enforce", "--missing-terminal", "error"),
    *("--first-event-timeout", LIMIT_S, "--next-event-timeout", LIMIT_S),
)
HOLDING = (*ENFORCING, "--hold-head", LIMIT_S)
SPOKEN_BY = ("openai chat", "openai completions", "openai responses", "anthropic messages")
TOKENS = {
    After.NO_HEAD: "first_event_timeout",
    After.SILENCE: "next_event_timeout",
    After.CUT: "upstream_cut",
    After.END: "missing_terminal",
}
OWN_TOKEN = "rate_limited_upstream"
OWN_ERROR = json.dumps({"type": "error", "error": {"type": OWN_TOKEN, "code": 429, "message": "slow down"}})
RAISED = {
    # What each raises for an error in the stream, for a 504 before it, and for a 429.
    "openai-python": ("APIError", "InternalServerError", "RateLimitError"),
    "openai-node": ("APIError", "InternalServerError", "RateLimitError"),
    "anthropic": ("APIStatusError", "GatewayTimeoutError", "RateLimitError"),
}


@dataclass(frozen=True, slots=True)
class Stop:
    """One such stream, what its error is called, and how many events come before it."""

    stream: Stream
    token: str
    said_count: int

    def differences(self, reader: str, read: Read, *, is_early: bool) -> str:
        """What is wrong with what this SDK made of it; empty: nothing. is_early: behind a head of our own."""
        in_stream, at_timeout, at_error = RAISED[reader]
        before = {TOKENS[After.NO_HEAD]: at_timeout, OWN_TOKEN: at_error}
        wanted = in_stream if is_early else before.get(self.token, in_stream)
        if not read.error.startswith(wanted + " ") or self.token not in read.error:
            return f"raises {read.error or 'nothing'}, not {wanted} with {self.token}"
        return "" if len(read.events) >= self.said_count else f"{len(read.events)} of {self.said_count} events"


def stops(first_number: int) -> list[Stop]:
    """Every API, stopping in every way, and beginning with an error of its own."""
    rng = random.Random(first_number)
    found: list[Stop] = []
    for name in SPOKEN_BY:
        script = APIS[name](rng)
        ways = [
            (after, token, script.said[: -1 if after is not After.NO_HEAD else 0]) for after, token in TOKENS.items()
        ]
        for after, token, said in [*ways, (After.END, OWN_TOKEN, (("error", OWN_ERROR),))]:
            stream = plainly(first_number + len(found), f"{name}, {token}", script, said)
            count = 0 if token == OWN_TOKEN else len(said)
            found.append(Stop(replace(stream, after=after), token, count))
    return found
