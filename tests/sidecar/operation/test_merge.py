import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel.exposition import Counted, Distribution, Exemplar, openmetrics, sample_of, series, single
from sidecar.operation.merge import GREATEST, MergeError, lasting, merged, value_of

KIND_OF = {
    "a_total": "counter",
    "b_total": "counter",
    "streams": "gauge",
    "build_info": "gauge",
    "oldest_seconds": "gauge",
    "x_oldest_seconds": "gauge",
    "wait_seconds": "histogram",
}
VALUES = st.integers(0, 10**9) | st.integers(0, 10**6).map(lambda eighths: eighths / 8)  # whose sums are exact
EXEMPLARS = st.none() | st.builds(
    Exemplar, st.text('ab"\\\n{} #', max_size=5), st.floats(0, 9), st.integers(0, 10**6).map(lambda ms: ms * 10**6)
)
DISTRIBUTIONS = st.builds(
    Distribution,
    st.just((0.5, 1.0)),
    st.tuples(*[st.integers(0, 10**6)] * 3),
    st.integers(0, 10**6).map(lambda eighths: eighths / 8),
    st.tuples(*[EXEMPLARS] * 3),
)
LABELS = st.dictionaries(st.sampled_from(["version", "ending"]), st.text('abé "\\\n{},=#\u2028\x0b', max_size=5))


@st.composite
def expositions(draw):
    names = draw(st.lists(st.sampled_from(list(KIND_OF)), unique=True, min_size=1))
    found = []
    for name in names:
        labels = draw(st.lists(LABELS, max_size=3, unique_by=lambda each: str(sorted(each.items()))))
        ordered = [dict(sorted(each.items())) for each in labels]
        values = DISTRIBUTIONS if KIND_OF[name] == "histogram" else VALUES
        found.append(series(name, KIND_OF[name], f'help\nof "{name}"', [(each, draw(values)) for each in ordered]))
    return openmetrics(found)


def as_set(text):
    """What it says, in whatever order, and however a number is written; without exemplars."""
    lines = [line if line.startswith("#") else f"{sample_of(line).key} {sample_of(line).value}" for line in rows(text)]
    parted = [line.rpartition(" ") for line in lines]
    return {(key, value if key.startswith("#") else float(value)) for key, _, value in parted}


def exemplar_times(text):
    """When each sample's exemplar was counted."""
    samples = [sample_of(line) for line in rows(text) if not line.startswith("#")]
    return {sample.key: float(sample.exemplar.rpartition(" ")[2]) for sample in samples if sample.exemplar}


def rows(text):
    return [line for line in text.split("\n") if line]


def test_the_value_of_a_metric_is_that_of_all_its_labels():
    text = openmetrics([series("a_total", "counter", "h", [({"x": "1"}, 3), ({"x": "2"}, 4)])])

    assert (value_of(text, "a_total"), value_of(text, "b_total"), value_of("", "a_total")) == (7, 0, 0)


def test_counts_and_amounts_are_added():
    one = openmetrics([single("a_total", "counter", "h", 3), single("streams", "gauge", "h", 1)])
    other = openmetrics([single("a_total", "counter", "h", 4.5), single("streams", "gauge", "h", 2)])

    assert merged([one, other]) == openmetrics(
        [single("a_total", "counter", "h", 7.5), single("streams", "gauge", "h", 3)]
    )


@pytest.mark.parametrize("end", GREATEST)
def test_what_is_no_amount_is_the_greatest(end):
    texts = [openmetrics([single(f"x{end}", "gauge", "h", value)]) for value in (3, 5, 4)]

    assert merged(texts) == texts[1]


def test_each_set_of_labels_is_a_sample_of_its_own():
    one = openmetrics([series("build_info", "gauge", "h", [({"version": "1"}, 1)])])
    other = openmetrics([series("build_info", "gauge", "h", [({"version": "2"}, 1)])])

    assert merged([one, other, one]) == openmetrics(
        [series("build_info", "gauge", "h", [({"version": "1"}, 1), ({"version": "2"}, 1)])]
    )


def waits(counts, total, *exemplars):
    return openmetrics(
        [series("wait_seconds", "histogram", "h", [({}, Distribution((1.0,), counts, total, exemplars))])]
    )


def test_histograms_are_added_bucket_by_bucket():
    assert merged([waits((2, 1), 2.5), waits((0, 4), 9.0)]) == waits((2, 5), 11.5)


