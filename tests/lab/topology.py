"""The processes of a chain: the demo's sidecars and collector, around apps of ours and real proxies."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from otel.demo.faults import HOPS, WORKER
from otel.demo.processes import Command
from otel.demo.topology import PORTS_OF_HOP, Topology, collector, command, sidecar, url
from tests.lab.draw import OURS, Chain, Part
from tests.readers.programs import program
from tests.readers.reading import Missing

_NGINX: Final = """\
daemon off;
master_process off;
pid {folder}/nginx.pid;
error_log stderr;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{
        listen 127.0.0.1:{port};
        location = /healthz {{ return 200; }}
        location / {{
            proxy_pass {asked};
            proxy_read_timeout 300s;
            {how}
        }}
    }}
}}
"""
_STREAMING: Final = 'proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off;'
"""What people write who stream. Without it nginx asks by HTTP/1.0, and passes on what comes in pieces of 4 KB."""
_HAPROXY: Final = """\
defaults
    mode http
    option http-no-delay
    timeout connect 5s
    timeout client 300s
    timeout server 300s
frontend here
    bind 127.0.0.1:{port}
    http-request return status 200 if {{ path /healthz }}
    default_backend there
backend there
    server next {asked}
"""
"""Without http-no-delay it holds what fills no segment for 200 ms: too little for a verdict, too much for its terms."""


@dataclass(frozen=True, slots=True)
class Programs:
    """Where the real proxies are, and why those that are missing are not there."""

    paths: dict[str, str]
    missing: dict[str, str]

    @property
    def parts(self) -> list[Part]:
        return [part for part in Part if part in OURS or _package(part) in self.paths]


def programs(*, may_install: bool) -> Programs:
    """Found here; where it may be, installed: nobody who tries the lab wants a web server on his machine for it."""
    paths, missing = {}, {}
    for name in ("nginx", "haproxy"):
        try:
            paths[name] = program(name, package=name) if may_install else _found(name)
        except Missing as error:
            missing[name] = str(error)
    return Programs(paths, missing)


def _found(name: str) -> str:
    if (found := shutil.which(name)) is None:
        raise Missing(f"there is no `{name}` here")
    return found


def topology(chain: Chain, *, ports: Sequence[int], folder: Path, paths: dict[str, str]) -> Topology:
    """The processes of this chain. paths: where the programs of its real parts are."""
    otlp, query, *rest = ports
    commands = [collector(otlp=otlp, query=query, folder=folder)]
    skew, asked_url = dict(chain.skew), ""
    for index, hop in enumerate(HOPS):
        door, app, admin = rest[PORTS_OF_HOP * index :][:PORTS_OF_HOP]
        commands.append(_part(chain, hop, port=app, asked_url=asked_url, folder=folder, paths=paths))
        asked_url = url(app)
        if hop in chain.tapped:
            more = ("--exact",) if chain.is_exact else ()
            ends = {"door": door, "app": app, "admin": admin}
            commands.append(sidecar(hop, **ends, spans_url=url(otlp), skew_s=skew.get(hop), more=more))
            asked_url = url(door)
    return Topology(tuple(commands), gateway_url=asked_url, collector_url=url(query))


def _part(chain: Chain, hop: str, *, port: int, asked_url: str, folder: Path, paths: dict[str, str]) -> Command:
    part = chain.parts[hop]
    ready = f"{url(port)}/healthz"
    if hop == WORKER:
        return command(hop, ("tests.lab.worker", "--port", str(port)), ready=ready)
    if part in OURS:
        module = "otel.demo.middle" if part is Part.APP else "tests.lab.rebuilder"
        return command(hop, (module, "--hop", hop, "--port", str(port), "--next", asked_url), ready=ready)
    own = folder / f"{hop}-own"
    own.mkdir(exist_ok=True)
    file = own / "config"
    if part is Part.HAPROXY:
        file.write_text(_HAPROXY.format(port=port, asked=asked_url.removeprefix("http://")))
        arguments = ("-f", str(file), "-db")
    else:
        how = "" if part is Part.NGINX_BUFFERING else _STREAMING
        file.write_text(_NGINX.format(folder=own, port=port, asked=asked_url, how=how))
        arguments = ("-c", str(file), "-p", str(own))
    return Command(hop, arguments, ready, program=paths[_package(part)])


def _package(part: Part) -> str:
    return part.partition("-")[0]
