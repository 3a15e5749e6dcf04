"""What MCP servers say is made fit for a model, and their connections end as they should."""

from __future__ import annotations

import asyncio
import base64
import ipaddress
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import mcp_types as types
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import ToolError
from app.runtime.destinations import Destinations
from app.runtime.mcp.bounds import BURST_BYTES, MAX_MESSAGE_BYTES, MAX_VALUES, VALUE_BYTES, Received, ServerError
from app.runtime.mcp.catalog import Catalog, Listed, counted, make_catalog
from app.runtime.mcp.config import ServerConfig, merged
from app.runtime.mcp.connection import LIST_S, Connection, UnansweredError
from app.runtime.mcp.host import McpHost
from app.runtime.mcp.http import http_streams, tls_context
from app.runtime.mcp.malformed import take_out
from app.runtime.mcp.offer import found, make_offer
from app.runtime.mcp.results import read_result
from app.runtime.mcp.servers import SessionServers
from app.runtime.values.mcp import McpServer
from app.sandbox.base import Sandbox
from app.sessions import Approval, ApprovalRules
from app.tools.base import ToolOutcome
from app.tools.masking import Masking
from tests.behavior.pictures import GIF, png
from tests.mcp_servers import handshake, mcp_server, raw_server, result

ANYWHERE = Destinations((ipaddress.ip_network("127.0.0.0/8"),))
HOST = McpHost(public=ANYWHERE, anywhere=ANYWHERE, call_s=5)
OBJECT = {"type": "object"}


def config(**fields: Any) -> ServerConfig:
    return ServerConfig("test", McpServer.model_validate({"url": "https://x.example", **fields}), True)


def catalog(*listed: Listed, secret: str = "", **fields: Any) -> Catalog:
    mask = Masking({"TOKEN": secret} if secret else {}).text
    return make_catalog(config(**fields), "2025-11-25", listed, mask)


@given(st.lists(st.text(max_size=140), max_size=12))
def test_names_are_what_every_provider_accepts_and_differ(names: list[str]) -> None:
    made = catalog(*(Listed(name, "", OBJECT) for name in names))
    shown = [tool.name for tool in made.tools]
    assert len(set(shown)) == len(shown)
    assert all(name.startswith("mcp__test__") and len(name) <= 64 and name.isascii() for name in shown)
    assert {tool.tool for tool in made.tools} | set(made.left_out) >= {
        name for name in names if name.isprintable() and name
    }


def test_a_name_that_had_to_change_never_takes_the_place_of_another() -> None:
    made = catalog(Listed("a.b", "", OBJECT), Listed("a_b", "", OBJECT))
    by_tool = {tool.tool: tool.name for tool in made.tools}
    assert by_tool["a_b"] == "mcp__test__a_b"
    assert by_tool["a.b"].startswith("mcp__test__a_b_")


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string"},
        {"type": "object", "properties": {"a b": {}}},
        {"type": "object", "properties": {"a": {"$ref": "https://x.example/s"}}},
        {"type": "object", "properties": {"a": {"type": "nothing"}}},
        {"type": "object", "prefixItems": 5, "$schema": "http://json-schema.org/draft-07/schema#"},
        {"type": "object", "description": "x" * 40_000},
    ],
)
def test_a_schema_that_a_provider_would_refuse_is_left_out(schema: dict[str, Any]) -> None:
    made = catalog(Listed("bad", "", schema), Listed("good", "", OBJECT))
    assert [tool.tool for tool in made.tools] == ["good"]
    assert list(made.left_out) == ["bad"]
    assert Catalog.load("test", "2025-11-25", made.stored()) == made


def test_what_a_model_sees_is_bounded_masked_and_the_same_for_all_providers() -> None:
    schema = {"type": "object", "title": "T", "anyOf": [{"required": ["a"]}], "properties": {"a": {"type": "array"}}}
    (tool,) = catalog(Listed("t", "the key is s3cr3t-t0ken " + "x" * 5_000, schema), secret="s3cr3t-t0ken").tools
    assert tool.description.startswith("the key is [secret TOKEN] xxx")
    assert len(tool.description) == 1_024
    assert tool.schema == {"type": "object", "properties": {"a": {"type": "array", "items": {}}}}
    assert tool.check is not None
    assert tool.check["anyOf"] == [{"required": ["a"]}]
    assert catalog(Listed("a-s3cr3t-t0ken", "", OBJECT), secret="s3cr3t-t0ken").tools == ()


