import math
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel.exposition import openmetrics, sample_of
from otel.hop import End, Ending, Phase, Side, State, Usage
from sidecar.operation.merge import merged
from sidecar.telling.accesslog import line
from sidecar.telling.figures import figures
from sidecar.telling.observations import CAUSES, MODELS, PAIRS, Observations
from tests.support.builders import a_hop, a_timeline, hops

TOTALS = {
    "request_bytes": "request_bytes",
    "bytes_in": "bytes_in",
    "bytes": "bytes_out",
    "missing_bytes": "missing_bytes",
    "events": "events",
    "wasted_events": "wasted_events",
    "keepalives": "keepalives",
    "injected_bytes": "injected_bytes",
}
"""By the key of a log line, the counter."""
TIMES = {
    "total_duration_ms": "exchange_duration",
    "time_to_first_event_ms": "time_to_first_event",
    "time_to_first_content_ms": "time_to_first_content",
    "max_gap_ms": "max_gap",
}

RECORDS = hops(max_events=5).filter(lambda hop: hop.state is State.FINAL)


def with_exchange(hop, **fields):
    return replace(hop, exchange=replace(hop.exchange, **fields))


def observed(*records, semconv="none"):
    observations = Observations(semconv)
    for hop in records:
        observations.observe(hop)
    return observations


def samples(observations):
    """Every series: name, labels as a frozenset of pairs, value."""
    return {
        (each.name, frozenset(labels.items())): value
        for each in observations.series()
        for labels, value in each.samples
    }


def test_many_models_with_many_causes_each_have_only_so_many_places():
    hop = a_hop()
    observations = observed(
        *(
            with_exchange(hop, model=f"m{model}", error_type=f"c{cause}", status=200)
            for model in range(MODELS)
            for cause in range(CAUSES)
        )
    )
    counts = exchange_counts(observations)

    assert len({key for key, count in counts.items() if count}) <= PAIRS + MODELS
    assert sum(counts.values()) == MODELS * CAUSES
    (over,) = [each for each in observations.series() if each.name == "gapline_labels_over_total"]
    assert {labels["label"]: count for labels, count in over.samples}["cause"] == MODELS * CAUSES - PAIRS


def exchange_counts(observations):
    """(ending, cause, model, probe) of every outcome that there was."""
    (found,) = [each for each in observations.series() if each.name == "gapline_exchanges_total"]
    return {tuple(labels.values()): value.count for labels, value in found.samples if value.count}


def test_an_exchange_is_counted_by_how_it_ended_why_for_which_model_and_for_whom():
    cut = a_hop(end=End(Ending.UPSTREAM_CUT, Side.UPSTREAM, Phase.EVENTS, 0, cut="reset"))
    probe = with_exchange(a_hop(), is_probe=True, model=None)

    assert exchange_counts(observed(a_hop(), cut, cut, probe)) == {
        ("complete", "", "demo-model", "false"): 1,
        ("upstream_cut", "reset", "demo-model", "false"): 2,
        ("complete", "", "", "true"): 1,
    }


def test_every_ending_and_every_sum_is_there_from_the_start():
    found = samples(Observations())

    for ending in Ending:
        labels = frozenset({"ending": ending.value, "cause": "", "model": "", "probe": "false"}.items())
        assert found["gapline_exchanges_total", labels].count == 0
    for name in (*TOTALS.values(), "blocked_seconds"):
        (value,) = [value for (series, _), value in found.items() if series == f"gapline_{name}_total"]
        assert getattr(value, "count", value) == 0


def test_a_segment_is_not_counted():
    assert exchange_counts(observed(a_hop(state=State.OPEN))) == {}


def test_the_last_exchange_of_each_outcome_can_be_looked_up():
    first, second = a_hop(request_id="a"), a_hop(request_id="b")
    text = openmetrics(observed(first, second).series())
    lines = [line for line in text.splitlines() if line.startswith("gapline_exchanges_total") and " # " in line]

    assert [sample_of(each).exemplar.partition(" ")[0] for each in lines] == [f'{{trace_id="{second.trace_id}"}}']


def test_figures_that_were_worked_out_are_not_worked_out_again():
    hop = a_hop()
    observations = Observations()
    observations.observe(hop, replace(figures(hop), cause="said_so"))

    assert list(exchange_counts(observations)) == [("complete", "said_so", "demo-model", "false")]


