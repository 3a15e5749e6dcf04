"""What keeping the context costs a step: `python -m benchmarks.context` compares a short history with a long one.

For each step the agent looks at the size of its context, decides whether to make room, projects what is new, checks it
and hands over the request. All of that is to depend on what is new in the step alone. Both lengths are measured in turn
in one process, so that what the machine does besides falls on both.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from app.agent.compactor import Compactor, Room
from app.agent.conversation import AgentConfig, Conversation
from app.agent.interrupt import Interrupt
from app.agent.ladder import Ladder
from app.agent.model_calls import ModelCalls
from app.context.budget import make_budget
from app.context.policies import DEFAULT, CompactionSettings, resolve
from app.context.tokens import PER_MESSAGE, Calibration, estimate_part
from app.llm.base import ModelInfo, Prices, Provider, ToolSchema
from app.messages import Message, Part, Role, TextPart, ToolCallPart, ToolResultPart, ToolStatus, Usage, new_id, now
from benchmarks.report import Result, table

SHORT, LONG = 100, 10_000
"""Messages that are there before the steps that are measured."""

GOAL = 1.1
"""The most that a step at the long history may cost, relative to the short one."""

TOOLS = (ToolSchema("execute_command", "Runs a command.", {"type": "object", "properties": {}}),)


FAR = 100_000_000
"""A window, in tokens, of which no history here comes near the trigger."""

OUTPUT = "x" * 12_000
"""Of a call before the steps that are measured. Theirs are small, so that they stay as near to the trigger."""


@dataclass(frozen=True, slots=True)
class Scene:
    """How near a trigger is, and what there is to be done about it; `configure` takes the estimated tokens of the
    history, which begins with the `task`."""

    name: str
    configure: Callable[[int], AgentConfig]
    task: str = "the task"


def far(tokens: int) -> AgentConfig:
    """No trigger is near."""
    return _config(DEFAULT, FAR)


def near(tokens: int) -> AgentConfig:
    """At 85 % of the trigger, where a summary would be prepared were there no outputs to clear first."""
    reserves = {"output_reserve": 1, "safety_buffer": 1, "prune_protect": 5_000, "prune_minimum": 1_000}
    return _config(resolve({"policy": "reactive", "background": True, **reserves}), int(tokens / 0.85))


def beyond(tokens: int) -> AgentConfig:
    """Beyond a trigger that the system prompt alone exceeds, so that nothing can be done."""
    return _config(_low(10 * tokens), 10 * tokens, "You are at work." * 500)


def beyond_task(tokens: int) -> AgentConfig:
    """Beyond a trigger that the task alone exceeds."""
    return _config(_low(10 * tokens), 10 * tokens)


SCENES = (
    Scene("far from a trigger", far),
    Scene("at 85 % of it", near),
    Scene("beyond one that the system prompt exceeds", beyond),
    Scene("beyond one that the task exceeds", beyond_task, "Do this. " * 1_000),
)


def _low(window: int) -> CompactionSettings:
    """With a trigger of about a thousand tokens."""
    return resolve({"policy": "threshold", "threshold_percent": 1_000 / window})


def _config(settings: CompactionSettings, window: int, system: str = "You are at work.") -> AgentConfig:
    info = ModelInfo("bench/model", "bench", window, "setting", 32_000, Prices(), key_present=True)
    return AgentConfig("bench/model", TOOLS, system, make_budget(info, settings), settings=settings)


@dataclass
class Stage:
    """A conversation of a given length, with all that looks after its size."""

    conversation: Conversation
    compactor: Compactor
    config: AgentConfig
    seq: int

    @classmethod
    def of(cls, messages: int, scene: Scene) -> Stage:
        history = [message(1, Role.USER, TextPart(id=new_id(), index=0, text=scene.task))]
        while len(history) < messages:
            history += step(len(history) + 1, OUTPUT)
        config = scene.configure(sum(message.tokens for message in history))
        conversation = Conversation(history, (), None, None, Calibration(1.0))
        conversation.refresh(config)
        calls = ModelCalls(lambda _: _unreachable(), lambda *_: None, 1)
        sink = _NoSink()
        ladder = Ladder(sink, conversation, calls, lambda _: config.budget.limit)  # type: ignore[arg-type]
        compactor = Compactor(sink, conversation, ladder, Interrupt(), refreshed=_never)  # type: ignore[arg-type]
        return cls(conversation, compactor, config, len(history))

    async def step(self) -> None:
        """What a step does besides calling the model and running tools."""
        conversation = self.conversation
        conversation.refresh(self.config)
        room = await self.compactor.make_room(self.config, 1, _nothing)
        assert room is Room.ENOUGH
        assert conversation.settle() is None
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
    """Nothing here is stored."""


def _unreachable() -> tuple[Provider, str]:
    raise LookupError("no model is called here")


async def _never(_: AgentConfig) -> AgentConfig:
    raise LookupError("no round is made here")


async def _nothing() -> None:
    """There is nothing to be stored before a round."""


def message(seq: int, role: Role, *parts: Part) -> Message:
    """A message with its tokens counted, as the loop gets it."""
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


async def measure(scene: Scene, rounds: int, steps: int) -> tuple[float, float]:
    """Seconds of a step at the short and at the long history, measured in turn: of each the fastest round's mean, since
    what else the machine does can only add to it. What is done in some steps alone is in the mean."""
    taken: dict[int, list[float]] = {SHORT: [], LONG: []}
    for _ in range(rounds):
        for length in (SHORT, LONG):
            stage = Stage.of(length, scene)
            for _ in range(5):
                await stage.step()
            began = time.perf_counter()
            for _ in range(steps):
                await stage.step()
            taken[length].append((time.perf_counter() - began) / steps)
    return min(taken[SHORT]), min(taken[LONG])


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.context", description=__doc__)
    parser.add_argument("--rounds", type=int, default=7, help="rounds; the fastest of each length counts (default: 7)")
    parser.add_argument("--steps", type=int, default=200, help="steps in a round (default: 200)")
    parser.add_argument("--strict", action="store_true", help="exit with 1 where a goal is missed")
    options = parser.parse_args(arguments)
    results = []
    for scene in SCENES:
        short, long = asyncio.run(measure(scene, options.rounds, options.steps))
        against = f"{SHORT:,} messages:"
        what = f"a step at {LONG:,} messages, {scene.name}"
        results.append(Result(what, long * 1e6, "µs", GOAL, short * 1e6, against, goal_is_ratio=True))
    print(table(results))
    return 1 if options.strict and not all(result.met for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
