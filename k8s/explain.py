"""Say in sentences what was decided for a pod and why: for people who ask, and for the line of a log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from k8s.decisions import Decision, Edit, Plan, Skip
from k8s.patch import pointer
from k8s.wishes import EXPLICIT, NAMED, REDIRECT

_WAYS: Final = {
    NAMED: "callers come by the name of the port, which is declared at {listen} now",
    REDIRECT: "the kernel turns what comes in at {app} over to {listen}",
    EXPLICIT: "it listens at {listen}, and the app was moved to {app}",
}


def headline(decision: Decision) -> str:
    """One line."""
    if isinstance(decision, Skip):
        return f"no sidecar ({decision.reason.value}): {decision.detail}"
    kind = "native" if decision.is_native else "classic"
    way = _WAYS[decision.capture].format(app=decision.app_port, listen=decision.listen_port)
    return f"{kind} sidecar beside {decision.container}, port {decision.app_port}: {way}"


def explained(decision: Decision) -> list[str]:
    """The whole, a sentence a line."""
    return [headline(decision)] if isinstance(decision, Skip) else [headline(decision), *_details(decision)]


def _details(plan: Plan) -> Iterator[str]:
    yield f"hop {plan.hop}, admin port {plan.admin_port}, image {plan.image}"
    yield from (f"{edit.container}: {_told(edit)}" for edit in plan.edits)
    for tap in plan.egress:
        yield f"what the app asks of {tap.url} passes 127.0.0.1:{tap.port}, as {tap.name}"
    if plan.probe_port is not None:
        yield f"probes come in at {plan.probe_port}, and the kernel hands them to the app"
    amounts = ", ".join(f"{kind} {name} {amount}" for kind, found in plan.resources for name, amount in found)
    yield f"resources: {amounts or 'none, since the pod says none'}"
    yield f"its end: {_end(plan)}"
    yield from (f"note: {note}" for note in plan.notes)


def _told(edit: Edit) -> str:
    return f"{pointer(edit.path)[1:].replace('/', '.')} was {edit.old}, is {edit.new}"


def _end(plan: Plan) -> str:
    if plan.is_native:
        return f"told after the app has ended, then up to {plan.drain_s} s"
    return f"{plan.pause_s} s after the pod is told to end, then up to {plan.drain_s} s"
