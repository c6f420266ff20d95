"""The query API over HTTP: routes, access, errors. What is asked and answered is written down in `openapi`."""

from __future__ import annotations

import hmac
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final
from urllib.parse import urlencode, urlsplit

import orjson
from aiohttp import web

from otel import exposition
from otel.instants import rfc3339
from otel.judging import Clock, Judge
from otel.live import LiveStreams, OpenStream
from otel.query import timeline_answer
from otel.store.base import StoreError, Unsupported, VerdictRow
from otel.store.threads import AsyncStore
from otel.view import openapi
from otel.view.parameters import ParameterError, live_query, no_parameters, request_id, stall_query, write_cursor

NO_TOKEN_PATHS: Final = frozenset({"/healthz", "/readyz"})
"""Kubelets send no token, and these say no more than yes or no."""
HEADERS: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_TYPES: Final = {401: "unauthorized", 403: "forbidden", 404: "not_found", 405: "method_not_allowed"}

log = logging.getLogger(__name__)
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class QueryApi:
    """Answers questions. token: what callers must show, None for nobody; hosts: the host names under which it may be
    asked without one, None for any, so that no web page can have a browser ask for it (DNS rebinding)."""

    def __init__(
        self,
        store: AsyncStore,
        judge: Judge,
        live: LiveStreams,
        *,
        clock: Clock,
        metrics: Callable[[], Awaitable[str]],
        version: str,
        token: str | None = None,
        is_host_allowed: Callable[[str], bool] | None = None,
    ) -> None:
        self._store = store
        self._judge = judge
        self._live = live
        self._clock = clock
        self._metrics = metrics
        self._document = orjson.dumps(openapi.document(version=version))
        self._authorization = None if token is None else f"Bearer {token}".encode()
        self._is_host_allowed = is_host_allowed

    def application(self) -> web.Application:
        app = web.Application(middlewares=[self._answer_errors, self._check_access])
        routes = {
            "/v1/requests/{id:[^/]+}/verdict": self.verdict,
            "/v1/requests/{id:[^/]+}/timeline": self.timeline,
            "/v1/stalls": self.stalls,
            openapi.LIVE_PATH: self.live,
            "/v1/openapi.json": self.openapi,
            "/healthz": self.healthz,
            "/readyz": self.readyz,
            "/metrics": self.metrics,
        }
        for path, handler in routes.items():
            app.router.add_get(path, handler)
        return app

    async def verdict(self, request: web.Request) -> web.Response:
        no_parameters(_parameters(request))
        key = request_id(request.rel_url.raw_path)
        case = await self._store.read(self._judge.examine, key)
        if case is not None:
            return _json(orjson.dumps(case.answer))
        row = await self._store.read(self._store.store.verdict_of, key)
        if row is None:
            return _failure(404, "not_found", "no hop of this request has come in, under no spelling of this id")
        return _json(orjson.dumps({**orjson.loads(row.answer_json), "verdict_final": True}))

    async def timeline(self, request: web.Request) -> web.Response:
        no_parameters(_parameters(request))
        body = await self._store.read(self._timeline, request_id(request.rel_url.raw_path))
        if body is None:
            return _failure(404, "not_found", "no hop of this request has come in, or none is kept any more")
        return _json(body)

    async def stalls(self, request: web.Request) -> web.Response:
        now_ns = self._clock.wall_ns()
        query = stall_query(_parameters(request), now_ns=now_ns)
        rows = await self._store.read(self._store.store.stalls, replace(query, limit=query.limit + 1))
        page = rows[: query.limit]
        answer = {
            "as_of": rfc3339(now_ns),
            "stalls": [_stall(row) for row in page],
            "has_more": len(rows) > len(page),
        }
        response = _json(orjson.dumps(answer))
        if len(rows) > len(page):
            asked = {**request.query, "before": write_cursor(page[-1].cursor)}
            response.headers["Link"] = f'<{request.path}?{urlencode(asked)}>; rel="next"'
        return response

    async def live(self, request: web.Request) -> web.Response:
        query = live_query(_parameters(request))
        streams = self._live.open_streams(self._clock.monotonic_ns())
        asked = [each for each in streams if query.takes(each)]
        answer = {
            "as_of": rfc3339(self._clock.wall_ns()),
            "streams": [_open_stream(each) for each in asked[: query.limit]],
            "open": len(streams),
            "has_more": len(asked) > query.limit,
        }
        return _json(orjson.dumps(answer))

    async def openapi(self, _: web.Request) -> web.Response:
        return _json(self._document)

    async def healthz(self, _: web.Request) -> web.Response:
        return _json(b'{"status":"ok"}')

    async def readyz(self, _: web.Request) -> web.Response:
        await self._store.read(self._store.store.stats)
        return _json(b'{"status":"ok"}')

    async def metrics(self, _: web.Request) -> web.Response:
        return web.Response(body=(await self._metrics()).encode(), headers={"Content-Type": exposition.CONTENT_TYPE})

    def _timeline(self, key: str) -> bytes | None:
        """Runs in a reader's thread: a timeline of five hops of 10,000 events takes a tenth of a second."""
        case = self._judge.examine(key)
        return None if case is None else orjson.dumps(timeline_answer(case.path, case.verdict, case.answer))

    @web.middleware
    async def _check_access(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path in NO_TOKEN_PATHS:
            return await handler(request)
        if self._authorization is not None:
            shown = request.headers.get("Authorization", "").encode("utf-8", "surrogateescape")
            if not hmac.compare_digest(shown, self._authorization):
                return _failure(401, "unauthorized", "wants the header `Authorization: Bearer TOKEN`")
        elif self._is_host_allowed is not None and not self._is_host_allowed(_host_of(request)):
            return _failure(403, "forbidden", "asked under a foreign host name, which wants a collector with a --token")
        return await handler(request)

    @web.middleware
    async def _answer_errors(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            response = await handler(request)
        except ParameterError as error:
            response = _failure(400, "bad_request", str(error))
        except web.HTTPException as error:
            response = _failure(error.status, _TYPES.get(error.status, "error"), error.text or error.reason)
            response.headers.update({name: error.headers[name] for name in ("Allow",) if name in error.headers})
        except Unsupported as error:
            response = _failure(501, "unsupported", str(error))
        except StoreError as error:
            log.warning("question not answered", extra={"error": str(error)})
            response = _failure(503, "unavailable", "the store does not answer; try again later")
        except Exception:
            log.exception("question failed")
            response = _failure(500, "internal", "the collector failed; its log says how")
        response.headers.update(HEADERS)
        if response.status == 401:
            response.headers["WWW-Authenticate"] = "Bearer"
        return response


def _parameters(request: web.Request) -> list[tuple[str, str]]:
    return list(request.query.items())


def _json(body: bytes) -> web.Response:
    return web.Response(body=body, content_type="application/json")


def _failure(status: int, kind: str, message: str) -> web.Response:
    response = _json(orjson.dumps({"error": {"type": kind, "message": message}}))
    response.set_status(status)
    return response


def _stall(row: VerdictRow) -> dict[str, object]:
    return {
        "request_id": row.request_id,
        "trace_id": row.trace_id,
        "at": rfc3339(row.at_ns),
        "model": row.model,
        "status": row.status,
        "cause": row.cause,
        "first_hop": row.hop,
        "owner": row.owner,
        "wait": row.wait,
        "gap_s": row.gap_s,
        "confidence": row.confidence,
        "open": row.is_open,
        "sentence": row.sentence,
    }


def _open_stream(stream: OpenStream) -> dict[str, object]:
    glance = stream.glance
    return {
        "request_id": glance.request_id,
        "trace_id": glance.trace_id,
        "hop": glance.hop,
        "listener": glance.listener,
        "model": glance.model,
        "status": glance.status,
        "phase": glance.phase,
        "age_s": round(stream.age_s, 3),
        "silent_s": round(stream.silent_s, 3),
        "told_s": round(stream.told_s, 3),
        "events": glance.events,
        "is_blocked": glance.is_blocked,
        "is_stalled": glance.is_stalled,
        "stall_cause": glance.stall_cause,
        "is_probe": glance.is_probe,
    }


def _host_of(request: web.Request) -> str:
    """The host name under which we were asked, without its port."""
    try:
        return urlsplit(f"//{request.host}").hostname or ""
    except ValueError:
        return ""
