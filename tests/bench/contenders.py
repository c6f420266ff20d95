"""Everything that is measured: how each is started, from what, and which loads it stands under."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Final

from otel.demo.processes import READY_WITHIN_S, Command
from sidecar.native import COMPILED
from sidecar.options import OPTIONS
from tests.bench.loads import ANCHOR, BUSY, FLOOD, IDLE, LIGHT, LOADS, SHORT, STUCK
from tests.lab.middles import IMPORTS_WITHIN_S, MIDDLES, Part

FILES: Final = Path(__file__).parent / "programs"
CONFIG: Final = "config.yaml"
"""Envoy goes by the ending, the others by what they are told."""

NGINX, HAPROXY, PLAIN, OURS, UNSTAMPED = "nginx", "haproxy", "plain", "ours", "unstamped"
OURS_IN_PYTHON, UNSTAMPED_IN_PYTHON = "ours-python", "unstamped-python"
TIERS: Final = ("auto", "splice", "push", "pull")
_EVERY: Final = frozenset(LOADS)
_ANCHOR: Final = frozenset({ANCHOR.name})
_STREAMS: Final = frozenset({ANCHOR.name, BUSY.name, FLOOD.name, IDLE.name, STUCK.name})


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """One proxy. program: its name in `tests.lab.installed`; None: a module of ours.

    In arguments and config stand ${port}, ${next}, ${next_port}, ${config} and ${own}, a folder. loads: the names of
    those under which it is measured. is_loose: it rebuilds events, so that only their texts and order are checked.
    """

    name: str
    title: str
    arguments: tuple[str, ...]
    program: str | None = None
    config: str | None = None
    environ: tuple[str, ...] = ()
    health: str = "/healthz"
    ready_within_s: float = READY_WITHIN_S
    loads: frozenset[str] = _EVERY
    is_loose: bool = False
    is_heavy: bool = False

    def command(
        self, *, python: str, port: int, next_port: int, folder: Path, paths: Mapping[str, str], prefix: tuple[str, ...]
    ) -> Command:
        """Its process, which passes on to a port of this machine; prefix: what binds it to its core."""
        own = folder / f"{self.name}-{port}"
        words = {
            "port": str(port),
            "next": f"http://127.0.0.1:{next_port}",
            "next_port": str(next_port),
            "own": str(own),
            "config": str(own / CONFIG),
        }
        own.mkdir(parents=True, exist_ok=True)
        if self.config is not None:
            (own / CONFIG).write_text(Template(self.config).safe_substitute(words))  # $ is nginx's own sign, too
        run = [python, "-m"] if self.program is None else [paths[self.program]]
        arguments = [Template(word).substitute(words) for word in self.arguments]
        command = (*prefix, "/usr/bin/env", *self.environ, *run, *arguments)
        ready = f"http://127.0.0.1:{port}{self.health}"
        return Command(self.name, command[1:], ready, program=command[0], ready_within_s=self.ready_within_s)


def tiers() -> tuple[str, ...]:
    """The other ways of passing bytes on that this sidecar can be told to take, beside what it does by itself."""
    option = next((option for option in OPTIONS if option.name == "tier"), None)
    if option is None:
        return ()
    found = []
    for word in TIERS:
        try:
            option.parse(word)
        except ValueError:
            continue
        if word != option.default:
            found.append(word)
    return tuple(found)


def ours(
    name: str = OURS, title: str = "gapline", *flags: str, loads: frozenset[str] = _STREAMS | {SHORT.name, LIGHT.name}
) -> Contender:
    """Our sidecar, with all that it does, and with these flags."""
    arguments = (
        *("sidecar", "--hop", "bench", "--upstream", "${next}", "--listen", "127.0.0.1:${port}"),
        *("--admin", "off", "--export", "${next}", *flags),
    )
    return Contender(name=name, title=title, arguments=arguments, loads=loads)


def contenders(
    *, known_tiers: tuple[str, ...] | None = None, has_compiled: bool = COMPILED is not None
) -> tuple[Contender, ...]:
    """All of them, in the order in which they are told. known_tiers: other ones of the sidecar, None: those it has.
    has_compiled: its compiled parts are there, so that it is also measured without them.
    """
    in_python = ("--compiled", "off")
    litellm = MIDDLES[Part.LITELLM]
    found = tiers() if known_tiers is None else known_tiers
    others = (ours(f"{OURS}-{tier}", f"gapline, {tier}", "--tier", tier) for tier in found)
    return (
        Contender(
            name=NGINX,
            title="nginx",
            arguments=("-c", "${config}", "-p", "${own}"),
            program="nginx",
            config=(FILES / "nginx.conf").read_text(),
        ),
        Contender(
            name=HAPROXY,
            title="HAProxy",
            arguments=("-db", "-f", "${config}"),
            program="haproxy",
            config=(FILES / "haproxy.cfg").read_text(),
        ),
        Contender(
            name="envoy",
            title="Envoy",
            arguments=("-c", "${config}", "--concurrency", "1", "--disable-hot-restart", "--log-level", "critical"),
            program="envoy",
            config=(FILES / "envoy.yaml").read_text(),
        ),
        Contender(
            name="raw",
            title="raw relay on uvloop",
            arguments=("tests.bench.raw", "${port}", "${next_port}"),
            loads=_STREAMS,  # it is no proxy: who keeps a connection keeps its upstream's
        ),
        Contender(
            name=PLAIN,
            title="plain aiohttp proxy on uvloop",
            arguments=("tests.bench.plain", "${port}", "${next}"),
        ),
        ours(),
        *others,
        *((ours(OURS_IN_PYTHON, "gapline, nothing compiled", *in_python),) if has_compiled else ()),
        ours(UNSTAMPED, "gapline, stamping off", "--passthrough", loads=_ANCHOR),
        *(
            (ours(UNSTAMPED_IN_PYTHON, "that, nothing compiled", "--passthrough", *in_python, loads=_ANCHOR),)
            if has_compiled
            else ()
        ),
        Contender(
            name="asgi",
            title="uvicorn + httpx",
            arguments=("-m", "tests.bench.asgi", "${port}", "${next}"),
            program="asgi",
            loads=frozenset({LIGHT.name, FLOOD.name}),
        ),
        Contender(
            name="litellm",
            title="LiteLLM",
            arguments=litellm.arguments,
            program="litellm",
            config=litellm.config,
            environ=litellm.environ,
            health=litellm.health,
            ready_within_s=IMPORTS_WITHIN_S,
            loads=frozenset({LIGHT.name}),
            is_loose=True,
            is_heavy=True,
        ),
    )
