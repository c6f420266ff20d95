"""One process's own folder in the spool, held by a lock that ends with the process, however that ends."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

PREFIX: Final = "sidecar-"
LOCK: Final = "lock"
"""A file of its own, since a network filesystem locks no folder."""
FOLDER_MODE: Final = 0o700
FILE_MODE: Final = 0o600


class Folder:
    """A folder whose lock we hold."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path = path
        self._lock = lock

    def is_empty(self) -> bool:
        """Whether nothing but the lock is in it, or nothing can be told."""
        try:
            return self._names() == [LOCK]
        except OSError:
            return True

    def close(self) -> None:
        """Give up the lock; an empty folder goes. Raises OSError."""
        try:
            if self._names() == [LOCK]:
                (self.path / LOCK).unlink()
                with suppress(OSError):  # somebody made a lock of his own there just now: then it is his
                    self.path.rmdir()
        finally:
            os.close(self._lock)

    def _names(self) -> list[str]:
        return [path.name for path in self.path.iterdir()]


def own_folder(root: Path) -> Folder:
    """A new folder below the root, which is made when it is missing. Raises OSError."""
    root.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
    while True:
        path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=root))
        if (folder := locked(path)) is not None:  # or a neighbour took it for abandoned in just that moment
            return folder


def folders_in(root: Path) -> Iterator[Path]:
    """Every process's folder, whoever holds it. Raises OSError."""
    with os.scandir(root) as entries:
        names = sorted(e.name for e in entries if e.name.startswith(PREFIX) and e.is_dir(follow_symlinks=False))
    for name in names:
        yield root / name


def locked(path: Path) -> Folder | None:
    """The folder, when it is there and nobody else holds it. Raises OSError."""
    try:
        lock = os.open(path / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, FILE_MODE)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        is_ours = os.path.samestat(os.fstat(lock), (path / LOCK).stat())  # not one removed before we had it
    except (BlockingIOError, FileNotFoundError):
        is_ours = False
    except OSError:
        os.close(lock)
        raise
    if is_ours:
        return Folder(path, lock)
    os.close(lock)
    return None