def test_definitions_beyond_a_tenth_of_the_window_are_found_by_a_search() -> None:
    listed = [Listed(f"tool_{number}", f"Does {'much ' * 20}{number}", OBJECT) for number in range(50)]
    uses = Counter({"mcp__test__tool_49": 3})
    server = config(approval={"tools": ["tool_7"]})
    made = make_catalog(server, "1", listed, lambda text: text, uses)
    all_of_them = make_offer([made], {"test": server}, 1_000_000)
    assert (len(all_of_them.whole), all_of_them.hidden) == (50, ())
    few = make_offer([made], {"test": server}, 8_000)
    assert len(few.whole) + len(few.hidden) == 50
    assert "mcp__test__tool_49" in {tool.name for tool in few.whole}
    assert few.schemas[-1].name == "mcp_search"
    assert few.held == ("mcp__test__tool_7",)
    assert few.approval(Approval()).policy == ApprovalRules(tools=("mcp__test__tool_7",))
    assert few.approval(Approval(policy="always")).policy == "always"
    hidden = few.hidden[-1].name.removeprefix("mcp__test__")
    assert found(hidden, few.hidden)[0].tool == hidden
    assert make_offer([made], {}, 8_000).whole == ()
    calls: list[tuple[str, dict[str, Any] | str]] = [("mcp_search", {"tool": "mcp__a__b"}), ("mcp__a__b", "")]
    assert counted(calls) == {"mcp__a__b": 2}


