"""Edited text: event k stays event k, or is looked for where edits may have moved it, and nobody is blamed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel.align import CONTENT, Lane, Window, lane_of, window_of
from otel.edits import are_same_events, edited_from, edits_between, shift_of, silence_beside
from otel.findings import Cause, Policy, Status
from otel.hop import EventClass
from otel.join import join
from otel.verdict import judge
from tests.support.chain import GATEWAY, MS, PROXY, WORKER, Chain, S, run

PLACES = {"source": WORKER, PROXY: PROXY, GATEWAY: GATEWAY}


def lanes(chain: Chain):
    return [lane_of(hop, CONTENT) for hop in run(chain)]


def verdict_on(chain: Chain):
    return judge(join(run(chain)), Policy(first_event_ns=S))


def test_the_same_events_at_every_hop_are_lined_up_by_number():
    assert are_same_events(lanes(Chain()))


def test_equal_counts_at_different_positions_are_not_the_same_events():
    """A hop that merges and one that splits can meet by accident."""
    first, second, _ = lanes(Chain(events=40, merge={PROXY: 2}))
    short = lane_of(run(Chain(events=20))[0], CONTENT)
    assert short.event_count == second.event_count
    assert not are_same_events([short, second])
    assert not are_same_events([first, second])


def test_nor_are_those_that_drift_apart_and_meet_again():
    slow, fast, _ = (
        lanes(Chain(events=80, chars=(2,) * 40 + (6,) * 40))[:1]
        + lanes(Chain(events=80, chars=(6,) * 40 + (2,) * 40))[:2]
    )
    assert slow.total == fast.total
    assert not are_same_events([slow, fast])


@pytest.mark.parametrize("is_exact", [True, False])
def test_a_masked_name_leaves_the_events_what_they_are(is_exact):
    taps = lanes(Chain(is_exact=is_exact, rewrites={PROXY: [(40, 45)]}))
    assert are_same_events(taps)
    assert edits_between(taps[1], taps[2]) == []
    assert edited_from(taps[1], taps[2]) is None
    found = edited_from(taps[0], taps[1])
    assert found is not None
    assert found in (range(40, 41) if is_exact else range(40, 50))


def test_the_shift_of_an_edited_text_lies_between_its_ends():
    longer, shorter, last = lanes(Chain(is_exact=True, rewrites={PROXY: [(40, -9)], GATEWAY: [(70, 20)]}))
    assert (shift_of(longer, last), shift_of(shorter, last)) == ((-11, 0), (-20, 0))
    assert shift_of(last, longer) == (0, 11)
    assert shift_of(last, last) == (0, 0)


def test_a_text_whose_end_was_not_seen_has_no_known_shift():
    first, _, last = lanes(Chain(cut=(PROXY, 30)))
    assert last.is_pending
    assert first.total != last.total
    assert shift_of(first, last) == (0, 0)


@given(
    st.lists(st.integers(1, 9), min_size=30, max_size=120),
    st.lists(st.tuples(st.integers(0, 119), st.integers(64, 120)), min_size=1, max_size=3),
    st.booleans(),
)
def test_text_that_only_grows_is_found_within_the_shift(chars, added, is_exact):
    """Wherever the reader's text stood at another tap, the window that the shift widens has it.

    What is shorter than two quanta may go unseen.
    """
    chain = Chain(events=len(chars), chars=chars, is_exact=is_exact, rewrites={GATEWAY: added})
    source, last = lanes(chain)[0], lanes(chain)[-1]
    least, most = shift_of(source, last)
    for k in range(1, len(chars)):
        window = window_of(source, last.low[k - 1] + least, last.high[k] + most)
        assert window.first <= k - 1
        assert window.last >= k


def beside(lane: Lane, first: int, last: int, *, reader: Lane, waited: Window, wanted_ns: int) -> int | None:
    window = window_of(lane, lane.low[first], lane.high[last])
    return silence_beside(lane, window, reader=reader, waited=waited, wanted_ns=wanted_ns)


def test_a_silence_a_few_words_off_is_the_wait_where_it_is_as_long():
    lane = lanes(Chain(stalls=[("source", 60, 2 * S)]))[0]
    reader = lanes(Chain(stalls=[(GATEWAY, 64, 2 * S)]))[-1]
    seen = {"reader": reader, "waited": Window(63, 64)}
    assert beside(lane, 62, 66, **seen, wanted_ns=2 * S) == 60
    assert beside(lane, 62, 66, **seen, wanted_ns=3 * S) is None
    assert beside(lane, 100, 110, **seen, wanted_ns=2 * S) is None
    assert beside(lane, 62, 66, **seen, wanted_ns=200 * MS) is None


def test_a_silence_that_the_reader_waited_for_at_its_own_place_is_no_other_wait():
    *_, reader = lanes(chain := Chain(stalls=[("source", 60, 2 * S), (GATEWAY, 64, 4 * S)], merge={GATEWAY: 2}))
    lane = lanes(chain)[0]
    assert beside(lane, 62, 66, reader=reader, waited=Window(31, 32), wanted_ns=2 * S) is None


def test_a_silence_that_goes_on_is_none_that_was_somewhere_else():
    lane = lanes(Chain(cut=(PROXY, 30)))[1]
    assert lane.is_pending
    late = replace(lane, taken=[*lane.taken[:-1], lane.taken[-2] + 2 * S])
    assert beside(late, 25, 28, reader=late, waited=Window(27, 28), wanted_ns=2 * S) is None


# ---------------------------------------------------------------------------------- what hops make of an answer's text

PIECES = st.lists(st.integers(5, 12), min_size=7, max_size=7)
"""Whatever is split, each piece has text."""
EDITS = st.lists(st.tuples(st.integers(0, 150), st.sampled_from([-12, -5, -3, 3, 6, 15, 40])), max_size=3)
SHAPES = st.fixed_dictionaries(
    {
        "chars": PIECES,
        "gap": st.sampled_from([5 * MS, 20 * MS, 40 * MS]),
        "jitter": st.sampled_from([0, 5 * MS]),
        "events": st.just(150),
        "is_exact": st.booleans(),
        "rewrites": st.fixed_dictionaries({}, optional={PROXY: EDITS, GATEWAY: EDITS}),
    },
    optional={
        "merge": st.dictionaries(st.sampled_from([PROXY, GATEWAY]), st.integers(2, 5), max_size=1),
        "split": st.dictionaries(st.sampled_from([PROXY, GATEWAY]), st.integers(2, 5), max_size=1),
        "phases": st.sampled_from([(), ((EventClass.REASONING, 30),), ((EventClass.TOOL, 30),)]),
        "strips": st.sampled_from([{}, {PROXY: EventClass.REASONING}, {GATEWAY: EventClass.TOOL}]),
    },
)


@given(SHAPES)
def test_nobody_is_accused_of_editing_merging_splitting_or_leaving_out(shape):
    verdict = verdict_on(Chain(**shape))
    assert verdict.status is not Status.NAMED or verdict.cause is Cause.HIDDEN_OUTPUT, verdict.findings


@given(SHAPES, st.sampled_from(["source", PROXY]), st.integers(70, 140), st.sampled_from([600 * MS, 3 * S]))
def test_a_stall_in_an_edited_answer_is_named_where_it_was_or_nowhere(shape, where, event, ns):
    verdict = verdict_on(Chain(**shape, stalls=[(where, event, ns)]))
    if verdict.status is Status.NAMED:
        assert verdict.findings[0].first_hop == PLACES[where]
    else:
        assert verdict.status is Status.INCONCLUSIVE, verdict


@pytest.mark.parametrize("where", ["source", PROXY, GATEWAY])
@pytest.mark.parametrize("edit", [-12, 40])
def test_what_is_said_of_edited_text_by_number(where, edit):
    chain = Chain(stalls=[(where, 60, 2 * S)], is_exact=True)
    before = verdict_on(replace(chain, rewrites={PROXY: [(90, edit)]}))
    behind = verdict_on(replace(chain, rewrites={PROXY: [(30, edit)]}))
    plain = verdict_on(chain)

    assert {each.findings[0].first_hop for each in (before, behind, plain)} == {PLACES[where]}
    assert before.by_ordinal
    assert before.findings[0].confidence == plain.findings[0].confidence
    assert behind.findings[0].confidence == pytest.approx(0.8 * plain.findings[0].confidence, abs=0.01)
    (note,) = behind.missing
    assert note.startswith(f"{PROXY} passed on other text than it got, from about character 1")


def test_what_is_said_of_edited_text_by_position():
    chain = Chain(stalls=[("source", 60, 2 * S)], rewrites={PROXY: [(30, 80)]}, merge={GATEWAY: 3})
    verdict = verdict_on(chain)
    plain = verdict_on(replace(chain, rewrites={}))

    assert verdict.findings[0].first_hop == WORKER
    assert verdict.findings[0].confidence == pytest.approx(0.5 * plain.findings[0].confidence, abs=0.01)
    assert verdict.missing == (f"{PROXY} passed on other text than it got: events match only roughly",)


# ------------------------------------------------------------------------------------------ what comes besides the text


def with_more(hop, *, every: int, event_class: EventClass):
    """The hop as if an event of that class had come with every so many-th of its own."""
    stamps = []
    for stamp in hop.timeline.stamps:
        stamps.append(replace(stamp, seq=len(stamps)))
        if stamp.seq % every == 0:
            stamps.append(replace(stamp, seq=len(stamps), event_class=event_class))
    return replace(
        hop,
        timeline=replace(hop.timeline, stamps=tuple(stamps)),
        traffic=replace(hop.traffic, event_count=len(stamps)),
    )


def told(finding):
    return finding.cause, finding.segment, finding.term_ns, finding.confidence


@pytest.mark.parametrize("event_class", [EventClass.USAGE, EventClass.KEEPALIVE, EventClass.CONTROL])
@pytest.mark.parametrize("where", ["source", PROXY, GATEWAY])
def test_what_a_hop_adds_beside_the_text_is_not_counted(where, event_class):
    worker, proxy, gateway = run(Chain(stalls=[(where, 60, 2 * S)]))
    added = judge(join([worker, proxy, with_more(gateway, every=3, event_class=event_class)]))
    plain = judge(join([worker, proxy, gateway]))

    assert [told(each) for each in added.findings] == [told(each) for each in plain.findings]
    assert added.findings[0].first_hop == PLACES[where]
