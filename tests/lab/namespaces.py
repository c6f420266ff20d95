r"""A network of its own for a chain: one namespace for every place, neighbours joined by links that can be bad.

    model-worker ── link 0 ── inference-proxy ── link 1 ── gateway ── link 2 ── client
           \                       |                          |
            \______________________|__________________________|______ control (spans, readiness; never bad)

Namespaces have no names and devices no files: both are descriptors of this process and of the wire's, so nothing is
left behind, however the program ends. Nothing of the machine's own network is touched. Needs root and /dev/net/tun.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import shutil
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from otel.demo.processes import Command, get_ok, runs
from tests.lab.links import NS, Change, Line
from tests.readers.reading import Missing

CONTROL: Final = "control"
"""The namespace in which the collector runs and the lab asks."""
TO_READER, TO_SOURCE = "to-reader", "to-source"
"""How the devices of a place's links are called."""
STOP_WITHIN_S: Final = 2.0
_CLONE_NEWNET: Final = 0x4000_0000  # linux/sched.h
_TUNSETIFF: Final = 0x4004_54CA  # linux/if_tun.h
_IFF_TUN_NO_PI: Final = 0x1001
_TUN: Final = Path("/dev/net/tun")
_PACKAGES: Final = Path(__file__).parents[2]
_libc: Final = ctypes.CDLL(None, use_errno=True)


def missing() -> str | None:
    """Why there can be no such network here, None where there can."""
    if sys.platform != "linux":
        return "network namespaces are Linux's"
    if os.geteuid() != 0:
        return "network namespaces need root"
    if not _TUN.exists():
        return f"there is no {_TUN}"
    if lacks := [name for name in ("ip", "nsenter") if shutil.which(name) is None]:
        return f"there is no `{lacks[0]}` here"
    try:
        os.close(_new_namespace())
        os.close(os.open(_TUN, os.O_RDWR))
    except OSError as error:
        return f"this machine lets nobody make them: {error}"
    return None


