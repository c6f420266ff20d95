"""Runs within the folder of tools: reads YAML, renders the chart. JSON in, JSON out; see tools.py."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import yaml


def read(texts: list[str]) -> list[list[Any]]:
    """The documents of each text, empty ones left out."""
    return [[document for document in yaml.safe_load_all(text) if document] for text in texts]


def render(asked: dict[str, Any]) -> list[Any]:
    """What the chart in this folder comes to with these values; its schema of values is held to."""
    import helm_python

    with helm_python.Chart.load(asked["folder"]) as chart:
        chart.validate_schema(asked["values"])
        texts = chart.render(asked["values"], name=asked["name"], namespace=asked["namespace"])
    found = read([text for name, text in sorted(texts.items()) if name.endswith(".yaml")])
    return [document for documents in found for document in documents]


def lint(folder: str) -> list[str]:
    """What Helm finds fault with in the chart."""
    import helm_python

    return [f"{found['path']}: {found['error']}" for found in helm_python.lint(folder, strict=True)["messages"]]


VERBS: dict[str, Callable[[Any], Any]] = {"read": read, "render": render, "lint": lint}

if __name__ == "__main__":
    json.dump(VERBS[sys.argv[1]](json.load(sys.stdin)), sys.stdout, default=str)
