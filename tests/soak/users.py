"""The users of a run: each works through sessions, does their deeds, and waits until each is idle."""

from __future__ import annotations

import asyncio
import random
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from tests.soak.caller import Answered, Caller
from tests.soak.ledger import Book, Edit, Said, SessionLedger
from tests.soak.model import CLIENT_TOOL, LOG
from tests.soak.plan import PAUSE_S, POLICIES, Deed, SessionPlan
from tests.soak.readers import read

SETTLE_S = 240.0
"""Timeout for a session to become idle after its last action, in seconds, on a busy machine."""
SEEN_S = 30.0
"""Timeout for a reader to get the last events of an idle session, in seconds, on a busy machine."""
CANCEL_S = 30.0
"""The contract says 2 s; the rest is for a busy machine. The summary has the measured times."""
POLL_S = 0.7
LOOKS = ("", "/messages", "/context", "/steps", "/queue", "/compactions", "/files", "/messages?format=openai")


class User:
    """One session's user."""

    def __init__(
        self,
        caller: Caller,
        book: Book,
        plan: SessionPlan,
        seed: int,
        stopping: asyncio.Event,
        mcp_servers: Mapping[str, Any] | None = None,
        tools: Sequence[Any] = (CLIENT_TOOL,),
    ) -> None:
        """`mcp_servers` and `tools` are those of its session."""
        self._caller = caller
        self._book = book
        self._plan = plan
        self._rng = random.Random(f"{seed}/{plan.name}/user")
        self._stopping = stopping
        self._mcp_servers = mcp_servers
        self._tools = tools
        # Drawn from the seed too, so that a plan has the same ids when it is replayed.
        self._ledger = SessionLedger(self._new_id(), plan, f"Do small things. [[{plan.name}.task]]")

    @property
    def _path(self) -> str:
        return f"/v1/sessions/{self._ledger.id}"

    def _new_id(self) -> str:
        """A UUID of version 7, as the contract requires for ids."""
        ms, rest = time.time_ns() // 1_000_000, self._rng.getrandbits(74)
        return str(uuid.UUID(int=ms << 80 | 7 << 76 | (rest >> 62) << 64 | 2 << 62 | rest & ((1 << 62) - 1)))

    async def run(self) -> None:
        """Runs the session from its creation until it is idle."""
        if not await self.create():
            return
        urls, headers = self._caller.urls, self._caller.headers
        readers = [
            asyncio.create_task(read(urls, self._ledger, self._book, kind, random.Random(self._rng.random()), headers))
            for kind in self._plan.readers
        ]
        self._book.faults["slow readers"] += self._plan.readers.count("slow")
        answering = asyncio.create_task(self._answer_calls())
        try:
            for deed in self._plan.deeds:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._stopping.wait(), deed.after_s)
                if self._stopping.is_set():
                    break
                await self._do(deed)
            if self._plan.is_deleted and not self._stopping.is_set():
                await self._delete()
            else:
                await self.settle()
                await self._see_all()
        finally:
            for task in (*readers, answering):
                task.cancel()
            for failed in await asyncio.gather(*readers, answering, return_exceptions=True):
                if isinstance(failed, Exception):
                    raise failed

    async def create(self) -> bool:
        """Makes the session; returns whether it is known to be there."""
        body = {
            "id": self._ledger.id,
            "task": self._ledger.task,
            "model": self._plan.model,
            "compaction": self._plan.policy,
            "limits": {"max_steps": 12},
            "tools": list(self._tools),
            **({} if self._mcp_servers is None else {"mcp_servers": self._mcp_servers}),
        }
        answer = await self._caller.until_known("POST", "/v1/sessions", json=body)
        if answer.outcome == "unknown":
            return False
        if answer.outcome == "refused":
            self._book.violated("a valid request is accepted", f"create: {answer.status} {answer.body}")
            return False
        self._book.sessions[self._ledger.id] = self._ledger
        self._book.counts["sessions"] += 1
        return True

    async def _do(self, deed: Deed) -> None:
        self._book.counts[f"deed {deed.kind}"] += 1
        match deed.kind:
            case "steer" | "follow_up" | "interrupt":
                await self._say(deed.kind)
            case "burst":
                modes = ("steer", "follow_up", "steer", "interrupt")
                await asyncio.gather(*(self._say(mode) for mode in modes[: 2 + int(deed.pick * 3)]))
            case "edit":
                await self._edit(await self._say("follow_up") if deed.pick < 0.6 else self._any(deed.pick))
            case "withdraw":
                await self._withdraw(await self._say("follow_up") if deed.pick < 0.6 else self._any(deed.pick))
            case "cancel" | "cancel_and_clear":
                await self._cancel(clear=deed.kind == "cancel_and_clear")
            case _:
                await self._ask(deed)

    async def _ask(self, deed: Deed) -> None:
        """Actions that leave nothing in the ledger."""
        match deed.kind:
            case "resume":
                await self._caller.once("POST", f"{self._path}/resume")
            case "compact":
                policy = self._rng.choice(POLICIES)
                body: dict[str, Any] = {"policy": policy, "dry_run": deed.pick < 0.2}
                await self._caller.once("POST", f"{self._path}/compactions", json=body)
            case "revert":
                rounds = (await self._caller.get(f"{self._path}/compactions") or {}).get("items", [])
                if rounds:
                    await self._caller.once("DELETE", f"{self._path}/compactions/{rounds[-1]['round']}")
            case "patch":
                body = {"title": f"title {deed.pick:.3f}", "metadata": {"pick": deed.pick}}
                await self._caller.once("PATCH", self._path, json=body)
            case "upload":
                data = b"line\n" * int(deed.pick * 2000)
                await self._caller.once("PUT", f"{self._path}/files/up.txt", content=data)
            case _:
                await self._session()
                await self._caller.once("GET", self._path + self._rng.choice(LOOKS))

    async def _answer_calls(self) -> None:
        """Posts the results of calls that wait for this user, most of them in time."""
        rng = random.Random(f"{self._plan.name}/answers")
        while True:
            await asyncio.sleep(POLL_S)
            waiting = await self._caller.get(f"{self._path}/tool-calls?status=pending") or {"items": []}
            for call in waiting["items"]:
                if rng.random() < 0.3:
                    continue
                text = f"Result of {call['call_id']}."
                path = f"{self._path}/tool-calls/{call['call_id']}/result"
                answer = await self._caller.once("POST", path, json={"output": text})
                self._book.counts[f"results {answer.outcome}"] += 1
                if answer.outcome == "accepted":
                    self._ledger.posted[call["call_id"]] = text
                elif answer.outcome == "refused" and answer.status not in (404, 409):
                    self._book.violated("a valid request is accepted", f"result: {answer.status}", self._ledger.id)

    def _any(self, pick: float) -> Said | None:
        return self._ledger.said[int(pick * len(self._ledger.said))] if self._ledger.said else None

    async def _say(self, mode: str) -> Said:
        """Posts a message until it is known to be accepted."""
        number = len(self._ledger.said)
        content = f"And one more small thing. [[{self._plan.name}.m{number}]]"
        said = Said(self._new_id(), content, mode, time.monotonic())
        self._ledger.said.append(said)
        body = {"content": content, "mode": mode, "id": said.id}
        answer = await self._caller.until_known("POST", f"{self._path}/queue", json=body)
        said.outcome = answer.outcome
        said.answered_at = answer.answered_at
        self._book.counts[f"messages {answer.outcome}"] += 1
        if answer.outcome == "refused" and answer.status != 429:
            self._book.violated("a valid request is accepted", f"say: {answer.status} {answer.body}", self._ledger.id)
        return said

    async def _edit(self, said: Said | None) -> None:
        if said is None:
            return
        edit = Edit(f"{said.content} Edited {len(said.edits) + 1}.", "unknown")
        said.edits.append(edit)
        answer = await self._caller.once("PATCH", f"{self._path}/queue/{said.id}", json={"content": edit.content})
        edit.outcome = answer.outcome
        self._note_pending_change("edits", answer)

    async def _withdraw(self, said: Said | None) -> None:
        if said is None:
            return
        answer = await self._caller.once("DELETE", f"{self._path}/queue/{said.id}")
        if said.withdrawn in (None, "refused"):
            said.withdrawn = answer.outcome
        self._note_pending_change("withdrawals", answer)

    def _note_pending_change(self, what: str, answer: Answered) -> None:
        self._book.counts[f"{what} {answer.outcome}"] += 1
        if answer.outcome == "refused" and answer.status not in (404, 409):
            self._book.violated("a valid request is accepted", f"{what}: {answer.status}", self._ledger.id)

    async def _cancel(self, *, clear: bool) -> None:
        self._ledger.cleared = self._ledger.cleared or clear
        answer = await self._caller.once("POST", f"{self._path}/cancel", json={"clear_queue": clear})
        if answer.outcome == "accepted":
            await self._see_idle(answer)

    async def _see_idle(self, cancelled: Answered) -> None:
        """A cancelled session is idle soon, and this user says nothing meanwhile."""
        while True:
            session = await self._session()
            took = time.monotonic() - cancelled.answered_at
            excused = self._book.is_excused(cancelled.sent_at, time.monotonic())
            if session is None or excused:
                return
            if session["status"] == "idle":
                self._book.counts["cancels timed"] += 1
                self._book.slowest_cancel_s = max(self._book.slowest_cancel_s, took)
                return
            if took > CANCEL_S:
                self._book.violated("a cancel ends the step", f"still running after {took:.0f} s", self._ledger.id)
                return
            await asyncio.sleep(POLL_S)

    async def _delete(self) -> None:
        self._ledger.deleted = "unknown"
        answer = await self._caller.until_known("DELETE", self._path)
        if answer.outcome == "accepted" or answer.status == 404:
            self._ledger.deleted = "accepted"
            self._book.counts["sessions deleted"] += 1

    async def _session(self) -> dict[str, Any] | None:
        session = await self._caller.get(self._path)
        if session is not None:
            if session["last_seq"] < self._ledger.last_seq:
                was, now = self._ledger.last_seq, session["last_seq"]
                self._book.violated("what was seen is in the log", f"last_seq was {was}, is {now}", self._ledger.id)
            self._ledger.last_seq = session["last_seq"]
        return session

    async def settle(self) -> None:
        """Waits until the session is idle with nothing pending. What a cancel or a parked run holds back is let go by
        one more message. Time in which faults keep the server from its work does not count."""
        waited, looked = 0.0, time.monotonic()
        while waited < SETTLE_S:
            session = await self._session()
            if session is not None and session["status"] == "idle" and not session["compaction"]["in_progress"]:
                if session["queue"]["pending"] == 0:
                    self._ledger.settled = True
                    return
                await self._say("steer")
            await asyncio.sleep(POLL_S)
            now = time.monotonic()
            if not self._book.is_excused(looked, now):
                waited += now - looked
            looked = now
        session = await self._session()
        seen = {name: (session or {}).get(name) for name in ("status", "outcome", "queue", "compaction", "last_seq")}
        self._book.violated("a session becomes idle", f"after {SETTLE_S:.0f} s it is {seen}", self._ledger.id)

    async def _see_all(self) -> None:
        """Waits until a steady reader has every event. Time in which faults keep it from them does not count."""
        if "steady" not in self._plan.readers or not self._ledger.settled:
            return
        waited, looked = 0.0, time.monotonic()
        while missing := set(range(1, self._ledger.last_seq + 1)) - self._ledger.seen.keys():
            if waited > SEEN_S:
                detail = f"{SEEN_S:.0f} s after the end a reader lacks {sorted(missing)[:5]} of {self._ledger.last_seq}"
                self._book.violated("a stream is complete", detail, self._ledger.id)
                return
            await asyncio.sleep(POLL_S)
            now = time.monotonic()
            if not self._book.is_excused(looked, now):
                waited += now - looked
            looked = now


async def read_logs(caller: Caller, book: Book) -> None:
    """Reads each session's log of commands out of its workspace."""
    for ledger in book.sessions.values():
        if ledger.deleted is None and ledger.ran is None:
            response = await caller.http.get(f"/v1/sessions/{ledger.id}/files/{LOG}")
            if response.status_code == 200:
                ledger.ran = response.text.split()
            elif response.status_code == 404:
                ledger.ran = []
            else:
                detail = f"{LOG}: {response.status_code} {response.text[:200]}"
                book.violated("a workspace can be read", detail, ledger.id)


def pause(rng: random.Random) -> float:
    """Seconds between two sessions of one slot."""
    return rng.uniform(0, PAUSE_S)
