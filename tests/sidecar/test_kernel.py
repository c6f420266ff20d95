import asyncio
import itertools
import socket
import struct
from bisect import bisect_right
from contextlib import asynccontextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel.align import LATE_ACK_NS, SAMPLE_NS, acknowledged, lane_of
from otel.hop import EventClass, Stamp, Timeline
from sidecar.kernel import (
    HELD_NS,
    KEPT,
    NOTSENT_LOWAT_BYTES,
    ROUND_TRIP_NS,
    TICK_NS,
    Connection,
    Evidence,
    TcpInfo,
    parse_tcp_info,
)
from tests.support.builders import a_hop

MS = 1_000_000
OFFSETS = {  # include/uapi/linux/tcp.h
    "state": (0, "B"),
    "congestion_state": (1, "B"),
    "backoff": (4, "B"),
    "in_flight_segments": (24, "I"),
    "lost_segments": (32, "I"),
    "acked_bytes": (120, "Q"),
    "notsent_bytes": (144, "I"),
    "round_trip_us": (148, "I"),
    "window_bytes": (228, "I"),
}


def info(**fields) -> TcpInfo:
    return TcpInfo(**(dict.fromkeys(OFFSETS, 0) | {"state": 1, "window_bytes": 64_000} | fields))


class TestParsing:
    @given(st.fixed_dictionaries({name: st.integers(0, 255) for name in OFFSETS}), st.integers(0, 100))
    def test_each_field_is_read_from_its_place_whatever_follows(self, values, longer_by):
        data = bytearray(232 + longer_by)
        for name, (offset, kind) in OFFSETS.items():
            struct.pack_into("=" + kind, data, offset, values[name])

        assert parse_tcp_info(bytes(data)) == TcpInfo(**values)

    def test_a_round_trip_that_was_never_measured_is_none(self):
        assert parse_tcp_info(b"\xff" * 232).round_trip_us is None

    @given(st.binary(max_size=231))
    def test_a_short_struct_of_an_old_kernel_is_none(self, data):
        assert parse_tcp_info(data) is None


