"""The path tells the dialect, and where it does not, the first event may."""

import pytest

from sidecar.inspection.dialects import DIALECTS, dialect_for, recognise
from sidecar.inspection.events import Event, Unit


@pytest.mark.parametrize(
    ("path", "framing", "name"),
    [
        ("/v1/chat/completions", "sse", "openai_chat"),
        ("/openai/deployments/gpt/chat/completions", "sse", "openai_chat"),
        ("/v1/chat/completions/", "sse", "openai_chat"),
        ("/v1/messages", "sse", "anthropic"),
        ("/anthropic/v1/messages", "sse", "anthropic"),
        ("/v1/completions", "sse", "plain"),
        ("/v1/messages/count_tokens", "sse", "plain"),
        ("/", "sse", "plain"),
        ("", "sse", "plain"),
        ("/api/generate", "ndjson", "plain"),
        ("/v1/chat/completions", "ndjson", "plain"),
        ("/v1/chat/completions", "opaque", "opaque"),
        ("/v1/messages", "none", "opaque"),
    ],
)
def test_the_path_and_the_framing_tell_the_dialect(path, framing, name):
    assert dialect_for(path, framing).name == name


@pytest.mark.parametrize(
    ("data", "name", "dialect"),
    [
        (b'{"object":"chat.completion.chunk","choices":[]}', b"", "openai_chat"),
        (b'{"choices":[{"delta":{}}]}', b"", "openai_chat"),
        (b'{"type":"message_start","message":{}}', b"message_start", "anthropic"),
        (b'{"type":"response.created"}', b"response.created", None),
        (b'{"response":"Okay","done":false}', b"", None),
        (b"plain text", b"", None),
        (b"", b"", None),
    ],
)
def test_the_first_event_tells_the_dialect_where_it_can(data, name, dialect):
    known = recognise(Event(Unit.EVENT, data, name, b"", 10))

    assert (known and known.name) == dialect


def test_a_cut_first_event_tells_nothing():
    assert recognise(Event(Unit.EVENT, b'{"choices":[]}', b"", b"", 10, is_cut=True)) is None


def test_every_dialect_of_the_table_has_its_own_name_and_path():
    assert len({dialect.name for dialect in DIALECTS}) == len(DIALECTS)
    assert len({dialect.path_end for dialect in DIALECTS} - {""}) == len(DIALECTS)
