"""How long `history_search` takes in a long session: `python -m benchmarks.search` stores 10,000 messages of the
recorded histories in SQLite and in Postgres, and asks all their questions.

The first search of a session fills its index and is reported separately, and so are searches that index a step's two
messages before, as an agent's do. The longest histories are repeated until there
are enough messages, so each word is in as many places as in no real session: that is the expensive case.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from tempfile import TemporaryDirectory

from sqlalchemy import Connection

from app.cli.eval_search import store
from app.db.dialects import is_postgres
from app.db.engine import open_database
from app.db.migrate import upgrade
from app.db.repositories import messages as stored_messages
from app.messages import Message, Role, ToolCallPart, new_id, now
from app.runtime.owner.notes import StoredHistory
from app.tools.recall import FOUND, MAX_CHARS, MAX_FINDINGS, render_findings
from benchmarks.report import Result, table
from benchmarks.stats import median, percentile
from evals import LONG_HISTORIES, load_packaged
from scripts.servers.postgres import temporary_database

MESSAGES = 10_000
ROUNDS = 5
GOAL_MS = 20.0


@contextmanager
def sqlite() -> Iterator[str]:
    with TemporaryDirectory() as folder:
        yield f"sqlite:///{Path(folder, 'search.db')}"


def history(count: int) -> tuple[list[Message], list[str]]:
    """That many messages, and questions about them."""
    recorded = [load_packaged(name) for name in LONG_HISTORIES]
    conversations = [message for one in recorded for message in one.conversation()]
    # A repeated message needs its own ids: a result belongs to one call.
    messages = [
        _renamed(message, f"{number // len(conversations)}")
        for number, message in enumerate(islice(cycle(conversations), count))
    ]
    return messages, [probe.question for one in recorded for probe in one.probes]


def _renamed(message: Message, suffix: str) -> Message:
    def own(id: str) -> str:
        return f"{id[: -len(suffix)]}{suffix}"

    parts = []
    for part in message.parts:
        update = {"id": new_id(), **({"call_id": own(part.call_id)} if hasattr(part, "call_id") else {})}
        parts.append(part.model_copy(update=update))
    return message.model_copy(update={"id": new_id(), "parts": tuple(parts)})


async def measure(name: str, url: str, messages: Sequence[Message], questions: Sequence[str]) -> list[Result]:
    await asyncio.to_thread(upgrade, url)
    database = open_database(url)
    try:
        asking = new_id()
        session_id = await database.writer.write(lambda c: store(c, messages, asking))
        past = StoredHistory(database, session_id, None)
        started = time.perf_counter()
        await past.search("first", asked_by=asking, limit=MAX_FINDINGS)
        indexed = time.perf_counter() - started
        await database.writer.write(_analyze)
        times: list[float] = []
        longest = 0
        for number in range(ROUNDS + 1):
            for question in questions:
                took, chars = await _search(past, question, asking)
                longest = max(longest, chars)
                if number:
                    times.append(took)
        behind: list[float] = []
        for number, question in enumerate(questions):
            seq = len(messages) + 10 * (number + 1)
            asking = await database.writer.write(partial(_add_step, session_id, messages[-2:], seq))
            behind.append((await _search(past, question, asking))[0])
    finally:
        await database.aclose()
    note = (
        f"median {median(times):.1f} ms, {len(times)} searches; the first one indexed everything in {indexed:.1f} s;"
        f" the longest output had {longest:,} of {MAX_CHARS:,} characters"
    )
    after = f"median {median(behind):.1f} ms, {len(behind)} searches, each after a step whose messages it indexed"
    return [
        Result(f"search, {name}, p99", percentile(times, 0.99), "ms", GOAL_MS, note=note),
        Result(f"search after a step, {name}, p99", percentile(behind, 0.99), "ms", GOAL_MS, note=after),
    ]


async def _search(past: StoredHistory, question: str, asking: str) -> tuple[float, int]:
    """How long a search takes, in ms, and how many characters the model gets."""
    started = time.perf_counter()
    found = await past.search(question, asked_by=asking, limit=MAX_FINDINGS)
    return (time.perf_counter() - started) * 1_000, len(render_findings(found)) + len(FOUND)


def _analyze(connection: Connection) -> None:
    """As a Postgres server does by itself within a minute after so many new rows; that of the tests does not."""
    if is_postgres(connection):
        connection.exec_driver_sql("ANALYZE")


def _add_step(session_id: str, messages: Sequence[Message], seq: int, connection: Connection) -> str:
    """Adds copies of these messages to the session, from a seq on, and a call that searches; its id."""
    asking, suffix = new_id(), new_id()[-12:]
    call = ToolCallPart(id=new_id(), index=0, call_id=asking, name="history_search", arguments_text="{}")
    own = Message(id=new_id(), seq=0, role=Role.ASSISTANT, parts=(call,), created_at=now())
    for place, message in enumerate((*(_renamed(message, suffix) for message in messages), own)):
        numbered = message.model_copy(update={"seq": seq + place})
        stored_messages.add(connection, session_id, numbered)
    return asking


async def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=MESSAGES)
    parser.add_argument("--only", choices=("sqlite", "postgres"))
    given = parser.parse_args()
    messages, questions = history(given.messages)
    results = []
    for name, place in (("sqlite", sqlite), ("postgres", temporary_database)):
        if given.only in (None, name):
            with place() as url:
                results += await measure(name, url, messages, questions)
    print(table(results))
    print("\n".join(f"- {result.what}: {result.note}" for result in results))
    return 0 if all(result.met for result in results) else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
