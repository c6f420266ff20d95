"""The measures of OpenTelemetry's conventions for generative AI, under their names: what other dashboards look for.

The names are those of version 1.41, and one table. Beside a model the sidecar speaks as the server does, before an
application or an egress as its client; which of the two it is only its operator knows. The buckets are those of the
conventions and some more, for they end where the trouble begins.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from otel.exposition import Series
from otel.hop import Ending, Hop
from sidecar.inspection.dialects import UNKNOWN, dialect_for
from sidecar.telling.figures import GENAI_BOUNDS_S, Figures
from sidecar.telling.measures import Histograms, Labels, Source, flag

SEMCONV: Final = ("none", "server", "client", "both")
PER_TOKEN_BOUNDS_S: Final = (
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 10.0, 30.0, 90.0, 300.0, 600.0,
)  # fmt: skip
TOKEN_BOUNDS: Final = tuple(float(1 << 2 * step) for step in range(14))
"""Powers of four, from 1 to 67,108,864."""

_SPOKEN: Final = {
    "anthropic": ("chat", "anthropic"),
    "bedrock": ("chat", "aws.bedrock"),
    "cohere": ("chat", "cohere"),
    "cohere_v1": ("chat", "cohere"),
    "gemini": ("generate_content", "gcp.gemini"),
    "llama_cpp": ("text_completion", "llama_cpp"),
    "mistral": ("chat", "mistral_ai"),
    "ollama": ("chat", "ollama"),
    "openai_chat": ("chat", "openai"),
    "openai_completions": ("text_completion", "openai"),
    "openai_responses": ("chat", "openai"),
    "replicate": ("text_completion", "replicate"),
    "sglang": ("text_completion", "sglang"),
    "tgi": ("text_completion", "tgi"),
    "triton": ("text_completion", "triton"),
    "watsonx": ("chat", "ibm.watsonx.ai"),
    "writer": ("chat", "writer"),
}
"""By dialect, the operation and the provider; the conventions call whoever is spoken to like OpenAI `openai`."""
_FRAMINGS: Final = ("sse", "ndjson", "json_array", "eventstream")
_ASKED: Final = ("gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model", "gapline_probe")
"""The last is ours, and no name of the conventions: probes would pass for users."""
_ERROR: Final = (*_ASKED, "error_type")
_TOKENS: Final = (*_ASKED, "gen_ai_token_type")


@dataclass(frozen=True, slots=True)
class _Side:
    """What one side of a call measures. gaps: between two events with output. per_token: the mean after the first
    event, where the answer counts its tokens."""

    duration: Histograms
    first: Histograms
    gaps: Histograms | None = None
    per_token: Histograms | None = None
    tokens: Histograms | None = None

    def all(self) -> list[Histograms]:
        found = (self.duration, self.first, self.gaps, self.per_token, self.tokens)
        return [each for each in found if each is not None]


def _server() -> _Side:
    return _Side(
        duration=Histograms(
            "gen_ai_server_request_duration_seconds",
            "time from a request's head to its answer's end, as seen here",
            _ERROR,
            GENAI_BOUNDS_S,
        ),
        first=Histograms(
            "gen_ai_server_time_to_first_token_seconds",
            "time from a request's head to the first event with output, which brings the first token",
            _ASKED,
            GENAI_BOUNDS_S,
        ),
        per_token=Histograms(
            "gen_ai_server_time_per_output_token_seconds",
            "mean time for a token after the first, of answers that say how many they have",
            _ASKED,
            PER_TOKEN_BOUNDS_S,
        ),
    )


def _client() -> _Side:
    return _Side(
        duration=Histograms(
            "gen_ai_client_operation_duration_seconds",
            "time from a request's head to its answer's end, as seen here",
            _ERROR,
            GENAI_BOUNDS_S,
        ),
        first=Histograms(
            "gen_ai_client_operation_time_to_first_chunk_seconds",
            "time from a request's head to the first event with output",
            _ASKED,
            GENAI_BOUNDS_S,
        ),
        gaps=Histograms(
            "gen_ai_client_operation_time_per_output_chunk_seconds",
            "time between two successive events with output, of all of them",
            _ASKED,
            GENAI_BOUNDS_S,
        ),
        tokens=Histograms(
            "gen_ai_client_token_usage", "tokens, as the answers count them", _TOKENS, TOKEN_BOUNDS, per_unit=1
        ),
    )


class GenAi:
    """The measures of the chosen sides: `server`, `client`, `both` or `none`."""

    def __init__(self, semconv: str) -> None:
        if semconv not in SEMCONV:
            raise ValueError(f"{semconv!r}: must be one of {', '.join(SEMCONV)}")
        self._sides = [side() for name, side in (("server", _server), ("client", _client)) if semconv in {name, "both"}]

    def observe(self, hop: Hop, found: Figures, source: Source, *, model: str, cause: str) -> None:
        """A final record, if it is of a model's answer. model, cause: as labels."""
        if not self._sides or (spoken := _spoken(hop)) is None:
            return
        asked = (*spoken, model, flag(is_so=hop.exchange.is_probe))
        failure = _failure(hop, cause)
        for side in self._sides:
            side.duration.add((*asked, failure), found.duration_ns, source)
            if hop.exchange.is_stream:
                side.first.add(asked, found.first_content_ns, source)
            if side.gaps is not None and hop.exchange.is_stream:
                side.gaps.add_many(asked, found.content_gaps, source)
            if side.per_token is not None and not failure:
                side.per_token.add(asked, _per_token_ns(hop, found), source)
            if side.tokens is not None:
                side.tokens.add((*asked, "input"), hop.usage.input_tokens, source)
                side.tokens.add((*asked, "output"), hop.usage.output_tokens, source)

    def series(self) -> list[Series]:
        return [each.series() for side in self._sides for each in side.all()]


def _spoken(hop: Hop) -> Labels | None:
    """The operation and the provider; None where no API of a model is spoken. An answer that is no stream is known by
    its path alone."""
    name = hop.exchange.dialect
    if name in {dialect.name for dialect in UNKNOWN}:
        known = (dialect_for(hop.exchange.path, framing).name for framing in _FRAMINGS)
        name = next((each for each in known if each in _SPOKEN), name)
    if name == "ollama" and hop.exchange.path.rstrip("/").endswith("/generate"):
        return "text_completion", "ollama"
    return _SPOKEN.get(name)


def _failure(hop: Hop, cause: str) -> str:
    """The `error_type` of an operation: empty where it went well, else what says most."""
    status = hop.exchange.status or 0
    if hop.end is not None and hop.end.ending is not Ending.COMPLETE:
        return cause or hop.end.ending.value
    return cause or str(status) if status >= 400 else ""


def _per_token_ns(hop: Hop, found: Figures) -> int | None:
    """None where the tokens are not counted, or did not come one after the other."""
    tokens, first_ns, last_ns = hop.usage.output_tokens, found.first_content_ns, found.last_content_ns
    if tokens is None or tokens < 2 or first_ns is None or last_ns is None or last_ns <= first_ns:
        return None
    return (last_ns - first_ns) // (tokens - 1)
