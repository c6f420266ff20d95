"""What a store cannot do and why: the excuses of the battery, each with its reason. No entry means it runs."""

from __future__ import annotations

from collections.abc import Mapping

EXCUSES: Mapping[str, Mapping[str, str]] = {
    "memory": {},
    "sqlite": {},
}
"""Store → name of a test in the battery → why that store is excused from it."""
