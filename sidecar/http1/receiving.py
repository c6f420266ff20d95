"""What a connection does with each read: the time first, and then the usual way, which is short, or the other one.

Usual are whole chunks where the next byte begins one. They need no reader, whose state they leave as it was.
`sidecar.native` has the same, compiled.
"""

from __future__ import annotations

from collections.abc import Callable

from sidecar.http1.chunked import whole_chunks

Sink = Callable[[bytes, int, bytes], None]
"""Takes content, when it came, and the chunks in which it did."""
Came = Callable[[bytes, int], None]
"""Takes a read as it is, and when it came."""


class Receiver:
    """Called with the size of each read that is in the buffer.

    sink: takes whole chunks; None while the next byte does not begin one, or nobody waits for any.
    """

    __slots__ = ("_buffer", "_came", "_clock", "sink")

    def __init__(self, buffer: memoryview, clock: Callable[[], int], came: Came) -> None:
        self._buffer = buffer
        self._clock = clock
        self._came = came
        self.sink: Sink | None = None

    def __call__(self, size_bytes: int) -> None:
        at_ns, data = self._clock(), bytes(self._buffer[:size_bytes])
        if self.sink is not None and data.endswith(b"\r\n"):
            content, at = whole_chunks(data, 0)
            if content and at == len(data):
                self.sink(content, at_ns, data)
                return
        self._came(data, at_ns)
