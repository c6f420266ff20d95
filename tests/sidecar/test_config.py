import pytest

from otel.settings import Address, ConfigError, UnixPath
from sidecar.config import PREFIX, Config, config_of, parser
from sidecar.option_values import Egress
from sidecar.options import HEADINGS, OPTIONS

NEEDED = {"upstream": "http://127.0.0.1:8000", "hop": "gateway"}


def config(flags=None, environ=None, file_text=None) -> Config:
    return config_of({**NEEDED, **(flags or {})}, environ or {}, file_text=file_text)


def errors(flags=None, environ=None, file_text=None) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        config_of(flags or {}, environ or {}, file_text=file_text)
    return caught.value.errors


def test_upstream_and_hop_are_enough():
    found = config()

    assert (found.listen, found.admin) == ((Address("0.0.0.0", 24080),), Address("0.0.0.0", 24090))
    assert (found.role, found.export, found.exact, found.loop) == ("ingress", None, False, "auto")
    assert (found.export_queue, found.request_id_headers) == (32 << 20, ("x-request-id",))
    assert (found.connect_timeout, found.drain_timeout, found.stall_after) == (5.0, 30.0, 2.0)


def test_every_option_can_come_from_a_flag_a_variable_and_a_file():
    values = {
        "listen": ":1,unix:/run/a",
        "upstream": "https://up",
        "hop": "a",
        "role": "ingress",
        "egress": "openai=127.0.0.1:24100=https://api.openai.com",
        "tls_cert": "cert.pem",
        "tls_key": "key.pem",
        "upstream_ca": "ca.pem",
        "upstream_cert": "client.pem",
        "upstream_key": "client.key",
        "spool": "/var/spool",
        "spool_bytes": "1G",
        "answer_timeout": "10m",
        "request_head_timeout": "10s",
        "request_body_timeout": "20s",
        "slow_reader": "end",
        "write_deadline": "30s",
        "max_streams": "100",
        "max_queue": "10",
        "queue_timeout": "1s",
        "max_connections": "1000",
        "memory_limit": "512M",
        "workers": "2",
        "passthrough": "true",
        "admin": "off",
        "export": "http://c:4318/",
        "export_queue": "1M",
        "export_token": "t",
        "exact": "true",
        "request_id_headers": "X-A, x-b",
        "connect_timeout": "1s",
        "drain_timeout": "0s",
        "stall_after": "250ms",
        "event_limit": "64K",
        "clock_offset": "-1h",
        "clock_drift": "-200",
        "loop": "asyncio",
        "log_level": "debug",
        "guard": "enforce",
        "first_event_timeout": "10m",
        "next_event_timeout": "1m",
        "content_timeout": "5m",
        "guard_rule": "path=/v1/*;first=20m,model=small-*;next=10s",
        "missing_terminal": "error",
        "keepalive": "15s",
        "keepalive_text": "still here",
        "keepalive_form": "line",
        "keepalive_early": "true",
        "keepalive_signed": "true",
        "signed_headers": "X-Sig",
        "hold_head": "5s",
        "digests": "true",
        "log_format": "json",
        "log_start": "true",
        "error_text": "full",
        "probe_agents": "our-probe",
        "probe_paths": "/ours",
        "probe_headers": "X-Ours=1",
        "probe_prompt": "16",
        "dimensions": "tenant=X-Tenant",
        "engine_metrics": "http://127.0.0.1:8000",
        "client_key": "a secret of some length",
        "semconv": "both",
        "tier": "push",
        "compiled": "off",
        "export_logs": "off",
        "heartbeat": "1m",
    }
    assert values.keys() == {option.name for option in OPTIONS}

    from_flags = config_of(values, {})
    from_variables = config_of({}, {PREFIX + name.upper(): value for name, value in values.items()})
    from_file = config_of({}, {}, file_text="".join(f'{name} = "{value}"\n' for name, value in values.items()))

    assert from_flags == from_variables == from_file
    assert from_flags.admin is None
    assert from_flags.request_id_headers == ("x-a", "x-b")
    assert (from_flags.clock_offset, from_flags.clock_drift) == (-3600.0, -200.0)
    assert from_flags.listen == (Address("0.0.0.0", 1), UnixPath("/run/a"))
    assert from_flags.egress == (Egress("openai", Address("127.0.0.1", 24100), "https://api.openai.com"),)


def test_all_errors_of_all_sources_are_told_at_once():
    told = errors(
        flags={"listen": "x", "stall_after": "0s", "request_id_headers": "Host"},
        environ={PREFIX + "ROLE": "both", PREFIX + "HOPP": "a"},
        file_text='unknown = 1\nconnect_timeout = "soon"',
    )

    for name in ("--listen", "--stall-after", "--request-id-headers", "ROLE", "HOPP", "unknown", "connect_timeout"):
        assert any(name in line for line in told), name
    assert any("--upstream: required" in line for line in told)
    assert any("--hop: required" in line for line in told)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("upstream", "ftp://x"),
        ("upstream", "http://user@x"),
        ("hop", "two words"),
        ("request_id_headers", ","),
        ("request_id_headers", "content-length"),
        ("request_id_headers", "a b"),
        ("connect_timeout", "0"),
        ("clock_offset", "--1s"),
        ("clock_drift", "fast"),
        ("event_limit", "many"),
        ("export_token", "two words"),
        ("guard", "maybe"),
        ("guard_rule", "path=/v1"),
        ("keepalive_text", "two\nlines"),
        ("signed_headers", "a b"),
        ("probe_paths", "no-slash"),
        ("dimensions", "tenant"),
        ("client_key", "short"),
    ],
)
def test_a_value_that_breaks_its_rule_is_named(name, value):
    (told,) = errors({**NEEDED, name: value})

    assert name.replace("_", "-") in told


