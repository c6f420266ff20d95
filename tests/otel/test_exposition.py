import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel.exposition import (
    Counted,
    Distribution,
    Exemplar,
    Sample,
    classic,
    exposition,
    number,
    openmetrics,
    sample_of,
    sampled_as,
    series,
    single,
    wants_openmetrics,
)

SOURCE = Exemplar("4bf92f3577b34da6a3ce929d0e0e4736", 0.25, 1_764_500_000_123_456_789)
WAITS = series(
    "wait_seconds",
    "histogram",
    "Waits.",
    [({"model": "m"}, Distribution((0.2, 1.0), (2, 0, 3), 17.5, (SOURCE, None, None)))],
)


def test_a_series_has_help_type_and_a_line_for_each_sample():
    text = exposition(
        [
            single("up", "gauge", "One.", 1),
            series(
                "seen_total", "counter", "Two.", [({"result": "stored"}, 5), ({"result": "rejected", "why": "x"}, 0.5)]
            ),
        ]
    )

    assert text == (
        "# HELP up One.\n# TYPE up gauge\nup 1\n"
        "# HELP seen_total Two.\n# TYPE seen_total counter\n"
        'seen_total{result="stored"} 5\nseen_total{result="rejected",why="x"} 0.5\n'
    )


def test_in_openmetrics_a_counter_is_called_without_its_end_and_the_text_has_one():
    assert openmetrics([single("seen_total", "counter", "Two.", 3)]) == (
        "# TYPE seen counter\n# HELP seen Two.\nseen_total 3\n# EOF\n"
    )


def test_the_buckets_of_a_histogram_are_added_up_and_each_has_its_exemplar():
    assert openmetrics([WAITS]) == (
        "# TYPE wait_seconds histogram\n# HELP wait_seconds Waits.\n"
        'wait_seconds_bucket{model="m",le="0.2"} 2'
        ' # {trace_id="4bf92f3577b34da6a3ce929d0e0e4736"} 0.25 1764500000.123\n'
        'wait_seconds_bucket{model="m",le="1.0"} 2\n'
        'wait_seconds_bucket{model="m",le="+Inf"} 5\n'
        'wait_seconds_sum{model="m"} 17.5\nwait_seconds_count{model="m"} 5\n# EOF\n'
    )


def test_the_older_format_has_no_exemplars():
    counted = series("a_total", "counter", 'of "a"\n', [({}, Counted(7, SOURCE)), ({"b": ' # {"'}, Counted(8, None))])
    text = exposition([WAITS, counted])

    assert "trace_id" not in text
    assert text.splitlines()[:3] == [
        "# HELP wait_seconds Waits.",
        "# TYPE wait_seconds histogram",
        'wait_seconds_bucket{model="m",le="0.2"} 2',
    ]
    assert text.splitlines()[-4:] == [
        '# HELP a_total of "a"\\n',
        "# TYPE a_total counter",
        "a_total 7",
        'a_total{b=" # {\\""} 8',
    ]
    assert 'a_total 7 # {trace_id="' in openmetrics([counted])
    assert '# HELP a of \\"a\\"\\n\n' in openmetrics([counted])


@given(st.text())
def test_no_label_value_can_break_its_line(value: str):
    text = exposition([series("a", "gauge", value, [({"b": value}, 1)])])
    lines = text.split("\n")

    assert len(lines) == 4
    quoted = lines[2].removeprefix('a{b="').removesuffix('"} 1')
    assert quoted.replace("\\\\", "").replace('\\"', "").count('"') == 0


EXEMPLARS = st.builds(Exemplar, st.text(max_size=40), st.floats(0, 1e6), st.integers(0, 2 * 10**18))
LABELS = st.dictionaries(st.sampled_from(["b", "c"]), st.text('ab{}," #=\\\n\r\u2028é', max_size=6))


