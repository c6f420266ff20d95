"""What is guarded, what a limit that passes comes to, and how often that was. Times are arguments."""

import logging
import re
from collections import Counter

import pytest

from otel.hop import Anchor, Ending, Place, TapRole
from sidecar.guard.limits import GuardLimits, Rules, rule
from sidecar.guard.policy import Mode, Policy
from sidecar.guarding import Guard
from sidecar.identity import Identity
from sidecar.recording.asked import Asked
from sidecar.recording.recorder import Recorder

SECOND, TICK = 1_000_000_000, 100_000_000
CHAT = "/v1/chat/completions"
HELLO = b'data: {"id":"chatcmpl-1","model":"m","choices":[{"index":0,"delta":{"content":"hello"}}]}\n\n'
LIMITS = GuardLimits.of_seconds(first_event=300, next_event=90, content=0)


class Bench:
    """One exchange under guard, looked at ten times a second; time passes when it is told to."""

    def __init__(self, *, body=b'{"model":"m","stream":true}', path=CHAT, mode=Mode.ENFORCE, limits=LIMITS, rules=()):
        self.at_ns = self.late_ns = 0
        self.counts = Counter()
        identity = Identity(request_id="r", request_id_source="header", trace_id="1" * 32, span_id="2" * 16)
        asked = Asked(identity, method="POST", path=path, content_type="application/json")
        asked.passed(body)
        self.recorder = Recorder(asked, place=Place("hop", TapRole.INGRESS), anchor=Anchor(0, 0, "d"))
        self.guard = Guard(Policy(rules=Rules(limits, rules), mode=mode), hop="hop", counts=self.counts)
        self.guarded = self.guard.begin(self.recorder, 0, late_ns=0)
        self.recorder.request_forwarded(0)

    def answered(self, content_type="text/event-stream"):
        self.recorder.answered(self.at_ns, status=200, content_type=content_type)

    def arrived(self, data):
        self.recorder.arrived(data, self.at_ns)

    def pass_s(self, seconds, *, is_late=False):
        """Time passes; the first stop that it brings, and after how many seconds."""
        until_ns = self.at_ns + round(seconds * SECOND)
        if is_late:
            self.at_ns, self.late_ns = until_ns - TICK, self.late_ns + until_ns - self.at_ns - TICK
        while self.at_ns < until_ns:
            self.at_ns += TICK
            stop = self.guarded.look(0, self.at_ns, late_ns=self.late_ns)
            if stop is not None:
                return stop.error_type, self.at_ns // SECOND
        return None


@pytest.mark.parametrize("mode", [Mode.OBSERVE, Mode.ENFORCE])
@pytest.mark.parametrize("has_head", [True, False])
def test_a_first_event_may_take_93_s_and_299_s(mode, has_head):
    bench = Bench(mode=mode)
    if has_head:
        bench.answered()

    assert bench.pass_s(93) is None
    assert bench.pass_s(206) is None
    assert not bench.counts


@pytest.mark.parametrize("has_head", [True, False])
def test_at_301_s_its_limit_has_passed(has_head):
    bench = Bench()
    if has_head:
        bench.answered()

    assert bench.pass_s(301) == ("first_event_timeout", 300)
    assert bench.counts == {("first_event_timeout", "enforced"): 1}


def test_a_line_in_the_log_says_of_what_it_was(caplog):
    caplog.set_level(logging.INFO)
    bench = Bench(mode=Mode.OBSERVE, path=f"{CHAT}?key=secret")
    bench.pass_s(301)

    (line,) = caplog.records
    assert line.message == "guard would have ended the stream"
    assert (line.cause, line.hop, line.request_id, line.trace_id) == ("first_event_timeout", "hop", "r", "1" * 32)
    assert (line.model, line.path, line.probe) == ("m", CHAT, False)


def test_observed_it_is_counted_once_and_nothing_ends():
    bench = Bench(mode=Mode.OBSERVE)
    bench.answered()

    assert bench.pass_s(1_000) is None
    assert bench.counts == {("first_event_timeout", "would_have"): 1}
    assert bench.recorder.ours.fired == ("first_event_timeout",)


