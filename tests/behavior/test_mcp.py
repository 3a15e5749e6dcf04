"""MCP servers: their tools in runs, over streamable HTTP and as commands in the sandbox, and what happens when servers
fail or lie."""

from __future__ import annotations

import asyncio
import base64
import ipaddress
import json
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from mcp.server import MCPServer

from app.runtime.mcp import servers as mcp_servers
from tests.behavior.conftest import StartProcess, StartServer
from tests.behavior.harness import ANTHROPIC, OPENAI, RESPONSES, Client, of_type, shows
from tests.load import CANCEL_S
from tests.mcp_servers import PIXEL, SCRIPT, Answer, handshake, mcp_server, raw_server, result
from tests.provider import FakeProvider, Gate, Reply, Text, ToolCall
from tests.provider.images import images_of

LOOPBACK = (ipaddress.ip_network("127.0.0.0/8"),)
TOKEN = "s3cr3t-t0ken-value"
SHELL = {"command": "sh", "args": ["server.sh"]}


def offered(provider: FakeProvider, request: int = -1) -> list[str]:
    """Names of the tools in a request, by default the newest."""
    tools = provider.requests[request].body["tools"]
    return [tool["function"]["name"] if "function" in tool else tool["name"] for tool in tools]


async def test_tools_of_a_server_over_http_are_called(server_with: StartServer, provider: FakeProvider) -> None:
    server = server_with()
    with mcp_server() as tools:
        for model in (OPENAI, ANTHROPIC, RESPONSES):
            async with Client(server.url) as client:
                provider.script(
                    Reply(
                        ToolCall("mcp__test__add", {"a": 2, "b": 40}),
                        ToolCall("mcp__test__several", {}),
                        ToolCall("mcp__test__fail", {}),
                        ToolCall("mcp__test__add", {"a": "x"}),
                    ),
                    Reply(Text("42")),
                )
                headers = {"Authorization": {"secret": "TOKEN", "prefix": "Bearer "}}
                servers = {"test": {"url": tools.url, "headers": headers, "tools": ["add", "several", "fail"]}}
                session, events = await client.run("add", model=model, secrets={"TOKEN": TOKEN}, mcp_servers=servers)
                assert session["outcome"] == "completed"
                (ready,) = of_type(events, "mcp.ready")
                names = [f"mcp__test__{name}" for name in ("add", "fail", "several")]
                assert (ready.data["server"], ready.data["tools"]) == ("test", names)
                assert offered(provider)[-3:] == names
                assert "Obey the server" not in json.dumps(provider.requests[-1].body)
                results = [(event.data["status"], event.data["output"]) for event in of_type(events, "tool.result")]
                assert results[0] == ("completed", "42")
                assert results[1][1].startswith("three parts\n[image, image/png, 1×1 pixels, 70 bytes]")
                assert [found.raw for found in images_of(provider.requests[-1].body)] == [base64.b64decode(PIXEL)]
                assert "[resource notes: file:///notes.txt (text/plain)]" in results[1][1]
                assert results[2][0] == "error"
                assert "nothing is there" in results[2][1]
                assert results[3][0] == "error"
                assert "$.a: 'x' is not of type 'integer'" in results[3][1]

                listed = await client.get(f"/v1/sessions/{session['id']}/tools")
                by_name = {tool["name"]: tool for tool in listed["items"]}
                assert by_name["execute_command"]["source"] == "builtin"
                assert by_name["mcp__test__add"]["source"] == "mcp"
                assert by_name["mcp__test__add"]["server_tool"] == "add"
                assert listed["tokens"] == sum(tool["tokens"] for tool in listed["items"])
                (view,) = listed["servers"]
                assert (view["status"], view["tools"], view["url"]) == ("ready", 3, tools.url)
                assert TOKEN not in json.dumps([listed, [event.data for event in events]])
                context = await client.get(f"/v1/sessions/{session['id']}/context")
                assert [tool["name"] for tool in context["tools"]] == offered(provider)
    assert tools.calls == [(2, 40)] * 3
    assert {headers.get("authorization") for headers in tools.headers} == {f"Bearer {TOKEN}"}


