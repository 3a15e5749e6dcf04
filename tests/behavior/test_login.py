"""A browser sends a key once; a cookie replaces it from then on."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator

import httpx
import pytest
from pydantic import SecretStr

from tests.behavior.conftest import StartServer
from tests.behavior.harness import Client, RunningServer, of_type, read_events
from tests.behavior.test_bad_input import assert_refused
from tests.databases import opened
from tests.provider import FakeProvider, Gate, Reply, Text

KEY, OTHER = "first-key-of-the-test", "second-key-of-the-test"
KEYS = (SecretStr(KEY), SecretStr(OTHER))
HOST = "agents.example"
MONTH_S = 30 * 24 * 3600
FELT_S = 5
"""Seconds within which a stream ends with its login, even on a slow machine."""


@pytest.fixture
def keyed(server_with: StartServer) -> RunningServer:
    return server_with(api_keys=KEYS, allowed_hosts=(HOST,))


@pytest.fixture
async def browser(keyed: RunningServer) -> AsyncIterator[Client]:
    """A client that keeps cookies and has no key."""
    async with Client(keyed.url) as client:
        yield client


async def log_in(client: Client, key: str = KEY, **headers: str) -> httpx.Response:
    return await client.http.post("/v1/login", json={"key": key}, headers=headers)


async def is_let_in(client: Client) -> bool:
    answer = await client.http.get("/v1/sessions")
    if answer.status_code != 200:
        assert_refused(answer, 401, "unauthorized")
    return answer.status_code == 200


def cookie_of(answer: httpx.Response) -> tuple[str, str, list[str]]:
    """Name, value and attributes of the cookie that an answer sets."""
    pair, *attributes = answer.headers["set-cookie"].split("; ")
    name, _, value = pair.partition("=")
    return name, value, sorted(attributes)


def stored(server: RunningServer) -> list[tuple[object, ...]]:
    """All rows of logins."""
    with opened(server.settings.data_dir / "palimpsest.db") as database:
        return [tuple(row) for row in database.exec_driver_sql("select * from logins")]


async def test_a_valid_key_starts_a_login(browser: Client, keyed: RunningServer) -> None:
    assert not await is_let_in(browser)
    answer = await log_in(browser)
    assert (answer.status_code, answer.content) == (204, b"")
    name, token, attributes = cookie_of(answer)
    assert name == f"palimpsest_login_{keyed.url.rpartition(':')[2]}"
    assert attributes == ["HttpOnly", f"Max-Age={MONTH_S}", "Path=/", "SameSite=Strict"]
    assert re.fullmatch(r"[A-Za-z0-9_-]{43}", token), "256 bits"
    assert await is_let_in(browser)
    session, events = await browser.run("say hello")
    assert (session["outcome"], events[-1].type) == ("completed", "session.idle")
    assert (await browser.http.get("/openapi.json")).status_code == 200
    assert (await browser.http.get("/metrics")).status_code == 200


async def test_whitespace_around_a_pasted_key_is_ignored(browser: Client) -> None:
    assert (await log_in(browser, f" {OTHER}\n")).status_code == 204
    assert await is_let_in(browser)


async def test_stored_data_grants_no_access(browser: Client, keyed: RunningServer) -> None:
    before = stored(keyed)
    tokens = {cookie_of(await log_in(browser))[1] for _ in range(3)}
    assert len(tokens) == 3
    rows = [row for row in stored(keyed) if row not in before]
    assert len(rows) == 3
    cells = {str(cell) for row in rows for cell in row}
    assert not [cell for cell in cells for secret in (*tokens, KEY, OTHER) if secret in cell]
    assert len({row[1] for row in rows}) == 3, "nor do logins with the same key look alike"
    for digest in cells:
        browser.http.cookies.clear()
        browser.http.headers["Cookie"] = f"palimpsest_login_{keyed.url.rpartition(':')[2]}={digest}"
        assert not await is_let_in(browser)


@pytest.mark.parametrize(
    ("headers", "secure"),
    [
        ({}, False),
        ({"Origin": f"http://{HOST}"}, False),
        ({"Origin": f"https://{HOST}"}, True),
        ({"X-Forwarded-Proto": "https"}, True),
    ],
)
async def test_over_https_the_cookie_stays_there(browser: Client, headers: dict[str, str], secure: bool) -> None:
    for answer in (await log_in(browser, Host=HOST, **headers), await log_out(browser, Host=HOST, **headers)):
        name, _, attributes = cookie_of(answer)
        assert name == "palimpsest_login", "no port, no port in the name"
        assert ("Secure" in attributes) == secure


async def log_out(client: Client, **headers: str) -> httpx.Response:
    answer = await client.http.delete("/v1/login", headers=headers)
    assert (answer.status_code, answer.content) == (204, b"")
    return answer


async def test_a_logout_takes_effect_at_once(browser: Client, keyed: RunningServer) -> None:
    before = stored(keyed)
    await log_in(browser)
    token = cookie_of(await log_in(browser))[1]
    cookies = dict(browser.http.cookies)
    assert await is_let_in(browser)
    name, value, attributes = cookie_of(await log_out(browser))
    assert (value, attributes) == ("", ["HttpOnly", "Max-Age=0", "Path=/", "SameSite=Strict"])
    assert not browser.http.cookies
    browser.http.cookies.update(cookies)
    assert cookies == {name: token}
    assert not await is_let_in(browser), "a copy of the cookie is worth nothing"
    await log_out(browser)
    await log_out(browser)
    assert len(stored(keyed)) == len(before) + 1, "only that login has ended"


async def test_a_login_outlives_a_restart_and_ends_with_its_key(start_server: StartServer) -> None:
    server = start_server(api_keys=KEYS)
    async with Client(server.url) as client:
        tokens = [cookie_of(await log_in(client, key))[1] for key in (KEY, OTHER)]
    for keys, let_in in (((OTHER, KEY), [True, True]), ((OTHER,), [False, True]), ((KEY, OTHER), [False, True])):
        await asyncio.to_thread(server.stop)
        server = await asyncio.to_thread(lambda keys=keys: start_server(api_keys=[SecretStr(key) for key in keys]))  # type: ignore[misc]
        async with Client(server.url) as client:
            assert [await shows(client, token) for token in tokens] == let_in


async def shows(client: Client, token: str) -> bool:
    """Whether a token is accepted, under the cookie's name at the client's address."""
    client.http.cookies.clear()
    client.http.cookies.set(f"palimpsest_login_{client.http.base_url.port}", token)
    return await is_let_in(client)


async def test_a_start_without_keys_ends_no_login(start_server: StartServer) -> None:
    server = start_server(api_keys=KEYS)
    async with Client(server.url) as client:
        token = cookie_of(await log_in(client))[1]
    for keys in ((), KEYS):
        await asyncio.to_thread(server.stop)
        server = await asyncio.to_thread(lambda keys=keys: start_server(api_keys=keys))  # type: ignore[misc]
    async with Client(server.url) as client:
        assert await shows(client, token)


async def test_how_long_it_lasts_is_a_setting(start_server: StartServer) -> None:
    server = start_server(api_keys=KEYS, login_days=0.5)
    async with Client(server.url) as client:
        assert f"Max-Age={12 * 3600}" in cookie_of(await log_in(client))[2]


async def test_invalid_keys_are_rate_limited(start_server: StartServer) -> None:
    """For everyone who logs in, but not for clients already logged in."""
    url = start_server(api_keys=KEYS).url
    async with Client(url) as browser, Client(url) as stranger, Client(url, key=KEY) as client:
        await log_in(browser)
        answers = [await log_in(stranger, f"guess {n}") for n in range(20)]
        refused = [answer for answer in answers if answer.status_code == 401]
        for answer in refused:
            assert_refused(answer, 401, "wrong_key")
            assert "set-cookie" not in answer.headers
        # The allowance that accrues while they are sent is small.
        assert 5 <= len(refused) < 15
        # The right key is refused too; on a slow machine, one attempt may be allowed again by now.
        late = (await asyncio.gather(*(log_in(stranger) for _ in range(5))))[-1]
        assert "wrong keys" in assert_refused(late, 429, "too_many_attempts")["detail"]
        assert answers[-1].headers["retry-after"] == "1"
        assert await is_let_in(browser)
        assert await is_let_in(client)
        async with asyncio.timeout(60):
            while (await log_in(stranger)).status_code == 429:  # noqa: ASYNC110 - the time that passes is the server's
                await asyncio.sleep(0.1)
        assert await is_let_in(stranger)


@pytest.mark.parametrize("body", [{}, {"key": ""}, {"key": 1}, {"key": None}, {"key": "x" * 1001}, {"token": KEY}])
async def test_invalid_keys_are_refused(browser: Client, body: dict[str, object]) -> None:
    assert_refused(await browser.http.post("/v1/login", json=body), 422, "validation_error")


@pytest.mark.parametrize("form", [{"data": {"key": KEY}}, {"content": f'{{"key": "{KEY}"}}'}])
async def test_a_form_of_another_site_cannot_log_in(browser: Client, form: dict[str, object]) -> None:
    assert_refused(await browser.http.post("/v1/login", **form), 415, "unsupported_media_type")  # type: ignore[arg-type]


async def test_other_sites_cannot_use_the_cookie(browser: Client) -> None:
    await log_in(browser)
    for headers in ({"Origin": "https://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}):
        for method, path in (("GET", "/v1/sessions"), ("POST", "/v1/sessions"), ("DELETE", "/v1/login")):
            assert_refused(await browser.http.request(method, path, headers=headers), 403, "foreign_origin")
    assert_refused(await browser.http.get("/v1/sessions", headers={"Host": "evil.example"}), 421, "wrong_host")
    assert_refused(await log_in(browser, Origin="https://evil.example"), 403, "foreign_origin")
    assert await is_let_in(browser)


async def test_a_response_to_a_cookie_is_private(browser: Client) -> None:
    await log_in(browser)
    for path in ("/v1/sessions", "/v1/models", "/openapi.json", "/metrics", "/v1/nothing"):
        headers = (await browser.http.get(path)).headers
        assert headers["cache-control"] == "no-store"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert headers["x-content-type-options"] == "nosniff"


async def test_the_password_of_a_proxy_does_not_disable_the_cookie(browser: Client) -> None:
    await log_in(browser)
    for authorization in ("Basic dXNlcjpwYXNz", "Bearer wrong", ""):
        answer = await browser.http.get("/v1/sessions", headers={"Authorization": authorization})
        assert answer.status_code == 200


async def test_only_the_servers_own_cookie_counts(browser: Client, keyed: RunningServer) -> None:
    token, port = cookie_of(await log_in(browser))[1], keyed.url.rpartition(":")[2]
    browser.http.cookies.clear()
    own = f"palimpsest_login_{port}"
    for value in (
        f"{own}={token[:-1]}",
        f"{own}={token}x",
        f"{own}=",
        f'{own}="{token}"',
        f"x{own}={token}",
        f"palimpsest_login={token}",
        f"{own}1={token}",
        f"a={own}={token}",
        f"{own.upper()}={token}",
        own,
        ";;;",
        "=" * 1000,
        "\xe9=\xe9",
    ):
        answer = await browser.http.get("/v1/sessions", headers=[(b"Cookie", value.encode("latin-1"))])
        assert_refused(answer, 401, "unauthorized")
    for value in (f"theme=dark; {own}={token}", f"{own}={token};x", f"{own}={'t' * 43}; {own}={token}"):
        assert (await browser.http.get("/v1/sessions", headers={"Cookie": value})).status_code == 200


async def test_a_stream_ends_with_its_login(browser: Client, keyed: RunningServer, provider: FakeProvider) -> None:
    """Otherwise its reader would keep seeing all events."""
    await log_in(browser)
    provider.script(Reply(Gate("wait"), Text("Hello.")))
    session = await browser.create("say hello")
    await provider.reached("wait")
    cookies = dict(browser.http.cookies)
    async with (
        Client(keyed.url, key=KEY) as other,
        browser.http.stream("GET", "/v1/events") as all_sessions,
        browser.http.stream("GET", f"/v1/sessions/{session['id']}/events") as one,
        other.http.stream("GET", f"/v1/sessions/{session['id']}/events") as unaffected,
    ):
        assert {answer.status_code for answer in (all_sessions, one, unaffected)} == {200}
        await log_out(browser)
        async with asyncio.timeout(FELT_S):
            seen = [event async for event in read_events(one)]
            assert [event async for event in read_events(all_sessions)] == []
        assert [event.type for event in of_type(seen, "session.idle")] == []
        assert seen[0].type == "session.created"
        provider.open("wait")
        async for event in read_events(unaffected):
            if event.type == "session.idle":
                break
    browser.http.cookies.update(cookies)
    assert_refused(await browser.http.get("/v1/events"), 401, "unauthorized")


async def test_a_new_session_is_followed_with_the_cookie(browser: Client) -> None:
    await log_in(browser)
    body, headers = {"task": "say hello"}, {"Accept": "text/event-stream"}
    async with browser.http.stream("POST", "/v1/sessions", json=body, headers=headers) as answer:
        events = [event async for event in read_events(answer)]
    assert events[-1].data["outcome"] == "completed"


@pytest.mark.shared_server
async def test_a_server_without_keys_requires_no_login(client: Client, server: RunningServer) -> None:
    answer = await log_in(client, "anything")
    assert answer.status_code == 204
    assert "set-cookie" not in answer.headers
    await log_out(client)
    assert stored(server) == []
    assert await is_let_in(client)
