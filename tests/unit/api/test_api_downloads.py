"""Files, raw outputs and archives: ranges, names and headers."""

from __future__ import annotations

import asyncio
import io
import re
import tarfile
from pathlib import Path
from urllib.parse import unquote

import httpx
import pytest
import structlog
from fastapi import FastAPI
from hypothesis import given
from hypothesis import strategies as st

from app.api.guard import ApiConfig
from app.api.main import create_app
from app.api.responses import CHUNK_BYTES, content_disposition, parse_range
from app.messages import new_id
from app.runtime.values.history import RawOutput
from app.sessions import Session
from tests.unit.api.double import CALL_ID, InMemoryService
from tests.unit.api.serving import Server

CONTENT = bytes(range(100))


@pytest.mark.parametrize(
    ("header", "part"),
    [
        (None, None),
        ("bytes=0-9", range(10)),
        ("Bytes = 0 - 9 ", range(10)),
        ("bytes=90-", range(90, 100)),
        ("bytes=90-999999", range(90, 100)),
        ("bytes=-10", range(90, 100)),
        ("bytes=-1000", range(100)),
        ("bytes=99-99", range(99, 100)),
        ("bytes=100-", range(0)),
        ("bytes=100-200", range(0)),
        ("bytes=-0", range(0)),
        ("bytes=9-8", None),
        ("bytes=-", None),
        ("bytes=", None),
        ("bytes=a-b", None),
        ("bytes=0-1,5-6", None),
        ("bytes=-5-6", None),
        ("lines=0-9", None),
        ("bytes=" + "9" * 30 + "-", None),
    ],
)
def test_which_bytes_a_range_requests(header: str | None, part: range | None) -> None:
    found = parse_range(header, 100)
    assert found == part
    assert (found is None) == (part is None)


@given(st.integers(0, 50), st.one_of(st.none(), st.integers(0, 60)), st.one_of(st.none(), st.integers(0, 60)))
def test_a_range_lies_within_the_content(size: int, first: int | None, last: int | None) -> None:
    part = parse_range(f"bytes={'' if first is None else first}-{'' if last is None else last}", size)
    assert part is None or 0 <= part.start <= part.stop <= size


@pytest.mark.parametrize("stored", ["bytes", "file"])
@pytest.mark.parametrize(
    ("header", "status", "content", "content_range"),
    [
        (None, 200, CONTENT, None),
        ("bytes=10-19", 206, CONTENT[10:20], "bytes 10-19/100"),
        ("bytes=-5", 206, CONTENT[-5:], "bytes 95-99/100"),
        ("bytes=0-0,5-6", 200, CONTENT, None),
        ("bytes=100-", 416, None, "bytes */100"),
    ],
)
async def test_a_raw_output_is_sent_whole_or_in_part(
    client: httpx.AsyncClient,
    session: Session,
    service: InMemoryService,
    tmp_path: Path,
    stored: str,
    header: str | None,
    status: int,
    content: bytes | None,
    content_range: str | None,
) -> None:
    file = tmp_path / "raw"
    file.write_bytes(CONTENT + b"still growing")
    service.outputs[CALL_ID] = RawOutput(size=100, path=file) if stored == "file" else RawOutput(size=100, data=CONTENT)
    headers = {} if header is None else {"Range": header}
    answer = await client.get(f"/v1/sessions/{session.id}/tool-calls/{CALL_ID}/output", headers=headers)
    assert answer.status_code == status
    assert answer.headers.get("content-range") == content_range
    if content is None:
        assert answer.json()["code"] == "range_not_satisfiable"
    else:
        assert answer.content == content
        assert answer.headers["content-length"] == str(len(content))
        assert answer.headers["accept-ranges"] == "bytes"
        assert answer.headers["content-disposition"] == f'attachment; filename="{CALL_ID}.txt"'


async def test_a_range_with_if_range_is_ignored(
    client: httpx.AsyncClient, session: Session, service: InMemoryService
) -> None:
    service.workspace["a"] = CONTENT
    headers = {"Range": "bytes=0-1", "If-Range": '"etag"'}
    answer = await client.get(f"/v1/sessions/{session.id}/files/a", headers=headers)
    assert (answer.status_code, answer.content) == (200, CONTENT)


async def test_head_sends_only_the_headers(
    client: httpx.AsyncClient, session: Session, service: InMemoryService, tmp_path: Path
) -> None:
    service.workspace["a"] = CONTENT
    service.outputs[CALL_ID] = RawOutput(size=100, path=tmp_path / "never opened")
    for path in ("files/a", f"tool-calls/{CALL_ID}/output"):
        answer = await client.head(f"/v1/sessions/{session.id}/{path}")
        assert (answer.status_code, answer.content, answer.headers["content-length"]) == (200, b"", "100")


async def test_a_removed_output_is_not_found(
    client: httpx.AsyncClient, session: Session, service: InMemoryService, tmp_path: Path
) -> None:
    service.outputs[CALL_ID] = RawOutput(size=100, path=tmp_path / "absent")
    answer = await client.get(f"/v1/sessions/{session.id}/tool-calls/{CALL_ID}/output")
    assert (answer.status_code, answer.json()["code"]) == (404, "output_not_found")


async def test_an_output_shorter_than_promised_is_cut_off(
    server: Server, session: Session, service: InMemoryService, tmp_path: Path
) -> None:
    file = tmp_path / "raw"
    file.write_bytes(b"short")
    service.outputs[CALL_ID] = RawOutput(size=100, path=file)
    async with httpx.AsyncClient(base_url=server.url) as client:
        with structlog.testing.capture_logs() as logs, pytest.raises(httpx.RemoteProtocolError):
            await client.get(f"/v1/sessions/{session.id}/tool-calls/{CALL_ID}/output")
    assert [entry["event"] for entry in logs] == ["request_failed", "request"]


