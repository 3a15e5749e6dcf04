"""Compaction from the command line, as processes against a real server with the strict provider."""

from __future__ import annotations

import json
import re

import pytest

from tests.behavior.checks import assert_sound
from tests.behavior.conftest import StartServer
from tests.behavior.harness import OPENAI, Client, RunningServer, shows
from tests.behavior.long_task import SUMMARY, LongTask, asks_for_summary, works_on
from tests.behavior.packed import packed
from tests.behavior.test_cli import Terminal, at_server, terminal
from tests.provider import Answer, FakeProvider, Gate, Hang, HttpError, RecordedRequest, Reply, Text

pytestmark = pytest.mark.shared_server

__all__ = ["at_server", "terminal"]

STEPS = 12


@pytest.fixture
def task(provider: FakeProvider) -> LongTask:
    task = LongTask(STEPS, most=4_000)
    provider.respond(task)
    return task


async def long_session(client: Client) -> str:
    """A session that has worked for some steps and is idle."""
    session, _ = await client.run("Stack boxes in Lisbon.", limits={"max_steps": None})
    assert session["outcome"] == "completed"
    return str(session["id"])


async def test_a_round_is_made_listed_and_reverted(
    at_server: Terminal, client: Client, task: LongTask, provider: FakeProvider
) -> None:
    session = await long_session(client)
    whole = await client.get(f"/v1/sessions/{session}/context")

    dry = await at_server.ok("compact", session, "--dry-run")
    assert dry.out.startswith("A round under reactive would replace ")
    assert " 0 old outputs" not in dry.out
    assert "; the policy compacts automatically at " in dry.out
    assert dry.out.endswith("Nothing was changed.\n")
    other = await at_server.ok("compact", session, "--dry-run", "--policy", "handoff")
    assert "; as the session's policy, instead of reactive, it would compact automatically at " in other.out
    assert (await at_server.ok("sessions", "compactions", session)).out == ""

    made = await at_server.ok("compact", session[:20], "--policy", "handoff", "--instructions", "Keep Lisbon.")
    started, completed = made.out.splitlines()
    assert started.startswith("compacting the context, round 1 (requested manually, policy handoff): ")
    assert completed.startswith("compacted ")
    assert "by a summary, round 1: " in completed
    assert "Keep Lisbon." in provider.requests[-1].last_user_text
    smaller = await client.get(f"/v1/sessions/{session}/context")
    assert smaller["tokens"] < whole["tokens"] / 2

    (line,) = (await at_server.ok("sessions", "compactions", session)).out.splitlines()
    assert line.startswith("  1  completed  handoff    ")
    listed = json.loads((await at_server.ok("sessions", "compactions", session, "--json", "all")).out)
    assert [(item["round"], item["status"]) for item in listed] == [(1, "completed")]
    assert listed[0]["summary"] == SUMMARY.format(step=STEPS + 1)

    assert (await at_server.ok("sessions", "revert", session)).out == f"reverted round 1 of {session}\n"
    assert "(nothing_to_revert)" in (await at_server.run("sessions", "revert", session)).err
    again = await client.get(f"/v1/sessions/{session}/context")
    assert [item["message"]["id"] for item in again["messages"]] == [
        item["message"]["id"] for item in whole["messages"]
    ]
    assert "  1  reverted " in (await at_server.ok("sessions", "compactions", session)).out
    assert provider.refusals == []


async def test_json_is_the_round_or_its_preview(at_server: Terminal, client: Client, task: LongTask) -> None:
    session = await long_session(client)
    dry = json.loads((await at_server.ok("compact", session, "--dry-run", "--json")).out)
    assert dry["tokens_after"] < dry["tokens_before"]
    made = json.loads((await at_server.ok("compact", session, "--json")).out)
    assert (made["status"], made["round"], made["policy"], made["reason"]) == ("completed", 1, "reactive", "manual")
    assert made["tokens_after"] < made["tokens_before"]


@pytest.mark.slow
async def test_a_failing_model_is_skipped_and_reported(
    at_server: Terminal, client: Client, task: LongTask, provider: FakeProvider
) -> None:
    session = await long_session(client)
    provider.respond(lambda request: HttpError(400))
    made = await at_server.ok("compact", session)
    _, failed, completed = made.out.splitlines()
    assert failed.startswith("compaction by a summary failed (")
    assert failed.endswith("; trying notes written without a model")
    assert "by notes written without a model, round 1: " in completed


