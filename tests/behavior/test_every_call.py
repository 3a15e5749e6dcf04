"""Sessions with each kind of call: of the client, of an MCP server, of a sub-agent and of a background command."""

from __future__ import annotations

from typing import Any

from tests.behavior.checks import assert_sound, following, requests_of
from tests.behavior.conftest import StartServer
from tests.behavior.harness import ANTHROPIC, OPENAI, Client, command, of_type
from tests.behavior.long_task import SUMMARY, asks_for_summary
from tests.behavior.rounds import assert_rounds, compacted, revert
from tests.behavior.test_approvals import statuses
from tests.behavior.test_background_commands import background, commands, of_command
from tests.behavior.test_client_tools import answer, pending, ticket, tool, waiting
from tests.behavior.test_fork import assert_shows_itself, fork
from tests.behavior.test_history_import import export
from tests.behavior.test_mcp import LOOPBACK
from tests.behavior.test_start import numbers
from tests.behavior.test_subagents import children_of, delegate
from tests.mcp_servers import McpServer, mcp_server
from tests.provider import FakeProvider, Gate, Reply, Text, ToolCall

TOOLS = ["execute_command", "command_output", "stop_command", "delegate", tool()]
NAMES = {"execute_command", "mcp__test__add", "open_ticket", "delegate", "stop_command"}


async def with_each(client: Client, provider: FakeProvider, tools: McpServer) -> dict[str, Any]:
    """A session that has made one call of each kind, and is idle."""
    provider.script_for("look it up", Reply(Gate("child"), Text("It is in the shop.")))
    provider.script_when(asks_for_summary, Reply(Text(SUMMARY)), Reply(Text(SUMMARY)))
    provider.script(
        Reply(background("seq 1 3000; sleep 600")),
        Reply(ToolCall("mcp__test__add", {"a": 2, "b": 40}), command("seq 1 3000"), ticket(), delegate("look it up")),
        of_command("stop_command"),
        Reply(Text("All done. " * 200)),
    )
    servers = {"test": {"url": tools.url, "tools": ["add"]}}
    session_id = (await client.create("one of each", tools=TOOLS, mcp_servers=servers))["id"]
    async with following(client, session_id) as follower:
        await waiting(follower)
        await provider.reached("child")
        found = await numbers(client)
        gauges = [found[f"palimpsest_{name}"] for name in ("background_commands", "mcp_servers", "running_subagents")]
        assert gauges == [1, 2, 1], "the sub-agent is connected too"
        (call,) = await pending(client, session_id)
        assert (await answer(client, session_id, call["call_id"], output="Ticket 17")).status_code == 204
        provider.open("child")
        await follower.type("session.idle")
    found = await numbers(client)
    for label in ("mcp", "client", "delegate", "stop_command"):
        assert found[f'palimpsest_tool_calls_total{{status="completed",tool="{label}"}}'] == 1
    return await client.session(session_id)


async def assert_goes_on(client: Client, provider: FakeProvider, session_id: str, *replies: Any) -> None:
    """The strict provider accepts what the session sends next."""
    provider.script(*replies, Reply(Text("Further.")))
    last_seq = (await client.session(session_id))["last_seq"]
    await client.say(session_id, "Go on.", after=last_seq)
    assert (await client.session(session_id))["outcome"] == "completed"
    await assert_sound(client, session_id)


async def test_a_history_with_each_kind_of_call_is_compacted_forked_exported_and_imported(
    start_server: StartServer, provider: FakeProvider
) -> None:
    server = start_server(mcp_networks=LOOPBACK)
    with mcp_server() as tools:
        async with Client(server.url) as client:
            session = await with_each(client, provider, tools)
            session_id = session["id"]
            events = await assert_sound(client, session_id)
            assert statuses(events) == ["completed"] * 6
            assert {event.data["name"] for event in of_type(events, "tool.result")} == NAMES
            (child,) = await children_of(client, session_id)
            messages = await client.messages(session_id)

            # In the middle, with a command that does not run there.
            (begun,) = [each for each in messages if each["role"] == "tool"][:1]
            middle = await fork(client, session_id, after_message_id=begun["id"])
            await assert_goes_on(client, provider, middle["id"], of_command("command_output"))
            (looked,) = of_type(await assert_sound(client, middle["id"]), "tool.result")
            assert looked.data["status"] == "error"
            assert await commands(client, middle["id"]) == []

            for form, model in (("openai", ANTHROPIC), ("anthropic", OPENAI)):
                exported = await export(client, session_id, form)
                history = {"format": form, "messages": exported}
                imported = await client.create(model=model, history=history)
                assert await export(client, imported["id"], form) == exported
                await assert_goes_on(client, provider, imported["id"])

            await compacted(client, session_id)
            await assert_rounds(client, session_id)
            assert await export(client, session_id, "anthropic") == exported, "an export has everything"
            whole = await fork(client, session_id)
            await assert_shows_itself(client, whole["id"])
            assert await children_of(client, whole["id"]) == []
            await assert_goes_on(client, provider, whole["id"])
            await assert_goes_on(client, provider, session_id)
            await revert(client, session_id, 1)
            await assert_goes_on(client, provider, session_id)
            await assert_sound(client, child["id"])
    assert tools.calls == [(2, 40)]
    assert len(requests_of(provider, "look it up")) == 1
    assert (provider.refusals, provider.script_errors) == ([], [])
