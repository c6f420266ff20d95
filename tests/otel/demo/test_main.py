"""The command line of the demo: what is refused before anything is started."""

from __future__ import annotations

import pytest

from otel.demo.__main__ import _parser, _plan, main
from otel.demo.faults import FaultError


def errors_of(*argv: str) -> tuple[str, ...]:
    with pytest.raises(FaultError) as caught:
        _plan(_parser().parse_args(argv))
    return caught.value.errors


def test_all_errors_of_the_command_line_are_listed_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["--fault", "client:stall=x", "--skew", "nobody=1", "--runs", "0", "--model", "/no/such.gguf"]
    assert main(argv) == 2
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(": ")[1] for line in lines] == ["--fault", "--fault", "--skew", "--runs", "--model", "--model"]


def test_an_answer_too_short_for_its_fault_is_refused() -> None:
    assert errors_of("--fault", "gateway:cut=2", "--events", "50") == ("--events: 50: gateway:cut=2 needs 120 or more",)
    assert errors_of("--fault", "none", "--events", "0") == ("--events: 0: an answer needs 20 or more",)
    assert errors_of("--fault", "none", "--events", "3") == ("--events: 3: an answer needs 20 or more",)


@pytest.mark.parametrize(
    ("fault", "rule"),
    [
        *((f"{fault}=0.25", "must be more than 0.25 s, which a hop or reader may add unnoticed") for fault in (
            "gateway:stall", "model-worker:stall", "inference-proxy:buffer", "gateway:slow-first", "client:slow-read",
            "model-worker:freeze",
        )),
        ("model-worker:slow-first=1", "must be more than 1 s, which a model may take to its first output"),
    ],
)  # fmt: skip
def test_a_fault_that_no_verdict_would_name_is_refused(fault: str, rule: str) -> None:
    assert errors_of("--fault", fault) == (f"--fault: {fault}: {rule}",)


@pytest.mark.parametrize("fault", ["gateway:stall=0.26", "model-worker:slow-first=1.1", "gateway:cut=0.1"])
def test_a_fault_just_long_enough_is_planted(fault: str) -> None:
    assert str(_plan(_parser().parse_args(["--fault", fault])).fault) == fault


def test_the_answer_is_as_long_as_its_fault_needs() -> None:
    assert _plan(_parser().parse_args([])).events == 120
    assert _plan(_parser().parse_args(["--fault", "gateway:buffer=2"])).events == 320


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if what the real engine needs were installed."""
    monkeypatch.setattr("otel.demo.__main__.find_spec", lambda name: name)


@pytest.mark.usefixtures("engine")
def test_a_real_engine_takes_no_fault_of_its_own_but_a_freeze() -> None:
    [error] = errors_of("--worker", "llama", "--fault", "model-worker:stall=2")
    assert error.startswith("--fault: model-worker:stall: a real engine cannot be told to")
    assert not _plan(_parser().parse_args(["--worker", "llama", "--fault", "model-worker:freeze=3"])).is_scripted


@pytest.mark.usefixtures("engine")
def test_the_tiny_model_has_room_for_so_many_events() -> None:
    [error] = errors_of("--worker", "llama", "--fault", "gateway:cut=50")
    assert "has room for 900" in error


def test_what_the_real_engine_needs_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("otel.demo.__main__.find_spec", lambda _: None)
    [error] = errors_of("--worker", "llama", "--fault", "none")
    assert "gapline[llama]" in error


def test_words_that_are_no_options_are_refused() -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--flaut", "none"])
    assert caught.value.code == 2
