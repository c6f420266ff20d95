"""How asking an upstream can fail: few errors, each of which says at which step and by which rule.

None of them quotes what was received: a message can be logged and shown.
"""

# ruff: noqa: N818  # each is named after what happened

from __future__ import annotations

from typing import Literal

Cut = Literal["fin", "reset", "timeout", "framing"]
"""How an answer ended that is not whole: its connection was closed in order, was reset, died in silence (the kernel's
keep-alive found no machine), or the bytes break the framing."""


class UpstreamError(Exception):
    """There is no whole answer."""


class ConnectTimeout(UpstreamError):
    """No connection in time, names and TLS included."""

    def __init__(self, timeout_s: float) -> None:
        super().__init__(f"no connection within {timeout_s:g} s")


class ConnectFailed(UpstreamError):
    """No connection: refused, unreachable, a name that nobody knows, no descriptor left. errno: None when unknown."""

    def __init__(self, reason: str, errno: int | None = None) -> None:
        super().__init__(f"no connection: {reason}")
        self.errno = errno


class TlsFailed(UpstreamError):
    """There is a connection, but no TLS on it: what the peer shows is not valid or not trusted."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"no TLS: {reason}")
        self.reason = reason


class BadRequest(UpstreamError):
    """The request cannot be sent as it is; nothing was answered."""

    def __init__(self, rule: str) -> None:
        super().__init__(f"not sent: {rule}")
        self.rule = rule


class BadRequestHead(BadRequest):
    """Its head would not be read as it is meant. Nothing was sent."""


class BadRequestBody(BadRequest):
    """Its body is not as long as its head says. What was sent of it cannot be taken for whole."""


class BadAnswer(UpstreamError):
    """What came in place of a head is none that may be passed on."""

    def __init__(self, rule: str) -> None:
        super().__init__(f"the answer breaks the rule: {rule}")
        self.rule = rule


class BrokenOff(UpstreamError):
    """The answer ended before it was whole: before its head, or within its body."""

    def __init__(self, rule: str, cut: Cut) -> None:
        super().__init__(f"the answer broke off ({cut}): {rule}")
        self.rule = rule
        self.cut: Cut = cut
