"""Who wrote each event, noted by the database itself: each node has a database role of its own, and a trigger notes it
with the session's owner and epoch at that moment."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from sqlalchemy import Connection, Engine, text

INSTALL = """
CREATE TABLE soak_writes (n bigserial, at timestamptz DEFAULT clock_timestamp(), session_id text, seq int, type text,
    epoch int, owner text, writer text);
CREATE TABLE soak_claims (n bigserial, at timestamptz DEFAULT clock_timestamp(), session_id text, epoch int, owner text,
    former text, writer text);
CREATE FUNCTION soak_write() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO soak_writes (session_id, seq, type, epoch, owner, writer)
        SELECT NEW.session_id, NEW.seq, NEW.type, epoch, owner, session_user FROM sessions WHERE id = NEW.session_id;
    RETURN NULL; END $$;
CREATE FUNCTION soak_claim() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO soak_claims (session_id, epoch, owner, former, writer)
        VALUES (NEW.id, NEW.epoch, NEW.owner, OLD.owner, session_user);
    RETURN NULL; END $$;
CREATE TRIGGER soak_write AFTER INSERT ON events FOR EACH ROW EXECUTE FUNCTION soak_write();
CREATE TRIGGER soak_claim AFTER UPDATE ON sessions FOR EACH ROW
    WHEN (OLD.epoch <> NEW.epoch) EXECUTE FUNCTION soak_claim();
"""
BY_OWNER = ("step.", "text.", "reasoning.", "tool.", "message.dequeued", "plan.", "session.recovered")
"""Events that only a session's owner writes."""


@dataclass(frozen=True, slots=True)
class Write:
    """One event: `writer` is the node that wrote it, `owner` the process that owned the session then."""

    session_id: str
    seq: int
    type: str
    epoch: int
    owner: str | None
    writer: str


@dataclass(frozen=True, slots=True)
class Claim:
    """A rise of a session's epoch, at a time of the database's clock in seconds."""

    session_id: str
    epoch: int
    owner: str | None
    former: str | None
    writer: str
    at: float


def install(database: Engine, roles: list[str]) -> None:
    """Makes the triggers, and a role for each node. The database has its tables already."""
    with database.begin() as connection:
        connection.exec_driver_sql(INSTALL)
        for role in roles:
            connection.exec_driver_sql(f'DROP ROLE IF EXISTS "{role}"')
            connection.exec_driver_sql(f'CREATE ROLE "{role}" SUPERUSER LOGIN')


def writes(connection: Connection) -> list[Write]:
    query = text("SELECT session_id, seq, type, epoch, owner, writer FROM soak_writes ORDER BY n")
    return [Write(*row) for row in connection.execute(query)]


def claims(connection: Connection) -> list[Claim]:
    query = text(
        "SELECT session_id, epoch, owner, former, writer, extract(epoch FROM at)::float FROM soak_claims ORDER BY n"
    )
    return [Claim(*row) for row in connection.execute(query)]


def check_writers(found: list[Write]) -> Iterator[tuple[str, str]]:
    """Every event of an owner was written by the process that owned the session, in an epoch that only rises; yields
    the session and what is wrong."""
    nodes_of: dict[str, Counter[str]] = defaultdict(Counter)
    epochs: dict[str, int] = {}
    for write in found:
        if write.epoch < epochs.get(write.session_id, 0):
            yield write.session_id, f"{write.seq} {write.type} in epoch {write.epoch} after {epochs[write.session_id]}"
        epochs[write.session_id] = write.epoch
        if not write.type.startswith(BY_OWNER):
            continue
        if write.owner is None:
            yield write.session_id, f"{write.seq} {write.type} by {write.writer} while nobody owned it"
        else:
            nodes_of[write.owner][write.writer] += 1
    for write in found:
        if write.owner is not None and write.type.startswith(BY_OWNER):
            expected = nodes_of[write.owner].most_common(1)[0][0]
            if write.writer != expected:
                yield write.session_id, f"{write.seq} {write.type} by {write.writer}, it was {expected}'s"
