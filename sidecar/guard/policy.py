"""What one sidecar does for its readers when asked to: its mode, its limits, its keepalives, held heads and digests."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from sidecar.guard.keepalive import Form, Pulse
from sidecar.guard.limits import Rules
from sidecar.headers import Fields


class Mode(Enum):
    """What becomes of a limit that passes."""

    OFF = "off"
    """Nobody looks."""
    OBSERVE = "observe"
    """It is told and counted."""
    ENFORCE = "enforce"
    """The stream ends with an error, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Keepalives:
    """Comments that keep a silent stream alive. is_early: also before the upstream has answered, by a head of our own.

    on_signed: also into streams whose bytes are signed.
    """

    every_ns: int
    comment: bytes
    form: Form = Form.AUTO
    is_early: bool = False
    on_signed: bool = False

    def begin(self) -> Pulse:
        """Those of one answer."""
        return Pulse(self.every_ns, self.comment, form=self.form)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What is done for the readers of one listener.

    signed_headers: fields by which a stream is known to be signed, in lower case. hold_ns: how long a head waits for
    the first event, None where it goes on at once. has_digests: bodies are summed on both sides.
    """

    rules: Rules
    mode: Mode = Mode.OBSERVE
    is_missing_terminal_error: bool = False
    keepalives: Keepalives | None = None
    signed_headers: frozenset[str] = frozenset()
    hold_ns: int | None = None
    has_digests: bool = False

    @property
    def begins_early(self) -> bool:
        """A head of ours may go before the upstream's."""
        return self.keepalives is not None and self.keepalives.is_early

    @property
    def acts_with_time(self) -> bool:
        """Something may have to be written just because time has passed."""
        return self.keepalives is not None or self.hold_ns is not None

    def is_signed(self, fields: Fields, *, path: str, model: str | None) -> bool:
        """Whether somebody may check the bytes of the body that comes with these fields, or with those that they
        announce to come behind it."""
        return bool(self.signed_headers & _names(fields)) or self.rules.is_signed(path, model)


def _names(fields: Iterable[tuple[str, str]]) -> set[str]:
    """The names of fields, and those that a Trailer field lists (RFC 9110, 6.6.2)."""
    names = {name.lower() for name, _ in fields}
    listed = (value for name, value in fields if name.lower() == "trailer")
    return names | {name.strip().lower() for value in listed for name in value.split(",")}
