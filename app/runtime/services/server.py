"""The server itself: its models, usage, whether its parts answer, and the logins of browsers."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Literal

import structlog
from sqlalchemy import Connection

from app.db.engine import Database
from app.db.repositories import nodes, ownership
from app.db.repositories import server_wide as rows
from app.db.repositories.costs import Days
from app.errors import TooManyAttemptsError, WrongKeyError
from app.llm.base import ModelInfo
from app.messages import now
from app.runtime import history
from app.runtime.telemetry.health import Health
from app.runtime.values.server import (
    ModelList,
    ModelView,
    NewLogin,
    NodeList,
    NodeView,
    Readiness,
    UsageReport,
)

TOKEN_BYTES = 32
MAX_LOGINS = 1_000
"""Maximum logins; a new one replaces the oldest, so that a program that logs in for each call does not fill the
disk."""
FAILURES, FAILURES_PER_S = 5, 1.0
"""Wrong keys allowed as a burst, and then per second, by all clients together: plenty for typing by hand."""
KNOWN_S, KNOWN = 5.0, 1_024
"""How long a looked-up login is cached, in seconds, and the cache's size. A logout on another server takes effect after
that time, a logout on this one at once."""
_TOKEN = re.compile(r"[A-Za-z0-9_-]{43}")
log = structlog.get_logger(__name__)


class ServerService:
    """Operations on the server as a whole."""

    def __init__(
        self, database: Database, health: Health, models: Callable[[str], list[ModelInfo]], default_model: str
    ) -> None:
        self._database = database
        self._health = health
        self._models = models
        self._default_model = default_model

    def models(self) -> ModelList:
        default = self._default_model
        offered = self._models(default)
        return ModelList(items=tuple(ModelView.of(info, default=info.name == default) for info in offered))

    async def usage(
        self, *, since: date | None = None, until: date | None = None, group_by: str | None = None
    ) -> UsageReport:
        """Tokens and cost of all sessions on these days, both included; see `history.usage_report`."""
        return await self._database.read(lambda c: history.usage_report(c, Days(since, until), group_by))

    async def nodes(self) -> NodeList:
        """The nodes of the cluster."""
        return await self._database.read(_nodes)

    async def readiness(self) -> Readiness:
        """Whether the server's components work now."""
        return await self._health.readiness()


def _nodes(connection: Connection) -> NodeList:
    found = nodes.listed(connection)
    items = tuple(NodeView.of(each.node, status=_status(each), sessions=each.sessions) for each in found)
    # A server on its own has its own count of those that wait.
    return NodeList(items=items, waiting=ownership.waiting(connection) if items else 0)


def _status(listed: nodes.ListedNode) -> Literal["ready", "draining", "lost"]:
    if listed.lost:
        return "lost"
    return "draining" if listed.node.draining else "ready"


@dataclass(frozen=True, slots=True)
class LoginRules:
    """The server's keys, and how long a login lasts. Without keys there are no logins, and none is needed."""

    keys: tuple[bytes, ...] = field(default=(), repr=False)
    lasts: timedelta = timedelta(days=30)


