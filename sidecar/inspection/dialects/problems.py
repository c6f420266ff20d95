"""How APIs tell a complaint: what many of them share, and the types for those that have a way of their own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from sidecar.guard.complaint import Complaint


@dataclass(frozen=True, slots=True)
class ErrorEvent:
    """An error as an API says it in a stream: the name of the event, None where it has none, and its JSON."""

    name: str | None
    payload: dict[str, Any]


ErrorForm = Callable[[Complaint], ErrorEvent]
"""How a stream of an API tells a complaint, after which it ends."""
BodyForm = Callable[[Complaint], dict[str, Any]]
"""How an API tells a complaint in place of an answer."""


def problem(complaint: Complaint) -> dict[str, Any]:
    """An error as OpenAI has it, and nearly everybody since. The code is a text: strict clients take no number."""
    fields = {"type": complaint.type, "message": complaint.message, "param": None, "code": str(complaint.status)}
    return {"error": fields}


def counted_problem(complaint: Complaint) -> dict[str, Any]:
    """The same of those whose code is the status, as a number."""
    return {"error": {"type": complaint.type, "message": complaint.message, "code": complaint.status}}


def flat_problem(complaint: Complaint) -> dict[str, Any]:
    """An error whose `error` is the sentence itself; the type stands beside it."""
    return {"error": complaint.message, "error_type": complaint.type}


def unnamed(body_form: BodyForm) -> ErrorForm:
    """An event without a name that carries what a body would."""

    def form(complaint: Complaint) -> ErrorEvent:
        return ErrorEvent(None, body_form(complaint))

    return form


def named(body_form: BodyForm) -> ErrorForm:
    """An event called `error` that carries what a body would."""

    def form(complaint: Complaint) -> ErrorEvent:
        return ErrorEvent("error", body_form(complaint))

    return form


UNNAMED: Final = unnamed(problem)
