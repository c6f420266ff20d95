"""Events of Kubernetes that tell what was decided for a pod, where people look first: at what owns it.

The pod has no name yet, and the API server waits for our answer. So events are written afterwards, by one task, from a
short queue; what does not fit or cannot be written is counted and gone.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime
from typing import Any, Final

from k8s.api import Api, ApiError
from k8s.decisions import Decision, Plan
from k8s.explain import headline
from k8s.pods import items, part
from k8s.review import Review
from k8s.tally import Tally
from sidecar.clock import Clock

log = logging.getLogger(__name__)

QUEUE: Final = 1_000
"""Events that wait; a burst of pods has as many, and they are all alike."""
MESSAGE_BYTES: Final = 1_000
"""The API server takes 1,024."""
COMPONENT: Final = "gapline-injector"
_MICROS: Final = 1_000


def event(review: Review, decision: Decision, *, at_ns: int) -> dict[str, Any] | None:
    """The event for the owner of the pod; None where nobody owns it."""
    metadata = part(review.pod, "metadata")
    owners = [part(owner) for owner in items(metadata, "ownerReferences")]
    owner = next((each for each in owners if each.get("controller") is True), None)
    if owner is None or not all(isinstance(owner.get(key), str) for key in ("apiVersion", "kind", "name", "uid")):
        return None
    namespace = review.namespace or "default"
    at = datetime.fromtimestamp(at_ns // _MICROS / 1e6, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    is_injected = isinstance(decision, Plan)
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": f"{str(owner['name'])[:200]}.", "namespace": namespace},
        "involvedObject": {key: owner[key] for key in ("apiVersion", "kind", "name", "uid")} | {"namespace": namespace},
        "type": "Normal" if is_injected else "Warning",
        "reason": "SidecarInjected" if is_injected else "SidecarSkipped",
        "action": "Inject",
        "message": headline(decision).encode()[:MESSAGE_BYTES].decode(errors="ignore"),
        "eventTime": at,
        "reportingComponent": COMPONENT,
        "reportingInstance": COMPONENT,
    }


class Events:
    """The queue, and the task that empties it."""

    def __init__(self, api: Api, *, clock: Clock, tally: Tally) -> None:
        self._api = api
        self._clock = clock
        self._tally = tally
        self._queue: asyncio.Queue[dict[str, Any]] = asyncio.Queue(QUEUE)

    def tell(self, review: Review, decision: Decision) -> None:
        made = event(review, decision, at_ns=self._clock.wall_ns())
        if made is None:
            return
        try:
            self._queue.put_nowait(made)
        except asyncio.QueueFull:
            self._tally.events["dropped"] += 1

    async def run(self) -> None:
        """Write what waits, until cancelled."""
        while True:
            made = await self._queue.get()
            try:
                await self._api.create(f"/api/v1/namespaces/{made['metadata']['namespace']}/events", made)
                self._tally.events["written"] += 1
            except ApiError as error:
                self._tally.events["failed"] += 1
                log.warning("event not written", extra={"error": str(error)})
