import struct

from hypothesis import given
from hypothesis import strategies as st

from sidecar.inspection.websocket import FrameWalker, Message
from tests.support.frames import BINARY, CLOSE, PING, PONG, TEXT, frame


def walk(data, sizes=()):
    """Feed it in pieces of these sizes, the rest as one."""
    walker, found, at = FrameWalker(), [], 0
    for size in sizes:
        found += walker.feed(data[at : at + size])
        at += size
    return walker, found + walker.feed(data[at:])


def test_a_message_is_its_frame_head_and_all():
    data = frame(TEXT, b"hello")
    _, found = walk(data)

    assert found == [Message(TEXT, len(data))]


def test_lengths_of_all_three_kinds_are_read():
    frames = [frame(BINARY, bytes(size), mask=b"abcd") for size in (0, 125, 126, 65_535, 65_536)]
    walker, found = walk(b"".join(frames))

    assert [each.size_bytes for each in found] == [len(each) for each in frames]
    assert walker.pending_bytes == 0


def test_fragments_are_one_message_of_the_kind_of_the_first():
    parts = [frame(TEXT, b"a", final=False), frame(0, b"b", final=False), frame(0, b"c")]
    _, found = walk(b"".join(parts))

    assert found == [Message(TEXT, sum(map(len, parts)))]


def test_a_ping_between_fragments_comes_first_and_the_sizes_still_add_up():
    parts = [frame(TEXT, b"a", final=False), frame(PING, b"p"), frame(0, b"b")]
    _, found = walk(b"".join(parts))

    assert [each.opcode for each in found] == [PING, TEXT]
    assert sum(each.size_bytes for each in found) == len(b"".join(parts))
    assert [each.is_control for each in found] == [True, False]


def test_a_close_says_its_code_masked_or_not_and_however_it_is_cut():
    said = struct.pack(">H", 1011) + b"verloren"
    for mask in (None, b"\x12\x34\x56\x78"):
        data = frame(CLOSE, said, mask=mask)
        for cut in range(len(data)):
            _, found = walk(data, [cut])
            assert found == [Message(CLOSE, len(data), 1011)]


def test_a_close_without_a_code_says_none():
    _, found = walk(frame(CLOSE))

    assert found == [Message(CLOSE, 2, None)]


def test_compressed_messages_are_seen_as_any_other():
    data = frame(TEXT, b"\xaa\x00", rsv=4)
    _, found = walk(data)

    assert found == [Message(TEXT, len(data))]


def test_what_breaks_the_framing_makes_blind_for_good():
    good = frame(TEXT, b"x")
    for bad in (
        frame(3, b"x"),  # no such opcode
        frame(PING, b"x", final=False),  # control frames cannot be fragmented
        bytes([0x89, 126, 0, 126]) + bytes(126),  # nor be longer than 125 bytes
        frame(0, b"x"),  # continues nothing
        frame(TEXT, b"a", final=False) + frame(TEXT, b"b"),  # begins within another
        bytes([0x82, 127]) + b"\xff" * 8,  # a length of 64 bits has none but 63
    ):
        walker, found = walk(good + bad + good)
        assert found == [Message(TEXT, len(good))]
        assert walker.is_blind
        assert walker.take_unseen() == len(bad + good)
        assert walker.feed(good) == []
        assert walker.take_unseen() == len(good)
        assert walker.take_unseen() == 0


def test_a_payload_is_never_kept():
    walker = FrameWalker()
    head = frame(BINARY, bytes(65_536))[:10]
    walker.feed(head.replace(b"\x00\x00\x00\x00\x00\x01\x00\x00", struct.pack(">Q", 1 << 40)))
    for _ in range(100):
        assert walker.feed(bytes(10_000)) == []

    assert walker.pending_bytes == 10 + 1_000_000
    assert len(walker._head) == 0


@st.composite
def streams(draw):
    """Legal streams: messages in any number of fragments, with control frames in between."""
    parts, expected = [], []

    def add(*args, **kwargs):
        parts.append(frame(*args, mask=draw(st.none() | st.binary(min_size=4, max_size=4)), **kwargs))

    for _ in range(draw(st.integers(0, 6))):
        opcode = draw(st.sampled_from([TEXT, BINARY]))
        count = draw(st.integers(1, 3))
        for number in range(count):
            if draw(st.booleans()):
                control = draw(st.sampled_from([PING, PONG]))
                add(control, bytes(draw(st.integers(0, 125))))
                expected.append(control)
            size = draw(st.sampled_from([0, 1, 125, 126, 300]))
            add(0 if number else opcode, bytes(size), final=number == count - 1)
        expected.append(opcode)
    return b"".join(parts), expected


@given(streams(), st.lists(st.integers(1, 50), max_size=30))
def test_any_cutting_gives_the_same_messages_and_the_sizes_add_up(stream, sizes):
    data, expected = stream
    walker, found = walk(data, sizes)
    _, at_once = walk(data)

    assert [each.opcode for each in found] == expected
    assert found == at_once
    assert sum(each.size_bytes for each in found) + walker.pending_bytes == len(data)
    assert walker.pending_bytes == 0


@given(st.lists(st.binary(max_size=100), max_size=20))
def test_nothing_raises_and_no_byte_is_lost_from_the_count(pieces):
    walker, seen_bytes = FrameWalker(), 0
    for piece in pieces:
        seen_bytes += sum(each.size_bytes for each in walker.feed(piece))
        assert len(walker._head) <= 14
        assert len(walker._code) <= 2

    assert seen_bytes + walker.pending_bytes == sum(map(len, pieces))
