"""Requests that read all of a long history: several at once cost what one does, and others are served meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest

from tests.behavior.attack import watched
from tests.behavior.process import ServerProcess
from tests.behavior.test_large_bodies import server
from tests.load import LONG

__all__ = ["server"]

MESSAGES = [{"role": "user", "content": f"{number} " + "word " * 115} for number in range(16_000 if LONG else 4_000)]
"""9 or 2.3 MB of one speaker, whose messages Anthropic's format joins. Requests take turns to hold that much."""
AT_ONCE = 4
MOST_MB = 350 if LONG else 200
"""The server, and one history with what is made of it."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300), pytest.mark.extended]


@pytest.fixture
async def http(server: ServerProcess) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=server.url, timeout=120, trust_env=False) as http:
        yield http


async def imported(http: httpx.AsyncClient) -> str:
    made = await http.post("/v1/sessions", json={"history": {"format": "openai", "messages": MESSAGES}})
    assert made.status_code == 201, made.text
    return f"/v1/sessions/{made.json()['id']}"


@pytest.mark.extended
async def test_large_contexts_and_forks_cost_bounded_memory(server: ServerProcess, http: httpx.AsyncClient) -> None:
    path = await imported(http)
    with watched(server, f"{AT_ONCE} contexts", MOST_MB):
        contexts = await asyncio.gather(*[http.get(f"{path}/context") for _ in range(AT_ONCE)])
    assert len({context.content for context in contexts}) == 1
    shown = contexts[0].json()["messages"]
    assert [item["message"]["parts"][0]["text"] for item in shown] == [message["content"] for message in MESSAGES]
    with watched(server, f"{AT_ONCE} forks", MOST_MB):
        forks = await asyncio.gather(*[http.post(f"{path}/fork") for _ in range(AT_ONCE)])
    assert {fork.status_code for fork in forks} == {201}


async def test_an_export_of_one_speaker_comes_in_pages(http: httpx.AsyncClient) -> None:
    path = await imported(http)
    said: list[str] = []
    params: dict[str, str | int] = {"format": "anthropic", "limit": 500}
    while True:
        answer = await http.get(f"{path}/messages", params=params)
        page = answer.json()
        assert len(answer.content) < 2**20
        said += [block["text"] for item in page["items"] for block in item["content"]]
        if page["next_cursor"] is None:
            break
        params["after"] = page["next_cursor"]
    assert said == [message["content"] for message in MESSAGES]
    first = (await http.get(f"{path}/messages", params={"format": "anthropic", "limit": 1})).json()
    assert [item["content"] for item in first["items"]] == [said[0]]
