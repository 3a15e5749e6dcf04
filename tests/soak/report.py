"""Output of a run: a line every ten seconds, a summary, or a JSON document."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tests.soak.ledger import Book, Violation
from tests.soak.proc import Cost

PROGRESS_S = 10.0
"""Seconds between two lines of progress, each with the server's memory."""
SHOWN = 40
"""Violations that the summary shows; the JSON has all."""
SESSION_COUNTS = (
    "sessions",
    "sessions deleted",
    "sessions checked",
    "steps",
    "tool calls",
    "compactions",
    "recoveries",
)
TRAFFIC = ("calls", "calls lost", "events seen", "deltas seen", "events checked", "errors logged", "cancels timed")


class LifeMemory:
    """The memory of the server's last life while it worked."""

    def __init__(self) -> None:
        self._life = 0
        self._looks: list[float] = []

    def note(self, life: int, rss_mb: float) -> None:
        """Takes a look, of which there is one each `PROGRESS_S`."""
        if life != self._life:
            self._life, self._looks = life, []
        self._looks.append(rss_mb)

    @property
    def by_the_minute(self) -> list[int]:
        """MB after each minute."""
        each = round(60 / PROGRESS_S)
        return [round(rss_mb) for rss_mb in self._looks[each - 1 :: each]]


@dataclass(frozen=True, slots=True)
class Result:
    """The end of a run. `left_out` are the faults that could not be caused here, and why; `life_s` is how long the last
    life of the server had worked when `after` was measured, and `memory` what it held after each minute, in MB."""

    seed: int
    seconds: float
    sandbox: str
    lives: int
    life_s: float
    memory: Sequence[int]
    before: Cost | None
    after: Cost | None
    tasks: tuple[float, float] | None
    left_out: Mapping[str, str]
    book: Book

    @property
    def violations(self) -> list[Violation]:
        return self.book.violations


def progress(begun: float, book: Book, live: int, lives: int, cost: Cost | None) -> str:
    """One line."""
    held = "server down" if cost is None else f"{cost.rss_mb:.0f} MB, {cost.files} files, {cost.sockets} sockets"
    return (
        f"{time.monotonic() - begun:5.0f} s  {live} sessions at work of {book.counts['sessions']},"
        f" {book.counts['messages accepted']} messages, {book.counts['events seen']} events seen,"
        f" {book.faults.total()} faults, life {lives} ({held}), {len(book.violations)} violations"
    )


def summary(result: Result) -> str:
    """The whole run, for a person."""
    book = result.book
    lines = [
        f"seed {result.seed}, {result.seconds:.0f} s, {result.sandbox}, {result.lives} lives of the server",
        f"faults:     {listed(book.faults)}",
        f"ends met:   {_met(book)}",
        *(f"left out:   {kind}: {why}" for kind, why in sorted(result.left_out.items())),
        f"sessions:   {listed(book.counts, SESSION_COUNTS)}",
        f"messages:   {listed({n.removeprefix('messages '): c for n, c in book.counts.items() if 'messages ' in n})}",
        f"deeds:      {listed({n.removeprefix('deed '): c for n, c in book.counts.items() if n.startswith('deed ')})}",
        f"edits:      {listed({n: c for n, c in book.counts.items() if n.startswith(('edits', 'withdrawals'))})}",
        f"results:    {listed({n.removeprefix('results '): c for n, c in book.counts.items() if 'results ' in n})}",
        f"elsewhere:  {listed(book.counts, ('MCP calls', 'background commands', 'sub-agents'))}",
        f"traffic:    {listed(book.counts, TRAFFIC)}",
        f"slowest:    cancel {book.slowest_cancel_s:.1f} s, start {book.slowest_start_s:.1f} s",
        *_costs(result),
        *violations(book.violations),
    ]
    return "\n".join(lines)


def _met(book: Book) -> str:
    """The activities interrupted by the server's ends, and the number of ends for each."""
    return f"{listed(book.met_ends)}; sessions {listed(book.met_sessions)}"


def _costs(result: Result) -> list[str]:
    if result.before is None or result.after is None:
        return []
    lines = [
        f"at {when}:   {cost.rss_mb:.0f} MB, {cost.blocks} blocks, {cost.files} open files, {cost.sockets} sockets,"
        f" {cost.threads} threads"
        for when, cost in (("start", result.before), ("end  ", result.after))
    ]
    lines[-1] += f", the last life having worked for {result.life_s:.0f} s"
    lines.append(f"by minute:  {' '.join(map(str, result.memory)) or 'none'} MB in the last life, at work")
    if result.tasks is None:
        return [*lines, "tasks:      left out, as /metrics has no gauge of them"]
    return [*lines, f"tasks:      {result.tasks[0]:g} at the start, {result.tasks[1]:g} at the end"]


def violations(found: list[Violation]) -> list[str]:
    """Their number, how often each rule was broken, and the first of them."""
    rules = Counter(violation.rule for violation in found)
    lines = [f"violations: {len(found)}"]
    lines += [f"  {count:5}  {rule}" for rule, count in rules.most_common()]
    lines += [f"  - {v.rule}: {v.detail}" + (f" ({v.session_id})" if v.session_id else "") for v in found[:SHOWN]]
    return lines


def listed(counts: Mapping[str, int], names: tuple[str, ...] | None = None) -> str:
    """Counts on one line, those of `names` if given, without zeros."""
    chosen = names or sorted(counts)
    return ", ".join(f"{name} {counts[name]}" for name in chosen if counts.get(name)) or "none"


def as_json(result: Result) -> dict[str, Any]:
    """The same for a program."""
    return {
        "seed": result.seed,
        "seconds": round(result.seconds, 1),
        "sandbox": result.sandbox,
        "lives": result.lives,
        "last_life_s": round(result.life_s, 1),
        "last_life_mb": list(result.memory),
        "faults": dict(result.book.faults),
        "left_out": dict(result.left_out),
        "ends_met": dict(result.book.met_ends),
        "sessions_met": dict(result.book.met_sessions),
        "counts": dict(result.book.counts),
        "slowest_cancel_s": round(result.book.slowest_cancel_s, 2),
        "slowest_start_s": round(result.book.slowest_start_s, 2),
        "before": None if result.before is None else asdict(result.before),
        "after": None if result.after is None else asdict(result.after),
        "tasks": result.tasks,
        "violations": [asdict(violation) for violation in result.violations],
    }
