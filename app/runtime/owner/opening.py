"""Where an owner gets its session's conversation from, and what it leaves to the next run."""

from __future__ import annotations

from collections.abc import Sequence

from app.agent.approvals import WaitingStep
from app.agent.compaction.compactor import Compactor
from app.agent.conversation import Conversation, run_off_loop
from app.agent.interrupt import Interrupt
from app.agent.record import StoredConversation
from app.messages import Message
from app.runtime.agents import load_conversation
from app.runtime.kept import KeptConversation, Version
from app.runtime.owner.assembly import make_compactor
from app.runtime.owner.leftover import read_interrupted
from app.runtime.owner.notes import are_due as notes_are_due
from app.runtime.owner.recorder import Recorder
from app.runtime.owner.state import SessionState
from app.runtime.setup import RuntimeSetup

Opened = tuple[Conversation, Compactor]
"""A session's conversation, and the compactor that keeps it within its window."""


class ConversationSource:
    """Opens the conversation of one owner."""

    def __init__(self, setup: RuntimeSetup, session: SessionState, recorder: Recorder, interrupt: Interrupt) -> None:
        self._setup = setup
        self._session = session
        self._recorder = recorder
        self._interrupt = interrupt

    async def read(self) -> Opened:
        """The stored one."""
        session_id = self._session.id
        return await self.open(await self._setup.database.read(lambda c: load_conversation(c, session_id)))

    async def open(self, stored: StoredConversation) -> Opened:
        """The one that was read."""
        conversation = await run_off_loop(stored.history, self._setup.agents.conversation, stored, self._session.row)
        return conversation, self._compactor(conversation, stored.unused)

    async def read_interrupted(self) -> tuple[Opened, WaitingStep | None]:
        """The stored one, and the step that waited when an earlier owner left. Fires the interrupt if there is a reason
        to end that step."""
        row = self._session.row
        stored, waiting, reason = await self._setup.database.read(lambda c: read_interrupted(c, row))
        if waiting is not None and reason is not None:
            self._interrupt.fire(reason)
        return await self.open(stored), waiting

    def continued(self, kept: KeptConversation, delivered: Sequence[Message]) -> Opened:
        """The kept one, with the messages that were delivered since."""
        for message in delivered:
            kept.conversation.append(message)
        kept.conversation.recalibrate(self._setup.agents.calibration)
        return kept.conversation, self._compactor(kept.conversation, kept.unused)

    def keep(self, conversation: Conversation, compactor: Compactor) -> KeptConversation | None:
        """What the next run continues with, after the last write of this one; None in a cluster, where that run may be
        anywhere, and for a sub-agent, which has one run."""
        setup, session = self._setup, self._session
        is_shared = setup.node is not None or setup.workspaces is not None
        if is_shared or session.is_subagent or not conversation.has_generation:
            return None
        version = Version(self._recorder.epoch, self._recorder.last_seq)
        return KeptConversation(version, conversation, compactor.unused, conversation.set_aside())

    async def read_first_notes(self, conversation: Conversation) -> None:
        """Reads the workspace's notes for a session's first context."""
        if notes_are_due(self._session.row, has_generation=conversation.has_generation):
            await self._interrupt.unless_stopped(self._session.refresh_notes(), patient=True)

    def _compactor(self, conversation: Conversation, unused: int) -> Compactor:
        return make_compactor(self._setup, self._session, self._recorder, conversation, self._interrupt, unused)
