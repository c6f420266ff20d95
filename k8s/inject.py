"""The command inject: put sidecars into the pods of files, as the webhook would, and print the result."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from k8s.callers import Caller, callers_of, router_in
from k8s.config import FILE_VARIABLE, PodConfig, add_flags, pod_config
from k8s.decisions import Skip
from k8s.documents import Document, DocumentError, Found, objects, pods_in, read, written
from k8s.explain import explained
from k8s.facts import Facts, Namespace
from k8s.keys import INJECT
from k8s.options import POD_OPTIONS
from k8s.pods import Object, annotations_of, labels_of, part
from k8s.renderer import injection
from otel.settings import ConfigError
from otel.settings_file import configured

OK: Final = 0
UNREADABLE: Final = 1
USAGE: Final = 2
DEFAULT_NAMESPACE: Final = "default"
_STDIN: Final = "-"
_EXAMPLES: Final = """\
examples:
  gapline inject -f deployment.yaml --export http://gapline-collector.gapline:4318 | kubectl apply -f -
  kubectl get deployment litellm -o yaml | gapline inject -f - --kubernetes 1.33 --explain

Who calls a pod is read from the Services, InferencePools and Namespaces of the same files: give them, too. Asking for
the command asks for a sidecar; the label gapline.dev/inject: disabled still means none.
Exit codes: 0 printed, 1 a file cannot be read, 2 usage.
"""


def main(argv: Sequence[str]) -> int:
    """Run the command."""
    flags = _parser().parse_args(argv)
    try:
        config = configured(pod_config, POD_OPTIONS, vars(flags), os.environ, file_variable=FILE_VARIABLE)
    except ConfigError as error:
        print(*error.errors, sep="\n", file=sys.stderr)
        return USAGE
    try:
        texts = [text_of(name) for name in flags.file]
        documents = [each for name, text in zip(flags.file, texts, strict=True) for each in documents_of(name, text)]
    except DocumentError as error:
        print(f"gapline inject: {error}", file=sys.stderr)
        return UNREADABLE
    told = injected(documents, config, namespace=flags.namespace)
    for where, lines, is_told in told:
        if is_told or flags.explain:
            first, *rest = lines if flags.explain else lines[:1]
            print(f"{where}: {first}", *(f"  {line}" for line in rest), sep="\n", file=sys.stderr)
    if flags.explain and config.export is None and not all(is_told for _, _, is_told in told):
        print("note: no --export, so these sidecars send no spans, and no collector hears of them", file=sys.stderr)
    is_json = all(text.lstrip().startswith("{") for text in texts)
    sys.stdout.write(written(documents, is_json=is_json))
    return OK


def injected(
    documents: Sequence[Document], config: PodConfig, *, namespace: str = DEFAULT_NAMESPACE
) -> list[tuple[Found, list[str], bool]]:
    """Put sidecars into the documents. For each pod what was decided, and whether people should hear of it unasked."""
    everything = list(objects(list(documents)))
    told = []
    for document in documents:
        for found in () if document.value is None else tuple(pods_in(document.value)):
            name = found.namespace or namespace
            result = injection(
                found.pod,
                namespace=_namespace(name, everything),
                facts=Facts(callers=known_callers(everything, name, default=namespace)),
                config=config,
                owner_kind=found.owner_kind,
            )
            if result.patch:
                _replace(found.pod, result.pod)
                document.is_changed = True
            told.append((found, explained(result.decision), isinstance(result.decision, Skip)))
    return told


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gapline inject",
        description="Put sidecars into the pods of files, and print the result.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "-f",
        "--file",
        action="append",
        required=True,
        metavar="FILE",
        help="YAML or JSON; - for stdin; may be repeated",
    )
    parser.add_argument("--explain", action="store_true", help="say on stderr what was decided for each pod, and why")
    parser.add_argument(
        "--namespace", default=DEFAULT_NAMESPACE, metavar="NAME", help="of objects that name none [default]"
    )
    add_flags(parser, POD_OPTIONS)
    return parser


def text_of(name: str) -> str:
    """What stands in a file, or comes in at stdin. Raises DocumentError, which names the file."""
    try:
        return sys.stdin.read() if name == _STDIN else Path(name).read_text(encoding="utf-8")
    except OSError as error:
        raise DocumentError(f"-f: {name!r}: cannot be read: {error.strerror or type(error).__name__}") from None
    except UnicodeDecodeError as error:
        raise DocumentError(f"-f: {name!r}: must be UTF-8: {error.reason} at byte {error.start}") from None


def documents_of(name: str, text: str) -> list[Document]:
    """The documents of the text of a file. Raises DocumentError, which names the file."""
    try:
        return read(text)
    except DocumentError as error:
        raise DocumentError(f"-f: {name!r}: {error}") from None


def _namespace(name: str, everything: Iterable[Object]) -> Namespace:
    """The namespace as the files have it. Who runs this has asked, unless a label says no."""
    labels, annotations = {INJECT: "enabled"}, dict[str, str]()
    for each in everything:
        if each.get("kind") == "Namespace" and part(each, "metadata").get("name") == name:
            labels |= labels_of(each)
            annotations |= annotations_of(each)
    return Namespace(name, labels, annotations)


def known_callers(everything: Sequence[Object], namespace: str, *, default: str) -> tuple[Caller, ...] | None:
    """Who calls pods of the namespace; None where the files tell of nobody at all."""
    callers = list(callers_of(_placed(everything, default)))
    for each in everything:
        for found in pods_in(each):
            router = router_in(found.pod, name=found.name, namespace=found.namespace or default)
            callers += [] if router is None else [router]
    return tuple(each for each in callers if each.namespace == namespace) if callers else None


def _placed(everything: Iterable[Object], namespace: str) -> Iterable[Object]:
    """The objects, each with a namespace."""
    for each in everything:
        metadata = part(each, "metadata")
        yield each if metadata.get("namespace") else {**each, "metadata": {**metadata, "namespace": namespace}}


def _replace(pod: dict[str, Any], by: dict[str, Any]) -> None:
    """Change the pod within its document."""
    pod.clear()
    pod.update(by)
