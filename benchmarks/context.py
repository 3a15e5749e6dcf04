"""What context management costs a step: `python -m benchmarks.context` compares a short and a long history.

In each step the agent measures its context, decides whether to compact, projects what is new, validates it and hands
over the request. All of that should depend only on what is new in the step.

Method: the process's CPU time is measured, threads included. A round takes the same steps at both histories,
alternating, so that disturbances affect both. All rounds begin with the same histories and take the same steps.
Disturbances can only slow a step down, so the minimum over all rounds counts for each step, and the result is the mean
over the steps: work done only in some steps, such as a check of the whole context, is included at full cost. The spread
is the range of the ratios computed from each third of the rounds alone. The garbage collector is off during a round:
its cost depends on everything the process holds.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from app.agent.compaction.compactor import Compactor
from app.agent.compaction.ladder import Ladder, RoundSetup
from app.agent.compaction.rounds import RoomResult
from app.agent.conversation import Conversation
from app.agent.interrupt import Interrupt
from app.agent.model_calls import ModelCalls
from app.agent.protocols import AgentConfig
from app.agent.record import StoredConversation
from app.context.budget import make_budget
from app.context.policies import DEFAULT, CompactionSettings, resolve
from app.context.tokens import PER_MESSAGE, Calibration, estimate_part
from app.llm.base import UNKNOWN_PRICES, ModelInfo, Provider, ToolSchema
from app.messages import Message, Part, Role, TextPart, ToolCallPart, ToolResultPart, ToolStatus, Usage, new_id, now
from benchmarks.report import Result, table
from benchmarks.stats import quiet_mean, spread

SHORT, LONG = 100, 10_000
"""Messages before the measured steps."""

GOAL = 1.1
"""Maximum cost of a step at the long history, relative to the short one."""

TOOLS = (ToolSchema("execute_command", "Runs a command.", {"type": "object", "properties": {}}),)


FAR = 100_000_000
"""A window, in tokens, so large that no history here comes near the trigger."""

LEAST_STEPS = 200
"""Steps per round: at the long history, a futile check of the whole context runs every 100 steps."""

WARM_UP = 5
"""Unmeasured steps before, in which the existing history is processed."""

LONG_TASK = "Do this. " * 1_000

OUTPUT = "x" * 12_000
"""Output of a call before the measured steps. Theirs are small, so the distance to the trigger stays the same."""


@dataclass(frozen=True, slots=True)
class Scene:
    """How near the trigger is, and what can be compacted; `configure` takes the estimated tokens of the history, which
    begins with the `task`."""

    name: str
    configure: Callable[[int], AgentConfig]
    task: str = "the task"


def far(tokens: int) -> AgentConfig:
    """No trigger is near."""
    return _config(DEFAULT, FAR)


def near(tokens: int) -> AgentConfig:
    """At 85 % of the trigger, where a summary would be prepared if there were no outputs to clear first."""
    reserves = {"output_reserve": 1, "safety_buffer": 1, "prune_protect": 5_000, "prune_minimum": 1_000}
    return _config(resolve({"policy": "reactive", "background": True, **reserves}), int(tokens / 0.85))


def beyond(tokens: int) -> AgentConfig:
    """Beyond a trigger that the system prompt alone exceeds, so nothing helps."""
    return _config(_low(10 * tokens), 10 * tokens, "You are at work." * 500)


def beyond_task(tokens: int) -> AgentConfig:
    """Beyond a trigger that the task alone exceeds."""
    return _config(_low(10 * tokens), 10 * tokens)


def handed_off(tokens: int) -> AgentConfig:
    """Beyond a hand-off's trigger that the last request, which would be kept verbatim, exceeds alone."""
    return _config(resolve({"policy": "handoff", "handoff_threshold": 1_000}), 10 * tokens)


SCENES = (
    Scene("far from a trigger", far),
    Scene("at 85 % of it", near),
    Scene("beyond one that the system prompt exceeds", beyond),
    Scene("beyond one that the task exceeds", beyond_task, LONG_TASK),
    Scene("beyond a hand-off's that the task exceeds", handed_off, LONG_TASK),
)


def _low(window: int) -> CompactionSettings:
    """With a trigger of about a thousand tokens."""
    return resolve({"policy": "threshold", "threshold_percent": 1_000 / window})


def _config(settings: CompactionSettings, window: int, system: str = "You are at work.") -> AgentConfig:
    info = ModelInfo("bench/model", "bench", window, "setting", 32_000, UNKNOWN_PRICES, key_present=True)
    return AgentConfig("bench/model", TOOLS, system, make_budget(info, settings), settings=settings)


