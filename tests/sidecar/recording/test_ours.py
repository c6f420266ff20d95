"""What the sidecar itself did to an answer."""

from otel.hop import BodyDigests, Exchange, Traffic
from sidecar.guard.digests import Digests
from sidecar.recording.ours import Ours

SEEN, PASSED = Exchange(method="GET", path="/"), Traffic(bytes_out=100)


def test_nothing_of_ours_changes_nothing():
    ours = Ours()

    assert ours.exchange(SEEN) is SEEN
    assert ours.traffic(PASSED) is PASSED
    assert ours.body_digests is None


def test_bytes_of_ours_are_part_of_what_went_out():
    ours = Ours()
    ours.kept_alive(13)
    ours.kept_alive(13)
    ours.injected(50)

    assert ours.traffic(PASSED) == Traffic(bytes_out=176, keepalive_count=2, injected_bytes=76)


def test_a_limit_is_told_once_and_in_order():
    ours = Ours()

    assert [ours.guard_fired(token) for token in ("b", "a", "b")] == [True, True, False]
    assert ours.exchange(SEEN).guard_fired == ("b", "a")


def test_digests_stand_there_where_they_are_wanted():
    ours = Ours()
    ours.digests = Digests()
    ours.digests.upstream(b"a")

    assert ours.body_digests == BodyDigests(*ours.digests.hex)