@pytest.mark.parametrize(
    ("mode", "message"), [(Mode.OBSERVE, "guard would have ended the stream"), (Mode.ENFORCE, "guard ends the stream")]
)
def test_the_log_says_where_it_was_and_by_how_much(caplog, mode, message):
    caplog.set_level(logging.INFO)
    bench = Bench(mode=mode)
    bench.answered()
    bench.arrived(HELLO)
    bench.pass_s(95)

    (line,) = caplog.records
    assert line.getMessage() == message
    assert (line.hop, line.request_id, line.path, line.model) == ("hop", "r", CHAT, "m")
    assert (line.cause, line.limit_s) == ("next_event_timeout", 90.0)
    assert 90.0 <= line.silent_s < 91.0


def test_between_two_events_there_may_be_89_s_and_not_91():
    bench = Bench()
    bench.answered()
    for _ in range(3):
        bench.arrived(HELLO)
        assert bench.pass_s(89) is None
    bench.arrived(HELLO)

    assert bench.pass_s(91) == ("next_event_timeout", 3 * 89 + 90)


def test_pings_are_life_and_no_progress():
    limits = GuardLimits.of_seconds(first_event=300, next_event=90, content=600)
    bench = Bench(limits=limits)
    bench.answered()
    bench.arrived(HELLO)
    stops = []
    for _ in range(100):
        bench.arrived(b": ping\n\n")
        if (stop := bench.pass_s(10)) is not None:
            stops.append(stop)

    assert stops == [("content_timeout", 600)]
    assert bench.counts == {("content_timeout", "enforced"): 1}


def test_steady_events_are_never_too_long():
    bench = Bench()
    bench.answered()
    for _ in range(1_800):  # an hour
        bench.arrived(HELLO)
        assert bench.pass_s(2) is None


def test_time_in_which_we_were_late_is_not_the_upstreams():
    bench = Bench()
    bench.answered()
    bench.arrived(HELLO)

    assert bench.pass_s(80) is None
    assert bench.pass_s(60, is_late=True) is None
    assert bench.pass_s(12) == ("next_event_timeout", 150)


def test_behind_the_end_mark_nothing_is_due():
    bench = Bench()
    bench.answered()
    bench.arrived(HELLO + b"data: [DONE]\n\n")

    assert bench.pass_s(1_000) is None


@pytest.mark.parametrize(
    ("asked", "content_type"),
    [
        ({"body": b'{"model":"m"}'}, None),
        ({"body": b'{"model":"m"}'}, "application/json"),
        ({"path": "/events", "body": b"{}"}, "text/event-stream"),
        ({"path": "/mcp", "body": b'{"jsonrpc":"2.0"}'}, "text/event-stream"),
    ],
    ids=["no stream asked for", "no stream answered", "nobody's events", "MCP"],
)
def test_what_is_no_streamed_answer_of_a_model_may_take_its_time(asked, content_type):
    bench = Bench(**asked)
    if content_type is not None:
        bench.answered(content_type)

    assert bench.pass_s(1_000) is None
    assert not bench.counts


def test_a_rule_that_names_a_path_guards_it_whatever_it_is():
    bench = Bench(path="/events", body=b"{}", rules=[rule("path=/events;first=5s")])
    bench.answered()

    assert bench.pass_s(6) == ("first_event_timeout", 5)


def test_a_rule_for_a_model_holds_once_the_answer_names_it():
    bench = Bench(body=b'{"stream":true}', rules=[rule("model=m;next=5s")])
    bench.answered()
    bench.arrived(HELLO)

    assert bench.pass_s(6) == ("next_event_timeout", 5)


def test_off_and_muted_nobody_looks():
    for bench in (Bench(mode=Mode.OFF), muted := Bench()):
        if bench is muted:
            bench.recorder.mute()
        bench.answered()
        assert bench.pass_s(1_000) is None
        assert not bench.counts


def test_the_record_says_which_limit_ended_it():
    bench = Bench()
    bench.answered()
    bench.arrived(HELLO)
    bench.pass_s(91)
    complaint = bench.guarded.complaint()

    assert (complaint.type, complaint.status) == ("next_event_timeout", 504)
    assert re.search(r"9[01]\.\d s \(limit 90 s\)", complaint.message)
    bench.recorder.stopped(Ending.TIMED_OUT_NEXT_EVENT, bench.at_ns, error_type=complaint.type)
    assert bench.recorder.close(bench.at_ns).exchange.guard_fired == ("next_event_timeout",)


def test_without_a_limit_that_passed_there_is_nothing_to_say():
    assert Bench().guarded.complaint() is None
