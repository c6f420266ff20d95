"""Carry a WebSocket through a tunnel, and tell the recorder of its messages in both directions.

A client that ends its sending side has left, unless one of the two has said goodbye in band before: then it may be
waiting for the other part of an orderly end. In either case what the upstream still sends goes to it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from sidecar.downstream.door import Door
from sidecar.downstream.tunnel import Cut
from sidecar.inspection.websocket import CLOSE, FrameWalker, Message
from sidecar.recording.beside import BLOCKED_NS
from sidecar.recording.recorder import SEGMENT_EVENTS, Recorder
from sidecar.upstream import Upgraded

_BINARY: Final = 0x2


class Written(Protocol):
    """The response, as which the upstream's messages count. output_size: bytes of it given to the connection."""

    output_size: int


async def carry_messages(
    door: Door,
    upgraded: Upgraded,
    *,
    recorder: Recorder,
    response: Written,
    now: Callable[[], int],
    cut: Callable[[int], None],
) -> None:
    """Pass messages both ways until both sides are closed. Cancelled, it closes them; the caller records that.

    cut: called with the time whenever there is enough for a segment of the record.
    """
    answered = _Answered(recorder, response, cut)
    sent = _Sent(recorder, answered)
    tunnel = door.become_tunnel(upgraded, sent=sent, answered=answered)
    await tunnel.wait_closed()
    if answered.ended_ns is None or answered.is_unread:
        recorder.upstream_closed(now())
    elif tunnel.client.cut in {None, "fin"}:
        recorder.downstream_ended(now(), response.output_size)


class _Answered:
    """Watches what comes from the upstream.

    has_closed: it has sent a close frame. is_unread: the client has left. ended_ns: its connection ended by itself.
    """

    def __init__(self, recorder: Recorder, response: Written, cut: Callable[[int], None]) -> None:
        self._recorder = recorder
        self._response = response
        self._cut = cut
        self._walker = FrameWalker()
        self.has_closed = False
        self.is_unread = False
        self.ended_ns: int | None = None

    def passed(self, data: bytes, at_ns: int) -> None:
        self._response.output_size += len(data)
        for message in _seen(self._walker, data):
            self.has_closed |= message.opcode == CLOSE
            self._recorder.message_received(message.opcode, message.size_bytes, at_ns)

    def taken(self, at_ns: int) -> None:
        self._recorder.blocked_since_ns = None
        self._recorder.taken(at_ns, self._response.output_size)
        if self._recorder.fresh_count >= SEGMENT_EVENTS:
            self._cut(at_ns)

    def stuck(self, at_ns: int) -> None:
        self._recorder.blocked_since_ns = at_ns

    def blocked(self, began_ns: int, ended_ns: int) -> None:
        if ended_ns - began_ns >= BLOCKED_NS:
            self._recorder.blocked(began_ns, ended_ns, None)

    def ended(self, at_ns: int, cut: Cut) -> None:
        self.ended_ns = at_ns
        if not self.is_unread:  # or it ended because of that
            is_clean = cut == "fin"
            self._recorder.upstream_ended(at_ns, is_clean=is_clean, cut=None if is_clean else cut)


class _Sent:
    """Watches what comes from the client."""

    def __init__(self, recorder: Recorder, answered: _Answered) -> None:
        self._recorder = recorder
        self._answered = answered
        self._has_closed = False
        self._walker = FrameWalker()
        self._untaken: list[tuple[Message, int]] = []

    def passed(self, data: bytes, at_ns: int) -> None:
        for message in _seen(self._walker, data):
            self._has_closed |= message.opcode == CLOSE
            self._untaken.append((message, at_ns))

    def taken(self, at_ns: int) -> None:
        for message, arrived_ns in self._untaken:
            self._recorder.message_sent(message.opcode, message.size_bytes, arrived_ns, at_ns)
        self._untaken.clear()

    def stuck(self, at_ns: int) -> None:
        """The upstream takes no more: until it does nothing is read, so what is untaken stays one read's."""

    def blocked(self, began_ns: int, ended_ns: int) -> None:
        """What the upstream did not take shows in when its messages were taken."""

    def ended(self, at_ns: int, cut: Cut) -> None:
        is_expected = self._has_closed or self._answered.has_closed or self._answered.ended_ns is not None
        if not is_expected:
            self._answered.is_unread = True
            self._recorder.client_left(at_ns, cut=cut)


def _seen(walker: FrameWalker, data: bytes) -> list[Message]:
    """The messages that these bytes complete; of a walker that is blind, the bytes of each read as one."""
    messages = walker.feed(data)
    if walker.is_blind and (unseen_bytes := walker.take_unseen()):
        messages.append(Message(_BINARY, unseen_bytes))
    return messages
