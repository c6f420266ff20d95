"""Find the messages in one direction of a WebSocket, without keeping or changing a byte (RFC 6455, 5).

Rule: the sizes of the messages given out, plus what is pending, equal the bytes taken in, as long as the walker sees.
A message has all bytes since the one before it ended, the heads of its frames and what was fragmented around a control
frame included; so where it ends in the stream is the sum of the sizes up to it. What breaks the rules of framing makes
the walker blind for good: a position once lost cannot be found again. Nothing raises.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

CLOSE: Final = 0x8
"""The opcode of the frame that begins an orderly end."""
_CONTINUATION: Final = 0x0
_CONTROL_BIT: Final = 0x8
_KNOWN: Final = frozenset({0x0, 0x1, 0x2, 0x8, 0x9, 0xA})
_CONTROL_BYTES: Final = 125  # RFC 6455, 5.5
_LENGTH_BYTES: Final = {126: 2, 127: 8}  # of the extended length, by what stands in its place
_MASK_BYTES: Final = 4
_CODE_BYTES: Final = 2


@dataclass(frozen=True, slots=True)
class Message:
    """One whole message, or one control frame.

    size_bytes: on the wire, with all that came since the message before. close_code: what a close frame says of the
    reason, None where it says nothing and of all others.
    """

    opcode: int
    size_bytes: int
    close_code: int | None = None

    @property
    def is_control(self) -> bool:
        return bool(self.opcode & _CONTROL_BIT)


class FrameWalker:
    """The frames of one direction.

    pending_bytes: taken in and not given out. is_blind: no message will be given out any more.
    """

    __slots__ = (
        "_code",
        "_fragmented",
        "_head",
        "_is_final",
        "_left_bytes",
        "_mask",
        "_opcode",
        "is_blind",
        "pending_bytes",
    )

    def __init__(self) -> None:
        self._head = bytearray()  # of the frame that begins, at most 14 bytes
        self._left_bytes: int | None = None  # of the payload; None: the head is not whole
        self._opcode = _CONTINUATION
        self._is_final = True
        self._mask = b""
        self._code = bytearray()  # first bytes of a close frame's payload
        self._fragmented: int | None = None  # opcode of the message of which more fragments are to come
        self.is_blind = False
        self.pending_bytes = 0

    def feed(self, data: bytes) -> list[Message]:
        """What these bytes complete, in order."""
        found: list[Message] = []
        at = 0
        while not self.is_blind and at < len(data):
            began = at
            at = self._read_head(data, at) if self._left_bytes is None else self._skip(data, at)
            self.pending_bytes += at - began
            if self._left_bytes == 0 and (message := self._end_frame()) is not None:
                found.append(message)
        if self.is_blind:
            self.pending_bytes += len(data) - at
        return found

    def take_unseen(self) -> int:
        """Of a blind walker: bytes taken in since it was last asked."""
        unseen_bytes, self.pending_bytes = self.pending_bytes, 0
        return unseen_bytes

    def _read_head(self, data: bytes, at: int) -> int:
        """Take what is missing of a frame's head; where it ends in data."""
        head = self._head
        while (missing_bytes := _head_bytes(head) - len(head)) > 0 and at < len(data):
            taken = data[at : at + missing_bytes]
            head += taken
            at += len(taken)
        if missing_bytes <= 0:
            self._begin_frame()
        return at

    def _begin_frame(self) -> None:
        head = self._head
        self._is_final = bool(head[0] & 0x80)
        self._opcode = opcode = head[0] & 0x0F
        length = head[1] & 0x7F
        extended_bytes = _LENGTH_BYTES.get(length, 0)
        if extended_bytes:
            length = int.from_bytes(head[2 : 2 + extended_bytes])
        self._mask = bytes(head[2 + extended_bytes :])
        head.clear()
        self._left_bytes = length
        is_control = bool(opcode & _CONTROL_BIT)
        self.is_blind = (
            opcode not in _KNOWN
            or length >> 63 != 0
            or (is_control and (length > _CONTROL_BYTES or not self._is_final))
            or (not is_control and (opcode == _CONTINUATION) != (self._fragmented is not None))
        )

    def _skip(self, data: bytes, at: int) -> int:
        """Take what is there of the payload; where it ends in data."""
        assert self._left_bytes is not None
        end = min(len(data), at + self._left_bytes)
        if self._opcode == CLOSE and len(self._code) < _CODE_BYTES:
            self._code += data[at : min(end, at + _CODE_BYTES - len(self._code))]
        self._left_bytes -= end - at
        return end

    def _end_frame(self) -> Message | None:
        self._left_bytes = None
        if self.is_blind:
            return None
        opcode, close_code = self._opcode, None
        if opcode == CLOSE:
            close_code = self._closing()
        elif not opcode & _CONTROL_BIT:
            opcode = self._opcode if self._fragmented is None else self._fragmented
            self._fragmented = None if self._is_final else opcode
            if not self._is_final:
                return None
        size_bytes, self.pending_bytes = self.pending_bytes, 0
        return Message(opcode, size_bytes, close_code)

    def _closing(self) -> int | None:
        code, self._code = self._code, bytearray()
        if len(code) < _CODE_BYTES:
            return None
        return int.from_bytes(code) ^ int.from_bytes(self._mask[:_CODE_BYTES])


def _head_bytes(head: bytearray) -> int:
    """How long a frame's head is, as far as can be told from its beginning."""
    if len(head) < 2:
        return 2
    return 2 + _LENGTH_BYTES.get(head[1] & 0x7F, 0) + (_MASK_BYTES if head[1] & 0x80 else 0)
