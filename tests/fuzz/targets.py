"""The table of fuzz targets: what each checks, inputs to begin with, and words that a mutation may put in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.fuzz import bodies, http1, told
from tests.fuzz.deliveries import seed
from tests.support.dialects import frame


@dataclass(frozen=True, slots=True)
class Target:
    """check: raises for an input on which an invariant does not hold, and for nothing else."""

    check: Callable[[bytes], None]
    seeds: tuple[bytes, ...]
    words: tuple[bytes, ...]


HEADS = (
    b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n",
    b"HTTP/1.0 200\r\nConnection: keep-alive\r\nX-Long: a\r\n b\r\n\r\n",
    b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
    b'HTTP/1.1 304 Not Modified\r\nContent-Length: 100\r\nETag: "x"\r\n\r\n',
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n\x81\x02ok",
    b"HTTP/1.1 502 \xff\r\nX: caf\xc3\xa9 \xff\r\nConnection: close\r\n\r\n",
)
CHUNKS = (
    b"0\r\n\r\n",
    b"5\r\nhello\r\n0\r\n\r\n",
    b'F;x="y z"\r\ndata: {"a":1}\n\n\r\n00e ;a\r\ndata: [DONE]\n\n\r\n0;last\r\nX-C: abc\r\n\r\nEXTRA',
    b"5\r\nhelloXX0\r\n\r\n",
    b"ffffffffffffffff\r\nx",
    b"1\r\n!\r\n0\r\nHost: a\r\nx: y\r\n z\r\n\r\n",
)
STREAMS = (
    b"data: one\n\nevent: x\ndata: two\nid: 7\n\n: remark\n\ndata: [DONE]\n\n",
    b"\xef\xbb\xbfdata: a\r\ndata: b\r\n\r\nevent: e\rdata\r\rid\n\nretry: 1\n\n\r\n",
    b'event: message_start\ndata: {"a": "\xc3\xa9"}\n\nid: 1\0\ndata: longer than the small limit\n\ndata: cut',
    b'{"a": 1}\n\n  \r\n{"response": "x"}\r\n\r\r\n{"done": true}',
)
ALIKE = (
    b'data: {"id":"c","created":1,"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n' * 4,
    b'event: content_block_delta\ndata: {"type":"content_block_delta","delta":{"type":"text_delta","text":"a"}}\n\n'
    * 4,
    b'data: {"choices":[{"text":"one"},{"text":"\\n"}],"obfuscation":"xy"}\n\n' * 4,
    b'data: {"type":"response.output_text.delta","sequence_number":7,"delta":"\xc3\xa9"}\n\n' * 4,
    b'data: {"type":"content-delta","delta":{"message":{"content":{"text":"\\ud83d\\ude00"}}}}\n\n' * 4,
)
"""Each at one of the paths of `bodies.PATHS`, in their order."""
REQUESTS = (
    b'{"model": "m-1", "stream": true, "messages": [{"role": "user", "content": "a \\" ] } b"}], "n": 1.5e3}',
    b'{"messages":[],"stream":false,"model":"\\u006d\\n","model":null,"x":{"model":"no"}} ',
    b'[1, {"model": "no"}]',
    b'{"stream": true, "model": "never ended',
    b"model=x&stream=true",
)
FRAMES = (
    b"\x81\x05hello\x88\x04\x03\xe8ok",
    b"\x01\x01a\x89\x00\x00\x01b\x80\x01c\x82\xfe\x00\x7eMASK" + bytes(126),
    b"\xc1\x7f\x00\x00\x00\x00\x00\x00\x00\x03abc\x88\x82\x12\x34\x56\x78\x11\xdc",
    b"\x80\x00",
    b"\x83\x00",
)
OPENINGS = (
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\x12\x04",
    b"\x16\x03\x01\x00\xc8\x01\x00\x00\xc4\x03\x03",
    b"POST /v1/chat/completions HTTP/1.1\r\n",
    b"PRI /x HTTP/1.1\r\n",
)
EVENT_STREAMS = (
    frame(b'{"bytes":"e30="}') + frame(b'{"message":"slow"}', b"exception/throttlingException"),
    frame(b"", b"event/") + frame(b"x" * 40)[:-1] + b"!",
    bytes(16) + b"\x00\x00\x00\x10",
)
ARRAYS = (
    b'[{"candidates":[{"content":{"parts":[{"text":"a ] } \\" b"}]}}]},\r\n{"usageMetadata":{}}]',
    b"\xef\xbb\xbf [ 1, [2], {}, null ] ",
    b'{"error":{"code":400}}',
    b'[{"a":"\xc3\xa9","b":[[]]},{"cut',
)
METRICS = (
    b'# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{engine="0",model_name="a\\"}"} 9.0\n',
    b'vllm:num_requests_running{engine="1"} 1e1 1764500000\nvllm:kv_cache_usage_perc 0.97\r\n',
    b'sglang:num_queue_reqs{tp_rank="0",priority=""} 5\nsglang:num_queue_reqs{tp_rank="1",} 5\n',
    b"tgi_queue_size 7\ntgi_batch_current_size 4 # {} 1\ntgi_queue_size_x 1\ntgi_queue_size 2",
)
ERRORS = (
    b"stream chunk parse: missing field id at line 1 column 184",
    b"Incorrect API key provided: sk-proj-Ab12. You can find it at https://a.test/x?y=z",
    b"litellm.APIConnectionError: OpenAIException - 'messages[0].content' is \"please stop\" 4111 1111 1111 1111",
    b'{"error":{"type":"overloaded_error","code":529,"message":"Overloaded, try `again` in 1.5s"}}',
    "Max Field wrote “too long” to anna@mail.test… ein Fehler".encode(),
)

TARGETS = {
    "reader": Target(
        http1.check_reader,
        (
            *(seed(head + b"hello", switches=8) for head in HEADS),
            *(seed(HEADS[1] + chunks) for chunks in CHUNKS),
            *(seed(head, switches=switches) for head in HEADS for switches in (1, 2, 4)),
        ),
        (
            b"HTTP/1.",
            b"100 ",
            b"101 ",
            b"204 ",
            b"304 ",
            b"Content-Length: ",
            b"Transfer-Encoding: chunked\r\n",
            b"\r\n\r\n",
        ),
    ),
    "chunked": Target(
        http1.check_chunked, tuple(map(seed, CHUNKS)), (b"\r\n", b"0\r\n\r\n", b";", b"ffffffffffffffff")
    ),
    "head": Target(
        http1.check_head,
        (
            *map(seed, HEADS),
            seed(b"POST|/v1/x?a=%3A|Host|a|x-B||x-B|\xc3\xa9 \xff"),
            seed(b"GET|/\r\nx: y"),
            seed(b"A|*|x|\0"),
        ),
        (b"HTTP/1.1 200 OK\r\n", b"\r\n ", b": ", b"\r\n\r\n", b"\xed\xa0\x80", b"|"),
    ),
    "h11": Target(
        http1.check_against_h11,
        (*(seed(head + b"hello") for head in HEADS), *(seed(HEADS[1] + chunks) for chunks in CHUNKS)),
        (b"HTTP/1.", b"Content-Length: ", b"Transfer-Encoding: chunked\r\n", b"\r\n\r\n", b"\r\n "),
    ),
    "splitter": Target(
        bodies.check_splitter,
        tuple(seed(body, switches=switches) for body in STREAMS for switches in (0, 1, 2, 4, 6)),
        (b"data: ", b"data:", b"event: ", b"id: ", b"\n\n", b"\r\n\r\n", b"\r\r", b": ", b"\xef\xbb\xbf", b"\n\r\n"),
    ),
    "lane": Target(
        bodies.check_lane,
        tuple(seed(events, switches=number) for number, events in enumerate(ALIKE)),
        (
            b"data: ",
            b"\n\n",
            b'"',
            b"\\u00e9",
            b"\\ud83d\\ude00",
            b"\\ud83d",
            b"\xc3\xa9",
            b"\xf0\x9f\x98\x80",
            b'","',
            b"[DONE]",
            b"\\",
        ),
    ),
    "request_scan": Target(
        bodies.check_request_scan,
        tuple(map(seed, REQUESTS)),
        (b'"model"', b'"stream"', b"true", b"false", b"null", b"\\u0022", b"\\\\", b'\\"', b'"messages":[', b"}]"),
    ),
    "websocket": Target(
        bodies.check_websocket,
        tuple(map(seed, FRAMES)),
        (
            b"\x81\x00",
            b"\x01\x01",
            b"\x80\x01",
            b"\x88\x02\x03\xe8",
            b"\x89\x80MASK",
            b"\x7e\x00\x02",
            b"\x7f" + bytes(7) + b"\x02",
        ),
    ),
    "sniff": Target(told.check_sniff, tuple(map(seed, OPENINGS)), (b"PRI ", b"\x16\x03", b"\x01", b"\r\n\r\nSM")),
    "eventstream": Target(
        told.check_eventstream,
        tuple(seed(body, switches=switches) for body in EVENT_STREAMS for switches in (0, 1)),
        (frame(b"{}"), frame(b"", b"error/x"), b":event-type", b"\x07\x00\x05", bytes(4)),
    ),
    "json_array": Target(
        told.check_json_array,
        tuple(seed(body, switches=switches) for body in ARRAYS for switches in (0, 1)),
        (b"[", b"]", b"{}", b",", b'"', b"\\", b"[{", b"}]", b"\xef\xbb\xbf", b'"a":'),
    ),
    "engine": Target(
        told.check_engine,
        tuple(map(seed, METRICS)),
        (
            b"vllm:num_requests_waiting",
            b"vllm:num_preemptions_total ",
            b'{a="',
            b'"}',
            b" 1\n",
            b" NaN\n",
            b"\\",
            b"\n",
        ),
    ),
    "lexicon": Target(
        told.check_lexicon,
        tuple(map(seed, ERRORS)),
        (b"error ", b"line 1 ", b"'", b'"', b"`", b"\\", b": ", b" 12345", b"\xe2\x80\xa6", b"@", b"://", b"_", b"API"),
    ),
    "forms": Target(
        told.check_forms,
        (
            *(seed(body, switches=switches) for body in STREAMS for switches in (0, 1, 4, 9)),
            *(seed(body, switches=2) for body in ARRAYS),
            *(seed(body, switches=3) for body in EVENT_STREAMS),
        ),
        (b"data: ", b"\n\n", b"\r\n\r\n", b"event: error\n", b"[{}", b",{}", frame(b"{}"), b"data: [DONE]\n\n"),
    ),
}
