"""The command `gapline`: one front door that loads a subcommand only when it is asked for.

A command is a function `main(argv: Sequence[str]) -> int`, found by the dotted name in the table. Nothing else is
imported here, so that `gapline --help` answers at once and a sidecar does not load what only a collector needs.
"""

from __future__ import annotations

import difflib
import importlib
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

OK: Final = 0
INTERNAL: Final = 1
USAGE: Final = 2
INTERRUPTED: Final = 130  # as shells report SIGINT


@dataclass(frozen=True, slots=True)
class Command:
    """One subcommand: its name, where its function is (`module:function`), one line of help, its group in the help."""

    name: str
    target: str
    help: str
    group: str


ASK, RUN = "ask", "run"
COMMANDS: Final = (
    Command("why", "otel.view.commands:why", "which hop made the reader of one request wait, and why", ASK),
    Command("timeline", "otel.view.commands:timeline", "the picture of one request: a lane per hop, gaps marked", ASK),
    Command("stalls", "otel.view.commands:stalls", "the requests that waited, when you have no id", ASK),
    Command("live", "otel.view.live_command:live", "the streams that are open now, the oldest silence first", ASK),
    Command("sidecar", "sidecar.__main__:main", "the proxy beside one server; it stamps every streamed event", RUN),
    Command("collector", "otel.__main__:main", "takes the records of all sidecars and answers questions", RUN),
    Command("injector", "k8s.injector:main", "the webhook that puts sidecars into pods of a cluster", RUN),
    Command("inject", "k8s.inject:main", "puts sidecars into the pods of manifests, and prints the result", RUN),
    Command("audit", "k8s.audit_command:main", "the pods that asked for a sidecar and have none, and why", RUN),
    Command("demo", "otel.demo.__main__:main", "three hops with a planted stall on this machine, and its verdict", RUN),
    Command("version", "sidecar.cli:version", "print the version", RUN),
)
BY_NAME: Final = {command.name: command for command in COMMANDS}

_LLAMA: Final = "pip install 'gapline[llama]'"
_KUBERNETES: Final = "pip install 'gapline[kubernetes]'"
REMEDIES: Final = {
    "grpc": "pip install 'gapline[collector]', or run it with `--grpc off`",
    "xllamacpp": _LLAMA,
    "gguf": _LLAMA,
    "yaml": _KUBERNETES,
    "cryptography": _KUBERNETES,
}
"""Packages that come with an extra only: top-level import name → what to do without them."""

HELP: Final = """\
usage: gapline COMMAND [OPTIONS]

An LLM answer stalled or broke off: which hop did it, since when, and why?

ask a collector (--collector URL, GAPLINE_COLLECTOR_URL, or 127.0.0.1:24070)
{ask}
run a part
{run}
try it
  gapline demo --fault inference-proxy:stall=2
  gapline why 7f3a9c21-40d2-4e6b-9d6f-1c4be0aa8f10

`gapline COMMAND --help` lists its options.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command that argv (by default the process's) names; returns its exit code."""
    if sys.stdout is None:  # closed by whoever started us: there is nobody to tell, which is no failure
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123  # open until the process ends
    try:
        code = _main(argv)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except OSError as error:
        print(f"gapline: cannot write: {error.strerror}", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return INTERNAL
    return code


def _main(argv: Sequence[str] | None) -> int:
    name, *rest = list(sys.argv[1:] if argv is None else argv) or [""]
    if name in {"-h", "--help"} or (name == "help" and not rest):
        sys.stdout.write(help_text())
        return OK
    if name == "help":
        name, rest = rest[0], ["--help"]
    if name == "--version":
        name = "version"
    if not name:
        sys.stderr.write(help_text())
        return USAGE
    command = BY_NAME.get(name)
    if command is None:
        print(f"gapline: {_unknown(name)}", file=sys.stderr)
        return USAGE
    return _run(command, rest)


def help_text() -> str:
    """What `gapline --help` prints."""
    width = max(len(command.name) for command in COMMANDS)
    listed = {
        group: "".join(f"  {command.name:{width}}   {command.help}\n" for command in COMMANDS if command.group == group)
        for group in (ASK, RUN)
    }
    return HELP.format_map(listed)


def _unknown(name: str) -> str:
    near = difflib.get_close_matches(name.lower(), BY_NAME, n=1)
    hint = f"did you mean `gapline {near[0]}`?" if near else "`gapline --help` lists the commands"
    kind = "no such option" if name.startswith("-") else "no such command"
    return f"{kind}: {name!r}; {hint}"


def _run(command: Command, argv: Sequence[str]) -> int:
    module_name, _, function_name = command.target.partition(":")
    try:
        function = getattr(importlib.import_module(module_name), function_name)
        code = function(argv)
    except ModuleNotFoundError as error:
        remedy = REMEDIES.get((error.name or "").partition(".")[0])
        if remedy is None:
            raise
        print(f"gapline {command.name}: the package {error.name} is not installed: {remedy}", file=sys.stderr)
        return INTERNAL
    except KeyboardInterrupt:
        return INTERRUPTED
    return int(code or OK)


def version(argv: Sequence[str]) -> int:
    """Print the version of the installed distribution."""
    if argv:
        print("usage: gapline version", file=sys.stderr)
        return OK if argv[0] in {"-h", "--help"} else USAGE
    metadata = importlib.import_module("importlib.metadata")  # 10 ms that no other command needs
    try:
        print(f"gapline {metadata.version('gapline')}")
    except metadata.PackageNotFoundError:
        print("gapline, not installed (running from a folder of its source)")
    return OK


if __name__ == "__main__":
    sys.exit(main())
