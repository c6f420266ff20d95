"""Folders of processes: one owner each, and none once the owner has ended."""

from __future__ import annotations

import os
import stat
import subprocess
import sys

import pytest

from sidecar.export.spool.folder import LOCK, PREFIX, folders_in, locked, own_folder


def test_only_the_owner_may_look_into_it(tmp_path):
    folder = own_folder(tmp_path / "a" / "spool")
    assert stat.S_IMODE((tmp_path / "a" / "spool").stat().st_mode) == 0o700
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder.path / LOCK).stat().st_mode) == 0o600
    folder.close()


def test_a_folder_that_is_held_is_nobody_elses(tmp_path):
    ours, theirs = own_folder(tmp_path), own_folder(tmp_path)
    assert sorted(folders_in(tmp_path)) == sorted((ours.path, theirs.path))
    assert locked(ours.path) is None
    assert locked(theirs.path) is None
    ours.close()
    theirs.close()


def test_an_empty_folder_goes_with_its_owner(tmp_path):
    own_folder(tmp_path).close()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_with_something_in_it_stays_for_the_next(tmp_path):
    folder = own_folder(tmp_path)
    (folder.path / "1.final").touch()
    assert not folder.is_empty()
    folder.close()
    again = locked(folder.path)
    assert again is not None
    (folder.path / "1.final").unlink()
    assert again.is_empty()
    again.close()
    assert not folder.path.exists()


def test_a_process_that_was_killed_holds_nothing(tmp_path):
    code = (
        "import sys, os, signal, pathlib; from sidecar.export.spool.folder import own_folder\n"
        "folder = own_folder(pathlib.Path(sys.argv[1])); print(folder.path, flush=True)\n"
        "sys.stdin.read() or os.kill(os.getpid(), signal.SIGKILL)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    path = tmp_path / process.stdout.readline().strip()
    assert locked(path) is None
    process.communicate()
    folder = locked(path)
    assert folder is not None
    folder.close()


def test_a_lock_that_was_removed_before_we_had_it_is_none(tmp_path, monkeypatch):
    folder = own_folder(tmp_path)
    real = os.open

    def open_and_remove(path, *rest):
        opened = real(path, *rest)
        folder.close()
        return opened

    monkeypatch.setattr(os, "open", open_and_remove)
    assert locked(folder.path) is None


def test_a_folder_that_is_gone_is_nobodys(tmp_path):
    assert locked(tmp_path / f"{PREFIX}gone") is None


def test_what_is_no_folder_of_a_process_is_left_alone(tmp_path):
    (tmp_path / "lost+found").mkdir()
    (tmp_path / f"{PREFIX}file").touch()
    (tmp_path / f"{PREFIX}link").symlink_to(tmp_path / "lost+found")
    assert list(folders_in(tmp_path)) == []


def test_a_root_that_cannot_be_made_says_so(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match=r"Not a directory|File exists"):
        own_folder(tmp_path / "file" / "spool")
