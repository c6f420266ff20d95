"""The Dockerfiles: read right, free of what the linter knows, and of what an image of ours must not have."""

from __future__ import annotations

import re
import tomllib

import pytest

from k8s.keys import USER
from tests.k8s import tools
from tests.k8s.dockerfile import Instruction, Stage, stages
from tests.k8s.images import IMAGES
from tests.k8s.tools import ROOT, tool

SMALL = """\
# first
ARG BASE=debian:x
FROM ${BASE} AS build
RUN one \\
    # between
    && two
COPY a b c/
FROM ${BASE}
COPY --from=build /c /d
ENV A=1 B="2 3"
ENTRYPOINT ["x", "y z"]
"""


def test_stages_and_continued_lines_are_read():
    build, last = stages(SMALL)
    assert build == Stage("debian:x", "build", (Instruction("RUN", "one && two"), Instruction("COPY", "a b c/")))
    assert (last.base, last.name, last.environ) == ("debian:x", "", {"A": "1", "B": "2 3"})
    assert last.last("ENTRYPOINT") == '["x", "y z"]'
    assert last.instructions[-1].words == ["x", "y z"]


@pytest.mark.parametrize("text", ["RUN before\n", "FROM x\nADD a b\n"])
def test_what_is_not_known_is_refused(text):
    with pytest.raises(ValueError, match="is not known here"):
        stages(text)


@pytest.mark.parametrize("name", IMAGES)
def test_an_image_runs_as_the_user_that_manifests_name(name):
    last = stages((ROOT / IMAGES[name]).read_text("utf-8"))[-1]
    assert last.last("USER") == f"{USER}:{USER}"
    assert last.instructions[-1].name == "ENTRYPOINT"
    assert last.instructions[-1].text.startswith("["), "a shell would take the signals"


def test_the_build_installs_wheels_by_hash_and_nothing_else():
    text = (ROOT / IMAGES["gapline"]).read_text("utf-8")
    installs = [line for line in text.splitlines() if "pip install" in line]
    assert installs
    for line in installs:
        assert "--only-binary :all: --require-hashes" in line or "--no-deps --no-index" in line


def test_what_is_copied_passes_the_ignore_file_and_is_there():
    text = (ROOT / ".dockerignore").read_text("utf-8").split()
    assert text[0] == "*"
    for stage in stages((ROOT / IMAGES["gapline"]).read_text("utf-8")):
        for each in stage.instructions:
            if each.name == "COPY" and not each.text.startswith("--from"):
                for word in each.words[:-1]:
                    assert f"!{word}" in text
                    assert (ROOT / word).exists()


def test_the_build_brings_what_the_wheel_is_made_with():
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["build-system"]["requires"]
    names = [re.split("[<>=]", each)[0] for each in wanted]
    assert all(f"{name}==" in (ROOT / "requirements/build.txt").read_text("utf-8") for name in names)


@pytest.mark.skipif(bool(tools.missing()), reason=tools.missing())
@pytest.mark.parametrize("name", IMAGES)
def test_the_linter_finds_no_fault(name):
    done = tool("hadolint", str(ROOT / IMAGES[name]))
    assert (done.returncode, done.stdout) == (0, "")