class TestEvidence:
    """What is kept of samples, tick by tick."""

    @staticmethod
    def after(*ticks, base_bytes=0):
        evidence = Evidence(base_bytes=base_bytes)
        for at_ms, written, fields in ticks:
            evidence.seen(
                info(**fields),
                offset_ns=at_ms * MS,
                written_bytes=written,
                buffered_bytes=fields.get("notsent_bytes", 0),
                acked_count=0,
            )
        return evidence

    @staticmethod
    def kept_at(evidence):
        return [sample.offset_ns // MS for sample in evidence.samples]

    def test_a_healthy_stream_leaves_no_sample(self):
        evidence = self.after(*[(100 * n, 500 * n, {"acked_bytes": 500 * n - 100}) for n in range(1, 50)])

        assert self.kept_at(evidence) == []
        assert evidence.window_peak_bytes == 64_000

    def test_bytes_held_for_100_ms_are_kept_until_everything_is_acknowledged(self):
        evidence = self.after(
            (100, 500, {"acked_bytes": 500}),
            (200, 600, {"acked_bytes": 500}),  # written since the last look: not held yet
            (300, 700, {"acked_bytes": 500}),
            (400, 700, {"acked_bytes": 600}),
            (500, 700, {"acked_bytes": 700}),
            (600, 700, {"acked_bytes": 700}),
        )

        assert self.kept_at(evidence) == [300, 400, 500]

    def test_what_is_owed_is_waited_for_whatever_is_written_since(self):
        evidence = self.after(
            (100, 500, {"acked_bytes": 500}),
            (200, 600, {"acked_bytes": 500}),
            (300, 700, {"acked_bytes": 500}),  # held, and 700 are owed from here on
            (400, 800, {"acked_bytes": 650}),
            (500, 900, {"acked_bytes": 800}),  # no longer
            (600, 1_000, {"acked_bytes": 900}),
        )

        assert self.kept_at(evidence) == [300, 400, 500]

    def test_a_round_trip_is_no_holding(self):
        looks = [(100 * n, 500 * n, {"acked_bytes": 500 * (n - 3), "round_trip_us": 250_000}) for n in range(1, 50)]
        assert self.kept_at(self.after(*looks)) == []

        stuck = [(at_ms, written, fields | {"acked_bytes": 5_000}) for at_ms, written, fields in looks if at_ms > 1_200]
        assert self.kept_at(self.after(*looks[:12], *stuck[:4]))[0] == 1_500

    def test_the_shortest_round_trip_is_remembered_and_no_longer_one_than_a_second_is_believed(self):
        times_us = [None, 5_000_000, 41_000, 40_000, None, 43_000]
        evidence = Evidence(base_bytes=0)
        known = []
        for at_ms, round_trip_us in enumerate(times_us):
            seen = info(round_trip_us=round_trip_us)
            evidence.seen(seen, offset_ns=at_ms * MS, written_bytes=1, buffered_bytes=0, acked_count=0)
            known.append(evidence.round_trip_ns)

        assert known == [None, ROUND_TRIP_NS, 41 * MS, 40 * MS, 40 * MS, 40 * MS]

    def test_two_looks_that_came_close_together_do_not_make_bytes_old(self):
        evidence = self.after((100, 500, {}), (110, 500, {}), (201, 500, {}))

        assert self.kept_at(evidence) == [201]

    def test_a_window_of_half_its_own_peak_is_kept(self):
        evidence = self.after(
            (100, 100, {"acked_bytes": 100, "window_bytes": 60_000}),
            (200, 200, {"acked_bytes": 200, "window_bytes": 30_001}),
            (300, 300, {"acked_bytes": 300, "window_bytes": 30_000}),
            (400, 400, {"acked_bytes": 400, "window_bytes": 61_000}),
        )

        assert self.kept_at(evidence) == [100, 300]  # and where it had been at its peak
        assert evidence.window_peak_bytes == 61_000

    @given(st.lists(st.tuples(st.integers(0, 70_000), st.booleans()), max_size=60))
    def test_the_largest_window_so_far_can_be_told_from_what_is_kept_whatever_it_grows_to_later(self, looks):
        written, ticks = 0, []
        for number, (window_bytes, is_acked) in enumerate(looks):
            written += 100
            ticks.append((100 * number, written, {"acked_bytes": written * is_acked, "window_bytes": window_bytes}))
        evidence = self.after(*ticks)
        kept = dict(zip(self.kept_at(evidence), evidence.samples, strict=True))
        assert sorted(kept) == self.kept_at(evidence)
        for at_ms in kept:
            so_far = max(window_bytes for window_bytes, _ in looks[: at_ms // 100 + 1])
            assert max(kept[other].window_bytes for other in kept if other <= at_ms) == so_far

    def test_what_is_left_out_is_not_the_window_at_its_peak(self):
        shut = [(100 * n, 500, {"window_bytes": 0}) for n in range(3, 2 * KEPT)]
        evidence = self.after((100, 500, {}), (200, 500, {"window_bytes": 65_000}), *shut)

        assert evidence.dropped_count > 0
        assert max(sample.window_bytes for sample in evidence.samples) == 65_000

    def test_what_the_connection_carried_before_is_taken_off(self):
        evidence = self.after((100, 50, {"acked_bytes": 1_000}), base_bytes=1_000)

        assert not evidence.is_settled(50)
        assert evidence.acked_bytes(info(acked_bytes=1_050)) == 50
        assert evidence.is_settled(50)

    def test_a_sample_says_what_the_kernel_and_our_buffer_hold(self):
        fields = {"in_flight_segments": 3, "notsent_bytes": 40, "lost_segments": 1, "congestion_state": 4, "backoff": 2}
        (sample,) = self.after((100, 500, {}), (200, 500, fields)).samples

        assert (sample.in_flight_segments, sample.unsent_bytes, sample.lost_segments) == (3, 80, 1)
        assert (sample.congestion_state, sample.backoff, sample.window_bytes) == (4, 2, 64_000)

    def test_samples_are_bounded_and_what_is_left_out_is_counted(self):
        evidence = self.after(*[(100 * n, 500, {}) for n in range(1, 3 * KEPT)])

        assert len(evidence.samples) <= KEPT
        assert len(evidence.samples) + evidence.dropped_count == 3 * KEPT - 2
        assert self.kept_at(evidence)[-1] == 100 * (3 * KEPT - 1)

    @given(
        st.lists(
            st.tuples(st.integers(0, 300), st.integers(0, 900), st.integers(0, 900), st.integers(0, 70_000)),
            max_size=40,
        )
    )
    def test_times_and_acknowledged_bytes_never_go_back(self, steps):
        evidence = Evidence(base_bytes=10)
        at_ns = written = 0
        acked = []
        for pause_ms, more, acked_bytes, window in steps:
            at_ns += pause_ms * MS
            written += more
            sample = info(acked_bytes=acked_bytes, window_bytes=window)
            acked.append(evidence.acked_bytes(sample))
            evidence.seen(sample, offset_ns=at_ns, written_bytes=written, buffered_bytes=0, acked_count=acked[-1])

        assert acked == sorted(acked)
        assert [s.acked_count for s in evidence.samples] == sorted(s.acked_count for s in evidence.samples)
        assert all(b.offset_ns - a.offset_ns >= 0 for a, b in zip(evidence.samples, evidence.samples[1:], strict=False))
        assert HELD_NS == 100 * MS


class Link:
    """A last link in arithmetic: what is taken is acknowledged a round trip later, unless nothing gets through then."""

    SIZE_BYTES = 200

    def __init__(self, taken_ms, *, round_trip_ms, hiccups_ms, is_known=True):
        self.taken = [at_ms * MS for at_ms in taken_ms]
        self.acked = []
        for taken_ns in self.taken:
            acked_ns = taken_ns + round_trip_ms * MS
            for start_ms, length_ms in sorted(hiccups_ms):
                if start_ms * MS <= acked_ns < (start_ms + length_ms) * MS:
                    acked_ns = (start_ms + length_ms) * MS
            self.acked.append(max([acked_ns, *self.acked[-1:]]))
        self.travel_ns = round_trip_ms * MS * is_known
        self.evidence = Evidence(base_bytes=0)

    def look(self, at_ns):
        """As `exchanges.Live` does."""
        count, acked_count = bisect_right(self.taken, at_ns), bisect_right(self.acked, at_ns)
        if self.evidence.is_settled(count * self.SIZE_BYTES):
            return
        self.evidence.seen(
            info(
                acked_bytes=acked_count * self.SIZE_BYTES,
                in_flight_segments=count - acked_count,
                round_trip_us=self.travel_ns // 1_000 or None,
            ),
            offset_ns=at_ns,
            written_bytes=count * self.SIZE_BYTES,
            buffered_bytes=0,
            acked_count=acked_count,
        )

    def watch(self, *late_ms):
        """Look until everything is acknowledged; each look comes so much later than it should."""
        at_ns = 0
        for more_ms in itertools.cycle(late_ms):
            at_ns += TICK_NS + more_ms * MS
            self.look(at_ns)
            if at_ns > self.acked[-1]:
                return

    def told(self):
        """How long after the peer's kernel had it the verdict believes that it had it, for each event."""
        stamps = tuple(
            Stamp(seq, at_ns, at_ns, EventClass.CONTENT, 4 * seq, is_exact=True) for seq, at_ns in enumerate(self.taken)
        )
        timeline = Timeline(
            unit_ns=1,
            quantum=1,
            stamps=stamps,
            samples=tuple(self.evidence.samples),
            window_peak_bytes=self.evidence.window_peak_bytes,
            round_trip_ns=self.evidence.round_trip_ns,
        )
        lane = lane_of(a_hop(timeline=timeline), frozenset({EventClass.CONTENT}))
        return [told - (acked - self.travel_ns) for told, acked in zip(acknowledged(lane), self.acked, strict=True)]


class TestEvidenceTogetherWithTheVerdict:
    """What is kept here is enough for `otel.align.acknowledged` to tell when the reader's kernel had each event."""

    LATE_MS = 15

    @given(
        pauses_ms=st.lists(st.integers(0, 60) | st.integers(0, 600), min_size=1, max_size=120),
        round_trip_ms=st.integers(0, 400),
        hiccups_ms=st.lists(st.tuples(st.integers(0, 6_000), st.integers(0, 3_000)), max_size=4),
        late_ms=st.lists(st.integers(0, LATE_MS), min_size=1, max_size=7),
        is_known=st.booleans(),
    )
    def test_it_is_right_to_two_looks_and_to_what_an_acknowledgement_may_be_late(
        self, pauses_ms, round_trip_ms, hiccups_ms, late_ms, is_known
    ):
        taken_ms = itertools.accumulate(pauses_ms)
        link = Link(taken_ms, round_trip_ms=round_trip_ms, hiccups_ms=hiccups_ms, is_known=is_known)
        link.watch(*late_ms)
        told = link.told()

        assert max(told) <= SAMPLE_NS == 2 * TICK_NS
        assert min(told) >= -(LATE_ACK_NS + TICK_NS + 2 * self.LATE_MS * MS)

    @pytest.mark.parametrize("round_trip_ms", [1, 60, 99, 101, 400])
    def test_a_hiccup_on_a_busy_stream_leaves_a_few_samples_and_ends_when_it_does(self, round_trip_ms):
        link = Link(range(0, 40_000, 20), round_trip_ms=round_trip_ms, hiccups_ms=[(5_000, 450), (35_000, 450)])
        link.watch(1)
        samples = [sample.offset_ns // MS for sample in link.evidence.samples]

        assert {at_ms // 1_000 for at_ms in samples} <= {5, 35}
        assert 2 <= len(samples) <= 2 * (5 + round_trip_ms // 100)
        assert max(link.told()) <= TICK_NS + 2 * MS

    @pytest.mark.parametrize("round_trip_ms", [0, 60, 180, 320, 400])
    def test_a_healthy_stream_to_a_reader_far_away_leaves_none(self, round_trip_ms):
        link = Link(range(0, 10_000, 30), round_trip_ms=round_trip_ms, hiccups_ms=[])
        link.watch(0, 7)

        assert link.evidence.samples == []
        assert link.told() == [0] * len(link.taken)


@asynccontextmanager
async def connected(*, receive_bytes=None):
    """Both ends of a connection: ours as a transport, the peer's as a plain socket."""
    server = socket.create_server(("127.0.0.1", 0))
    peer = socket.socket()
    if receive_bytes:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    peer.connect(server.getsockname())
    ours, _ = server.accept()
    server.close()
    transport, _ = await asyncio.get_running_loop().create_connection(asyncio.Protocol, sock=ours)
    try:
        yield transport, peer
    finally:
        transport.abort()
        peer.close()
        await asyncio.sleep(0)


async def settle():
    await asyncio.sleep(0.02)


class TestConnection:
    async def test_what_was_written_is_in_our_kernel_or_in_our_buffer(self):
        async with connected(receive_bytes=4_096) as (transport, _peer):
            connection = Connection(transport)
            connection.tune()
            base = connection.sent_bytes()
            written = 0
            while not connection.buffered_bytes:
                transport.write(bytes(16_384))
                written += 16_384
                await settle()

            assert connection.sent_bytes() - base == written
            assert connection.unacknowledged_bytes() > 0
            # At most what the limit lets in, and a segment's worth: what the reader does not take stays with us.
            assert connection.tcp_info().notsent_bytes < NOTSENT_LOWAT_BYTES + 65_536

    async def test_the_round_trip_is_measured_by_the_kernel(self):
        async with connected() as (transport, peer):
            transport.write(b"x")
            assert peer.recv(1) == b"x"
            await settle()

            assert 0 < Connection(transport).tcp_info().round_trip_us < 1_000_000

    async def test_acknowledged_bytes_are_the_peers(self):
        async with connected() as (transport, peer):
            connection = Connection(transport)
            evidence = Evidence(base_bytes=connection.sent_bytes())
            transport.write(b"x" * 1_000)
            assert peer.recv(2_000) == b"x" * 1_000
            await settle()

            assert evidence.acked_bytes(connection.tcp_info()) == 1_000
            assert connection.unacknowledged_bytes() == 0

    async def test_unread_bytes_are_those_we_have_not_read(self):
        async with connected() as (transport, peer):
            transport.pause_reading()
            await settle()
            peer.sendall(b"y" * 77)
            await settle()

            assert Connection(transport).unread_bytes() == 77

    async def test_a_closed_connection_is_not_asked_any_more(self):
        async with connected() as (transport, _peer):
            connection = Connection(transport)
            transport.close()

            assert not connection.is_open
            assert connection.tcp_info() is None
            assert connection.unread_bytes() is None
            assert connection.sent_bytes() is None
            connection.tune()
            connection.reset()

    async def test_a_reset_is_no_orderly_end(self):
        async with connected() as (transport, peer):
            Connection(transport).reset()
            await settle()

            with pytest.raises(ConnectionResetError):
                peer.recv(1)


class TestHowThePeerLeft:
    """Known to our kernel, also where nobody reads from the connection."""

    @staticmethod
    async def seen(connection):
        async with asyncio.timeout(5):
            while (left_by := connection.left_by()) is None:
                await asyncio.sleep(0.005)
        return left_by

    async def test_one_that_is_there_has_not_left(self):
        async with connected() as (transport, peer):
            peer.sendall(b"x")
            await settle()

            assert Connection(transport).left_by() is None

    async def test_an_end_behind_bytes_that_nobody_reads(self):
        async with connected() as (transport, peer):
            connection = Connection(transport)
            assert connection.is_reading
            transport.pause_reading()
            assert not connection.is_reading
            peer.sendall(b"x" * 1_000)
            peer.shutdown(socket.SHUT_WR)

            assert await self.seen(connection) == "fin"

    async def test_a_reset_behind_a_window_that_is_closed(self):
        async with connected(receive_bytes=4_096) as (transport, peer):
            connection = Connection(transport)
            connection.tune()
            transport.pause_reading()
            while not connection.buffered_bytes:
                transport.write(bytes(16_384))
                await settle()
            assert connection.left_by() is None
            peer.close()  # with bytes that it has not read

            # Where the event loop meets the error in writing, it closes the transport before anybody asks.
            async with asyncio.timeout(5):
                while connection.is_open and (left_by := connection.left_by()) is None:
                    await asyncio.sleep(0.005)
            assert not connection.is_open or left_by == "reset"

    async def test_a_peer_on_this_machine(self):
        ours, peer = socket.socketpair(socket.AF_UNIX)
        transport, _ = await asyncio.get_running_loop().create_unix_connection(asyncio.Protocol, sock=ours)
        try:
            connection = Connection(transport)
            transport.pause_reading()
            assert connection.left_by() is None
            peer.close()

            assert await self.seen(connection) == "fin"
            assert connection.tcp_info() is None
        finally:
            transport.abort()
            await asyncio.sleep(0)

    async def test_a_connection_that_is_closed_is_not_asked(self):
        async with connected() as (transport, _peer):
            transport.close()

            assert Connection(transport).left_by() is None
