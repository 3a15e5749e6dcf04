"""What keeps working during a fault: sessions that are made every second or two, requests, steps, and live text."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlalchemy import text

from tests.soak.caller import Caller
from tests.soak.database import reading
from tests.soak.ledger import Book
from tests.soak.plan import SessionPlan
from tests.soak.users import User

PERIOD_S = 2.0
"""Seconds between two probes."""
MOST = 30
"""Probes whose sessions are not idle yet: more would only add load."""
NOTICED_S = 10.0
"""Seconds after a fault in which its consequences for running steps show."""
PROMPT_S = 2.0
"""Within which an answer counts as prompt."""


@dataclass(slots=True)
class Window:
    """A fault as it was: its seconds by `time.monotonic()` and by the wall clock, and what readers got during it."""

    what: str
    begun: float
    wall: float
    ended: float = 0.0
    events: int = 0
    deltas: int = 0


@dataclass(slots=True)
class Sample:
    """One probe: when it began, how long a list of sessions and its own session's acceptance took, in seconds, and when
    that session was idle. None: not within the time of a call, or never."""

    begun: float
    read_s: float | None = None
    accepted_s: float | None = None
    done: float | None = None


@dataclass(slots=True)
class Probe:
    """Probes until it is cancelled; `finish` waits for the sessions that it made."""

    caller: Caller
    book: Book
    seed: int
    samples: list[Sample] = field(default_factory=list)
    _users: set[asyncio.Task[None]] = field(default_factory=set)

    async def run(self) -> None:
        while True:
            self._users = {user for user in self._users if not user.done()}
            if len(self._users) >= MOST:
                await asyncio.wait(self._users, return_when=asyncio.FIRST_COMPLETED)
                continue
            sample = Sample(time.monotonic())
            self.samples.append(sample)
            user = asyncio.create_task(self._use(sample, len(self.samples)))
            self._users.add(user)
            await self._read(sample)
            await asyncio.sleep(max(0.0, sample.begun + PERIOD_S - time.monotonic()))

    async def finish(self) -> None:
        await asyncio.gather(*self._users)

    async def _read(self, sample: Sample) -> None:
        answer = await self.caller.once("GET", "/v1/sessions?limit=5")
        if answer.outcome == "accepted":
            sample.read_s = answer.answered_at - answer.sent_at

    async def _use(self, sample: Sample, number: int) -> None:
        plan = SessionPlan(f"probe-{number}", "soak-openai/large", "reactive", (), (), is_deleted=False)
        user = User(self.caller, self.book, plan, self.seed, asyncio.Event())
        if await user.create():
            sample.accepted_s = time.monotonic() - sample.begun
            await user.settle()
            sample.done = time.monotonic()


def told(window: Window, samples: Sequence[Sample], url: str) -> str:
    """A paragraph about one fault."""
    lasted = window.ended - window.begun
    during = [sample for sample in samples if window.begun <= sample.begun < window.ended]
    steps, interrupted = steps_between(url, window.wall, window.wall + lasted)
    lines = [
        f"{window.what}, {lasted:.0f} s:",
        f"running sessions: {steps} steps finished, {interrupted} cut off and left to another owner;"
        f" readers got {window.events} events, {window.deltas} pieces of text",
        *(_probed(window, during) if during else []),
    ]
    return "\n  ".join(lines)


def _probed(window: Window, during: Sequence[Sample]) -> list[str]:
    done = sum(sample.done is not None and sample.done < window.ended for sample in during)
    late = [sample.done - window.ended for sample in during if sample.done is not None and sample.done > window.ended]
    return [
        f"reads answered {_prompt([sample.read_s for sample in during])}",
        f"new sessions accepted {_prompt([sample.accepted_s for sample in during])}",
        f"new sessions completed meanwhile {done} of {len(during)}"
        + (f", the others up to {max(late):.1f} s after its end" if late else ""),
    ]


def steps_between(url: str, begun: float, ended: float) -> tuple[int, int]:
    """How many steps finished, and how many were closed by another owner, then and shortly after, by the wall clock."""
    query = text(
        "SELECT count(*) FILTER (WHERE type = 'step.finished'),"
        " count(*) FILTER (WHERE type = 'session.recovered' AND EXISTS (SELECT FROM soak_writes AS closed WHERE"
        " closed.session_id = w.session_id AND closed.epoch = w.epoch AND closed.seq < w.seq"
        " AND closed.type = 'step.finished'))"
        " FROM soak_writes AS w WHERE at BETWEEN to_timestamp(:a) AND to_timestamp(:b)"
    )
    with reading(url) as connection:
        finished, _ = connection.execute(query, {"a": begun, "b": ended}).one()
        _, interrupted = connection.execute(query, {"a": begun, "b": ended + NOTICED_S}).one()
        return int(finished), int(interrupted)


def _prompt(times: Sequence[float | None]) -> str:
    answered = [seconds for seconds in times if seconds is not None]
    prompt = sum(seconds < PROMPT_S for seconds in answered)
    spread = f", median {statistics.median(answered):.2f} s, worst {max(answered):.1f} s" if answered else ""
    return f"{len(answered)} of {len(times)}, {prompt} within {PROMPT_S:g} s{spread}"
