import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel.exposition import exposition, series, single
from sidecar.operation.merge import GREATEST, MergeError, lasting, merged, value_of

KIND_OF = {
    "a_total": "counter",
    "b_total": "counter",
    "streams": "gauge",
    "build_info": "gauge",
    "oldest_seconds": "gauge",
    "x_oldest_seconds": "gauge",
}
VALUES = st.integers(0, 10**9) | st.integers(0, 10**6).map(lambda eighths: eighths / 8)  # whose sums are exact
LABELS = st.dictionaries(st.sampled_from(["version", "ending"]), st.text('abé "\\\n{},=#\u2028\x0b', max_size=5))


@st.composite
def expositions(draw):
    names = draw(st.lists(st.sampled_from(list(KIND_OF)), unique=True, min_size=1))
    found = []
    for name in names:
        labels = draw(st.lists(LABELS, max_size=3, unique_by=lambda each: str(sorted(each.items()))))
        ordered = [dict(sorted(each.items())) for each in labels]
        found.append(series(name, KIND_OF[name], f"help\nof {name}", [(each, draw(VALUES)) for each in ordered]))
    return exposition(found)


def as_set(text):
    """What it says, in whatever order, and however a number is written."""
    lines = [line.rpartition(" ") for line in text.split("\n") if line]
    return {(key, value if key.startswith("#") else float(value)) for key, _, value in lines}


def test_the_value_of_a_metric_is_that_of_all_its_labels():
    text = exposition([series("a_total", "counter", "h", [({"x": "1"}, 3), ({"x": "2"}, 4)])])

    assert (value_of(text, "a_total"), value_of(text, "b_total"), value_of("", "a_total")) == (7, 0, 0)


def test_counts_and_amounts_are_added():
    one = exposition([single("a_total", "counter", "h", 3), single("streams", "gauge", "h", 1)])
    other = exposition([single("a_total", "counter", "h", 4.5), single("streams", "gauge", "h", 2)])

    assert merged([one, other]) == exposition(
        [single("a_total", "counter", "h", 7.5), single("streams", "gauge", "h", 3)]
    )


@pytest.mark.parametrize("end", GREATEST)
def test_what_is_no_amount_is_the_greatest(end):
    texts = [exposition([single(f"x{end}", "gauge", "h", value)]) for value in (3, 5, 4)]

    assert merged(texts) == texts[1]


def test_a_counter_is_added_whatever_it_is_called():
    text = exposition([single("lag_oldest_seconds", "counter", "h", 2)])

    assert "lag_oldest_seconds 4\n" in merged([text, text])


def test_each_set_of_labels_is_a_sample_of_its_own():
    one = exposition([series("build_info", "gauge", "h", [({"version": "1"}, 1)])])
    other = exposition([series("build_info", "gauge", "h", [({"version": "2"}, 1)])])

    assert merged([one, other, one]) == exposition(
        [series("build_info", "gauge", "h", [({"version": "1"}, 1), ({"version": "2"}, 1)])]
    )


def test_histograms_are_added_bucket_by_bucket():
    text = '# HELP wait h\n# TYPE wait histogram\nwait_bucket{le="1"} 2\nwait_bucket{le="+Inf"} 3\nwait_sum 2.5\n'
    text += "wait_count 3\n"

    assert merged([text, text]) == text.replace(" 3\n", " 6\n").replace(" 2\n", " 4\n").replace(" 2.5\n", " 5.0\n")


@given(expositions())
def test_merging_one_changes_nothing(text):
    assert merged([text]) == text


@given(expositions(), expositions(), expositions())
def test_neither_order_nor_grouping_matters(a, b, c):
    whole = as_set(merged([a, b, c]))

    assert as_set(merged([merged([a, b]), c])) == whole
    assert as_set(merged([a, merged([b, c])])) == whole
    assert as_set(merged([c, a, b])) == whole


@given(expositions(), expositions())
def test_of_one_that_is_gone_the_counters_stay(gone, running):
    before, after = as_set(merged([gone, running])), as_set(merged([lasting(gone), running]))

    counted = {name for name, kind in KIND_OF.items() if kind == "counter"}

    def counts(found):
        return {(key, value) for key, value in found if key.split("{")[0] in counted}

    assert counts(after) == counts(before)
    assert as_set(lasting(gone)) <= as_set(gone)
    assert not [key for key, _ in as_set(lasting(gone)) if "gauge" in key]


@pytest.mark.parametrize(
    "text",
    [
        "a_total 3",
        "# TYPE a_total counter\na_total 3\n",
        "# HELP a_total h\na_total 3\n",
        "# HELP a_total h\n",
        "# HELP a_total h\n# TYPE a_total summary\n",
        "# HELP a_total h\n# TYPE a_total counter\n# TYPE a_total gauge\n",
        "# HELP a_total h\n# TYPE a_total counter\nb_total 3\n",
        "# HELP a_total h\n# TYPE a_total counter\na_total_sum 3\n",
        "# HELP a_total h\n# TYPE a_total counter\na_total 3\na_total 3\n",
        "# HELP a_total h\n# TYPE a_total counter\na_total three\n",
        "# HELP a_total h\n# TYPE a_total counter\n# HELP a_total h\n",
    ],
)
def test_what_is_no_exposition_of_ours_is_an_error(text):
    with pytest.raises(MergeError):
        merged([text])


def test_a_metric_of_two_kinds_is_an_error():
    with pytest.raises(MergeError, match="a_total: is a counter and a gauge"):
        merged([exposition([single("a_total", kind, "h", 1)]) for kind in ("counter", "gauge")])


@given(st.text('# HELPTYab_total{}="1.\n', max_size=60))
def test_any_text_gives_a_text_or_that_error(text):
    try:
        found = merged([text])
    except MergeError:
        return
    assert merged([found]) == found
