"""The webhook: the API server asks about a pod that is being made, and gets the patch that gives it a sidecar.

It answers every question that has a name with leave to make the pod, whatever goes wrong here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

from aiohttp import web

from k8s.config import PodConfig
from k8s.decisions import Decision, Plan, Reason, Skip
from k8s.explain import headline
from k8s.facts import Facts, Namespace
from k8s.pods import part
from k8s.renderer import injection
from k8s.review import Review, ReviewError, answer, read
from k8s.tally import Tally
from sidecar.clock import Clock

log = logging.getLogger(__name__)

PATH: Final = "/mutate"
BODY_BYTES: Final = 10 << 20
"""Most that a question may have: an object has 1.5 MB at most, and comes in it up to twice."""
APART_FROM_BYTES: Final = 100_000
"""A pod of so much takes tens of milliseconds and may take seconds: in a thread, others are answered meanwhile."""
_JSON: Final = "application/json"


class Surroundings(Protocol):
    """What is known around a pod."""

    async def look(self, name: str) -> tuple[Namespace, Facts]: ...


class Webhook:
    """Answers questions. tell: is handed every decision that was carried out, for events."""

    def __init__(
        self,
        config: PodConfig,
        *,
        surroundings: Surroundings,
        clock: Clock,
        tally: Tally,
        tell: Callable[[Review, Decision], None] | None = None,
    ) -> None:
        self._config = config
        self._surroundings = surroundings
        self._clock = clock
        self._tally = tally
        self._tell = tell

    def app(self) -> web.Application:
        app = web.Application(client_max_size=BODY_BYTES)
        app.router.add_post(PATH, self._mutate)
        return app

    async def _mutate(self, request: web.Request) -> web.Response:
        begun_ns = self._clock.monotonic_ns()
        try:
            if request.content_type != _JSON:
                raise ReviewError(f"is {request.content_type}, not {_JSON}")
            body = await request.read()
            review = read(body)
        except ReviewError as error:  # there is no uid to answer to
            self._tally.reviews["malformed"] += 1
            log.warning("malformed review", extra={"error": str(error)})
            return web.Response(status=400, text=f"the review {error}\n")
        except web.HTTPRequestEntityTooLarge:
            self._tally.reviews["malformed"] += 1
            log.warning("malformed review", extra={"error": f"has more than {BODY_BYTES} bytes"})
            raise
        answered = await self._answer(review, is_large=len(body) >= APART_FROM_BYTES)
        self._tally.answered(self._clock.monotonic_ns() - begun_ns)
        return web.Response(body=answered, content_type=_JSON)

    async def _answer(self, review: Review, *, is_large: bool) -> bytes:
        if review.pod is None:
            self._tally.reviews["answered"] += 1
            return answer(review.uid)
        try:
            namespace, facts = await self._surroundings.look(review.namespace)
            inject = partial(injection, review.pod, namespace=namespace, facts=facts, config=self._config)
            made = await asyncio.to_thread(inject) if is_large else inject()
            body = answer(review.uid, made.patch, warning=_warning(made.decision))
        except Exception as error:  # whatever it is, the pod must be made
            self._tally.reviews["failed"] += 1
            self._tally.decided(Skip(Reason.FAILED, ""))
            log.exception("review failed", extra={"namespace": review.namespace})
            return answer(review.uid, warning=f"no sidecar: {type(error).__name__}")
        self._tally.reviews["answered"] += 1
        self._tally.decided(made.decision)
        self._log(review, made.decision)
        if self._tell is not None and made.patch and not review.is_dry_run:
            self._tell(review, made.decision)
        return body

    def _log(self, review: Review, decision: Decision) -> None:
        metadata = part(review.pod, "metadata")
        log.info(
            "pod injected" if isinstance(decision, Plan) else "pod skipped",
            extra={
                "namespace": review.namespace,
                "pod": metadata.get("name") or metadata.get("generateName"),
                "reason": decision.capture if isinstance(decision, Plan) else decision.reason.value,
                "said": headline(decision),
                "is_dry_run": review.is_dry_run,
            },
        )


def _warning(decision: Decision) -> str | None:
    """What whoever makes the pod should hear: that it asked for a sidecar, and why it gets none."""
    if isinstance(decision, Plan) or decision.reason.is_silent:
        return None
    return f"no sidecar ({decision.reason.value}): {decision.detail}"
