"""The tiny random model: a file that any reader of its format accepts, the same every time."""

from __future__ import annotations

from pathlib import Path

import pytest

gguf = pytest.importorskip("gguf", reason="gguf is not installed; it comes with gapline[llama]")
pytest.importorskip("xllamacpp", reason="xllamacpp is not installed; it comes with gapline[llama]")

from otel.demo import llama  # noqa: E402  # it cannot be imported without them

pytestmark = pytest.mark.peers


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "tiny.gguf"
    llama.write_model(path)
    return path


def test_the_file_is_a_llama_with_all_its_layers(model: Path) -> None:
    reader = gguf.GGUFReader(model)
    assert reader.get_field("general.architecture").contents() == "llama"
    assert reader.get_field("llama.block_count").contents() == llama.LAYERS
    assert len({tensor.name for tensor in reader.tensors}) == 3 + 9 * llama.LAYERS
    assert model.stat().st_size < 40_000_000


def test_every_token_has_a_row_and_those_that_are_no_text_are_never_likely(model: Path) -> None:
    reader = gguf.GGUFReader(model)
    tokens = reader.get_field("tokenizer.ggml.tokens").contents()
    [said] = [tensor.data for tensor in reader.tensors if tensor.name == "output.weight"]
    silent = [index for index, token in enumerate(tokens) if token.startswith("<") and len(token) > 2]
    assert said.shape == (len(tokens), llama.HIDDEN)
    assert not said[silent].any()
    assert said[len(silent) :].any(axis=1).all()


def test_the_same_model_is_written_every_time(model: Path, tmp_path: Path) -> None:
    llama.write_model(tmp_path / "again.gguf")
    assert (tmp_path / "again.gguf").read_bytes() == model.read_bytes()
