"""What must hold once a cluster is at rest: in its database, its engine, its nodes, and on the machine."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime

import httpx
from sqlalchemy import Connection, or_, select

from app.db.models import sessions
from app.db.repositories.ownership import is_barred
from app.messages import now
from tests.soak.audit import ZERO
from tests.soak.checks.commands import TOKEN, check_commands
from tests.soak.cluster.faults import Stage
from tests.soak.cluster.nodes import HEADERS, Node
from tests.soak.cluster.writes import check_writers, claims, writes
from tests.soak.database import Logged, load, reading
from tests.soak.ledger import Book
from tests.soak.proc import children_of, marked
from tests.soak.scrape import scrape

REST_S = 60.0
"""How long a cluster may take until nothing is owned and no process is left."""
POLL_S = 0.5


def check_all(stage: Stage, workspaces: Mapping[str, Sequence[str] | None]) -> None:
    """Holds the commands that ran, the writers, and the logs of commands in the workspaces against the events."""
    book, witness = stage.book, stage.witness
    known: set[str] = set()
    with reading(stage.services.database_url) as connection:
        for ledger in book.living():
            stored = load(connection, ledger.id)
            if stored is None:
                continue
            book.counts["sub-agents"] += len(stored.children)
            for each in (stored, *stored.children):
                for detail in check_commands(each.events, witness.ran(tokens_of(each.events))):
                    book.violated("no command runs twice", detail, each.row["id"])
            # They share a workspace.
            events = [event for each in (stored, *stored.children) for event in each.events]
            known |= (tokens := tokens_of(events))
            if (lines := workspaces.get(ledger.id)) is not None:
                events.sort(key=lambda event: event.data["at"])
                for detail in check_workspace(events, lines, set(witness.ran(tokens))):
                    book.violated("a workspace has what its commands wrote", detail, ledger.id)
        for session_id, detail in check_writers(writes(connection)):
            book.violated("only the owner writes", detail, session_id)
        count_claims(connection, book)
    if not any(ledger.deleted for ledger in book.sessions.values()):
        for token in sorted(set(witness.times) - known):
            book.violated("no command runs twice", f"{token} ran and no call asks for it")


def tokens_of(events: Sequence[Logged]) -> set[str]:
    """The tokens of all commands that the session's model called for."""
    found = (
        TOKEN.match(str(event.data["arguments"].get("command")))
        for event in events
        if event.type == "tool.call" and isinstance(event.data["arguments"], dict)
    )
    return {match[1] for match in found if match}


def check_workspace(events: Sequence[Logged], lines: Sequence[str], ran: set[str]) -> Iterator[str]:
    """`lines` are the tokens in the workspace's log. None is there twice, or without having run. Those of completed
    commands are missing only if the session was continued from a snapshot that is older than their end; that of a
    background command is later than its result."""
    for token in sorted({token for token in lines if lines.count(token) > 1}):
        yield f"{token} is there {lines.count(token)} times"
    if strange := set(lines) - tokens_of(events):
        yield f"{sorted(strange)} were called by nobody"
    called: dict[str, str] = {}
    started: set[str] = set()
    missing: dict[str, datetime] = {}
    for event in events:
        if event.type == "tool.call":
            called[event.data["call_id"]] = next(iter(tokens_of([event])), "")
        elif event.type == "command.started":
            started.add(event.data["command_id"])
        elif (ended := ended_call(event)) is not None and not (event.type == "tool.result" and ended in started):
            own = called[ended]
            if own in ran and own not in lines:
                missing[own] = datetime.fromisoformat(event.data["at"])
        elif event.type == "session.recovered" and (as_of := event.data.get("workspace_as_of")):
            missing = {name: at for name, at in missing.items() if at < datetime.fromisoformat(as_of)}
    yield from (f"{token} of {at} is missing" for token, at in missing.items())


def ended_call(event: Logged) -> str | None:
    """The call whose command has ended by itself, as far as the event shows."""
    if event.type == "tool.result" and event.data["status"] == "completed":
        return str(event.data["call_id"])
    if event.type == "command.ended" and event.data["status"] == "exited":
        return str(event.data["command_id"])
    return None


def count_claims(connection: Connection, book: Book) -> None:
    found = claims(connection)
    book.counts["claims"] = len(found)
    book.counts["take-overs"] = sum(
        claim.former is not None and claim.owner is not None and claim.former != claim.owner for claim in found
    )


async def audit_rest(stage: Stage) -> None:
    """Waits until nothing is owned, no workflow runs and no command is left; records what stays."""
    deadline = time.monotonic() + REST_S
    while True:
        wrong = [
            *await asyncio.to_thread(_owned, stage),
            *await _workflows(stage),
            *[line for node in stage.nodes for line in await _node_at_work(node)],
        ]
        if left := await asyncio.to_thread(marked, stage.digits):
            wrong.append(f"{len(left)} commands of the sessions run")
        if not wrong or time.monotonic() > deadline:
            for detail in wrong:
                stage.book.violated("a cluster at rest owns and runs nothing", detail)
            return
        await asyncio.sleep(POLL_S)


def _owned(stage: Stage) -> list[str]:
    """Sessions that a node owns or keeps from owners. An operation that lost the database leaves its bar behind, which
    ends by itself."""
    with reading(stage.services.database_url) as connection:
        rows = connection.execute(
            select(sessions).where(or_(sessions.c.owner.is_not(None), sessions.c.barred_by.is_not(None)))
        )
        return [
            f"session {row.id} is {row.status}, owned by {row.owner}, barred by {row.barred_by} at {row.barred_at}"
            for row in rows
            if row.owner is not None or is_barred(row, now())
        ]


async def _workflows(stage: Stage) -> list[str]:
    from temporalio.client import Client

    client = await Client.connect(stage.services.temporal.address)
    return [f"workflow {found.id} runs" async for found in client.list_workflows('ExecutionStatus = "Running"')]


async def _node_at_work(node: Node) -> list[str]:
    gauges = {}
    with suppress(httpx.HTTPError):
        gauges = await scrape(node.url, HEADERS)
    if not gauges:
        return [f"{node.name} gives no metrics"]
    wrong = [f"{name} of {node.name} is {gauges[name]:g}" for name in ZERO if gauges.get(name)]
    if children := await asyncio.to_thread(children_of, node.pid):
        wrong.append(f"{node.name} has {len(children)} child processes")
    return wrong
