"""A conversation that rounds have made smaller: measuring, adopting, reverting, and resuming after a restart."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from app.agent.changes import GenerationOpened
from app.agent.conversation import Conversation
from app.agent.record import StoredConversation
from app.context.checkpoints import Checkpoint, InForce
from app.context.policies import preset
from app.context.tokens import Calibration
from app.messages import Message, Usage
from tests.unit.agent.changes import now
from tests.unit.agent.rounds import counted
from tests.unit.agent.scenes import MODEL, config
from tests.unit.context import builders as b
from tests.unit.context.strict import faults

WORK = [counted(message) for message in b.long_task(6, 100)]
SUMMARY = counted(b.summary_of(1, 14))
CHECKPOINT = Checkpoint(1, SUMMARY.id, 1, 9, ("m1",))
COMPACTED = InForce((CHECKPOINT,), frozenset({"c5"}))


def started(*history: Message, factor: float = 1.0) -> Conversation:
    conversation = Conversation(StoredConversation(history or WORK), (), Calibration(factor))
    now(conversation.refresh(config()))
    return conversation


def compacted() -> Conversation:
    conversation = started()
    adopt(conversation, COMPACTED, SUMMARY)
    return conversation


def adopt(conversation: Conversation, in_force: InForce, summary: Message | None = None) -> GenerationOpened:
    """Drafts a generation and begins it."""
    opened = conversation.draft(config(), "checkpoint" if summary is not None else "prune", in_force)
    conversation.adopt(opened, conversation.shown_by(opened.generation, in_force, summary), in_force, summary)
    return opened


def shown(conversation: Conversation) -> list[str]:
    return [message.id for message in conversation.transcript.messages]


class TestMeasure:
    @given(
        st.sets(st.sampled_from([f"c{number}" for number in range(1, 7)])), st.booleans(), st.sampled_from([1.0, 1.6])
    )
    def test_the_measure_is_what_the_context_then_has(self, marks: set[str], summarized: bool, factor: float) -> None:
        conversation = started(factor=factor)
        in_force = InForce((CHECKPOINT,) * summarized, frozenset(marks))
        summary = SUMMARY if summarized else None
        measured = conversation.measure(in_force, summary)
        adopt(conversation, in_force, summary)
        assert conversation.estimate == conversation.size == measured

    def test_measuring_changes_nothing(self) -> None:
        conversation = started()
        before = shown(conversation)
        conversation.measure(COMPACTED, SUMMARY)
        assert (shown(conversation), conversation.in_force) == (before, InForce())

    def test_drafting_changes_nothing(self) -> None:
        conversation = started()
        before, generation = shown(conversation), conversation.generation
        drafted = conversation.draft(config(), "checkpoint", COMPACTED)
        assert (drafted.generation.number, drafted.generation.rounds, drafted.pruned) == (2, (1,), ("c5",))
        assert (shown(conversation), conversation.in_force, conversation.generation) == (before, InForce(), generation)


class TestAdopting:
    def test_the_context_is_that_of_the_checkpoint(self) -> None:
        conversation = compacted()
        assert shown(conversation) == ["m1", SUMMARY.id, *(message.id for message in WORK[9:])]
        assert (conversation.round, conversation.generation.rounds, conversation.in_force) == (1, (1,), COMPACTED)

    def test_encoded_messages_are_encoded_again(self) -> None:
        conversation = started()
        before = conversation.request(config()).wire_cache
        opened = adopt(conversation, COMPACTED, SUMMARY)
        assert conversation.request(config()).wire_cache is not before
        assert (opened.pruned, opened.restored) == (("c5",), ())

    def test_earlier_reports_do_not_apply_to_it(self) -> None:
        conversation = started()
        conversation.observe(Usage(input_tokens=900))
        conversation.answered()
        adopt(conversation, InForce((), frozenset({"c1"})))
        assert conversation.state(config().budget).source == "estimated"

    def test_later_messages_come_after_it(self) -> None:
        conversation = compacted()
        later = counted(b.user(20, "Go on."))
        conversation.append(later)
        assert shown(conversation)[-1] == later.id


class TestReverting:
    def test_the_next_step_begins_a_generation_with_everything(self) -> None:
        conversation = compacted()
        conversation.revert(InForce())
        opened = now(conversation.refresh(config()))
        assert opened is not None
        assert (opened.generation.reason, opened.generation.rounds) == ("revert", ())
        assert (opened.pruned, opened.restored) == ((), ("c5",))
        assert shown(conversation) == shown(started())
        assert now(conversation.refresh(config())) is None

    def test_reverting_an_unknown_round_changes_nothing(self) -> None:
        conversation = started()
        conversation.revert(InForce())
        assert now(conversation.refresh(config())) is None


class TestTakingUp:
    def test_after_a_restart_the_context_is_the_same(self) -> None:
        before = compacted()
        again = Conversation(
            StoredConversation(
                before.history,
                before.generation,
                checkpoints=before.in_force.checkpoints,
                pruned=before.in_force.pruned,
            ),
            (),
            Calibration(1.0),
        )
        assert now(again.refresh(config())) is None
        assert shown(again) == shown(before)
        assert (again.estimate, again.round) == (before.estimate, 1)

    def test_a_round_reverted_between_runs_is_taken_over(self) -> None:
        before = compacted()
        again = Conversation(
            StoredConversation(before.history, before.generation, shown_pruned=before.in_force.pruned),
            (),
            Calibration(1.0),
        )
        opened = now(again.refresh(config()))
        assert opened is not None
        assert (opened.generation.reason, opened.restored) == ("revert", ("c5",))


class TestSoundRequests:
    def test_for_a_sound_conversation_it_is_the_next_request(self) -> None:
        conversation = started()
        assert conversation.sound_request(config()) == conversation.request(config())
        assert conversation.sound_request(config()).wire_cache is conversation.request(config()).wire_cache

    def test_it_does_not_grow(self) -> None:
        conversation = started()
        request = conversation.sound_request(config())
        conversation.append(counted(b.user(20)))
        assert len(request.messages) == len(WORK)

    @given(b.wild_histories() | b.damaged_histories())
    def test_any_conversation_can_be_sent(self, history: list[Message]) -> None:
        conversation = started(*map(counted, history))
        before = shown(conversation)
        request = conversation.sound_request(config())
        assert faults(request.messages, MODEL) == []
        assert shown(conversation) == before, "the step repairs it itself, and reports that"


def test_a_messages_cost_follows_its_policy() -> None:
    conversation = started()
    whole, messages = conversation.estimate, len(conversation.transcript.messages)
    assert now(conversation.refresh(config(settings=preset("threshold")))) is None
    assert whole - conversation.estimate == 2 * messages
    assert conversation.size == conversation.estimate
    now(conversation.refresh(config()))
    assert conversation.estimate == whole
