"""When the sidecar may end, so that it outlives what the app still says: by the pod's grace, and the app's own hook.

A native sidecar is told to end after the app has ended. Any other is told at the same moment, when Services may still
send callers; so its end is put off for a while, or for as long as the app's own hook waits.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from k8s.pods import Container, Object, items, part

NATIVE_DRAIN_S: Final = 5
"""A native sidecar is told to end after the app has: what still runs then is a copy of what the app has written."""
CLASSIC_PAUSE_S: Final = 5
"""Any other is told to end with the app: for so long it goes on as before, while callers are told to go elsewhere."""
GRACE_S: Final = 30
"""What a pod has for its end when it does not say."""
FLUSH_S: Final = 10
"""Of that, what the sidecar's spans and its closing take after the drain."""
_SLEEP: Final = re.compile(r"\bsleep\s+([0-9]{1,4})\b")


@dataclass(frozen=True, slots=True)
class End:
    """pause_s: how long it is put off. drain_s: how long streams may go on then. note: what is to be said of it."""

    pause_s: int
    drain_s: int
    note: str | None = None


def ending(pod: Object, app: Container, *, is_native: bool) -> End:
    """The end of the sidecar beside this app."""
    given = part(pod, "spec").get("terminationGracePeriodSeconds")
    grace_s = given if isinstance(given, int) else GRACE_S
    note = f"it has {grace_s} s for its end: streams that run then break off" if grace_s <= FLUSH_S else None
    if is_native:
        return End(0, NATIVE_DRAIN_S, note)
    pause_s = max(CLASSIC_PAUSE_S, _pre_stop_s(app))
    if grace_s - pause_s - FLUSH_S < NATIVE_DRAIN_S:
        pause_s = max(0, min(pause_s, grace_s - FLUSH_S - NATIVE_DRAIN_S))
    return End(pause_s, max(1, grace_s - pause_s - FLUSH_S), note)


def _pre_stop_s(app: Container) -> int:
    """How long the app's own hook waits before the app is told to end, as far as that can be read."""
    hook = part(app.raw, "lifecycle", "preStop")
    slept = part(hook, "sleep").get("seconds")
    if isinstance(slept, int):
        return slept
    found = _SLEEP.search(" ".join(map(str, items(part(hook, "exec"), "command"))))
    return int(found[1]) if found else 0
