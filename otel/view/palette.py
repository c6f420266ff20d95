"""How the views look: tones that mean something, marks that have a shape, and the lines made of them.

Colour never stands alone: what a tone says is also said by a mark, a fill or a word, so a view reads the same
without colour and for people who do not tell the colours apart. The tones are vermillion, blue and purple of
middle brightness, which show on dark and on light (measured in the tests), from the 256 colours of xterm.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from otel.view.text import plain_ascii


class Tone(Enum):
    """What a piece of text means; the value is its SGR parameters."""

    PLAIN = ""
    STRONG = "1"
    QUIET = "38;5;243"
    FAULT = "1;38;5;166"
    DOUBT = "38;5;133"
    FLOW = "38;5;32"
    FAULT_BADGE = "1;38;5;231;48;5;130"
    DOUBT_BADGE = "1;38;5;231;48;5;90"
    FINE_BADGE = "1;38;5;231;48;5;25"


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of a line in one tone. The text is clean."""

    text: str
    tone: Tone = Tone.PLAIN


Line = tuple[Piece, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """The shapes of a picture. content and reasoning rise with the number of events in a column."""

    content: str
    reasoning: str
    other: str
    error: str
    terminal: str
    open: str
    void: str
    blocked: str
    lag: str
    held: str
    fill_source: str
    fill_self: str
    fill_app: str
    fill_reader: str
    negative: str
    sliver: str
    rule: str
    tick: str
    left: str
    right: str
    bracket_left: str
    bracket_right: str
    down: str
    up: str
    guilty: str
    arrow: str


UNICODE: Final = Marks(
    content="▁▂▃▄▅▆▇█",
    reasoning="░▒▓",
    other="·",
    error="✗",
    terminal="■",
    open="»",
    void="╌",
    blocked="═",
    lag="≈",
    held="┄",
    fill_source="█",
    fill_self="▒",
    fill_app="▓",
    fill_reader="░",
    negative="◂",
    sliver="▏",
    rule="─",
    tick="┴",
    left="└",
    right="┘",
    bracket_left="└",
    bracket_right="┘",
    down="▼",
    up="▲",
    guilty="▶",
    arrow="←",
)

ASCII: Final = Marks(
    content=".:o#",
    reasoning=",;%&",
    other="'",
    error="X",
    terminal="|",
    open=">",
    void="-",
    blocked="=",
    lag="~",
    held="_",
    fill_source="#",
    fill_self="%",
    fill_app="+",
    fill_reader=":",
    negative="<",
    sliver="|",
    rule="-",
    tick="+",
    left="+",
    right="+",
    bracket_left="[",
    bracket_right="]",
    down="v",
    up="^",
    guilty=">",
    arrow="<-",
)

NARROWEST_CELLS: Final = 60  # below this a lane has no room left beside its name


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The terminal that a view is made for: its width in cells (NARROWEST_CELLS or more) and what it can show."""

    width: int = 100
    is_colour: bool = False
    is_ascii: bool = False

    @property
    def marks(self) -> Marks:
        return ASCII if self.is_ascii else UNICODE


def render(lines: Iterable[Line], look: Look) -> str:
    """The lines as text to print, each ended by a newline, without blanks at their ends."""
    return "".join(_rendered(line, look) + "\n" for line in lines)


def _rendered(line: Line, look: Look) -> str:
    pieces = list(line)
    while pieces and pieces[-1].tone not in _BADGES:
        last = pieces.pop()
        if text := last.text.rstrip(" "):
            pieces.append(Piece(text, last.tone))
            break
    return "".join(_dressed(piece, look) for piece in pieces)


def _dressed(piece: Piece, look: Look) -> str:
    text = plain_ascii(piece.text) if look.is_ascii else piece.text
    return f"\x1b[{piece.tone.value}m{text}\x1b[0m" if look.is_colour and piece.tone.value and text else text


_BADGES: Final = frozenset({Tone.FAULT_BADGE, Tone.DOUBT_BADGE, Tone.FINE_BADGE})


def badge(text: str, tone: Tone, look: Look) -> Piece:
    """A label that stands out: on a ground of its colour, or in brackets of the same width."""
    return Piece(f" {text} " if look.is_colour else f"[{text}]", tone)


class Strip:
    """One line under construction, column by column: later marks cover earlier ones, what is outside is dropped."""

    def __init__(self, width: int) -> None:
        self.width = width
        self._marks = [" "] * width
        self._tones = [Tone.PLAIN] * width
        self._is_shape = [False] * width

    def put(self, column: int, text: str, tone: Tone = Tone.PLAIN) -> None:
        """Write text of one-cell characters from the column on."""
        for index, character in enumerate(text, column):
            self._set(index, character, tone, is_shape=False)

    def fill(self, columns: Iterable[int], mark: str, tone: Tone = Tone.PLAIN) -> None:
        """Draw the mark, one character, in every one of the columns."""
        for column in columns:
            self._set(column, mark, tone, is_shape=True)

    def _set(self, column: int, mark: str, tone: Tone, *, is_shape: bool) -> None:
        if 0 <= column < self.width:
            self._marks[column], self._tones[column], self._is_shape[column] = mark, tone, is_shape

    @property
    def drawn(self) -> set[str]:
        """The marks that can be seen, without text, for a legend."""
        return {mark for mark, is_shape in zip(self._marks, self._is_shape, strict=True) if is_shape}

    def label(self, columns: range, text: str, tone: Tone = Tone.PLAIN) -> bool:
        """Write the text, a blank on either side, into the middle of the columns; whether there was room."""
        if len(columns) < len(text) + 4:
            return False
        self.put(columns.start + (len(columns) - len(text) - 2) // 2, f" {text} ", tone)
        return True

    def mark_at(self, column: int) -> str:
        return self._marks[column]

    def pieces(self) -> Line:
        made: list[Piece] = []
        start = 0
        for column in range(1, self.width + 1):
            if column == self.width or self._tones[column] is not self._tones[start]:
                made.append(Piece("".join(self._marks[start:column]), self._tones[start]))
                start = column
        return tuple(made)
