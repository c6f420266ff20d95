"""What is known of the request of one exchange: its ids, its head, and what its body told as it went by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from otel.hop import Exchange
from otel.ids import recorded
from sidecar.identity import Identity
from sidecar.inspection.request_scan import scan_for

PATH_CHARS: Final = 300
"""Most that is recorded of a path: those of real APIs stay below 200."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """What the head of a request tells of who sent it.

    is_probe: it is a health check or the like. probe_bytes: prompts up to this size are probes too; 0: none are.
    dimensions: by what stalls are sliced, name and value.
    """

    is_probe: bool = False
    probe_bytes: int = 0
    dimensions: tuple[tuple[str, str], ...] = ()


ANYBODY: Final = Caller()


class Asked:
    """The request's side of a record. size_bytes: of its body, as passed on. failure_count: times that looking failed.

    aliases: other ids of the same request, in the order in which they were seen.
    """

    __slots__ = ("_aliases", "_caller", "_scan", "failure_count", "identity", "method", "path", "size_bytes")

    def __init__(
        self,
        identity: Identity,
        *,
        method: str,
        path: str,
        content_type: str | None = None,
        content_encoding: str | None = None,
        caller: Caller = ANYBODY,
    ) -> None:
        self.identity = identity
        self.method = method
        bare = path.partition("?")[0].partition("#")[0]  # a fragment has no place in a target, and may be as private
        self.path = bare.encode("ascii", "replace").decode()[:PATH_CHARS]
        self.size_bytes = 0
        self.failure_count = 0
        self._caller = caller
        self._aliases = dict.fromkeys(identity.aliases)
        self._scan = scan_for(content_type, content_encoding)

    @property
    def aliases(self) -> tuple[str, ...]:
        return tuple(self._aliases)

    @property
    def model(self) -> str | None:
        return None if self._scan is None else self._scan.model

    @property
    def is_stream(self) -> bool | None:
        """Whether it asks for a stream, None where it does not say."""
        return None if self._scan is None else self._scan.is_stream

    @property
    def dimensions(self) -> dict[str, str]:
        return dict(self._caller.dimensions)

    @property
    def is_probe(self) -> bool:
        """By its head, or since its prompt is as small as only a probe's."""
        caller, scan = self._caller, self._scan
        if caller.is_probe or not caller.probe_bytes or scan is None:
            return caller.is_probe
        return scan.prompt_bytes is not None and scan.prompt_bytes <= caller.probe_bytes

    def alias_seen(self, request_id: str) -> None:
        """Another id of the same request, as it came."""
        if (alias := recorded(request_id)) != self.identity.request_id:
            self._aliases[alias] = None

    def passed(self, data: bytes) -> None:
        """Bytes of the body as they were on the wire: counted, and looked at where that may be. Never raises."""
        self.size_bytes += len(data)
        if self._scan is None:
            return
        try:
            self._scan.feed(data)
        except Exception:  # noqa: BLE001  # whatever the bytes are and wherever our mistake is, the request goes on
            self._scan = None
            self.failure_count += 1

    def mute(self) -> None:
        """Look at nothing more of it."""
        self._scan = None

    def exchange(self, *, status: int | None, error_type: str | None) -> Exchange:
        """The facts of the request, and of an answer of which nothing else is known."""
        scan = self._scan
        return Exchange(
            method=self.method,
            path=self.path,
            status=status,
            model=self.model,
            request_is_stream=self.is_stream,
            prompt_bucket=None if scan is None else scan.prompt_bucket,
            error_type=error_type,
            is_probe=self.is_probe,
            dimensions=self._caller.dimensions,
        )
