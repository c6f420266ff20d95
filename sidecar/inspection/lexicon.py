"""Keep of an error's text only the words that errors are told in; whatever else stood there becomes `…`.

A text is read piece by piece, as blanks part it. A piece stays when it is made of known words and small numbers only,
joined as identifiers, paths and numbers are. Some known words go as well, because of what stands beside them: what is
quoted and is no single known word; a clause of which much is not known, for it is somebody's sentence; numbers that
together are long; a word that people are called, beside one that is not known.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from sidecar.inspection.words import NAMES, UNITS, WORDS

LIMIT_CHARS: Final = 200
"""Longest masked text: a sentence, and the place where it happened."""
INPUT_CHARS: Final = 1_000
"""Most that is read of a text, 5 ms at worst: errors begin with what went wrong, and what it was about comes later."""
DIGITS: Final = 9
"""Most digits of a number, and of numbers in a row: ten and more are those of accounts, cards and phones."""
PIECE_CHARS: Final = 80
"""Longest piece that is taken apart: the longest real names of classes and paths of errors."""
PARTS: Final = 12
"""Most words and numbers in one piece."""
MASK: Final = "…"

_PIECE: Final = re.compile(r"\S++")
_QUOTED: Final = re.compile(
    r'"(?:[^"\\]++|\\.|"(?=[A-Za-z0-9]))*+(?:"|\\?\Z)'
    r"|(?<![A-Za-z0-9])'(?:[^'\\]++|\\.|'(?=[A-Za-z0-9]))*+(?:'|\\?\Z)"
    r"|`(?:[^`]++|`(?=[A-Za-z0-9]))*+(?:`|\Z)"
    r"|“[^”]*+(?:”|\Z)|‘[^’]*+(?:’|\Z)|«[^»]*+(?:»|\Z)|„[^“”]*+(?:[“”]|\Z)|「[^」]*+(?:」|\Z)",
    re.DOTALL,
)
"""What stands in quotation marks; where the last one is missing, all the rest. No quotation ends before a word."""
_CLOSING: Final = frozenset("\"'`”’»“」")
_PUNCTUATION: Final = "()[]{}<>\"'`.,:;!?=+-*/%|#_"
_PART: Final = re.compile(r"[A-Za-z0-9]++|[^A-Za-z0-9]++")
_JOINTS: Final = frozenset("()[]{}<>\"'`.,:=+-/|_")
_JOINT_CHARS: Final = 3
_CAMEL: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[A-Z]")
_HUMPS: Final = 6
_NUMBER: Final = re.compile(r"([0-9]++)([A-Za-z]*+)\Z")
_CLAUSE_ENDS: Final = frozenset(".:;!?")
_MASKS: Final = re.compile(rf"{MASK}(?:[^A-Za-z0-9{MASK}]*+{MASK})++")


@dataclass(slots=True)
class _Piece:
    """One piece: what stands before and after its core, and whether it stays. digits: of a piece that is a number."""

    lead: str
    core: str
    tail: str
    is_known: bool
    digit_count: int = 0
    begins_clause: bool = False
    is_neutral: bool = False
    """Neither a known word nor an unknown one: a number, a quotation, or nothing but punctuation."""

    @property
    def is_title(self) -> bool:
        return self.core[:1].isupper() and self.core[1:].islower()

    def __str__(self) -> str:
        return self.lead + (self.core if self.is_known else MASK) + self.tail


def masked(text: str, *, limit_chars: int = LIMIT_CHARS) -> str:
    """The text with all but known words, small numbers and plain punctuation taken out; at most limit_chars long.

    Words keep their case. Total, and linear in the text.
    """
    pieces = _pieces(_QUOTED.sub(_unquoted, _beginning(text)))
    _mask_numbers(pieces)
    _mask_names(pieces)
    _mask_sentences(pieces)
    return _cut(_MASKS.sub(MASK, " ".join(map(str, pieces))), limit_chars)


def _beginning(text: str) -> str:
    """What is read of the text; half a word or number at its end is none."""
    return text if len(text) <= INPUT_CHARS else text[:INPUT_CHARS] + MASK


def _unquoted(found: re.Match[str]) -> str:
    """The quotation, where it is a single known word or name of a program, else the mask."""
    whole = found[0]
    is_whole = len(whole) > 1 and whole[-1] in _CLOSING
    quoted = whole[1:-1].strip(_PUNCTUATION)
    return whole if is_whole and (whole[1:-1] == "" or _is_known(quoted)) else MASK


def _pieces(text: str) -> list[_Piece]:
    pieces: list[_Piece] = []
    end = 0
    begins_clause = True
    for found in _PIECE.finditer(text):
        begins_clause = begins_clause or "\n" in text[end : found.start()]
        end = found.end()
        piece = _piece(found[0])
        piece.begins_clause = begins_clause
        pieces.append(piece)
        begins_clause = not _CLAUSE_ENDS.isdisjoint(piece.tail or (piece.lead if not piece.core else ""))
    return pieces


def _piece(word: str) -> _Piece:
    core = word.lstrip(_PUNCTUATION)
    lead = word[: len(word) - len(core)][-_JOINT_CHARS:]
    bare = core.rstrip(_PUNCTUATION)
    tail = core[len(bare) :][:_JOINT_CHARS]
    if not bare:
        return _Piece(lead, "", "", is_known=True, is_neutral=True)
    number = _NUMBER.match(bare.replace(".", "", 1) if bare[:1].isdigit() else "")
    if number is not None:
        is_known = len(number[1]) <= DIGITS and (not number[2] or number[2].lower() in UNITS)
        return _Piece(lead, bare, tail, is_known=is_known, digit_count=len(number[1]), is_neutral=is_known)
    around = bare.replace(MASK, "=").strip("=")
    is_masked = MASK in bare  # a quotation was there, which says nothing of what is around it
    return _Piece(lead, bare, tail, is_known=_is_known(around) or not around, is_neutral=is_masked)


def _is_known(core: str) -> bool:
    """Whether it is made of known words and small numbers, joined as those of programs are."""
    parts = _PART.findall(core) if len(core) <= PIECE_CHARS else []
    if not parts or len(parts) > 2 * PARTS:
        return False
    digit_count = pair_count = 0
    before, joint = "", ""
    for part in parts:
        if not part[0].isascii() or not part[0].isalnum():
            if len(part) > _JOINT_CHARS or not _JOINTS.issuperset(part) or "//" in part:
                return False
            joint = part
            continue
        if part.isdigit():
            digit_count += len(part)
            if before.isdigit():  # two make a decimal; more are an address, a date or a phone
                pair_count += 1
                if joint not in {".", ","}:
                    return False
        elif not _is_word(part):
            return False
        before = part
    return digit_count <= DIGITS and pair_count <= 1


def _is_word(word: str) -> bool:
    if word.lower() in WORDS:
        return True
    humps = _CAMEL.findall(word) if word.isalpha() else []
    return 1 < len(humps) <= _HUMPS and all(len(hump) > 1 and hump.lower() in WORDS for hump in humps)


def _mask_numbers(pieces: list[_Piece]) -> None:
    """Numbers in a row that have too many digits together, whatever punctuation parts them."""
    row: list[_Piece] = []
    for piece in [*pieces, _Piece("", MASK, "", is_known=False)]:
        if piece.digit_count:
            row.append(piece)
        elif piece.core:
            if sum(number.digit_count for number in row) > DIGITS and len(row) > 1:
                for number in row:
                    number.is_known = False
            row = []


def _mask_names(pieces: list[_Piece]) -> None:
    """Words with a capital beside an unknown one, unless a clause begins with them; of those that people are called,
    also then."""
    is_unknown = [not (piece.is_known or piece.is_neutral) for piece in pieces]
    for number, piece in enumerate(pieces):
        if not (piece.is_known and piece.is_title) or (piece.begins_clause and piece.core.lower() not in NAMES):
            continue
        beside = [other for other in (number - 1, number + 1) if 0 <= other < len(pieces)]
        if any(is_unknown[other] and pieces[other].core[:1].isupper() for other in beside):
            piece.is_known = False


def _mask_sentences(pieces: list[_Piece]) -> None:
    """Clauses of which half is not known, or of several unknown words more than a third."""
    clause: list[_Piece] = []
    for piece in [*pieces, None]:
        if piece is None or piece.begins_clause:
            unknown_count = sum(not (part.is_known or part.is_neutral) for part in clause)
            known_count = sum(part.is_known and not part.is_neutral for part in clause)
            if unknown_count >= max(1, known_count) or (unknown_count > 1 and 2 * unknown_count > known_count):
                for part in clause:
                    part.is_known = part.is_known and not part.core
            clause = []
        if piece is not None:
            clause.append(piece)


def _cut(text: str, limit_chars: int) -> str:
    """The text, or as many of its words as there is room for beside a mask."""
    if len(text) <= limit_chars:
        return text
    kept = text[: max(0, limit_chars - len(MASK) + 1)].rpartition(" ")[0].rstrip()
    return (kept if kept.endswith(MASK) else kept + MASK)[:limit_chars]
