"""Pages of a log: their cost is bounded for any length of the log and size of its events."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest
from sqlalchemy import Connection

from app.db.repositories import events
from app.db.repositories.events import StoredEvent
from app.messages import now
from app.runtime import history
from app.runtime.history import MAX_BYTES, log_page
from app.runtime.values.history import LogPage
from tests.unit.runtime.stage import Stage

COMMON, RARE = "text.completed", "prune.completed"


async def fill(stage: Stage, types: Iterable[str], data: str = "{}") -> int:
    """Appends events of these types; returns the seq of the first."""
    names = list(types)

    def write(connection: Connection) -> int:
        first = events.lock(connection, stage.session_id, now()).last_seq + 1
        stored = [StoredEvent(first + place, name, data) for place, name in enumerate(names)]
        events.append(connection, stage.session_id, stored)
        return first

    return await stage.database.writer.write(write)


async def pages(stage: Stage, *, limit: int, types: Sequence[str] = (), newest_first: bool = False) -> list[LogPage]:
    """All pages, one after the other."""
    found: list[LogPage] = []
    after: int | None = None
    while not found or found[-1].next_cursor is not None:
        assert len(found) < 1_000, "it does not end"
        found.append(
            await stage.database.read(
                lambda c, after=after: log_page(  # type: ignore[misc]
                    c, stage.session_id, after=after, limit=limit, types=types, newest_first=newest_first
                )
            )
        )
        after = int(found[-1].next_cursor or 0)
    return found


def seqs(found: list[LogPage]) -> list[int | None]:
    return [item.seq for page in found for item in page.items]


@pytest.mark.parametrize("newest_first", [False, True])
@pytest.mark.parametrize("limit", [1, 3, 500])
async def test_rare_events_are_found_in_bounded_scans(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, newest_first: bool, limit: int
) -> None:
    monkeypatch.setattr(history, "SCANNED", 10)
    types = [RARE if place in (0, 37, 38, 99) else COMMON for place in range(100)]
    first = await fill(stage, types)
    wanted = [first + place for place in (0, 37, 38, 99)]
    found = await pages(stage, limit=limit, types=[RARE], newest_first=newest_first)
    assert seqs(found) == (wanted[::-1] if newest_first else wanted)
    assert len(found) >= (first + 99) // 10
    assert {page.last_seq for page in found} == {first + 99}
    everything = await pages(stage, limit=limit, newest_first=newest_first)
    assert sorted(seq or 0 for seq in seqs(everything)) == list(range(1, first + 100))


@pytest.mark.parametrize("newest_first", [False, True])
async def test_large_events_make_short_pages(stage: Stage, newest_first: bool) -> None:
    large = '{"text":"' + "ü" * (MAX_BYTES // 6) + '"}'
    first = await fill(stage, [COMMON] * 10, large)
    found = await pages(stage, limit=500, types=[COMMON], newest_first=newest_first)
    assert [len(page.items) for page in found] == [3, 3, 3, 1]
    order = list(range(first, first + 10))
    assert seqs(found) == (order[::-1] if newest_first else order)
    assert all(sum(len(item.data) for item in page.items) < 2 * MAX_BYTES for page in found)
