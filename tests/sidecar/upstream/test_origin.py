import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.upstream.origin import Origin, authority_of, fields_of, origin_form, origin_of


@pytest.mark.parametrize(
    ("url", "origin", "authority"),
    [
        ("http://engine", Origin("http", "engine", 80), "engine"),
        ("http://Engine:8000/", Origin("http", "engine", 8000), "engine:8000"),
        ("https://engine/v1/", Origin("https", "engine", 443, "/v1"), "engine"),
        ("https://engine:80", Origin("https", "engine", 80), "engine:80"),
        ("http://[::1]:8000", Origin("http", "::1", 8000), "[::1]:8000"),
        ("http://[fe80::1%25eth0]", Origin("http", "fe80::1%25eth0", 80), "[fe80::1%25eth0]"),
        ("unix:/run/engine.sock", Origin("http", "localhost", 80, unix_path="/run/engine.sock"), "localhost"),
    ],
)
def test_an_origin_is_read_from_its_url(url, origin, authority):
    assert origin_of(url) == origin
    assert origin_of(url).authority == authority


@pytest.mark.parametrize(
    "url",
    [
        "",
        "engine:8000",
        "ftp://engine",
        "http://",
        "http://:80",
        "http://engine:0",
        "http://engine:70000",
        "http://engine:x",
        "http://user:secret@engine",
        "http://engine/?q",
        "http://engine/#f",
        "http://a b",
        "http://[::1",
        "unix:",
        "unix:engine.sock",
        "unix://engine.sock",
        "unix:/a\0b",
    ],
)
def test_what_is_no_origin_is_refused(url):
    with pytest.raises(ValueError):
        origin_of(url)


@given(st.text(max_size=40))
def test_any_text_is_an_origin_or_refused(url):
    try:
        origin = origin_of("http://" + url)
    except ValueError:
        return
    assert origin.host
    assert 0 < origin.port < 65_536


def test_a_prefix_goes_before_every_target_but_that_of_the_server_itself():
    origin = origin_of("http://engine/v1")

    assert (origin.target("/x?q"), origin.target("*")) == ("/v1/x?q", "*")


@pytest.mark.parametrize(
    ("target", "path"),
    [
        ("/a?b#c", "/a?b#c"),
        ("*", "*"),
        ("http://host/a", "/a"),
        ("http://user:secret@host:1?q", "/?q"),
        ("http://host", "/"),
        ("//host/a", "//host/a"),
        ("/a?u=http://b/c", "/a?u=http://b/c"),
        ("host:443", "/host:443"),
    ],
)
def test_the_origin_form_of_a_target(target, path):
    assert origin_form(target) == path


@given(st.binary(max_size=60))
def test_fields_keep_their_bytes(value):
    ((name, text),) = fields_of([(b"x-A", value)])

    assert (name, text.encode("utf-8", "surrogateescape")) == ("x-A", value)


@pytest.mark.parametrize(
    ("target", "authority"),
    [
        ("http://right.example/x", "right.example"),
        ("HTTP://user:secret@right.example:81?a=b", "right.example:81"),
        ("http://[::1]:8000/x", "[::1]:8000"),
        ("http:///x", None),
        ("/x", None),
        ("*", None),
        ("/http://a", None),
    ],
)
def test_only_an_absolute_target_has_an_authority(target, authority):
    assert authority_of(target) == authority
