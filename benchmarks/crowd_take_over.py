"""Take-overs of a worker with many sessions, which are in all phases of their work when it is killed or frozen."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, get_args

import httpx
from sqlalchemy import text

from scripts.servers.postgres import temporary_database
from scripts.servers.temporal import stored_temporal
from tests.behavior.approving import ALWAYS, approve_all, command
from tests.behavior.harness import Client
from tests.behavior.long_task import SUMMARY, asks_for_summary
from tests.behavior.process import ServerProcess
from tests.behavior.rounds import compact, settings
from tests.cluster.rig import Cluster
from tests.provider import FakeProvider, Gate, RecordedRequest, Reply, Text
from tests.provider.server import running_provider
from tests.soak.checks.history import check_history, check_rest
from tests.soak.checks.log import check_calls, check_parts, check_rounds, check_runs, check_seqs, check_steps
from tests.soak.checks.queue import check_order
from tests.soak.cluster.writes import check_writers, install, writes
from tests.soak.database import load, reading

Phase = Literal["asking", "streaming", "running", "compacting", "approval"]
PHASES: tuple[Phase, ...] = get_args(Phase)
"""Waiting for the model, receiving its answer, running a command, summarizing, and waiting for a person."""
STEPS_NEXT: tuple[Phase, ...] = ("asking", "streaming", "running")
"""Phases whose sessions make another step by themselves."""
GOAL_S, WORST_S = 5.0, 8.0
"""The median and the worst that are to be kept, in seconds."""
RUNS: dict[Phase, str] = {
    "asking": "again\n",
    "streaming": "again\n",
    "running": "ran\nagain\n",
    "compacting": "one\ntwo\nthree\nagain\n",
    "approval": "approved\n",
}
"""What the commands of a session have written in the end, each exactly once."""
LONG_S = 600
READY_S = 60.0


class Model:
    """Answers by the session's name, which is in its task, and by how often it was asked."""

    def __init__(self) -> None:
        self._turns: Counter[str] = Counter()

    def __call__(self, request: RecordedRequest) -> Reply:
        found = re.search(r"\[\[([a-z]+)-(\w+)\]\]", request.first_user_text + str(request.body))
        assert found is not None
        name = f"{found[1]}-{found[2]}"
        if asks_for_summary(request):
            self._turns["summary " + name] += 1
            before = [Gate(name)] if self._turns["summary " + name] == 1 else []
            return Reply(*before, Text(SUMMARY.format(step=1)))
        self._turns[name] += 1
        return self._answer(found[1], name, self._turns[name])

    @staticmethod
    def _answer(phase: str, name: str, turn: int) -> Reply:
        # Outputs that are worth a compaction.
        filler = "head -c 4000 /dev/zero | tr '\\0' x"
        work = [shell(f"echo {word} >> runs; {filler}") for word in ("one", "two", "three")]
        answers: dict[str, list[Reply]] = {
            "asking": [Reply(Gate(name), Text("late")), Reply(command("again"))],
            "streaming": [Reply(Text("half of it", 3), Gate(name), Text("the rest")), Reply(command("again"))],
            "running": [Reply(shell(f"echo ran >> runs; sleep {LONG_S}")), Reply(command("again"))],
            "compacting": [*(Reply(call) for call in work), Reply(Text("Done.")), Reply(command("again"))],
            "approval": [Reply(command("approved"))],
        }
        mine = answers[phase]
        return mine[turn - 1] if turn <= len(mine) else Reply(Text("Done."))


def shell(line: str) -> Any:
    from tests.behavior.harness import command as call

    return call(line, timeout_s=LONG_S)


