import pytest

from sidecar.upstream.errors import (
    BadAnswer,
    BadRequestBody,
    BadRequestHead,
    BrokenOff,
    ConnectFailed,
    ConnectTimeout,
    TlsFailed,
    UpstreamError,
)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ConnectTimeout(2.0), "no connection within 2 s"),
        (ConnectFailed("refused", 111), "no connection: refused"),
        (TlsFailed("expired"), "no TLS: expired"),
        (BadRequestHead("a method is a token"), "not sent: a method is a token"),
        (BadRequestBody("a body is whole"), "not sent: a body is whole"),
        (BadAnswer("a head has a status"), "the answer breaks the rule: a head has a status"),
        (BrokenOff("a body is whole", "fin"), "the answer broke off (fin): a body is whole"),
    ],
)
def test_every_error_says_its_step_and_rule(error, message):
    assert str(error) == message
    assert isinstance(error, UpstreamError)
