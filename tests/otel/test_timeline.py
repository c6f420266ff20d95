"""The packed timeline: nothing is lost, nothing is guessed, and format 1 never changes."""

from __future__ import annotations

import zlib
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from otel import timeline as module
from otel.grain import EXACT_UNIT_NS, QUANTUM, UNIT_NS, thinned
from otel.hop import Blocked, EventClass, Interval, KernelSample, Stamp, Timeline
from otel.timeline import LIMIT, PART_CHARS, ROWS, Packed, TimelineError, decode, encode, pack, unpack
from sidecar.inspection.stamper import LIMIT_COUNT
from tests.support import vectors
from tests.support.builders import a_timeline, timelines
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


def spelled(number: int) -> bytes:
    """An unsigned LEB128, written down once more."""
    septets = [number >> shift & 0x7F for shift in range(0, max(1, number.bit_length()), 7)]
    return bytes([*(septet | 0x80 for septet in septets[:-1]), septets[-1]])


@given(st.lists(st.integers(0, 52), min_size=1, max_size=8), st.integers(0, 4))
def test_a_number_has_one_spelling(bits, padding):
    number = sum(1 << bit for bit in set(bits))
    payload = encode(Timeline(unit_ns=number, quantum=1))
    assert payload == b"\x01\x00" + spelled(number) + b"\x01\x00\x00\x00\x00"
    assert decode(payload).unit_ns == number
    longer = bytes((*payload[:-6], payload[-6] | 0x80, *([0x80] * padding), 0, *payload[-5:]))
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


class TestTooLong:
    def test_a_timeline_past_the_limit_is_thinned(self):
        stalled = a_timeline([0.3 + 0.02 * i + (2 if i >= 900 else 0) for i in range(1_000)])
        packed = pack(stalled, limit_bytes=500)
        assert packed.row_count == 4
        assert [stamp.seq for stamp in unpack(packed).stamps] == [0, 899, 900, 999]

    def test_what_else_is_left_out_is_said_still(self):
        stalled = a_timeline([0.3 + 0.02 * i for i in range(1_000)], round_trip_ns=7, is_evidence_thinned=True)
        thin = unpack(pack(replace(stalled, is_cut_short=True), limit_bytes=500))
        assert (thin.is_thinned, thin.is_cut_short, thin.is_evidence_thinned, thin.round_trip_ns) == (
            True,
            True,
            True,
            7,
        )
        assert [stamp.seq for stamp in thin.stamps] == [0, 998, 999]

    def test_is_refused_when_even_that_is_too_long(self):
        stalls = a_timeline([float(i) for i in range(100)])
        with pytest.raises(TimelineError, match=r"thinned timeline has 3.. bytes, more than 200"):
            pack(stalls, limit_bytes=200)


def one_row(**changes: object) -> Timeline:
    return Timeline(unit_ns=1, quantum=1, stamps=(replace(Stamp(0, 1, 1, EventClass.CONTENT, 0, True), **changes),))


