"""When a comment may be put into a stream of events so that nobody on the way takes it for dead, and its bytes.

A comment is put in only where whoever reads on finds the events that would have been there without it: at the
boundary of two blocks, never inside one, between a CR and its LF, or after the event that marks the end. It is never
put into an encoded body, one with a length, another framing than SSE, or, unless asked, one that is signed.

A comment with a blank line behind it is a block of its own, which is what readers expect who split a body at blank
lines and look at how each piece begins. But openai-python takes any blank line for the end of an event once the
stream has had an id, and fails on the empty data. So while an id is in force the comment is a line without a blank one.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Final

from sidecar.headers import is_packed

TEXT_BYTES: Final = 200
"""Longest text of a comment: it is sent over and over, and says nothing."""

_FORBIDDEN: Final = frozenset("\r\n\0")
_NO_WHOLE_BODY: Final = frozenset({204, 205, 206})
_BOM: Final = b"\xef\xbb\xbf"
_CHARSET: Final = re.compile(r""";\s*charset\s*=\s*["']?([^"';\s]*)""", re.IGNORECASE)
_ASCII: Final = ("utf-8", "utf8", "us-ascii", "ascii", "iso-8859-", "latin", "windows-125")
"""Beginnings of charsets in which a comment is the same bytes. A body that says it is UTF-16 is left alone."""


class Form(Enum):
    """What is put behind a comment line."""

    AUTO = "auto"
    """A blank line, unless an id is in force."""
    BLOCK = "block"
    """A blank line."""
    LINE = "line"
    """Nothing."""


def comment(text: str) -> bytes:
    """A comment that says this, as a block of its own. Raises ValueError with the rule that was broken."""
    if _FORBIDDEN & set(text):
        raise ValueError("must have no CR, LF or NUL: the comment would end there")
    said = text.encode("utf-8", "surrogateescape")
    if len(said) > TEXT_BYTES:
        raise ValueError(f"must be at most {TEXT_BYTES} bytes, and is {len(said)}")
    return b": " + said + b"\n\n" if said else b":\n\n"


def may_pulse(
    *,
    status: int,
    content_type: str | None,
    content_encoding: str | None,
    has_length: bool,
    framing: str,
    is_signed: bool,
    on_signed: bool,
) -> bool:
    """Whether comments may be put into this answer at all, as far as its head tells.

    has_length: its length was announced. framing: as it is looked at. on_signed: signed ones too.
    """
    has_events = framing == "sse" and 200 <= status < 300 and status not in _NO_WHOLE_BODY
    charset = _CHARSET.search(content_type or "")
    is_ascii = charset is None or charset[1].lower().startswith(_ASCII)
    is_plain = is_ascii and not has_length and not is_packed(content_encoding)
    return has_events and is_plain and (on_signed or not is_signed)


class Pulse:
    """The comments of one answer: when the next one is due, and what it is.

    block: what `comment` made of the text.
    """

    __slots__ = ("_block", "_form", "_interval_ns")

    def __init__(self, interval_ns: int, block: bytes, *, form: Form = Form.AUTO) -> None:
        self._interval_ns = interval_ns
        self._block = block
        self._form = form

    def due(
        self, at_ns: int, last_written_ns: int, *, is_at_boundary: bool, is_over: bool, is_blocked: bool = False
    ) -> bool:
        """Whether to put in a comment now. last_written_ns: when the reader was last written to, by whomever.

        is_over: the end was marked, or an error was told. is_blocked: the reader has not taken what there is.
        """
        if not is_at_boundary or is_over or is_blocked:
            return False
        return at_ns - last_written_ns >= self._interval_ns

    def beat(self, *, has_id: bool) -> bytes:
        """The bytes of a comment, to be written now. has_id: an id is in force."""
        is_line = self._form is Form.LINE or (self._form is Form.AUTO and has_id)
        return self._block[:-1] if is_line else self._block


class BomShield:
    """Keep a byte order mark harmless that comes behind comments of ours, where it is no mark any more.

    At the very beginning of a body it is no part of the first line; anywhere else it is, and the first field would
    have a name that nobody knows. So a line of comment is made of it: a colon of ours before it, a LF behind it. A
    line that begins with its first byte is no field that anybody knows, so that the colon never does harm, and no
    byte has to wait for the next one.
    """

    __slots__ = ("_mark_bytes", "is_done")

    def __init__(self) -> None:
        self._mark_bytes = 0  # of the mark that have come
        self.is_done = False

    def feed(self, data: bytes) -> list[tuple[bytes, bool]]:
        """The next bytes of the upstream's body in pieces to be written, each with whether it is ours.

        Together those that are not ours are the data. is_done: from here on there is nothing to do.
        """
        if not data:
            return []
        if self.is_done:
            return [(data, False)]
        taken = 0
        while taken < len(data) and self._mark_bytes < len(_BOM) and data[taken] == _BOM[self._mark_bytes]:
            taken += 1
            self._mark_bytes += 1
        is_mark = self._mark_bytes == len(_BOM)
        self.is_done = is_mark or taken < len(data)
        has_begun = taken > 0 and self._mark_bytes == taken
        pieces = [(b":", True)] if has_begun else []
        pieces += [(data[:taken], False), (b"\n", True)] if is_mark else []
        pieces.append((data[taken:] if is_mark else data, False))
        return [(piece, is_ours) for piece, is_ours in pieces if piece]