def test_malformed_tools_are_taken_out_of_a_list_and_named() -> None:
    fine = {"name": "fine", "inputSchema": {"type": "object"}}
    hidden = {"type": "object", "properties": {"a": {"type": "string", "x-mcp-header": ""}}}
    tools = [fine, {"name": "bare"}, 7, {"name": "header", "inputSchema": hidden}]
    result = {"tools": list(tools), "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
    named = dict(take_out(result, "2026-07-28"))
    assert result["tools"] == [fine]
    assert list(named) == ["bare", "tool 3", "header"]
    assert named["bare"] == "it is malformed: inputSchema: Field required"
    assert all(why.startswith("it is malformed: ") for why in named.values())
    # In the older protocol the annotation has no meaning.
    assert [name for name, _ in take_out({"tools": list(tools)}, "2025-11-25")] == ["bare", "tool 3"]
    many: dict[str, Any] = {"tools": [7] * 2_000}
    assert take_out(many, "2025-11-25") == []
    assert len(many["tools"]) == 2_000


def picture(data: bytes | str, kind: str = "image/png") -> types.ImageContent:
    text = data if isinstance(data, str) else base64.b64encode(data).decode()
    return types.ImageContent(type="image", data=text, mime_type=kind)


@pytest.mark.parametrize(
    ("block", "why"),
    [
        (picture("no base64!"), "not valid base64"),
        (picture("é"), "not valid base64"),
        (picture(b"<svg/>", "image/svg+xml"), "not a PNG, JPEG, GIF or WebP"),
        (picture(b""), "not a PNG"),
        (picture(png(padding=5 * 1024 * 1024)), "more than 5,242,880"),
        (picture("A" * 100_000_000), "more than 5,242,880"),
    ],
)
def test_an_image_that_cannot_be_shown_is_a_text_that_says_why(block: types.ImageContent, why: str) -> None:
    text, outcome = read_result(types.CallToolResult(content=[block]))
    assert outcome.images == ()
    assert why in text
    assert len(text) < 200


def test_images_are_shown_as_what_they_are_and_not_too_many() -> None:
    blob = types.BlobResourceContents(uri="file:///a.gif", mime_type="image/gif", blob=picture(GIF).data)
    embedded = types.EmbeddedResource(type="resource", resource=blob)
    text, outcome = read_result(types.CallToolResult(content=[picture(png(3, 2), "image/jpeg"), embedded]))
    assert text == "[image, image/png, 3×2 pixels, 69 bytes]\n[resource file:///a.gif, image/gif, 7×9 pixels, 14 bytes]"
    assert [(each.media_type, each.data) for each in outcome.images] == [("image/png", png(3, 2)), ("image/gif", GIF)]
    seen = picture(png())
    repeated = {"content": [{"type": "image", "data": seen.data}]}
    text, _ = read_result(types.CallToolResult(content=[seen], structured_content=repeated))
    assert text.splitlines()[1] == '{"content":[{"type":"image","data":"[the image above]"}]}'
    text, outcome = read_result(types.CallToolResult(content=[picture(png())] * 22))
    assert len(outcome.images) == 20
    assert text.count("not shown, as it comes after 20 others") == 2


def test_a_patch_adds_replaces_and_leaves_out_servers() -> None:
    server = McpServer(command="sh")
    own = {"a": {"command": "x"}, "b": {"command": "y"}}
    asked = {"a": server, "b": None, "default": None}
    assert merged(own, asked, {"default": server}) == {"a": {"command": "sh"}, "default": None}
    assert merged(own, None, {}) is None


def test_a_flood_of_short_lines_counts_more_than_its_bytes() -> None:
    received = Received()
    received.take(b"x" * 32 * 2**20, lines=True)
    with pytest.raises(ServerError, match="too much"):
        received.take(b"{}\n" * 20_000, lines=True)
    with pytest.raises(ServerError, match="too much"):
        received.check_size(MAX_MESSAGE_BYTES + 1)


class Reports:
    """Notes what is reported."""

    def __init__(self) -> None:
        self.made: list[Catalog] = []
        self.errors: list[tuple[str, str]] = []

    async def uses(self) -> Counter[str]:
        return Counter()

    async def ready(self, catalog: Catalog) -> None:
        self.made.append(catalog)

    async def failed(self, server: str, error: ServerError) -> None:
        self.errors.append((server, error.code))


class Session:
    """A session without a sandbox."""

    masking = Masking({})

    async def sandbox(self) -> Sandbox:
        raise ToolError("There is no sandbox.")

    @asynccontextmanager
    async def using_workspace(self) -> AsyncIterator[None]:
        yield


def row(**servers: Any) -> Any:
    return SimpleNamespace(mcp_servers=servers, run_traceparent=None)


async def test_servers_come_are_called_and_go() -> None:
    reports = Reports()
    servers = SessionServers(HOST, Session(), reports)
    try:
        with mcp_server() as real:
            wanted = row(real={"url": real.url}, away={"url": "http://127.0.0.1:1/"}, shell={"command": "sh"})
            await servers.prepare(wanted)
            assert sorted(reports.errors) == [("away", "unreachable"), ("shell", "tool_error")]
            (made,) = servers.catalogs
            assert [catalog.server for catalog in reports.made] == ["real"]
            add = next(tool for tool in made.tools if tool.tool == "add")
            assert await servers.call("real", add, {"a": 1, "b": 2}, lambda *_: None) == ("3", ToolOutcome())
            with pytest.raises(ToolError, match="no longer has the MCP server other"):
                await servers.call("other", add, {}, lambda *_: None)
            waiting = next(tool for tool in made.tools if tool.tool == "wait")
            call = asyncio.create_task(servers.call("real", waiting, {}, lambda *_: None))
            await asyncio.to_thread(real.waiting.acquire, timeout=60)
        with pytest.raises(ToolError, match="may still have been carried out"):
            await call
        with pytest.raises(ToolError, match="cannot be reached now"):
            await servers.call("real", add, {"a": 1, "b": 2}, lambda *_: None)
        await servers.prepare(wanted)
        assert servers.catalogs == ()
        assert ("real", "unreachable") in reports.errors
    finally:
        await servers.aclose()


async def until_ended(connection: Connection) -> None:
    async with asyncio.timeout(60):
        # It is closed a moment before it says why.
        while connection.is_open or connection.failure is None:  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(0.01)


async def open_at(url: str, connection: Connection) -> None:
    context = await tls_context()
    await connection.open(lambda received, _: http_streams(url, {}, ANYWHERE, context, received))


async def connected(url: str) -> Connection:
    connection = Connection(remote=True)
    await open_at(url, connection)
    return connection


async def test_an_opening_that_is_canceled_during_the_tls_handshake_closes_its_connection() -> None:
    greeted, closed = asyncio.Event(), asyncio.Event()

    async def says_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        greeted.set()
        await reader.read()
        closed.set()
        writer.close()

    async with await asyncio.start_server(says_nothing, "127.0.0.1", 0) as server, asyncio.timeout(60):
        url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
        connection = Connection(remote=True)
        opening = asyncio.create_task(open_at(url, connection))
        await greeted.wait()
        opening.cancel()
        await asyncio.wait({opening})
        await connection.aclose()
        await closed.wait()


async def test_a_server_that_goes_away_is_noticed_without_a_call() -> None:
    with mcp_server() as real:
        connection = await connected(real.url)
        assert len(await connection.list_tools()) == 5
    await until_ended(connection)
    assert connection.failure is not None
    await connection.aclose()


async def test_a_server_that_has_forgotten_the_connection_is_noticed_by_a_ping() -> None:
    forgotten = threading.Event()

    def answer(asked: dict[str, Any]) -> Any:
        return (400, "text/plain", iter([b"no session"])) if forgotten.is_set() else handshake(asked)

    with raw_server(answer) as url:
        connection = await connected(url)
        forgotten.set()
        connection.received.doubt.set()
        await until_ended(connection)
        assert connection.failure is not None
        assert connection.failure.detail == "The server no longer accepts the connection (status 400)."
        await connection.aclose()


@pytest.mark.parametrize("protocol", ["2025-06-18", "2026-07-28"])
async def test_messages_of_very_many_values_end_the_connection_at_once(protocol: str) -> None:
    """The package would check each in the event loop, which takes seconds."""
    many: list[Any] = [{}] * 200_000

    def answer(asked: dict[str, Any]) -> Any:
        match asked["method"]:
            case "tools/call":
                # What is structured is only passed on.
                shown = {"content": [], "structuredContent": {"rows": many}}
                found = shown if asked["params"]["name"] == "rows" else {"content": many}
                return result(asked, {**found, "resultType": "complete"})
            case "server/discover" if protocol == "2026-07-28":
                about = {"supportedVersions": [protocol], "capabilities": {"tools": {}}, "resultType": "complete"}
                return result(asked, {**about, "ttlMs": 0, "cacheScope": "private"})
            case "tools/list":
                return result(asked, {"tools": many, "resultType": "complete", "ttlMs": 0, "cacheScope": "private"})
        return handshake(asked)

    with raw_server(answer) as url:
        for asks in ("tools/call", "tools/list"):
            connection = await connected(url)
            assert connection.protocol == protocol
            rows = await connection.call("rows", {}, 5, lambda *_: None)
            assert isinstance(rows, types.CallToolResult)
            assert rows.structured_content == {"rows": many}
            began = time.thread_time()
            with pytest.raises((ServerError, UnansweredError), match="more than 20,000 values"):
                await (
                    connection.list_tools() if asks == "tools/list" else connection.call("x", {}, 5, lambda *_: None)
                )
            assert time.thread_time() - began < 1
            await until_ended(connection)
            assert connection.failure is not None
            assert connection.failure.code == "too_large"
            await connection.aclose()


def test_values_count_against_a_message_and_a_connection() -> None:
    with pytest.raises(ServerError, match="more than"):
        Received().check_values({"content": [0] * MAX_VALUES})
    received = Received()
    for _ in range(10):
        received.check_values([0] * MAX_VALUES)
    received.take(b"x" * (BURST_BYTES - 11 * VALUE_BYTES * MAX_VALUES), lines=False)
    received.check_values([0] * (MAX_VALUES - 10_000))
    with pytest.raises(ServerError, match="too much"):
        received.check_values([0] * MAX_VALUES)


async def test_a_connection_that_hangs_is_closed_in_time() -> None:
    servers = SessionServers(HOST, Session(), Reports())
    with raw_server(lambda asked: handshake(asked) if asked["method"] == "server/discover" else None) as url:
        preparing = asyncio.create_task(servers.prepare(row(slow={"url": url})))
        done, _ = await asyncio.wait({preparing}, timeout=0.5)
        assert not done
        preparing.cancel()
        await asyncio.wait({preparing})
        # Less than the list of its tools may take.
        async with asyncio.timeout(LIST_S - 5):
            await servers.aclose()
