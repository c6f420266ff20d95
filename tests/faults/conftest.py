"""Whatever runs in the test's own loop runs on both kinds of it; processes choose theirs themselves."""

from __future__ import annotations

import asyncio

import uvloop

WITH_PROCESSES = {"test_memory.py", "test_drain.py", "test_telemetry_faults.py", "test_descriptors.py"}


def pytest_asyncio_loop_factories(config, item):
    if item.path.name in WITH_PROCESSES:
        return {"asyncio": asyncio.new_event_loop}
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
