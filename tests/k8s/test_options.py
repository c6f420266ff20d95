"""The injector's options say what they take."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from k8s.config import OPTIONS
from k8s.options import image, minor_version, secret_key


@pytest.mark.parametrize(
    ("text", "minor"),
    [("1.33", 33), ("v1.29.4", 29), ("1.31+", 31), ("1.30.2-gke.1", 30), ("1", None), ("1.x", None), ("2.0", None)],
)
def test_a_version_is_its_second_number(text, minor):
    if minor is None:
        with pytest.raises(ValueError, match="must be a version of Kubernetes"):
            minor_version(text)
    else:
        assert minor_version(text) == minor


@pytest.mark.parametrize("text", ["", "UPPER/x", "a b", "-x", "x" * 300])
def test_an_image_has_a_name(text):
    with pytest.raises(ValueError, match="must be the name of an image"):
        image(text)


def test_a_secret_is_named_with_its_key():
    assert secret_key("tokens/export") == ("tokens", "export")
    for text in ("tokens", "/x", "a/b/c", "A/x"):
        with pytest.raises(ValueError, match="must be SECRET/KEY"):
            secret_key(text)


def test_images_are_of_this_version():
    version = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    defaults = {option.name: option.default for option in OPTIONS}
    assert defaults["image"] == f"gapline:{version}"
    assert defaults["redirect_image"] == f"gapline-nft:{version}"
