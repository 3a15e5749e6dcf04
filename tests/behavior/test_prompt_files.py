"""The operator's prompt files: they replace the built-in texts, on this server only."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.behavior.combinations import across
from tests.behavior.conftest import StartServer
from tests.behavior.harness import Client
from tests.behavior.rounds import MODELS, POLICIES, compacted, path, settings, summaries_of, worked
from tests.provider import FakeProvider

SECTIONS = "### Orders\n- what was ordered, with its $price\n\n### Loose Ends\n- what is not done, für später"
ASKED = f"under these headings and in this order:\n\n{SECTIONS}\n\nRules:\n"


@pytest.fixture
def sections(tmp_path: Path) -> Path:
    file = tmp_path / "sections.md"
    file.write_text(f"\n{SECTIONS}\n\n", encoding="utf-8")
    return file


@across(policy=POLICIES, model=MODELS)
async def test_a_summary_uses_the_sections_of_the_file(
    start_server: StartServer, provider: FakeProvider, sections: Path, policy: str, model: str
) -> None:
    server = await asyncio.to_thread(start_server, summary_template_file=sections)
    await asyncio.to_thread(sections.unlink)
    async with Client(server.url) as client:
        session_id = await worked(client, provider, model=model)
        completed = await compacted(client, session_id, policy=policy, instructions="keep the prices")
    assert completed.data["rung"] == "summary"
    [request] = summaries_of(provider)
    assert ASKED in request.last_user_text, "it was read at the start, and stands as it is"
    assert "Next Step" not in request.last_user_text, "of the built-in ones"
    assert "keep the prices" in request.last_user_text
    assert provider.refusals == []


async def test_it_applies_to_every_profile_and_to_automatic_rounds(
    start_server: StartServer, provider: FakeProvider, sections: Path
) -> None:
    small = {name: {"context_window": 8_000} for name in MODELS}
    server = await asyncio.to_thread(start_server, summary_template_file=sections, models=small)
    async with Client(server.url) as client:
        await worked(client, provider, compaction=settings("threshold", profile="content"))
    requests = summaries_of(provider)
    assert requests
    assert all(ASKED in request.last_user_text for request in requests)
    assert provider.refusals == []


@pytest.mark.shared_server
async def test_a_request_cannot_name_a_file_of_the_server(client: Client, sections: Path) -> None:
    for name in ("template", "summary_template", "summary_template_file"):
        asked = {"policy": "reactive", name: str(sections)}
        refused = await client.http.post("/v1/sessions", json={"compaction": asked})
        assert (refused.status_code, refused.json()["code"]) == (422, "invalid_compaction")
    session = await client.create()
    refused = await client.http.post(path(session["id"]), json={"template": str(sections)})
    assert refused.status_code == 422


async def test_the_system_prompt_comes_from_a_file(
    start_server: StartServer, provider: FakeProvider, tmp_path: Path
) -> None:
    file = tmp_path / "prompt.md"
    file.write_text("You are the café’s agent.", encoding="utf-8")
    server = await asyncio.to_thread(start_server, system_prompt_file=file)
    async with Client(server.url) as client:
        await worked(client, provider)
    beginning = "You are the café’s agent.\n\n## Environment"
    assert all(request.system.startswith(beginning) for request in provider.requests)
