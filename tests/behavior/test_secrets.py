"""Keys stay with the server: not in the sandbox, the log, an event, an error, a response, or on the disk."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.behavior.commands import open_command
from tests.behavior.harness import ANTHROPIC, OPENAI, Client, Event, of_type
from tests.behavior.process import ROOT, ServerProcess
from tests.databases import stored_rows
from tests.provider import FakeProvider, HttpError, Reply, StreamError, Text, ToolCall

# Unlike any provider's keys, so that only the server's knowledge of them can mask them.
MARKER = "MARKER"
OPENAI_KEY, ANTHROPIC_KEY, NAMED_KEY, API_KEY = (f"{MARKER}_{name}_7f3a9c" for name in ("oai", "ant", "named", "api"))
WRONG_KEY = f"{MARKER}_wrong_7f3a9c"

# The bracket keeps the search from finding itself.
SEARCH = """
env | grep '[M]ARKER'
grep -rsl '[M]ARKER' /workspace /tmp /etc /home /root /run /var /opt /srv /mnt 2>/dev/null
for process in /proc/[0-9]*; do cat $process/environ $process/cmdline; done 2>/dev/null | grep -a '[M]ARKER'
echo searched
"""


@pytest.fixture
def environment(provider: FakeProvider) -> dict[str, str]:
    providers = {
        "fake-openai": {"kind": "openai", "base_url": provider.openai_url, "api_key_env": "SOME_KEY"},
        "fake-anthropic": {"kind": "anthropic", "base_url": provider.url, "api_key_env": "SOME_KEY"},
    }
    return {
        "OPENAI_API_KEY": OPENAI_KEY,
        "ANTHROPIC_API_KEY": ANTHROPIC_KEY,
        "SOME_KEY": NAMED_KEY,
        "PALIMPSEST_API_KEYS": API_KEY,
        "PALIMPSEST_PROVIDERS": json.dumps(providers),
        "PALIMPSEST_LOG_LEVEL": "debug",
    }


@pytest.fixture
def server_process(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    provider: FakeProvider,
    sandbox: str,
    sandbox_image: str,
    environment: dict[str, str],
) -> Iterator[ServerProcess]:
    wrapper = getattr(request, "param", ())
    with ServerProcess(tmp_path / "data", provider, sandbox, sandbox_image, environment, wrapper=wrapper) as server:
        yield server


OF_ITS_OWN = pytest.mark.parametrize("server_process", [pytest.param(["env"], id="program")], indirect=True)
"""The server is a program of its own, with the keys in its environment from the beginning, as `/proc` shows it."""


@pytest.fixture
async def caller(server_process: ServerProcess) -> AsyncIterator[Client]:
    async with Client(server_process.url, key=API_KEY) as client:
        yield client


def everything_stored(folder: Path) -> bytes:
    """The bytes of all files: database, its log, raw outputs, workspaces and the server's own log."""
    paths = (path for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink())
    return b"".join(path.read_bytes() for path in paths) + stored_rows(folder / "data" / "palimpsest.db")


def as_text(events: list[Event]) -> str:
    return json.dumps([event.data for event in events])


@pytest.mark.slow
async def test_a_provider_that_repeats_the_key_in_its_errors(
    caller: Client, provider: FakeProvider, server_process: ServerProcess
) -> None:
    said = f"Incorrect API key provided: {NAMED_KEY}."
    shown: list[str] = []
    for model in (OPENAI, ANTHROPIC):
        provider.script(
            HttpError(500, body=f"<html>{said}</html>".encode()),
            Reply(StreamError(message=said)),
            HttpError(401, body={"error": {"message": said, "type": "invalid_request_error", "code": NAMED_KEY}}),
        )
        session, events = await caller.run("say hello", model=model)
        assert (session["outcome"], session["error"]["code"]) == ("failed", "provider_auth")
        assert len(of_type(events, "step.retrying")) == 2
        assert "Incorrect API key provided: ***." in session["error"]["detail"]
        shown += [as_text(events), json.dumps(session), json.dumps(await caller.messages(session["id"]))]
    sent = [value for request in provider.requests for value in request.headers.values() if NAMED_KEY in value]
    assert len(sent) == 6, "the provider has to know the key, or there is nothing to hide"
    assert MARKER not in "".join(shown)
    assert server_process.end(signal.SIGTERM) in (0, -signal.SIGTERM)
    assert MARKER.encode() not in await asyncio.to_thread(everything_stored, server_process.data_dir.parent)


@OF_ITS_OWN
async def test_commands_find_no_key_anywhere(
    caller: Client, provider: FakeProvider, server_process: ServerProcess
) -> None:
    provider.script(Reply(ToolCall("execute_command", {"command": SEARCH})), Reply(Text("Done.")))
    _, events = await caller.run("look for keys")
    (result,) = of_type(events, "tool.result")
    assert result.data["output"] == "searched\n"
    assert MARKER not in as_text(events).replace("[M]ARKER", "")
    server_process.end(signal.SIGKILL)
    stored = await asyncio.to_thread(everything_stored, server_process.data_dir.parent)
    assert MARKER.encode() not in stored.replace(b"[M]ARKER", b"")


async def test_no_response_contains_a_key(caller: Client, server_process: ServerProcess) -> None:
    base = f"/v1/sessions/{(await caller.create())['id']}"
    paths = ["/", "/openapi.json", "/metrics", "/healthz", "/readyz", "/v1/models", "/v1/usage", "/v1/sessions", base]
    paths += [f"{base}{name}" for name in ("/context", "/messages", "/queue", "/steps", "/nothing")]
    answers = [await caller.http.get(path) for path in paths]
    answers.append(await caller.http.post("/v1/sessions", json={"model": "nobody/model"}))
    for headers in ({}, {"Authorization": f"Bearer {WRONG_KEY}"}, {"Host": "evil.example"}):
        answers.append(await caller.http.get("/v1/sessions", headers={"Authorization": "", **headers}))
    assert {answer.status_code for answer in answers} == {200, 401, 404, 421, 422}
    for answer in answers:
        assert MARKER not in answer.text + str(answer.headers)
    key_present = {model["provider"]: model["key_present"] for model in (await caller.get("/v1/models"))["items"]}
    assert key_present["openai"] is key_present["anthropic"] is True
    assert MARKER not in server_process.log


@pytest.mark.bubblewrap
async def test_user_visible_output_contains_no_key(tmp_path: Path, environment: dict[str, str]) -> None:
    more = {"PYTHONPATH": str(ROOT), "PALIMPSEST_DATA_DIR": str(tmp_path / "data"), "PALIMPSEST_SANDBOX": "bubblewrap"}
    for command in (
        ["doctor"],
        ["doctor", "--json"],
        ["--help"],
        ["serve", "--port", "-1"],
        ["serve", "--host", "x.y"],
    ):
        process = await open_command(command, env={**os.environ, **environment, **more}, cwd=tmp_path)
        async with asyncio.timeout(40):
            said = b"".join(await process.communicate())
        assert said
        assert MARKER not in said.decode()
