"""A manual compaction must get below its policy's trigger, not only below the window."""

from __future__ import annotations

from typing import Any

import pytest

from tests.behavior.conftest import StartServer
from tests.behavior.harness import Client, of_type
from tests.behavior.long_task import asks_for_summary
from tests.behavior.packed import packed
from tests.behavior.rounds import MODELS, assert_rounds, compacted, path
from tests.provider import FakeProvider, RecordedRequest, Reply, Text

LONG_SUMMARY = "## Completed Work\n" + "word " * 2_800
"""About 3,500 tokens."""

KNOWN = {name: {"context_window": 32_000} for name in MODELS}
LOW = {"policy": "threshold", "threshold_percent": 0.3, "summary_max_tokens": 4_000}


@pytest.mark.parametrize(
    ("session", "asked"),
    [
        pytest.param(LOW, {}, id="by the session's settings"),
        pytest.param({**LOW, "policy": "reactive"}, {"policy": "threshold"}, id="by its own settings"),
    ],
)
async def test_a_summary_that_leaves_more_than_the_trigger_is_rejected(
    start_server: StartServer, provider: FakeProvider, session: dict[str, Any], asked: dict[str, Any]
) -> None:
    def answer(request: RecordedRequest) -> Reply:
        return Reply(Text(LONG_SUMMARY if asks_for_summary(request) else "Fine."))

    provider.respond(answer)
    async with Client(start_server(models=KNOWN).url) as client:
        made = await client.create(history=packed("the task", 12), compaction=session)
        response = await client.http.post(path(made["id"]), json={"dry_run": True, **asked})
        told = response.json()
        completed = await compacted(client, made["id"], **asked)
        [failed] = of_type(await assert_rounds(client, made["id"]), "compaction.failed")
        assert (failed.data["rung"], failed.data["code"], failed.data["next"]) == (
            "summary",
            "not_small_enough",
            "fold",
        )
        assert completed.data["tokens_after"] < told["trigger"] < told["usable"]
    assert provider.refusals == []


async def test_it_is_accepted_if_the_result_is_below_the_trigger(
    start_server: StartServer, provider: FakeProvider
) -> None:
    provider.respond(lambda _: Reply(Text(LONG_SUMMARY)))
    async with Client(start_server(models=KNOWN).url) as client:
        high = {**LOW, "threshold_percent": 0.8}
        made = await client.create(history=packed("the task", 12), compaction=high)
        completed = await compacted(client, made["id"])
        assert completed.data["rung"] == "summary"
    assert provider.refusals == []