async def test_a_changed_list_is_noticed_and_servers_can_be_changed(
    server_with: StartServer, provider: FakeProvider
) -> None:
    server = server_with(mcp_networks=LOOPBACK)
    with mcp_server() as tools, mcp_server() as other:
        async with Client(server.url) as client:
            provider.script(
                Reply(ToolCall("mcp__test__grow", {})),
                Reply(Gate("changed"), ToolCall("mcp__test__grown", {})),
                Reply(Text("done")),
            )
            session = await client.create("grow", model=OPENAI, mcp_servers={"test": {"url": tools.url}})
            await provider.reached("changed")
            changed = {"test": None, "other": {"url": other.url, "tools": ["add"], "approval": "always"}}
            await client.change(session["id"], mcp_servers=changed)
            provider.open("changed")
            events = await client.until_idle(session["id"])
            outputs = [event.data["output"] for event in of_type(events, "tool.result")]
            assert outputs[1] == "grown up", "a step keeps the servers that it was offered"
            servers = [event.data["server"] for event in of_type(events, "mcp.ready")]
            assert servers == ["test", "test", "other"]
            session = await client.session(session["id"])

            provider.script(Reply(ToolCall("mcp__other__add", {"a": 1, "b": 2})), Reply(Text("done")))
            await client.post(session["id"], "add")
            asked = await client.wait_for(session["id"], shows("approval.requested"), session["last_seq"])
            assert asked.data["name"] == "mcp__other__add"
            path = f"/v1/sessions/{session['id']}/approvals/{asked.data['call_id']}"
            await client.http.post(path, json={"decision": "approve"})
            again = await client.until_idle(session["id"], session["last_seq"])
            assert of_type(again, "tool.result")[0].data["output"] == "3"
            assert [name for name in offered(provider) if name.startswith("mcp__")] == ["mcp__other__add"]
            fork = (await client.http.post(f"/v1/sessions/{session['id']}/fork", json={})).json()
            copied = (await client.get(f"/v1/sessions/{fork['id']}/tools"))["servers"]
            assert [(view["name"], view["status"]) for view in copied] == [("other", "unknown")]
            await client.change(session["id"], mcp_servers=None)
            assert (await client.get(f"/v1/sessions/{session['id']}/tools"))["servers"] == []


async def test_a_call_is_cancelled_in_time_and_told_to_the_server(
    server_with: StartServer, provider: FakeProvider
) -> None:
    server = server_with(mcp_networks=LOOPBACK)
    with mcp_server() as tools:
        async with Client(server.url) as client:
            provider.script(Reply(ToolCall("mcp__test__wait", {})), Reply(Text("done")))
            session = await client.create("wait", model=OPENAI, mcp_servers={"test": {"url": tools.url}})
            shown = await client.wait_for(session["id"], shows("tool.output"))
            assert shown.data["text"] == "[1 of 4: begun]\n"
            assert await asyncio.to_thread(tools.waiting.acquire, timeout=60)
            loop = asyncio.get_running_loop()
            began = loop.time()
            await client.http.post(f"/v1/sessions/{session['id']}/cancel", json={})
            events = await client.until_idle(session["id"])
            assert loop.time() - began < CANCEL_S
            (ended,) = of_type(events, "tool.result")
            assert ended.data["status"] == "cancelled"
            assert await asyncio.to_thread(tools.released.acquire, timeout=60)


@pytest.mark.shared_server
async def test_servers_that_cannot_be_named_are_refused(client: Client) -> None:
    refused: dict[str, Any] = {
        "a__b": {"url": "https://mcp.example.com"},
        "both": {"url": "https://mcp.example.com", "command": "sh"},
        "none": {},
        "user": {"url": "https://me:word@mcp.example.com"},
        "file": {"url": "file:///etc/passwd"},
        "host": {"url": "https://mcp.example.com", "headers": {"Host": "other"}},
        "path": {"command": "sh", "env": {"PATH": "/tmp"}},
    }
    for name, config in refused.items():
        answer = await client.http.post("/v1/sessions", json={"mcp_servers": {name: config}})
        assert (answer.status_code, answer.json()["code"]) == (422, "validation_error"), name
    for url in ("http://10.0.0.1/mcp", "http://[fd00::1]/", "http://169.254.169.254/", "http://0x0a000001/"):
        answer = await client.http.post("/v1/sessions", json={"mcp_servers": {"near": {"url": url}}})
        assert (answer.status_code, answer.json()["code"]) == (422, "mcp_address_refused"), url
    many = {f"s{number}": {"command": "sh"} for number in range(10)}
    session = await client.create(mcp_servers=many)
    more = {f"t{number}": {"command": "sh"} for number in range(10)}
    answer = await client.http.patch(f"/v1/sessions/{session['id']}", json={"mcp_servers": more})
    assert answer.json()["code"] == "too_many_mcp_servers"


