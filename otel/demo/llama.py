"""A real engine as the model worker: the llama.cpp server, with a tiny random model written on the spot.

    python -m otel.demo.llama --port PORT --model FILE.gguf

The model says nothing that makes sense, but everything around it is real: tokenizer, decoding, slots, HTTP.
"""

from __future__ import annotations

import argparse
import string
import sys
import threading
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Final

import gguf
import numpy as np
import xllamacpp

LAYERS: Final = 300
"""Many thin layers: a file of 35 MB, yet some ten milliseconds a token, since every layer costs the engine some
work whatever its size. So a stream of a few hundred tokens lasts seconds, as it does with a real model."""
HIDDEN: Final = 64
HEADS: Final = 8
CONTEXT_TOKENS: Final = 1_024
"""Enough for the demo's question and answer; the engine's cache grows with it and with the layers."""
SEED: Final = 7
CHAT_TEMPLATE: Final = "{% for message in messages %}{{ message['content'] }} {% endfor %}"

_SPACE: Final = "\N{LOWER ONE EIGHTH BLOCK}"  # how SentencePiece writes a space
_WORDS: Final = ["".join(letters) for letters in product("bdfgklmnprstvw", "aeiou", ("", "n"))]
"""Words of a language without meaning; with the single letters and signs any prompt can be spelled."""


def write_model(path: Path) -> None:
    """Write a model of the Llama architecture: some 500 tokens, weights of no meaning, the same ones every time."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("tiny random")
    writer.add_context_length(CONTEXT_TOKENS)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(HIDDEN)
    writer.add_block_count(LAYERS)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(HIDDEN // HEADS)
    silent_count, token_count = _add_vocabulary(writer)
    _add_weights(writer, silent_count=silent_count, token_count=token_count)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_vocabulary(writer: gguf.GGUFWriter) -> tuple[int, int]:
    """Tokens of the SentencePiece kind: (how many of the first should never be said, how many there are)."""
    special = ["<unk>", "<s>", "</s>"]
    single_bytes = [f"<0x{byte:02X}>" for byte in range(256)]
    pieces = [_SPACE, *string.printable[:95].replace(" ", ""), *(_SPACE + word for word in _WORDS)]
    tokens = [*special, *single_bytes, *pieces]
    types = [
        gguf.TokenType.UNKNOWN,
        *[gguf.TokenType.CONTROL] * 2,
        *[gguf.TokenType.BYTE] * len(single_bytes),
        *[gguf.TokenType.NORMAL] * len(pieces),
    ]
    silent_count = len(special) + len(single_bytes)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_token_scores([0.0] * silent_count + [-float(rank) for rank in range(len(pieces))])
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_add_bos_token(True)
    writer.add_chat_template(CHAT_TEMPLATE)
    return silent_count, len(tokens)


def _add_weights(writer: gguf.GGUFWriter, *, silent_count: int, token_count: int) -> None:
    random = np.random.default_rng(SEED)

    def matrix(rows: int, columns: int) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
        return random.standard_normal((rows, columns), dtype=np.float32) * np.float32(columns**-0.5)

    ones = np.ones(HIDDEN, dtype=np.float32)
    said = matrix(token_count, HIDDEN) * 4
    said[:silent_count] = 0  # bytes that are no text, and the end: never among the likely ones
    writer.add_tensor("token_embd.weight", matrix(token_count, HIDDEN))
    writer.add_tensor("output_norm.weight", ones)
    writer.add_tensor("output.weight", said)
    for layer in range(LAYERS):
        for norm in ("attn_norm", "ffn_norm"):
            writer.add_tensor(f"blk.{layer}.{norm}.weight", ones)
        for part in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"):
            writer.add_tensor(f"blk.{layer}.{part}.weight", matrix(HIDDEN, HIDDEN))


def serve(model: Path, *, port: int) -> xllamacpp.Server:
    """Start the engine on one thread and one slot; it serves until the object goes."""
    settings = xllamacpp.CommonParams()
    settings.model.path = str(model)
    settings.hostnames = ["127.0.0.1"]
    settings.port = port
    settings.n_ctx = CONTEXT_TOKENS
    settings.n_parallel = 1
    settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = 1
    settings.warmup = False
    settings.ui = False
    return xllamacpp.Server(settings)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m otel.demo.llama", description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--model", type=Path, required=True, help="written first when it is not there")
    arguments = parser.parse_args(argv)
    if not arguments.model.exists():
        write_model(arguments.model)
    server = serve(arguments.model, port=arguments.port)
    print(f"{arguments.model.name} at {server.listening_address}", flush=True)
    threading.Event().wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
