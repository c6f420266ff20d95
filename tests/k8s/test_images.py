"""What is looked at in an image that was built; `python -m tests.k8s.images` builds and runs them."""

from __future__ import annotations

from tests.k8s.images import COMPILERS, IMAGES, MOST_BYTES, compilers, size_bytes


def test_a_compiler_in_an_image_is_found(tmp_path):
    assert compilers(tmp_path) == []
    (tmp_path / "usr/bin").mkdir(parents=True)
    for name in COMPILERS:
        (tmp_path / "usr/bin" / name).symlink_to("nowhere")
    assert len(compilers(tmp_path)) == len(COMPILERS)


def test_the_size_is_that_of_all_files(tmp_path):
    empty = size_bytes(tmp_path)
    (tmp_path / "file").write_bytes(b"\1" * 1_000_000)
    assert 1_000_000 <= size_bytes(tmp_path) - empty < 1_100_000


def test_every_image_has_a_bound():
    assert IMAGES.keys() == MOST_BYTES.keys()
