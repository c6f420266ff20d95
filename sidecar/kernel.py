"""What the kernel knows of a downstream connection: has the peer's kernel got the bytes, and if not, why not.

`parse_tcp_info` reads Linux's `struct tcp_info`, which only ever grows at its end. `Evidence` decides which samples
of an exchange are kept. Elsewhere than on Linux there are no samples, and a verdict says that they are missing.

A connection is asked only while its transport is open: afterwards the number of its descriptor may be another
connection's, and a duplicate would keep the peer from ever seeing the end.
"""

from __future__ import annotations

import asyncio
import fcntl
import select
import socket
import struct
import sys
import termios
from collections import deque
from typing import Final, NamedTuple

from otel.hop import KernelSample

TICK_NS: Final = 100_000_000
"""At most ten samples a second of one connection; one costs about 2 µs."""
HELD_NS: Final = 100_000_000
"""Bytes not acknowledged for a round trip and so long are evidence: an acknowledgement may be delayed by 40 ms without
any fault."""
ROUND_TRIP_NS: Final = 1_000_000_000
"""The longest round trip that is believed: no path on earth needs it."""
LOOKS: Final = 16
"""Looks remembered, to know what had been written a round trip ago."""
KEPT: Final = 2_048
"""Samples kept of one exchange, 48 bytes each; past it every second one goes."""
NOTSENT_LOWAT_BYTES: Final = 4_096
"""Not-yet-sent bytes from which our kernel takes no more: so a slow reader is felt here, and soon."""

KEEPALIVE_S: Final = (60, 15, 4)
"""Silence, pause between looks and looks after which a machine counts as gone: 2 minutes, where Linux takes 2 hours."""

_IS_LINUX: Final = sys.platform == "linux"
_TCP_INFO: Final = 11
_TCP_NOTSENT_LOWAT: Final = 25
_LAYOUT: Final = struct.Struct("=BB2xB19xI4xI84xQ16xII76xI")  # to tcpi_snd_wnd, which Linux has since 5.4
_UNKNOWN_US: Final = 0xFFFF_FFFF
_INT: Final = struct.Struct("=i")
_PEER_ENDED: Final = getattr(select, "POLLRDHUP", 0)  # only Linux has it


class TcpInfo(NamedTuple):
    """The fields of `struct tcp_info` that a verdict uses. round_trip_us: the shortest of late; None when unknown.

    A tuple, for one is made of each stream ten times a second."""

    state: int
    congestion_state: int
    backoff: int
    in_flight_segments: int
    lost_segments: int
    acked_bytes: int
    notsent_bytes: int
    round_trip_us: int | None
    window_bytes: int


def parse_tcp_info(data: bytes) -> TcpInfo | None:
    """The fields of a `struct tcp_info`, None when the kernel's is too old to have them all."""
    if len(data) < _LAYOUT.size:
        return None
    info = TcpInfo._make(_LAYOUT.unpack_from(data))
    return info._replace(round_trip_us=None) if info.round_trip_us == _UNKNOWN_US else info


def keep_alive(sock: socket.socket) -> None:
    """Have the kernel find out that the other machine is gone: a silent stream may wait for hours."""
    if sock.family not in {socket.AF_INET, socket.AF_INET6}:
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in zip(("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT"), KEEPALIVE_S, strict=True):
        if (option := getattr(socket, name, None)) is not None:
            sock.setsockopt(socket.IPPROTO_TCP, option, value)


class Connection:
    """One TCP connection seen through its transport. Every question gives None once it cannot be answered."""

    __slots__ = ("_is_tuned", "_sent_bytes", "_socket", "_transport")

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._socket: socket.socket | None = transport.get_extra_info("socket")
        self._is_tuned = False
        self._sent_bytes: int | None = None

    @property
    def is_open(self) -> bool:
        return not self._transport.is_closing()

    @property
    def is_reading(self) -> bool:
        """Not paused; while it is paused, the event loop does not see the peer's end."""
        return self._transport.is_reading()

    @property
    def buffered_bytes(self) -> int:
        """Bytes that our kernel has not taken yet."""
        return self._transport.get_write_buffer_size()

    def tune(self) -> None:
        """Make writing honest: what the reader does not take stays with us, and we see it at once."""
        if self._is_tuned or self._socket is None or not self.is_open:
            return
        self._is_tuned = True
        self._transport.set_write_buffer_limits(high=0)
        if _IS_LINUX and self._socket.family in {socket.AF_INET, socket.AF_INET6}:
            self._socket.setsockopt(socket.IPPROTO_TCP, _TCP_NOTSENT_LOWAT, NOTSENT_LOWAT_BYTES)

    def tcp_info(self) -> TcpInfo | None:
        if not _IS_LINUX or self._socket is None or not self.is_open:
            return None
        try:
            return parse_tcp_info(self._socket.getsockopt(socket.IPPROTO_TCP, _TCP_INFO, 256))
        except OSError:
            return None

    def left_by(self) -> str | None:
        """How the peer has left, `fin` or `reset`, as far as our kernel knows; bytes may wait before that end."""
        if self._socket is None or not self.is_open:
            return None
        looking = select.poll()
        looking.register(self._socket.fileno(), _PEER_ENDED)
        events = sum(events for _, events in looking.poll(0))
        if events & select.POLLERR:
            return "reset"
        return "fin" if events & (_PEER_ENDED | select.POLLHUP) else None

    def unacknowledged_bytes(self) -> int | None:
        """Bytes in our kernel that the peer's has not acknowledged (SIOCOUTQ)."""
        return self._ask(termios.TIOCOUTQ)

    def unread_bytes(self) -> int | None:
        """Bytes in our kernel that we have not read (FIONREAD)."""
        return self._ask(termios.FIONREAD)

    def sent_bytes(self) -> int | None:
        """All bytes that this connection ever was given to send, acknowledged or not: as `sent` said last, else by the
        kernel."""
        if self._sent_bytes is not None:
            return self._sent_bytes
        if self._transport.get_extra_info("ssl_object") is not None:
            return None  # the kernel counts what TLS has made of them
        info, rest = self.tcp_info(), self.unacknowledged_bytes()
        return None if info is None or rest is None else info.acked_bytes + rest + self.buffered_bytes

    def sent(self, size_bytes: int | None) -> None:
        """All that it ever was given is so much, None where that has to be asked."""
        self._sent_bytes = size_bytes

    def close(self) -> None:
        """Close when what was written is sent."""
        self._transport.close()

    def abort(self) -> None:
        """Close now, without what waits to be sent."""
        self._transport.abort()

    def reset(self) -> None:
        """Close so that the peer cannot take it for a regular end: with a reset."""
        if self._socket is not None and self.is_open:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._transport.abort()

    def _ask(self, request: int) -> int | None:
        if self._socket is None or not self.is_open:
            return None
        try:
            answer = _INT.unpack(fcntl.ioctl(self._socket.fileno(), request, _INT.pack(0)))[0]
        except OSError:
            return None
        return int(answer)


