"""A pod's network namespace and the node's beside it, joined as a node joins them: over IPv4 and IPv6.

Both belong to a process each that does nothing and dies with the one that made it, so nothing is left behind, however
that ends. Nothing of the machine's own network is touched. Needs root.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Final, Self

POD4, NODE4, SERVICE4 = "10.200.0.2", "10.200.0.1", "10.96.0.10"
POD6, NODE6 = "fd00:200::2", "fd00:200::1"
PROGRAMS: Final = ("ip", "nft", "nsenter", "setpriv", "unshare")


def missing() -> str | None:
    """Why there can be no such network here; None where there can."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "network namespaces need Linux and root"
    if lacks := [name for name in PROGRAMS if shutil.which(name) is None]:
        return f"there is no `{lacks[0]}` here"
    try:
        with PodNetwork() as network:
            network.in_pod("nft", "list", "ruleset")
    except (OSError, subprocess.SubprocessError) as error:
        return f"this machine lets nobody make them: {error}"
    return None


class PodNetwork:
    """The two namespaces, while it is open."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._pids: dict[str, int] = {}

    def __enter__(self) -> Self:
        try:
            for name in ("node", "pod"):
                holder = self._stack.enter_context(_started(["unshare", "--net", "cat"]))
                self._pids[name] = holder.pid
                holder.stdin.write(b"\n")  # comes back once the namespace is there
                holder.stdin.flush()
                holder.stdout.readline()
            pod = str(self._pids["pod"])
            self.on_node("ip", "link", "add", "veth0", "type", "veth", "peer", "name", "eth0", "netns", pod)
            self._bring_up("node", "veth0", NODE4, NODE6)
            self._bring_up("pod", "eth0", POD4, POD6)
            self.in_pod("ip", "route", "add", "default", "via", NODE4)
            self.on_node("ip", "route", "add", SERVICE4, "via", POD4)
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def in_pod(self, *command: str) -> str:
        """Run it to its end, as root. Raises CalledProcessError."""
        return self._run("pod", command)

    def on_node(self, *command: str) -> str:
        return self._run("node", command)

    def start_in_pod(self, command: Sequence[str], environ: Mapping[str, str]) -> subprocess.Popen[bytes]:
        """A process of the pod; it ends with the network."""
        return self._stack.enter_context(_started([*self._enter("pod"), *command], env=dict(environ)))

    def _bring_up(self, where: str, device: str, address4: str, address6: str) -> None:
        rows = (
            ("link", "set", "lo", "up"),
            ("address", "add", f"{address4}/24", "dev", device),
            ("-6", "address", "add", f"{address6}/64", "dev", device, "nodad"),
            ("link", "set", device, "up"),
        )
        for row in rows:
            self._run(where, ("ip", *row))

    def _enter(self, where: str) -> list[str]:
        return ["nsenter", f"--net=/proc/{self._pids[where]}/ns/net"]

    def _run(self, where: str, command: Sequence[str]) -> str:
        done = subprocess.run([*self._enter(where), *command], check=True, capture_output=True, text=True, timeout=20)
        return done.stdout


@contextmanager
def _started(command: Sequence[str], **more: Any):
    """A process that dies with us."""
    process = subprocess.Popen(
        ["setpriv", "--pdeathsig", "KILL", *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        **more,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()
