"""Files: content comes back byte for byte, under any name, and no path leads out of the workspace."""

from __future__ import annotations

import asyncio
import io
import tarfile
from pathlib import Path
from urllib.parse import quote

import aiodocker
import httpx
import pytest

from tests.behavior.conftest import StartServer
from tests.behavior.harness import Client, RunningServer, of_type
from tests.behavior.test_bad_input import assert_refused
from tests.provider import FakeProvider, Reply, Text, ToolCall

pytestmark = pytest.mark.shared_server

NAMES = (
    "with space",
    " leading and trailing ",
    "ünï/cödé-😀",
    "quo\"te'and`tick",
    "new\nline",
    "tab\tand\\backslash",
    "100%2Fsure",
    "semi;colon&and?query#hash",
    "-rf",
    "$(reboot)",
    "..hidden",
    "...",
    "a" * 255,
    "deep/" * 20 + "file",
)
CONTENTS = (b"", b"\x00\xff\r\n\xfe" * 1000, "ä\n".encode(), bytes(range(256)) * 4096)


def address(session_id: str, path: str) -> str:
    return f"/v1/sessions/{session_id}/files/{quote(path, safe='/')}"


async def raw(client: Client, method: str, target: str, content: bytes | None = None) -> httpx.Response:
    """A request whose target is sent verbatim: an HTTP library would normalize `..`."""
    request = client.http.build_request(method, "/", content=content, extensions={"target": target.encode()})
    return await client.http.send(request)


async def names_in_archive(client: Client, session_id: str) -> dict[str, bytes | None]:
    """The archive's entries: a file's content, None for anything else."""
    answer = await client.http.get(f"/v1/sessions/{session_id}/archive")
    assert answer.headers["content-type"] == "application/x-tar"
    assert_safe(answer)
    found: dict[str, bytes | None] = {}
    with tarfile.open(fileobj=io.BytesIO(answer.content), errors="surrogateescape") as archive:
        for member in archive:
            file = archive.extractfile(member) if member.isreg() else None
            found[member.name] = file.read() if file else None
    return found


def assert_safe(answer: httpx.Response) -> None:
    """The content is downloaded, never displayed, and protected from other pages."""
    assert answer.headers["content-disposition"].startswith("attachment")
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-security-policy"] == "sandbox"
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"


async def test_a_file_has_a_version(client: Client, sandbox: str) -> None:
    session_id = (await client.create())["id"]
    target = address(session_id, "notes.txt")

    async def put(content: bytes, **headers: str) -> httpx.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return await client.http.put(target, content=content, headers=named)

    assert (await put(b"x", If_Match="*")).status_code == 412, "there is no file yet"
    first = await put(b"one", If_None_Match="*")
    assert first.status_code == 201
    read = await client.http.get(target)
    assert read.headers["etag"] == first.headers["etag"]
    for tags in (f"W/{read.headers['etag']}", f'"other", {read.headers["etag"]}', "*"):
        unchanged = await client.http.get(target, headers={"If-None-Match": tags})
        assert (unchanged.status_code, unchanged.content) == (304, b"")
    second = await put(b"two", If_Match=read.headers["etag"])
    assert (second.status_code, second.headers["etag"] != first.headers["etag"]) == (204, True)
    for refused in (await put(b"three", If_Match=first.headers["etag"]), await put(b"three", If_None_Match="*")):
        assert (refused.status_code, refused.json()["code"]) == (412, "precondition_failed")
    changed = await client.http.get(target, headers={"If-None-Match": first.headers["etag"]})
    assert (changed.status_code, changed.content, changed.headers["etag"]) == (200, b"two", second.headers["etag"])


