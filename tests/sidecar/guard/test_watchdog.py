"""When a silence is too long, in numbers: seconds of a clock that the test turns."""

from dataclasses import dataclass, field
from itertools import count

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sidecar.guard.limits import GuardLimits
from sidecar.guard.watchdog import Expired, Limit, Progress, Watch

MS = 1_000_000
S = 1_000 * MS
TICK = 100 * MS
LIMITS = GuardLimits(first_event_ns=300 * S, next_event_ns=90 * S)
CONTENT = GuardLimits(first_event_ns=300 * S, next_event_ns=90 * S, content_ns=100 * S)
BOUND = GuardLimits(first_event_ns=30 * S, next_event_ns=9 * S, content_ns=50 * S)


@dataclass
class Stream:
    """What an upstream sent so far, and who watches it. Comments renew one clock, events both."""

    limits: GuardLimits = LIMITS
    forwarded_ns: int | None = 0
    heard_ns: int = 0
    progress_ns: int = 0
    has_event: bool = False
    is_blocked: bool = False
    is_over: bool = False
    late_ns: int = 0
    told: list[Expired] = field(default_factory=list)

    def __post_init__(self):
        self.watch = Watch(0, late_ns=0)

    def comment(self, at_ns):
        self.heard_ns = at_ns

    def event(self, at_ns):
        self.heard_ns = self.progress_ns = at_ns
        self.has_event = True

    def look(self, at_ns):
        progress = Progress(
            forwarded_ns=self.forwarded_ns,
            heard_ns=self.heard_ns,
            has_event=self.has_event,
            progress_ns=self.progress_ns,
            is_blocked=self.is_blocked,
            is_over=self.is_over,
        )
        expired = self.watch.look(self.limits, progress, at_ns, late_ns=self.late_ns)
        if expired is not None:
            self.told.append(expired)
        return expired

    @property
    def tokens(self):
        return [expired.limit.token for expired in self.told]


def played(arrivals, until_ns, limits=LIMITS, looks=None):
    """The tokens of a stream: arrivals of (time, is_event), looked at ten times a second or at these times."""
    stream = Stream(limits)
    coming = sorted(arrivals)
    for at_ns in range(TICK, until_ns + 1, TICK) if looks is None else looks:
        while coming and coming[0][0] <= at_ns:
            arrived_ns, is_event = coming.pop(0)
            (stream.event if is_event else stream.comment)(arrived_ns)
        stream.look(at_ns)
    return stream.tokens


def events(*seconds):
    return [(round(each * S), True) for each in seconds]


def comments(*seconds):
    return [(round(each * S), False) for each in seconds]


# ------------------------------------------------------------------------------------------------------- the two limits


@pytest.mark.parametrize(
    ("first_s", "tokens"), [(93.04, []), (299, []), (301, ["first_event_timeout"]), (89, []), (0.01, [])]
)
def test_the_first_event_may_take_longer_than_the_next_one(first_s, tokens):
    assert played(events(first_s), round(min(first_s + 80, 380) * S)) == tokens


@pytest.mark.parametrize(("gap_s", "tokens"), [(89, []), (91, ["next_event_timeout"])])
def test_between_events_the_shorter_limit_holds(gap_s, tokens):
    assert played(events(50, 51, 51 + gap_s), round((52 + gap_s) * S)) == tokens


def test_a_limit_is_reached_at_its_last_nanosecond_and_not_before():
    stream = Stream()
    stream.event(1 * S)

    assert stream.look(91 * S - 1) is None
    assert stream.look(91 * S) == Expired(limit=Limit.NEXT_EVENT, waited_ns=90 * S, limit_ns=90 * S)


def test_an_event_that_came_in_time_to_be_seen_is_never_called_late():
    for late_ns in range(-5, 6):
        stream = Stream()
        stream.event(0)
        stream.look(90 * S - TICK)
        stream.event(90 * S + late_ns)
        assert stream.look(90 * S + 10) is None


def test_an_hour_of_steady_events_is_not_too_long():
    assert played(events(*range(1, 3_600, 10)), 3_600 * S, CONTENT) == []


@given(st.integers(0, 500), st.integers(0, 500))
def test_nothing_fires_after_the_end_was_marked_or_before_the_upstream_was_asked(gap_s, later_s):
    over, waiting = Stream(CONTENT), Stream(CONTENT, forwarded_ns=None)
    over.event(1 * S)
    over.is_over = True
    for stream in (over, waiting):
        for at_s in range(1, gap_s + later_s, 7):
            assert stream.look(at_s * S) is None


def test_the_clock_runs_from_when_the_upstream_was_asked():
    stream = Stream(CONTENT, forwarded_ns=None)
    stream.look(250 * S)
    stream.forwarded_ns = 250 * S
    stream.limits = LIMITS

    assert stream.look(549 * S) is None
    assert stream.look(551 * S).waited_ns == 301 * S


