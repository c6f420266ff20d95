"""Starts the processes of a chain on free ports, and on others where somebody was faster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from otel.demo.processes import PortTakenError, Processes, free_ports
from otel.demo.topology import Topology

TRIES: Final = 3
"""A port is free when it is looked for, and may be taken before it is used: rarely, and hardly ever three times."""


def started(processes: Processes, placing: Callable[[Sequence[int]], Topology], *, ports: int) -> Topology:
    """What `placing` makes of so many ports, when all of it answers. Raises PortTakenError after the last try."""
    for _ in range(TRIES - 1):
        try:
            return _started(processes, placing(free_ports(ports)))
        except PortTakenError:
            processes.stop()
    return _started(processes, placing(free_ports(ports)))


def _started(processes: Processes, placed: Topology) -> Topology:
    for command in placed.commands:
        processes.start(command)
    processes.wait_ready(lambda _: None)
    return placed
