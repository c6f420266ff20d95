"""What a sidecar does for its readers, as it is told."""

from sidecar.guard.limits import GuardLimits, Rules, rule
from sidecar.guard.policy import Policy


def signed(fields, *, path="/", model=None):
    policy = Policy(
        rules=Rules(GuardLimits(), [rule("path=/signed/*;signed=true")]), signed_headers=frozenset({"signature"})
    )
    return policy.is_signed(fields, path=path, model=model)


def test_a_field_of_the_answer_says_that_it_is_signed_however_it_is_spelt():
    assert signed([("SIGNATURE", "x")])
    assert not signed([("X-Other", "signature")])


def test_so_does_one_that_is_announced_to_come_behind_the_body():
    assert signed([("Trailer", "X-Other, Signature")])
    assert not signed([("Trailer", "X-Other")])


def test_so_does_a_rule_for_its_path():
    assert signed([], path="/signed/a")
    assert not signed([], path="/other")