def test_what_has_no_limit_may_be_silent_for_ever():
    assert played([], 2_000 * S, GuardLimits()) == []
    stream = Stream()
    stream.limits = None
    assert stream.look(2_000 * S) is None


def test_limits_that_become_known_late_hold_for_the_silence_that_runs():
    stream = Stream()
    stream.limits = None
    stream.look(200 * S)
    stream.limits = LIMITS

    assert stream.look(299 * S) is None
    assert stream.look(300 * S).limit is Limit.FIRST_EVENT


# --------------------------------------------------------------------------------------------- liveness and content


def test_comments_for_ever_are_life_and_no_content():
    pings = comments(*range(10, 1_000, 10))

    assert played(pings, 1_000 * S, LIMITS) == []
    assert played(pings, 1_000 * S, CONTENT) == ["content_timeout"]
    assert played(events(5) + pings, 1_000 * S, LIMITS) == []
    assert played(events(5) + pings, 1_000 * S, CONTENT) == ["content_timeout"]


@given(st.lists(st.integers(1, 290), min_size=1, max_size=40), st.booleans())
def test_liveness_never_fires_on_a_stream_that_is_heard_of_in_time(gaps_s, has_event):
    at_s, arrivals = 0, []
    for gap_s in gaps_s:
        at_s += min(gap_s, 89) if has_event else gap_s
        arrivals.append((at_s * S, has_event and not arrivals))

    assert set(played(arrivals, at_s * S, CONTENT)) <= {"content_timeout"}


def test_a_comment_renews_the_first_limit_and_does_not_end_its_phase():
    assert played(comments(250), 540 * S) == []
    assert played(comments(250), 560 * S) == ["first_event_timeout"]


def test_a_long_pause_full_of_pings_before_the_next_event_passes():
    assert played(events(1) + comments(*range(10, 130, 10)) + events(131), 140 * S) == []


def test_of_two_limits_that_passed_between_two_looks_the_one_that_was_due_first_is_told_first():
    limits = GuardLimits(first_event_ns=20 * S, content_ns=10 * S)

    assert played([], 40 * S, limits, looks=[25 * S, 26 * S, 27 * S]) == ["content_timeout", "first_event_timeout"]
    assert played([], 40 * S, GuardLimits(first_event_ns=10 * S, content_ns=10 * S), looks=[25 * S]) == [
        "first_event_timeout"
    ]


def test_each_silence_is_told_once_for_each_limit():
    two_silences = events(1, 120)

    assert played(two_silences, 400 * S) == ["next_event_timeout"] * 2
    assert played(two_silences, 400 * S, CONTENT) == [
        "next_event_timeout",
        "content_timeout",
        "next_event_timeout",
        "content_timeout",
    ]


# ------------------------------------------------------------------------------------------------- what does not count


def test_time_in_which_our_reader_takes_nothing_does_not_count():
    stream = Stream(CONTENT)
    stream.event(1 * S)
    stream.look(50 * S)
    stream.is_blocked = True
    for at_s in range(51, 1_000):
        assert stream.look(at_s * S) is None
    stream.is_blocked = False
    assert stream.look(1_000 * S) is None

    assert stream.look(1_040 * S) is None
    assert stream.look(1_041 * S) == Expired(limit=Limit.NEXT_EVENT, waited_ns=90 * S, limit_ns=90 * S)


def test_time_in_which_our_own_loop_was_late_does_not_count():
    stream = Stream()
    stream.event(1 * S)
    stream.look(89 * S)
    stream.late_ns = 400 * S

    assert stream.look(489 * S) is None
    assert stream.look(490 * S) is None
    assert stream.look(491 * S) == Expired(limit=Limit.NEXT_EVENT, waited_ns=90 * S, limit_ns=90 * S)


def test_time_that_did_not_count_in_one_silence_makes_the_next_one_no_longer():
    stream = Stream()
    stream.event(1 * S)
    stream.is_blocked = True
    stream.look(500 * S)
    stream.is_blocked = False
    stream.look(500 * S + TICK)
    stream.event(501 * S)
    stream.look(501 * S)

    assert stream.look(590 * S) is None
    assert stream.look(591 * S) == Expired(limit=Limit.NEXT_EVENT, waited_ns=90 * S, limit_ns=90 * S)


def test_no_more_time_is_excused_than_went_by():
    stream = Stream()
    stream.event(0)
    stream.look(1 * S)
    stream.late_ns = 1_000 * S
    stream.look(2 * S)

    assert stream.look(90 * S) is None
    assert stream.look(91 * S).waited_ns == 90 * S


