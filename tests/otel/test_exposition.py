from hypothesis import given
from hypothesis import strategies as st

from otel.exposition import exposition, series, single


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


@given(st.text())
def test_no_label_value_can_break_its_line(value: str):
    text = exposition([series("a", "gauge", value, [({"b": value}, 1)])])
    lines = text.split("\n")

    assert len(lines) == 4
    quoted = lines[2].removeprefix('a{b="').removesuffix('"} 1')
    assert quoted.replace("\\\\", "").replace('\\"', "").count('"') == 0