async def test_any_name_and_content_round_trips(client: Client, sandbox: str) -> None:
    session_id = (await client.create())["id"]
    files = {name: CONTENTS[place % len(CONTENTS)] for place, name in enumerate(NAMES)}
    for name, content in files.items():
        first = await client.http.put(address(session_id, name), content=b"before")
        again = await client.http.put(address(session_id, name), content=content)
        assert (first.status_code, again.status_code) == (201, 204), name
        assert first.headers["location"] == address(session_id, name)
    for name, content in files.items():
        answer = await client.http.get(address(session_id, name))
        assert (answer.status_code, answer.content) == (200, content), name
        assert "\n" not in answer.headers["content-disposition"]
        assert_safe(answer)
    listed = (await client.get(f"/v1/sessions/{session_id}/files"))["items"]
    assert {item["path"] for item in listed} == {name.split("/")[0] for name in files}
    sizes = {item["path"]: item["size"] for item in listed if item["type"] == "file"}
    assert sizes == {name: len(content) for name, content in files.items() if "/" not in name}
    archived = await names_in_archive(client, session_id)
    assert {name: content for name, content in archived.items() if content is not None} == files
    assert not [name for name in archived if name.startswith((".", "/")) and name not in files]


async def test_a_slash_may_be_encoded_and_a_range_requested(client: Client, sandbox: str) -> None:
    base = f"/v1/sessions/{(await client.create())['id']}/files"
    assert (await raw(client, "PUT", f"{base}/a%2Fb.txt", b"0123456789")).status_code == 201
    part = await client.http.get(f"{base}/a/b.txt", headers={"Range": "bytes=2-4"})
    assert (part.status_code, part.content, part.headers["content-range"]) == (206, b"234", "bytes 2-4/10")
    assert_safe(part)
    assert_refused(
        await client.http.get(f"{base}/a/b.txt", headers={"Range": "bytes=10-"}), 416, "range_not_satisfiable"
    )
    for folder in ("a", "/workspace/a/", "./b/../a"):
        listed = (await client.http.get(base, params={"path": folder})).json()
        assert [item["path"] for item in listed["items"]] == ["a/b.txt"]


OUTSIDE = (
    "../x",
    "a/../../x",
    "%2e%2e/x",
    "..%2fx",
    "%2e%2e%2f%2e%2e%2fetc%2fpasswd",
    "%2Fetc%2Fpasswd",
    "/etc/passwd",
    "/workspace/../etc/passwd",
    "%2Fworkspace2/x",
)


async def test_a_path_outside_the_workspace_is_refused(client: Client, sandbox: str) -> None:
    session_id = (await client.create())["id"]
    base = f"/v1/sessions/{session_id}/files"
    for path in OUTSIDE:
        assert_refused(await raw(client, "GET", f"{base}/{path}"), 403, "outside_workspace")
        assert_refused(await raw(client, "PUT", f"{base}/{path}", b"x"), 403, "outside_workspace")
        assert_refused(await raw(client, "GET", f"{base}?path={quote(path, safe='%')}"), 403, "outside_workspace")
    assert_refused(await raw(client, "GET", f"{base}/a%00b"), 404, "file_not_found")
    assert_refused(await raw(client, "GET", f"{base}/{'x' * 256}"), 422, "invalid_path")
    assert_refused(await raw(client, "PUT", f"{base}/{'x/' * 2048}x", b""), 422, "invalid_path")
    assert_refused(await raw(client, "PUT", f"{base}/", b""), 404, "file_not_found")
    assert_refused(await raw(client, "PUT", f"{base}/.", b""), 422, "not_a_file")
    assert await names_in_archive(client, session_id) == {}