def test_a_loop_that_was_late_from_the_very_beginning_is_known_to_be():
    stream = Stream()
    stream.late_ns = 399 * S

    assert stream.look(400 * S) is None


def test_time_that_is_blocked_and_late_at_once_is_excused_once():
    stream = Stream()
    stream.event(0)
    stream.is_blocked = True
    stream.late_ns = 50 * S
    stream.look(50 * S)
    stream.is_blocked = False
    stream.look(50 * S)

    assert stream.look(139 * S) is None
    assert stream.look(140 * S).waited_ns == 90 * S


@given(st.lists(st.tuples(st.integers(-5, 300), st.booleans(), st.integers(-10, 500)), max_size=30))
def test_what_is_told_was_waited_for_and_no_longer_than_the_clock_went(steps):
    stream = Stream(BOUND)
    now_ns = began_ns = 0
    for step_s, is_blocked, late_s in steps:
        now_ns += step_s * S
        stream.is_blocked = is_blocked
        stream.late_ns += late_s * S
        expired = stream.look(now_ns)
        if expired is not None:
            assert expired.limit_ns <= expired.waited_ns <= now_ns - began_ns


@given(st.lists(st.tuples(st.integers(1, 60), st.sampled_from(["silent", "blocked", "late"])), min_size=1, max_size=12))
def test_only_the_time_that_the_upstream_let_pass_is_waited(stretches):
    stream = Stream(GuardLimits(first_event_ns=45 * S))
    now_ns = counted_ns = 0
    for stretch_s, what in stretches:
        stream.is_blocked = what == "blocked"
        if what == "blocked":
            stream.look(now_ns)
        for _ in range(stretch_s * 10):
            now_ns += TICK
            stream.late_ns += TICK if what == "late" else 0
            counted_ns += TICK if what == "silent" else 0
            stream.look(now_ns)
    blocked_count = sum(what == "blocked" for _, what in stretches)
    assume(not 0 <= counted_ns - 45 * S <= (blocked_count + 1) * TICK)  # ends of a stretch fall between two looks

    assert stream.tokens == (["first_event_timeout"] if counted_ns >= 45 * S else [])


# ---------------------------------------------------------------------------------------------------------- every look


@st.composite
def arrivals_and_looks(draw):
    """A stream whose gaps are not just about a limit, so that it does not hang on the look what is seen of it."""
    far = st.integers(0, 600).filter(lambda tenths: not any(0 <= tenths - limit <= 2 for limit in (90, 300)))
    arrivals, at_ns = [], 0
    for gap in draw(st.lists(far, max_size=12)):
        at_ns += gap * TICK
        arrivals.append((at_ns, draw(st.booleans())))
    until_ns = at_ns + draw(st.sampled_from([0, 5 * S, 20 * S, 100 * S]))
    looks, looked_ns = [], 0
    steps = draw(st.lists(st.integers(1, 100), min_size=1, max_size=20))
    for turn in count():
        looked_ns += steps[turn % len(steps)] * MS
        if looked_ns > until_ns:
            break
        looks.append(looked_ns)
    return arrivals, until_ns, [*looks, until_ns]


def silences(arrivals, until_ns):
    """How long each clock ran each time, with its limits."""
    heard_ns = progress_ns = 0
    for at_ns, is_event in [*arrivals, (until_ns, True)]:
        yield at_ns - heard_ns, (BOUND.first_event_ns, BOUND.next_event_ns)
        heard_ns = at_ns
        if is_event:
            yield at_ns - progress_ns, (BOUND.content_ns,)
            progress_ns = at_ns


@given(arrivals_and_looks())
def test_however_often_one_looks_the_same_is_told_first(given_stream):
    arrivals, until_ns, looks = given_stream
    lengths = list(silences(arrivals, until_ns))
    assume(not any(0 <= length_ns - limit_ns <= 2 * TICK for length_ns, limits in lengths for limit_ns in limits))

    assert played(arrivals, until_ns, BOUND, looks)[:1] == played(arrivals, until_ns, BOUND)[:1]


@given(arrivals_and_looks())
def test_liveness_tells_what_a_plain_reading_of_its_rules_tells(given_stream):
    arrivals, until_ns, looks = given_stream
    limits = GuardLimits(first_event_ns=30 * S, next_event_ns=9 * S)
    expected, heard_ns, has_event = [], 0, False
    for at_ns, is_event in [*sorted(arrivals), (until_ns, False)]:
        limit_ns = limits.next_event_ns if has_event else limits.first_event_ns
        if at_ns - heard_ns >= limit_ns:
            expected.append("next_event_timeout" if has_event else "first_event_timeout")
        heard_ns, has_event = at_ns, has_event or is_event

    assert played(arrivals, until_ns, limits, looks) == expected
