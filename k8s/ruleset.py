"""The rules that a redirecting pod's init container gives to the kernel, as one text for `nft`.

They hold for what comes in from outside the pod, over IPv4 and IPv6 alike. Clients of the app's port reach the sidecar;
what the kubelet sends to the probe port reaches the app, past the sidecar and in the kernel alone, so that no fault of
the sidecar can have the app restarted. What the sidecar itself asks of the app is local and never comes by here, so
there is no loop. `fib daddr type local` leaves alone what only passes through.
Putting the rules in twice changes nothing.
"""

from __future__ import annotations

from typing import Final

TABLE: Final = "gapline"
COMMAND: Final = ("/usr/sbin/nft",)
"""Run directly: the file itself holds the capability, which a shell in front of it would lose without privileges."""


def ruleset(*, app_port: int, listen_port: int, probe_port: int) -> str:
    """The text. Raises ValueError where two of the ports are one."""
    if len({app_port, listen_port, probe_port}) < 3:
        raise ValueError(f"{app_port}, {listen_port} and {probe_port} must be three ports")
    return (
        f"table inet {TABLE}\n"
        f"delete table inet {TABLE}\n"
        f"table inet {TABLE} {{\n"
        f"  chain prerouting {{\n"
        f"    type nat hook prerouting priority dstnat; policy accept;\n"
        f"    fib daddr type local tcp dport {probe_port} redirect to :{app_port}\n"
        f"    fib daddr type local tcp dport {app_port} redirect to :{listen_port}\n"
        f"  }}\n"
        f"}}\n"
    )
