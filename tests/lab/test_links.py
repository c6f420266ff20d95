"""What a link does to packets, in numbers."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.lab.links import NS, Change, Line, Pipe

MS = 1_000_000
LINES = st.builds(
    Line,
    delay_ns=st.integers(0, NS),
    loss_share=st.sampled_from([0.0, 0.3, 1.0]),
    bits_per_s=st.sampled_from([None, 64_000.0, 1e6]),
    queue_bytes=st.sampled_from([3_000, 65_536]),
)
PACKETS = st.lists(st.tuples(st.integers(0, 50 * MS), st.integers(40, 1_500), st.floats(0, 1, exclude_max=True)))
END_NS = 3_600 * NS


def passed(pipe: Pipe, packets: list[tuple[int, int, float]]) -> list[tuple[int, bytes]]:
    """What comes out of the pipe, and when, asked as the wire asks: whenever something comes or is due."""
    now_ns = 0
    out: list[tuple[int, bytes]] = []

    def run_to(until_ns: int) -> None:
        at_ns = now_ns
        while (due_ns := pipe.due_ns(at_ns)) is not None and due_ns <= until_ns:
            at_ns = max(at_ns, due_ns)
            out.extend((at_ns, packet) for packet in pipe.take(at_ns))

    for number, (pause_ns, size_bytes, chance) in enumerate(packets):
        run_to(now_ns + pause_ns)
        now_ns += pause_ns
        pipe.offer(number.to_bytes(4, "big").ljust(size_bytes, b"."), now_ns, chance)
    run_to(END_NS)
    return out


@given(LINES, PACKETS)
def test_every_packet_comes_out_once_in_order_and_not_before_its_delay_or_is_counted_as_lost(
    line: Line, packets: list[tuple[int, int, float]]
) -> None:
    pipe = Pipe(line)
    came_ns, at_ns = {}, 0
    for number, (pause_ns, _, _) in enumerate(packets):
        at_ns += pause_ns
        came_ns[number] = at_ns
    out = passed(pipe, packets)
    numbers = [int.from_bytes(packet[:4], "big") for _, packet in out]
    assert numbers == sorted(set(numbers))
    assert len(numbers) + pipe.lost_count == len(packets)
    assert all(there_ns - came_ns[number] >= line.delay_ns for number, (there_ns, _) in zip(numbers, out, strict=True))
    if line.bits_per_s is None:
        assert all(
            there_ns - came_ns[number] == line.delay_ns for number, (there_ns, _) in zip(numbers, out, strict=True)
        )


@given(st.lists(st.tuples(st.integers(0, MS), st.integers(1_000, 1_500), st.just(0.5)), min_size=2, max_size=40))
def test_a_line_lets_no_more_through_than_its_rate(packets: list[tuple[int, int, float]]) -> None:
    out = passed(Pipe(Line(bits_per_s=80_000.0)), packets)  # a byte in 100 µs
    for (earlier_ns, _), (later_ns, packet) in itertools.pairwise(out):
        assert later_ns - earlier_ns >= len(packet) * 100_000


def test_what_finds_no_room_in_the_queue_is_lost() -> None:
    pipe = Pipe(Line(bits_per_s=80_000.0, queue_bytes=3_000))
    out = passed(pipe, [(0, 1_000, 0.5)] * 10)
    assert (len(out), pipe.lost_count) == (3, 7)


def test_a_change_is_over_by_itself_and_what_waited_goes_on_at_once() -> None:
    pipe = Pipe(Line(delay_ns=10 * MS))
    pipe.change(Line(bits_per_s=8_000.0), 500 * MS)  # a packet of 1,000 bytes takes a second
    pipe.offer(b"a" * 1_000, 100 * MS, 0.5)
    assert pipe.due_ns(100 * MS) == 500 * MS
    assert pipe.take(499 * MS) == []
    assert pipe.take(500 * MS) == []
    assert pipe.due_ns(500 * MS) is not None
    assert pipe.take(510 * MS) == [b"a" * 1_000]


def test_a_black_hole_takes_what_comes_and_not_what_flies() -> None:
    pipe = Pipe(Line(delay_ns=50 * MS))
    pipe.offer(b"flies", 0, 0.5)
    pipe.change(Line(delay_ns=50 * MS, loss_share=1.0), 100 * MS)
    pipe.offer(b"lost", 10 * MS, 0.999)
    pipe.offer(b"later", 100 * MS, 0.0)
    assert pipe.take(50 * MS) == [b"flies"]
    assert pipe.take(150 * MS) == [b"later"]
    assert pipe.lost_count == 1


@pytest.mark.parametrize("wrong", [{"delay_ns": -1}, {"loss_share": 1.1}, {"loss_share": -0.1}, {"bits_per_s": 0.0}])
def test_a_line_that_cannot_be_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="rate is more than 0"):
        Line(**wrong)  # type: ignore[arg-type]


@given(st.builds(Change, st.integers(0, 4), LINES, st.integers(0, END_NS)))
def test_a_change_is_read_as_it_was_written(change: Change) -> None:
    assert Change.from_json(change.to_json()) == change
    assert "\n" not in change.to_json()
