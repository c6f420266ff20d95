"""How many connections this process may hold open: raise what the system lets us, and derive the rest from it."""

from __future__ import annotations

import resource
from typing import Final

CEILING: Final = 1_048_576
"""Descriptors that are enough: some tables of the kernel and of programs grow with the limit, and a hard limit may be
a thousand times as high, or none."""
RESERVED: Final = 160
"""Descriptors for all that is no exchange: 64 connections that are only refused, 32 of the admin address, and listening
sockets, exporter, spool and event loop."""
PER_EXCHANGE: Final = 2
"""The reader's connection, and ours to the upstream."""


def raise_limit(*, ceiling: int = CEILING) -> int:
    """Raise the soft limit of open descriptors to the hard one, at most to the ceiling; what holds from now on."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = ceiling if hard == resource.RLIM_INFINITY else min(hard, ceiling)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return ceiling if soft == resource.RLIM_INFINITY else soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError):  # a sandbox may forbid it; the limit that holds is as good, only lower
        return soft
    return wanted


def connection_limit(descriptor_limit: int) -> int:
    """Readers' connections that fit, each with one to the upstream; at least one."""
    return max(1, (descriptor_limit - RESERVED) // PER_EXCHANGE)
