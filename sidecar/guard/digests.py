"""Running digests of a body: of what the upstream sent, and of what was written to the reader.

They say later whether what a client has is what the upstream sent, and prove it where the sidecar put something of
its own in between.
"""

from __future__ import annotations

import hashlib


class Digests:
    """The digests of one body, without transfer framing, as of now."""

    __slots__ = ("_downstream", "_upstream")

    def __init__(self) -> None:
        self._upstream = hashlib.sha256()
        self._downstream = hashlib.sha256()

    def upstream(self, data: bytes) -> None:
        """Bytes that came."""
        self._upstream.update(data)

    def downstream(self, data: bytes) -> None:
        """Bytes that were written, ours too."""
        self._downstream.update(data)

    @property
    def hex(self) -> tuple[str, str]:
        """Both as they stand, `sha256:` and hex digits, the upstream's first; more may follow."""
        return f"sha256:{self._upstream.hexdigest()}", f"sha256:{self._downstream.hexdigest()}"
