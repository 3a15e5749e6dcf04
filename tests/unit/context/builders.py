"""Short ways to write messages, and random histories: sound ones, and such as crashes, imports and retries leave."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import count
from typing import Any

from hypothesis import strategies as st

from app.context.budget import Budget
from app.context.facts import Facts, Ledger
from app.context.prompts import Generation
from app.context.tokens import PER_MESSAGE, estimate_part
from app.messages import (
    CompactionMarkerPart,
    ImagePart,
    Message,
    Part,
    ReasoningPart,
    Role,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    ToolStatus,
)
from app.sessions import PlanItem

AT = datetime(2026, 11, 22, 10, 0, tzinfo=UTC)
MODEL = "openai/gpt-5"
OTHER = "anthropic/claude-sonnet-5"


def generation(model: str = MODEL, **changes: Any) -> Generation:
    values: dict[str, Any] = {
        "id": "g1",
        "number": 1,
        "model": model,
        "system": "You are an agent.",
        "tools": (),
        "first_seq": 0,
    }
    return Generation(**{**values, **changes})


def message(role: Role, seq: int, *parts: Part, **fields: Any) -> Message:
    placed = tuple(p.model_copy(update={"index": i, "id": f"m{seq}.{i}"}) for i, p in enumerate(parts))
    return Message(**{"id": f"m{seq}", "seq": seq, "role": role, "parts": placed, "created_at": AT, **fields})


def estimate_message(message: Message, per_message: int = PER_MESSAGE) -> int:
    """Estimated tokens of a message, every part counted again."""
    return per_message + sum(map(estimate_part, message.parts))


def compute_facts(
    history: Sequence[Message], plan: Sequence[PlanItem], rounds: int, task_id: str | None = None
) -> Facts:
    """The facts of a whole history."""
    ledger = Ledger()
    ledger.take(history)
    return ledger.facts(plan, rounds, task_id)


def text(value: str = "hello", **fields: Any) -> TextPart:
    return TextPart(id="", index=0, text=value, **fields)


def reasoning(value: str = "hm", *, data: dict[str, Any] | None = None, interrupted: bool = False) -> ReasoningPart:
    return ReasoningPart(id="", index=0, text=value, provider_data=data, interrupted=interrupted)


def signed(value: str = "hm") -> ReasoningPart:
    return reasoning(value, data={"signature": "c2ln"})


def call(call_id: str, name: str = "execute_command", arguments: str = '{"command":"ls"}') -> ToolCallPart:
    return ToolCallPart(id="", index=0, call_id=call_id, name=name, arguments_text=arguments)


def result(call_id: str, output: str = "done", **fields: Any) -> ToolResultPart:
    values = {"name": "execute_command", "status": ToolStatus.COMPLETED, **fields}
    return ToolResultPart(id="", index=0, call_id=call_id, output=output, **values)


def image(width: int | None = None, height: int | None = None, data: str = "AAAA") -> ImagePart:
    return ImagePart(id="", index=0, media_type="image/png", data=data, width=width, height=height)


def marker() -> CompactionMarkerPart:
    return CompactionMarkerPart(id="", index=0, round=1)


def user(seq: int, value: str = "please") -> Message:
    return message(Role.USER, seq, text(value))


def control(seq: int, value: str = "[go on]") -> Message:
    return message(Role.CONTROL, seq, text(value))


def assistant(seq: int, *parts: Part, **fields: Any) -> Message:
    return message(Role.ASSISTANT, seq, *parts, **{"model": MODEL, **fields})


def tool(seq: int, *results: Part) -> Message:
    return message(Role.TOOL, seq, *results)


def step(seq: int, *call_ids: str) -> list[Message]:
    """An assistant message with these calls, and their results."""
    return [assistant(seq, text("next"), *map(call, call_ids)), tool(seq + 1, *map(result, call_ids))]


def long_step(seq: int, call_id: str, tokens: int, **fields: Any) -> list[Message]:
    """One call and its output of about this many estimated tokens."""
    return [assistant(seq, call(call_id)), tool(seq + 1, result(call_id, "x" * (tokens * 4), **fields))]


def long_task(steps: int, tokens: int) -> list[Message]:
    """One turn: a task and steps with an output of `tokens` each; step n has call `c<n>` and the seqs 2n and 2n + 1."""
    return [user(1, "the task"), *(m for n in range(1, steps + 1) for m in long_step(2 * n, f"c{n}", tokens))]


def summary_of(
    round: int, seq: int, role: Role = Role.USER, value: str = "what happened so far", **fields: Any
) -> Message:
    """A stored summary with its marker."""
    parts = (text(value), CompactionMarkerPart(id="", index=0, round=round))
    return message(role, seq, *parts, **{"is_summary": True, "model": MODEL, **fields})


def budget_of(usable: int, limit: int | None = None) -> Budget:
    window = limit or usable + usable // 3
    return Budget(limit=window, output_reserve=window - usable, safety_buffer=0, usable=usable, source="catalog")


texts = st.sampled_from(["", " \n", "plain", "a longer line of text", "日本語", "ok 👍"])
few_ids = st.sampled_from(["a", "b", "c", ""])


@st.composite
def sound_histories(draw: st.DrawFn) -> list[Message]:
    """Conversations as an undisturbed session stores them, ready to be sent."""
    seqs = count(1)
    calls = count(1)
    history = [user(next(seqs))]
    for width in draw(st.lists(st.integers(0, 3), max_size=8)):
        ids = [f"call-{next(calls)}" for _ in range(width)]
        thought = [signed()] if draw(st.booleans()) else []
        history.append(assistant(next(seqs), *thought, text("I go on."), *map(call, ids)))
        history.append(
            tool(next(seqs), *map(result, ids)) if ids else draw(st.sampled_from([user, control]))(next(seqs))
        )
    return history


def _part(role: Role) -> st.SearchStrategy[Part]:
    kinds: dict[Role, list[st.SearchStrategy[Any]]] = {
        Role.ASSISTANT: [
            st.builds(text, texts),
            st.builds(call, few_ids),
            st.builds(reasoning, texts, data=st.sampled_from([None, {"signature": "x"}]), interrupted=st.booleans()),
        ],
        Role.TOOL: [st.builds(result, few_ids, texts, truncated=st.booleans())],
    }
    stray: list[st.SearchStrategy[Any]] = [
        st.builds(text, texts),
        st.builds(result, few_ids),
        st.builds(call, few_ids),
        st.builds(image),
        st.builds(marker),
    ]
    usual = kinds.get(role, [st.builds(text, texts)])
    return st.one_of(*usual, *usual, *usual, *stray)


@st.composite
def _wild_message(draw: st.DrawFn, seq: int) -> Message:
    role = draw(
        st.sampled_from([Role.USER, Role.ASSISTANT, Role.ASSISTANT, Role.TOOL, Role.TOOL, Role.CONTROL, Role.SYSTEM])
    )
    parts = draw(st.lists(_part(role), max_size=4))
    model = draw(st.sampled_from([MODEL, MODEL, OTHER, None])) if role is Role.ASSISTANT else None
    voided = AT if draw(st.integers(0, 9)) == 0 else None
    return message(role, seq, *parts, model=model, voided_at=voided)


@st.composite
def wild_histories(draw: st.DrawFn) -> list[Message]:
    """Arbitrary messages."""
    return [draw(_wild_message(seq)) for seq in range(1, draw(st.integers(0, 10)) + 1)]


@st.composite
def damaged_histories(draw: st.DrawFn) -> list[Message]:
    """Sound conversations with messages lost or swapped, and results lost or repeated."""
    history = list(draw(sound_histories()))
    for _ in range(draw(st.integers(1, 4))):
        if not history:
            break
        at = draw(st.integers(0, len(history) - 1))
        other = draw(st.integers(0, len(history) - 1))
        match draw(st.sampled_from(["lose", "swap", "shorten", "repeat", "reverse", "abort"])):
            case "lose":
                del history[at]
            case "swap":
                history[at], history[other] = history[other], history[at]
            case "shorten":
                history[at] = _with(history[at], history[at].parts[:-1])
            case "repeat":
                history[at] = _with(history[at], history[at].parts * 2)
            case "reverse":
                history[at] = _with(history[at], history[at].parts[::-1])
            case "abort":
                history = history[: at + 1]
    return history


def _with(changed: Message, parts: Sequence[Part]) -> Message:
    return message(changed.role, changed.seq, *parts, model=changed.model)


any_history = st.one_of(sound_histories(), damaged_histories(), wild_histories())


@st.composite
def working_histories(draw: st.DrawFn) -> list[Message]:
    """Long conversations of a working session: requests, steps with up to four parallel calls and outputs of any size,
    voided attempts, errors without text, images and reasoning. Ready to be sent, with distinct call ids."""
    seqs, calls = count(1), count(1)
    history = [user(next(seqs), "the task")]
    for kind in draw(
        st.lists(st.sampled_from(["step", "step", "step", "turn", "void", "error", "image"]), max_size=24)
    ):
        match kind:
            case "step":
                history += draw(_working_step(seqs, calls))
            case "turn":
                history.append(assistant(next(seqs), text("Done.")))
                history.append(draw(st.sampled_from([user, control]))(next(seqs), draw(_sized)))
            case "void":
                history.append(
                    assistant(next(seqs), text("a first attempt"), call(f"void-{next(calls)}"), voided_at=AT)
                )
            case "error":
                history.append(assistant(next(seqs), error={"code": "provider_error"}))
            case "image":
                history.append(message(Role.USER, next(seqs), text("look"), image(800, 600)))
    return history


_sized = st.integers(1, 6_000).map(lambda size: "w " * (size // 2) + "w")


@st.composite
def _working_step(draw: st.DrawFn, seqs: Iterator[int], calls: Iterator[int]) -> list[Message]:
    ids = [f"call-{next(calls)}" for _ in range(draw(st.integers(0, 4)))]
    thought = [signed()] if draw(st.booleans()) else []
    answer = assistant(next(seqs), *thought, text("I go on."), *map(call, ids))
    if not ids:
        return [answer, control(next(seqs))]
    statuses = st.sampled_from([ToolStatus.COMPLETED, ToolStatus.COMPLETED, ToolStatus.ERROR])
    return [answer, tool(next(seqs), *(result(i, draw(_sized), status=draw(statuses)) for i in ids))]


def ids(messages: Sequence[Message]) -> list[str]:
    return [message.id for message in messages]
