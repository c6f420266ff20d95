from hypothesis import given
from hypothesis import strategies as st

from otel.hop import Blocked
from sidecar.recording.beside import Blocks


@given(st.lists(st.tuples(st.integers(0, 90), st.integers(1, 9)), max_size=30), st.integers(1, 10))
def test_the_longest_are_kept_in_their_order_and_the_others_counted(stretches, limit):
    blocks = Blocks(limit=limit)
    told, at_ns = [], 0
    for pause_ns, length_ns in stretches:
        at_ns += pause_ns
        told.append(Blocked(at_ns, at_ns + length_ns, None))
        blocks.add(told[-1])
        at_ns += length_ns
    kept = blocks.kept()

    assert (len(kept), blocks.dropped_count) == (min(limit, len(told)), max(0, len(told) - limit))
    assert kept == [block for block in told if block in kept]
    lengths = sorted((block.end_ns - block.start_ns for block in told), reverse=True)
    assert sorted((block.end_ns - block.start_ns for block in kept), reverse=True) == lengths[:limit]
