"""Stored rounds of compaction: started, requested, ended in each way, and reverted."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
from sqlalchemy import Row

from app.agent.changes import (
    GenerationOpened,
    ModelUsed,
    OutputsPruned,
    RoundCompleted,
    RoundEnded,
    RoundOpening,
    RungFailed,
)
from app.context.checkpoints import Checkpoint, InForce
from app.context.policies import CompactionSettings, preset
from app.context.projection import project
from app.db.repositories import compactions as rows
from app.db.repositories import sessions
from app.errors import ConflictError, NotFoundError, StaleOwnerError
from app.eventlog.bus import Bus
from app.messages import Message, ToolResultPart, Usage, new_id, now
from app.runtime.owner.recorder import Recorder
from app.runtime.transactions import compactions, lifecycle
from app.runtime.transactions.compactions import revert
from app.sessions import CompactionEvent, ContextState, RoundError, Session
from tests.unit.runtime.stage import (
    GENERATION,
    GENERATION_OPENED,
    Attempt,
    Stage,
    call_part,
    result_of,
    summary_of,
    text_part,
)

OPENING = RoundOpening("overflow", "reactive", 9_000, 12_000)
ASKED = RoundOpening("manual", "handoff", 800, 1_000)
BACKGROUND = replace(OPENING, reason="threshold", background=True)
SPENT = Usage(input_tokens=700, output_tokens=30, cost_usd=0.5)
SETTINGS = preset("handoff").model_copy(update={"summary_max_tokens": 900})


@dataclass
class Office:
    """A session with a history of steps, and operations on its context. `calls` are the ids of its calls."""

    stage: Stage
    calls: list[str]

    async def open(self, opening: RoundOpening = OPENING, epoch: int | None = None) -> int:
        owner = (await self.stage.row()).epoch if epoch is None else epoch
        return await self.stage.act(lambda c: compactions.open_round(c, self.stage.session_id, owner, opening))

    async def request(self, settings: CompactionSettings = SETTINGS, wishes: str | None = None) -> CompactionEvent:
        return await self.stage.act(lambda c: compactions.request(c, self.stage.session_id, ASKED, settings, wishes))

    async def revert(self, round: int) -> None:
        await self.stage.act(lambda c: revert(c, self.stage.session_id, round))

    async def abandon(self, *, manual_too: bool, epoch: int | None = None) -> None:
        await self.stage.act(
            lambda c: (None, compactions.abandon(c, self.stage.session_id, epoch, manual_too=manual_too))
        )

    async def complete(
        self,
        round: int,
        first: int,
        last: int,
        *,
        kept: tuple[str, ...] = (),
        pruned: tuple[str, ...] = (),
        **more: Any,
    ) -> RoundCompleted:
        """Completes a round that covers the messages of these indices of the history."""
        change = await self.made(round, first, last, kept=kept, pruned=pruned, **more)
        await self.stage.commit(change)
        return change

    async def made(
        self,
        round: int,
        first: int,
        last: int,
        *,
        kept: tuple[str, ...] = (),
        pruned: tuple[str, ...] = (),
        **more: Any,
    ) -> RoundCompleted:
        """A round that could be stored, made from what is in force now."""
        covered = (await self.messages())[first : last + 1]
        summary = summary_of(round)
        checkpoint = Checkpoint(round, summary.id, covered[0].seq, covered[-1].seq, kept, more.pop("clips", ()))
        return RoundCompleted(
            checkpoint=checkpoint,
            base=tuple(found.round for found in await self.checkpoints()),
            summary=summary,
            rung=more.pop("rung", "summary"),
            first_message_id=covered[0].id,
            last_message_id=covered[-1].id,
            messages_compacted=len(covered),
            pruned=pruned,
            tokens_before=9_000,
            tokens_after=4_000,
            prose="It went well.",
            duration_ms=12,
        )

    async def messages(self) -> list[Message]:
        """The history without summaries."""
        return [message for message in await self.stage.history() if not message.is_summary]

    async def covered(self) -> list[int | None]:
        """The round that covers each message of the history, summaries left out."""
        return [message.round for message in await self.messages()]

    async def cleared(self) -> set[str]:
        """The calls whose results are marked, as the history and as the context see them."""
        marked = {
            part.call_id
            for message in await self.stage.history()
            for part in message.tool_results
            if part.compacted_at is not None
        }
        sid = self.stage.session_id
        assert await self.stage.database.read(lambda c: rows.pruned_calls(c, sid)) == marked
        return marked

    async def find(self, round: int) -> Row[Any]:
        row = await self.stage.database.read(lambda c: rows.find(c, self.stage.session_id, round))
        assert row is not None
        return row

    async def statuses(self) -> list[str]:
        found = await self.stage.database.read(lambda c: rows.all_rounds(c, self.stage.session_id))
        assert [row.round for row in found] == list(range(1, len(found) + 1))
        return [row.status for row in found]

    async def checkpoints(self, *rounds: int) -> list[Checkpoint]:
        sid = self.stage.session_id
        return await self.stage.database.read(lambda c: compactions.checkpoints(c, sid, rounds or None))

    async def session(self) -> Session:
        return await self.stage.database.read(lambda c: sessions.snapshot(c, self.stage.session_id))

    async def in_progress(self) -> bool:
        return (await self.session()).compaction.in_progress

    async def cancel_requested(self) -> bool:
        row = await self.stage.database.read(lambda c: sessions.row(c, self.stage.session_id))
        return bool(row.cancel_requested)

    async def events(self) -> list[tuple[str, dict[str, Any]]]:
        """The events of compaction, in order."""
        told = [event for event in await self.stage.log() if event.type.startswith(("compaction.", "prune."))]
        return [(event.type, event.data) for event in told]

    async def shown(self) -> list[str]:
        """The ids of the messages in the context."""
        items = project(await self.stage.history(), GENERATION, await self.checkpoints()).items
        return [item.message_id for item in items]


@pytest.fixture
async def office(stage: Stage) -> Office:
    """Eight messages: four steps, each with a call and its result."""
    calls = []
    await stage.commit(GENERATION_OPENED)
    for number in range(1, 5):
        attempt, call = Attempt(step=number), call_part()
        calls.append(call.call_id)
        await stage.commit(attempt.opened, *attempt.wrote(call), attempt.answered())
        await stage.commit(result_of(call, new_id()), attempt.closed())
    return Office(stage, calls)


class TestBeginning:
    async def test_an_automatic_round(self, office: Office) -> None:
        assert await office.open() == 1
        [(name, told)] = await office.events()
        assert name == "compaction.started"
        assert (told["round"], told["reason"], told["policy"], told["background"]) == (1, "overflow", "reactive", False)
        assert (told["tokens_before"], told["limit"]) == (9_000, 12_000)
        row = await office.find(1)
        assert (row.status, row.reason, row.tokens_before, row.usage) == (
            "running",
            "overflow",
            9_000,
            Usage().model_dump(),
        )
        assert await office.in_progress()

    async def test_a_background_round_blocks_no_other(self, office: Office) -> None:
        await office.open(BACKGROUND)
        assert not await office.in_progress()
        assert (await office.request()).round == 2

    async def test_a_replaced_owner_starts_no_round(self, office: Office) -> None:
        old = (await office.stage.row()).epoch
        await office.stage.claim()
        with pytest.raises(StaleOwnerError):
            await office.open(epoch=old)
        assert await office.statuses() == []
        assert await office.events() == []

    async def test_numbers_are_never_reused(self, office: Office) -> None:
        await office.complete(await office.open(), 0, 1)
        await office.revert(1)
        await office.stage.commit(RoundEnded(await office.open(), "cancelled"))
        await office.stage.commit(RoundEnded(await office.open(BACKGROUND), "discarded"))
        await office.stage.commit(RungFailed(await office.open(), "shrink", "not_small_enough", "No.", Usage(), None))
        assert (await office.request()).round == 5
        await office.abandon(manual_too=True)
        assert await office.open() == 6
        assert await office.statuses() == ["reverted", "cancelled", "discarded", "failed", "cancelled", "running"]


class TestAsking:
    async def test_a_manual_round_is_accepted_and_waits(self, office: Office) -> None:
        accepted = await office.request(wishes="Keep the names.")
        assert (accepted.round, accepted.reason, accepted.policy, accepted.status) == (
            1,
            "manual",
            "handoff",
            "running",
        )
        assert (accepted.tokens_before, accepted.summary, accepted.usage) == (800, None, Usage())
        assert await office.in_progress()
        sid = office.stage.session_id
        waiting = await office.stage.database.read(lambda c: compactions.requested(c, sid))
        assert waiting is not None
        assert (waiting.round, waiting.instructions) == (1, "Keep the names.")
        assert CompactionSettings(**waiting.settings) == SETTINGS
        assert [name for name, _ in await office.events()] == ["compaction.started"]

    @pytest.mark.parametrize("by_hand", [True, False])
    async def test_only_one_round_at_a_time(self, office: Office, by_hand: bool) -> None:
        if by_hand:
            await office.request()
        else:
            await office.open()
        with pytest.raises(ConflictError) as caught:
            await office.request()
        assert caught.value.code == "compaction_in_progress"
        assert await office.statuses() == ["running"]

    async def test_automatic_rounds_are_not_manual(self, office: Office) -> None:
        await office.open()
        sid = office.stage.session_id
        assert await office.stage.database.read(lambda c: compactions.requested(c, sid)) is None

    async def test_a_missing_session_is_not_found(self, office: Office) -> None:
        with pytest.raises(NotFoundError):
            await office.stage.act(lambda c: compactions.request(c, new_id(), ASKED, SETTINGS, None))


class TestCompleting:
    async def test_summary_checkpoint_marks_and_event_are_stored_together(self, office: Office) -> None:
        kept = (await office.messages())[0].id
        number = await office.open()
        before = (await office.stage.row()).last_seq
        change = await office.complete(number, 0, 3, kept=(kept,), pruned=tuple(office.calls[:2]))
        created, completed = (await office.stage.log(before))[:2]
        assert (created.type, completed.type) == ("message.created", "compaction.completed")
        assert completed.seq == created.seq + 1
        stored = next(message for message in await office.stage.history() if message.is_summary)
        assert (stored.id, stored.seq, stored.text) == (change.summary.id, created.seq, "What happened.")
        assert created.data["message"]["id"] == stored.id
        assert await office.covered() == [None, 1, 1, 1, None, None, None, None]
        assert await office.cleared() == set(office.calls[:2])
        assert await office.checkpoints() == [change.checkpoint]
        compaction = (await office.session()).compaction
        assert (compaction.count, compaction.in_progress) == (1, False)
        assert compaction.last_at == stored.created_at
        messages = await office.messages()
        assert await office.shown() == [kept, stored.id, *(message.id for message in messages[4:])]

    @pytest.mark.parametrize(("rung", "pruned"), [("summary", True), ("fold", False), ("shrink", True)])
    async def test_the_event_of_a_completed_round(self, office: Office, rung: str, pruned: bool) -> None:
        marked = tuple(office.calls[:1]) if pruned else ()
        number = await office.open()
        await office.stage.commit(ModelUsed("scripted/demo", SPENT, number))
        change = await office.complete(number, 0, 3, pruned=marked, rung=rung)
        _, told = (await office.events())[-1]
        assert (told["was_summarized"], told["was_pruned"]) == (rung == "summary", pruned)
        view = rows.view(await office.find(1))
        assert view.model_dump(mode="json").items() <= told.items()
        assert (view.status, view.rung, view.outputs_pruned, view.messages_compacted) == (
            "completed",
            rung,
            len(marked),
            4,
        )
        assert (view.first_message_id, view.last_message_id) == (change.first_message_id, change.last_message_id)
        assert (view.tokens_before, view.tokens_after, view.duration_ms) == (9_000, 4_000, 12)
        assert (view.summary, view.usage) == ("It went well.", SPENT)

    @pytest.mark.parametrize(
        ("kept", "clips"), [((), ()), (("a",), (("p1", 500),)), (("a", "b", "ü"), (("p1", 0), ("p2", 8_000)))]
    )
    async def test_a_checkpoint_round_trips(
        self, office: Office, kept: tuple[str, ...], clips: tuple[tuple[str, int], ...]
    ) -> None:
        change = await office.complete(await office.open(), 2, 5, kept=kept, clips=clips)
        [found] = await office.checkpoints()
        assert found == change.checkpoint
        assert (found.kept, found.clips) == (kept, clips)
        assert hash(found) == hash(change.checkpoint)

    async def test_a_completed_background_round_is_an_ordinary_round(self, office: Office) -> None:
        await office.complete(await office.open(BACKGROUND), 0, 3)
        assert (await office.find(1)).background is False
        assert await office.statuses() == ["completed"]


class TestBases:
    """A round is stored only on the rounds that it was made from."""

    @staticmethod
    async def recorder(office: Office) -> Recorder:
        row = await office.stage.row()
        return Recorder(office.stage.database, Bus(), office.stage.session_id, row.epoch)

    async def test_on_its_base_it_is_stored_with_its_seq(self, office: Office) -> None:
        await office.complete(await office.open(), 0, 1)
        change = await office.made(await office.open(), 0, 3, pruned=tuple(office.calls[:1]))
        assert change.base == (1,)
        marks = OutputsPruned("trigger", change.pruned, ("run",), 9_000, 4_000)
        seq = await (await self.recorder(office)).complete_round(change, marks)
        stored = next(message for message in await office.stage.history() if message.id == change.summary.id)
        assert stored.seq == seq
        assert await office.statuses() == ["completed", "completed"]
        assert [name for name, _ in await office.events()][-2:] == ["compaction.completed", "prune.completed"]

    async def test_after_a_revert_it_is_discarded_and_nothing_else_is_stored(self, office: Office) -> None:
        first = await office.complete(await office.open(), 0, 1, pruned=tuple(office.calls[:1]))
        await office.stage.commit(OutputsPruned("run_end", tuple(office.calls[3:]), ("run",), 400, 300))
        number = await office.open(BACKGROUND)
        await office.stage.commit(ModelUsed("scripted/demo", SPENT, number))
        change = await office.made(number, 0, 3, pruned=tuple(office.calls[1:2]))
        await office.revert(1)
        history, recorder = await office.stage.history(), await self.recorder(office)
        marks = OutputsPruned("trigger", change.pruned, ("run",), 9_000, 4_000)
        in_force = await recorder.complete_round(change, marks)
        assert in_force == InForce((), frozenset(office.calls[3:]))
        assert await office.stage.history() == history
        assert await office.statuses() == ["reverted", "discarded"]
        name, told = (await office.events())[-1]
        assert (name, told["round"], Usage(**told["usage"])) == ("compaction.discarded", 2, SPENT)
        assert await office.cleared() == set(office.calls[3:])
        assert first.summary.id not in await office.shown()
        await recorder.record(RoundEnded(await office.open(), "cancelled"))
        assert await office.statuses() == ["reverted", "discarded", "cancelled"], "its owner continues"

    async def test_a_revert_after_it_does_not_affect_it(self, office: Office) -> None:
        change = await office.made(await office.open(), 0, 3)
        recorder = await self.recorder(office)
        assert isinstance(await recorder.complete_round(change), int)
        await office.revert(1)
        assert await office.statuses() == ["reverted"]


class TestEnding:
    @pytest.mark.parametrize("status", ["cancelled", "discarded"])
    async def test_a_round_that_was_cancelled_or_discarded(self, office: Office, status: Any) -> None:
        number = await office.open()
        await office.stage.commit(ModelUsed("scripted/demo", SPENT, number))
        await office.stage.database.writer.write(
            lambda c: lifecycle.cancel(c, office.stage.session_id, clear_queue=False)
        )
        assert await office.cancel_requested()
        await office.stage.commit(RoundEnded(number, status))
        assert not await office.cancel_requested()
        name, told = (await office.events())[-1]
        assert (name, told["round"]) == (f"compaction.{status}", 1)
        assert Usage(**told["usage"]) == SPENT
        assert Usage(**(await office.find(1)).usage) == SPENT
        assert await office.statuses() == [status]
        assert not await office.in_progress()
        assert (await office.session()).compaction.count == 0

    async def test_a_failed_rung_is_reported_with_its_cost(self, office: Office) -> None:
        number = await office.open()
        await office.stage.commit(RungFailed(number, "summary", "summary_empty", "No text.", SPENT, "fold"))
        assert await office.statuses() == ["running"]
        assert await office.in_progress()
        await office.stage.commit(RungFailed(number, "fold", "not_small_enough", "Too large.", Usage(), "shrink"))
        await office.stage.commit(RungFailed(number, "shrink", "not_small_enough", "Too large.", Usage(), None))
        assert await office.statuses() == ["failed"]
        assert not await office.in_progress()
        told = [event for name, event in await office.events() if name == "compaction.failed"]
        assert [(event["rung"], event["code"], event["next"]) for event in told] == [
            ("summary", "summary_empty", "fold"),
            ("fold", "not_small_enough", "shrink"),
            ("shrink", "not_small_enough", None),
        ]
        assert told[0]["detail"] == "No text."
        assert Usage(**told[0]["usage"]) == SPENT

    async def test_a_failed_round_has_its_error_and_no_size(self, office: Office) -> None:
        async def shown() -> CompactionEvent:
            return rows.view(await office.find(1))

        number = await office.open()
        await office.stage.commit(RungFailed(number, "summary", "summary_empty", "No text.", SPENT, "fold"))
        assert ((await shown()).error, (await shown()).tokens_after) == (None, None)
        await office.stage.commit(RungFailed(number, "shrink", "not_small_enough", "Too large.", Usage(), None))
        assert (await shown()).error == RoundError(code="not_small_enough", detail="Too large.")
        assert ((await shown()).tokens_before, (await shown()).tokens_after) == (OPENING.tokens_before, None)

    async def test_model_calls_are_billed_when_they_are_made(self, office: Office) -> None:
        before, number = (await office.session()).usage, await office.open()
        for _ in range(2):
            assert await office.stage.commit(ModelUsed("scripted/demo", SPENT, number)) == 0, "without an event"
        assert (await office.session()).usage == before + SPENT + SPENT
        assert Usage(**(await office.find(number)).usage) == SPENT + SPENT, "whatever the outcome of the round"
        await office.complete(number, 0, 1)
        assert (await office.session()).usage == before + SPENT + SPENT, "and once"
        assert Usage(**(await office.find(number)).usage) == SPENT + SPENT
        name, told = (await office.events())[-1]
        assert (name, Usage(**told["usage"])) == ("compaction.completed", SPENT + SPENT)

    async def test_rounds_of_a_previous_owner_are_closed(self, office: Office) -> None:
        await office.open()
        await office.stage.commit(ModelUsed("scripted/demo", SPENT, 1))
        await office.open(BACKGROUND)
        await office.stage.commit(RoundEnded(await office.open(), "cancelled"))
        sid = office.stage.session_id
        manual = {"reason": "manual", "policy": "reactive", "background": False, "created_at": now()}
        await office.stage.database.writer.write(lambda c: rows.open_round(c, sid, **manual))
        await office.abandon(manual_too=False, epoch=(await office.stage.row()).epoch)
        assert await office.statuses() == ["cancelled", "cancelled", "cancelled", "running"]
        assert await office.in_progress(), "a manual round still waits"
        assert Usage(**(await office.find(1)).usage) == SPENT, "its cost is kept"
        await office.abandon(manual_too=True)
        assert await office.statuses() == ["cancelled"] * 4
        assert not await office.in_progress()

    async def test_completed_rounds_are_not_abandoned(self, office: Office) -> None:
        await office.complete(await office.open(), 0, 1)
        told = await office.events()
        await office.abandon(manual_too=True)
        assert (await office.statuses(), await office.events()) == (["completed"], told)

    async def test_after_a_restart_no_round_is_running(self, office: Office) -> None:
        await office.request()
        await office.stage.database.writer.write(compactions.abandon_all)
        assert await office.statuses() == ["cancelled"]
        assert not await office.in_progress()
        assert (await office.events())[-1][0] == "compaction.cancelled"

    async def test_a_replaced_owner_cannot_change_its_successor_s_rounds(self, office: Office) -> None:
        old = (await office.stage.row()).epoch
        await office.stage.claim()
        await office.open()
        with pytest.raises(StaleOwnerError):
            await office.abandon(manual_too=False, epoch=old)
        assert await office.statuses() == ["running"]


class TestReverting:
    async def test_the_context_is_as_if_the_round_had_not_happened(self, office: Office) -> None:
        before = await office.shown()
        await office.complete(await office.open(), 0, 3, pruned=tuple(office.calls[:2]))
        await office.revert(1)
        assert await office.shown() == before
        assert await office.covered() == [None] * 8
        assert await office.cleared() == set()
        assert await office.checkpoints() == []
        assert await office.statuses() == ["reverted"]
        assert (await office.events())[-1] == ("compaction.reverted", (await office.events())[-1][1])
        assert (await office.events())[-1][1]["round"] == 1
        assert any(message.is_summary for message in await office.stage.history()), "the history is only added to"
        assert len(await office.checkpoints(1)) == 1, "its checkpoint can still be read"

    async def test_the_previous_round_covers_its_messages_again(self, office: Office) -> None:
        kept = (await office.messages())[0].id
        first = await office.complete(await office.open(), 0, 1, kept=(kept,), pruned=tuple(office.calls[:1]))
        shown = await office.shown()
        await office.complete(await office.open(), 0, 5, pruned=tuple(office.calls[1:3]))
        assert await office.covered() == [2] * 6 + [None] * 2
        assert await office.cleared() == set(office.calls[:3])
        await office.revert(2)
        assert await office.covered() == [None, 1, *[None] * 6]
        assert await office.cleared() == set(office.calls[:1]), "marks of another round stay"
        assert await office.checkpoints() == [first.checkpoint]
        assert await office.shown() == shown
        await office.revert(1)
        assert await office.covered() == [None] * 8
        assert await office.statuses() == ["reverted", "reverted"]

    async def test_marks_that_were_set_without_a_round_stay(self, office: Office) -> None:
        await office.stage.commit(OutputsPruned("trigger", tuple(office.calls[:1]), ("run",), 500, 400))
        await office.complete(await office.open(), 0, 5, pruned=tuple(office.calls[1:2]))
        await office.stage.commit(OutputsPruned("run_end", tuple(office.calls[2:3]), ("run",), 400, 300))
        await office.revert(1)
        assert await office.cleared() == {office.calls[0], office.calls[2]}

    async def test_the_report_of_an_owner_that_has_not_seen_the_revert_is_corrected(self, office: Office) -> None:
        """In a generation that still has it: when a step starts and ends, and when outputs are cleared."""
        await office.complete(await office.open(), 0, 1)
        await office.complete(await office.open(), 0, 3)
        known = replace(GENERATION, id=new_id(), number=2, rounds=(1, 2))
        step = Attempt(step=9, context=ContextState(tokens=4_100, limit=9_999, usable=9_000, source="reported"))
        await office.stage.commit(GenerationOpened(known))
        await office.revert(2)
        size = (await office.session()).context.tokens
        await office.stage.commit(step.opened)
        right = ContextState(tokens=9_100, limit=9_999, usable=9_000, source="estimated")
        assert (await office.session()).context == right
        await office.revert(1)
        await office.stage.commit(OutputsPruned("run_end", (), (), 4_100, 4_000))
        assert (await office.session()).context.tokens == 14_000
        await office.stage.commit(*step.wrote(text_part("done")), step.answered(), step.closed())
        assert (await office.session()).context.tokens == 14_100
        assert [e.data["context"]["tokens"] for e in (await office.stage.log())[-1:]] == [14_100]
        assert size == 9_000
        await office.stage.commit(GenerationOpened(replace(known, id=new_id(), number=3, rounds=())))
        later = replace(step, step=10, message_id=new_id())
        await office.stage.commit(later.opened)
        assert (await office.session()).context == step.context, "the next one does not have them"

    async def test_later_messages_stay(self, office: Office) -> None:
        await office.complete(await office.open(), 0, 5)
        late = Attempt(step=5)
        await office.stage.commit(*late.whole())
        await office.revert(1)
        assert (await office.shown())[-1] == late.message_id

    async def test_an_unknown_round_is_not_found(self, office: Office) -> None:
        with pytest.raises(NotFoundError) as caught:
            await office.revert(1)
        assert caught.value.code == "round_not_found"

    async def test_only_the_latest_completed_round(self, office: Office) -> None:
        for _ in range(2):
            await office.complete(await office.open(), 0, 3)
        await office.stage.commit(RoundEnded(await office.open(), "cancelled"))
        for round in (1, 3):
            with pytest.raises(ConflictError, match="only round 2 can be") as caught:
                await office.revert(round)
            assert caught.value.code == "not_the_latest_round"
        await office.revert(2)
        with pytest.raises(ConflictError):
            await office.revert(2)
        await office.revert(1)
        with pytest.raises(ConflictError, match="no round can be"):
            await office.revert(1)

    async def test_not_while_another_round_is_running(self, office: Office) -> None:
        await office.complete(await office.open(), 0, 3)
        await office.request()
        with pytest.raises(ConflictError) as caught:
            await office.revert(1)
        assert caught.value.code == "compaction_in_progress"
        assert await office.statuses() == ["completed", "running"]


class TestClearing:
    async def test_the_event_has_the_saved_tokens(self, office: Office) -> None:
        await office.stage.commit(OutputsPruned("trigger", tuple(office.calls[:2]), ("run",), 500, 420))
        [(name, told)] = await office.events()
        assert name == "prune.completed"
        assert (told["reason"], told["call_ids"], told["tools"]) == ("trigger", office.calls[:2], ["run"])
        assert (told["outputs_pruned"], told["tokens_saved"]) == (2, 80)
        assert (told["tokens_before"], told["tokens_after"]) == (500, 420)
        assert await office.cleared() == set(office.calls[:2])

    async def test_more_outputs_than_parameters_of_a_statement(self, office: Office) -> None:
        ids = [new_id() for _ in range(1_200)] + office.calls
        await office.stage.commit(OutputsPruned("trigger", tuple(ids), ("run",), 500, 600))
        assert await office.cleared() == set(office.calls)
        assert (await office.events())[-1][1]["tokens_saved"] == 0

    async def test_the_complete_output_is_kept_in_the_history(self, office: Office) -> None:
        def outputs(history: list[Message]) -> list[str]:
            return [part.output for message in history for part in message.parts if isinstance(part, ToolResultPart)]

        before = outputs(await office.stage.history())
        await office.stage.commit(OutputsPruned("trigger", tuple(office.calls), ("run",), 500, 400))
        assert outputs(await office.stage.history()) == before == ["out"] * 4

    async def test_cleared_outputs_are_known_for_each_generation(self, office: Office) -> None:
        one, two, three = office.calls[:3]
        changes = [(2, (one, two), ()), (3, (three,), (one,)), (4, (one,), (two, three))]
        for number, pruned, restored in changes:
            generation = replace(GENERATION, id=new_id(), number=number, rounds=(number,))
            await office.stage.commit(GenerationOpened(generation, pruned, restored))
        sid = office.stage.session_id
        seen = await office.stage.database.read(lambda c: [rows.pruned_in(c, sid, number) for number in (1, 2, 3, 4)])
        assert seen == [frozenset(), {one, two}, {two, three}, {one}]
