"""The request scan: what JSON says, however it is cut; nothing where it is none; and never more memory."""

from __future__ import annotations

import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.inspection.dialects.base import NAME_CHARS
from sidecar.inspection.request_scan import BUCKETS, LARGEST, PROMPTS, STEPS, RequestScan, scan_for

CHAT = {"model": "demo-7b", "messages": [{"role": "user", "content": 'a "quoted" ]}\\ word'}], "stream": True}


def scanned(body: bytes, *, piece_bytes: int = 1 << 20) -> RequestScan:
    scan = RequestScan()
    for start in range(0, len(body), piece_bytes):
        scan.feed(body[start : start + piece_bytes])
    return scan


def found(body: object, **how: int) -> tuple[str | None, bool | None, str | None]:
    scan = scanned(body if isinstance(body, bytes) else json.dumps(body).encode(), **how)
    return scan.model, scan.is_stream, scan.prompt_bucket


def test_a_chat_request_says_its_model_and_whether_it_wants_a_stream():
    assert found(CHAT) == ("demo-7b", True, "<1K")
    assert found({**CHAT, "stream": False}) == ("demo-7b", False, "<1K")


@pytest.mark.parametrize(
    ("body", "model", "is_stream"),
    [
        (b"{}", None, None),
        (b' \r\n\t{ "model" : "m" } ', "m", None),
        (b'{"a":{"model":"no"},"b":["model","no"],"c":"\\"model\\":\\"no\\""}', None, None),
        (b'{"model":"meta\\/llama-3"}', "meta/llama-3", None),
        (b'{"mod\\u0065l":"m","str\\u0065am":true}', "m", True),
        (b'{"stream":"true","model":7}', None, None),
        (b'{"stream":null,"model":{"id":"no"}}', None, None),
        (b'{"stream":[true],"model":["no"]}', None, None),
        (b'{"model":"a","model":"b","stream":true,"stream":false}', "b", False),
        (b'{"model":"a","model":null}', None, None),
        (b'{"n":-1.5e+3,"model":"m"}', "m", None),
        (b'{"model":"what is this?"}', None, None),
        (b'{"model":"\\ud83d"}', None, None),
        (b'{"model":"m"}{"model":"later"}', "m", None),
        (b'{"model":"m","stream":true', "m", None),
        (b'{"model":"m', None, None),
        (b'["model","m"]', None, None),
        (b'"model"', None, None),
        (b'{"stream":true "model":"m"}', None, None),
        (b'{"model":"m",}', "m", None),
        (b'{"stream":true,"model" "m"}', None, None),
        (b'{"stream":true,model:"m"}', None, None),
        (b'\xef\xbb\xbf{"model":"m"}', None, None),
        (b'{"a":\x00,"model":"m"}', None, None),
        (b"model=m&stream=true", None, None),
    ],
)
@pytest.mark.parametrize("piece_bytes", [1, 2, 3, 1_000])
def test_what_a_body_says(body, model, is_stream, piece_bytes):
    assert found(body, piece_bytes=piece_bytes)[:2] == (model, is_stream)


def test_a_name_may_be_as_long_as_names_are_and_no_longer():
    longest = "".join(f"\\u{ord('x'):04x}" for _ in range(NAME_CHARS))
    assert found(f'{{"model":"{longest}"}}'.encode())[0] == "x" * NAME_CHARS
    assert found({"model": "x" * (NAME_CHARS + 1)})[0] is None
    assert found({"x" * 5_000: 1, "model": "m"})[0] == "m"


@pytest.mark.parametrize("name", sorted(PROMPTS))
def test_the_prompt_is_measured_where_the_api_has_it(name):
    assert found({"padding": "x" * 5_000, name: "x" * 1_000}) == (None, None, "<1K")
    assert found({"padding": "x" * 5_000, name: ["x" * 1_500]}) == (None, None, "<4K")


def test_the_parts_of_a_prompt_are_summed_and_a_member_that_comes_twice_counts_once():
    assert found({"system": "x" * 600, "messages": ["x" * 600]})[2] == "<4K"
    assert found(b'{"prompt":"' + b"x" * 5_000 + b'","prompt":"x"}')[2] == "<1K"


def test_without_a_prompt_the_body_is_measured():
    assert found({"x": "x" * 5_000})[2] == "<16K"
    assert found(b"x" * 5_000)[2] == "<16K"
    assert found(b'{"prompt":"x"' + b" " * 5_000)[2] == "<16K"  # never ended: the prompt may not have either
    assert found(b"")[2] is None


