from bisect import bisect_left

from hypothesis import given
from hypothesis import strategies as st

from otel.exposition import Counted, Distribution, Exemplar
from sidecar.telling.measures import OTHER, Counters, Histograms, Names, Source, tally

SOURCE = Source("4bf92f3577b34da6a3ce929d0e0e4736", 1_764_500_000_000_000_000)
YOUNGER = Source("00f067aa0ba902b700f067aa0ba902b7", SOURCE.at_ns + 1)


def shown(found):
    return {tuple(labels.values()): value for labels, value in found.series().samples}


def test_names_have_places_as_long_as_there_are_some():
    names = Names(2)

    assert [names.shown(name, is_borne_out=True) for name in ("a", "b", "c", "a", "c")] == ["a", "b", OTHER, "a", OTHER]
    assert names.over_count == 2


def test_what_is_only_somebodys_word_gets_half_of_the_places():
    names = Names(4)
    said = [names.shown(name, is_borne_out=False) for name in "abc"]

    assert said == ["a", "b", OTHER]
    assert [names.shown(name, is_borne_out=True) for name in "cde"] == ["c", "d", OTHER]
    assert names.shown("c", is_borne_out=False) == "c"


def test_no_name_takes_no_place():
    names = Names(0)

    assert (names.shown(None, is_borne_out=True), names.over_count) == ("", 0)


@given(st.lists(st.tuples(st.text(max_size=3), st.booleans())), st.integers(0, 8))
def test_there_are_never_more_labels_than_places(asked, limit):
    names = Names(limit)
    labels = [names.shown(name, is_borne_out=is_borne_out) for name, is_borne_out in asked]

    assert len(set(labels) - {OTHER}) <= limit
    assert all(label in {name, OTHER} for label, (name, _) in zip(labels, asked, strict=True))


def test_a_counter_adds_up_and_shows_what_it_counted_last():
    counters = Counters("a_total", "h", ("b",))
    counters.begin(("x",))
    counters.begin(("y",))
    for source in (SOURCE, YOUNGER):
        counters.add(("x",), 2, source)
    counters.begin(("x",))

    assert shown(counters) == {
        ("x",): Counted(4, Exemplar(YOUNGER.trace_id, 2.0, YOUNGER.at_ns)),
        ("y",): Counted(0, None),
    }


@given(st.lists(st.integers(0, 10**12)))
def test_times_add_up_exactly_however_many_there_are(values):
    counters = Counters("a_seconds_total", "h", (), per_unit=10**9)
    counters.begin(())
    for value in values:
        counters.add((), value)

    assert shown(counters) == {(): sum(values) / 10**9}


def test_the_end_of_a_bucket_belongs_to_it():
    histograms = Histograms("w_seconds", "h", (), (0.2, 0.4))
    for value in (200_000_000, 200_000_001, 400_000_000, 400_000_001):
        histograms.add((), value, SOURCE)

    (found,) = shown(histograms).values()
    assert (found.bounds, found.counts, found.sum) == ((0.2, 0.4), (1, 2, 1), 1.200000002)


def test_where_nothing_was_measured_there_is_nothing():
    histograms = Histograms("w_seconds", "h", ("b",), (1.0,))
    histograms.add(("x",), None, SOURCE)
    histograms.add_many(("x",), tally([], [10**9]), SOURCE)

    assert shown(histograms) == {}


def test_each_bucket_keeps_its_youngest_exemplar():
    histograms = Histograms("tokens", "h", (), (10.0,), per_unit=1)
    histograms.add((), 3, SOURCE)
    histograms.add((), 30, SOURCE)
    histograms.add((), 5, YOUNGER)

    (found,) = shown(histograms).values()
    assert found == Distribution(
        (10.0,),
        (2, 1),
        38.0,
        (Exemplar(YOUNGER.trace_id, 5.0, YOUNGER.at_ns), Exemplar(SOURCE.trace_id, 30.0, SOURCE.at_ns)),
    )


ENDS = [1, 5, 8, 20, 100]


@given(st.lists(st.lists(st.integers(0, 200), min_size=1)), st.sets(st.sampled_from(ENDS)).map(sorted))
def test_many_at_once_are_as_many_one_by_one(lists, bounds):
    at_once, one_by_one = (Histograms("w", "h", (), bounds, per_unit=1) for _ in range(2))
    for values in lists:
        at_once.add_many((), tally(values, ENDS), SOURCE)
        for value in values:
            one_by_one.add((), value, SOURCE)

    assert [(each.counts, each.sum) for each in shown(at_once).values()] == [
        (each.counts, each.sum) for each in shown(one_by_one).values()
    ]


@given(st.lists(st.integers(0, 200), min_size=1))
def test_of_many_the_greatest_is_the_exemplar_of_its_bucket(values):
    histograms = Histograms("w", "h", (), ENDS, per_unit=1)
    histograms.add_many((), tally(values, ENDS), SOURCE)

    (found,) = shown(histograms).values()
    wanted = [None] * (len(ENDS) + 1)
    wanted[bisect_left(ENDS, max(values))] = Exemplar(SOURCE.trace_id, float(max(values)), SOURCE.at_ns)
    assert list(found.exemplars) == wanted