def test_of_two_exemplars_the_younger_one_stays():
    old, young = Exemplar("a", 0.5, 1_000_000_000), Exemplar("b", 0.25, 10_000_000_000)

    assert merged([waits((1, 0), 1.0, old, None), waits((1, 0), 1.0, young, None)]) == waits((2, 0), 2.0, young, None)
    assert merged([waits((1, 0), 1.0, young, old), waits((1, 0), 1.0, old, None)]) == waits((2, 0), 2.0, young, old)
    assert lasting(waits((1, 0), 1.0, young, old)) == waits((1, 0), 1.0, young, old)


def test_a_counter_keeps_its_exemplar():
    text = openmetrics([series("a_total", "counter", "h", [({}, Counted(3, Exemplar("a", 1.0, 0)))])])

    assert 'a_total 6 # {trace_id="a"} 1.0 0.000\n' in merged([text, text])


@given(expositions())
def test_merging_one_changes_nothing(text):
    assert merged([text]) == text


@given(expositions(), expositions(), expositions())
def test_neither_order_nor_grouping_matters(a, b, c):
    whole = as_set(merged([a, b, c]))

    assert as_set(merged([merged([a, b]), c])) == whole
    assert as_set(merged([a, merged([b, c])])) == whole
    assert as_set(merged([c, a, b])) == whole
    assert exemplar_times(merged([c, a, b])) == exemplar_times(merged([a, b, c]))


@given(expositions(), expositions())
def test_every_exemplar_is_the_youngest_of_its_sample(a, b):
    found = exemplar_times(merged([a, b]))
    one, other = exemplar_times(a), exemplar_times(b)

    assert found == {key: max(one.get(key, 0.0), other.get(key, 0.0)) for key in one | other}


@given(expositions(), expositions())
def test_of_one_that_is_gone_the_counters_stay(gone, running):
    before, after = as_set(merged([gone, running])), as_set(merged([lasting(gone), running]))

    counted = tuple(name for name, kind in KIND_OF.items() if kind in {"counter", "histogram"})

    def counts(found):
        return {(key, value) for key, value in found if key.startswith(counted)}

    assert counts(after) == counts(before)
    assert as_set(lasting(gone)) <= as_set(gone)
    assert not [key for key, _ in as_set(lasting(gone)) if "gauge" in key]


@pytest.mark.parametrize(
    "text",
    [
        "a_total 3",
        "a_total 3\n# EOF\n",
        "# HELP a h\n# EOF\n",
        "# TYPE a counter\n",
        "# TYPE a counter\na_total 3\n",
        "# TYPE a counter\na_total 3\n# EOF\n\n",
        "# TYPE a counter\n# EOF\na_total 3\n# EOF\n",
        "# TYPE a summary\n# EOF\n",
        "# TYPE a counter\n# TYPE a counter\n# EOF\n",
        "# TYPE a counter\n# HELP a h\n# HELP a h\n# EOF\n",
        "# TYPE a counter\n# HELP b h\n# EOF\n",
        "# TYPE a counter\na 3\n# EOF\n",
        "# TYPE a counter\nb_total 3\n# EOF\n",
        "# TYPE a counter\na_total_sum 3\n# EOF\n",
        "# TYPE a counter\na_total 3\na_total 3\n# EOF\n",
        "# TYPE a counter\na_total three\n# EOF\n",
        "# TYPE a counter\na_total 3 # young\n# EOF\n",
        "# TYPE a histogram\na 3\n# EOF\n",
    ],
)
def test_what_is_no_exposition_of_ours_is_an_error(text):
    with pytest.raises(MergeError):
        merged([text])


def test_a_metric_of_two_kinds_is_an_error():
    with pytest.raises(MergeError, match="a_total: is a counter and a gauge"):
        merged([openmetrics([single("a_total", kind, "h", 1)]) for kind in ("counter", "gauge")])


PIECES = ["# TYPE ", "# HELP ", "# EOF", "a", "_total", " counter", " gauge", "\n", " ", '{b="', '"}', "1", ".5", " # "]


@given(st.lists(st.sampled_from(PIECES)).map("".join))
def test_any_text_gives_a_text_or_that_error(text):
    try:
        found = merged([text])
    except MergeError:
        return
    assert merged([found]) == found


def test_news_that_waited_in_a_worker_that_is_gone_are_lost():
    found = [
        series("gapline_log_records_offered_total", "counter", "h", [({}, 9)]),
        series("gapline_log_records_lost_total", "counter", "h", [({"reason": each}, 1) for each in ("full", "left")]),
        series("gapline_log_records_queue", "gauge", "h", [({}, 3)]),
    ]
    text = openmetrics(found)

    assert 'lost_total{reason="left"} 1\n' in lasting(text)
    gone = lasting(text, is_over=True)
    assert 'lost_total{reason="left"} 4\n' in gone
    assert 'lost_total{reason="full"} 1\n' in gone
    assert "queue" not in gone
