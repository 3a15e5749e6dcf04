"""The conversation of a running session as its model is to continue it: its requests and their size, its control
messages, and the changes that look at all of it, which run off the event loop."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Mapping, Sequence, Sized
from dataclasses import replace
from datetime import datetime
from itertools import takewhile
from typing import ParamSpec, TypeVar

import structlog

from app.agent.changes import Change, ControlAdded, GenerationOpened, OutputsPruned
from app.agent.protocols import AgentConfig, Sink
from app.agent.shown_history import ShownHistory
from app.context.budget import Budget
from app.context.checkpoints import InForce
from app.context.facts import Facts
from app.context.projection import Transcript
from app.context.prompts import ControlKind, Generation, control_text, with_plan
from app.context.selection import is_request
from app.context.tokens import PER_MESSAGE, Calibration, estimate_text
from app.context.validator import repair
from app.errors import Reshape
from app.llm.base import ModelRequest, Remedy
from app.messages import Message, ReasoningPart, Role, TextPart, Usage, new_id, now
from app.sessions import ContextState

P = ParamSpec("P")
T = TypeVar("T")
LONG = 100
"""Number of messages from which work that reads all of them runs in a thread. With fewer, the longest work, which
measures a dozen contexts in turn, takes about 10 ms."""
MESSAGE_BYTES, TOKEN_BYTES = 4_000, 8
"""Memory for a message: 3,000 to 3,400 bytes were measured, and two for each of its characters, one in its encoded
form."""
log = structlog.get_logger(__name__)


class Conversation(ShownHistory):
    """Builds each step's request incrementally, and knows its size. What reads all messages is awaited: it runs off the
    event loop, and what it found is taken over on it."""

    async def refresh(self, config: AgentConfig) -> GenerationOpened | None:
        """Starts a generation if model, tools or system text have changed or a round was reverted; else returns None. A
        changed plan is no reason: it is in the results of `update_plan`, and from the next generation on in the system
        text."""
        opened = self.due_generation(config)
        if opened is not None:
            await self._begin(opened, config)
        return opened

    async def reshape(self, config: AgentConfig, wanted: Reshape) -> list[Change]:
        """Begins the generation of `reshaped`, repaired: earlier repairs are applied again. For `clear_images` it is
        one without the present images."""
        changes: list[Change]
        if wanted == "clear_images":
            changes = await self.clear_images(config, tuple(image.id for image in self.transcript.images))
        else:
            opened = self.reshaped(config, wanted)
            await self._begin(opened, config)
            changes = [opened]
        repaired = await self.settle()
        return changes if repaired is None else [*changes, repaired]

    async def try_remedies(self, config: AgentConfig, remedies: Sequence[Remedy]) -> list[Change]:
        """Begins the generation of `remedied`, repaired."""
        opened = self.remedied(config, remedies)
        await self._begin(opened, config)
        repaired = await self.settle()
        return [opened] if repaired is None else [opened, repaired]

    async def clear_images(self, config: AgentConfig, ids: tuple[str, ...]) -> list[Change]:
        """Begins a generation without these images; returns what has to be recorded before its first request."""
        in_force, before = self.in_force.clearing(ids), self.estimate
        old = self.generation
        form = {"echo": old.echo_reasoning, "drop_block": old.drop_block, "sees_images": config.sees_images}
        opened = self.draft(config, "images", in_force, anew=True, **form)
        shown = await run_off_loop(self.rows, self.shown_by, opened.generation, in_force)
        self.adopt(opened, shown, in_force)
        return [OutputsPruned("images", (), (), before, self.estimate, image_ids=ids), opened]

    async def _begin(self, opened: GenerationOpened, config: AgentConfig) -> None:
        self.begin(opened, await run_off_loop(self.known, self.shown_by, opened.generation, self._in_force), config)

    async def settle(self) -> GenerationOpened | None:
        """Repairs the conversation if it could not be sent; a generation then begins. Something repaired before and
        only shown again, after a restart or in a new generation, is repaired in the same way without beginning one. Of
        a sound conversation only new messages are checked."""
        if self.transcript.is_sound():
            return None
        return self.take_repaired(*await run_off_loop(self.rows, self.repaired))

    async def say(self, kind: ControlKind, sink: Sink) -> None:
        """Adds a control message, here and in the stored history."""
        await self.add(control_message(kind), sink)

    async def add(self, message: Message, sink: Sink) -> None:
        """Adds a control message of any text."""
        seq = await sink.record(ControlAdded(message))
        self.append(message.model_copy(update={"seq": seq}))

    def facts(self) -> Facts:
        """The computed facts about the history."""
        return self._record.facts(self.plan, len(self._in_force.checkpoints), self.task_id)

    def spilled(self) -> list[Message]:
        """The user's messages that the context, or the last line of a summary, may show with only head and tail."""
        clipped = {part_id for checkpoint in self.in_force.checkpoints for part_id, _ in checkpoint.clips}
        if not clipped:
            return []
        return [m for m in self.rows if is_request(m) and not clipped.isdisjoint(part.id for part in m.parts)]

    def measure(self, in_force: InForce, summary: Message | None = None, *, config: AgentConfig | None = None) -> int:
        """Calibrated tokens that a request would have with other checkpoints and marks, a `summary` that is not in the
        history yet, and the system text of a generation drafted with this `config`. Whatever differs from the current
        generation begins another one, measured without the thinking that it drops."""
        generation = self.generation
        if config is not None or in_force != self._in_force:
            generation = self._following(generation.system if config is None else with_plan(config.system, self.plan))
        rows = self.rows if summary is None else [*self.rows, summary]
        transcript = Transcript(generation, rows, in_force.checkpoints, in_force.pruned, per_message=self._per_message)
        transcript.settle()
        return self.calibration.apply(transcript.request_tokens)

    def fixed(self, config: AgentConfig) -> int:
        """Calibrated tokens of system text and tools in a generation drafted with this `config`."""
        return self.calibration.apply(self._following(with_plan(config.system, self.plan)).fixed_tokens)

    def _following(self, system: str) -> Generation:
        return self._generations.following(self.generation, system, self._record.next_seq)

    @property
    def calibration(self) -> Calibration:
        """The correction factor between raw token estimates and this model's counts."""
        return self._gauge.calibration

    def recalibrate(self, known: Callable[[str], Calibration]) -> None:
        """Takes what other conversations have learned about its model."""
        self._gauge.recalibrate(known)

    def take_calibrations(self) -> Mapping[str, Calibration]:
        """The calibrations of all models counted since the last call."""
        return self._gauge.take_calibrations()

    @property
    def size(self) -> int:
        """Calibrated tokens of the next request once it is repaired, by Palimpsest's own estimate."""
        return self.measure(self._in_force)

    @property
    def estimate(self) -> int:
        """Calibrated tokens of the next request, by Palimpsest's own estimate."""
        return self.calibration.apply(self.transcript.request_tokens)

    def request(self, config: AgentConfig) -> ModelRequest:
        """The request of the next step; `messages` is one list for the whole generation."""
        return ModelRequest(
            model=self.generation.model,
            system=self.generation.system,
            messages=self.transcript.messages,
            tools=self.generation.tools,
            max_output_tokens=config.budget.output_reserve,
            temperature=config.temperature,
            reasoning_effort=config.reasoning_effort,
            drop_block=self.generation.drop_block,
            cache_key=self._cache_key(),
            wire_cache=self._wire_cache,
            has_images=bool(self.transcript.images),
        )

    def drafted_request(
        self, config: AgentConfig, generation: Generation, in_force: InForce, summary: Message
    ) -> ModelRequest:
        """The next request in a drafted generation, with a summary that is not in the history yet."""
        transcript = self.shown_by(generation, in_force, summary).transcript
        messages, _ = repair(transcript.messages, generation.reasoning)
        request = replace(self.request(config), model=generation.model, system=generation.system)
        return replace(
            request,
            tools=generation.tools,
            messages=messages,
            drop_block=generation.drop_block,
            wire_cache={},
            has_images=True,
        )

    def set_aside(self) -> int:
        """Drops what is large and easily made again; returns about how many bytes of memory remain."""
        if self.transcript.images:
            # Encoded messages contain them.
            self._wire_cache = {}
        tokens = self.generation.fixed_tokens + sum(message.tokens for message in self.known)
        blocks = sum(map(_block_bytes, self.known))
        return MESSAGE_BYTES * len(self.known) + TOKEN_BYTES * tokens + blocks

    def _cache_key(self) -> str | None:
        """One key for the session's whole life, since new generations mostly begin with the same instructions and
        tools. Hashed, so that internal ids do not leave the server."""
        first_id = self._record.first_id
        return hashlib.sha256(first_id.encode()).hexdigest()[:32] if first_id else None

    def sound_request(self, config: AgentConfig) -> ModelRequest:
        """Like `request`, but valid to send at any time, and with a message list that later steps do not change."""
        request = self.request(config)
        if self.transcript.is_sound():
            return replace(request, messages=list(request.messages))
        messages, repairs = repair(request.messages, self.generation.reasoning)
        return replace(request, messages=messages, wire_cache={} if repairs else request.wire_cache)

    def was_truncated(self, usage: Usage, *, known_window: bool = False) -> bool:
        """Whether a reported prompt is so small that the server must have dropped part of it."""
        return self._gauge.was_truncated(usage, self.transcript, known_window=known_window)

    def known_to_fit(self, usage: Usage) -> int:
        """Tokens of the window that are certain to exist after part of the prompt was dropped."""
        return self._gauge.known_to_fit(usage)

    def observe(self, usage: Usage) -> None:
        """Record what a step reported, before its answer is appended."""
        self._gauge.observe(usage, self.transcript)

    def recounted(self, prompt_tokens: int) -> None:
        """Record the provider's own count of the next request."""
        self._gauge.recounted(prompt_tokens)

    def answered(self) -> None:
        """The answer was appended; its tokens are part of the reported usage and must not count twice."""
        self._gauge.answered()

    def state(self, budget: Budget) -> ContextState:
        """The context's size: the reported usage plus what came after it, or an estimate of everything."""
        return self._gauge.state(budget, self.transcript)


