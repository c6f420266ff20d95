"""What a printed view does to a terminal: its lines, their widths, and whether anything but ink is in it."""

from __future__ import annotations

import re
import unicodedata

SGR = re.compile(r"\x1b\[[0-9;]*m")


def columns(line: str) -> int:
    """The columns that a terminal gives a line, counted without the code under test."""
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in SGR.sub("", line))


def assert_fits(text: str, width: int) -> None:
    """Every line is ended, within the width, and made of printable characters that stay where they are put."""
    assert text.endswith("\n")
    for line in text.removesuffix("\n").split("\n"):
        bare = SGR.sub("", line)
        assert bare.isprintable(), repr(line)
        assert not any(unicodedata.category(character)[0] in "CM" for character in bare), repr(line)
        assert not any(unicodedata.bidirectional(character) in {"R", "AL", "AN"} for character in bare), repr(line)
        assert columns(line) <= width, (columns(line), width, line)
