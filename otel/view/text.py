"""Text for a terminal: made harmless, measured in cells, cut, wrapped, and numbers as people read them.

An answer carries strings that others chose: ids, names of hops and models, tokens of errors. `clean` is the
only door through which they come in. What it lets pass takes one or two cells, stays where it is put, and
cannot move the cursor, colour, hide or reorder anything.
"""

from __future__ import annotations

import re
import shlex
import unicodedata
from itertools import accumulate, takewhile
from typing import Final

_REORDERS: Final = frozenset({"R", "AL", "AN"})  # letters written right to left move their neighbours on the line
_WIDE: Final = frozenset({"W", "F"})
_INVISIBLE: Final = frozenset("\u115f\u3164\uffa0") | frozenset(
    map(chr, (*range(0x1160, 0x1200), *range(0xD7B0, 0xD800)))
)
"""Fillers and joining parts of Hangul: letters by category, but of no width or no ink."""


def clean(text: str) -> str:
    r"""The text with every character that is not plainly printable written as an escape, `\x1b` or `\u202e`.

    Total and idempotent; the result is printable and has no combining mark and no right-to-left letter.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        character if _is_harmless(character) else character.encode("unicode_escape").decode("ascii")
        for character in unicodedata.normalize("NFC", text)
    )


def _is_harmless(character: str) -> bool:
    return (
        character.isprintable()
        and not unicodedata.category(character).startswith("M")
        and unicodedata.bidirectional(character) not in _REORDERS
        and character not in _INVISIBLE
    )


def plain_ascii(text: str) -> str:
    """Clean text in ASCII alone, cell for cell, so that what was lined up stays lined up."""
    if text.isascii():
        return text
    return "".join(
        _ASCII_OF.get(character) or (character if character.isascii() else "?" * cells(character)) for character in text
    )


_ASCII_OF: Final = {
    **dict.fromkeys("–—−‑", "-"),
    **dict.fromkeys("‘’", "'"),
    **dict.fromkeys("“”", '"'),
    "…": "~",
    "·": "-",
    "→": ">",
    "←": "<",
    "×": "x",
    "µ": "u",
    "≥": ">",
    "≤": "<",
}


def cells(text: str) -> int:
    """How many columns of a terminal clean text takes."""
    if text.isascii():
        return len(text)
    return sum(2 if unicodedata.east_asian_width(character) in _WIDE else 1 for character in text)


def cut(text: str, width: int) -> str:
    """The text in at most width cells, its end replaced by an ellipsis where it is longer."""
    if cells(text) <= width:
        return text
    return _head(text, width - 1) + "…" if width > 0 else ""


def pad(text: str, width: int) -> str:
    """The text in exactly width cells: cut, or filled up with blanks on the right."""
    text = cut(text, width)
    return text + " " * (width - cells(text))


def pad_left(text: str, width: int) -> str:
    """The text in exactly width cells: cut, or filled up with blanks on the left, for numbers."""
    text = cut(text, width)
    return " " * (width - cells(text)) + text


def wrap(text: str, width: int, *, taken: int = 0) -> list[str]:
    """The words of the text in lines of at most width cells; taken cells of the first line are in use.

    A number stays with its unit; a word that no line can hold is broken. At least one line, which may be empty.
    """
    lines: list[str] = []
    line, room = "", width - taken
    for word in _WORD.findall(text):
        while True:
            joined = f"{line} {word}" if line else word
            if cells(joined) <= room:
                line = joined
                break
            if line or room < width:
                lines.append(line)
                line, room = "", width
                continue
            head = _head(word, room) or word[0]
            lines.append(head)
            word = word[len(head) :]  # noqa: PLW2901  # what is left of the broken word is the next word
            if not word:
                break
    return [*lines, line] if line or not lines else lines


_WORD: Final = re.compile(r"\S*\d (?:s|ms|B|KiB|MiB|GiB)\b\S*|\S+")


def _head(text: str, width: int) -> str:
    """As many characters from the front as fit."""
    fitting = takewhile(lambda used: used <= width, accumulate(map(cells, text)))
    return text[: sum(1 for _ in fitting)]


def shell_lines(command: str, width: int) -> list[str]:
    """A command, quoted for a shell, indented, on lines of at most width cells that a shell reads as one.

    A line that goes on ends with a backslash. It is broken before an option where it can be, else before a word;
    a word that no line holds goes on at the very left, for a blank there would end it.
    """
    if 2 + cells(command) <= width:
        return ["  " + command]
    lines = [" "]
    for unit in _units(list(map(shlex.quote, shlex.split(command))), width - 6):
        if cells(lines[-1]) + 1 + cells(unit) + 2 <= width:
            lines[-1] += " " + unit
            continue
        if lines[-1].strip():
            lines[-1] += " \\"
            lines.append("   ")
        first, *rest = _word_pieces(unit, width - 6) if 4 + cells(unit) + 2 > width else [unit]
        lines[-1] += " " + first
        for piece in rest:
            lines[-1] += "\\"
            lines.append(piece)
    return lines


def _units(words: list[str], width: int) -> list[str]:
    """The words, an option together with its value where a line holds both."""
    units: list[str] = []
    for word in words:
        if units and units[-1].startswith("--") and " " not in units[-1] and cells(f"{units[-1]} {word}") <= width:
            units[-1] += f" {word}"
        else:
            units.append(word)
    return units


def _word_pieces(word: str, width: int) -> list[str]:
    """A quoted word as pieces, each quoted by itself, that are the word when they stand side by side."""
    pieces = [""]
    for character in "".join(shlex.split(word)):
        if cells(shlex.quote(pieces[-1] + character)) > width:
            pieces.append("")
        pieces[-1] += character
    return list(map(shlex.quote, pieces))


def seconds(value: float) -> str:
    """A time as people say it, at most 8 cells: `4 ms`, `2.00 s`, `312 s`, `12m 05s`, `3h 02m`, `4d 05h`."""
    sign, size = ("-", -value) if value < 0 else ("", value)
    if size < 0.001:
        return "<1 ms" if size else "0 s"
    if size < 0.0995:
        return f"{sign}{size * 1000:.0f} ms"
    if size < 9.995:
        return f"{sign}{size:.2f} s"
    if size < 99.95:
        return f"{sign}{size:.1f} s"
    if size < 599.5:
        return f"{sign}{size:.0f} s"
    whole = round(min(size, _DAY_S * 10_000))
    if whole < 36_000:
        return f"{sign}{whole // 60}m {whole % 60:02}s"
    if whole < 2 * _DAY_S:
        return f"{sign}{whole // 3600}h {whole % 3600 // 60:02}m"
    if whole < 1000 * _DAY_S:
        return f"{sign}{whole // _DAY_S}d {whole % _DAY_S // 3600:02}h"
    return f"{sign}>999d"


_DAY_S: Final = 86_400


def milliseconds(value_ms: int) -> str:
    """Whole milliseconds as seconds that can be added up by hand, at most 11 cells: `2.004 s`."""
    return f"{value_ms / 1000:.3f} s" if abs(value_ms) < 10_000_000 else seconds(value_ms / 1000)


def count(value: int) -> str:
    return f"{value:,}" if abs(value) < 10**12 else f"{value:.2e}"


def size(value_bytes: float) -> str:
    """Bytes as people say them, at most 10 cells."""
    amount = float(value_bytes)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(amount) < 1023.95:
            return f"{amount:.0f} B" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.0f} PiB" if abs(amount) < 10**4 else ">9999 PiB"
