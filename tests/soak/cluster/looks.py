"""A look at a cluster's database while it works: what holds at any instant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from tests.soak.checks import check_seen
from tests.soak.checks.log import check_parts, check_seqs
from tests.soak.checks.queue import check_order
from tests.soak.database import load, reading
from tests.soak.doing import doings_of
from tests.soak.ledger import Book, SessionLedger


def look(url: str, book: Book, seen: Mapping[str, SessionLedger]) -> None:
    """Checks what readers had `seen` before this began, by session, and records what running sessions are doing."""
    met: Counter[str] = Counter()
    with reading(url) as connection:
        for session_id, ledger in seen.items():
            stored = load(connection, session_id)
            if stored is None:  # deleted meanwhile
                continue
            book.counts["looks at sessions under way"] += 1
            events = stored.events
            book.take(check_seen({event.seq: (event.type, event.digest) for event in events}, ledger))
            found = [
                *(("event seq is 1, 2, 3 …", detail) for detail in check_seqs(events, stored.row["last_seq"])),
                *(("a part is closed once", detail) for detail in check_parts(events)),
                *(("messages are delivered in order", detail) for detail in check_order(events)),
            ]
            for rule, detail in found:
                book.violated(rule, detail, session_id)
            if not ledger.settled:
                met.update(doings_of(stored))
    book.met(met)
