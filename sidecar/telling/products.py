"""The product that a user agent names: of those known by name, and of browsers their family.

Whoever sends a request writes its user agent, and may write anything. So only names of this list are ever told, with
a version if that is one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

AGENT_CHARS: Final = 512
"""Of a user agent that are looked at."""

_OF_APIS: Final = """
    OpenAI/Python AsyncOpenAI/Python AzureOpenAI/Python AsyncAzureOpenAI/Python OpenAI/JS OpenAI/NodeJS
    OpenAI/Go OpenAI/Java OpenAI/Ruby OpenAI/.NET AzureOpenAI/JS openai-python openai-node openai-go openai-java
    Anthropic/Python AsyncAnthropic/Python Anthropic/JS Anthropic/Go Anthropic/Java Anthropic/Ruby
    anthropic-sdk-python anthropic-sdk-typescript google-genai-sdk google-api-python-client
    google-api-nodejs-client google-cloud-sdk gl-python vertex-ai cohere-python cohere-ai cohere-node
    mistral-client-python mistral-client-typescript ollama ollama-python ollama-js Groq/Python AsyncGroq/Python
    Groq/JS Together/Python Fireworks/Python replicate-python replicate-javascript huggingface_hub hf_hub
    text-generation vllm sglang Boto3 Botocore aws-cli aws-sdk-js aws-sdk-go aws-sdk-go-v2 aws-sdk-java
    aws-sdk-rust azsdk-python azsdk-js azsdk-net azsdk-java
"""  # libraries of the APIs; `OpenAI/Python 1.52.0` is one product with a name of two words
_OF_APPS: Final = """
    ai ai-sdk ai-sdk/openai ai-sdk/anthropic ai-sdk/openai-compatible langchain langchain-openai LangChainJS
    llama-index llama_index litellm semantic-kernel haystack dspy pydantic-ai crewai autogen dify n8n flowise
    Open-WebUI LibreChat LobeChat AnythingLLM claude-cli claude-code codex_cli_rs codex-cli gemini-cli opencode
    aider Cursor Cline RooCode Continue Zed GithubCopilot GitHubCopilotChat
"""  # what is built on them
_OF_HTTP: Final = """
    python-httpx python-requests python-urllib3 Python-urllib aiohttp httpcore node node-fetch undici axios got
    superagent Deno Bun Go-http-client fasthttp resty okhttp Java Java-http-client Apache-HttpClient
    Apache-HttpAsyncClient ReactorNetty Jetty Faraday Ruby reqwest hyper ureq Dart Dalvik CFNetwork Alamofire
    GuzzleHttp PHP libwww-perl grpc-python grpc-node-js grpc-go gapline
"""  # libraries of HTTP
_OF_TOOLS: Final = """
    curl Wget HTTPie PostmanRuntime insomnia k6 Locust vegeta hey wrk oha ApacheBench kube-probe GoogleHC
    ELB-HealthChecker Prometheus UptimeRobot
"""  # tools, load and probes

KNOWN: Final[Mapping[str, str]] = {
    name.lower(): name for names in (_OF_APIS, _OF_APPS, _OF_HTTP, _OF_TOOLS) for name in names.split()
}
"""Every name that is told, by itself in lower case."""

_BROWSERS: Final = (
    ("Edge", re.compile(r"\bEdg(?:e|A|iOS)?/([0-9]{1,4})")),
    ("Opera", re.compile(r"\bOPR/([0-9]{1,4})")),
    ("Samsung", re.compile(r"\bSamsungBrowser/([0-9]{1,4})")),
    ("Firefox", re.compile(r"\b(?:Firefox|FxiOS)/([0-9]{1,4})")),
    ("Chrome", re.compile(r"\b(?:Headless)?(?:Chrome|CriOS|Chromium)/([0-9]{1,4})")),
    ("Safari", re.compile(r"\bVersion/([0-9]{1,4})[0-9.]* (?:Mobile/[0-9A-Za-z]{1,10} )?Safari/")),
)
"""Each family with the mark that only it has among those below it, since all of them claim to be their ancestors."""
_COMMENTS: Final = re.compile(r"\([^()]*\)")
_PRODUCTS: Final = 6
"""Products of one user agent that are looked at: some put their language first, as `Python/3.12 aiohttp/3.12.0`."""
_VERSION: Final = re.compile(r"v?([0-9]{1,4}(?:\.[0-9]{1,4}){0,2})(?![0-9])")


def product_of(agent: str) -> str | None:
    """`NAME/VERSION` or `NAME` of the first product that is known, `Firefox/131` of a browser; None: there is none."""
    return _product_of(agent[:AGENT_CHARS])


@lru_cache(maxsize=256)  # a server has few kinds of clients, and each asks often
def _product_of(text: str) -> str | None:
    if text.startswith("Mozilla/"):
        return _browser(text)
    words = _COMMENTS.sub(" ", text).split()[: _PRODUCTS + 1]
    for i, word in enumerate(words[:_PRODUCTS]):
        if (name := KNOWN.get(word.lower())) is not None:
            return _versioned(name, "".join(words[i + 1 : i + 2]))
        beginning, _, version = word.rpartition("/")
        if (name := KNOWN.get(beginning.lower())) is not None:
            return _versioned(name, version)
    return None


def _browser(text: str) -> str | None:
    for family, mark in _BROWSERS:
        if found := mark.search(text):
            return f"{family}/{found[1]}"
    return None


def _versioned(name: str, version: str) -> str:
    found = _VERSION.match(version)
    return name if found is None else f"{name}/{found[1]}"