@given(st.text(), LABELS, st.integers(), st.none() | EXEMPLARS)
def test_a_line_is_taken_apart_as_it_was_made(text, labels, value, exemplar):
    written = openmetrics([series("a_total", "counter", text, [(labels, Counted(value, exemplar))])])
    line = written.split("\n")[2]
    found = sample_of(line)

    assert len(written.split("\n")) == 5
    assert str(found) == line
    assert (found.value, found.exemplar) == (str(value), "" if exemplar is None else str(exemplar))
    assert classic(written).split("\n")[2] == f"{found.key} {value}"


@given(st.text('abz_{}="\\ #1.\n', max_size=40))
def test_any_line_is_a_sample_or_none(line):
    found = sample_of(line)

    assert found is None or str(found) == line


@pytest.mark.parametrize("line", ["", "a", "a ", " 1", "a{ 1", 'a{b="} 1', "a 1 2", "a 1 #", "1a 1", "a  1"])
def test_what_is_no_sample(line):
    assert sample_of(line) is None


def test_a_hostile_line_is_refused_in_linear_time():
    assert sample_of("a{" + '"\\' * 200_000) is None
    assert sample_of("a" * 400_000) is None


@given(
    st.lists(st.floats(0.001, 900).map(lambda bound: round(bound, 3)), unique=True, max_size=6).map(sorted), st.data()
)
def test_a_histogram_counts_up_to_its_count(bounds, data):
    counts = data.draw(st.lists(st.integers(0, 50), min_size=len(bounds) + 1, max_size=len(bounds) + 1))
    text = exposition([series("w", "histogram", "h", [({}, Distribution(tuple(bounds), tuple(counts), 1.5))])])
    found = [sample_of(line) for line in text.splitlines()[2:]]

    steps = [int(sample.value) for sample in found if sample.key.startswith("w_bucket")]
    assert steps == sorted(steps)
    assert steps[-1] == sum(counts)
    assert found[-1] == Sample("w_count", str(sum(counts)))
    ends = [float(re.search(r'le="(.+)"', sample.key)[1]) for sample in found if sample.key.startswith("w_bucket")]
    assert ends == [*bounds, float("inf")]


@pytest.mark.parametrize(
    ("value", "text"),
    [(1, "1"), (0.5, "0.5"), (1e16, "1e+16"), (float("inf"), "+Inf"), (-float("inf"), "-Inf"), (float("nan"), "NaN")],
)
def test_numbers_are_written_as_both_formats_want_them(value, text):
    assert number(value) == text


def test_a_counter_alone_is_sampled_under_another_name():
    assert (sampled_as("a", "counter"), sampled_as("a", "gauge"), sampled_as("a", "histogram")) == ("a_total", "a", "a")


PROMETHEUS_2 = (
    "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,"
    "text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)
PROMETHEUS_3 = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,"
    "application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,"
    "text/plain;version=0.0.4;q=0.2,*/*;q=0.1"
)


@pytest.mark.parametrize(
    ("accept", "is_open"),
    [
        (PROMETHEUS_2, True),
        (PROMETHEUS_3, True),
        ("application/openmetrics-text", True),
        ('Application/OpenMetrics-Text; Version="1.0.0"', True),
        ("application/openmetrics-text; version=0.0.1", False),
        ("application/openmetrics-text; version=2.0.0", False),
        ("application/openmetrics-text;q=0", False),
        ("application/openmetrics-text;q=lots", False),
        ("application/openmetrics-text;q=nan", False),
        ("text/plain, application/openmetrics-text", True),
        ("text/plain, application/openmetrics-text;q=0.5", False),
        ("text/plain;version=0.0.4;q=0.5, application/openmetrics-text;q=0.6", True),
        ("text/html, */*", False),
        ("*/*", False),
        ("", False),
    ],
)
def test_who_asks_says_which_format_it_reads(accept, is_open):
    assert wants_openmetrics(accept) is is_open


@given(st.text('aAplictonexmr/-;=q01., *"', max_size=60))
def test_any_accept_chooses_a_format(accept):
    assert wants_openmetrics(accept) in {True, False}