async def test_a_large_file_is_sent_in_chunks(
    server: Server, session: Session, service: InMemoryService, tmp_path: Path
) -> None:
    content = b"0123456789" * (CHUNK_BYTES // 4)
    file = tmp_path / "raw"
    file.write_bytes(content)
    service.outputs[CALL_ID] = RawOutput(size=len(content), path=file)
    service.workspace["large"] = content
    async with httpx.AsyncClient(base_url=server.url) as client:
        for path in (f"tool-calls/{CALL_ID}/output", "files/large"):
            assert (await client.get(f"/v1/sessions/{session.id}/{path}")).content == content


async def test_a_file_is_uploaded_listed_and_downloaded(
    client: httpx.AsyncClient, session: Session, service: InMemoryService
) -> None:
    path = f"/v1/sessions/{session.id}/files/src/größe%201.py"
    created = await client.put(path, content=b"\x00\xff", headers={"Content-Type": "text/x-python"})
    assert (created.status_code, created.content) == (201, b"")
    assert created.headers["location"] == f"/v1/sessions/{session.id}/files/src/gr%C3%B6%C3%9Fe%201.py"
    replaced = await client.put(path, content=b"")
    assert (replaced.status_code, replaced.content) == (204, b"")
    await client.put(path, content=CONTENT)
    assert service.workspace == {"src/größe 1.py": CONTENT}
    assert (await client.get(f"/v1/sessions/{session.id}/files?path=src")).json()["items"][0]["size"] == 100
    answer = await client.get(created.headers["location"])
    assert answer.content == CONTENT
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-security-policy"] == "sandbox"
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("files/absent", 404, "file_not_found"),
        ("files/", 404, "file_not_found"),
        ("files/a/%2e%2e/b", 403, "outside_workspace"),
        ("files/%2e%2e%2fb", 403, "outside_workspace"),
        ("files/a%00b", 404, "file_not_found"),
    ],
)
async def test_invalid_paths(client: httpx.AsyncClient, session: Session, path: str, status: int, code: str) -> None:
    answer = await client.get(f"/v1/sessions/{session.id}/{path}")
    assert (answer.status_code, answer.json()["code"]) == (status, code)


async def test_an_archive_is_a_tar(client: httpx.AsyncClient, session: Session, service: InMemoryService) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("hello.py"))
    service.workspace["the tar"] = buffer.getvalue()
    answer = await client.get(f"/v1/sessions/{session.id}/archive")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/x-tar")
    assert answer.headers["content-disposition"] == f'attachment; filename="{session.id}.tar"'
    with tarfile.open(fileobj=io.BytesIO(answer.content)) as tar:
        assert tar.getnames() == ["hello.py"]
    assert (await client.get(f"/v1/sessions/{new_id()}/archive")).json()["code"] == "session_not_found"


async def test_an_archive_stops_when_its_reader_leaves(
    server: Server, session: Session, service: InMemoryService
) -> None:
    service.workspace["endless"] = b"x" * 65_536
    async with httpx.AsyncClient(base_url=server.url) as client:
        async with client.stream("GET", f"/v1/sessions/{session.id}/archive") as answer:
            await anext(answer.aiter_raw())
            assert service.readers == 1
        async with asyncio.timeout(60):
            await service.wait_for_readers(0)


@pytest.mark.parametrize(
    ("name", "header"),
    [
        ("a b.txt", 'attachment; filename="a b.txt"'),
        ('a"b.txt', "attachment; filename=\"a_b.txt\"; filename*=UTF-8''a%22b.txt"),
        (
            "a\r\nSet-Cookie: x.txt",
            "attachment; filename=\"a__Set-Cookie_ x.txt\"; filename*=UTF-8''a%0D%0ASet-Cookie%3A%20x.txt",
        ),
        ("größe.txt", "attachment; filename=\"gr__e.txt\"; filename*=UTF-8''gr%C3%B6%C3%9Fe.txt"),
        ("\ud800", "attachment; filename=\"_\"; filename*=UTF-8''%3F"),
        ("50%41", "attachment; filename=\"50_41\"; filename*=UTF-8''50%2541"),
    ],
)
def test_odd_names_are_encoded_safely(name: str, header: str) -> None:
    assert content_disposition(name) == header


@given(st.text(min_size=1))
def test_a_reader_decodes_exactly_the_name(name: str) -> None:
    header = content_disposition(name)
    assert re.fullmatch(r"[\x20-\x7e]+", header)
    plain = re.fullmatch(r"attachment; filename=\"([^\"\\\\]*)\"(?:; filename\*=UTF-8''([\w.%~-]+))?", header)
    assert plain is not None
    assert (unquote(plain[2]) if plain[2] else plain[1]) == name


async def test_a_download_is_named_after_the_last_part_of_the_url(
    app: FastAPI, client: httpx.AsyncClient, session: Session, service: InMemoryService
) -> None:
    service.workspace['dir/a";\rX-Evil: 1'] = b"x"
    answer = await client.get(f"/v1/sessions/{session.id}/files/dir/a%22;%0DX-Evil:%201")
    assert answer.status_code == 200
    assert "x-evil" not in answer.headers


def test_the_default_limits_are_those_of_the_contract() -> None:
    rules = create_app(ApiConfig()).state.config.rules
    assert (rules.max_json_bytes, rules.max_history_bytes) == (1024**2, 64 * 1024**2)
