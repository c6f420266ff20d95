"""Begin every exchange of one listener: its ids, its anchor, its recorder; end it when it was carried."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from itertools import count

from aiohttp import web

from otel.hop import Anchor, Place, TapRole
from otel.settings import Address, UnixPath
from sidecar import headers
from sidecar.callers import Callers
from sidecar.carriage import Carriage
from sidecar.identity import IdField, id_field_of, identity_of
from sidecar.inspection.body import Body
from sidecar.kernel import Connection
from sidecar.live import Live
from sidecar.recording.asked import Asked
from sidecar.recording.recorder import Recorder
from sidecar.route import Route
from sidecar.upstream import fields_of, origin_form


class Relay:
    """One way from a listener to an upstream.

    instance: of this process, so that no two records have one id. callers: who asks. look: what looks into answers.
    is_draining: it takes nothing new.
    """

    __slots__ = (
        "_callers",
        "_instance",
        "_look",
        "_numbers",
        "_place",
        "_upstream_address",
        "is_draining",
        "route",
    )

    def __init__(
        self,
        route: Route,
        *,
        place: Place,
        instance: str,
        callers: Callers,
        look: Callable[..., Body] = Body,
    ) -> None:
        self.route = route
        origin = route.upstream.origin
        self._upstream_address = str(
            Address(origin.host, origin.port) if origin.unix_path is None else UnixPath(origin.unix_path)
        )
        self._place = place
        self._instance = instance
        self._callers = callers
        self._look = look
        self._numbers = count()
        self.is_draining = False

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """One exchange, from its head to its end."""
        clock, exchanges, id_headers = self.route.clock, self.route.exchanges, self.route.id_headers
        anchor = Anchor(clock.wall_ns(), clock.monotonic_ns(), clock.domain)
        fields = headers.Head(fields_of(request.raw_headers))
        id_field = id_field_of(fields, id_headers, make_id=_made_id)
        recorder = self._recorder(request, anchor, fields, id_field=id_field)
        door = None if request.transport is None else self.route.doors.of(request.transport)
        connection = None if door is None else door.connection
        if connection is None and request.transport is not None:  # the client has left
            connection = Connection(request.transport)
        live = Live(
            recorder,
            anchor,
            connection=connection,
            listener=self.route.listener,
            upstream=self._upstream_address,
            has_engine=self._place.role is not TapRole.EGRESS,
        )
        carriage = Carriage(
            request, fields, id_field=id_field, live=live, door=door, route=self.route, is_draining=self.is_draining
        )
        exchanges.begin(live)
        try:
            return await carriage.run()
        finally:
            exchanges.finish(live)

    def _recorder(self, request: web.Request, anchor: Anchor, fields: headers.Fields, *, id_field: IdField) -> Recorder:
        place = self._place
        unique = (place.hop, place.role, self._instance, anchor.monotonic_ns, next(self._numbers))
        path = origin_form(request.raw_path)
        asked = Asked(
            identity_of(fields, self.route.id_headers, id_field=id_field, unique=unique),
            method=request.method,
            path=path,
            content_type=headers.value_of(fields, "content-type"),
            content_encoding=headers.value_of(fields, "content-encoding"),
            caller=self._callers.of(request.method, path, fields, _address_of(request)),
        )
        return Recorder(asked, place=place, anchor=anchor, look=self._look)


def _made_id() -> str:
    return str(uuid.uuid4())


def _address_of(request: web.Request) -> str | None:
    """The client's, without its port; on a unix socket it has none."""
    name = None if request.transport is None else request.transport.get_extra_info("peername")
    return str(name[0]) if isinstance(name, tuple) else None
