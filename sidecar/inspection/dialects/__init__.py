"""The table of API dialects. A further one is a file beside this and a row in it."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from sidecar.inspection.dialects.anthropic import ANTHROPIC
from sidecar.inspection.dialects.base import Dialect, Ends, Read, parsed
from sidecar.inspection.dialects.bedrock import BEDROCK
from sidecar.inspection.dialects.cohere import COHERE
from sidecar.inspection.dialects.cohere_v1 import COHERE_V1
from sidecar.inspection.dialects.gemini import GEMINI
from sidecar.inspection.dialects.llama_cpp import LLAMA_CPP
from sidecar.inspection.dialects.mcp import MCP
from sidecar.inspection.dialects.mistral import MISTRAL
from sidecar.inspection.dialects.ollama import OLLAMA
from sidecar.inspection.dialects.openai_chat import OPENAI_CHAT
from sidecar.inspection.dialects.openai_completions import OPENAI_COMPLETIONS
from sidecar.inspection.dialects.openai_responses import OPENAI_RESPONSES
from sidecar.inspection.dialects.plain import OPAQUE, PLAIN
from sidecar.inspection.dialects.replicate import REPLICATE
from sidecar.inspection.dialects.sglang import SGLANG
from sidecar.inspection.dialects.tgi import TGI
from sidecar.inspection.dialects.triton import TRITON
from sidecar.inspection.dialects.watsonx import WATSONX
from sidecar.inspection.dialects.writer import WRITER
from sidecar.inspection.events import Event

DIALECTS: Final = (
    WATSONX,  # before the chat that its chunks look like
    OPENAI_CHAT,
    OPENAI_COMPLETIONS,
    OPENAI_RESPONSES,
    ANTHROPIC,
    GEMINI,
    OLLAMA,
    TGI,
    SGLANG,
    TRITON,
    LLAMA_CPP,
    COHERE,
    COHERE_V1,
    MISTRAL,
    REPLICATE,
    WRITER,
    MCP,
    BEDROCK,
)
UNKNOWN: Final = (PLAIN, OPAQUE)
"""What is not told apart: the dialects of all else."""
PATHS: Final = 256
"""Paths whose dialect is remembered: a server has few, and to compare one with all ends costs more than to keep it."""
_PATH_ENDS: Final = tuple((end, dialect) for dialect in DIALECTS for end in dialect.path_ends)
_ASKED_ENDS: Final = _PATH_ENDS + tuple((end, dialect) for dialect in DIALECTS for end in dialect.asked_at)


@lru_cache(maxsize=PATHS)
def dialect_for(path: str, framing: str) -> Dialect:
    """The dialect of a response of this framing to a request of this path, which has no query."""
    if framing in {"opaque", "none"}:
        return OPAQUE
    end = path.rstrip("/")
    fits = (dialect for path_end, dialect in _PATH_ENDS if end.endswith(path_end) and framing in dialect.framings)
    return next(fits, PLAIN)


@lru_cache(maxsize=PATHS)
def asked_for(path: str) -> Dialect:
    """The dialect that a request of this path asks for, before an answer tells more; the path has no query."""
    end = path.rstrip("/")
    return next((dialect for path_end, dialect in _ASKED_ENDS if end.endswith(path_end)), PLAIN)


def recognise(event: Event) -> Dialect | None:
    """The dialect that alone has such an event. None: not known."""
    chunk = None if event.is_cut else parsed(event.data)
    return next((dialect for dialect in DIALECTS if dialect.begins(event, chunk)), None)


__all__ = ["DIALECTS", "OPAQUE", "PLAIN", "UNKNOWN", "Dialect", "Ends", "Read", "asked_for", "dialect_for", "recognise"]
