"""Every fuzz target holds on its seeds and on random bytes, and would notice a parser that is wrong."""

import base64
import importlib.util

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.http1.chunked import ChunkedReader
from sidecar.inspection.splitter import SseSplitter
from tests.fuzz.__main__ import main
from tests.fuzz.deliveries import delivery_of, seed
from tests.fuzz.targets import TARGETS


@pytest.mark.parametrize("name", TARGETS)
def test_a_target_holds_on_its_seeds(name):
    assert TARGETS[name].seeds
    for data in TARGETS[name].seeds:
        TARGETS[name].check(data)


@pytest.mark.parametrize("name", TARGETS)
@given(st.data())
def test_a_target_holds_on_mixtures_of_its_seeds_and_words(name, data):
    parts = st.sampled_from([*(part[4:] for part in TARGETS[name].seeds), *TARGETS[name].words]) | st.binary(max_size=4)
    TARGETS[name].check(data.draw(st.binary(min_size=4, max_size=4)) + b"".join(data.draw(st.lists(parts, max_size=6))))


def test_a_delivery_is_the_same_bytes_however_it_is_cut():
    delivery = delivery_of(seed(b"abcdefgh", switches=5, sizes=b"\x00\x01\x00"))

    assert list(delivery.cuts()) == [
        [b"a", b"bc", b"d", b"e", b"fg", b"h"],
        [b"a", b"b", b"c", b"d", b"e", b"f", b"g", b"h"],
    ]
    assert [delivery.is_on(bit) for bit in range(4)] == [True, False, True, False]
    assert delivery_of(b"").payload == b""


def check_all(name):
    for data in TARGETS[name].seeds:
        TARGETS[name].check(data)


def test_a_reader_that_forgets_what_it_began_is_found(monkeypatch):
    def forgetful(self, data):
        self._begun = b""
        return feed(self, data)

    feed = ChunkedReader.feed
    monkeypatch.setattr(ChunkedReader, "feed", forgetful)
    with pytest.raises(AssertionError):
        check_all("chunked")


def test_a_splitter_that_loses_a_byte_is_found(monkeypatch):
    monkeypatch.setattr(SseSplitter, "_end_block", lambda self, out, later_bytes: setattr(self, "pending_bytes", 0))
    with pytest.raises(AssertionError):
        check_all("splitter")


def test_an_input_that_was_found_can_be_run_again(monkeypatch):
    found = base64.b64encode(TARGETS["splitter"].seeds[0]).decode()

    assert main(["--target", "splitter", "--input", found]) == 0
    monkeypatch.setattr(SseSplitter, "feed", lambda self, data: [])
    with pytest.raises(AssertionError):
        main(["--target", "splitter", "--input", found])


@pytest.mark.e2e
@pytest.mark.skipif(importlib.util.find_spec("atheris") is None, reason="atheris is not installed")
def test_the_guided_run_ends_by_itself(capsys):
    assert main(["--target", "chunked", "--seconds", "1.5"]) == 0
    assert "nothing found" in capsys.readouterr().out
