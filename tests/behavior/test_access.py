"""Access control: hosts, origins and keys, on every route of the real server."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest
from pydantic import SecretStr

from app.server import StartError, bind
from app.settings import Settings
from tests.behavior.combinations import first_of
from tests.behavior.conftest import StartServer
from tests.behavior.harness import Client, RunningServer
from tests.behavior.test_bad_input import UNKNOWN, assert_refused

pytestmark = pytest.mark.shared_server

KEY, SECOND = "first-key-of-the-test", "second-key-of-the-test"
PROBES = ("/healthz", "/readyz")


@pytest.fixture
async def keyed(server_with: StartServer) -> AsyncIterator[Client]:
    """A client without a key, of a server that requires one."""
    server = server_with(api_keys=(SecretStr(KEY), SecretStr(SECOND)), allowed_hosts=("agents.example",))
    async with Client(server.url) as client:
        yield client


async def operations(client: Client) -> list[tuple[str, str]]:
    """Every method and path that the server documents, and the undocumented ones it serves."""
    document = (await client.http.get("/openapi.json")).raise_for_status().json()
    names = {"round": "1", "session_id": UNKNOWN, "message_id": UNKNOWN, "call_id": "x", "path": "a/b", "name": "X"}
    ids = ("command_id", "checkpoint_id", "webhook_id", "delivery_id")
    names |= {"digest": "0" * 64, **dict.fromkeys(ids, UNKNOWN)}
    found = [(method, path.format(**names)) for path, methods in document["paths"].items() for method in methods]
    assert len(found) > 20
    others = ("/", "/docs", "/openapi.json", "/openapi-3.2.json", "/static/none.js", "/nothing")
    return [*found, *(("get", path) for path in others)]


@first_of(
    2,
    host=[
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "evil.example:80",
        "0.0.0.0",
        "[::2]",
        "127.1",
        "2130706433",
        "localhost@evil.example",
        "",
    ],
)
async def test_a_foreign_host_is_refused_on_every_route(client: Client, host: str) -> None:
    for method, path in await operations(client):
        if path not in PROBES:
            assert_refused(await client.http.request(method, path, headers={"Host": host}), 421, "wrong_host")


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost.evil.example"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "file://"},
        {"Sec-Fetch-Site": "cross-site"},
    ],
    ids=str,
)
async def test_a_foreign_page_is_refused_on_every_route(client: Client, headers: dict[str, str]) -> None:
    for method, path in await operations(client):
        if path not in PROBES:
            assert_refused(await client.http.request(method, path, headers=headers), 403, "foreign_origin")
    assert (await client.get("/v1/sessions"))["items"] == []


async def test_a_preflight_grants_nothing(client: Client) -> None:
    headers = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
    answer = await client.http.options("/v1/sessions", headers=headers)
    assert_refused(answer, 403, "foreign_origin")
    assert not [name for name in answer.headers if name.lower().startswith("access-control")]


async def test_the_page_of_the_server_may_call(client: Client) -> None:
    own = str(client.http.base_url).rstrip("/")
    for headers in ({"Origin": own}, {"Sec-Fetch-Site": "same-origin"}, {"Sec-Fetch-Site": "none"}):
        assert (await client.http.post("/v1/sessions", json={}, headers=headers)).status_code == 201


async def test_an_allowed_host_and_its_origin_may_call(keyed: Client) -> None:
    headers = {"Host": "agents.example", "Origin": "https://agents.example", "Authorization": f"Bearer {KEY}"}
    assert (await keyed.http.get("/v1/sessions", headers=headers)).status_code == 200
    assert_refused(
        await keyed.http.get("/v1/sessions", headers={**headers, "Host": "x.agents.example"}), 421, "wrong_host"
    )


@first_of(
    2,
    authorization=[
        None,
        f"Bearer {KEY}x",
        "",
        "Bearer",
        "Bearer wrong",
        f"Basic {KEY}",
        KEY,
        f"Bearer {KEY[:-1]}",
        f"Bearer {KEY.upper()}",
        f"Bearer {KEY},{SECOND}",
    ],
)
async def test_without_a_valid_key_nothing_is_revealed(
    client: Client, keyed: Client, authorization: str | None
) -> None:
    headers = {} if authorization is None else {"Authorization": authorization}
    # The shared server has made its document already, which takes longer than all requests.
    for method, path in await operations(client):
        answer = await keyed.http.request(method, path, headers=headers)
        if path in PROBES or path in ("/", "/docs"):
            assert answer.status_code == 200
        elif path == "/v1/login":
            # These accept a key, or end no login.
            assert answer.status_code == (204 if method == "delete" else 422)
        elif path.startswith("/static/"):
            assert answer.status_code == 404
        else:
            assert_refused(answer, 401, "unauthorized")
            assert answer.headers["www-authenticate"] == "Bearer"


async def test_two_keys_at_once_are_refused(keyed: Client) -> None:
    headers = [("Authorization", f"Bearer {KEY}"), ("Authorization", f"Bearer {SECOND}")]
    assert_refused(await keyed.http.get("/v1/sessions", headers=headers), 401, "unauthorized")


async def test_a_key_in_the_query_is_ignored(keyed: Client) -> None:
    assert_refused(await keyed.http.get(f"/v1/sessions?key={KEY}&api_key={KEY}"), 401, "unauthorized")


@pytest.mark.parametrize("key", [KEY, SECOND])
async def test_each_key_opens_the_server(keyed: Client, key: str) -> None:
    async with Client(str(keyed.http.base_url), key=key) as client:
        session, events = await client.run("say hello")
        assert (session["outcome"], events[-1].type) == ("completed", "session.idle")
        assert (await client.get("/openapi.json"))["openapi"].startswith("3.")


async def test_a_server_without_keys_is_open_to_loopback(client: Client) -> None:
    assert (await client.http.get("/v1/sessions")).status_code == 200
    for path in PROBES:
        assert (await client.http.get(path, headers={"Host": "10.0.0.5", "Origin": "null"})).status_code == 200


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org", ""])
def test_without_keys_the_server_binds_only_loopback(host: str) -> None:
    with pytest.raises(StartError) as refused:
        bind(Settings(_env_file=None, host=host, port=0))
    assert refused.value.code == "key_required"
    assert "PALIMPSEST_API_KEYS" in refused.value.detail


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.0.0.2"])
def test_loopback_needs_no_key(host: str) -> None:
    with bind(Settings(_env_file=None, host=host, port=0)) as listener:
        assert listener.getsockname()[0].startswith("127.")


HANDSHAKE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Version": "13",
}


@pytest.mark.parametrize(("method", "body"), [("GET", b""), ("HEAD", b"{}"), ("POST", b'{"task": "x"}')])
async def test_a_websocket_is_refused(server: RunningServer, method: str, body: bytes) -> None:
    """At once, although an unexpected body follows."""
    async with httpx.AsyncClient(base_url=server.url, trust_env=False, timeout=20) as http:
        answer = await http.request(method, "/v1/events", headers=HANDSHAKE, content=body)
        assert answer.status_code == 403
