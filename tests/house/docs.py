"""The tables and maps in the READMEs that repeat the code: written from it, and checked against it.

    python -m tests.house.docs write     bring every generated block up to date
    python -m tests.house.docs check     fail if that would change anything

A block stands between `<!-- generated: NAME ARGUMENT -->` and `<!-- end -->`.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from tests import faults

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"(<!-- generated: (\S+)(?: (\S+))? -->\n)(.*?)(<!-- end -->)", re.DOTALL)
PACKAGES = ("sidecar", "otel", "k8s")


def documents() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [ROOT / name for name in sorted(set(listed.stdout.split()))]


def rendered(text: str) -> str:
    """The document with every generated block as the code wants it now."""
    return BLOCK.sub(lambda match: match[1] + BLOCKS[match[2]](match[3] or "") + match[5], text)


def modules(package: str) -> list[Path]:
    return [path for path in sorted((ROOT / package).rglob("*.py")) if path.read_text("utf-8").strip()]


def purpose(path: Path) -> str:
    """The first line of a module's docstring, or the sentence that begins there."""
    docstring = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
    return docstring.split("\n", 1)[0].rstrip(".")


def map_of(package: str) -> str:
    rows = []
    for path in modules(package):
        name = path.relative_to(ROOT).as_posix()
        if path.name == "__init__.py" and path.parent == ROOT / package:
            continue
        rows.append(f"{name.removesuffix('/__init__.py'):<34}{purpose(path)}")
    return "```\n" + "\n".join(rows) + "\n```\n"


def schema(_: str) -> str:
    from otel.schema import ATTRIBUTES

    rows = [(f"`{a.name}`", a.type, a.unit, a.on.value, a.meaning) for a in ATTRIBUTES]
    return table(("attribute", "type", "unit", "on", "meaning"), rows)


def options(package: str) -> str:
    from otel import settings

    module = __import__(f"{package}.config", fromlist=["OPTIONS", "PREFIX"])
    rows = [
        (
            f"`{option.flag}`",
            f"`{module.PREFIX}{option.name.upper()}`",
            settings.shown(option),
            option.help,
        )
        for option in module.OPTIONS
    ]
    return table(("flag", "variable", "default", "meaning"), rows)


def dialects(_: str) -> str:
    from sidecar.inspection.dialects import DIALECTS, UNKNOWN

    rows = [
        (
            f"`{row.name}`",
            row.spoken_by,
            ", ".join(f"`…{end}`" for end in row.path_ends) or "its events",
            row.end_mark,
            row.error_mark,
            row.output,
        )
        for row in (*DIALECTS, *UNKNOWN)
    ]
    return table(("dialect", "spoken by", "told by", "the end", "an error", "visible output"), rows)


def endings(_: str) -> str:
    from otel.hop import Ending

    return ", ".join(f"`{ending.value}`" for ending in Ending) + "\n"


def view(name: str) -> str:
    return "```\n" + (ROOT / "tests/golden/views" / name).read_text("utf-8").rstrip() + "\n```\n"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


BLOCKS: dict[str, Callable[[str], str]] = {
    "map": map_of,
    "schema": schema,
    "options": options,
    "dialects": dialects,
    "endings": endings,
    "view": view,
    "faults": lambda _: faults.table(),
}


def main(argv: Sequence[str]) -> int:
    stale = [path for path in documents() if rendered(path.read_text("utf-8")) != path.read_text("utf-8")]
    for path in stale:
        name = path.relative_to(ROOT)
        if argv[:1] == ["write"]:
            path.write_text(rendered(path.read_text("utf-8")), "utf-8")
            print(f"{name}: written")
        else:
            print(f"{name}: its generated blocks do not say what the code says; run `make docs`")
    return int(bool(stale) and argv[:1] != ["write"])


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
