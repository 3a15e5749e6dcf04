"""The calls of one model message on their way to results: which wait for a person or a client, what the model is told
about a denied one, and a step that was left while calls waited."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from app.agent.changes import CallsAwaited, CallsHeld, StepOpened
from app.agent.protocols import ClientAnswer, Decision
from app.context.tokens import PER_MESSAGE, estimate_part
from app.messages import (
    FinishReason,
    ImagePart,
    Message,
    Part,
    Role,
    ToolCallPart,
    ToolResultPart,
    ToolStatus,
    Usage,
    new_id,
    now,
)
from app.sessions import Approval, ApprovalEnd, ApprovalRules
from app.tools.base import OutputSink, ToolOutcome
from app.tools.shell import ExecuteCommand
from app.tools.text import Pattern, PatternError

MATCH_S = 0.5
"""Seconds in total for matching the commands of one message. Commands not checked by then wait for approval, like
those that match."""
Checked = tuple[str, Mapping[str, Any]]
"""A call that can run: the tool's name, and the arguments as the tool gets them."""


@dataclass(slots=True)
class Batch:
    """The calls of one message and their results so far; `message_id` is the tool message that holds the results, and
    `asked_by` the one with the calls. No call starts while any is `held`, or `awaited` from a client or a sub-agent;
    those that have not started are stored as `parked` then. `waiting` are the timeouts of the calls that those carry
    out, by id; None if that is not known yet. `seq` is the tool message's, if an earlier owner has stored a part of
    it."""

    calls: Sequence[ToolCallPart]
    held: CallsHeld | None = None
    message_id: str = field(default_factory=new_id)
    results: dict[str, ToolResultPart] = field(default_factory=dict)
    recorded: list[Awaitable[int]] = field(default_factory=list)
    images: list[ImagePart] = field(default_factory=list)
    asked_by: str = ""
    waiting: dict[str, float | None] | None = None
    awaited: CallsAwaited | None = None
    parked: bool = False
    seq: int | None = None

    @classmethod
    def left(cls, waiting: WaitingStep) -> Batch:
        """The calls of a step that an earlier owner has left."""
        batch = cls(waiting.calls, waiting.held, asked_by=waiting.opened.message_id)
        batch.awaited, batch.parked = waiting.awaited, waiting.parked
        if (stored := waiting.results) is not None:
            batch.message_id, batch.seq = stored.id, stored.seq
            batch.results = {result.call_id: result for result in stored.tool_results}
            batch.images = [part for part in stored.parts if isinstance(part, ImagePart)]
        return batch

    @property
    def has_not_started(self) -> bool:
        """Whether none of the calls without a result has started."""
        return self.held is not None or self.parked

    @property
    def ordered(self) -> tuple[ToolResultPart, ...]:
        return tuple(self.results[call.call_id] for call in self.calls if call.call_id in self.results)

    async def stored(self) -> None:
        """Waits until the results so far are committed, so that an owner that has been replaced starts no more calls.
        Shielded: a cancellation would otherwise cancel the futures, which are awaited again."""
        for recorded in self.recorded:
            await asyncio.shield(recorded)

    async def message(self) -> Message:
        """The tool message, once all its results are committed."""
        seqs = [await recorded for recorded in self.recorded]
        if self.seq is not None:
            seqs.append(self.seq)
        images = sorted(self.images, key=lambda image: image.index)
        parts: tuple[Part, ...] = (*self.ordered, *images)
        tokens = PER_MESSAGE + sum(part.tokens for part in parts)
        return Message(id=self.message_id, seq=min(seqs), role=Role.TOOL, parts=parts, tokens=tokens, created_at=now())


def result_without_run(index: int, call: ToolCallPart, status: ToolStatus, note: str) -> ToolResultPart:
    """The result of a call that did not run; `note` says why."""
    part = ToolResultPart(id=new_id(), index=index, call_id=call.call_id, name=call.name, output=note, status=status)
    return part.model_copy(update={"tokens": estimate_part(part)})


