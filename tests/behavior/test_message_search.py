"""A reader's search of a session's whole history."""

from __future__ import annotations

from typing import Any

import pytest

from tests.behavior.approving import command
from tests.behavior.harness import Client
from tests.provider import FakeProvider, Gate, Reply, Text

pytestmark = pytest.mark.shared_server


async def test_the_history_of_a_session_is_searched(client: Client, provider: FakeProvider) -> None:
    words = Reply(Text("The café's port is 5432, as configured."), command("marker"))
    provider.script(words, Reply(Text("A zebra."), Gate("held")))
    session_id = (await client.create("Which PORT does the database use?"))["id"]
    await provider.reached("held")

    async def found(query: str, **more: Any) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = (await client.get(f"/v1/sessions/{session_id}/search", q=query, **more))["items"]
        return items

    messages = await client.messages(session_id)
    hits = await found("ports configured")
    assert [(hit["seq"], hit["role"]) for hit in hits[:2]] == [
        (messages[1]["seq"], "assistant"),
        (messages[0]["seq"], "user"),
    ]
    marked = [hits[0]["snippet"][start:end] for start, end in hits[0]["ranges"]]
    assert marked == ["port", "configured"]
    assert hits[0]["message_id"] == messages[1]["id"]
    assert len(await found("ports configured", limit=1)) == 1
    assert (await found("marker"))[0]["call_id"] == messages[1]["parts"][-1]["call_id"]
    # The step that runs is not searched; once it has ended, it is.
    assert await found("zebra") == []
    provider.open("held")
    await client.until_idle(session_id)
    assert [hit["role"] for hit in await found('"a zebra"')] == ["assistant"]
    assert await found("cafe") != [], "diacritics do not matter"

    path = f"/v1/sessions/{session_id}/search"
    bad: list[dict[str, str]] = [{}, {"q": ""}, {"q": "x" * 501}, {"q": "x", "limit": "41"}]
    for params in bad:
        assert (await client.http.get(path, params=params)).status_code == 422
    # Punctuation alone finds nothing, and is no error.
    assert await found("?!*") == []
