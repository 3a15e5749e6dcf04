"""Logins: how long they are valid, how soon a logout takes effect, and how many are kept."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from app.db.engine import Database
from app.db.repositories import server_wide as rows
from app.errors import TooManyAttemptsError, WrongKeyError
from app.messages import now
from app.runtime.services import LoginRules, LoginService
from app.runtime.services.server import FAILURES, KNOWN, KNOWN_S, MAX_LOGINS, Attempts
from tests.unit.runtime.stage import Stage

KEY = "the-key"
RULES = LoginRules((b"another", KEY.encode()))


class Clock:
    """A clock that only advances when set."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def database(stage: Stage) -> Database:
    return stage.database


@pytest.fixture
def logins(database: Database, clock: Clock) -> LoginService:
    return LoginService(database, RULES, clock)


async def opened(logins: LoginService, key: str = KEY) -> str:
    login = await logins.open(key)
    assert login is not None
    return login.token


async def test_neither_a_login_nor_its_rules_reveal_their_secret(logins: LoginService) -> None:
    login = await logins.open(KEY)
    assert login is not None
    assert login.token not in repr(login)
    assert KEY not in repr(RULES)


async def test_an_expired_login_is_invalid_and_removed_with_the_next(database: Database, clock: Clock) -> None:
    expired = LoginService(database, LoginRules(RULES.keys, timedelta(seconds=-1)), clock)
    token = await opened(expired)
    assert not await expired.is_open(token)
    assert not await LoginService(database, RULES, clock).is_open(token)
    fresh = await opened(LoginService(database, RULES, clock))
    (left,) = await database.read(rows.newest_logins)
    assert await expired.is_open(fresh), "each lasts as long as set when it was opened"
    assert left.expires_at - left.created_at == RULES.lasts


async def test_a_sweep_removes_expired_logins_and_those_without_a_key(database: Database, clock: Clock) -> None:
    await opened(LoginService(database, LoginRules(RULES.keys, timedelta(seconds=-1)), clock))
    await opened(LoginService(database, RULES, clock), "another")
    kept = await opened(LoginService(database, RULES, clock))
    await LoginService(database, LoginRules(), clock).sweep()
    assert len(await database.read(rows.newest_logins)) == 2, "without keys it is unknown which are invalid"
    fewer = LoginService(database, LoginRules((KEY.encode(),)), clock)
    await fewer.sweep()
    assert len(await database.read(rows.newest_logins)) == 1
    assert await fewer.is_open(kept)


async def test_a_look_up_is_cached_for_a_while(database: Database, clock: Clock) -> None:
    here, there = LoginService(database, RULES, clock), LoginService(database, RULES, clock)
    token = await opened(here)
    assert await there.is_open(token)
    await here.end(token)
    assert not await here.is_open(token), "at once where it was ended"
    assert await there.is_open(token)
    clock.now += KNOWN_S
    assert not await there.is_open(token)


async def test_the_cache_does_not_outlive_the_login(database: Database, clock: Clock) -> None:
    logins = LoginService(database, LoginRules(RULES.keys, timedelta(seconds=KNOWN_S / 2)), clock)
    token = await opened(logins)
    assert await logins.is_open(token)
    clock.now += KNOWN_S / 2
    # The database's own clock has not moved, so it was looked up again.
    reads = 0
    read = database.read

    async def counted(query: object) -> object:
        nonlocal reads
        reads += 1
        return await read(query)  # type: ignore[arg-type]

    database.read = counted  # type: ignore[method-assign,assignment]
    assert await logins.is_open(token)
    assert await logins.is_open(token)
    assert reads == 1


async def test_a_look_up_started_before_a_logout_is_not_cached_after_it(
    database: Database, logins: LoginService
) -> None:
    token = await opened(logins)
    looks = [asyncio.create_task(logins.is_open(token)) for _ in range(20)]
    await asyncio.gather(logins.end(token), *looks)
    assert not await logins.is_open(token)


async def test_unauthenticated_clients_cause_no_writes(database: Database, logins: LoginService) -> None:
    await opened(logins)
    before = database.writer.writes
    for token in ("", "x", "t" * 43, "\x00" * 43, "é" * 43):
        assert not await logins.is_open(token)
        await logins.end(token)
    with pytest.raises(WrongKeyError):
        await logins.open("wrong")
    assert database.writer.writes == before


async def test_logins_and_cache_are_bounded(database: Database, logins: LoginService) -> None:
    first = await opened(logins)
    old = [
        rows.StoredLogin(f"{n:064}", "0" * 64, now() - timedelta(hours=1), now() + timedelta(days=1))
        for n in range(MAX_LOGINS + 20)
    ]
    for login in old:
        await database.writer.write(lambda c, login=login: rows.add_login(c, login))  # type: ignore[misc]
    last = await opened(logins)
    assert len(await database.read(rows.newest_logins)) == MAX_LOGINS
    assert await logins.is_open(first)
    assert await logins.is_open(last)
    for n in range(KNOWN + 10):
        logins._remember(str(n), 2_000.0, "key")
    assert len(logins._known) == KNOWN


async def test_wrong_keys_are_rate_limited(logins: LoginService, clock: Clock) -> None:
    for _ in range(FAILURES):
        with pytest.raises(WrongKeyError):
            await logins.open("wrong")
    for key in ("wrong", KEY):
        with pytest.raises(TooManyAttemptsError):
            await logins.open(key)
    clock.now += 1
    assert await logins.open(KEY), "a valid key is not counted"
    with pytest.raises(WrongKeyError):
        await logins.open("wrong")
    with pytest.raises(TooManyAttemptsError):
        await logins.open("wrong")


def test_attempts_refill_up_to_their_maximum(clock: Clock) -> None:
    attempts = Attempts(2, 0.5, clock)
    for waited, allowed in ((0, True), (0, True), (0, False), (1, False), (1, True), (0, False), (100, True)):
        clock.now += waited
        assert attempts.allowed is allowed
        if allowed:
            attempts.failed()
    assert attempts.allowed
    attempts.failed()
    assert not attempts.allowed