async def test_a_round_without_a_model_is_shown_and_redone(
    at_server: Terminal, client: Client, task: LongTask, provider: FakeProvider
) -> None:
    session = await long_session(client)
    none = await at_server.run("compact", session, "--redo")
    assert none.status == 1
    assert "There is nothing to redo" in none.err
    assert "without a model" not in (await at_server.ok("sessions", "show", session)).out

    provider.respond(lambda request: Reply(Text(" ")) if asks_for_summary(request) else task(request))
    made = (await at_server.ok("compact", session)).out.splitlines()[-1]
    assert "by notes written without a model, round 1: " in made
    assert made.endswith(f" · to redo it: `palimpsest compact {session} --redo`")
    shown = (await at_server.ok("sessions", "show", session)).out
    assert "\ncompaction round 1 was summarized without a model (summary_empty: " in shown
    assert f"); to redo it: `palimpsest compact {session} --redo`\n" in shown
    listed = (await at_server.ok("sessions", "compactions", session)).out
    assert " · notes written without a model for " in listed

    provider.respond(task)
    both = await at_server.run("compact", session, "--redo", "--dry-run")
    assert "(bad_options)" in both.err
    redone = await at_server.ok("compact", session, "--redo")
    assert "reverted round 1, which was summarized without a model" in redone.err
    assert "by a summary, round 2: " in redone.out
    assert "without a model" not in (await at_server.ok("sessions", "show", session)).out
    statuses = json.loads((await at_server.ok("sessions", "compactions", session, "--json", "status")).out)
    assert [item["status"] for item in statuses] == ["reverted", "completed"]


@pytest.mark.parametrize("away", [HttpError(503), Reply(Hang())], ids=["503", "hanging"])
async def test_a_redo_while_the_provider_is_away_leaves_a_context_that_fits(
    terminal: Terminal, start_server: StartServer, provider: FakeProvider, away: Answer
) -> None:
    """As often as it is tried: no earlier round is reverted, and the last try makes the summary."""
    provider.respond(lambda request: Reply(Text(" ")) if asks_for_summary(request) else works_on(request))
    models = {OPENAI: {"context_window": 16_000}}
    server = start_server(models=models, provider_idle_timeout_s=1, provider_max_attempts=3)
    terminal.env["PALIMPSEST_URL"] = server.url
    async with Client(server.url) as client:
        session, _ = await client.run("go on", history=packed("the task", 10))
        path = f"/v1/sessions/{session['id']}"
        assert session["compaction"]["without_model"]["round"] == 1
        provider.respond(lambda request: away)
        for round in (2, 3):
            redone = await terminal.run("compact", session["id"], "--redo")
            assert redone.status == 1
            assert f"reverted round {round - 1}, which was" in redone.err
            assert redone.err.endswith(f"round {round} was made without a model again\n")
            _, first, second, failed, completed = redone.out.splitlines()
            assert first.startswith(f"↻ summary of round {round}: attempt 1 failed (provider_")
            assert "; retrying in " in second
            assert failed.endswith("; trying notes written without a model")
            assert "by notes written without a model, round " in completed
            left = await client.session(session["id"])
            assert left["context"]["tokens"] <= left["context"]["usable"]
            assert left["compaction"]["without_model"]["round"] == round
        provider.respond(works_on)
        redone = await terminal.ok("compact", session["id"], "--redo")
        assert "by a summary, round 4: " in redone.out
        statuses = [item["status"] for item in (await client.get(f"{path}/compactions"))["items"]]
        assert statuses == ["reverted", "reverted", "reverted", "completed"]
        assert (await client.session(session["id"]))["compaction"]["without_model"] is None
        await assert_sound(client, session["id"])


async def test_a_redo_that_fails_leaves_a_complete_context_if_it_fits(
    terminal: Terminal, start_server: StartServer, provider: FakeProvider
) -> None:
    provider.respond(lambda request: Reply(Text(" ")) if asks_for_summary(request) else works_on(request))
    server = start_server(models={OPENAI: {"context_window": 64_000}}, provider_max_attempts=2)
    terminal.env["PALIMPSEST_URL"] = server.url
    async with Client(server.url) as client:
        session, _ = await client.run("go on", history=packed("the task", 10))
        await terminal.ok("compact", session["id"])
        provider.respond(lambda request: HttpError(503))
        redone = await terminal.run("compact", session["id"], "--redo")
        assert redone.status == 1
        assert redone.out.endswith("; the context is unchanged\n")
        assert redone.err.endswith(
            "the context is complete again and will be summarized when that is due;"
            f" `palimpsest compact {session['id']}` tries now\n"
        )
        provider.respond(works_on)
        assert "by a summary, round 3: " in (await terminal.ok("compact", session["id"])).out


async def test_a_failed_round_has_an_exit_status(at_server: Terminal, client: Client) -> None:
    session = (await client.create())["id"]
    made = await at_server.run("compact", session)
    assert made.status == 1
    assert "\nround 1 changed nothing (nothing_to_compact): Nothing is old enough to compact" in made.out
    assert made.out.endswith("; the context is unchanged\n")
    assert made.err == ""
    listed = (await at_server.ok("sessions", "compactions", session)).out
    assert "  requested manually · Nothing is old enough to compact" in listed
    assert listed.endswith(" (nothing_to_compact)\n")