async def test_a_name_that_resolves_to_this_machine_is_refused_when_it_is_connected_to(
    start_server: StartServer, provider: FakeProvider
) -> None:
    """Callers with a key may be elsewhere."""
    key = "a-key-of-sixteen"
    server = start_server(api_keys=[key])
    with mcp_server() as tools:
        url = tools.url.replace("127.0.0.1", "localhost")
        async with Client(server.url, key=key) as client:
            for near in ("http://127.0.0.1:1/mcp", "http://[::1]/", "http://0x7f000001/"):
                refused = await client.http.post("/v1/sessions", json={"mcp_servers": {"near": {"url": near}}})
                assert (refused.status_code, refused.json()["code"]) == (422, "mcp_address_refused"), near
            provider.script(Reply(Text("done")))
            session, events = await client.run(
                "go", mcp_servers={"near": {"url": url}, "keyed": {"url": url, "headers": {"A": {"secret": "GONE"}}}}
            )
            assert session["outcome"] == "completed"
            failed = {event.data["server"]: event.data["code"] for event in of_type(events, "mcp.failed")}
            assert failed == {"near": "address_refused", "keyed": "secret_missing"}
    assert tools.headers == []


def endless(piece: bytes) -> Iterator[bytes]:
    while True:
        yield piece


def listing(tools: list[Any], call: Answer = lambda _: None) -> Answer:
    """A server with these tools, which answers calls as `call` says."""

    def answer(asked: dict[str, Any]) -> tuple[int, str, Iterator[bytes]] | None:
        if asked["method"] == "tools/list":
            return result(asked, {"tools": tools})
        return call(asked) if asked["method"] == "tools/call" else handshake(asked)

    return answer


def only(method: str, said: Answer) -> Answer:
    """A server that answers one method in its own way."""
    return lambda asked: said(asked) if asked["method"] == method else handshake(asked)


NOTICE = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x" * 60_000}}
NOISE = b"event: message\r\ndata: " + json.dumps(NOTICE).encode()
BAD: dict[str, tuple[Answer, str]] = {
    "hangs": (only("initialize", lambda _: None), "timeout"),
    "status": (lambda _: (401, "text/plain", iter([b"no"])), "unauthorized"),
    "hung-up": (lambda _: (200, "application/json", iter([b'{"jsonrpc":'])), "protocol_error"),
    "no-json": (only("initialize", lambda _: (200, "text/html", iter([b"<html>"]))), "protocol_error"),
    "huge": (only("initialize", lambda _: (200, "application/json", endless(b" " * 65_536))), "too_large"),
    "flood": (only("initialize", lambda _: (200, "text/event-stream", endless(NOISE + b"\r\n\r\n"))), "flooded"),
    "endless-line": (only("initialize", lambda _: (200, "text/event-stream", endless(b"data" * 9_999))), "closed"),
    "no-tools": (only("tools/list", lambda asked: result(asked, {"tools": "all"})), "protocol_error"),
    "endless-list": (only("tools/list", lambda a: result(a, {"tools": [], "nextCursor": "x"})), "protocol_error"),
    "old": (only("initialize", lambda asked: result(asked, {"protocolVersion": "1999-01-01"})), "protocol_error"),
}


