"""`recount_probe`: the provider's own count of a new context is stored with the round and used from then on."""

from __future__ import annotations

from structlog.testing import capture_logs

from tests.behavior.combinations import first_of
from tests.behavior.harness import ANTHROPIC, OPENAI, Client, of_type
from tests.behavior.rounds import compact, ended, rounds, settings, worked
from tests.provider import FakeProvider, Gate, RecordedRequest, Reply, Text

PROBED = settings("handoff", recount_probe=True)


def probes(provider: FakeProvider) -> list[RecordedRequest]:
    return [request for request in provider.requests if request.max_output_tokens == 16]


@first_of(model=[OPENAI, ANTHROPIC])
async def test_the_count_of_a_round_on_an_idle_session_is_kept(
    client: Client, provider: FakeProvider, model: str
) -> None:
    session_id = await worked(client, provider, model=model, compaction=PROBED)
    await compact(client, session_id)
    done = await ended(client, session_id, 1)
    (probe,) = probes(provider)
    assert done.data["tokens_after"] == probe.tokens
    assert [(await rounds(client, session_id))[0]["tokens_after"]] == [probe.tokens]
    session = await client.session(session_id)
    assert (session["context"]["tokens"], session["context"]["source"]) == (probe.tokens, "reported")

    events = await client.say(session_id, "next", after=session["last_seq"])
    (started,) = of_type(events, "step.started")[:1]
    assert started.data["context"]["source"] == "reported"
    step = next(r for r in provider.requests[probe.index + 1 :])
    # The counted context is part of the request, so only the new message is an estimate.
    assert abs(started.data["context"]["tokens"] - step.tokens) < 20
    assert "".join(step.user_texts).startswith("".join(probe.user_texts))
    assert step.assistant_texts[: len(probe.assistant_texts)] == probe.assistant_texts


async def test_a_cancel_during_the_count_keeps_the_round(client: Client, provider: FakeProvider) -> None:
    session_id = await worked(client, provider, compaction=PROBED)
    provider.script_when(lambda request: request.max_output_tokens == 16, Reply(Gate("count"), Text("1")))
    await compact(client, session_id)
    await provider.reached("count")
    await client.http.post(f"/v1/sessions/{session_id}/cancel", json={})
    assert (await ended(client, session_id, 1)).type == "compaction.completed"
    assert (await client.session(session_id))["context"]["source"] == "estimated"


async def test_the_log_has_a_line_when_a_round_begins_and_when_it_ends(client: Client, provider: FakeProvider) -> None:
    session_id = await worked(client, provider, compaction=settings())
    empty = (await client.create())["id"]
    with capture_logs() as logs:
        await compact(client, session_id)
        done = await ended(client, session_id, 1)
        await compact(client, empty)
        await ended(client, empty, 1)
    lines = [line for line in logs if line["event"].startswith("compaction_")]
    assert [line["event"] for line in lines] == [
        "compaction_started",
        "compaction_completed",
        "compaction_started",
        "compaction_failed",
    ]
    assert [line["session_id"] for line in lines] == [session_id, session_id, empty, empty]
    assert {(line["reason"], line["policy"]) for line in lines} == {("manual", "reactive")}
    first, second = lines[1], lines[3]
    for name in (
        "round",
        "rung",
        "messages_compacted",
        "outputs_pruned",
        "tokens_before",
        "tokens_after",
        "duration_ms",
    ):
        assert first[name] == done.data[name]
    assert (second["code"], second["next"]) == ("nothing_to_compact", None)
