from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel.hop import End, Ending, EventClass, Phase, Side, Usage
from sidecar.inspection.dialects import DIALECTS
from sidecar.telling.figures import figures
from sidecar.telling.genai import GenAi
from sidecar.telling.measures import Source
from tests.support.builders import a_hop, a_timeline, hops

CHAT = {
    "gen_ai_operation_name": "chat",
    "gen_ai_provider_name": "openai",
    "gen_ai_request_model": "m",
    "gapline_probe": "false",
}
SERVER = ["request_duration_seconds", "time_to_first_token_seconds", "time_per_output_token_seconds"]
CLIENT = [
    "operation_duration_seconds",
    "operation_time_to_first_chunk_seconds",
    "operation_time_per_output_chunk_seconds",
    "token_usage",
]


def observed(semconv, hop, *, cause=""):
    """Every histogram of this exchange by the end of its name: (labels, distribution) of its samples."""
    genai = GenAi(semconv)
    genai.observe(hop, figures(hop), Source(hop.trace_id, 0), model="m", cause=cause)
    return {each.name.removeprefix("gen_ai_"): list(each.samples) for each in genai.series()}


def with_exchange(hop, **fields):
    return replace(hop, exchange=replace(hop.exchange, **fields))


@pytest.mark.parametrize(
    ("semconv", "names"),
    [
        ("none", []),
        ("server", [f"server_{name}" for name in SERVER]),
        ("client", [f"client_{name}" for name in CLIENT]),
        ("both", [f"server_{name}" for name in SERVER] + [f"client_{name}" for name in CLIENT]),
    ],
)
def test_the_names_of_the_conventions_are_chosen(semconv, names):
    assert list(observed(semconv, a_hop())) == names


def test_another_choice_is_none():
    with pytest.raises(ValueError, match="'all': must be one of none, server, client, both"):
        GenAi("all")


def test_an_answer_is_measured_as_its_server_would():
    hop = a_hop(timeline=a_timeline((0.5, 1.0, 1.5, 1.6)), usage=Usage(input_tokens=9, output_tokens=11))
    found = observed("server", hop)

    ((labels, first),) = found["server_time_to_first_token_seconds"]
    assert (labels, first.sum) == (CHAT, 0.5)
    ((labels, per_token),) = found["server_time_per_output_token_seconds"]
    assert (labels, per_token.sum) == (CHAT, 0.1)
    ((labels, duration),) = found["server_request_duration_seconds"]
    assert labels == {**CHAT, "error_type": ""}
    assert duration.sum == pytest.approx(1.6, abs=0.01)


def test_an_answer_is_measured_as_its_client_would():
    hop = a_hop(timeline=a_timeline((0.5, 1.0, 2.5, 2.6)), usage=Usage(input_tokens=9, output_tokens=11))
    found = observed("client", hop)

    ((_, gaps),) = found["client_operation_time_per_output_chunk_seconds"]
    assert (sum(gaps.counts), gaps.sum) == (2, 2.0)
    tokens = {labels["gen_ai_token_type"]: value.sum for labels, value in found["client_token_usage"]}
    assert tokens == {"input": 9.0, "output": 11.0}


@pytest.mark.parametrize("is_probe", [False, True])
def test_a_probe_is_labelled_in_every_measure(is_probe):
    hop = a_hop(timeline=a_timeline((0.5, 1.0, 1.5, 1.6)), usage=Usage(input_tokens=9, output_tokens=11))
    found = observed("both", with_exchange(hop, is_probe=is_probe))

    told = {labels["gapline_probe"] for samples in found.values() for labels, _ in samples}
    assert all(found.values())
    assert told == {"true" if is_probe else "false"}


@pytest.mark.parametrize(
    ("usage", "times"),
    [
        (Usage(), (0.5, 1.0, 1.1)),
        (Usage(output_tokens=1), (0.5, 1.0, 1.1)),
        (Usage(output_tokens=0), (0.5, 1.0, 1.1)),
        (Usage(output_tokens=50), (0.5, 0.5, 1.1)),
        (Usage(output_tokens=50), (0.5,)),
    ],
)
def test_no_time_is_given_for_a_token_where_tokens_are_not_counted_or_came_at_once(usage, times):
    hop = a_hop(timeline=a_timeline(times), usage=usage)

    assert observed("server", hop)["server_time_per_output_token_seconds"] == []


@pytest.mark.parametrize(
    ("ending", "status", "cause", "error_type"),
    [
        (Ending.COMPLETE, 200, "", ""),
        (Ending.COMPLETE, 500, "", "500"),
        (Ending.COMPLETE, 429, "rate_limit_error", "rate_limit_error"),
        (Ending.UPSTREAM_CUT, 200, "reset", "reset"),
        (Ending.UPSTREAM_CUT, 200, "", "upstream_cut"),
        (Ending.REFUSED, None, "", "refused"),
    ],
)
def test_a_failure_has_a_type(ending, status, cause, error_type):
    hop = with_exchange(a_hop(end=End(ending, Side.UPSTREAM, Phase.EVENTS, 0)), status=status)
    ((labels, _),) = observed("client", hop, cause=cause)["client_operation_duration_seconds"]

    assert labels["error_type"] == error_type


@pytest.mark.parametrize(
    ("path", "dialect", "framing", "spoken"),
    [
        ("/v1/chat/completions", "opaque", "opaque", ("chat", "openai")),
        ("/v1/messages", "opaque", "opaque", ("chat", "anthropic")),
        ("/api/generate", "ollama", "ndjson", ("text_completion", "ollama")),
        ("/api/chat", "ollama", "ndjson", ("chat", "ollama")),
        ("/v1/models", "opaque", "opaque", None),
        ("/mcp", "mcp", "sse", None),
        ("/anything", "plain", "sse", None),
    ],
)
def test_an_api_is_known_by_its_events_or_else_by_its_path(path, dialect, framing, spoken):
    hop = with_exchange(a_hop(), path=path, dialect=dialect, framing=framing, is_stream=framing != "opaque")
    samples = observed("client", hop)["client_operation_duration_seconds"]

    assert [(each["gen_ai_operation_name"], each["gen_ai_provider_name"]) for each, _ in samples] == (
        [] if spoken is None else [spoken]
    )


@pytest.mark.parametrize("dialect", [each.name for each in DIALECTS if each.name != "mcp"])
def test_every_api_of_a_model_has_an_operation(dialect):
    assert observed("server", with_exchange(a_hop(), dialect=dialect))["server_request_duration_seconds"]


def test_an_answer_that_is_no_stream_has_no_first_chunk():
    timeline = a_timeline((0.5, 0.6), classes=[EventClass.OPAQUE] * 2)
    hop = with_exchange(a_hop(timeline=timeline), is_stream=False, dialect="opaque", framing="opaque")
    found = observed("both", hop)

    assert found["server_time_to_first_token_seconds"] == found["client_operation_time_per_output_chunk_seconds"] == []
    assert len(found["server_request_duration_seconds"]) == 1


@given(hops(), st.sampled_from(["server", "client", "both"]))
def test_every_record_is_measured_once_or_not_at_all(hop, semconv):
    for samples in observed(semconv, hop).values():
        assert sum(sum(value.counts) for labels, value in samples if "gen_ai_token_type" not in labels) <= 1 + len(
            hop.timeline.stamps
        )
