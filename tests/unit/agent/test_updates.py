"""Changes that read a whole conversation: made off the event loop, with the same result as on it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence

import pytest

from app.agent.conversation import LONG, Conversation
from app.agent.protocols import AgentConfig
from app.agent.record import StoredConversation
from app.context.checkpoints import Checkpoint, InForce
from app.context.policies import preset
from app.context.tokens import Calibration
from app.messages import Message
from tests.unit.agent.changes import refreshed_here
from tests.unit.agent.rounds import Watched, counted, watched
from tests.unit.agent.scenes import config
from tests.unit.context import builders as b

STEPS = LONG
"""With a call and its result each: twice as many messages as needed."""

LAST = 2 * STEPS - 1
"""The last message that this round covers."""

SUMMARY = counted(b.summary_of(1, 2 * STEPS + 2))
COMPACTED = InForce((Checkpoint(1, SUMMARY.id, 1, LAST, ("m1",)),))


@pytest.fixture(autouse=True)
def _loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reads count on the event loop's thread only."""
    monkeypatch.setattr(Watched, "thread", threading.get_ident())


HISTORY = [watched(counted(message)) for message in b.long_task(STEPS, 10)]
BROKEN = [message for number, message in enumerate(HISTORY) if number != 4]
"""A call has no result."""


def started(history: Sequence[Message] = HISTORY) -> Conversation:
    conversation = Conversation(StoredConversation(history), (), Calibration(1.0))
    refreshed_here(conversation, config())
    return conversation


def compacted() -> Conversation:
    conversation = started()
    opened = conversation.draft(config(), "checkpoint", COMPACTED)
    conversation.adopt(opened, conversation.shown_by(opened.generation, COMPACTED, SUMMARY), COMPACTED, SUMMARY)
    return conversation


def state(conversation: Conversation) -> tuple[object, ...]:
    """Everything that distinguishes two conversations, except ids of generations."""
    generation = conversation.generation
    return (
        [(item.message, item.tokens, item.reason) for item in conversation.transcript.items],
        conversation.transcript.messages,
        conversation.estimate,
        conversation.size,
        [message.id for message in conversation.rows],
        [message.id for message in conversation.history],
        (generation.number, generation.reason, generation.model, generation.first_seq, generation.rounds),
        conversation.in_force,
    )


async def reads(change: Callable[[], Awaitable[object]]) -> int:
    """Message fields that a change reads on the event loop."""
    before = Watched.reads
    await change()
    return Watched.reads - before


def reverted() -> Conversation:
    conversation = compacted()
    conversation.revert(InForce())
    return conversation


CHANGED = {
    "system text": (started, config(system="You are quick.")),
    "model": (started, config("acme/two")),
    "policy": (started, config(settings=preset("threshold"))),
    "revert": (reverted, config()),
}


class TestRefreshing:
    @pytest.mark.parametrize(("made", "wanted"), CHANGED.values(), ids=CHANGED)
    async def test_the_result_is_the_same_as_on_the_loop(
        self, made: Callable[[], Conversation], wanted: AgentConfig
    ) -> None:
        one, other = made(), made()
        opened, again = await one.refresh(wanted), refreshed_here(other, wanted)
        assert (opened is None) == (again is None) == (wanted == CHANGED["policy"][1])
        assert state(one) == state(other)

    @pytest.mark.parametrize(("made", "wanted"), CHANGED.values(), ids=CHANGED)
    async def test_nothing_is_read_on_the_loop(self, made: Callable[[], Conversation], wanted: AgentConfig) -> None:
        conversation = made()
        assert await reads(lambda: conversation.refresh(wanted)) < 20

    async def test_a_cancel_leaves_it_unchanged(self) -> None:
        conversation = started()
        before = state(conversation)
        task = asyncio.create_task(conversation.refresh(config(system="You are quick.")))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert state(conversation) == before
        assert await conversation.refresh(config(system="You are quick.")) is not None


class TestSettling:
    async def test_the_result_is_the_same_as_on_the_loop(self) -> None:
        one, other = started(BROKEN), started(BROKEN)
        opened, again = await one.settle(), other.take_repaired(*other.repaired())
        assert opened is not None
        assert again is not None
        assert opened.repairs == again.repairs
        assert state(one) == state(other)
        assert await one.settle() is None

    async def test_nothing_is_read_on_the_loop(self) -> None:
        conversation = started(BROKEN)
        assert await reads(conversation.settle) < 20

    async def test_in_a_sound_conversation_only_new_messages_are_read(self) -> None:
        conversation = started()
        assert await reads(conversation.settle) < 20
        conversation.append(watched(counted(b.user(2 * STEPS + 2))))
        assert 0 < await reads(conversation.settle) < 20


async def test_reverting_a_round_reads_nothing_by_itself() -> None:
    conversation = compacted()
    before = Watched.reads
    conversation.revert(InForce())
    assert Watched.reads == before
    assert len(conversation.rows) == len(conversation.history), "but nothing is missing from then on"
