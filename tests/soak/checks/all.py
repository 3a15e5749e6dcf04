"""All checks of one session, each with its rule."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tests.soak.checks.commands import check_background, check_commands
from tests.soak.checks.ends import check_ends
from tests.soak.checks.history import check_history, check_rest, check_sums
from tests.soak.checks.log import (
    check_calls,
    check_parts,
    check_posted,
    check_rounds,
    check_runs,
    check_seqs,
    check_steps,
)
from tests.soak.checks.queue import check_messages, check_order
from tests.soak.checks.subagents import check_subagents
from tests.soak.database import Stored
from tests.soak.ledger import SessionLedger, Violation

Seen = Mapping[int, tuple[str, bytes]]


def check_session(stored: Stored, ledger: SessionLedger) -> list[Violation]:
    """The violations of an idle session."""
    events = stored.events
    found: list[tuple[str, Iterable[str]]] = [
        ("event seq is 1, 2, 3 …", check_seqs(events, stored.row["last_seq"])),
        ("each run has one beginning and one end", check_runs(events)),
        ("a run ends for a reason", check_ends(events, [deed.kind for deed in ledger.plan.deeds])),
        ("each step has one step.finished", check_steps(events)),
        ("each call has one result", check_calls(events)),
        ("a part is closed once", check_parts(events)),
        ("an accepted result is kept", check_posted(events, ledger.posted)),
        ("a command in the background ends once", check_background(events)),
        ("a sub-agent ends once, and is sound", check_subagents(stored)),
        ("each round begins and ends once", check_rounds(events)),
        ("messages are delivered in order", check_order(events)),
        ("a message is delivered exactly once", check_messages(stored, ledger)),
        ("an assistant message, then its results", check_history(stored)),
        ("idle means idle", check_rest(stored)),
        ("counts are those of the rows", check_sums(stored)),
    ]
    if ledger.ran is not None:
        all_events = [*events, *(event for child in stored.children for event in child.events)]
        found.append(("no command runs twice", check_commands(all_events, ledger.ran)))
    violations = [Violation(rule, detail, ledger.id) for rule, details in found for detail in details]
    return violations + check_seen({e.seq: (e.type, e.digest) for e in events}, ledger)


def check_killed(stored: Stored, ledger: SessionLedger) -> list[Violation]:
    """The violations of a session at any instant, even in the middle of a run."""
    events = stored.events
    found: list[tuple[str, Iterable[str]]] = [
        ("event seq is 1, 2, 3 …", check_seqs(events, stored.row["last_seq"])),
        ("a part is closed once", check_parts(events)),
        ("messages are delivered in order", check_order(events)),
        ("a message is delivered exactly once", check_messages(stored, ledger)),
    ]
    return [Violation(rule, detail, ledger.id) for rule, details in found for detail in details]


def check_seen(log: Seen, ledger: SessionLedger) -> list[Violation]:
    """Every event that a reader saw, and every seq that an answer named, is in the log as it was."""
    rule = "what was seen is in the log"
    violations: list[Violation] = []
    for seq, (kind, digest) in list(ledger.seen.items()):
        if kind == "session.deleted":
            continue
        if seq not in log:
            violations.append(Violation(rule, f"{kind} {seq} was seen and is gone", ledger.id))
        elif log[seq] != (kind, digest):
            violations.append(Violation(rule, f"{kind} {seq} was seen, and is another {log[seq][0]}", ledger.id))
    if ledger.last_seq > max(log, default=0):
        violations.append(Violation(rule, f"an answer said {ledger.last_seq}, the log ends before", ledger.id))
    return violations


def check_deleted(rows: Mapping[str, int], ledger: SessionLedger) -> list[Violation]:
    """Nothing is left of a session that was deleted."""
    return [Violation("a deleted session is gone", f"rows are left: {dict(rows)}", ledger.id)] if rows else []