def control_message(kind: ControlKind) -> Message:
    """A control message of this kind that has no seq yet."""
    return control(control_text(kind))


def control(text: str) -> Message:
    """A control message that has no seq yet."""
    part = TextPart(id=new_id(), index=0, text=text, tokens=estimate_text(text))
    tokens = PER_MESSAGE + part.tokens
    return Message(id=new_id(), seq=0, role=Role.CONTROL, parts=(part,), tokens=tokens, created_at=now())


def is_last_word(message: Message) -> bool:
    """Whether this tells the model that the run's last step follows."""
    return message.role is Role.CONTROL and message.text in _LAST_STEPS


def had_last_word(history: Sequence[Message], began: datetime) -> bool:
    """Whether the run that began at `began` had reached its last step."""
    own = takewhile(lambda message: message.created_at >= began, reversed(history))
    return any(map(is_last_word, own))


def is_unanswered(history: Sequence[Message]) -> bool:
    """Whether the last thing said is a message of the user; a control message may follow it."""
    said = (each for each in reversed(history) if each.voided_at is None and not each.is_summary)
    last = next((each for each in said if each.role is not Role.CONTROL), None)
    return last is not None and last.role is Role.USER


def _block_bytes(message: Message) -> int:
    """Memory for a provider's own blocks, of which the tokens count no signatures, and for their encoded form."""
    blocks = (part.provider_data for part in message.parts if isinstance(part, ReasoningPart) and part.provider_data)
    return 2 * sum(len(value) for block in blocks for value in block.values() if isinstance(value, str))


_LAST_STEPS = (control_text("last_step"), control_text("last_step_of_session"))


async def run_off_loop(messages: Sized, work: Callable[P, T], *args: P.args, **more: P.kwargs) -> T:
    """Run `work`, which reads these messages and what belongs to them, without blocking other sessions.

    Anything that may change the conversation must await this. Nothing may change what a thread reads, so a cancellation
    waits until the work is done (a fraction of a second) and then replaces its result; an error of the work is logged
    and becomes the cancellation's cause.
    """
    if len(messages) < LONG:
        return work(*args, **more)
    task = asyncio.ensure_future(asyncio.to_thread(work, *args, **more))
    cancelled = False
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            cancelled = True
    if not cancelled:
        return task.result()
    error = None if task.cancelled() else task.exception()
    if error is not None:
        log.error("work_failed_after_cancel", work=getattr(work, "__qualname__", repr(work)), exc_info=error)
    raise asyncio.CancelledError from error
