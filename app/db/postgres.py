"""Postgres: its connections through psycopg, which is imported only on use; and what its errors mean."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from sqlalchemy import URL, Connection, Engine, Integer, String, create_engine, event
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool, Pool, QueuePool

from app.db.dialects import JsonText
from app.db.errors import reason
from app.db.lanes import LANE_PER_SESSION
from app.errors import StorageBusyError, StorageError, StorageFullError

OLDEST = 14
"""The oldest major version that Palimpsest is for."""

LOCK_TIMEOUT_MS = 5_000
"""How long a write waits for a lock, as with SQLite."""

IDLE_WRITE_MS = 2_000
"""How long an open transaction may wait for its process before Postgres ends it: a frozen process keeps its locks that
long."""

IDLE_READ_MS = 60_000
"""As `IDLE_WRITE_MS`; a reader has no locks that others wait for, and may take long to use what it has read."""

STATEMENT_TIMEOUT_MS = 30_000
"""An import of tens of megabytes takes some seconds."""

SILENCE_S = 35.0
"""Seconds without an answer after which a connection is given up: a server that works ends each statement before."""

CHECKOUT_S = 10.0
"""Seconds that a thread waits for a connection while all are in use."""

CONNECTION = {
    "connect_timeout": 5,
    # A server that disappeared without a word is noticed within about 20 seconds.
    "keepalives_idle": 5,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
    "application_name": "palimpsest",
}

_MIGRATION_LOCK = "SELECT pg_advisory_lock(hashtextextended('palimpsest migration', 0))"

_BUSY = ("40001", "40P01", "55P03", "57014")
"""Serialization failure, deadlock, lock not available, statement timeout."""
_FULL = ("53100",)
"""Disk full."""

_QUOTING = ("22P02", "22P05", "22003", "22007", "22008")
"""Errors whose messages quote a value: invalid texts of numbers and times."""

_STATE = (
    "SELECT current_setting('server_version_num'), current_setting('server_encoding'),"
    " pg_database_size(current_database())"
)


class ServerState(NamedTuple):
    """The version of a server, and the bytes of the database."""

    version: str
    bytes: int


def error_kind(sqlstate: str | None) -> type[StorageError]:
    """What a refusal of Postgres means."""
    if sqlstate in _BUSY:
        return StorageBusyError
    return StorageFullError if sqlstate in _FULL else StorageError


class PostgresServer:
    """A database of a Postgres server. A URL may name any driver for Postgres; psycopg is always used, synchronously:
    transactions run in Palimpsest's own threads, one thread hop each."""

    lanes = LANE_PER_SESSION
    reads_again = True
    folder = None

    def __init__(self, url: URL, silence_s: float = SILENCE_S) -> None:
        """Raises `StorageError` if the driver is not installed."""
        self._silence_s = silence_s
        self._url = url.set(drivername="postgresql+psycopg")
        _require_driver()

    def __str__(self) -> str:
        """Where it is, without user and password."""
        host = self._url.host or self._url.query.get("host") or "localhost"
        port = f":{self._url.port}" if self._url.port else ""
        return f"{self._url.database or 'of the user'} at {host}{port}"

    def writing(self) -> Engine:
        """Connections for the lanes."""
        engine = self._pooled(LANE_PER_SESSION.connections)
        _set_on_connect(
            engine,
            lock_timeout=LOCK_TIMEOUT_MS,
            idle_in_transaction_session_timeout=IDLE_WRITE_MS,
            statement_timeout=STATEMENT_TIMEOUT_MS,
        )
        return engine

    def reading(self, connections: int) -> Engine:
        """Connections that cannot write, and whose transactions see one state."""
        engine = self._pooled(connections)
        _set_on_connect(
            engine,
            reads_only=True,
            lock_timeout=LOCK_TIMEOUT_MS,
            idle_in_transaction_session_timeout=IDLE_READ_MS,
            statement_timeout=STATEMENT_TIMEOUT_MS,
        )
        return engine

    def migrating(self) -> Engine:
        return self._engine(NullPool)

    def refuse_unusable(self, connection: Connection) -> None:
        """Raises `StorageError` if the server is too old, or does not store UTF-8."""
        self._examine(connection)

    @contextmanager
    def migration(self, connection: Connection) -> Iterator[None]:
        """Waits for other processes that migrate the database; the connection's end lets the next one begin."""
        connection.exec_driver_sql(_MIGRATION_LOCK)
        connection.commit()
        yield

    def examine(self) -> ServerState:
        """What the server says of itself. Raises `StorageError` if it cannot be used. Blocks."""
        engine = self.migrating()
        try:
            with engine.connect() as connection:
                return self._examine(connection)
        except DBAPIError as error:
            raise StorageError(f"The database {self} cannot be used: {reason(error)}.") from error
        finally:
            engine.dispose()

    def _examine(self, connection: Connection) -> ServerState:
        version, encoding, size = connection.exec_driver_sql(_STATE).one()
        major = int(version) // 10_000
        if major < OLDEST:
            raise StorageError(f"The database {self} is Postgres {major}; it must be {OLDEST} or newer.")
        if encoding != "UTF8":
            raise StorageError(f"The database {self} has the encoding {encoding}; it must be UTF8.")
        return ServerState(f"{major}.{int(version) % 10_000}", size)

    def create(self) -> None:
        """Nothing: a Postgres database must exist."""

    def exists(self) -> bool:
        """True: whether the server has the database shows when it is used."""
        return True

    def check(self) -> None:
        """Nothing: its server notices what happens to its files."""

    def _pooled(self, connections: int) -> Engine:
        """Connections that are kept, and given up if the server is silent."""
        from app.db.silence import connecting

        engine = self._engine(QueuePool, pool_size=connections, max_overflow=0, pool_timeout=CHECKOUT_S)
        connect = connecting(self._silence_s)
        event.listen(engine, "do_connect", lambda _dialect, _record, args, options: connect(*args, **options))
        return engine

    def _engine(self, pool: type[Pool], **more: Any) -> Engine:
        # A statement's values are user data, which must not appear in error texts.
        engine = create_engine(
            self._url,
            poolclass=pool,
            connect_args={name: value for name, value in CONNECTION.items() if name not in self._url.query},
            hide_parameters=True,
            # Each engine would ask for the type at its first connection; there are no such columns.
            use_native_hstore=False,
            **more,
        )
        engine.dialect.colspecs = {
            **engine.dialect.colspecs,
            String: _EscapedText,
            JsonText: JsonText,
            Integer: _AnyInt,
        }
        event.listen(engine, "handle_error", _hide_values)
        return engine