TRAPS = (
    "mkdir dir && echo inside > dir/f && ln -s /etc/passwd file_link && ln -s / root_link && ln -s dir dir_link"
    " && ln -s missing broken_link && mkfifo fifo && ln -s file_link chain && ln -s . loop && echo ok"
)
TRAP_CALLS: tuple[tuple[str, dict[str, str]], ...] = (
    ("read_file", {"path": "file_link"}),
    ("read_file", {"path": "chain"}),
    ("read_file", {"path": "root_link/etc/passwd"}),
    ("read_file", {"path": "../etc/passwd"}),
    ("read_file", {"path": "/etc/passwd"}),
    ("read_file", {"path": "fifo"}),
    ("read_file", {"path": "dir"}),
    ("write_file", {"path": "file_link", "content": "x"}),
    ("write_file", {"path": "broken_link", "content": "x"}),
    ("write_file", {"path": "root_link/tmp/x", "content": "x"}),
    ("write_file", {"path": "../x", "content": "x"}),
    ("write_file", {"path": "fifo", "content": "x"}),
    ("write_file", {"path": "dir", "content": "x"}),
    ("edit_file", {"path": "file_link", "old_text": "root", "new_text": "x"}),
    ("list_directory", {"path": "root_link"}),
    ("list_directory", {"path": "/"}),
    ("search_files", {"pattern": "root", "path": "root_link/etc"}),
)


async def test_traps_of_the_model_lead_nowhere(client: Client, provider: FakeProvider, sandbox: str) -> None:
    provider.script(
        Reply(ToolCall("execute_command", {"command": TRAPS})),
        Reply(*(ToolCall(name, arguments) for name, arguments in TRAP_CALLS)),
        Reply(Text("Done.")),
    )
    session, events = await client.run("make traps")
    command, *results = [event.data for event in of_type(events, "tool.result")]
    assert (command["status"], command["output"]) == ("completed", "ok\n"), command
    assert len(results) == len(TRAP_CALLS)
    for call, result in zip(TRAP_CALLS, results, strict=True):
        assert result["status"] == "error", (call, result)
        assert "root:" not in result["output"]
    base = f"/v1/sessions/{session['id']}/files"
    for path in ("file_link", "chain", "root_link/etc/passwd", "loop/file_link"):
        assert_refused(await client.http.get(f"{base}/{path}"), 403, "outside_workspace")
        assert_refused(await client.http.put(f"{base}/{path}", content=b"x"), 403, "outside_workspace")
    assert_refused(await client.http.get(base, params={"path": "root_link"}), 403, "outside_workspace")
    assert_refused(await client.http.get(f"{base}/broken_link"), 404, "file_not_found")
    assert_refused(await client.http.put(f"{base}/broken_link", content=b"x"), 404, "file_not_found")
    for path in ("dir_link/f", "loop/dir/f"):
        assert (await client.http.get(f"{base}/{path}")).content == b"inside\n"
    async with asyncio.timeout(60):  # a FIFO without a writer must block nobody
        for path in ("fifo", "dir"):
            assert_refused(await client.http.get(f"{base}/{path}"), 422, "not_a_file")
            assert_refused(await client.http.put(f"{base}/{path}", content=b"x"), 422, "not_a_file")
        assert_refused(await client.http.get(base, params={"path": "fifo"}), 422, "not_a_directory")
        assert_refused(await client.http.get(f"{base}/dir/f/g"), 422, "not_a_directory")
        archived = await names_in_archive(client, session["id"])
    assert archived["dir/f"] == b"inside\n"
    assert "fifo" not in archived
    kinds = {item["path"]: item["type"] for item in (await client.get(base))["items"]}
    assert {"dir": "directory", "file_link": "symlink", "fifo": "other"}.items() <= kinds.items()


async def test_tools_and_clients_see_the_same_files(client: Client, provider: FakeProvider, sandbox: str) -> None:
    session_id = (await client.create())["id"]
    await client.http.put(address(session_id, "in/from client.txt"), content="grüße\n".encode())
    provider.script(
        Reply(ToolCall("read_file", {"path": "in/from client.txt"})),
        Reply(ToolCall("execute_command", {"command": "cat in/*.txt && echo more >> 'in/from client.txt'"})),
        Reply(ToolCall("edit_file", {"path": "in/from client.txt", "old_text": "more", "new_text": "less"})),
        Reply(Text("Done.")),
    )
    await client.post(session_id, "change the file")
    results = of_type(await client.until_idle(session_id), "tool.result")
    assert [result.data["status"] for result in results] == ["completed"] * 3
    assert all("grüße" in result.data["output"] for result in results[:2])
    answer = await client.http.get(address(session_id, "in/from client.txt"))
    assert answer.content == "grüße\nless\n".encode()


