"""The digests of a body are those of its bytes, however it was cut, at any time."""

from hashlib import sha256

from hypothesis import given
from hypothesis import strategies as st

from sidecar.guard.digests import Digests

pieces = st.lists(st.binary(max_size=50), max_size=8)


def digest(data: bytes) -> str:
    return f"sha256:{sha256(data).hexdigest()}"


def test_of_nothing_there_is_a_digest_too():
    assert Digests().hex == (digest(b""), digest(b""))


@given(pieces, pieces)
def test_each_side_has_the_digest_of_what_passed_there_so_far(came, written):
    digests = Digests()
    for index, piece in enumerate(came):
        digests.upstream(piece)
        assert digests.hex == (digest(b"".join(came[: index + 1])), digest(b""))
    for piece in written:
        digests.downstream(piece)

    assert digests.hex == (digest(b"".join(came)), digest(b"".join(written)))
