"""Sixty steps with every kind of event, over each kind of model and under each policy: steers, an interrupt, a cancel
and a resume, another model, a killed server, and at least six compactions on the way."""

from __future__ import annotations

import signal
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.behavior.checks import assert_sound
from tests.behavior.combinations import across
from tests.behavior.families import FAMILIES, Family
from tests.behavior.harness import Client, command, of_type
from tests.behavior.long_task import SUMMARY, asks_for_summary
from tests.behavior.process import ServerProcess
from tests.behavior.rounds import POLICIES
from tests.load import LONG
from tests.provider import FakeProvider, Gate, Reasoning, RecordedRequest, Reply, Text, ToolCall

STEPS, ROUNDS = (60, 6) if LONG else (40, 4)
TIMEOUT_S = 60.0

DEEDS = {6: "steer", 12: "interrupt", 18: "cancel", 24: "model", 30: "kill", 36: "steer"}
"""Events while a step's answer waits at its gate."""


@dataclass
class Worker:
    """A model that reasons, writes a file at each odd step and runs a command at each even one."""

    family: Family
    made: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, request: RecordedRequest) -> Reply:
        with self._lock:
            if asks_for_summary(request):
                return Reply(Text(SUMMARY.format(step=self.made)))
            self.made += 1
            if self.made > STEPS:
                return Reply(Reasoning("That is all."), Text("All done."))
            return Reply(Reasoning(f"Thinking about {self.made}."), Text(f"Step {self.made}."), *self._work())

    def _work(self) -> list[Gate | ToolCall]:
        gate = [Gate(f"step-{self.made}")] if self.made in DEEDS else []
        size = self.family.chars
        if self.made % 2:
            arguments = {"path": f"notes/{self.made}.txt", "content": f"{self.made} " * (size // 4)}
            return [*gate, ToolCall("write_file", arguments)]
        return [
            *gate,
            command(f"head -c {size} /dev/zero | tr '\\0' x; echo {self.made}"),
        ]


@dataclass
class Story:
    """One session from its task to its end, over as many server processes as needed."""

    provider: FakeProvider
    family: Family
    policy: str
    data_dir: Path
    image: str
    session_id: str = ""

    async def tell(self) -> None:
        steps = iter(sorted(DEEDS))
        with self._server() as server:
            async with Client(server.url) as client:
                made = await client.create(
                    "Write the notes, one at a time.",
                    model=self.family.model,
                    compaction=self.policy,
                    limits={"max_steps": None},
                )
                self.session_id = made["id"]
                for step in steps:
                    await self.provider.reached(f"step-{step}", timeout=TIMEOUT_S)
                    if DEEDS[step] == "kill":
                        break
                    await self._do(client, step)
            server.end(signal.SIGKILL)
        self.provider.open(f"step-{step}")
        with self._server() as server:
            async with Client(server.url) as client:
                for step in steps:
                    await self.provider.reached(f"step-{step}", timeout=TIMEOUT_S)
                    await self._do(client, step)
                await client.until_idle(self.session_id)
                await self._check(client)

    def _server(self) -> ServerProcess:
        more = self.family.environment(self.provider)
        return ServerProcess(self.data_dir, self.provider, "bubblewrap", self.image, more=more)

    async def _do(self, client: Client, step: int) -> None:
        deeds: dict[str, Callable[[Client, int], Awaitable[None]]] = {
            "steer": self._steer,
            "interrupt": self._interrupt,
            "cancel": self._cancel,
            "model": self._change_model,
        }
        await deeds[DEEDS[step]](client, step)

    async def _steer(self, client: Client, step: int) -> None:
        await client.post(self.session_id, f"Keep note {step} short.")
        await client.post(self.session_id, f"And number {step} last.")
        self.provider.open(f"step-{step}")

    async def _interrupt(self, client: Client, step: int) -> None:
        await client.post(self.session_id, "Start that one over.", mode="interrupt")

    async def _cancel(self, client: Client, step: int) -> None:
        (await client.http.post(f"/v1/sessions/{self.session_id}/cancel")).raise_for_status()
        await client.until_idle(self.session_id)
        (await client.http.post(f"/v1/sessions/{self.session_id}/resume")).raise_for_status()

    async def _change_model(self, client: Client, step: int) -> None:
        body = {"model": self.family.other_model}
        await client.change(self.session_id, **body)
        self.provider.open(f"step-{step}")

    async def _check(self, client: Client) -> None:
        session = await client.session(self.session_id)
        assert (session["outcome"], session["error"]) == ("completed", None)
        events = await assert_sound(client, self.session_id)
        assert len(of_type(events, "compaction.completed")) >= ROUNDS
        assert of_type(events, "compaction.failed") == []
        assert len(of_type(events, "session.recovered")) == 1


def lessons(provider: FakeProvider) -> list[int]:
    """The requests whose refusals taught something. A step and a background summary sent together are refused for the
    same thing, before either can learn it."""
    refused = [refusal.request for refusal in provider.refusals]
    return [number for number in refused if number - 1 not in refused]


@pytest.mark.extended
@pytest.mark.slow
@pytest.mark.bubblewrap
@pytest.mark.timeout(300)
@across(1, family=FAMILIES, policy=POLICIES)
async def test_a_long_run_completes_the_task(
    provider: FakeProvider, tmp_path: Path, sandbox_image: str, family: Family, policy: str
) -> None:
    provider.configure(**family.provider)
    worker = Worker(family)
    provider.respond(worker)
    await Story(provider, family, policy, tmp_path / "data", sandbox_image).tell()
    assert worker.made > STEPS
    unexpected = [r for r in provider.refusals if r.rule not in family.teaches]
    assert unexpected == []
    assert len(lessons(provider)) <= family.lessons, provider.refusals
