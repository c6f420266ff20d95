"""Records in a file: whatever a crash leaves, every whole record is found, and nothing else."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.export.spool.format import (
    DONE,
    HEAD_BYTES,
    RECORD_BYTES,
    FormatError,
    decode_body,
    encode_head,
    encode_record,
    scan,
)

BODIES = st.binary(min_size=1, max_size=40)
RECORDS = st.lists(st.tuples(st.integers(0, 2**64 - 1), BODIES), max_size=8)


def a_file(records, *, is_open=False) -> bytes:
    return encode_head(is_open=is_open) + b"".join(encode_record(number, body) for number, body in records)


def read(data: bytes) -> list[tuple[int, bytes | None]]:
    return [
        (entry.number, decode_body(data[entry.offset : entry.offset + RECORD_BYTES + entry.size_bytes]))
        for entry in scan(data).entries
    ]


@given(RECORDS, st.booleans())
def test_what_was_written_is_read(records, is_open):
    data = a_file(records, is_open=is_open)
    assert scan(data).is_open is is_open
    assert scan(data).torn_count == 0
    assert read(data) == records


@given(RECORDS, st.data())
def test_of_a_file_cut_anywhere_the_whole_records_are_read_and_one_is_torn_at_most(records, data):
    whole = a_file(records)
    cut = data.draw(st.integers(0, len(whole)))
    ends = [len(a_file(records[:count])) for count in range(len(records) + 1)]
    count = sum(end <= cut for end in ends[1:])
    assert read(whole[:cut]) == records[:count]
    assert scan(whole[:cut]).torn_count == (cut > ends[count])


@given(RECORDS, st.data())
def test_a_record_with_a_changed_body_is_passed_over_and_no_other_suffers(records, data):
    records.append((7, b"last"))
    at = data.draw(st.integers(0, len(records) - 1))
    changed = bytearray(a_file(records))
    changed[len(a_file(records[: at + 1])) - 1] ^= 1
    assert read(bytes(changed)) == records[:at] + records[at + 1 :]
    assert scan(bytes(changed)).torn_count == 1


def test_zeros_after_a_power_cut_are_the_end():
    data = a_file([(1, b"span")])
    assert read(data + bytes(5_000)) == [(1, b"span")]
    assert scan(data + bytes(5_000)).torn_count == 1


def test_one_byte_in_its_place_marks_a_record_done():
    data = bytearray(a_file([(1, b"a"), (2, b"b"), (3, b"c")]))
    offset = scan(bytes(data)).entries[1].offset
    data[offset : offset + 1] = DONE
    assert [entry.is_done for entry in scan(bytes(data)).entries] == [False, True, False]
    assert [number for number, _ in read(bytes(data))] == [1, 2, 3]


@pytest.mark.parametrize("data", [b"gapline-spool/2 final\n", b"x", b"gapline-spool/1 other\n" + b"x" * 100])
def test_a_file_that_is_none_of_ours_is_refused(data):
    with pytest.raises(FormatError):
        scan(data)


@given(st.binary(max_size=300))
def test_no_bytes_behind_the_head_break_it(rest):
    found = scan(encode_head(is_open=True) + rest)
    assert all(entry.offset >= HEAD_BYTES for entry in found.entries)


@given(st.binary(max_size=300))
def test_no_bytes_raise_anything_but_a_format_error(data):
    with suppress(FormatError):
        scan(data)
    assert decode_body(data) is None or len(data) > RECORD_BYTES
