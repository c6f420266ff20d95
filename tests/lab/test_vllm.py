"""The job with a real vLLM: the model that it writes, how it starts the engine, and whom it stops."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import time
from pathlib import Path

import pytest

from otel.demo.answer import Answer
from tests.lab.vllm import CONTEXT_TOKENS, MODEL, Silence, engine, engines_of, write_model

ANSWER = Answer(200, (), 1.0, is_whole=True, is_done=True)


def test_the_model_agrees_with_its_tokenizer(tmp_path: Path) -> None:
    write_model(tmp_path)
    config, tokenizer = (json.loads((tmp_path / name).read_text()) for name in ("config.json", "tokenizer.json"))
    vocabulary = tokenizer["model"]["vocab"]
    assert config["vocab_size"] == len(vocabulary)
    assert [vocabulary[each["content"]] for each in tokenizer["added_tokens"]] == [0, 1, 2]
    assert config["hidden_size"] == config["num_attention_heads"] * config["head_dim"]
    assert config["max_position_embeddings"] == CONTEXT_TOKENS


def test_the_engine_ends_with_whoever_started_it_and_asks_nobody_for_its_model() -> None:
    command = engine(Path("/venv/bin/python"), model=Path("/lab/tiny"), port=1_234)
    assert command.program == "/usr/bin/unshare"
    assert "--kill-child" in command.arguments
    assert "HF_HUB_OFFLINE=1" in command.arguments
    assert command.arguments[command.arguments.index("--served-model-name") + 1] == MODEL
    assert command.ready_url == "http://127.0.0.1:1234/health"


def test_the_engine_is_all_that_the_server_has_started() -> None:
    tree = "sh -c 'sleep 30 & sh -c \"sleep 30; :\" & wait; :'"
    with subprocess.Popen(["sh", "-c", f"sh -c {shlex.quote(tree)}; :"], start_new_session=True) as started:
        try:
            until_s = time.monotonic() + 5
            found: list[str] = []
            while len(found) < 4 and time.monotonic() < until_s:
                time.sleep(0.05)
                try:
                    found = [Path(f"/proc/{pid}/comm").read_text().strip() for pid in engines_of(started.pid)]
                except (ValueError, OSError):  # not all are there yet
                    continue
        finally:
            os.killpg(started.pid, signal.SIGKILL)
    assert sorted(found) == ["sh", "sh", "sleep", "sleep"]


@pytest.mark.parametrize(
    ("hop", "evidence", "is_right"),
    [
        ("model-worker", {"engine": {"server": "vllm", "running": 1}}, True),
        ("model-worker", {"engine": {"server": "vllm"}}, False),
        ("model-worker", {}, False),
        ("gateway", {"engine": {"server": "vllm", "running": 1}}, False),
    ],
)
def test_right_is_the_worker_with_the_engines_own_numbers(hop: str, evidence: dict, is_right: bool) -> None:
    verdict = {"first_hop": hop, "cause": "source_stall", "confidence": 0.9, "sentence": "It hung."}
    assert Silence("frozen", ANSWER, verdict | {"evidence": evidence}).is_right is is_right