@dataclass(slots=True)
class Found:
    """The seconds of all tries, by phase, until the next claim and the next step; and whatever was wrong."""

    claims: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    steps: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    wrong: list[str] = field(default_factory=list)
    refused: list[int] = field(default_factory=list)
    """Sessions of each woken worker whose owner had a write refused, by its log."""
    stopped: list[int] = field(default_factory=list)
    """The others, whose owners saw that another worker has them before they had anything to write."""
    tries: int = 0

    def add(self, other: Mapping[str, Any]) -> None:
        """Adds tries, as `values` gives them."""
        for mine, others in ((self.claims, other["claims"]), (self.steps, other["steps"])):
            for phase, seconds in others.items():
                mine[phase] += seconds
        self.wrong += other["wrong"]
        self.refused += other["refused"]
        self.stopped += other["stopped"]
        self.tries += other["tries"]

    def values(self) -> dict[str, Any]:
        """All fields, for JSON."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def told(self, how: str, sessions: int) -> str:
        """A summary of several lines."""
        steps = [seconds for found in self.steps.values() for seconds in found]
        lines = [f"{how}: {self.tries} tries, {sessions} sessions each, next step {_spread(steps)}"]
        for phase in PHASES:
            step = f", next step {_spread(self.steps[phase])}" if self.steps[phase] else ""
            lines.append(f"  {phase:10} claimed {_spread(self.claims[phase])}{step}")
        if self.refused:
            lines.append(
                f"  woken workers: writes of {_range(self.refused)} sessions refused, {_range(self.stopped)} noticed"
            )
        return "\n".join(lines + self.wrong)

    @property
    def is_late(self) -> bool:
        """Whether the goals were missed."""
        steps = [seconds for found in self.steps.values() for seconds in found]
        return not steps or statistics.median(steps) > GOAL_S or max(steps) > WORST_S


def _range(counts: Sequence[int]) -> str:
    return f"{min(counts)} to {max(counts)}"


def _spread(seconds: Sequence[float]) -> str:
    if not seconds:
        return "never"
    return f"median {statistics.median(seconds):.2f} s, worst {max(seconds):.2f} s ({len(seconds)})"


class Crowd:
    """The sessions of one try."""

    def __init__(self, cluster: Cluster, client: Client, provider: FakeProvider, folder: Path) -> None:
        self._cluster = cluster
        self._client = client
        self._provider = provider
        self._workspaces = folder / "data" / "workspaces"
        self.sessions: dict[str, tuple[Phase, str]] = {}
        """Phase and name by session."""

    async def begin(self, count: int, label: str) -> None:
        """Makes sessions and waits until each is in its phase."""
        made = [(PHASES[number % len(PHASES)], f"{label}n{number}") for number in range(count)]
        await asyncio.gather(*(self._begin(phase, f"{phase}-{name}") for phase, name in made))

    async def _begin(self, phase: Phase, name: str) -> None:
        more: dict[str, Any] = {"approval": ALWAYS | {"timeout_s": None}} if phase == "approval" else {}
        session_id = str((await self._client.create(f"[[{name}]]", compaction=settings(), **more))["id"])
        self.sessions[session_id] = (phase, name)
        async with asyncio.timeout(READY_S):
            if phase == "running":
                while not (self._workspaces / session_id / "runs").exists():  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
            elif phase == "approval":
                await self._client.wait_for(session_id, lambda event: event.type == "approval.requested")
            else:
                if phase == "compacting":
                    await self._client.until_idle(session_id)
                    await compact(self._client, session_id)
                await self._provider.reached(name)

    async def finish(self) -> None:
        """Lets every session run to its end."""
        async with asyncio.timeout(READY_S), asyncio.TaskGroup() as group:
            left = set(self.sessions)
            while left:
                await asyncio.sleep(0.2)
                for session_id in left & await asyncio.to_thread(self._claimed_again):
                    left.remove(session_id)
                    group.create_task(self._finish(session_id, self.sessions[session_id][0]))

    async def _finish(self, session_id: str, phase: Phase) -> None:
        if phase == "approval":
            await approve_all(self._client, session_id)
        if phase == "compacting":
            await self._client.post(session_id, "and again")
        await self._client.until_idle(session_id)

    def _claimed_again(self) -> set[str]:
        """The sessions that a second worker has claimed, in one query: a connection for each session would take most of
        a core from what is measured."""
        query = "SELECT session_id FROM soak_claims GROUP BY session_id HAVING count(DISTINCT owner) > 1"
        with self._cluster.database.connect() as connection:
            return set(connection.execute(text(query)).scalars())

    def open_gates(self) -> None:
        """Has the model answer what a frozen worker had asked."""
        for phase, name in self.sessions.values():
            if phase in ("asking", "streaming", "compacting"):
                self._provider.open(name)


async def one_try(
    cluster: Cluster, client: Client, provider: FakeProvider, folder: Path, how: str, count: int, label: str, url: str
) -> tuple[Crowd, float, str, ServerProcess]:
    """Sessions on the newest worker, another worker, and the fault; returns when it happened, in seconds of the clock,
    and the worker that it hit."""
    crowd = Crowd(cluster, client, provider, folder)
    await crowd.begin(count, label)
    victim = next(name for name in reversed(cluster.nodes) if name.startswith("w"))
    await asyncio.to_thread(start_worker, cluster, f"w{label}", url)
    node = cluster.nodes[victim]
    began = time.time()
    if how == "freeze":
        node.freeze()
    else:
        await asyncio.to_thread(cluster.nodes.pop(victim).end, signal.SIGKILL)
    await crowd.finish()
    return crowd, began, victim, node


def start_worker(cluster: Cluster, name: str, url: str) -> None:
    """A worker with a database role of its own."""
    with cluster.database.begin() as connection:
        connection.exec_driver_sql(f'DROP ROLE IF EXISTS "{name}"')
        connection.exec_driver_sql(f'CREATE ROLE "{name}" SUPERUSER LOGIN')
    cluster.start(name, "worker", PALIMPSEST_DATABASE_URL=url.replace("palimpsest@", f"{name}@"))


def judge(cluster: Cluster, url: str, crowd: Crowd, began: float, found: Found, folder: Path) -> None:
    """Adds the times of a try, and what was wrong in it."""
    with reading(url) as connection:
        for session_id, (phase, name) in crowd.sessions.items():
            former, claimed, stepped = _times(connection, session_id, began)
            if claimed is None:
                found.wrong.append(f"{name}: nobody continued it after {former}")
                continue
            found.claims[phase].append(claimed - began)
            if phase in STEPS_NEXT:
                if stepped is None:
                    found.wrong.append(f"{name}: no step followed")
                else:
                    found.steps[phase].append(stepped - began)
            runs = folder / "data" / "workspaces" / session_id / "runs"
            ran = runs.read_text() if runs.exists() else "nothing"
            if ran != RUNS[phase]:
                found.wrong.append(f"{name}: its commands wrote {ran!r}")
            found.wrong += [f"{name}: {wrong}" for wrong in _unsound(connection, session_id, phase)]
        mine = [write for write in writes(connection) if write.session_id in crowd.sessions]
        found.wrong += [f"{session_id}: {wrong}" for session_id, wrong in check_writers(mine)]


def _times(connection: Any, session_id: str, began: float) -> tuple[str, float | None, float | None]:
    claims = connection.execute(
        text("SELECT owner, extract(epoch FROM at)::float FROM soak_claims WHERE session_id = :id ORDER BY n"),
        {"id": session_id},
    ).all()
    former = next((owner for owner, at in reversed(claims) if at <= began), "")
    claimed = next((at for owner, at in claims if at > began and owner not in (None, former)), None)
    stepped = connection.execute(
        text(
            "SELECT extract(epoch FROM min(at))::float FROM soak_writes WHERE session_id = :id AND type ="
            " 'step.started' AND owner <> :former AND at > to_timestamp(:began)"
        ),
        {"id": session_id, "former": former, "began": began},
    ).scalar()
    return former, claimed, stepped


def _unsound(connection: Any, session_id: str, phase: Phase) -> Iterator[str]:
    stored = load(connection, session_id)
    assert stored is not None
    events = stored.events
    yield from check_seqs(events, stored.row["last_seq"])
    for check in (check_runs, check_steps, check_calls, check_parts, check_rounds, check_order):
        yield from check(events)
    yield from check_history(stored)
    yield from check_rest(stored)
    created = [event.data["message"] for event in events if event.type == "message.created"]
    said = [message for message in created if message["role"] == "user" and not message["is_summary"]]
    if len(said) != (2 if phase == "compacting" else 1):
        yield f"{len(said)} messages were delivered"
    if stored.row["outcome"] != "completed":
        yield f"it ended as {stored.row['outcome']}: {stored.row['error']}"


def read(path: Path, how: str, count: int) -> Found:
    """What a file has of such tries, each of which is a line."""
    found = Found()
    lines = path.read_text().splitlines() if path.exists() else []
    for each in map(json.loads, lines):
        if (each["fault"], each["sessions"]) == (how, count):
            found.add(each["found"])
    return found


async def measure(how: str, tries: int, count: int, done: Callable[[Found], None]) -> None:
    """Gives each try to `done` as it ends."""
    with ExitStack() as stack:
        folder, url = Path(stack.enter_context(TemporaryDirectory())), stack.enter_context(temporary_database())
        provider = stack.enter_context(running_provider())
        cluster = stack.enter_context(Cluster(folder, provider, url, stored_temporal().address, {}))
        api = cluster.start("api", "api")
        install(cluster.database, [])
        await asyncio.to_thread(start_worker, cluster, "w0", url)
        provider.respond(Model())
        async with Client(api.url) as client:
            for number in range(1, tries + 1):
                found = Found(tries=1)
                try:
                    await _try(cluster, client, provider, folder, how, count, str(number), url, found)
                except TimeoutError:
                    found.wrong.append(f"try {number}: not at its end within {READY_S:.0f} s")
                    done(found)
                    return
                done(found)


async def _try(
    cluster: Cluster,
    client: Client,
    provider: FakeProvider,
    folder: Path,
    how: str,
    count: int,
    label: str,
    url: str,
    found: Found,
) -> None:
    crowd, began, victim, node = await one_try(cluster, client, provider, folder, how, count, label, url)
    if how == "freeze":
        log = await _wake(cluster, crowd, victim, node)
        refused = _named(log, "session_taken_over") & crowd.sessions.keys()
        found.refused.append(len(refused))
        found.stopped.append(len(_named(log, "session_claimed_elsewhere") & crowd.sessions.keys() - refused))
    judge(cluster, url, crowd, began, found, folder)


async def _wake(cluster: Cluster, crowd: Crowd, victim: str, node: ServerProcess) -> str:
    """Lets a frozen worker continue until it owns nothing; returns its log."""
    node.thaw()
    crowd.open_gates()
    async with asyncio.timeout(READY_S), httpx.AsyncClient(trust_env=False) as http:
        at_rest = "palimpsest_running_sessions 0.0"
        while at_rest not in (await http.get(f"{node.url}/metrics")).text:  # noqa: ASYNC110 - another process's
            await asyncio.sleep(0.1)
    log = cluster.log(victim)
    await asyncio.to_thread(cluster.nodes.pop(victim).end, signal.SIGTERM)
    return log


def _named(log: str, event: str) -> set[str]:
    """The sessions that lines of this event name."""
    lines = (json.loads(line) for line in log.splitlines() if event in line)
    return {line["session_id"] for line in lines if line["event"] == event}
