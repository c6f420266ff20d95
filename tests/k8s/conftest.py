"""An API server, and what asks it."""

from __future__ import annotations

import aiohttp
import pytest

from k8s.api import HttpApi
from tests.support.api_server import TOKEN, ApiServer


@pytest.fixture
async def server(aiohttp_server):
    made = ApiServer()
    made.url = str((await aiohttp_server(made.app())).make_url("/"))
    return made


@pytest.fixture
async def api(server):
    async with aiohttp.ClientSession() as session:
        yield HttpApi(session, server.url, token=lambda: TOKEN)