@dataclass(frozen=True, slots=True)
class WaitingStep:
    """A step whose calls wait for approval, a client or a sub-agent, left by an earlier owner of the session: the
    attempt that made the calls, how its answer ended, the step's cost, and how long, in seconds, it has been running.
    `results` is the tool message as far as it is stored; the rest is as in `Batch`."""

    opened: StepOpened
    finish_reason: FinishReason
    calls: tuple[ToolCallPart, ...]
    held: CallsHeld | None
    usage: Usage
    known_cost_usd: float
    elapsed_s: float
    awaited: CallsAwaited | None = None
    parked: bool = False
    results: Message | None = None


def which_wait(calls: Sequence[Checked], approval: Approval) -> list[bool]:
    """For each call of a message, whether it waits. Takes up to `MATCH_S`, without holding the GIL."""
    if not isinstance(approval.policy, ApprovalRules):
        return [approval.policy == "always"] * len(calls)
    rules = approval.policy
    deadline = time.monotonic() + MATCH_S
    return [name in rules.tools or _is_matched(name, arguments, rules.commands, deadline) for name, arguments in calls]


def _is_matched(name: str, arguments: Mapping[str, Any], patterns: Sequence[str], deadline: float) -> bool:
    """Whether the call is a command that matches a pattern, or that there was no time to check."""
    if name != ExecuteCommand.name:
        return False
    for pattern in patterns:
        try:
            if time.monotonic() >= deadline or Pattern(pattern).search(str(arguments["command"])) is not None:
                return True
        except (PatternError, UnicodeEncodeError):
            # A pattern accepted by an earlier version, or a text that cannot be searched.
            return True
    return False


_UNANSWERED = Decision("deny", "timeout")
"""Used for a waiting call without a known decision: it never runs."""


def denials(
    calls: Sequence[ToolCallPart], held: CallsHeld, decisions: Mapping[str, Decision]
) -> Iterator[ToolResultPart]:
    """The results of the calls that waited and were not approved."""
    waited = {call.call_id for call in held.calls}
    for index, call in enumerate(calls):
        decision = decisions.get(call.call_id, _UNANSWERED)
        if call.call_id in waited and decision.decision != "approve":
            yield result_without_run(index, call, ToolStatus.DENIED, denial(decision, held.timeout_s))


def denial(decision: Decision, timeout_s: float | None) -> str:
    """What the model reads instead of the result of a denied call."""
    if decision.by == "timeout":
        within = "in time" if timeout_s is None else f"within {timeout_s:g} s"
        return (
            f"[denied: nobody answered {within}, so the call did not run. Do not ask for it again; continue"
            " with what needs no approval, and say at the end what is left to do.]"
        )
    if decision.reason:
        return (
            f"[denied by the user, the call did not run. The reason: {decision.reason}\nRespect it; do not try to"
            " achieve the same in another way.]"
        )
    return (
        "[denied by the user, the call did not run. Do not try to achieve the same in another way: continue without"
        " it, or stop and say what it is needed for.]"
    )


def answered(answer: ClientAnswer, output: OutputSink) -> ToolOutcome:
    """The result of a client or a sub-agent as the outcome of its call; it is shortened and masked like any output."""
    if answer.text is None:
        return ToolOutcome(
            ToolStatus.ERROR,
            note=f"Error: the client posted no result within {answer.timeout_s:g} s. It may have carried out the call.",
        )
    output.write("stdout", (f"Error: {answer.text}" if answer.is_error else answer.text).encode())
    note = "" if answer.text or answer.is_error else "[no output]"
    return ToolOutcome(ToolStatus.ERROR if answer.is_error else ToolStatus.COMPLETED, note=note)


class NoCallGate:
    """Used when nobody can approve or post results: waiting calls are denied at once."""

    async def decisions(self, message_id: str) -> Mapping[str, Decision]:
        """No decisions."""
        return {}

    async def answers(self, message_id: str, calls: Collection[str]) -> Mapping[str, ClientAnswer]:
        """No results in time."""
        return dict.fromkeys(calls, ClientAnswer(None, is_error=True, waited_s=0.0, timeout_s=0.0))

    def withdraw(self, by: ApprovalEnd) -> None:
        """Do nothing: no call waits."""
