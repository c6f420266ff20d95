"""What can stand in a chain: how each program is started, and what it does to healthy answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from string import Template
from typing import Final
from urllib.parse import urlsplit

from otel.demo.processes import READY_WITHIN_S, Command, free_ports
from otel.demo.topology import url
from tests.lab.apps import MERGED_EVENTS, PIECE_BYTES, WINDOW_EVENTS, Does

HERE: Final = Path(__file__).parent
FILES: Final = HERE / "programs"
"""What programs read that are not ours."""
CONFIG: Final = "config.yaml"
"""Envoy goes by the ending, the others by what they are told."""
IMPORTS_WITHIN_S: Final = 180.0
"""LiteLLM imports for half a minute on two quiet cores, and for minutes on busy ones."""


class Part(StrEnum):
    """What a hop is."""

    APP = "app"
    REBUILDER = "rebuilder"
    MERGER = "merger"
    SPLITTER = "splitter"
    STRIPPER = "stripper"
    USAGE = "usage"
    KEEPALIVES = "keepalives"
    WINDOW = "window"
    COALESCER = "coalescer"
    UNBOUNDED = "unbounded"
    NGINX = "nginx"
    NGINX_BUFFERING = "nginx-buffering"
    NGINX_GZIP = "nginx-gzip"
    HAPROXY = "haproxy"
    ENVOY = "envoy"
    ASGI = "asgi"
    NODE = "node"
    LITELLM = "litellm"
    VLLM_ROUTER = "vllm-router"
    SCRIPTED = "scripted"
    LLAMA = "llama"


class Rewrites(StrEnum):
    """What is another behind a hop than before it."""

    FRAMES = "the bytes around a text"
    COUNT = "how many events carry the same text"
    IDS = "the answer's own id"
    REASONING = "thoughts are left out"
    USAGE = "counts come or go"
    KEEPALIVES = "comments come"
    CODING = "the coding of the body, for who asks for it"
    REQUEST_ID = "a digit of the request's id"
    TRACE = "the trace context is not passed on"


@dataclass(frozen=True, slots=True)
class Hold:
    """How much has to come together before any of it passes: texts, bytes, or both None for all that there is."""

    texts: int | None = None
    size_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Middle:
    """One kind of part. program: its name in `tests.lab.installed`; None is a module of ours.

    In arguments and config stand ${port}, ${next}, ${own} and what else `_words` knows. is_told: it obeys the faults
    that a request tells. is_heavy: hundreds of megabytes, only where somebody asks for it. holds: what it holds of
    a healthy answer; None where all passes at once. holds_first: the first answer of all waits for what it imports.
    """

    arguments: tuple[str, ...]
    program: str | None = None
    config: str | None = None
    environ: tuple[str, ...] = ()
    health: str = "/healthz"
    ready_within_s: float = READY_WITHIN_S
    is_told: bool = False
    is_heavy: bool = False
    holds: Hold | None = None
    holds_first: bool = False
    rewrites: frozenset[Rewrites] = frozenset()

    @property
    def needs(self) -> tuple[str, ...]:
        """The programs that have to be there."""
        return () if self.program is None else (self.program,)

    def command(self, hop: str, *, port: int, asked_url: str, folder: Path, paths: Mapping[str, str]) -> Command:
        """The process of a hop that asks asked_url, with what is its own in `folder`; a source asks nobody."""
        own = folder / f"{hop}-own"
        words = _words(hop, port=port, asked_url=asked_url, own=own)
        if self.config is not None:
            own.mkdir(exist_ok=True)
            (own / CONFIG).write_text(Template(self.config).safe_substitute(words))  # $ is nginx's own sign, too
        arguments = tuple(Template(word).substitute(words) for word in self.arguments)
        ready = url(port) + self.health
        if self.program is None:
            return Command(hop, arguments, ready, ready_within_s=self.ready_within_s)
        run = (paths[self.program], *arguments)
        program, *rest = ("/usr/bin/env", *self.environ, *run) if self.environ else run
        return Command(hop, tuple(rest), ready, program=program, ready_within_s=self.ready_within_s)


def _words(hop: str, *, port: int, asked_url: str, own: Path) -> dict[str, str]:
    asked = urlsplit(asked_url)
    return {
        "hop": hop,
        "port": str(port),
        "next": asked_url,
        "authority": asked.netloc,
        "host": asked.hostname or "",
        "next_port": str(asked.port or ""),
        "own": str(own),
        "config": str(own / CONFIG),
        "files": str(FILES),
        "here": str(HERE),
        "free": str(free_ports(1)[0]),
    }


def _app(does: Does, *, holds: Hold | None = None, rewrites: frozenset[Rewrites] = frozenset()) -> Middle:
    arguments = ("tests.lab.apps", "--does", does, "--hop", "${hop}", "--port", "${port}", "--next", "${next}")
    return Middle(arguments, is_told=True, holds=holds, rewrites=rewrites)


def _nginx(how: str, *, holds: Hold | None = None, rewrites: frozenset[Rewrites] = frozenset()) -> Middle:
    config = Template((FILES / "nginx.conf").read_text()).safe_substitute(how=how)
    arguments = ("-c", "${config}", "-p", "${own}")
    return Middle(arguments, program="nginx", config=config, holds=holds, rewrites=rewrites)


_STREAMING: Final = 'proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off;'
"""What people write who stream. Without it nginx asks by HTTP/1.0, and passes on what comes in pieces of 4 KB."""
_GZIP: Final = 'proxy_http_version 1.1; proxy_set_header Connection ""; gzip on; gzip_types text/event-stream;'
"""The usual line for compressing, without a word on buffering: nothing leaves until the compressor has a full block."""
_REBUILT: Final = frozenset({Rewrites.FRAMES, Rewrites.IDS, Rewrites.REASONING, Rewrites.USAGE, Rewrites.KEEPALIVES})

MIDDLES: Final[Mapping[Part, Middle]] = {
    Part.APP: _app(Does.NOTHING),
    Part.REBUILDER: _app(Does.REBUILD, rewrites=_REBUILT),
    Part.MERGER: _app(Does.MERGE, holds=Hold(texts=MERGED_EVENTS), rewrites=frozenset({Rewrites.COUNT})),
    Part.SPLITTER: _app(Does.SPLIT, rewrites=frozenset({Rewrites.COUNT})),
    Part.STRIPPER: _app(Does.STRIP, rewrites=frozenset({Rewrites.REASONING})),
    Part.USAGE: _app(Does.USAGE, rewrites=frozenset({Rewrites.FRAMES, Rewrites.USAGE})),
    Part.KEEPALIVES: _app(Does.KEEPALIVE, rewrites=frozenset({Rewrites.KEEPALIVES})),
    Part.WINDOW: _app(Does.WINDOW, holds=Hold(texts=WINDOW_EVENTS)),
    Part.COALESCER: _app(Does.COALESCE, holds=Hold(size_bytes=PIECE_BYTES)),
    Part.UNBOUNDED: _app(Does.UNBOUNDED),
    Part.NGINX: _nginx(_STREAMING),
    Part.NGINX_BUFFERING: _nginx("", holds=Hold(size_bytes=PIECE_BYTES)),
    Part.NGINX_GZIP: _nginx(_GZIP, holds=Hold(), rewrites=frozenset({Rewrites.CODING})),
    Part.HAPROXY: Middle(
        ("-f", "${config}", "-db"),
        program="haproxy",
        config=(FILES / "haproxy.cfg").read_text(),
    ),
    Part.ENVOY: Middle(
        ("-c", "${config}", "--concurrency", "1", "--disable-hot-restart", "--log-level", "warning"),
        program="envoy",
        config=(FILES / "envoy.yaml").read_text(),
        rewrites=frozenset({Rewrites.REQUEST_ID}),
    ),
    Part.ASGI: Middle(("${here}/asgi.py", "${port}", "${next}"), program="asgi"),
    Part.NODE: Middle(("${files}/proxy.mjs", "${port}", "${next}"), program="node"),
    Part.LITELLM: Middle(
        ("--config", "${config}", "--host", "127.0.0.1", "--port", "${port}"),
        program="litellm",
        config=(FILES / "litellm.yaml").read_text(),
        environ=(
            "LITELLM_LOCAL_MODEL_COST_MAP=True",
            "LITELLM_TELEMETRY=False",
            "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY=true",  # else it does not start, or asks for a key
        ),
        health="/health/liveliness",
        ready_within_s=IMPORTS_WITHIN_S,
        is_heavy=True,
        holds_first=True,
        rewrites=frozenset({Rewrites.FRAMES, Rewrites.USAGE, Rewrites.TRACE}),
    ),
    Part.VLLM_ROUTER: Middle(
        (
            *("--worker-urls", "${next}", "--host", "127.0.0.1", "--port", "${port}"),
            *("--worker-startup-check-interval", "1"),  # seconds; by default it asks a worker every 30
            *("--prometheus-port", "${free}"),  # else a fixed one
        ),
        program="vllm-router",
        health="/health",
        is_heavy=True,
    ),
}
"""Everything that passes answers on."""

WORKERS: Final[Mapping[Part, Middle]] = {
    Part.SCRIPTED: Middle(("tests.lab.worker", "--port", "${port}"), is_told=True),
    Part.LLAMA: Middle(("otel.demo.llama", "--port", "${port}", "--model", "${own}.gguf"), health="/health"),
}
"""Everything that answers."""
PARTS: Final[Mapping[Part, Middle]] = {**WORKERS, **MIDDLES}
