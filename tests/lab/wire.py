"""Carries packets between network namespaces: one process for all links, each between two TUN devices.

    python -m tests.lab.wire --line LINE --line LINE ... --ends FD FD --ends FD FD ... --seed N

The devices are open descriptors that come with the process and go with it. A line of standard input is a `Change`; its
end is the end of the process. A line is `Line` as JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import select
import sys
import time
from collections.abc import Sequence
from typing import Final

from tests.lab.links import NS, Change, Line, Pipe

PACKET_BYTES: Final = 2_048
"""More than a packet of these devices may have (MTU 1,500)."""
AT_ONCE: Final = 64
"""Packets read from one device before the others have their turn."""


class Wire:
    """All links: descriptor of a device → the pipe that begins there and the device where it ends."""

    def __init__(self, ends: Sequence[tuple[int, int]], lines: Sequence[Line], *, seed: int) -> None:
        self._links = [(Pipe(line), Pipe(line)) for line in lines]
        self._pipes: dict[int, tuple[Pipe, int]] = {}
        for (there, back), (one, other) in zip(self._links, ends, strict=True):
            self._pipes[one], self._pipes[other] = (there, other), (back, one)
        self._draw = random.Random(seed)

    def run(self, changes: int) -> None:
        """Until that descriptor ends."""
        text = b""
        while True:
            now_ns = time.monotonic_ns()
            due_ns = min(
                (ns for pipe, _ in self._pipes.values() if (ns := pipe.due_ns(now_ns)) is not None), default=None
            )
            timeout_s = None if due_ns is None else max(0, due_ns - now_ns) / NS
            ready, _, _ = select.select([*self._pipes, changes], [], [], timeout_s)  # to the microsecond, unlike epoll
            if changes in ready:
                if not (data := os.read(changes, 65_536)):
                    return
                *done, text = (text + data).split(b"\n")
                for each in done:
                    self._change(Change.from_json(each.decode()))
            for device in ready:
                if device != changes:
                    self._read(device)
            self._write()

    def _change(self, change: Change) -> None:
        for pipe in self._links[change.link]:
            pipe.change(change.line, change.until_ns)

    def _read(self, device: int) -> None:
        pipe, _ = self._pipes[device]
        for _ in range(AT_ONCE):
            try:
                packet = os.read(device, PACKET_BYTES)
            except BlockingIOError:
                return
            pipe.offer(packet, time.monotonic_ns(), self._draw.random())

    def _write(self) -> None:
        now_ns = time.monotonic_ns()
        for pipe, device in self._pipes.values():
            for packet in pipe.take(now_ns):
                os.write(device, packet)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.lab.wire")
    parser.add_argument("--line", type=json.loads, action="append", required=True)
    parser.add_argument("--ends", type=int, nargs=2, action="append", required=True)
    parser.add_argument("--seed", type=int, required=True)
    options = parser.parse_args()
    wire = Wire(
        [(one, other) for one, other in options.ends], [Line(**line) for line in options.line], seed=options.seed
    )
    wire.run(sys.stdin.fileno())


if __name__ == "__main__":
    main()
