"""Where requests go: one origin, written as a URL, and the forms in which targets and fields are kept on the way."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

_ABSOLUTE: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/?#]*")
_PORTS: Final = {"http": 80, "https": 443}
_HOST: Final = re.compile(r"[^\x00-\x20\x7f/?#@\\]+")


@dataclass(frozen=True, slots=True)
class Origin:
    """One server. host: without brackets. prefix: goes before every target. unix_path: None when TCP leads there."""

    scheme: str
    host: str
    port: int
    prefix: str = ""
    unix_path: str | None = None

    @property
    def authority(self) -> str:
        """As a Host field names it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    def target(self, target: str) -> str:
        """A target in origin form, under the prefix; `*` asks the server itself."""
        return target if target == "*" else self.prefix + target


def origin_of(url: str) -> Origin:
    """The origin of `http://…`, `https://…` or `unix:/path`. Raises ValueError."""
    if url.startswith("unix:"):
        path = url.removeprefix("unix:")
        if not path.startswith("/") or path.startswith("//") or "\0" in path:
            raise ValueError(f"{url!r} names no socket: unix: is followed by an absolute path")
        return Origin("http", "localhost", 80, unix_path=path)
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise ValueError(f"{url!r} is no address: {error}") from None
    if parts.scheme not in _PORTS:
        raise ValueError(f"{url!r} is no address: it begins with http://, https:// or unix:/")
    if not host or not _HOST.fullmatch(host) or port == 0:
        raise ValueError(f"{url!r} is no address: it has a host, and no port 0")
    if parts.username is not None or parts.query or parts.fragment:
        raise ValueError(f"{url!r} is no address: no user, query or fragment can be sent on")
    return Origin(parts.scheme, host, port or _PORTS[parts.scheme], parts.path.rstrip("/"))


def origin_form(target: str) -> str:
    """A request target without scheme, user and host, which only forward proxies get; the rest as it came."""
    absolute = _ABSOLUTE.match(target)
    path = target if absolute is None else target[absolute.end() :]
    return path if path.startswith("/") or path == "*" else "/" + path


def authority_of(target: str) -> str | None:
    """The authority in an absolute target, which goes before the Host field (RFC 9112, 3.2.2); None in other forms."""
    absolute = _ABSOLUTE.match(target)
    return None if absolute is None else absolute[0].partition("://")[2].rpartition("@")[2] or None


def fields_of(raw_headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[str, str]]:
    """The fields of a head, in order and spelling; bytes that are no UTF-8 stand in them as surrogates."""
    return [(name.decode("latin-1"), value.decode("utf-8", "surrogateescape")) for name, value in raw_headers]
