"""Hosts, origins, keys and sizes: what passes the guard, and the responses to the rest."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest
from fastapi import FastAPI
from hypothesis import given
from hypothesis import strategies as st

from app.api.auth import HostPort, host_is_ours, origin_is_ours, parse_allowed, parse_host
from app.api.guard import ApiConfig
from app.api.main import create_app
from app.api.request_bodies import IMAGES_CHARS
from app.sessions import Session
from tests.unit.api.conftest import KEY, ClientFor
from tests.unit.api.double import InMemoryService

ALLOWED = parse_allowed(("agents.example", "Other.example:8443", "fd00::1"))
AUTHORIZED = {"Authorization": f"Bearer {KEY}"}


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LOCALHOST:1",
        "localhost:65535",
        "127.0.0.1",
        "127.255.0.9:8000",
        "[::1]",
        "[::1]:8000",
        "[0:0:0:0:0:0:0:1]:8000",
        "agents.example",
        "Agents.Example:9000",
        "other.example:8443",
        "[fd00::1]",
        "[fd00:0::1]:8000",
    ],
)
def test_accepted_hosts(host: str) -> None:
    assert host_is_ours(parse_host(host), ALLOWED)


@pytest.mark.parametrize(
    "host",
    [
        "",
        " ",
        "localhost ",
        "localhost.",
        "localhost:",
        "localhost:0",
        "localhost:65536",
        "localhost:8000:8000",
        "localhost:+80",
        "localhost:٨٠",
        "sub.localhost",
        "localhost.evil.example",
        "evil.example",
        "agents.example.",
        "agents.example.evil.example",
        "xagents.example",
        "other.example",
        "other.example:443",
        "user@localhost",
        "localhost/path",
        "localhost,evil.example",
        "127.1",
        "127.0.0.01",
        "0127.0.0.1",
        "2130706433",
        "0x7f000001",
        "0.0.0.0",
        "128.0.0.1",
        "::1",
        "[::1",
        "[::]",
        "[1:2]",
        "[::1%25lo]",
        "[::1%lo]",
        "[::ffff:127.0.0.1]",
        "[fd00::2]",
        "lo\u212aalhost",
        "*",
    ],
)
def test_refused_hosts(host: str) -> None:
    assert not host_is_ours(parse_host(host), ALLOWED)


@given(st.text(max_size=40))
def test_no_text_makes_the_host_parser_fail(text: str) -> None:
    host = parse_host(text)
    assert host is None or (host.name == host.name.lower() and "@" not in host.name)


@pytest.mark.parametrize("entry", ["", "http://agents.example", "a b", "agents.example/", "*", "[fd00::1"])
def test_an_invalid_allowed_host_is_refused_at_startup(entry: str) -> None:
    with pytest.raises(ValueError, match="not a host name"):
        ApiConfig(allowed_hosts=(entry,))


@pytest.mark.parametrize(
    ("origin", "host", "ours"),
    [
        ("http://localhost:8000", "localhost:8000", True),
        ("HTTP://LocalHost:8000", "localhost:8000", True),
        ("http://localhost", "localhost:80", True),
        ("http://localhost:80", "localhost", True),
        ("http://[::1]:8000", "[::1]:8000", True),
        ("https://agents.example", "localhost:8000", True),
        ("http://agents.example:3000", "localhost:8000", True),
        ("https://other.example:8443", "localhost:8000", True),
        ("https://other.example", "localhost:8000", False),
        ("http://localhost:3000", "localhost:8000", False),
        ("http://127.0.0.1:8000", "localhost:8000", False),
        ("https://localhost:8000", "localhost:8000", False),
        ("http://localhost:8000/", "localhost:8000", False),
        ("http://user@localhost:8000", "localhost:8000", False),
        ("http://localhost:8000 http://evil.example", "localhost:8000", False),
        ("null", "localhost:8000", False),
        ("", "localhost:8000", False),
        ("file://", "localhost:8000", False),
        ("localhost:8000", "localhost:8000", False),
        ("chrome-extension://localhost:8000", "localhost:8000", False),
        ("http://localhost:99999", "localhost:8000", False),
    ],
)
def test_origins(origin: str, host: str, ours: bool) -> None:
    parsed = parse_host(host)
    assert parsed is not None
    assert origin_is_ours(origin, "http", parsed, ALLOWED) is ours


def test_an_allowed_default_port_matches_an_origin_without_a_port() -> None:
    allowed = parse_allowed(("agents.example:443",))
    assert origin_is_ours("https://agents.example", "http", HostPort("localhost", 8000), allowed)
    assert not origin_is_ours("http://agents.example", "http", HostPort("localhost", 8000), allowed)


async def test_a_foreign_host_is_misdirected(client: httpx.AsyncClient) -> None:
    answer = await client.get("/v1/models", headers={"Host": "evil.example"})
    assert (answer.status_code, answer.json()["code"]) == (421, "wrong_host")
    assert (await client.get("/openapi.json", headers={"Host": "evil.example"})).status_code == 421
    assert (await client.get("/", headers={"Host": "evil.example"})).status_code == 421


@pytest.mark.parametrize("hosts", [[], ["localhost", "localhost"], ["localhost", "evil.example"]])
async def test_there_must_be_exactly_one_host(app: FastAPI, hosts: list[str]) -> None:
    sent = await raw_get(app, "/v1/models", [(b"host", host.encode()) for host in hosts])
    assert sent[0]["status"] == 421


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "Cross-Site", "Origin": "http://localhost:8000"},
    ],
)
async def test_another_site_is_refused(client: httpx.AsyncClient, headers: dict[str, str]) -> None:
    answer = await client.post("/v1/sessions", json={}, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (403, "foreign_origin")


@pytest.mark.parametrize(
    "headers", [{"Origin": "http://localhost:8000"}, {"Sec-Fetch-Site": "same-origin"}, {"Sec-Fetch-Site": "none"}]
)
async def test_the_servers_own_page_may_call(client: httpx.AsyncClient, headers: dict[str, str]) -> None:
    assert (await client.post("/v1/sessions", json={}, headers=headers)).status_code == 201


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
async def test_probes_need_no_key_and_no_known_host(keyed_app: FastAPI, client_for: ClientFor, path: str) -> None:
    headers = {"Host": "10.0.0.7:8000", "Origin": "null", "Sec-Fetch-Site": "cross-site"}
    assert (await client_for(keyed_app).get(path, headers=headers)).status_code == 200


@pytest.mark.parametrize("key", [KEY, "key-two"])
@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
async def test_each_of_the_keys_is_accepted(keyed_app: FastAPI, client_for: ClientFor, scheme: str, key: str) -> None:
    answer = await client_for(keyed_app).get("/v1/models", headers={"Authorization": f"{scheme} {key}"})
    assert answer.status_code == 200


@pytest.mark.parametrize(
    "value",
    [None, "", "Bearer", "Bearer ", "Bearer key", f"Bearer {KEY}x", f"Basic {KEY}", KEY, f"Bearer{KEY}", "Bearer é"],
)
async def test_requests_without_a_valid_key_are_refused(
    keyed_app: FastAPI, client_for: ClientFor, value: str | None
) -> None:
    headers = {} if value is None else {"Authorization": value.encode("utf-8")}
    for path in ("/v1/models", "/metrics", "/openapi.json", "/v1/nothing", "/staticx", "/healthz/"):
        answer = await client_for(keyed_app).get(path, headers=headers)  # type: ignore[arg-type]
        assert (answer.status_code, answer.json()["code"]) == (401, "unauthorized")
        assert answer.headers["www-authenticate"] == "Bearer"


async def test_two_authorization_headers_are_refused(keyed_app: FastAPI) -> None:
    key = (b"authorization", b"Bearer " + KEY.encode())
    assert (await raw_get(keyed_app, "/v1/models", [(b"host", b"localhost"), key]))[0]["status"] == 200
    assert (await raw_get(keyed_app, "/v1/models", [(b"host", b"localhost"), key, key]))[0]["status"] == 401


async def test_the_page_and_its_files_need_no_key(keyed_app: FastAPI, client_for: ClientFor) -> None:
    client = client_for(keyed_app)
    assert (await client.get("/")).status_code == 200
    assert (await client.get("/static/index.html")).status_code == 200
    assert (await client.get("/static/absent.js")).json()["code"] == "not_found"


async def test_the_host_is_checked_before_the_key(keyed_app: FastAPI, client_for: ClientFor) -> None:
    client = client_for(keyed_app)
    assert (await client.get("/v1/models", headers={"Host": "evil.example"})).status_code == 421
    assert (await client.get("/v1/models", headers={"Origin": "null"})).status_code == 403
    allowed = await client.get("/v1/models", headers={"Host": "agents.example", **AUTHORIZED})
    assert allowed.status_code == 200


@pytest.mark.parametrize("bind_host", ["0.0.0.0", "::", "192.168.1.5", "agents.example", ""])
def test_without_a_key_only_loopback_is_bound(bind_host: str) -> None:
    with pytest.raises(ValueError, match="only on loopback"):
        ApiConfig(bind_host=bind_host)
    assert ApiConfig(bind_host=bind_host, api_keys=(KEY,)).bind_host == bind_host


@pytest.mark.parametrize("bind_host", ["127.0.0.1", "127.9.9.9", "::1", "localhost"])
def test_loopback_may_be_bound_without_a_key(bind_host: str) -> None:
    assert ApiConfig(bind_host=bind_host).bind_host == bind_host


def test_the_repr_of_the_config_has_no_keys() -> None:
    assert KEY not in repr(ApiConfig(api_keys=(KEY,)))


@pytest.fixture
def small_app(service: InMemoryService) -> FastAPI:
    config = ApiConfig(max_json_bytes=100, max_history_bytes=300, upload_max_bytes=200)
    return create_app(config, services=service.services)


async def streamed(size: int) -> AsyncIterator[bytes]:
    """`size` bytes without a declared length."""
    for _ in range(size):
        yield b" "


async def test_bodies_over_their_limit_are_too_large(
    small_app: FastAPI, client_for: ClientFor, session: Session
) -> None:
    client, path = client_for(small_app), f"/v1/sessions/{session.id}"
    cases = [
        ("POST", f"{path}/queue", 100 + IMAGES_CHARS),
        ("PATCH", path, 100),
        ("PUT", f"{path}/files/a/b", 200),
        ("POST", "/v1/sessions", 300),
    ]
    for method, target, limit in cases:
        for content in (b" " * (limit + 1), streamed(limit + 1)) if limit < 1_000 else (b" " * (limit + 1),):
            answer = await client.request(method, target, content=content, headers={"Content-Type": "application/json"})
            assert (answer.status_code, answer.json()["code"]) == (413, "too_large"), target
            assert answer.json()["limit_bytes"] == limit


@pytest.mark.parametrize(("headers", "expected"), [({}, 3), ({"palimpsest-node": "x"}, 9)])
async def test_a_forwarded_request_is_answered_after_its_body(
    small_app: FastAPI, client_for: ClientFor, session: Session, headers: dict[str, str], expected: int
) -> None:
    read = 0

    async def pieces() -> AsyncIterator[bytes]:
        nonlocal read
        for _ in range(9):
            read += 1
            yield bytes(100)

    path = f"/v1/sessions/{session.id}/files/a"
    answer = await client_for(small_app).put(path, content=pieces(), headers=headers)
    assert (answer.status_code, read) == (413, expected)


async def test_an_upload_of_exactly_the_limit_is_accepted(
    small_app: FastAPI, client_for: ClientFor, session: Session
) -> None:
    for content in (b" " * 200, streamed(200)):
        path = f"/v1/sessions/{session.id}/files/a"
        assert (await client_for(small_app).put(path, content=content)).status_code in (201, 204)


async def test_only_a_history_may_exceed_the_json_limit(small_app: FastAPI, client_for: ClientFor) -> None:
    client = client_for(small_app)
    large = await client.post("/v1/sessions", json={"title": "x" * 150})
    assert (large.status_code, large.json()["limit_bytes"]) == (413, 100)
    history = {"format": "openai", "messages": [{"role": "user", "content": "x" * 150}]}
    assert (await client.post("/v1/sessions", json={"history": history})).status_code == 201


@pytest.mark.parametrize("length", [b"-1", b"1e3", b"9" * 30, b"", "٣".encode()])
async def test_an_invalid_length_is_malformed(app: FastAPI, length: bytes) -> None:
    sent = await raw_get(app, "/v1/models", [(b"host", b"localhost"), (b"content-length", length)])
    assert sent[0]["status"] == 400


async def test_websockets_are_closed(app: FastAPI) -> None:
    sent: list[dict[str, object]] = []

    async def send(message: dict[str, object]) -> None:
        sent.append(message)

    async def receive() -> dict[str, object]:
        return {"type": "websocket.connect"}

    await app({"type": "websocket", "path": "/v1/events", "headers": []}, receive, send)  # type: ignore[arg-type]
    assert sent == [{"type": "websocket.close", "code": 1008}]


async def raw_get(app: FastAPI, path: str, headers: list[tuple[bytes, bytes]]) -> list[dict[str, object]]:
    """What the application sends for a GET with exactly these headers, which an HTTP client would refuse to send."""
    sent: list[dict[str, object]] = []
    scope = {
        "type": "http",
        "method": "GET",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": headers,
        "scheme": "http",
        "http_version": "1.1",
        "root_path": "",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8000),
    }

    async def send(message: dict[str, object]) -> None:
        sent.append(message)

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": b"", "more_body": False}

    await app(scope, receive, send)  # type: ignore[arg-type]
    return sent
