"""Read a Dockerfile, as much of it as ours use: stages, each a list of instructions."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

KNOWN: Final = frozenset({"COPY", "ENTRYPOINT", "ENV", "LABEL", "RUN", "STOPSIGNAL", "USER", "WORKDIR"})


@dataclass(frozen=True, slots=True)
class Instruction:
    """One line of it, continued ones joined. words: of a shell's line they are parsed, of a list its items."""

    name: str
    text: str

    @property
    def words(self) -> list[str]:
        return json.loads(self.text) if self.text.startswith("[") else shlex.split(self.text)


@dataclass(frozen=True, slots=True)
class Stage:
    """base: an image or the name of an earlier stage, its arguments put in. name: empty for the last one."""

    base: str
    name: str
    instructions: tuple[Instruction, ...]

    def last(self, name: str) -> str | None:
        """What the last instruction of that name says."""
        return next((each.text for each in reversed(self.instructions) if each.name == name), None)

    @property
    def environ(self) -> dict[str, str]:
        pairs = (word.partition("=") for each in self.instructions if each.name == "ENV" for word in each.words)
        return {name: value for name, _, value in pairs}


def stages(text: str) -> list[Stage]:
    """All of them. Raises ValueError for what is not known here."""
    defaults: dict[str, str] = {}
    found: list[Stage] = []
    for line in _lines(text):
        name, _, rest = line.partition(" ")
        rest = rest.strip()
        if name == "ARG":
            defaults.update([rest.split("=", 1)])
        elif name == "FROM":
            base, *alias = re.sub(r"\$\{(\w+)\}", lambda match: defaults[match[1]], rest).split()
            found.append(Stage(base, alias[1] if alias else "", ()))
        elif name in KNOWN and found:
            last = found[-1]
            found[-1] = Stage(last.base, last.name, (*last.instructions, Instruction(name, rest)))
        else:
            raise ValueError(f"instruction {name!r} is not known here")
    return found


def _lines(text: str) -> Iterator[str]:
    joined = ""
    for line in text.splitlines():
        if line.lstrip().startswith("#"):
            continue
        joined += line.strip().removesuffix("\\").strip() + " "
        if not line.rstrip().endswith("\\"):
            if joined.strip():
                yield joined.strip()
            joined = ""