@pytest.mark.parametrize(("name", "secret"), [("export_token", "CANARY two words"), ("client_key", "CANARY")])
def test_a_secret_that_breaks_its_rule_is_not_shown(name, secret):
    (told,) = errors({**NEEDED, name: secret})

    assert "CANARY" not in told


def test_what_clashes_is_told_beside_what_cannot_be_read():
    told = errors(
        flags={"stall_after": "soon", "listen": ":1", "admin": ":1", "tls_cert": "c", "export_token": "two words"},
        file_text="",
    )

    for name in ("--stall-after", "--admin", "--tls-cert", "--export-token", "--upstream: required"):
        assert any(line.startswith(name) for line in told), name


def test_a_half_of_a_pair_that_could_not_be_read_is_not_missing():
    assert len(errors({**NEEDED, "tls_cert": "c", "tls_key": " "})) == 1


def test_what_others_find_wrong_with_the_values_is_told_at_once():
    with pytest.raises(ConfigError) as caught:
        config_of({"hop": "two words"}, {}, further=lambda values: [f"no {values['role']} here"])

    assert caught.value.errors[-1] == "no ingress here"
    assert len(caught.value.errors) == 3


def test_a_token_is_not_shown_when_it_breaks_its_rule():
    (told,) = errors({**NEEDED, "export_token": "secret words"})

    assert "secret" not in told


def test_health_must_not_take_a_path_of_the_upstream():
    (told,) = errors({**NEEDED, "listen": "127.0.0.1:5", "admin": "127.0.0.1:5"})

    assert told.startswith("--admin")


def test_two_free_ports_are_not_the_same_address():
    assert config({"listen": "127.0.0.1:0", "admin": "127.0.0.1:0"}).admin == Address("127.0.0.1", 0)


def test_the_variable_that_names_the_file_is_no_typo():
    assert config(environ={PREFIX + "CONFIG": "x.toml"}).hop == "gateway"


def test_the_help_shows_every_option_its_variable_and_examples():
    text = parser().format_help()

    for option in OPTIONS:
        assert option.flag in text
        assert PREFIX + option.name.upper() in text.replace("\n", "").replace(" ", "")
    assert "examples:" in text


def test_a_pair_of_files_is_whole_or_absent_and_an_egress_has_a_name_of_its_own():
    told = errors(
        flags={
            **NEEDED,
            "tls_cert": "a.pem",
            "upstream_key": "b.key",
            "egress": "x=127.0.0.1:1=http://a,x=127.0.0.1:2=http://b,y=127.0.0.1:1=http://c",
        }
    )

    assert told == (
        "--egress: '127.0.0.1:1': must not be an address of --egress",
        "--egress: 'x': must be named once",
        "--tls-cert: 'a.pem': needs --tls-key too",
        "--upstream-key: 'b.key': needs --upstream-cert too",
    )


def test_every_item_of_a_list_that_breaks_its_rule_is_named():
    found = errors({**NEEDED, "guard_rule": "first=abc,next=5s,foo=1", "dimensions": "tenant,region=x-region,zone"})

    assert [error.split(": ")[:2] for error in found] == [
        ["--guard-rule", "'first=abc'"],
        ["--guard-rule", "'foo=1'"],
        ["--dimensions", "'tenant'"],
        ["--dimensions", "'zone'"],
    ]


@pytest.mark.parametrize("switch", ["keepalive_early", "keepalive_signed"])
def test_a_switch_that_would_do_nothing_is_told(switch):
    (error,) = errors({**NEEDED, switch: "true"})

    assert error.endswith(": needs --keepalive too")
    assert config({switch: "true", "keepalive": "15s"}).keepalive == 15.0


def test_behind_a_service_no_engine_is_asked():
    (error,) = errors({**NEEDED, "role": "egress", "engine_metrics": "http://127.0.0.1:8000/metrics"})

    assert error.startswith("--engine-metrics: needs --role ingress")
    assert config({"role": "egress", "engine_metrics": "off"}).engine_metrics is None


def test_a_dimension_is_named_once():
    (error,) = errors({**NEEDED, "dimensions": "tenant=x-a,region=x-b,tenant=x-c"})

    assert error == "--dimensions: 'tenant': must be named once"


def test_the_help_has_a_heading_for_every_option():
    text = parser().format_help()

    assert OPTIONS[0].name in HEADINGS
    assert all(f"\n{heading}:\n" in text for heading in HEADINGS.values())
    assert {*HEADINGS} <= {option.name for option in OPTIONS}


@pytest.mark.parametrize("name", ["first_event_timeout", "next_event_timeout", "content_timeout"])
def test_a_limit_too_short_to_be_one_is_told_before_anything_starts(name):
    flag = "--" + name.replace("_", "-")

    assert errors({**NEEDED, name: "0.1ms"}) == (f"{flag}: 0.0001: must be 0, for none, or at least 1ms",)
    assert getattr(config({name: "1ms"}), name) == 0.001
    assert getattr(config({name: "0"}), name) == 0.0
