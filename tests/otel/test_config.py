import pytest

from otel import config
from otel.config import OPTIONS, PREFIX, Config, config_of, is_loopback
from otel.settings import Address, ConfigError
from otel.store.base import RetentionPolicy

DATA = {"data": "/var/lib/gapline"}


def read(environ=None, file_text=None, **flags: str) -> Config:
    return config_of({**DATA, **flags}, environ or {}, file_text=file_text)


def errors_of(environ=None, **flags: str) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        read(environ, **flags)
    return caught.value.errors


def test_only_the_data_directory_is_required():
    made = read()

    assert str(made.data) == "/var/lib/gapline"
    assert (made.grpc, made.http, made.query) == (
        Address("127.0.0.1", 4317),
        Address("127.0.0.1", 4318),
        Address("127.0.0.1", 24070),
    )
    assert (made.settle, made.final_after, made.stall_after, made.first_event_after) == (2.0, 10.0, 2.0, 5.0)
    assert made.retention == RetentionPolicy()


def test_the_log_is_json_away_from_a_terminal_unless_it_is_told_otherwise():
    assert read().log_format == "auto"
    assert [read(log_format=form).log_format for form in ("json", "text")] == ["json", "text"]
    assert errors_of(log_format="xml") == ("--log-format: 'xml': must be one of auto, json, text",)


def test_idle_timers_are_a_list_of_times_none_of_which_is_an_ordinary_pause():
    assert read().idle_timers == (60.0, 90.0, 300.0, 600.0)
    assert read(idle_timers="1m,75s").idle_timers == (60.0, 75.0)
    assert read(idle_timers="").idle_timers == ()
    assert errors_of(idle_timers="60s,0.5s") == ("--idle-timers: '0.5s': must be at least 1 s",)


def test_without_a_data_directory_it_says_so():
    with pytest.raises(ConfigError, match=r"^--data: required \(or GAPLINE_COLLECTOR_DATA, or data in the file\)$"):
        config_of({}, {})


def test_flag_wins_over_environment_and_environment_over_file():
    environ = {"GAPLINE_COLLECTOR_SETTLE": "3s", "GAPLINE_COLLECTOR_FINAL_AFTER": "20s"}
    file_text = 'settle = "4s"\nfinal_after = "30s"\nstall_after = 1.5\npath = ["model-worker", "gateway"]'
    made = read(environ, file_text, settle="500ms")

    assert (made.settle, made.final_after, made.stall_after) == (0.5, 20.0, 1.5)
    assert made.path == ("model-worker", "gateway")


def test_the_variable_that_tells_commands_where_a_collector_is_may_be_set():
    assert read({"GAPLINE_COLLECTOR_URL": "http://127.0.0.1:24070"}) == read()


def test_all_errors_are_listed_at_once():
    environ = {"GAPLINE_COLLECTOR_MAX_SIZE": "much", "GAPLINE_COLLECTOR_TOKNE": "x"}

    assert errors_of(environ, settle="soon", query="24070") == (
        "GAPLINE_COLLECTOR_TOKNE: no such option",
        "--query: '24070': must be HOST:PORT with a port from 0 to 65535",
        "--settle: 'soon': must be a time such as 250ms, 30s, 5m, 12h or 7d",
        "GAPLINE_COLLECTOR_MAX_SIZE: 'much': must be a size such as 4096, 64K, 32M or 10G",
    )


@pytest.mark.parametrize("listener", config.LISTENERS)
@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0", "10.0.0.7:0", "collector.example:0", ":0"])
def test_listening_beyond_this_machine_wants_a_token(listener: str, address: str):
    (error,) = errors_of(**{listener: address})

    assert error.startswith(f"--{listener}: ")
    assert "set a --token, or say --insecure" in error
    assert read(**{listener: address}, token="s3cret").token == "s3cret"
    assert read(**{listener: address}, insecure="true").token is None


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost"])
def test_this_machine_alone_is_loopback(host: str):
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "localhost.example", "", "127.0.0.1.example"])
def test_anything_else_is_not_loopback(host: str):
    assert not is_loopback(host)


def test_a_receiver_can_be_off():
    made = read(grpc="off", http="none")

    assert made.grpc is made.http is None


def test_two_listeners_cannot_share_an_address_unless_the_kernel_chooses():
    assert errors_of(http="127.0.0.1:24070") == ("--query: '127.0.0.1:24070': is the address of --http already",)
    assert read(http="127.0.0.1:0", query="127.0.0.1:0").query.port == 0


def test_a_verdict_cannot_be_final_before_it_is_judged():
    assert errors_of(settle="10s", final_after="5s") == ("--final-after: 5s: must be at least --settle, which is 10s",)
    assert read(settle="10s", final_after="10s").final_after == 10.0


def test_a_token_that_no_header_can_carry_is_refused_without_being_shown():
    (error,) = errors_of(token="two words")

    assert "two words" not in error


def test_the_newline_that_ends_a_secret_file_is_no_part_of_the_token():
    assert read({"GAPLINE_COLLECTOR_TOKEN": "s3cret\n"}).token == "s3cret"


def test_every_option_is_a_flag_of_the_command_and_a_field_of_the_config():
    text = config.parser().format_help()

    for option in OPTIONS:
        assert option.flag in text
        assert PREFIX + option.name.upper() in text
    assert [option.name for option in OPTIONS] == list(Config.__dataclass_fields__)
