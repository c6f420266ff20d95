"""By what stalls can be sliced: the client's product, and the fields of a request's head that the operator allowed.

A dimension's value is a short token. What is none, or comes when there have been too many different ones, is `other`,
and counted. Of a user agent only products are told that are known by name, since anybody may write anything there.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from sidecar.headers import HOP_BY_HOP, Fields
from sidecar.telling.products import product_of

CLIENT: Final = "client"
"""The dimension that is always there: `openai-python/1.2.3`, `Firefox/131`, `other`."""
CLIENT_ID: Final = "client_id"
"""A keyed hash of who asked, where a key was given."""
OTHER: Final = "other"

VALUES: Final = 100
"""Different values of one dimension in a process; a backend that makes a series of each stays small."""
CLIENT_IDS: Final = 10_000
"""Of the hashes there may be more: they are for finding the one client, and no series is made of them."""
VALUE_CHARS: Final = 64

_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,31}")
_FIELD_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")
_VALUE: Final = re.compile(rf"[0-9A-Za-z][0-9A-Za-z._:/+-]{{0,{VALUE_CHARS - 1}}}")
_AGENT: Final = "user-agent"
_CREDENTIALS: Final = ("authorization", "x-api-key", "api-key", "x-goog-api-key")
"""What a client shows of itself, the surest first."""
_FORWARDED: Final = "x-forwarded-for"
_OF_CLIENTS: Final = (*_CREDENTIALS, _FORWARDED)

_SECRETS: Final = """
    apikey assertion auth authentication authenticate authorization bearer cert cookie credential credentials csrf jwt
    key login nonce otp passwd password secret session sessionid sid signature ssn token xsrf
"""
_SECRET_WORDS: Final = frozenset(_SECRETS.split())
"""Words in the name of a field whose value lets somebody in."""
_ADDRESSES: Final = """
    cf-connecting-ip client-ip fastly-client-ip forwarded from referer true-client-ip x-client-ip x-cluster-client-ip
    x-envoy-external-address x-forwarded-for x-original-url x-real-ip x-rewrite-url
"""
_PERSONAL: Final = frozenset(_ADDRESSES.split())
"""Fields that hold the address of a person, or a query."""
_WORD_ENDS: Final = re.compile(r"[^a-z0-9]+")
_MIN_KEY_CHARS: Final = 16
_MAX_KEY_CHARS: Final = 1_000
_DIGEST_BYTES: Final = 8


@dataclass(frozen=True, slots=True)
class Dimension:
    """Its name in lines and spans, and the field of the request's head that it is read from."""

    name: str
    header: str

    def __str__(self) -> str:
        return f"{self.name}={self.header}"


def dimension(value: str) -> Dimension:
    """The parser of the option: NAME=HEADER. Raises ValueError with the rule that was broken."""
    name, _, header = value.partition("=")
    header = header.lower()
    if not _NAME.fullmatch(name) or not _FIELD_NAME.fullmatch(header):
        raise ValueError("must be NAME=HEADER, a name of a-z, 0-9 and _ and the name of a header field")
    if name == CLIENT_ID or (name == CLIENT and header != _AGENT):
        raise ValueError(f"must not be named {name}, which has a meaning of its own")
    if header in HOP_BY_HOP | _PERSONAL or _SECRET_WORDS & set(_WORD_ENDS.split(header)):
        raise ValueError("must not be a field that may hold a credential, an address or what another hop needs")
    return Dimension(name, header)


def client_key(value: str) -> str:
    """The parser of the option: the secret of the hash. Raises ValueError with the rule that was broken."""
    if not _MIN_KEY_CHARS <= len(value) <= _MAX_KEY_CHARS:
        raise ValueError(f"must have {_MIN_KEY_CHARS} to {_MAX_KEY_CHARS} characters, or addresses could be tried out")
    return value


class Dimensions:
    """The dimensions of all requests of one process. overflow_counts: by name, the values that became `other` since
    there were too many; unfit_counts: those that were no token, or no product that is known."""

    __slots__ = ("_fields", "_key", "_seen", "_wanted", "overflow_counts", "unfit_counts")

    def __init__(self, rules: Iterable[Dimension] = (), client_key: str | None = None) -> None:
        """client_key: the secret of the hash of the client; None: there is no such hash.

        A rule that reads `client` from the user agent has the first product told whatever it is, not only known ones.
        """
        self._fields: Mapping[str, str] = {rule.name: rule.header for rule in rules}
        self._wanted = frozenset((_AGENT, *self._fields.values(), *(() if client_key is None else _OF_CLIENTS)))
        self._key = None if client_key is None else hashlib.sha256(client_key.encode()).digest()
        self._seen: dict[str, set[str]] = {}
        self.overflow_counts: Counter[str] = Counter()
        self.unfit_counts: Counter[str] = Counter()

    def of(self, fields: Fields, peer: str | None) -> tuple[tuple[str, str], ...]:
        """(name, value) in order of name; what a request does not have is left out. peer: the client's address, without
        its port."""
        head: dict[str, str] = {}
        for field, value in fields:
            if (name := field.lower()) in self._wanted:
                head[name] = f"{head[name]}, {value}" if name in head else value
        found: dict[str, str] = {}
        if (agent := head.get(_AGENT)) is not None and CLIENT not in self._fields:
            found[CLIENT] = self._bounded(CLIENT, product_of(agent))
        for name, header in self._fields.items():
            if (told := head.get(header)) is not None:
                found[name] = self._bounded(name, _token(told, is_agent=header == _AGENT))
        if self._key is not None and (client_id := _client_id(head, peer, self._key)) is not None:
            found[CLIENT_ID] = self._bounded(CLIENT_ID, client_id, limit=CLIENT_IDS)
        return tuple(sorted(found.items()))

    def _bounded(self, name: str, value: str | None, *, limit: int = VALUES) -> str:
        if value is None or value == OTHER:
            self.unfit_counts[name] += value is None
            return OTHER
        seen = self._seen.setdefault(name, set())
        if value in seen:
            return value
        if len(seen) >= limit:
            self.overflow_counts[name] += 1
            return OTHER
        seen.add(value)
        return value


def _token(value: str, *, is_agent: bool) -> str | None:
    """The value if it may be told. Of a user agent it is the first product."""
    text = value.strip().partition(" ")[0] if is_agent else value.strip()
    return text if _VALUE.fullmatch(text) else None


def _client_id(head: Mapping[str, str], peer: str | None, key: bytes) -> str | None:
    """16 hex digits for whoever asked, by what it shows of itself, else by where it stands; None: nothing is known."""
    for name in _CREDENTIALS:
        if shown := head.get(name):
            return _hash("credential", shown, key)
    address = head.get(_FORWARDED, "").partition(",")[0].strip() or peer
    return _hash("address", address, key) if address else None


def _hash(kind: str, text: str, key: bytes) -> str:
    data = f"{kind}:{text}".encode("utf-8", "surrogateescape")
    return hashlib.blake2b(data, digest_size=_DIGEST_BYTES, key=key).hexdigest()
