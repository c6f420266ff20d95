"""A chain of our apps in a network of its own: a worker that pours, hops of the demo, a sidecar before each."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from otel.demo.faults import CLIENT, SLOW_FIRST_S
from otel.demo.processes import Processes, get
from otel.demo.topology import COLLECTOR, command, sidecar_of
from tests.lab.namespaces import CONTROL, Network

DOOR, APP, ADMIN, SPANS, QUERY = 8_000, 8_001, 8_002, 4_318, 24_070
"""Ports, the same in every namespace: nobody else listens in one."""
HEARTBEAT: Final = "30s"
"""Longer than any trial: what is told of a stream is told because it stalls."""


@dataclass(frozen=True, slots=True)
class Linked:
    """A running chain. hops: source first, as in the network, which has the reader behind them."""

    network: Network
    hops: tuple[str, ...]
    folder: Path

    @property
    def asked(self) -> tuple[str, int]:
        """Where the reader asks."""
        return self.network.address(self.hops[-1]), DOOR

    def collected(self, path: str) -> Any:
        """What the collector answers."""
        with self.network.inside(CONTROL):
            return json.loads(get(f"http://127.0.0.1:{QUERY}{path}")[1])

    def running(self, hop: str) -> list[dict[str, Any]]:
        """The streams that run in the sidecar of this hop, as it says itself."""
        with self.network.inside(hop):
            streams: list[dict[str, Any]] = json.loads(get(f"http://127.0.0.1:{ADMIN}/streams")[1])["streams"]
        return streams

    def logged(self, hop: str, message: str) -> list[dict[str, Any]]:
        """The lines with this message in the log of the hop's sidecar."""
        text = (self.folder / f"{sidecar_of(hop)}.log").read_text("utf-8")
        lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
        return [line for line in lines if line.get("message") == message]


@contextmanager
def running(network: Network, folder: Path, *, exact: bool = False) -> Iterator[Linked]:
    """The chain in this network, whose first place is the worker's and whose last the reader's."""
    hops = network.places[:-1]
    with Processes(folder, is_ready=network.is_ready) as processes:
        spans = f"{network.control_address()}:{SPANS}"
        collector = command(
            COLLECTOR,
            ("otel", "--grpc", "off", "--http", spans, "--insecure", "--query", f"127.0.0.1:{QUERY}"),
            ("--data", str(folder / "data"), "--path", ",".join(hops), "--first-event-after", f"{SLOW_FIRST_S:g}s"),
            ready=f"http://127.0.0.1:{QUERY}/readyz",
        )
        processes.start(network.wrap(collector, CONTROL))
        app: tuple[str, ...] = ("tests.lab.pouring",)
        app_url = f"http://127.0.0.1:{APP}"
        for hop in hops:
            run = app if hop == hops[0] else (*app, hop)
            sidecar = command(
                sidecar_of(hop),
                ("sidecar", "--hop", hop, "--listen", f"{network.address(hop)}:{DOOR}", "--upstream", app_url),
                ("--export", f"http://{spans}", "--admin", f"127.0.0.1:{ADMIN}", "--heartbeat", HEARTBEAT),
                ("--log-format", "json", *(("--exact",) if exact else ())),
                ready=f"http://127.0.0.1:{ADMIN}/readyz",
            )
            processes.start(network.wrap(command(hop, run, ("--port", str(APP)), ready=f"{app_url}/healthz"), hop))
            processes.start(network.wrap(sidecar, hop))
            app = ("otel.demo.middle", "--next", f"http://{network.address(hop)}:{DOOR}", "--hop")
        processes.wait_ready(lambda _: None)
        yield Linked(network, hops, folder)


def connected(linked: Linked, *, receive_bytes: int | None = None, place: str = CLIENT) -> socket.socket:
    """A connection of the reader to where it asks. receive_bytes: SO_RCVBUF, None is the kernel's choice."""
    with linked.network.inside(place):
        wire = socket.socket()
    try:
        if receive_bytes is not None:
            wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        wire.settimeout(30)
        wire.connect(linked.asked)
    except OSError:
        wire.close()
        raise
    return wire


def watched(look: Callable[[], None], *, every_s: float) -> Callable[[], None]:
    """Look again and again, in a thread of its own; returned is what ends it, and raises what ended it before."""
    done = threading.Event()
    failed: list[BaseException] = []

    def go_on() -> None:
        try:
            while not done.wait(every_s):
                look()
        except BaseException as error:  # raised where the thread is waited for
            failed.append(error)

    thread = threading.Thread(target=go_on, daemon=True)
    thread.start()

    def end() -> None:
        done.set()
        thread.join()
        if failed:
            raise failed[0]

    return end
