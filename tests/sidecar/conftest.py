"""The edges run on both event loops: what `taken` means must not depend on which one it is."""

import asyncio
from contextlib import asynccontextmanager

import pytest
import uvloop

ON_BOTH_LOOPS = {
    "test_account.py",
    "test_acceptor.py",
    "test_admin.py",
    "test_assembly.py",
    "test_carriage.py",
    "test_channel.py",
    "test_conversation.py",
    "test_door.py",
    "test_kernel.py",
    "test_listener.py",
    "test_question.py",
    "test_relay.py",
    "test_contexts.py",
    "test_transport.py",
    "test_tunnel.py",
    "test_watch.py",
}


def pytest_asyncio_loop_factories(config, item):
    if item.path.name in ON_BOTH_LOOPS:
        return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
    return {"asyncio": asyncio.new_event_loop}


@pytest.fixture
def running():
    """Tasks that run for as long as the block does."""

    @asynccontextmanager
    async def run(*coroutines):
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(each) for each in coroutines]
            try:
                yield
            finally:
                for task in tasks:
                    task.cancel()

    return run
