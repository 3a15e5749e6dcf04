"""Bringing work in as an archive: all of it or nothing, and before the first step."""

from __future__ import annotations

import asyncio
import gzip
import io
import json
import tarfile
import zipfile
from typing import Any

import httpx
import pytest

from app.messages import new_id
from tests.behavior.conftest import StartServer
from tests.behavior.harness import Client, command, of_type, shows
from tests.behavior.test_bad_input import assert_refused
from tests.behavior.test_files import names_in_archive
from tests.databases import in_cluster
from tests.provider import FakeProvider, Reply, Text

pytestmark = pytest.mark.shared_server

PROJECT = {"src/main.py": b"print('hello')\n", "README": b"A project.\n"}


def tarred(files: dict[str, bytes], **fields: Any) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            for field, value in fields.items():
                setattr(info, field, value)
            archive.addfile(info, io.BytesIO(data))
    return made.getvalue()


def zipped(files: dict[str, bytes]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return made.getvalue()


async def put(client: Client, session_id: str, data: bytes, **params: str) -> httpx.Response:
    return await client.http.put(f"/v1/sessions/{session_id}/archive", content=data, params=params)


async def files_of(client: Client, session_id: str) -> dict[str, bytes]:
    found = await names_in_archive(client, session_id)
    return {name: data for name, data in found.items() if data is not None}


async def test_an_archive_is_merged_or_replaces_and_commands_can_change_it(
    client: Client, sandbox: str, provider: FakeProvider
) -> None:
    session_id = (await client.create())["id"]
    answer = await put(client, session_id, gzip.compress(tarred(PROJECT)))
    assert (answer.status_code, answer.json()) == (200, {"path": ".", "files": 2, "bytes": 26})
    assert (await put(client, session_id, zipped({"a": b"1", "b/c": b"2"}), path="src/lib")).json()["path"] == "src/lib"
    merged = {**PROJECT, "src/lib/a": b"1", "src/lib/b/c": b"2"}
    assert await files_of(client, session_id) == merged
    provider.script(Reply(command("echo changed >src/lib/a && rm README && cat src/main.py")), Reply(Text("Done.")))
    events = await client.say(session_id, "Change it.")
    assert "hello" in of_type(events, "tool.result")[0].data["output"]
    await put(client, session_id, tarred({"new": b"3"}), path="src/lib", mode="replace")
    assert await files_of(client, session_id) == {"src/main.py": PROJECT["src/main.py"], "src/lib/new": b"3"}
    await put(client, session_id, tarred({"only": b"4"}), mode="replace")
    assert await files_of(client, session_id) == {"only": b"4"}


async def test_a_hostile_archive_changes_nothing_and_its_entry_is_named(client: Client) -> None:
    session_id = (await client.create())["id"]
    await put(client, session_id, tarred(PROJECT))
    before = await files_of(client, session_id)
    for bad in ("../x", "/etc/passwd", "README/x"):
        answer = await put(client, session_id, tarred({"first": b"new", "README": b"new", bad: b""}), mode="replace")
        assert_refused(answer, 422, "invalid_archive")
        assert answer.json()["entry"] == bad
    answer = await put(client, session_id, tarred({"first": b"new", "src": b""}))  # a directory is there
    assert_refused(answer, 422, "invalid_archive")
    assert answer.json()["entry"] == "src"
    assert_refused(await put(client, session_id, tarred({"x": b""}, mode=0o4755)), 422, "invalid_archive")
    assert_refused(await put(client, session_id, b"no archive"), 422, "invalid_archive")
    assert_refused(await put(client, session_id, tarred(PROJECT), path="../x"), 403, "outside_workspace")
    assert_refused(await put(client, session_id, tarred(PROJECT), mode="other"), 422, "validation_error")
    assert await files_of(client, session_id) == before


async def test_an_archive_has_limits_as_it_comes_and_unpacked(start_server: StartServer) -> None:
    async with Client(start_server(archive_max_bytes=100_000).url) as client:
        session_id = (await client.create())["id"]
        bomb = gzip.compress(tarred({"zeros": bytes(200_000)}))
        assert_refused(await put(client, session_id, bomb), 413, "archive_too_large")
        assert_refused(await put(client, session_id, tarred({"zeros": bytes(200_000)})), 413, "too_large")
        assert await files_of(client, session_id) == {}
        # It takes no part of the memory that all bodies share, which is less.
        assert (await put(client, session_id, tarred({"zeros": bytes(50_000)}))).status_code == 200


async def test_an_archive_is_refused_while_a_command_runs(client: Client, provider: FakeProvider) -> None:
    provider.script(Reply(command("echo on; while [ ! -e stop ]; do sleep 0.05; done")), Reply(Text("Done.")))
    session_id = (await client.create("Wait."))["id"]
    await client.wait_for(session_id, shows("tool.output"))
    assert_refused(await put(client, session_id, tarred(PROJECT)), 409, "command_running")
    await client.http.put(f"/v1/sessions/{session_id}/files/stop", content=b"")
    await client.until_idle(session_id)
    assert (await put(client, session_id, tarred(PROJECT))).status_code == 200


async def post(client: Client, archive: bytes, **fields: Any) -> httpx.Response:
    parts = {"archive": ("project.tar", archive)}
    return await client.http.post("/v1/sessions", data={"session": json.dumps(fields)}, files=parts)


async def test_a_session_is_created_with_its_files(client: Client, sandbox: str, provider: FakeProvider) -> None:
    provider.script(Reply(command("cat src/main.py")), Reply(Text("Done.")))
    fields = {"task": "Read it.", "id": new_id()}
    answer = await post(client, gzip.compress(tarred({**PROJECT, "AGENTS.md": b"Be brief."})), **fields)
    assert (answer.status_code, answer.json()["task"]) == (201, "Read it.")
    session_id = answer.json()["id"]
    assert session_id == fields["id"] == answer.headers["location"].rpartition("/")[2]
    events = await client.until_idle(session_id)
    assert "hello" in of_type(events, "tool.result")[0].data["output"]
    assert await files_of(client, session_id) == {**PROJECT, "AGENTS.md": b"Be brief."}
    assert "Be brief." in str(provider.requests[0].body)
    again = await post(client, gzip.compress(tarred(PROJECT), mtime=0), **fields)
    assert_refused(again, 409, "id_in_use")  # another archive


async def test_a_retry_of_a_create_changes_no_file(client: Client) -> None:
    fields, archive = {"id": new_id()}, tarred(PROJECT)
    first = await asyncio.gather(*[post(client, archive, **fields) for _ in range(3)])
    statuses = sorted(answer.status_code for answer in first)
    assert statuses == [200, 200, 201] or (in_cluster() and statuses in ([200, 201, 409], [201, 409, 409]))
    await client.http.put(f"/v1/sessions/{fields['id']}/files/added", content=b"more")
    assert (await post(client, archive, **fields)).status_code == 200
    assert await files_of(client, fields["id"]) == {**PROJECT, "added": b"more"}


async def test_nothing_is_created_with_a_refused_archive(client: Client) -> None:
    for files, fields, code in (
        ({"../x": b""}, {}, "invalid_archive"),
        (PROJECT, {"model": "nobody/knows"}, "unknown_model"),
        (PROJECT, {"unknown": 1}, "validation_error"),
    ):
        assert_refused(await post(client, tarred(files), **fields), 422, code)
    assert (await client.get("/v1/sessions"))["items"] == []


async def test_a_body_in_parts_has_both_of_them_and_no_others(client: Client) -> None:
    archive = ("project.tar", tarred(PROJECT))
    for parts, field in (
        ({"archive": archive}, "session"),
        ({"session": (None, b"{}")}, "archive"),
        ({"session": (None, b"{}"), "archive": (None, b"text")}, "archive"),
        ({"session": (None, b"{}"), "archive": archive, "more": (None, b"")}, "more"),
    ):
        answer = await client.http.post("/v1/sessions", files=parts)
        assert_refused(answer, 422, "validation_error")
        assert answer.json()["errors"][0]["field"] == field
    for session, code in ((b"{", "invalid_json"), (b"[" * 300, "invalid_json"), (b'{"id":1,"id":2}', "invalid_json")):
        answer = await client.http.post("/v1/sessions", files={"session": (None, session), "archive": archive})
        assert_refused(answer, 400, code)
    large: dict[str, Any] = {"session": ("session.json", b'{"task":"%s"}' % (b"x" * 2_000_000)), "archive": archive}
    assert_refused(await client.http.post("/v1/sessions", files=large), 413, "too_large")
    large["session"] = (None, large["session"][1])
    assert_refused(await client.http.post("/v1/sessions", files=large), 413, "too_large")
    headers = {"content-type": "multipart/form-data; boundary=x"}
    assert_refused(await client.http.post("/v1/sessions", content=b"junk", headers=headers), 400, "malformed_request")
    session_id = (await client.create())["id"]
    answer = await client.http.post(f"/v1/sessions/{session_id}/queue", files={"content": (None, b"hi")})
    assert_refused(answer, 415, "unsupported_media_type")