class TestLimits:
    """A record from outside can cost no more than one that a sidecar may write."""

    ROW = b"\x10"

    def rows(self, count: int) -> bytes:
        """The smallest payload of so many stamps, a byte each."""
        return encode(Timeline(unit_ns=1, quantum=1))[:4] + spelled(count) + self.ROW * count + bytes(3)

    def test_stamps(self, monkeypatch):
        monkeypatch.setattr(module, "ROWS", 100)
        assert len(decode(self.rows(100)).stamps) == 100
        with pytest.raises(TimelineError, match=r"^101 stamps, more than 100$"):
            decode(self.rows(101))

    def test_stamps_as_they_are(self):
        with pytest.raises(TimelineError, match=rf"^{ROWS + 1} stamps, more than {ROWS}$"):
            decode(self.rows(ROWS + 1))
        assert ROWS > LIMIT_COUNT

    def test_more_stamps_are_not_written_but_thinned(self, monkeypatch):
        monkeypatch.setattr(module, "ROWS", 100)
        timeline = a_timeline([0.02 * i for i in range(101)])
        with pytest.raises(TimelineError, match=r"^timeline has 101 stamps, more than 100$"):
            encode(timeline)
        assert unpack(pack(timeline)) == thinned(timeline)

    def test_bytes(self, monkeypatch):
        monkeypatch.setattr(module, "PAYLOAD_BYTES", 1_000)
        with pytest.raises(TimelineError, match=r"^payload has 1001 bytes, more than 1000$"):
            decode(bytes(1_001))
        with pytest.raises(TimelineError, match=r"^the 1 parts have 1337 characters, more than 1336$"):
            unpack(Packed(("A" * 1_337,), payload_bytes=1_002, crc32=0, row_count=0))

    def test_a_small_request_that_unfolds_to_millions_of_stamps_is_refused_before_it_is_looked_at(self, monkeypatch):
        monkeypatch.setattr(module.base64, "b64decode", None)
        payload = b"\x10" * 3_000_000
        packed = Packed(
            ("EBAQ" * 1_000_000,), payload_bytes=len(payload), crc32=zlib.crc32(payload), row_count=3_000_000
        )
        with pytest.raises(TimelineError, match=r"^the 1 parts have 4000000 characters, more than 900000$"):
            unpack(packed)

    @pytest.mark.parametrize(
        ("name", "field", "rows"),
        [
            ("blocked stretches", "blocked", (Blocked(0, 0, None),)),
            ("lag intervals", "lag", (Interval(0, 0),)),
            ("samples", "samples", (KernelSample(0, 0, 0, 0, 0, 0, 0, 0),)),
        ],
    )
    def test_evidence(self, monkeypatch, name, field, rows):
        most, more = (replace(Timeline(unit_ns=1, quantum=1), **{field: rows * count}) for count in (10, 11))
        payload = encode(more)
        monkeypatch.setattr(module, "EVIDENCE_ROWS", 10)
        assert decode(encode(most)) == most
        for refused in (lambda: encode(more), lambda: decode(payload)):
            with pytest.raises(TimelineError, match=rf"^11 {name}, more than 10$"):
                refused()

    @pytest.mark.parametrize(
        "timeline",
        [
            Timeline(unit_ns=1, quantum=LIMIT - 1, window_peak_bytes=LIMIT - 1, round_trip_ns=LIMIT - 1),
            one_row(seq=LIMIT - 1),
            one_row(position=LIMIT - 1),
            one_row(arrived_ns=LIMIT - 1, taken_ns=LIMIT - 1),
            one_row(taken_ns=LIMIT - 1),
            Timeline(unit_ns=1, quantum=1, blocked=(Blocked(5, LIMIT - 1, LIMIT - 2),)),
            Timeline(unit_ns=1, quantum=1, lag=(Interval(5, 6), Interval(LIMIT - 1, LIMIT - 1))),
            Timeline(unit_ns=1, quantum=1, samples=(KernelSample(*[LIMIT - 1] * 8),)),
        ],
    )
    def test_numbers_just_below_it_are_kept(self, timeline):
        assert decode(encode(timeline)) == timeline

    @pytest.mark.parametrize(
        "timeline",
        [
            Timeline(unit_ns=LIMIT, quantum=1),
            Timeline(unit_ns=1, quantum=LIMIT),
            Timeline(unit_ns=1, quantum=1, window_peak_bytes=LIMIT),
            Timeline(unit_ns=1, quantum=1, round_trip_ns=LIMIT),
            one_row(seq=LIMIT),
            one_row(position=LIMIT),
            one_row(arrived_ns=LIMIT, taken_ns=None),
            one_row(taken_ns=LIMIT),
            Timeline(unit_ns=1, quantum=1, blocked=(Blocked(5, LIMIT, None),)),
            Timeline(unit_ns=1, quantum=1, blocked=(Blocked(5, 6, LIMIT - 1),)),
            Timeline(unit_ns=1, quantum=1, lag=(Interval(5, LIMIT),)),
            *(
                Timeline(unit_ns=1, quantum=1, samples=(KernelSample(*[LIMIT if i == at else 0 for i in range(8)]),))
                for at in range(8)
            ),
        ],
    )
    def test_numbers_from_there_on_are_not_written(self, timeline):
        with pytest.raises(TimelineError, match=r"below 2\*\*53$"):
            encode(timeline)

    @pytest.mark.parametrize(
        ("name", "numbers"),
        [
            ("position", (0, 1, 2, 1, 0x40, LIMIT - 1, 1, 1, 0x40, 1, 1)),
            ("position", (0, 1, 2, 1, 0x40, LIMIT - 1, 1, 2)),
            ("time", (0, 1, 2, LIMIT - 1 << 4, 1 << 4)),
            ("time", (0, 1, 1, LIMIT - 1 << 4 | 1 << 2)),
            ("time", (0, 2, 1, LIMIT - 1 << 4)),
            ("time", (0, 1, 1, 0x1D, 0x10, LIMIT - 1)),
            ("seq", (1, 1, 2, 1, LIMIT - 1 << 7, 0)),
            ("time", (0, 1, 0, 1, LIMIT - 1, 1)),
            ("time", (0, 1, 0, 0, 1, LIMIT - 1, 1)),
            ("time", (0, 1, 0, 0, 0, 2, LIMIT - 1, *[0] * 7, 1)),
            ("acked_count", (0, 1, 0, 0, 0, 2, 0, LIMIT - 1, *[0] * 6, 0, 1)),
        ],
    )
    def test_what_adds_up_to_it_is_refused(self, name, numbers):
        flags, unit, *rows = numbers
        payload = b"".join(map(spelled, (1, flags, unit, 1, *rows))) + bytes(12)
        with pytest.raises(TimelineError, match=rf"^{name} \d+ is not below 2\*\*53$"):
            decode(payload)


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
        (Timeline(unit_ns=1, quantum=1, window_peak_bytes=-1), "-1 is not from 0"),
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
        ("01 20 01 01 00 00 00 00", "flags 32"),
        ("01 80 01 01 01 00 00 00 00", "flags 128"),
        ("01 00 00 01 00 00 00 00", "unit_ns 0"),
        ("01 00 01 01 00 00 00 00 00", "1 bytes left over"),
        ("01 00 01 01 7f 00 00 00", "127 rows cannot fit"),
        ("01 00 01 01 01 01 09 00 00 00", "event class 9 is not known"),
        ("01 00 01 01 01 01 00 00 00 00", "row is not in its canonical form"),
        ("01 00 01 01 01 01 40 00 02 00 00 00", "remainder 1 is not below the quantum 1"),
        ("01 00 81 00", "longer than it needs to be"),
        ("01 00 ff ff ff ff ff ff ff ff ff 02 01", "byte 10: number is not below"),
        ("01 00 80 80 80 80 80 80 80 80 80 80 01", "byte 10: number is not below"),
        ("01 00 80 80 80 80 80 80 80 10 01 01 00 00", "byte 9: number is not below"),
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


def test_one_that_was_cut_short_leaves_events_out_before_its_last_one_only():
    first, cut, last, after = (Stamp(seq, 0, 0, EventClass.CONTENT, 0) for seq in (0, 1, 900, 901))
    timeline = Timeline(unit_ns=UNIT_NS, quantum=QUANTUM, stamps=(first, cut, last), is_cut_short=True)
    assert decode(encode(timeline)) == timeline
    with pytest.raises(TimelineError, match="seq 900 after 1"):
        encode(replace(timeline, stamps=(first, cut, last, after)))
    uncut = bytearray(encode(timeline))
    uncut[1] = 0
    with pytest.raises(TimelineError, match="seq 900 after 1"):
        decode(bytes(uncut))