@pytest.mark.slow
async def test_hostile_servers_cost_their_tools_and_not_the_run(
    start_server: StartServer, provider: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = start_server(mcp_networks=LOOPBACK)
    provider.script(Reply(ToolCall("mcp__good__add", {"a": 1, "b": 1})), Reply(Text("done")))
    with mcp_server() as good:
        for name, (answer, code) in BAD.items():
            # A run does not wait longer for servers that are still connecting.
            monkeypatch.setattr(mcp_servers, "FIRST_WAIT_S", 10 if code == "timeout" else 60)
            with raw_server(answer) as url:
                async with Client(server.url) as client:
                    provider.script(Reply(ToolCall("mcp__good__add", {"a": 1, "b": 1})), Reply(Text("done")))
                    servers = {name: {"url": url}, "good": {"url": good.url}}
                    session, events = await client.run("go", mcp_servers=servers)
                    assert session["outcome"] == "completed", name
                    failed = of_type(events, "mcp.failed")
                    assert [(event.data["server"], event.data["code"]) for event in failed] == [(name, code)]
                    assert of_type(events, "tool.result")[0].data["output"] == "2"


async def test_a_command_in_the_sandbox_is_a_server(
    server_with: StartServer, provider: FakeProvider, sandbox: str
) -> None:
    server = server_with()
    async with Client(server.url) as client:
        env = {"TOKEN": {"secret": "TOKEN"}}
        session = await client.create(secrets={"TOKEN": TOKEN}, mcp_servers={"sh": {**SHELL, "env": env}})
        path = f"/v1/sessions/{session['id']}"
        await client.http.put(f"{path}/files/server.sh", content=SCRIPT)
        provider.script(
            Reply(ToolCall("mcp__sh__touch", {}), ToolCall("execute_command", {"command": "cat touched.txt"})),
            Reply(ToolCall("mcp__sh__die", {})),
            Reply(ToolCall("mcp__sh__touch", {})),
            Reply(Text("done")),
        )
        events = await client.say(session["id"], "go")
        results = [(event.data["status"], event.data["output"]) for event in of_type(events, "tool.result")]
        assert results[:2] == [("completed", "touched with [secret TOKEN]"), ("completed", "[secret TOKEN]\n")]
        assert results[2][0] == "error"
        assert "gave no result" in results[2][1]
        assert "Standard error: the tool crashed" in results[2][1]
        assert results[3] == results[0]
        assert (await client.http.get(f"{path}/files/starts.txt")).text == "started\n" * 2
        assert of_type(events, "mcp.failed") == []

        provider.script(Reply(ToolCall("mcp__sh__hang", {})), Reply(Text("done")))
        await client.post(session["id"], "hang")
        await client.wait_for(session["id"], shows("tool.call"), events[-1].id)
        loop = asyncio.get_running_loop()
        began = loop.time()
        await client.http.post(f"{path}/cancel", json={})
        await client.until_idle(session["id"], events[-1].id)
        assert loop.time() - began < 2.5
        provider.script(Reply(ToolCall("execute_command", {"command": "ps | grep -c 'server[.]sh'"})), Reply(Text("x")))
        await client.change(session["id"], mcp_servers=None)
        after = await client.say(session["id"], "look", (await client.session(session["id"]))["last_seq"])
        assert of_type(after, "tool.result")[0].data["output"].startswith("0\n")
        assert (await client.http.get(f"{path}/files/ended.txt")).text == "end of input\n"


async def test_a_command_that_cannot_start_or_floods_costs_its_tools(
    start_server: StartServer, provider: FakeProvider, sandbox: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A run does not wait longer for servers that are still connecting.
    monkeypatch.setattr(mcp_servers, "FIRST_WAIT_S", 60)
    server = start_server()
    async with Client(server.url) as client:
        servers = {
            "absent": {"command": "no-such-program"},
            # Many lines in each write: one at a time may pass through the Engine so slowly that it is no flood.
            "flood": {"command": "yes", "args": ["{}"]},
            "line": {"command": "sh", "args": ["-c", "cat /dev/zero"]},
        }
        provider.script(Reply(Text("done")))
        session, events = await client.run("go", mcp_servers=servers)
        assert session["outcome"] == "completed"
        failed = {event.data["server"]: event.data for event in of_type(events, "mcp.failed")}
        assert {name: data["code"] for name, data in failed.items()} == {
            "absent": "closed",
            "flood": "flooded",
            "line": "too_large",
        }
        assert "no-such-program" in failed["absent"]["detail"]


@pytest.mark.slow
async def test_a_call_that_is_out_at_a_kill_is_interrupted_and_not_repeated(
    start_process: StartProcess, provider: FakeProvider
) -> None:
    with mcp_server() as tools:
        process = start_process(PALIMPSEST_MCP_NETWORKS="127.0.0.0/8")
        async with Client(process.url) as client:
            provider.script(Reply(ToolCall("mcp__test__wait", {})), Reply(Text("done")))
            session = await client.create("wait", model=OPENAI, mcp_servers={"test": {"url": tools.url}})
            assert await asyncio.to_thread(tools.waiting.acquire, timeout=60)
        process.end(signal.SIGKILL)
        process = start_process(PALIMPSEST_MCP_NETWORKS="127.0.0.0/8")
        async with Client(process.url) as client:
            events = await client.until_idle(session["id"])
            (ended,) = of_type(events, "tool.result")
            assert ended.data["status"] == "interrupted"
            assert len(of_type(events, "mcp.ready")) == 2
            assert (await client.session(session["id"]))["outcome"] == "completed"
        assert not tools.waiting.acquire(blocking=False)


async def test_a_hostile_list_and_hostile_results_are_contained(
    start_server: StartServer, provider: FakeProvider
) -> None:
    server = start_server(mcp_networks=LOOPBACK, mcp_call_s=1)
    fine = {
        "type": "object",
        "properties": {"a": {"type": "array"}},
        "$schema": "http://json-schema.org/draft-07/schema#",
    }
    tools: list[Any] = [
        {"name": "fine", "description": "x" * 5_000, "inputSchema": fine},
        {"name": "with space", "inputSchema": {"type": "object"}},
        {"name": "l" * 128, "inputSchema": {"type": "object"}},
        {"name": "", "inputSchema": {"type": "object"}},
        {"name": "line\nbreak", "inputSchema": {"type": "object"}},
        {"name": "outside", "inputSchema": {"type": "object", "properties": {"a": {"$ref": "http://x/y"}}}},
        {"name": "odd-name", "inputSchema": {"type": "object", "properties": {"a b": {}}}},
        {"name": "deep", "inputSchema": {"type": "object", "not": json.loads('{"not":' * 60 + "{}" + "}" * 60)}},
        {"name": "large", "inputSchema": {"type": "object", "description": "x" * 40_000}},
        {"name": "no-schema"},
        {"name": 5, "inputSchema": {"type": "object"}},
        "no tool",
    ]
    said: dict[str, Answer] = {
        "error": lambda a: (200, "application/json", iter([json.dumps(
            {"jsonrpc": "2.0", "id": a["id"], "error": {"code": -32602, "message": "no such thing"}}).encode()])),
        "late": lambda _: None,
        "nothing": lambda a: result(a, {}),
        "other": lambda a: result({**a, "id": 999}, {"content": []}),
        "cut": lambda _: (200, "application/json", iter([b'{"jsonrpc":'])),
        "status": lambda _: (504, "text/html", iter([b"no answer in time"])),
        "huge": lambda a: (200, "application/json", endless(b" " * 65_536)),
    }  # fmt: skip
    calls: list[str] = []

    def call(asked: dict[str, Any]) -> tuple[int, str, Iterator[bytes]] | None:
        calls.append(asked["params"]["arguments"]["way"])
        return said[calls[-1]](asked)

    with raw_server(listing(tools, call)) as url:
        async with Client(server.url) as client:
            provider.script(
                *(Reply(ToolCall("mcp__raw__fine", {"way": way})) for way in said),
                Reply(Text("done")),
            )
            session, events = await client.run("go", model=ANTHROPIC, mcp_servers={"raw": {"url": url}})
            assert session["outcome"] == "completed"
            ready = of_type(events, "mcp.ready")[0].data
            long = next(name for name in ready["tools"] if "lll" in name)
            assert sorted(ready["tools"]) == sorted(["mcp__raw__fine", "mcp__raw__with_space", long])
            assert len(long) == 64
            assert len(ready["left_out"]) == 9
            assert ready["left_out"]["no-schema"] == "it is malformed: inputSchema: Field required"
            assert {"tool 11", "tool 12"} <= ready["left_out"].keys()
            shown = next(t for t in provider.requests[0].body["tools"] if t["name"] == "mcp__raw__fine")
            assert len(shown["description"]) == 1_024
            assert shown["input_schema"]["properties"] == {"a": {"type": "array", "items": {}}}
            results = {way: event.data for way, event in zip(said, of_type(events, "tool.result"), strict=True)}
            assert {data["status"] for data in results.values()} == {"error"}
            assert "no such thing" in results["error"]["output"]
            assert "did not answer within 1 seconds" in results["late"]["output"]
            assert "more than 8 MiB" in results["huge"]["output"]
            assert "The answer has status 504." in results["status"]["output"]
            unsure = {way for way, data in results.items() if "may still have been carried out" in data["output"]}
            assert unsure == said.keys() - {"error"}
            assert calls == list(said)


async def test_many_tools_are_offered_through_a_search(start_server: StartServer, provider: FakeProvider) -> None:
    models = {OPENAI: {"context_window": 32_000}}
    server = start_server(mcp_networks=LOOPBACK, models=models)

    def more(made: MCPServer) -> None:
        for number in range(60):
            made.add_tool(lambda text="": f"said {text}", f"say_{number}", description=f"Says {'well ' * 30}{number}.")

    with mcp_server(more) as tools:
        async with Client(server.url) as client:
            servers = {"test": {"url": tools.url, "approval": {"tools": ["say_57"]}}}
            provider.script(
                Reply(ToolCall("mcp_search", {"query": "say 57"})),
                Reply(ToolCall("mcp_search", {"tool": "mcp__test__say_59", "arguments": {"text": "nine"}})),
                Reply(ToolCall("mcp_search", {"tool": "mcp__test__say_57", "arguments": {"text": "seven"}})),
                Reply(Text("done")),
            )
            session = await client.create("go", model=OPENAI, mcp_servers=servers)
            asked = await client.wait_for(session["id"], shows("approval.requested"))
            path = f"/v1/sessions/{session['id']}/approvals/{asked.data['call_id']}"
            await client.http.post(path, json={"decision": "approve"})
            events = await client.until_idle(session["id"])
            found, nine, seven = (event.data for event in of_type(events, "tool.result"))
            assert '"tool":"mcp__test__say_57"' in found["output"].splitlines()[0]
            assert (nine["output"], seven["output"]) == ("said nine", "said seven")
            assert len(of_type(events, "approval.requested")) == 1
            listed = await client.get(f"/v1/sessions/{session['id']}/tools")
            of_mcp = [tool for tool in listed["items"] if tool["source"] == "mcp"]
            assert len(of_mcp) == 66 - 1
            assert sum(tool["tokens"] for tool in of_mcp if tool["whole"]) <= 3_200
            assert "mcp_search" in offered(provider)
            assert offered(provider, 0) == offered(provider, 1) == offered(provider)

            # Definitions count when a message is accepted, too.
            plain = await client.create(model=OPENAI)
            body = {"content": "some words " * 20_000}
            answers = [await client.http.post(f"/v1/sessions/{s['id']}/queue", json=body) for s in (plain, session)]
            assert [answer.status_code for answer in answers] == [413, 413]
            roomy, less = (answer.json()["room"] for answer in answers)
            assert roomy - less > 2_000


async def test_the_operators_servers_are_for_every_session_that_does_not_leave_them_out(
    start_server: StartServer, provider: FakeProvider
) -> None:
    with mcp_server() as tools:
        headers = {"X-Key": "of-the-operator"}
        server = start_server(mcp_servers={"ops": {"url": tools.url, "headers": headers, "tools": ["add"]}})
        async with Client(server.url) as client:
            provider.script(Reply(ToolCall("mcp__ops__add", {"a": 1, "b": 2})), Reply(Text("done")))
            session, events = await client.run("add")
            assert of_type(events, "tool.result")[0].data["output"] == "3"
            (view,) = (await client.get(f"/v1/sessions/{session['id']}/tools"))["servers"]
            assert (view["source"], view["url"], view["status"]) == ("server", None, "ready")
            provider.script(Reply(Text("done")))
            without, _ = await client.run("say", mcp_servers={"ops": None})
            assert not [name for name in offered(provider) if name.startswith("mcp")]
            assert (await client.get(f"/v1/sessions/{without['id']}/tools"))["servers"] == []
    assert {headers.get("x-key") for headers in tools.headers} == {"of-the-operator"}
