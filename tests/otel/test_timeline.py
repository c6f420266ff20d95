"""The packed timeline: nothing is lost, nothing is guessed, and format 1 never changes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from otel.hop import EventClass, Stamp, Timeline
from otel.timeline import (
    EXACT_UNIT_NS,
    NOISE_NS,
    PART_CHARS,
    QUANTUM,
    UNIT_NS,
    Packed,
    TimelineError,
    decode,
    encode,
    pack,
    quantised,
    thinned,
    unpack,
)
from tests.support import vectors
from tests.support.builders import a_timeline, raw_timelines, timelines
from tests.support.golden import golden

LONG = a_timeline([0.3 + 0.021 * i for i in range(2_000)], chars=5)


@given(timelines())
def test_what_was_encoded_is_decoded(timeline):
    assert decode(encode(timeline)) == timeline


@given(timelines())
def test_what_was_packed_is_unpacked(timeline):
    assert unpack(pack(timeline)) == timeline


@given(st.binary(max_size=60) | st.binary(max_size=60).map(lambda tail: b"\x01\x00\x64\x20" + tail))
def test_random_bytes_are_refused_or_the_one_encoding_of_a_timeline(payload):
    try:
        timeline = decode(payload)
    except TimelineError:
        return
    assert encode(timeline) == payload


@given(timelines(), st.data())
def test_a_payload_with_one_byte_changed_is_refused_or_another_timeline(timeline, data):
    payload = bytearray(encode(timeline))
    at = data.draw(st.integers(0, len(payload) - 1))
    payload[at] ^= data.draw(st.integers(1, 255))
    try:
        assert decode(bytes(payload)) != timeline
    except TimelineError:
        return


@given(st.lists(st.integers(0, 63), min_size=1, max_size=8), st.integers(0, 4))
def test_a_number_has_one_spelling(bits, padding):
    number = sum(1 << bit for bit in set(bits))
    spelled = encode(Timeline(unit_ns=number, quantum=1))
    longer = bytes((*spelled[:-6], spelled[-6] | 0x80, *([0x80] * padding), 0, *spelled[-5:]))
    assert decode(spelled).unit_ns == number
    with pytest.raises(TimelineError):
        decode(longer)


class TestParts:
    def test_are_at_most_2000_characters_so_that_no_backend_cuts_them(self):
        assert {len(part) for part in pack(LONG).parts[:-1]} == {PART_CHARS}
        assert len(pack(LONG).parts) == 3

    @given(st.integers(0, 2))
    def test_one_dropped_is_an_error(self, at):
        packed = pack(LONG)
        with pytest.raises(TimelineError, match="2 parts"):
            unpack(replace(packed, parts=packed.parts[:at] + packed.parts[at + 1 :]))

    @given(st.permutations(range(3)))
    def test_any_other_order_is_an_error(self, order):
        assume(order != [0, 1, 2])
        packed = pack(LONG)
        with pytest.raises(TimelineError):
            unpack(replace(packed, parts=tuple(packed.parts[i] for i in order)))

    @given(st.integers(0, 2), st.data())
    def test_one_cut_short_is_an_error(self, at, data):
        packed = pack(LONG)
        cut = packed.parts[at][: data.draw(st.integers(0, len(packed.parts[at]) - 1))]
        with pytest.raises(TimelineError):
            unpack(replace(packed, parts=(*packed.parts[:at], cut, *packed.parts[at + 1 :])))

    @given(st.integers(0, 2), st.text(max_size=20))
    def test_one_replaced_by_any_text_is_an_error(self, at, text):
        packed = pack(LONG)
        assume(text != packed.parts[at])
        with pytest.raises(TimelineError):
            unpack(replace(packed, parts=(*packed.parts[:at], text, *packed.parts[at + 1 :])))

    def test_of_another_timeline_of_the_same_size_are_an_error(self):
        other = pack(replace(LONG, stamps=(*LONG.stamps[:-1], replace(LONG.stamps[-1], event_class=EventClass.USAGE))))
        with pytest.raises(TimelineError, match="checksum"):
            unpack(replace(pack(LONG), parts=other.parts))

    def test_that_promise_more_rows_are_an_error(self):
        with pytest.raises(TimelineError, match="payload has 2000 rows, not 2001"):
            unpack(replace(pack(LONG), row_count=2_001))

    @pytest.mark.parametrize("other", [0, 2])
    def test_of_another_format_are_refused_by_name(self, other):
        with pytest.raises(TimelineError, match=f"format {other} is not one of those that this reader knows, 1 to 1"):
            unpack(replace(pack(LONG), format=other))

    def test_that_are_no_base64_are_an_error(self):
        with pytest.raises(TimelineError, match="not base64"):
            unpack(Packed(("!",), payload_bytes=0, crc32=0, row_count=0))


class TestQuantised:
    @given(raw_timelines())
    def test_rounds_down_by_less_than_a_unit_and_errors_never_add_up(self, raw):
        for before, after in zip(raw.stamps, quantised(raw).stamps, strict=True):
            assert 0 <= before.arrived_ns - after.arrived_ns < UNIT_NS
            assert 0 <= before.position - after.position < QUANTUM

    @given(raw_timelines(), st.sampled_from(((UNIT_NS, QUANTUM), (EXACT_UNIT_NS, 1))))
    def test_twice_is_once(self, raw, grain):
        unit_ns, quantum = grain
        once = quantised(raw, unit_ns=unit_ns, quantum=quantum)
        assert quantised(once, unit_ns=unit_ns, quantum=quantum) == once

    @given(raw_timelines())
    def test_keeps_positions_exact_beside_every_gap(self, raw):
        stamps = quantised(raw).stamps
        for i in range(1, len(stamps)):
            if stamps[i].arrived_ns - stamps[i - 1].arrived_ns >= NOISE_NS:
                assert [s.position for s in stamps[i - 1 : i + 1]] == [s.position for s in raw.stamps[i - 1 : i + 1]]
                assert stamps[i - 1].is_exact
                assert stamps[i].is_exact

    def test_steps_of_positions_hide_which_token_it_was(self):
        timeline = a_timeline([0.30, 0.32, 0.34, 0.36], chars=[5, 6, 30, 7])
        assert [s.position for s in timeline.stamps] == [5, 0, 32, 32]

    @given(raw_timelines())
    def test_can_be_encoded_always(self, raw):
        assert decode(encode(quantised(raw))) == quantised(raw)


class TestThinned:
    @given(timelines())
    def test_keeps_both_sides_of_every_gap_and_says_that_it_is_thinned(self, timeline):
        thin = thinned(timeline)
        kept = {stamp.seq: stamp for stamp in thin.stamps}
        for before, after in zip(timeline.stamps, timeline.stamps[1:], strict=False):
            if after.arrived_ns - before.arrived_ns >= NOISE_NS:
                assert kept[before.seq] == before
                assert kept[after.seq] == after
        assert thin.is_thinned
        assert thin.stamps[:1] == timeline.stamps[:1]
        assert thin.stamps[-1:] == timeline.stamps[-1:]

    @given(timelines())
    def test_twice_is_once(self, timeline):
        assert thinned(thinned(timeline)) == thinned(timeline)

    def test_is_what_happens_to_a_timeline_past_the_limit(self):
        stalled = a_timeline([0.3 + 0.02 * i + (2 if i >= 900 else 0) for i in range(1_000)])
        packed = pack(stalled, limit_bytes=500)
        assert packed.row_count == 4
        assert [stamp.seq for stamp in unpack(packed).stamps] == [0, 899, 900, 999]

    def test_is_refused_when_even_that_is_too_long(self):
        stalls = a_timeline([float(i) for i in range(100)])
        with pytest.raises(TimelineError, match=r"thinned timeline has 6.. bytes, more than 200"):
            pack(stalls, limit_bytes=200)


@pytest.mark.parametrize(
    ("timeline", "rule"),
    [
        (Timeline(unit_ns=0, quantum=1), "unit_ns 0 and quantum 1 must be at least 1"),
        (Timeline(unit_ns=1, quantum=0), "unit_ns 1 and quantum 0 must be at least 1"),
        (Timeline(unit_ns=10, quantum=1, stamps=(Stamp(0, 15, 15, EventClass.CONTENT, 0),)), "15 ns is not a whole"),
        (Timeline(unit_ns=1, quantum=1, stamps=(Stamp(0, 15, 14, EventClass.CONTENT, 0),)), "-1 ns is not a whole"),
        (Timeline(unit_ns=1, quantum=8, stamps=(Stamp(0, 1, 1, EventClass.CONTENT, 9),)), "position 9 after 0 breaks"),
        (
            Timeline(unit_ns=1, quantum=1, stamps=(Stamp(0, 1, 1, EventClass.CONTENT, 0),) * 2),
            "seq 0: position 0 after 0 breaks",
        ),
        (Timeline(unit_ns=1, quantum=1, window_peak_bytes=1 << 64), "does not fit"),
    ],
)
def test_what_breaks_the_rules_cannot_be_encoded(timeline, rule):
    with pytest.raises(TimelineError, match=rule):
        encode(timeline)


@pytest.mark.parametrize(
    ("payload", "rule"),
    [
        ("", "payload ends at byte 0"),
        ("02 00 01 01 00 00 00 00", "format 2 is not known"),
        ("01 04 01 01 00 00 00 00", "flags 4"),
        ("01 00 00 01 00 00 00 00", "unit_ns 0"),
        ("01 00 01 01 00 00 00 00 00", "1 bytes left over"),
        ("01 00 01 01 7f 00 00 00", "127 rows cannot fit"),
        ("01 00 01 01 01 01 09 00 00 00", "event class 9 is not known"),
        ("01 00 01 01 01 01 00 00 00 00", "row is not in its canonical form"),
        ("01 00 01 01 01 01 40 00 02 00 00 00", "remainder 1 is not below the quantum 1"),
        ("01 00 81 00", "longer than it needs to be"),
        ("01 00 ff ff ff ff ff ff ff ff ff 02 01", "does not fit 64 bits"),
        ("01 00 80 80 80 80 80 80 80 80 80 80 01", "does not fit 64 bits"),
    ],
)
def test_what_is_no_payload_is_refused_with_the_rule(payload, rule):
    with pytest.raises(TimelineError, match=rule):
        decode(bytes.fromhex(payload))


def test_a_steady_stream_costs_at_most_three_bytes_an_event():
    timeline = a_timeline([0.3 + 0.02 * i for i in range(5_000)], chars=4)
    assert len(encode(timeline)) / 5_000 <= 3


def test_a_jittery_stream_in_exact_mode_costs_at_most_eight_bytes_an_event():
    arrived = [0.3 + 0.02 * i + (i * 7_919 % 3_000) * 1e-6 for i in range(5_000)]
    timeline = a_timeline(arrived, chars=4, unit_ns=EXACT_UNIT_NS, quantum=1)
    assert len(encode(timeline)) / 5_000 <= 8


@pytest.mark.parametrize("name", vectors.names())
def test_format_1_is_frozen(name):
    timeline, payload = vectors.load(name)
    assert decode(payload) == timeline
    assert encode(timeline) == payload


def test_every_frozen_vector_is_one_of_the_named_ones():
    assert set(vectors.names()) == set(vectors.NAMED)


@pytest.mark.parametrize("name", vectors.NAMED)
def test_the_named_timelines_still_are_what_was_frozen(name):
    assert vectors.load(name) == (vectors.NAMED[name], encode(vectors.NAMED[name]))


def test_frozen_vectors_are_never_rewritten(monkeypatch):
    monkeypatch.setenv("GAPLINE_REWRITE_GOLDEN", "1")
    with pytest.raises(PermissionError, match="format 1 is frozen"):
        vectors.save("steady_stream", a_timeline([0.5]))
    with pytest.raises(PermissionError, match="is frozen"):
        golden("timelines/v1/steady_stream.json", "{}")


def test_only_a_thinned_timeline_may_leave_events_out():
    stamps = tuple(Stamp(seq, 0, 0, EventClass.CONTENT, 0) for seq in (0, 1, 3))
    with pytest.raises(TimelineError, match="seq 3 after 1"):
        encode(Timeline(unit_ns=UNIT_NS, quantum=QUANTUM, stamps=stamps))
    thin = Timeline(unit_ns=UNIT_NS, quantum=QUANTUM, stamps=stamps, is_thinned=True)
    assert decode(encode(thin)) == thin
