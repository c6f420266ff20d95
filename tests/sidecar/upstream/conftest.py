"""The edges run on both event loops: how a close, a reset or a full buffer shows is each one's own affair."""

import asyncio

import uvloop

ON_BOTH_LOOPS = {"test_ask.py", "test_connection.py", "test_dial.py"}


def pytest_asyncio_loop_factories(config, item):
    if item.path.name in ON_BOTH_LOOPS:
        return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
    return {"asyncio": asyncio.new_event_loop}