class Network:
    """The namespaces and links of one chain, from `with` to its end.

    places: source first, the reader last. lines: what the link between two neighbours, source's side first, usually is;
    one that is not named is perfect. receive_bytes, send_bytes: the buffers of every socket in there, None for the
    kernel's own choice. seed: of all that is lost by chance.
    """

    def __init__(
        self,
        places: Sequence[str],
        *,
        lines: Mapping[tuple[str, str], Line] | None = None,
        receive_bytes: int | None = None,
        send_bytes: int | None = None,
        seed: int = 1,
    ) -> None:
        self.places = tuple(places)
        self.links = tuple(zip(self.places, self.places[1:], strict=False))
        if unknown := set(lines or {}) - set(self.links):
            raise ValueError(f"{sorted(unknown)}: a link joins two neighbours, the source's side first")
        self._lines = [(lines or {}).get(link, Line()) for link in self.links]
        self._buffers = {"tcp_rmem": receive_bytes, "tcp_wmem": send_bytes}
        self._seed = seed
        self._spaces: dict[str, int] = {}
        self._homes: dict[str, str] = {}
        self._wire: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        """Raises `Missing` where there can be no such network."""
        if (why := missing()) is not None:
            raise Missing(why)
        with ExitStack() as failing:
            failing.callback(self.close)
            for name in (CONTROL, *self.places):
                self._spaces[name] = _new_namespace()
            self._join_control()
            self._start_wire()
            failing.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the links and let the namespaces go; those in which a process runs end with it."""
        if self._wire is not None and self._wire.stdin is not None:
            self._wire.stdin.close()
            try:
                self._wire.wait(timeout=STOP_WITHIN_S)
            except subprocess.TimeoutExpired:
                self._wire.kill()
                self._wire.wait()
        self._wire = None
        for space in self._spaces.values():
            os.close(space)
        self._spaces.clear()

    @property
    def wire_pid(self) -> int | None:
        """The process that carries the packets, while there is one."""
        return None if self._wire is None else self._wire.pid

    # Where things are.

    def address(self, place: str) -> str:
        """Where the place is asked by its neighbour towards the reader."""
        return f"10.77.{self.places.index(place)}.1"

    def control_address(self, place: str = CONTROL) -> str:
        return f"10.78.0.{1 if place == CONTROL else self.places.index(place) + 2}"

    def wrap(self, command: Command, place: str) -> Command:
        """The command as one that runs in that namespace, under the same name and process id."""
        self._homes[command.name] = place
        space = f"--net=/proc/{os.getpid()}/fd/{self._spaces[place]}"
        return replace(command, program="nsenter", arguments=(space, *runs(command), *command.arguments))

    def is_ready(self, command: Command) -> bool:
        """Whether a command that was wrapped answers, asked where it runs; for `Processes`."""
        with self.inside(self._homes[command.name]):
            return get_ok(command.ready_url)

    @contextmanager
    def inside(self, place: str) -> Iterator[None]:
        """The calling thread, and what it opens and starts, is in that namespace; other threads are not."""
        home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        try:
            _enter(self._spaces[place])
            try:
                yield
            finally:
                _enter(home)
        finally:
            os.close(home)

    # What can go wrong while it runs. Each ends by itself, and takes the place of what went wrong on that link before.

    def black_hole(self, between: tuple[str, str], seconds: float) -> None:
        """Nothing passes."""
        self._change(between, replace(self._line(between), loss_share=1.0), seconds)

    def loss(self, between: tuple[str, str], share: float, seconds: float) -> None:
        """That share of the packets is lost, in both directions."""
        self._change(between, replace(self._line(between), loss_share=share), seconds)

    def rate(self, between: tuple[str, str], bits_per_s: float, seconds: float) -> None:
        """No more passes in each direction."""
        self._change(between, replace(self._line(between), bits_per_s=bits_per_s), seconds)

    def _line(self, between: tuple[str, str]) -> Line:
        return self._lines[self.links.index(between)]

    def _change(self, between: tuple[str, str], line: Line, seconds: float) -> None:
        if self._wire is None or self._wire.stdin is None:
            raise RuntimeError("the network is not up")
        change = Change(self.links.index(between), line, time.monotonic_ns() + round(seconds * NS))
        self._wire.stdin.write(change.to_json().encode() + b"\n")
        self._wire.stdin.flush()

    # Making it.

    def _join_control(self) -> None:
        """A bridge in `control`, and a cable from it to every place."""
        rows = ["link add hub type bridge", f"addr add {self.control_address()}/24 dev hub", "link set hub up"]
        for index, place in enumerate(self.places):
            there = f"/proc/{os.getpid()}/fd/{self._spaces[place]}"
            rows.append(f"link add port{index} type veth peer name {CONTROL} netns {there}")
            rows.append(f"link set port{index} master hub up")
        self._ip(CONTROL, ["link set lo up", *rows])
        for place in self.places:
            address = self.control_address(place)
            self._ip(place, ["link set lo up", f"addr add {address}/24 dev {CONTROL}", f"link set {CONTROL} up"])
            self._size_buffers(place)

    def _start_wire(self) -> None:
        with ExitStack() as devices:
            ends = []
            for index, (source, reader) in enumerate(self.links):
                sides = (source, TO_READER, 1, 2), (reader, TO_SOURCE, 2, 1)
                pair = []
                for place, name, own, peer in sides:
                    with self.inside(place):
                        device = _tun(name)
                    devices.callback(os.close, device)
                    address = f"addr add 10.77.{index}.{own} peer 10.77.{index}.{peer} dev {name}"
                    self._ip(place, [address, f"link set {name} mtu 1500 txqueuelen 1000 up"])
                    pair.append(device)
                ends.append(pair)
            said = [word for line in self._lines for word in ("--line", json.dumps(asdict(line)))]
            said += [word for one, other in ends for word in ("--ends", str(one), str(other))]
            self._wire = subprocess.Popen(  # our own module
                (sys.executable, "-m", "tests.lab.wire", *said, "--seed", str(self._seed)),
                stdin=subprocess.PIPE,
                pass_fds=[device for pair in ends for device in pair],
                cwd=_PACKAGES,
                process_group=0,
            )

    def _size_buffers(self, place: str) -> None:
        with self.inside(place):
            for name, size_bytes in self._buffers.items():
                if size_bytes is not None:
                    Path(f"/proc/sys/net/ipv4/{name}").write_text(f"4096 {size_bytes} {size_bytes}")

    def _ip(self, place: str, rows: Sequence[str]) -> None:
        with self.inside(place):
            subprocess.run(("ip", "-batch", "-"), input="\n".join(rows), text=True, check=True)


def _new_namespace() -> int:
    """A descriptor of a new one. The calling thread goes in, takes it, and comes back."""
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        if _libc.unshare(_CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "unshare")
        try:
            return os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        finally:
            _enter(home)
    finally:
        os.close(home)


def _enter(space: int) -> None:
    if _libc.setns(space, _CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")


def _tun(name: str) -> int:
    """A descriptor of a new device in the namespace of the calling thread; it goes with its last descriptor."""
    device = os.open(_TUN, os.O_RDWR | os.O_NONBLOCK)
    try:
        fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _IFF_TUN_NO_PI))
    except OSError:
        os.close(device)
        raise
    return device
