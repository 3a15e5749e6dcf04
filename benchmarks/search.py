"""How long `history_search` takes in a long session: `python -m benchmarks.search` stores 10,000 messages of the
recorded histories in SQLite and in Postgres, and asks all their questions.

The first search of a session fills its index and is reported separately. The longest histories are repeated until there
are enough messages, so each word is in as many places as in no real session: that is the expensive case.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle, islice
from pathlib import Path
from statistics import quantiles
from tempfile import TemporaryDirectory

from app.cli.eval_search import store
from app.db.engine import open_database
from app.db.migrate import upgrade
from app.messages import Message, new_id
from app.runtime.owner.notes import StoredHistory
from app.tools.recall import MAX_FINDINGS
from benchmarks.report import Result, table
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


async def measure(name: str, url: str, messages: Sequence[Message], questions: Sequence[str]) -> Result:
    await asyncio.to_thread(upgrade, url)
    database = open_database(url)
    try:
        asking = new_id()
        session_id = await database.writer.write(lambda c: store(c, messages, asking))
        past = StoredHistory(database, session_id, None)
        started = time.perf_counter()
        await past.search("first", asked_by=asking, limit=MAX_FINDINGS)
        indexed = time.perf_counter() - started
        times = []
        for number in range(ROUNDS + 1):
            for question in questions:
                started = time.perf_counter()
                await past.search(question, asked_by=asking, limit=MAX_FINDINGS)
                if number:
                    times.append((time.perf_counter() - started) * 1_000)
    finally:
        await database.aclose()
    cuts = quantiles(times, n=100)
    note = f"median {cuts[49]:.1f} ms, {len(times)} searches; the first one indexed everything in {indexed:.1f} s"
    return Result(f"search, {name}, p99", cuts[98], "ms", GOAL_MS, note=note)


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
                results.append(await measure(name, url, messages, questions))
    print(table(results))
    print("\n".join(f"- {result.what}: {result.note}" for result in results))
    return 0 if all(result.met for result in results) else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
