"""Of a user agent only products known by name are told, and of their versions only numbers."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.telling.products import KNOWN, product_of

FAMILIES = {"Edge", "Opera", "Samsung", "Firefox", "Chrome", "Safari"}
WEBKIT = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko)"
MAC = "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko)"
PHONE = "Mozilla/5.0 (iPhone; CPU iPhone OS 17_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko)"


@pytest.mark.parametrize(
    ("agent", "product"),
    [
        ("openai-python/1.2.3", "openai-python/1.2.3"),
        ("OpenAI/Python 1.52.0", "OpenAI/Python/1.52.0"),
        ("AsyncOpenAI/Python 2.0.0rc1", "AsyncOpenAI/Python/2.0.0"),
        ("Anthropic/JS 0.30.1", "Anthropic/JS/0.30.1"),
        ("OPENAI/PYTHON", "OpenAI/Python"),
        ("ai-sdk/openai/1.3.22 runtime/node", "ai-sdk/openai/1.3.22"),
        ("python-httpx/0.27.0", "python-httpx/0.27.0"),
        ("Python/3.12 aiohttp/3.12.0", "aiohttp/3.12.0"),
        ("ollama/0.1.32 (amd64 linux) Go/go1.22.1", "ollama/0.1.32"),
        ("Go-http-client/1.1", "Go-http-client/1.1"),
        ("curl/8.5.0", "curl/8.5.0"),
        ("check/1 (curl/8.5.0) Wget", "Wget"),
        ("Deno/v2.1.4", "Deno/2.1.4"),
        (f"{WEBKIT} Chrome/120.0.0.0 Safari/537.36", "Chrome/120"),
        (f"{WEBKIT} HeadlessChrome/120.0.0.0 Safari/537.36", "Chrome/120"),
        (f"{WEBKIT} Chrome/120.0.0.0 Safari/537.36 Edg/119.0.1", "Edge/119"),
        (f"{WEBKIT} Chrome/120.0.0.0 Safari/537.36 OPR/105.0.0.0", "Opera/105"),
        (f"{MAC} Version/17.1 Safari/605.1.15", "Safari/17"),
        (f"{PHONE} Version/17.0 Mobile/15E148 Safari/604.1", "Safari/17"),
        (f"{PHONE} CriOS/120.0.6099.119 Mobile/15E148 Safari/604.1", "Chrome/120"),
        ("Mozilla/5.0 (X11; Linux x86_64; rv:131.0) Gecko/20100101 Firefox/131.0", "Firefox/131"),
    ],
)
def test_known_products_are_told_with_their_version(agent: str, product: str):
    assert product_of(agent) == product


@pytest.mark.parametrize(
    "agent",
    [
        "",
        "my-secret-project/1.0",
        "jane.doe@example.com",
        "Mozilla/5.0 (compatible; jane doe)",
        "(curl/8.5.0)",
        "x" * 600 + " curl/8.5.0",
        "a b c d e f curl/8.5.0",
    ],
)
def test_what_is_not_known_is_not_told(agent: str):
    assert product_of(agent) is None


@pytest.mark.parametrize("version", ["15551234567", "secret", "", "1555123.4", "-1", "١٢٣", "jane@example.com"])
def test_a_version_that_is_none_is_left_out(version: str):
    assert product_of(f"curl/{version}") == "curl"


@given(st.text(max_size=60), st.sampled_from(sorted(KNOWN)), st.text(max_size=60))
def test_nothing_but_known_names_and_short_numbers_is_ever_told(before: str, name: str, after: str):
    for agent in (before, f"{name}/{after}", f"{before} {name}/{after}", f"Mozilla/5.0 {before} {name}/{after}"):
        product = product_of(agent)
        if product is not None:
            name_told = re.sub(r"/[0-9]{1,4}(\.[0-9]{1,4}){0,2}$", "", product)
            assert name_told in FAMILIES or name_told.lower() in KNOWN


def test_an_endless_user_agent_is_read_in_no_time():
    for hostile in ("(" * 100_000, "()" * 50_000, "a/" * 50_000, " " * 100_000, "Mozilla/" + "Version/1" * 20_000):
        assert product_of(hostile) is None


def test_every_name_can_be_told():
    assert all(product_of(name) is not None for name in KNOWN.values())
    assert all(re.fullmatch(r"[0-9A-Za-z._/+-]{1,40}", name) for name in KNOWN.values())