def _require_driver() -> None:
    try:
        import psycopg  # noqa: F401
    except ImportError as error:
        raise StorageError(
            "Postgres needs a driver that is not installed: pip install 'palimpsest[postgres]'."
        ) from error


def _set_on_connect(engine: Engine, *, reads_only: bool = False, **settings: int) -> None:
    """Sets parameters of each new connection in one statement."""
    statement = "SELECT " + ", ".join(f"set_config('{name}', '{value}', false)" for name, value in settings.items())

    @event.listens_for(engine, "connect")
    def on_connect(connection: Any, _record: Any) -> None:
        connection.autocommit = True
        connection.execute(statement)
        connection.autocommit = False
        if reads_only:
            from psycopg import IsolationLevel

            connection.isolation_level = IsolationLevel.REPEATABLE_READ
            connection.read_only = True


def _hide_values(context: Any) -> None:
    """Keeps the first line of the server's message: the lines after it may show the values of a row."""
    error, wrapped = context.original_exception, context.sqlalchemy_exception
    primary = getattr(getattr(error, "diag", None), "message_primary", None)
    if primary is None:
        return
    if error.sqlstate in _QUOTING:
        primary = f"a value is not valid ({error.sqlstate})"
    error.args = (primary,)
    if isinstance(wrapped, DBAPIError):
        wrapped.args = (f"({type(error).__name__}) {primary}",)


# Values

_ESCAPE = "\ue000"
"""Begins an escape in stored text: a private character, which text hardly ever contains."""
_NUL, _ITSELF = f"{_ESCAPE}0", f"{_ESCAPE}1"


def escape(value: str) -> str:
    """The text without NUL, which Postgres does not store."""
    if "\x00" not in value and _ESCAPE not in value:
        return value
    return value.replace(_ESCAPE, _ITSELF).replace("\x00", _NUL)


def unescape(value: str) -> str:
    """The text that `escape` was given."""
    if _ESCAPE not in value:
        return value
    return value.replace(_NUL, "\x00").replace(_ITSELF, _ESCAPE)


class _EscapedText(String):
    """Text in which NUL is escaped."""

    render_bind_cast = True

    def bind_processor(self, dialect: Any) -> Any:
        return lambda value: escape(str(value)) if isinstance(value, str) else value

    def result_processor(self, dialect: Any, coltype: Any) -> Any:
        return lambda value: unescape(value) if isinstance(value, str) else value


class _AnyInt(Integer):
    """An integer whose parameters have no cast: a client may ask for a place after the largest integer of Postgres."""

    render_bind_cast = False