async def test_an_upload_has_a_limit(start_server: StartServer, sandbox: str) -> None:
    async with Client(start_server(upload_max_bytes=1000).url) as client:
        session_id = (await client.create())["id"]
        path = address(session_id, "big")

        async def chunks(size: int) -> object:
            for _ in range(size // 100):
                yield b"x" * 100

        assert (await client.http.put(path, content=b"x" * 1000)).status_code == 201
        assert_refused(await client.http.put(path, content=b"y" * 1001), 413, "too_large")
        assert_refused(await client.http.put(path, content=chunks(1100)), 413, "too_large")  # type: ignore[arg-type]
        assert (await client.http.get(path)).content == b"x" * 1000
        assert [item["path"] for item in (await client.get(f"/v1/sessions/{session_id}/files"))["items"]] == ["big"]


async def volumes(session_id: str) -> list[str]:
    """Names of a session's volumes in the Engine."""
    async with aiodocker.Docker() as docker:
        found = [volume["Name"] for volume in (await docker.volumes.list())["Volumes"] or []]  # type: ignore[no-untyped-call]
        found += [name for c in await docker.containers.list(all=True) for name in c["Names"]]
    return [name for name in found if session_id in name]


async def test_uploads_during_a_deletion_leave_nothing(client: Client, server: RunningServer, sandbox: str) -> None:
    async def put(session_id: str, number: int) -> int:
        answer = await client.http.put(f"/v1/sessions/{session_id}/files/d/{number}", content=b"x" * 1000)
        return answer.status_code

    def left(session_id: str) -> list[Path]:
        return [*server.settings.data_dir.rglob(f"*{session_id}*")]

    for _ in range(3):
        session_id = (await client.create())["id"]
        await put(session_id, 0)
        assert sandbox == "docker" or left(session_id)
        deletion = asyncio.create_task(client.http.delete(f"/v1/sessions/{session_id}"))
        codes = await asyncio.gather(*(put(session_id, number) for number in range(1, 12)))
        assert (await deletion).status_code == 204
        assert set(codes) <= {201, 404}
        assert left(session_id) == []
        assert await put(session_id, 0) == 404


async def test_a_deleted_session_leaves_nothing(
    client: Client, server: RunningServer, provider: FakeProvider, sandbox: str
) -> None:
    provider.script(
        Reply(
            ToolCall("execute_command", {"command": "mkdir -p a/b && seq 100000 > a/b/c && chmod 000 a && seq 9999"})
        ),
        Reply(Text("Done.")),
    )
    session, _ = await client.run("fill the workspace")
    data: Path = server.settings.data_dir

    def left() -> list[str]:
        return [path.name for path in data.rglob(f"*{session['id']}*")]

    if sandbox == "docker":
        assert await volumes(session["id"])
    else:
        assert await asyncio.to_thread(left)
    assert (await client.http.delete(f"/v1/sessions/{session['id']}")).status_code == 204
    assert await asyncio.to_thread(left) == []
    if sandbox == "docker":
        assert await volumes(session["id"]) == []
    assert_refused(await client.http.get(address(session["id"], "a/b/c")), 404, "session_not_found")


async def test_one_of_many_concurrent_deletions_succeeds(client: Client, provider: FakeProvider, sandbox: str) -> None:
    provider.script(Reply(ToolCall("execute_command", {"command": "echo here > file"})), Reply(Text("done")))
    for _ in range(3):
        session, _ = await client.run("task")
        path = f"/v1/sessions/{session['id']}"
        answers = await asyncio.gather(*[client.http.delete(path) for _ in range(4)])
        assert sorted(answer.status_code for answer in answers) == [204, 404, 404, 404]
