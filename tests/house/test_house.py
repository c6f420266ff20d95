"""The building rules that no other tool checks."""

from __future__ import annotations

import re
import subprocess

import pytest

from tests.house.docs import BLOCK, BLOCKS, PACKAGES, ROOT, documents, modules, purpose, rendered

FLOW = (
    *("listener", "relay", "splitter", "stamper", "recorder", "hop", "span", "otlp", "exporter"),
    *("receiver", "store", "join", "verdict", "view"),
)
LINES = 400
TESTED_ELSEWHERE = {
    # module -> where its tests are, and why not in a file of its own
    "sidecar/inspection/events.py": "values only; every test of the splitter and the dialects builds them",
    "otel/hop.py": "values only; tests/otel/test_span.py takes every field there and back",
    "otel/waits.py": "seen through the verdict: tests/otel/test_verdict.py plants every kind of wait",
    "k8s/decisions.py": "values only; tests/k8s/test_planner.py asserts on them",
    "k8s/facts.py": "values only; every test of the planner builds them",
    "k8s/keys.py": "names and numbers only",
    "otel/findings.py": "values only; tests/otel/test_verdict.py asserts on them",
}


def tracked(*patterns: str) -> list[str]:
    listed = subprocess.run(["git", "ls-files", *patterns], cwd=ROOT, capture_output=True, text=True, check=True)
    return listed.stdout.split()


MODULES = [path.relative_to(ROOT).as_posix() for package in PACKAGES for path in modules(package)]


@pytest.mark.parametrize("module", MODULES)
def test_every_module_says_what_it_is_for(module):
    assert 10 < len(purpose(ROOT / module)) <= 120


@pytest.mark.parametrize("module", MODULES)
def test_every_module_can_be_read_in_one_sitting(module):
    assert len((ROOT / module).read_text("utf-8").splitlines()) <= LINES


@pytest.mark.parametrize("module", [m for m in MODULES if not m.endswith("__init__.py")])
def test_every_module_has_a_test_file_of_its_own_name(module):
    package, _, name = module.rpartition("/")
    if module in TESTED_ELSEWHERE:
        return
    own = ROOT / "tests" / package / ("test_main.py" if name == "__main__.py" else f"test_{name}")
    assert own.exists(), f"{module} has no {own.relative_to(ROOT)}"


@pytest.mark.parametrize("station", FLOW)
def test_every_station_of_the_flow_line_is_a_file(station):
    assert [m for m in MODULES if m.endswith((f"/{station}.py", f"/{station}/__init__.py"))]


@pytest.mark.parametrize("document", documents(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_generated_blocks_are_known_and_up_to_date(document):
    text = document.read_text("utf-8")
    assert all(match[2] in BLOCKS for match in BLOCK.finditer(text))
    assert rendered(text) == text


@pytest.mark.parametrize("document", documents(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_between_documents_lead_somewhere(document):
    for target in re.findall(r"\]\((?!https?://|#|mailto:)([^)#\s]+)", document.read_text("utf-8")):
        assert (document.parent / target).exists(), f"{target} is not there"


def test_every_setting_is_documented():
    from otel.config import OPTIONS as COLLECTOR
    from sidecar.options import OPTIONS as SIDECAR

    for package, options in (("sidecar", SIDECAR), ("otel", COLLECTOR)):
        text = (ROOT / package / "README.md").read_text("utf-8")
        assert not [option.name for option in options if f"`{option.flag}`" not in text]


def test_lock_files_name_no_address():
    for name in tracked("requirements/*.txt"):
        assert "://" not in (ROOT / name).read_text("utf-8")