def test_models_beyond_their_places_are_counted_together():
    records = [with_exchange(a_hop(), model=f"m-{number}") for number in range(MODELS + 3)]
    found = observed(*records)

    models = Counter(model for _, _, model, _ in exchange_counts(found))
    assert len(models) == MODELS + 1
    assert exchange_counts(found)["complete", "", "other", "false"] == 3
    assert samples(found)["gapline_labels_over_total", frozenset({("label", "model")})] == 3


def test_models_that_nobody_answers_for_leave_places_to_those_that_are_real():
    made_up = [with_exchange(a_hop(), model=f"x-{number}", status=404) for number in range(3 * MODELS)]
    real = [with_exchange(a_hop(), model=f"m-{number}") for number in range(MODELS // 2)]
    models = {model for _, _, model, _ in exchange_counts(observed(*made_up, *real))}

    assert {hop.exchange.model for hop in real} <= models
    assert len(models) == MODELS + 1


def test_causes_beyond_their_places_are_counted_together():
    records = [with_exchange(a_hop(), error_type=f"e-{number}") for number in range(2 * CAUSES)]

    assert len(exchange_counts(observed(*records))) == CAUSES + 1


def test_tokens_are_added_up_where_they_are_told():
    found = samples(
        observed(a_hop(usage=Usage(input_tokens=3, output_tokens=5)), a_hop(usage=Usage(output_tokens=2)), a_hop())
    )
    tokens = {
        dict(labels)["type"]: value.count for (name, labels), value in found.items() if name == "gapline_tokens_total"
    }

    assert tokens == {"input": 3, "output": 7}


def test_gaps_are_those_of_every_event():
    found = observed(a_hop(timeline=a_timeline((0.1, 0.2, 0.5, 3.5, 3.6))))
    (gaps,) = [each for each in found.series() if each.name == "gapline_event_gap_seconds"]
    ((_, value),) = gaps.samples

    assert (sum(value.counts), value.sum) == (3, 3.4)
    assert [exemplar.value for exemplar in value.exemplars if exemplar is not None] == [3.0]


@given(st.lists(RECORDS, max_size=4))
def test_the_numbers_are_the_sums_over_the_log_lines(records):
    found = samples(observed(*records))
    lines = [line(hop) for hop in records]

    def total(name):
        values = [value for (series, _), value in found.items() if series == f"gapline_{name}"]
        return sum(getattr(value, "count", value) for value in values)

    for key, name in TOTALS.items():
        assert total(f"{name}_total") == sum(each[key] or 0 for each in lines)
    assert total("blocked_seconds_total") == pytest.approx(sum(each["blocked_ms"] for each in lines) / 1e3, abs=1e-5)
    for key, name in TIMES.items():
        measured = [each[key] for each in lines if each[key] is not None]
        values = [value for (series, _), value in found.items() if series == f"gapline_{name}_seconds"]
        assert sum(sum(value.counts) for value in values) == len(measured)
        assert sum(value.sum for value in values) == pytest.approx(sum(measured) / 1e3, abs=1e-5)
    wanted = Counter((each["outcome"], each["cause"] or "", each["model"] or "", each["probe"]) for each in lines)
    counted = exchange_counts(observed(*records))
    assert counted == {
        (outcome, cause, model, "true" if probe else "false"): count
        for (outcome, cause, model, probe), count in wanted.items()
        if outcome is not None
    }


@given(st.lists(RECORDS, max_size=2), st.lists(RECORDS, max_size=2))
def test_two_workers_together_say_what_one_alone_would(here, there):
    one = openmetrics(observed(*here, *there, semconv="both").series())
    two = merged(openmetrics(observed(*each, semconv="both").series()) for each in (here, there))

    def numbers(text):
        lines = (sample_of(each) for each in text.split("\n") if each and not each.startswith("#"))
        return {each.key: float(each.value) for each in lines}

    together, alone = numbers(two), numbers(one)
    assert together.keys() == alone.keys()
    assert [key for key in alone if not math.isclose(alone[key], together[key], rel_tol=1e-9)] == []


@given(st.text(max_size=30), st.text(max_size=30))
def test_no_name_can_break_a_line(model, cause):
    hop = with_exchange(a_hop(), model=model, error_type=cause)
    text = openmetrics(observed(hop, semconv="both").series())

    assert all(each.startswith("# ") or sample_of(each) for each in text.split("\n")[:-1])
    merged([text])