@pytest.mark.extended
async def test_a_cancelled_round_is_reported_to_the_waiting_command(
    at_server: Terminal, client: Client, task: LongTask, provider: FakeProvider
) -> None:
    session = await long_session(client)
    provider.respond(lambda request: Reply(Text("half"), Gate("never"), Text("whole")))
    waiting = await at_server.start("compact", session)
    await waiting.says("compacting the context")
    second = await at_server.run("compact", session)
    assert second.status == 1
    assert "(compaction_in_progress)" in second.err
    assert (await at_server.ok("sessions", "cancel", session)).out == f"cancelled the compaction of {session}\n"
    assert await waiting.end() == 1
    assert waiting.err == ""
    assert waiting.out.splitlines()[-1].startswith("round 1 was cancelled; the context is unchanged")


@pytest.mark.extended
async def test_ctrl_c_stops_the_wait_but_not_the_round(
    at_server: Terminal, client: Client, task: LongTask, provider: FakeProvider
) -> None:
    session = await long_session(client)
    provider.respond(lambda request: Reply(Gate("go"), Text("## Completed Work\nBoxes are stacked.")))
    waiting = await at_server.start("compact", session)
    await waiting.says("compacting the context")
    waiting.press_ctrl_c()
    assert await waiting.end() == 130
    continues = f"round 1 continues on the server; `palimpsest sessions cancel {session}` cancels it\n"
    assert waiting.err.endswith(continues)
    busy = await at_server.run("compact", session, "--redo")
    assert (busy.status, "(compaction_in_progress)" in busy.err) == (1, True)
    provider.open("go")
    await client.wait_for(session, shows("compaction.completed"))
    assert "completed" in (await at_server.ok("sessions", "compactions", session)).out


@pytest.mark.extended
async def test_a_running_session_is_compacted_between_two_steps(
    at_server: Terminal, client: Client, provider: FakeProvider
) -> None:
    task = LongTask(20, most=4_000)

    def answer(request: RecordedRequest) -> Reply:
        reply = task(request)
        if task.made == 12 and not asks_for_summary(request):
            return Reply(Gate("step"), *reply.parts)
        return reply

    provider.respond(answer)
    session = (await client.create("Stack boxes.", limits={"max_steps": None}))["id"]
    await client.wait_for(session, lambda event: event.type == "step.started" and event.data["step"] == 12)
    waiting = await at_server.start("compact", session)
    await waiting.says("compacting the context")
    provider.open("step")
    assert await waiting.end() == 0
    assert waiting.out.splitlines()[-1].startswith("compacted ")
    await client.until_idle(session)
    assert (await client.session(session))["outcome"] == "completed"
    assert provider.refusals == []


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("compact", "01234567-0000-7000-8000-000000000000"), "(session_not_found)"),
        (("compact", "abc"), "(short_id)"),
        (("sessions", "compactions", "01234567-0000-7000-8000-000000000000"), "(session_not_found)"),
    ],
)
async def test_missing_things_are_reported(at_server: Terminal, args: tuple[str, ...], says: str) -> None:
    done = await at_server.run(*args)
    assert done.status == 1
    assert says in done.err


@pytest.mark.slow
async def test_only_the_latest_round_can_be_reverted(at_server: Terminal, client: Client, task: LongTask) -> None:
    session = await long_session(client)
    assert "(round_not_found)" in (await at_server.run("sessions", "revert", session, "1")).err
    await at_server.ok("compact", session)
    await client.say(session, "More boxes.")
    await at_server.ok("compact", session, "--policy", "handoff")
    refused = await at_server.run("sessions", "revert", session, "1")
    assert refused.status == 1
    assert "(not_the_latest_round)" in refused.err
    await at_server.ok("sessions", "revert", session, "2")
    await at_server.ok("sessions", "revert", session, "1")


@pytest.mark.extended
async def test_a_run_in_a_small_window_reports_its_rounds(
    terminal: Terminal, start_server: StartServer, provider: FakeProvider
) -> None:
    provider.configure(window=8_000)
    server: RunningServer = start_server(models={OPENAI: {"context_window": 8_000}}, max_steps=None)
    provider.respond(LongTask(30))
    terminal.env["PALIMPSEST_URL"] = server.url
    ran = await terminal.ok("run", "Stack boxes.")
    assert re.search(r"^(compacting the context|preparing a summary in the background), round 1 \(", ran.out, re.M)
    assert ", round 1: " in ran.out
    assert "by a summary, round 1: " in ran.out
    assert "\nAll done.\n" in ran.out
    assert provider.refusals == []