class LoginService:
    """Opens, checks and ends logins. `clock` is monotonic and counts seconds."""

    def __init__(self, database: Database, rules: LoginRules, clock: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._rules = rules
        self._clock = clock
        self._attempts = Attempts(FAILURES, FAILURES_PER_S, clock)
        self._known: dict[str, tuple[float, str]] = {}
        self._ended = 0

    async def open(self, key: str) -> NewLogin | None:
        """A login for a key; None if the server requires none. Raises `WrongKeyError`, and `TooManyAttemptsError` for
        any key after too many wrong ones."""
        if not self._rules.keys:
            return None
        if not self._attempts.allowed:
            raise TooManyAttemptsError("Too many wrong keys; try again in a second.")
        own = self._own_key(key.strip().encode())
        if own is None:
            self._attempts.failed()
            log.warning("login_refused")
            raise WrongKeyError("That key isn't valid.")
        token, opened = secrets.token_urlsafe(TOKEN_BYTES), now()
        digest = _digest(token)
        login = rows.StoredLogin(digest, _proof(own, digest), opened, opened + self._rules.lasts)
        await self._database.writer.write(lambda c: _store(c, login))
        log.info("login_opened")
        return NewLogin(token, self._rules.lasts)

    async def end(self, token: str) -> None:
        """Ends the login of a token, if there is one. Works on a superseded server too, since it only removes."""
        digest = _digest(token)
        # Looked up first: an unauthenticated client must not be able to cause writes.
        if await self._database.read(lambda c: rows.find_login(c, digest)) is not None:
            await self._database.writer.write(lambda c: rows.remove_login(c, [digest]))
        # A look-up that started before has read old data, which must not be cached after this.
        self._ended += 1
        self._known.pop(digest, None)

    async def is_open(self, token: str) -> bool:
        """Whether a token belongs to a login that has neither ended nor expired, and whose key is still valid. Raises
        `StorageError`."""
        return await self.key_of(token) is not None

    async def key_of(self, token: str) -> str | None:
        """The `key_id` of the key with which a token's login was opened; None unless it `is_open`. Raises
        `StorageError`."""
        if not _TOKEN.fullmatch(token):
            return None
        digest, at = _digest(token), self._clock()
        until, known = self._known.get(digest, (at, None))
        if known is not None and at < until:
            return known
        ended = self._ended
        left, key = await self._database.read(lambda c: self._look_up(c, digest))
        if key is None or left <= 0:
            return None
        if ended == self._ended:
            self._remember(digest, at + min(KNOWN_S, left), key)
        return key

    async def sweep(self) -> None:
        """Removes expired logins, and those whose key is no longer valid."""
        await self._database.writer.write(self._sweep)

    def _sweep(self, connection: Connection) -> None:
        rows.remove_expired_logins(connection, now())
        # A server started without keys cannot tell which logins are invalid: its keys may come back.
        if self._rules.keys:
            stored = rows.newest_logins(connection)
            rows.remove_login(connection, [login.token_digest for login in stored if self._key_of(login) is None])

    def _own_key(self, given: bytes) -> bytes | None:
        """The matching key; every key is compared, in constant time."""
        matching = [key for key in self._rules.keys if hmac.compare_digest(key, given)]
        return matching[0] if matching else None

    def _look_up(self, connection: Connection, digest: str) -> tuple[float, str | None]:
        """The seconds that a login is still valid, and the id of its key."""
        login = rows.find_login(connection, digest)
        if login is None:
            return 0.0, None
        return (login.expires_at - now()).total_seconds(), self._key_of(login)

    def _key_of(self, login: rows.StoredLogin) -> str | None:
        """The id of the key that opened a login; None if that key is no longer valid."""
        proofs = [(key, _proof(key, login.token_digest)) for key in self._rules.keys]
        matching = [key for key, proof in proofs if hmac.compare_digest(login.key_proof, proof)]
        return key_id(matching[0]) if matching else None

    def _remember(self, digest: str, until: float, key: str) -> None:
        self._known.pop(digest, None)
        self._known[digest] = until, key
        while len(self._known) > KNOWN:
            del self._known[next(iter(self._known))]


def _store(connection: Connection, login: rows.StoredLogin) -> None:
    rows.remove_expired_logins(connection, login.created_at)
    stored: Sequence[rows.StoredLogin] = rows.newest_logins(connection)
    rows.remove_login(connection, [old.token_digest for old in stored[MAX_LOGINS - 1 :]])
    rows.add_login(connection, login)


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def key_id(key: bytes) -> str:
    """Distinguishes an API key from others without revealing it: the same on all servers."""
    return hashlib.sha256(b"palimpsest key " + key).hexdigest()[:32]


def _proof(key: bytes, digest: str) -> str:
    """Proves to a holder of the key that it was this one; the digest acts as a salt, so that two proofs differ."""
    return hmac.new(key, digest.encode(), hashlib.sha256).hexdigest()


class Attempts:
    """Allows a burst of `most` failures, and then `per_s` per second. `clock` is monotonic and counts seconds."""

    def __init__(self, most: int, per_s: float, clock: Callable[[], float]) -> None:
        self._most = most
        self._per_s = per_s
        self._clock = clock
        self._left = float(most)
        self._at = clock()

    @property
    def allowed(self) -> bool:
        """Whether another attempt is allowed now."""
        now = self._clock()
        self._left = min(float(self._most), self._left + (now - self._at) * self._per_s)
        self._at = now
        return self._left >= 1

    def failed(self) -> None:
        """Counts a failed attempt."""
        self._left -= 1
