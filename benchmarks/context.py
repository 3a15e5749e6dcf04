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
from collections.abc import Sequence
from dataclasses import dataclass

from app.agent.compactor import Compactor, Room
from app.agent.conversation import AgentConfig, Conversation
from app.agent.interrupt import Interrupt
from app.agent.ladder import Ladder
from app.agent.model_calls import ModelCalls
from app.context.budget import make_budget
from app.context.policies import DEFAULT
from app.context.tokens import PER_MESSAGE, Calibration, estimate_part
from app.llm.base import ModelInfo, Prices, Provider, ToolSchema
from app.messages import Message, Part, Role, TextPart, ToolCallPart, ToolResultPart, ToolStatus, Usage, new_id, now

SHORT, LONG = 100, 10_000
"""Messages that are there before the steps that are measured."""

GOAL = 1.1
"""The most that a step at the long history may cost, relative to the short one."""

TOOLS = (ToolSchema("execute_command", "Runs a command.", {"type": "object", "properties": {}}),)


@dataclass
class Stage:
    """A conversation of a given length, with all that looks after its size."""

    conversation: Conversation
    compactor: Compactor
    config: AgentConfig
    seq: int

    @classmethod
    def of(cls, messages: int) -> Stage:
        info = ModelInfo("bench/model", "bench", 100_000_000, "setting", 32_000, Prices(), key_present=True)
        config = AgentConfig("bench/model", TOOLS, lambda _: "You are at work.", make_budget(info, DEFAULT))
        history = [message(1, Role.USER, TextPart(id=new_id(), index=0, text="the task"))]
        while len(history) < messages:
            history += step(len(history) + 1)
        conversation = Conversation(history, (), None, None, Calibration(1.0))
        conversation.refresh(config)
        calls = ModelCalls(lambda _: _unreachable(), lambda *_: None, 1)
        ladder = Ladder(None, conversation, calls, lambda _: info.context_window)
        compactor = Compactor(_NoSink(), conversation, ladder, Interrupt(), refreshed=_never)  # type: ignore[arg-type]
        return cls(conversation, compactor, config, len(history))

    async def step(self) -> None:
        """What a step does besides calling the model and running tools."""
        conversation = self.conversation
        conversation.refresh(self.config)
        room = await self.compactor.make_room(self.config, 1, _never)  # type: ignore[arg-type]
        assert room is Room.ENOUGH
        assert conversation.settle() is None
        request = conversation.request(self.config)
        assert request.messages
        conversation.state(self.config.budget)
        conversation.observe(Usage(input_tokens=conversation.transcript.request_tokens))
        answer, results = step(self.seq + 1)
        conversation.append(answer)
        conversation.answered()
        conversation.append(results)
        conversation.state(self.config.budget)
        self.seq += 2


class _NoSink:
    """Nothing here is stored."""


def _unreachable() -> tuple[Provider, str]:
    raise LookupError("no model is called here")


async def _never() -> AgentConfig:
    raise LookupError("no round is made here")


def message(seq: int, role: Role, *parts: Part) -> Message:
    """A message with its tokens counted, as the loop gets it."""
    counted = tuple(part.model_copy(update={"tokens": estimate_part(part)}) for part in parts)
    tokens = PER_MESSAGE + sum(part.tokens for part in counted)
    return Message(id=new_id(), seq=seq, role=role, parts=counted, tokens=tokens, model="bench/model", created_at=now())


def step(seq: int) -> tuple[Message, Message]:
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
        output="total 0\n" * 50,
        status=ToolStatus.COMPLETED,
    )
    return message(seq, Role.ASSISTANT, call), message(seq + 1, Role.TOOL, result)


async def measure(rounds: int, steps: int) -> tuple[float, float]:
    """Seconds of a step at the short and at the long history, measured in turn: of each the fastest round's mean, since
    what else the machine does can only add to it."""
    taken: dict[int, list[float]] = {SHORT: [], LONG: []}
    for _ in range(rounds):
        for length in (SHORT, LONG):
            stage = Stage.of(length)
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
    parser.add_argument("--strict", action="store_true", help="exit with 1 where the goal is missed")
    options = parser.parse_args(arguments)
    short, long = asyncio.run(measure(options.rounds, options.steps))
    ratio = long / short
    print(f"context per step at {SHORT:,} messages:   {short * 1e6:.1f} µs")
    print(f"context per step at {LONG:,} messages: {long * 1e6:.1f} µs")
    print(f"ratio: {ratio:.2f} (goal: ≤ {GOAL})")
    return 1 if options.strict and ratio > GOAL else 0


if __name__ == "__main__":
    sys.exit(main())
