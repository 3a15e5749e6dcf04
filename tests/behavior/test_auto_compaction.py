"""`auto` and `prune_at_end`: a session compacted only manually, or after its provider's refusal."""

from __future__ import annotations

from typing import Any

from tests.behavior.combinations import first_of
from tests.behavior.conftest import StartServer
from tests.behavior.harness import OPENAI, Client, Event, of_type
from tests.behavior.long_task import works_on
from tests.behavior.packed import packed
from tests.behavior.rounds import compact, ended, settings
from tests.provider import FakeProvider

WINDOW = 8_000
SMALL: dict[str, Any] = {"models": {OPENAI: {"context_window": WINDOW}}}


def compactions(events: list[Event]) -> list[str]:
    return [event.type for event in events if event.type.startswith(("compaction.", "prune."))]


@first_of(policy=["reactive", "threshold", "handoff"])
async def test_without_it_a_full_context_is_sent_as_it_is(
    start_server: StartServer, provider: FakeProvider, policy: str
) -> None:
    provider.respond(works_on)
    async with Client(start_server(**SMALL).url) as client:
        history, off = packed("the task", 9), settings(policy, auto=False)
        session, events = await client.run("go on", history=history, compaction=off)
        assert session["context"]["tokens"] > session["context"]["usable"]
        assert (session["outcome"], compactions(events)) == ("completed", [])
        _, events = await client.run("go on", history=history, compaction=settings(policy))
        assert "compaction.completed" in compactions(events)

        await compact(client, session["id"])
        assert (await ended(client, session["id"], 1)).type == "compaction.completed"


async def test_without_it_a_refusal_by_the_provider_still_compacts(
    start_server: StartServer, provider: FakeProvider
) -> None:
    provider.configure(window=WINDOW)
    provider.respond(works_on)
    async with Client(start_server(**SMALL).url) as client:
        session, events = await client.run(
            "go on", history=packed("the task", 12), compaction=settings("reactive", auto=False)
        )
        assert (session["outcome"], session["error"]) == ("completed", None)
        (completed,) = of_type(events, "compaction.completed")
        assert completed.data["reason"] == "provider_overflow"