class Evidence:
    """The samples of one exchange, thinned to those that a verdict can use.

    Byte counts are of this exchange's response alone, head and framing included: base_bytes, what the connection
    had been given before, is taken off. round_trip_ns: the shortest seen.
    """

    __slots__ = (
        "_acked_bytes",
        "_base_bytes",
        "_marks",
        "_owed_bytes",
        "_peak",
        "dropped_count",
        "round_trip_ns",
        "samples",
        "window_peak_bytes",
    )

    def __init__(self, *, base_bytes: int) -> None:
        self._base_bytes = base_bytes
        self._acked_bytes = 0
        self._marks: deque[tuple[int, int]] = deque(maxlen=LOOKS)  # when we looked, what had been written by then
        self._owed_bytes: int | None = None  # written by the last sample that said something; it waits for them
        self._peak: KernelSample | None = None  # where the window was the largest yet, until that is kept
        self.samples: list[KernelSample] = []
        self.window_peak_bytes: int | None = None
        self.round_trip_ns: int | None = None
        self.dropped_count = 0

    def sent_bytes(self, written_bytes: int) -> int:
        """All that the connection ever was given, when so much of this response was written."""
        return self._base_bytes + written_bytes

    def is_settled(self, written_bytes: int) -> bool:
        """The peer's kernel is known to have had everything, so there is nothing to ask."""
        return self._acked_bytes >= written_bytes

    def acked_bytes(self, info: TcpInfo) -> int:
        """Bytes of this response that the peer's kernel has; they never become fewer."""
        self._acked_bytes = max(self._acked_bytes, info.acked_bytes - self._base_bytes)
        return self._acked_bytes

    def seen(self, info: TcpInfo, *, offset_ns: int, written_bytes: int, buffered_bytes: int, acked_count: int) -> None:
        """Look at one sample, and keep it where it says something.

        Kept is what shows bytes that were written HELD_NS and a round trip ago and are still not acknowledged, or a
        window of at most half its own peak; and then every look until what had been written by that time is
        acknowledged, whatever was written since. Before one with a smaller window stands the look at its peak so far:
        what it grows to later says nothing of then.
        """
        acked_bytes = self.acked_bytes(info)
        held_bytes = self._written_before(offset_ns - HELD_NS - self._shortest_ns(info))
        self._marks.append((offset_ns, written_bytes))
        is_peak = self.window_peak_bytes is None or info.window_bytes > self.window_peak_bytes
        if is_peak:
            self.window_peak_bytes = info.window_bytes
        is_telling = acked_bytes < held_bytes or info.window_bytes * 2 <= (self.window_peak_bytes or 0)
        if not (is_peak or is_telling or self._owed_bytes is not None):
            return  # as nearly every look at a reader that keeps up
        sample = KernelSample(
            offset_ns=offset_ns,
            acked_count=acked_count,
            in_flight_segments=info.in_flight_segments,
            unsent_bytes=info.notsent_bytes + buffered_bytes,
            window_bytes=info.window_bytes,
            lost_segments=info.lost_segments,
            congestion_state=info.congestion_state,
            backoff=info.backoff,
        )
        if is_peak:
            self._peak = sample
        if not is_telling and self._owed_bytes is None:
            return
        if is_telling:
            self._owed_bytes = written_bytes
        if self._owed_bytes is not None and acked_bytes >= self._owed_bytes:
            self._owed_bytes = None
        if self._peak is not None and sample.window_bytes < self._peak.window_bytes:
            self.samples.append(self._peak)
        self._peak = None
        self.samples.append(sample)
        if len(self.samples) > KEPT:
            self._thin()

    def _thin(self) -> None:
        """Every second sample goes, and none that shows the window at its peak."""
        peak = max(self.samples, key=lambda sample: sample.window_bytes)
        kept = [sample for index, sample in enumerate(self.samples) if index % 2 == 0 or sample is peak]
        self.dropped_count += len(self.samples) - len(kept)
        self.samples = kept

    def _shortest_ns(self, info: TcpInfo) -> int:
        if info.round_trip_us is not None:
            shortest_ns = ROUND_TRIP_NS if self.round_trip_ns is None else self.round_trip_ns
            self.round_trip_ns = min(info.round_trip_us * 1_000, shortest_ns)
        return self.round_trip_ns or 0

    def _written_before(self, at_ns: int) -> int:
        return next((written for looked_ns, written in reversed(self._marks) if looked_ns <= at_ns), 0)
