"""A hop of ours: it does wrong what the request's header tells it to; `apps` says what else it does to answers."""

from __future__ import annotations

from aiohttp import web

from otel.demo.faults import Fault
from otel.demo.middle import FORWARDED, Begins, Middle, from_event
from tests.lab.told import HEADER, Told


class App(Middle):
    """One hop in the middle of the lab's chains."""

    forwarded = (*FORWARDED, HEADER)

    def planted(self, request: web.Request, body: bytes) -> tuple[Fault | None, Begins]:
        found = Told.parse(request.headers[HEADER]).at(self.hop)
        return (None, from_event(0)) if found is None else (found.fault, found.begins())
