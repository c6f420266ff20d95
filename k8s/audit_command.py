"""The command audit: ask a cluster, or read what kubectl printed, and list the pods that lack a sidecar."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any, Final

import aiohttp

from k8s.api import POOLS, Api, ApiError, HttpApi, in_cluster
from k8s.audit import Audit, Auditor, namespaces_of, router_of
from k8s.callers import Caller, callers_of
from k8s.config import FILE_VARIABLE, OPTIONS, Config, add_flags, config_of
from k8s.documents import DocumentError, objects
from k8s.facts import Facts
from k8s.inject import documents_of, text_of
from k8s.options import POD_OPTIONS
from k8s.pods import Object, minor_of
from otel.settings import ConfigError
from otel.settings_file import configured

OK: Final = 0
UNREADABLE: Final = 1
USAGE: Final = 2
NO_ANSWER: Final = 3
FOUND: Final = 10
_LISTS: Final = {
    "Namespace": "/api/v1/namespaces",
    "Service": "/api/v1/services",
    "Node": "/api/v1/nodes",
}
"""What is around pods. These are read at once, and pods one by one."""
_PODS: Final = "/api/v1/pods"
_EXAMPLES: Final = """\
examples:
  kubectl proxy & gapline audit --server http://127.0.0.1:8001
  kubectl get pods,services,namespaces,nodes -A -o json | gapline audit -f -

Exit codes: 0 every pod that asked has a sidecar, 10 some have none or are passed by, 3 no answer from the API server,
2 usage, 1 a file cannot be read.
"""


def main(argv: Sequence[str]) -> int:
    """Run the command."""
    flags = _parser().parse_args(argv)
    try:
        config = configured(config_of, OPTIONS, vars(flags), os.environ, file_variable=FILE_VARIABLE)
    except ConfigError as error:
        print(*error.errors, sep="\n", file=sys.stderr)
        return USAGE
    try:
        found = _of_files(flags.file, config) if flags.file else asyncio.run(_of_server(flags.server, config))
    except ApiError as error:
        at = f"--server: {flags.server!r}: " if flags.server else ""
        print(f"gapline audit: {at}{error}", file=sys.stderr)
        return NO_ANSWER
    except DocumentError as error:
        print(f"gapline audit: {error}", file=sys.stderr)
        return UNREADABLE
    sys.stdout.write(_json(found) if flags.json else text(found))
    return FOUND if found.findings else OK


async def asked(api: Api, config: Config) -> Audit:
    """Ask a cluster. Raises ApiError."""
    around = [{"kind": kind, **each} for kind, path in _LISTS.items() async for each in api.list(path)]
    for group in POOLS:
        try:
            around += [{"kind": "InferencePool", **each} async for each in api.list(f"{group}/inferencepools")]
        except ApiError as error:
            if not error.is_absent:
                raise
    routers = [router async for pod in api.list(_PODS) if (router := router_of(pod)) is not None]
    auditor = auditor_of(around, routers, config)
    async for pod in api.list(_PODS):  # again, since a cluster may have more of them than should be kept
        auditor.look(pod)
    return auditor.audit()


def auditor_of(around: Iterable[Object], routers: Iterable[Caller], config: Config) -> Auditor:
    """What looks at pods, among these objects."""
    known = list(around)
    namespaces = namespaces_of(known)
    minors = [minor_of(each) for each in known if each.get("kind") == "Node"]
    oldest = min((minor for minor in minors if minor is not None), default=None)
    callers = (*callers_of(known), *routers)
    facts = {
        name: Facts(callers=tuple(each for each in callers if each.namespace == name), oldest_minor=oldest)
        for name in {*namespaces, *(caller.namespace for caller in callers)}
    }
    return Auditor(namespaces, facts, config=config.pod, own=config.namespace)


def text(found: Audit) -> str:
    """For people."""
    lines = [
        f"{each.namespace}  {each.workload}{f' ({each.count} pods)' if each.count > 1 else ''}  {each.reason}\n"
        f"    {each.detail}\n"
        for each in found.findings
    ]
    passed = sum(each.count for each in found.findings) - found.bare_count
    said = f"{found.asked_count} pods asked for a sidecar, {found.bare_count} of them have none"
    shown = "".join(char if char.isprintable() or char == "\n" else "?" for char in "".join(lines))
    return shown + said + (f", {passed} are passed by" if passed else "") + "\n"


def _json(found: Audit) -> str:
    answer: dict[str, Any] = {"asked": found.asked_count, "bare": found.bare_count}
    return json.dumps(answer | {"findings": [asdict(each) for each in found.findings]}, indent=2) + "\n"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gapline audit",
        description="List the pods that asked for a sidecar and have none, and why.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    source = parser.add_mutually_exclusive_group()
    source.add_argument("-f", "--file", action="append", metavar="FILE", help="what kubectl printed; - for stdin")
    source.add_argument(
        "--server", metavar="URL", help="the API server, as `kubectl proxy` opens it [that of this pod]"
    )
    parser.add_argument("--json", action="store_true", help="the answer as one JSON object")
    parser.add_argument("--namespace", metavar="NAME", help="of the injector, whose own pods get no sidecar")
    add_flags(parser, POD_OPTIONS)
    return parser


def _of_files(names: Sequence[str], config: Config) -> Audit:
    everything = [each for name in names for each in objects(documents_of(name, text_of(name)))]
    pods = [each for each in everything if each.get("kind") == "Pod"]
    auditor = auditor_of(everything, [router for pod in pods if (router := router_of(pod)) is not None], config)
    for pod in pods:
        auditor.look(pod)
    return auditor.audit()


async def _of_server(url: str | None, config: Config) -> Audit:
    async with aiohttp.ClientSession() as session:
        return await asked(in_cluster(session, os.environ) if url is None else HttpApi(session, url), config)
