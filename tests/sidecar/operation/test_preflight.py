import os
import socket
from pathlib import PurePath

import pytest

from otel.settings import Address, UnixPath
from sidecar.operation.preflight import file_errors, place_errors
from sidecar.option_values import Egress
from tests.support.certificates import make_pair


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pairs")
    return make_pair(folder, "first"), make_pair(folder, "second")


def test_each_file_is_named_by_its_option_all_at_once():
    names = ("tls_cert", "tls_key", "upstream_ca", "upstream_cert", "upstream_key")
    told = file_errors({name: PurePath(f"/nowhere/{name}") for name in names})

    assert told == [f"--{name.replace('_', '-')}: '/nowhere/{name}': No such file or directory" for name in names]


def test_files_that_can_be_used_are_no_error(pairs):
    pair, _ = pairs
    values = {"tls_cert": pair.cert, "tls_key": pair.key, "upstream_ca": pair.cert, "upstream_cert": pair.cert}

    assert file_errors({**values, "upstream_key": pair.key}) == []
    assert file_errors({"tls_cert": None}) == file_errors({}) == []


def test_a_file_with_something_else_in_it_is_told_apart(pairs):
    pair, _ = pairs
    (cert, key) = file_errors({"tls_cert": pair.key, "tls_key": pair.cert})

    assert cert == f"--tls-cert: {str(pair.key)!r}: holds no certificate in PEM format"
    assert key.endswith("holds no private key in PEM format")


def test_two_that_do_not_belong_together_are_told_together(pairs):
    first, second = pairs
    (told,) = file_errors({"upstream_cert": first.cert, "upstream_key": second.key})

    assert told.startswith("--upstream-cert, --upstream-key: ")


def test_damage_is_told_with_its_option(tmp_path):
    broken = tmp_path / "ca.pem"
    broken.write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    (told,) = file_errors({"upstream_ca": broken})

    assert told.startswith("--upstream-ca: ")


def test_a_unix_socket_needs_a_folder_and_a_name_that_is_free(tmp_path):
    taken = tmp_path / "file"
    taken.write_text("")
    with socket.socket(socket.AF_UNIX) as old:
        old.bind(str(tmp_path / "old"))
    listen = (Address("0.0.0.0", 1), UnixPath(str(tmp_path / "old")), UnixPath("/nowhere/at/all"))
    egress = (Egress("far", UnixPath(str(taken)), "http://f"),)

    assert place_errors({"listen": listen, "egress": egress}) == [
        "--listen: 'unix:/nowhere/at/all': there is no folder '/nowhere/at'",
        f"--egress: 'unix:{taken}': is there and is no socket",
    ]


def test_a_spool_can_be_made_anywhere_but_in_a_file(tmp_path):
    taken = tmp_path / "file"
    taken.write_text("")

    assert place_errors({"spool": tmp_path / "a" / "b"}) == place_errors({"spool": tmp_path}) == []
    assert place_errors({"spool": taken}) == [f"--spool: {str(taken)!r}: is no folder"]
    assert place_errors({"spool": taken / "a"}) == [f"--spool: '{taken}/a': {str(taken)!r} is no folder"]
    assert not (tmp_path / "a").exists()


def test_where_nothing_may_be_made_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *_: False)
    told = place_errors({"listen": (UnixPath(str(tmp_path / "s")),), "spool": tmp_path / "a"})

    assert [line.partition(": ")[0] for line in told] == ["--listen", "--spool"]
    assert all("nothing can be made in" in line for line in told)
