"""Everything that can stand in the middle of a chain: how it is run, and what it does to a healthy answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Final, Protocol

from otel.demo.processes import Command
from otel.demo.topology import command, url


class Part(StrEnum):
    """What stands at a place of a chain."""

    SCRIPTED = "scripted"
    APP = "app"
    REBUILDER = "rebuilder"
    NGINX = "nginx"
    NGINX_BUFFERING = "nginx-buffering"
    HAPROXY = "haproxy"


class Runs(Protocol):
    """How a middle is started: where it listens, whom it asks, a folder of its own, and where programs are."""

    def __call__(self, hop: str, *, port: int, asked_url: str, folder: Path, paths: Mapping[str, str]) -> Command: ...


@dataclass(frozen=True, slots=True)
class Middle:
    """One kind of hop.

    needs: programs. is_told: it does what a request tells it to. is_heavy: only when asked for. holds: what it does
    to a healthy answer may rightly be called buffering. rewrites: how, where it changes events.
    """

    command: Runs
    needs: tuple[str, ...] = ()
    is_told: bool = False
    is_heavy: bool = False
    holds: bool = False
    rewrites: str = ""


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


def _ours(module: str) -> Runs:
    def runs(hop: str, *, port: int, asked_url: str, folder: Path, paths: Mapping[str, str]) -> Command:
        return command(hop, (module, "--hop", hop, "--port", str(port), "--next", asked_url), ready=_ready(port))

    return runs


def _nginx(how: str) -> Runs:
    def runs(hop: str, *, port: int, asked_url: str, folder: Path, paths: Mapping[str, str]) -> Command:
        own = _own_folder(folder, hop)
        file = own / "config"
        file.write_text(_NGINX.format(folder=own, port=port, asked=asked_url, how=how))
        return Command(hop, ("-c", str(file), "-p", str(own)), _ready(port), program=paths["nginx"])

    return runs


def _haproxy(hop: str, *, port: int, asked_url: str, folder: Path, paths: Mapping[str, str]) -> Command:
    file = _own_folder(folder, hop) / "config"
    file.write_text(_HAPROXY.format(port=port, asked=asked_url.removeprefix("http://")))
    return Command(hop, ("-f", str(file), "-db"), _ready(port), program=paths["haproxy"])


def _own_folder(folder: Path, hop: str) -> Path:
    own = folder / f"{hop}-own"
    own.mkdir(exist_ok=True)
    return own


def _ready(port: int) -> str:
    return f"{url(port)}/healthz"


MIDDLES: Final[Mapping[Part, Middle]] = MappingProxyType(
    {
        Part.APP: Middle(_ours("tests.lab.app"), is_told=True),
        Part.REBUILDER: Middle(_ours("tests.lab.rebuilder"), is_told=True, rewrites="thoughts and the role go"),
        Part.NGINX: Middle(_nginx(_STREAMING), needs=("nginx",)),
        Part.NGINX_BUFFERING: Middle(_nginx(""), needs=("nginx",), holds=True),
        Part.HAPROXY: Middle(_haproxy, needs=("haproxy",)),
    }
)