@dataclass
class Stage:
    """A conversation of a given length, with everything that manages its size."""

    conversation: Conversation
    compactor: Compactor
    config: AgentConfig
    seq: int

    @classmethod
    async def of(cls, history: Sequence[Message], scene: Scene) -> Stage:
        config = scene.configure(sum(message.tokens for message in history))
        conversation = Conversation(StoredConversation(history), (), Calibration(1.0))
        await conversation.refresh(config)
        calls = ModelCalls(lambda _: _unreachable(), lambda *_: None, 1)
        sink = _NoSink()
        ladder = Ladder(sink, conversation, calls, lambda _: config.budget.limit)  # type: ignore[arg-type]
        compactor = Compactor(RoundSetup(sink, conversation, ladder, Interrupt(), _never))  # type: ignore[arg-type]
        return cls(conversation, compactor, config, len(history))

    async def step(self) -> None:
        """A step without calling the model and running tools."""
        conversation = self.conversation
        await conversation.refresh(self.config)
        room = await self.compactor.make_room(self.config, 1, _nothing)
        assert room is RoomResult.ENOUGH
        assert await conversation.settle() is None
        request = conversation.request(self.config)
        assert request.messages
        conversation.state(self.config.budget)
        conversation.observe(Usage(input_tokens=conversation.transcript.request_tokens))
        answer, results = step(self.seq + 1, "ok")
        conversation.append(answer)
        conversation.answered()
        conversation.append(results)
        conversation.state(self.config.budget)
        self.seq += 2


class _NoSink:
    """Stores nothing."""


def _unreachable() -> tuple[Provider, str]:
    raise LookupError("no model is called here")


async def _never(_: AgentConfig) -> AgentConfig:
    raise LookupError("no round is made here")


async def _nothing() -> None:
    """Nothing needs to be stored before a round."""


def message(seq: int, role: Role, *parts: Part) -> Message:
    """A message with its tokens counted, as the loop receives it."""
    counted = tuple(part.model_copy(update={"tokens": estimate_part(part)}) for part in parts)
    tokens = PER_MESSAGE + sum(part.tokens for part in counted)
    return Message(id=new_id(), seq=seq, role=role, parts=counted, tokens=tokens, model="bench/model", created_at=now())


def step(seq: int, output: str) -> tuple[Message, Message]:
    """A model's call and its result."""
    call_id = new_id()
    call = ToolCallPart(
        id=new_id(), index=0, call_id=call_id, name="execute_command", arguments_text='{"command": "ls -la"}'
    )
    result = ToolResultPart(
        id=new_id(),
        index=0,
        call_id=call_id,
        name="execute_command",
        output=output,
        status=ToolStatus.COMPLETED,
    )
    return message(seq, Role.ASSISTANT, call), message(seq + 1, Role.TOOL, result)


def history_of(messages: int, scene: Scene) -> list[Message]:
    """A task, followed by calls with their outputs."""
    history = [message(1, Role.USER, TextPart(id=new_id(), index=0, text=scene.task))]
    while len(history) < messages:
        history += step(len(history) + 1, OUTPUT)
    return history


Round = dict[int, list[float]]
"""CPU seconds of each step of a round, by the length of the history."""


async def measure(scene: Scene, rounds: int, steps: int) -> list[Round]:
    """Measures all rounds of a scene."""
    histories = {length: history_of(length, scene) for length in (SHORT, LONG)}
    return [await one_round(scene, histories, steps, number) for number in range(rounds)]


async def one_round(scene: Scene, histories: dict[int, list[Message]], steps: int, number: int) -> Round:
    """Times the same steps at each history, alternating; the order changes with the round's number."""
    lengths = sorted(histories, reverse=number % 2 == 1)
    stages = {length: await Stage.of(histories[length], scene) for length in lengths}
    for stage in stages.values():
        for _ in range(WARM_UP):
            await stage.step()
    taken: Round = {length: [] for length in lengths}
    with _no_collector():
        for _ in range(steps):
            for length in lengths:
                began = time.process_time()
                await stages[length].step()
                taken[length].append(time.process_time() - began)
    return taken


@contextmanager
def _no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def result(scene: Scene, rounds: Sequence[Round]) -> Result:
    """The row of a scene."""
    short, long = _means(rounds)
    thirds = [_means(rounds[first::3]) for first in range(min(3, len(rounds)))]
    return Result(
        f"a step at {LONG:,} messages, {scene.name}",
        long * 1e6,
        "µs",
        GOAL,
        short * 1e6,
        f"{SHORT:,} messages:",
        goal_is_ratio=True,
        spread=spread([slow / fast for fast, slow in thirds]),
    )


def _means(rounds: Sequence[Round]) -> tuple[float, float]:
    """Seconds of a step at the short and at the long history."""
    short, long = (quiet_mean([taken[length] for taken in rounds]) for length in (SHORT, LONG))
    return short, long


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.context",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rounds", type=int, default=30, help="rounds of each scene (default: 30)")
    text = f"steps in a round, {LEAST_STEPS} or more (default: {LEAST_STEPS})"
    parser.add_argument("--steps", type=int, default=LEAST_STEPS, help=text)
    parser.add_argument("--strict", action="store_true", help="exit with 1 where a goal is missed")
    options = parser.parse_args(arguments)
    if options.rounds < 1 or options.steps < LEAST_STEPS:
        parser.error(f"--rounds must be 1 or more, --steps {LEAST_STEPS} or more")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    results = [result(scene, asyncio.run(measure(scene, options.rounds, options.steps))) for scene in SCENES]
    print(table(results))
    return 1 if options.strict and not all(row.met for row in results) else 0


if __name__ == "__main__":
    sys.exit(main())