def test_buckets_are_powers_of_four_from_one_kilobyte():
    assert [limit for limit, _ in BUCKETS] == [1024 * 4**step for step in range(len(BUCKETS))]
    for limit_bytes, name in BUCKETS:
        assert found(b"x" * (limit_bytes - 1))[2] == name
        assert found(b"x" * limit_bytes)[2] != name
    assert found(b"x" * BUCKETS[-1][0])[2] == LARGEST


@pytest.mark.parametrize("piece_bytes", [7, 32_768])
def test_after_so_many_brackets_it_looks_no_further_and_keeps_what_it_has(piece_bytes):
    few, many = b"[]," * (STEPS // 2 - 20), b"[]," * STEPS
    assert found(b'{"model":"m","a":[' + few + b'0],"stream":true}', piece_bytes=piece_bytes)[:2] == ("m", True)
    assert found(b'{"model":"m","a":[' + many + b'0],"stream":true}', piece_bytes=piece_bytes)[:2] == ("m", None)
    members = b'"a":0,' * STEPS
    assert found(b'{"model":"m",' + members + b'"stream":true}', piece_bytes=piece_bytes)[:2] == ("m", None)


def test_memory_does_not_grow_with_the_body():
    scan = RequestScan()
    for piece in (b'{"prompt":"', *[b"secret " * 10_000] * 20, b'","messages":["', *[b"x" * 70_000] * 20):
        scan.feed(piece)

    kept = [getattr(scan, name) for name in RequestScan.__slots__]
    assert sum(map(sys.getsizeof, kept)) < 4_096
    assert b"secret" not in repr(kept).encode()


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=12,
)
_NAMES = st.sampled_from(["model", "stream", *sorted(PROMPTS)]) | st.text(max_size=6)
_BODIES = st.lists(st.tuples(_NAMES, _JSON | st.sampled_from(["m-1", True, False])), max_size=6)


def pieces_of(data: st.DataObject, body: bytes) -> list[bytes]:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=8)))
    return [body[start:end] for start, end in zip([0, *cuts], [*cuts, len(body)], strict=True)]


@given(members=_BODIES, ensure_ascii=st.booleans(), indent=st.sampled_from([None, 1]), data=st.data())
def test_it_finds_what_a_parser_finds_however_the_body_is_cut(members, ensure_ascii, indent, data):
    texts = (f"{json.dumps(k)}:{json.dumps(v, ensure_ascii=ensure_ascii, indent=indent)}" for k, v in members)
    body = f"{{{', '.join(texts)}}}".encode()
    parsed = json.loads(body)
    scan = RequestScan()
    for piece in pieces_of(data, body):
        scan.feed(piece)

    model, stream = parsed.get("model"), parsed.get("stream")
    is_name = isinstance(model, str) and model.isascii() and model.isprintable() and " " not in model and model
    assert scan.model == (model if is_name else None)
    assert scan.is_stream == (stream if isinstance(stream, bool) else None)


@given(body=st.text('{}[]":,\\ amodelstr0', max_size=60).map(str.encode) | st.binary(max_size=60), data=st.data())
def test_however_it_is_cut_the_same_is_found_in_anything(body, data):
    scan = RequestScan()
    for piece in pieces_of(data, body):
        scan.feed(piece)

    assert (scan.model, scan.is_stream, scan.prompt_bucket) == found(body)


@pytest.mark.parametrize(
    ("content_type", "content_encoding", "is_looked_at"),
    [
        ("application/json", None, True),
        ("Application/JSON; charset=utf-8", "", True),
        ("application/vnd.api+json", "identity", True),
        ("application/json", "gzip", False),
        ("application/x-ndjson", None, False),
        ("text/plain", None, False),
        ("multipart/form-data; boundary=+json", None, False),
        (None, None, False),
    ],
)
def test_only_plain_json_is_looked_at(content_type, content_encoding, is_looked_at):
    assert (scan_for(content_type, content_encoding) is not None) is is_looked_at


@pytest.mark.parametrize("piece_bytes", [1, 2, 3, 12, 100])
def test_a_name_deep_within_another_member_is_not_the_models(piece_bytes):
    assert scanned(b'{"model":{"":"gpt-4"}}', piece_bytes=piece_bytes).model is None
