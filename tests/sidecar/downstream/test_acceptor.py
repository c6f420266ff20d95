import asyncio
import json
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from otel.settings import Address
from sidecar.downstream.acceptor import Acceptor
from sidecar.downstream.doors import REFUSED
from sidecar.downstream.sockets import open_sockets
from tests.support.front import front, until

ROOT = Path(__file__).parents[3]
STARVED = """
import asyncio, json, os, resource, socket, sys, time
import uvloop
from tests.support.front import ask_raw, front

GET = b"GET /x HTTP/1.1\\r\\nHost: h\\r\\nConnection: close\\r\\n\\r\\n"


async def main():
    async with front() as at:
        waiting = [socket.create_connection(("127.0.0.1", at.port)) for _ in range(20)]
        for each in waiting:
            each.sendall(GET)
        held = []
        try:
            while True:
                held.append(os.open("/dev/null", os.O_RDONLY))
        except OSError:
            pass
        before_s = time.process_time()
        await asyncio.sleep(1)
        busy_s = time.process_time() - before_s
        pauses, seen = at.listener.pause_count, len(at.relay.seen)
        for each in held:
            os.close(each)
        loop = asyncio.get_running_loop()
        answers = []
        for each in waiting:
            each.settimeout(5)
            answers.append(await loop.run_in_executor(None, each.recv, 100))
            each.close()
        again = await ask_raw(at.port, GET)
    print(json.dumps({"busy_s": busy_s, "pauses": pauses, "seen": seen,
                      "answered": sum(a.startswith(b"HTTP/1.1 200 ") for a in answers), "again": again.decode()[:13]}))

resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
factory = uvloop.new_event_loop if sys.argv[1] == "uvloop" else asyncio.new_event_loop
with asyncio.Runner(loop_factory=factory) as runner:
    runner.run(main())
"""


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_without_descriptors_accepting_rests_and_nobody_in_the_queue_is_lost(loop):
    ran = subprocess.run(
        [sys.executable, "-c", STARVED, loop], cwd=ROOT, capture_output=True, text=True, timeout=40, check=False
    )
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout)

    assert told["seen"] < 20
    assert 1 <= told["pauses"] <= 15  # ten a second
    assert told["busy_s"] < 0.3
    assert told["answered"] == 20
    assert told["again"] == "HTTP/1.1 200 "


async def test_what_is_in_the_kernels_queue_when_listening_ends_is_accepted():
    admitted = []

    class Noted(asyncio.Protocol):
        def connection_made(self, transport):
            admitted.append(transport)

    async with front() as at:
        [listening] = open_sockets(Address("127.0.0.1", 0))
        acceptor = Acceptor([listening], make_door=Noted, doors=at.doors, tls=None, handshake_timeout_s=1)
        acceptor.start()
        with ExitStack() as held:
            for _ in range(100):
                held.enter_context(socket.create_connection(listening.getsockname()))
            acceptor.stop()  # before the event loop could accept any
            await until(lambda: len(admitted) == 100 and not at.doors.handshake_count)
            assert listening.fileno() == -1
            for each in admitted:
                each.close()


async def test_a_flood_beyond_the_limit_waits_in_the_kernels_queue():
    async with front(limit=0) as at:
        clients = [socket.create_connection(("127.0.0.1", at.port)) for _ in range(REFUSED + 20)]
        await until(lambda: at.doors.open_count == REFUSED)
        await asyncio.sleep(0.05)
        assert at.doors.open_count == REFUSED
        for each in clients:
            each.close()
        await until(lambda: at.doors.open_count == 0 and at.doors.refused_count == REFUSED + 20)
