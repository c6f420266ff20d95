"""One file of the spool: whole records, also after a write that failed in the middle."""

from __future__ import annotations

import errno
import os
import stat

import pytest

from sidecar.export.spool import file as module
from sidecar.export.spool.file import SpoolFile
from sidecar.export.spool.format import FormatError
from sidecar.export.spool.index import State


@pytest.fixture
def file(tmp_path):
    made = SpoolFile.begin(tmp_path, 1, is_open=False)
    yield made
    made.close()


def numbers(path) -> list[int]:
    return list(SpoolFile.take_over(path)[0].index.numbers)


def test_records_are_read_from_where_they_were_put(file):
    assert [file.append(number, b"span %d" % number) for number in (5, 6)] == [0, 1]
    assert (file.body(0), file.body(1)) == (b"span 5", b"span 6")
    assert file.size_bytes == file.path.stat().st_size
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600


def test_another_process_finds_what_is_not_done(file):
    for number in (5, 6, 7):
        file.append(number, b"span")
    file.mark_done([1])
    file.close()
    found, torn_count = SpoolFile.take_over(file.path)
    assert list(found.index.numbers) == [5, 6, 7]
    assert (found.index.waiting_count, found.index.on_disk_count, torn_count) == (2, 2, 0)
    assert found.body(2) == b"span"
    found.close()


def test_a_write_that_fails_in_the_middle_leaves_no_trace(file, monkeypatch):
    file.append(5, b"first")
    real = os.pwrite
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", lambda opened, data, offset: real(opened, data[: len(data) // 2], offset))
        with pytest.raises(OSError) as caught:
            file.append(6, b"second" * 100)
    assert caught.value.errno == errno.ENOSPC
    assert file.path.stat().st_size == file.size_bytes
    file.append(7, b"third")
    assert numbers(file.path) == [5, 7]
    assert file.body(1) == b"third"


def test_a_file_that_cannot_get_its_head_is_not_left(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "pwrite", lambda *_: 3)
    with pytest.raises(OSError, match="No space"):
        SpoolFile.begin(tmp_path, 1, is_open=True)
    assert list(tmp_path.iterdir()) == []


def test_a_body_that_was_changed_is_none(file):
    file.append(5, b"span")
    data = bytearray(file.path.read_bytes())
    data[-1] ^= 1
    file.path.write_bytes(data)
    assert file.body(0) is None


def test_a_file_that_somebody_deleted_is_known(file):
    file.append(5, b"span")
    assert not file.has_vanished()
    file.path.unlink()
    assert file.has_vanished()
    file.delete()


def test_files_larger_than_any_of_ours_are_not_read(file, monkeypatch):
    file.append(5, b"span")
    monkeypatch.setattr(module, "READ_BYTES", 20)
    with pytest.raises(FormatError):
        SpoolFile.take_over(file.path)


def test_a_closed_file_is_opened_again_when_it_is_needed(file):
    file.append(5, b"span")
    file.sync()
    file.close()
    assert not file.has_vanished()
    assert file.body(0) == b"span"
    file.close()
    file.mark_done([0])
    assert SpoolFile.take_over(file.path)[0].index.waiting_count == 0
    assert file.index.on_disk_count == 0
    file.index.set_state(0, State.DONE)


def test_a_torn_end_is_cut_off_so_that_it_is_counted_once(file):
    file.append(5, b"span")
    whole = file.path.stat().st_size
    file.append(6, b"span")
    os.truncate(file.path, whole + 3)
    found, torn_count = SpoolFile.take_over(file.path)
    assert (list(found.index.numbers), torn_count) == ([5], 1)
    assert file.path.stat().st_size == found.size_bytes == whole
    assert SpoolFile.take_over(file.path)[1] == 0
