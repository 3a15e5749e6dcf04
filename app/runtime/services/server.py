"""The server itself: its models, usage, whether its parts answer, and the logins of browsers."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

import structlog
from sqlalchemy import Connection

from app.db.engine import Database
from app.db.repositories import server_wide as rows
from app.errors import TooManyAttemptsError, WrongKeyError
from app.llm.base import ModelInfo
from app.messages import now
from app.runtime import history
from app.runtime.telemetry.health import Health
from app.runtime.values.server import ModelList, ModelView, NewLogin, Readiness, UsageReport

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

    async def usage(self) -> UsageReport:
        """Tokens and cost of all sessions."""
        return await self._database.read(history.usage_report)

    async def readiness(self) -> Readiness:
        """Whether the server's components work now."""
        return await self._health.readiness()


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
        self._known: dict[str, float] = {}
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
        if not _TOKEN.fullmatch(token):
            return False
        digest, at = _digest(token), self._clock()
        if at < self._known.get(digest, at):
            return True
        ended = self._ended
        left = await self._database.read(lambda c: self._seconds_left(c, digest))
        if left > 0 and ended == self._ended:
            self._remember(digest, at + min(KNOWN_S, left))
        return left > 0

    async def sweep(self) -> None:
        """Removes expired logins, and those whose key is no longer valid."""
        await self._database.writer.write(self._sweep)

    def _sweep(self, connection: Connection) -> None:
        rows.remove_expired_logins(connection, now())
        # A server started without keys cannot tell which logins are invalid: its keys may come back.
        if self._rules.keys:
            stored = rows.newest_logins(connection)
            rows.remove_login(connection, [login.token_digest for login in stored if not self._has_key_of(login)])

    def _own_key(self, given: bytes) -> bytes | None:
        """The matching key; every key is compared, in constant time."""
        matching = [key for key in self._rules.keys if hmac.compare_digest(key, given)]
        return matching[0] if matching else None

    def _seconds_left(self, connection: Connection, digest: str) -> float:
        login = rows.find_login(connection, digest)
        if login is None or not self._has_key_of(login):
            return 0.0
        return (login.expires_at - now()).total_seconds()

    def _has_key_of(self, login: rows.StoredLogin) -> bool:
        proofs = [_proof(key, login.token_digest) for key in self._rules.keys]
        matches = [hmac.compare_digest(login.key_proof, proof) for proof in proofs]
        return any(matches)

    def _remember(self, digest: str, until: float) -> None:
        self._known.pop(digest, None)
        self._known[digest] = until
        while len(self._known) > KNOWN:
            del self._known[next(iter(self._known))]


def _store(connection: Connection, login: rows.StoredLogin) -> None:
    rows.remove_expired_logins(connection, login.created_at)
    stored: Sequence[rows.StoredLogin] = rows.newest_logins(connection)
    rows.remove_login(connection, [old.token_digest for old in stored[MAX_LOGINS - 1 :]])
    rows.add_login(connection, login)


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


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
