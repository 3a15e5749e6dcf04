"""The past of a session: messages, steps, contexts, tool calls, its events as a stream or in pages, its compactions and
the preview of one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Row

from app.agent.changes import RoundOpening
from app.agent.compaction.rounds import Round, folded
from app.agent.compaction.triggers import ManualRound, Refusal, manual_round, manual_selection
from app.agent.conversation import Conversation, run_off_loop
from app.agent.record import StoredConversation
from app.context.budget import trigger
from app.context.policies import CompactionSettings, resolve
from app.context.prompts import Notes
from app.context.selection import Selection
from app.db.engine import Database
from app.db.repositories import images, sessions
from app.db.repositories.images import StoredImage
from app.errors import ConflictError, NotFoundError
from app.eventlog.bus import Bus
from app.eventlog.log import EventLog
from app.eventlog.reader import follow, follow_all
from app.interchange import WireFormat
from app.runtime import history
from app.runtime.agents import AgentSetup, load_conversation
from app.runtime.dispatch import Dispatch
from app.runtime.history import log_page, read_seq
from app.runtime.mcp.host import NO_DEFAULTS, McpHost
from app.runtime.mcp.offer import Offer
from app.runtime.mcp.stored import read_tools, stored_offer
from app.runtime.owner.notes import are_due as notes_are_due
from app.runtime.owner.notes import read_beside_owner, swept
from app.runtime.searching import search_messages
from app.runtime.setup import RuntimeSetup
from app.runtime.transactions import compactions
from app.runtime.transactions.compactions import revert
from app.runtime.transactions.lifecycle import export_page
from app.runtime.values.history import (
    CompactionCreate,
    CompactionList,
    CompactionPreview,
    ContextView,
    EventStream,
    ExportPage,
    ImageFile,
    LogPage,
    MessagePage,
    RawOutput,
    SearchResult,
    StepPage,
    ToolCallView,
)
from app.runtime.values.tools import ToolList
from app.sessions import CompactionEvent, Session


class HistoryService:
    """Reads the stored data of a session. Methods with `after` raise `MalformedRequestError` if it is invalid."""

    def __init__(self, setup: RuntimeSetup, output_path: Callable[[str], Path]) -> None:
        """`output_path` returns the file of a stored raw output."""
        self._setup = setup
        self._database = setup.database
        self._agents = setup.agents
        self._output_path = output_path

    async def messages(self, session_id: str, *, after: str | None, limit: int) -> MessagePage:
        start = read_seq(after)
        return await self._database.read(lambda c: history.message_page(c, session_id, start, limit))

    async def export(self, session_id: str, *, format: WireFormat, after: str | None, limit: int) -> ExportPage:
        """The history in a provider's wire format."""
        start = read_seq(after)
        return await self._database.read(lambda c: export_page(c, session_id, format, start, limit))

    def whole(self, session_id: str) -> AbstractAsyncContextManager[None]:
        """The turn in which all of a history is read, and what was read is held."""
        return self._setup.reading_whole(session_id)

    async def context(self, session_id: str, *, step: int | None) -> ContextView:
        """What the next step would send, or what a step has sent. Before the first step it includes the workspace's
        current notes, and the model's server is asked for its window."""
        if step is not None:
            return await self._database.read(lambda c: history.sent_context(c, session_id, step))
        notes = await self._first_notes(session_id)
        row, stored, offer = await self._database.read(lambda c: _read(c, session_id, self._setup.mcp))
        return await history.next_context(row, stored, self._agents, notes, offer)

    async def tools(self, session_id: str) -> ToolList:
        """The tools that the next step offers, those of MCP servers as they were when last connected."""
        return await self._database.read(lambda c: read_tools(c, session_id, self._agents, self._setup.mcp))

    async def _first_notes(self, session_id: str) -> Notes | None:
        row = await self._database.read(lambda c: history.reads_notes(c, session_id))
        if row is None:
            return None
        await self._agents.ask_windows(row.model, row.compaction.get("model"))
        return await read_beside_owner(self._setup, row)

    async def steps(self, session_id: str, *, after: str | None, limit: int) -> StepPage:
        start = read_seq(after)
        return await self._database.read(lambda c: history.step_page(c, session_id, start, limit))

    async def search(self, session_id: str, query: str, *, limit: int) -> SearchResult:
        """The places that match a query best; the step that is running is not searched."""
        return await search_messages(self._database, session_id, query, limit)

    async def tool_call(self, session_id: str, call_id: str) -> ToolCallView:
        """A call with its result. Raises `NotFoundError` (code `call_not_found`)."""
        return await self._database.read(lambda c: history.tool_call(c, session_id, call_id))

    async def image(self, session_id: str, digest: str) -> ImageFile:
        """An image of a message. Raises `NotFoundError` (code `image_not_found`)."""

        def find(connection: Connection) -> StoredImage | None:
            sessions.row(connection, session_id)
            return images.get(connection, session_id, digest)

        found = await self._database.read(find)
        if found is None:
            raise NotFoundError("The session has no image with this digest.", code="image_not_found")
        return ImageFile(RawOutput(size=len(found.data), data=found.data), found.media_type)

    async def tool_output(self, session_id: str, call_id: str) -> RawOutput:
        """The raw output of a call. Raises `ConflictError` (code `call_open`) while it has none, and `GoneError` if it
        was removed."""
        stored = await self._database.read(lambda c: history.stored_output(c, session_id, call_id))
        if stored.swept_at is not None:
            raise swept(stored.swept_at)
        if stored.ref is None:
            return RawOutput(size=len(stored.text), data=stored.text)
        path = self._output_path(stored.ref)
        try:
            return RawOutput(size=(await asyncio.to_thread(path.stat)).st_size, path=path)
        except OSError as error:
            raise NotFoundError("The raw output is no longer stored.", code="output_not_found") from error


class EventService:
    """Opens streams of events; leaving a stream's context ends its subscription."""

    def __init__(self, database: Database, bus: Bus) -> None:
        self._database = database
        self._log = EventLog(database)
        self._bus = bus

    def check_room(self) -> None:
        """Raises `ServerBusyError` if no further stream may be opened."""
        self._bus.check_room()

    async def follow(
        self, session_id: str, *, after: int, until_idle: bool, promised: bool = False
    ) -> AbstractAsyncContextManager[EventStream | None]:
        """The session's events after `after`, durable and live; None if there are none and the stream is over. Raises
        `ConflictError` (code `ahead_of_log`) if `after` is larger than the session's last seq. `promised` marks a
        stream that has already passed `check_room`."""
        head = await self._log.head(session_id)
        if after > head.last_seq:
            raise ConflictError(
                f"The session's last event is {head.last_seq}, not {after}.",
                code="ahead_of_log",
                last_seq=head.last_seq,
            )
        return follow(self._log, self._bus, session_id, after=after, until_idle=until_idle, promised=promised)

    def follow_all(
        self, after: str | None = None, *, activity: bool = False
    ) -> AbstractAsyncContextManager[EventStream]:
        """`session.*` events of all sessions from now on, or from a cursor on, without seq; with `activity`, also what
        each is doing. Entering it raises `MalformedRequestError` and `GoneError` for a cursor that is invalid or too
        old."""
        return follow_all(self._log, self._bus, after, activity=activity)

    async def page(
        self, session_id: str, *, after: str | None, limit: int, types: Collection[str], newest_first: bool
    ) -> LogPage:
        """Durable events as data, optionally only of some types. Raises `MalformedRequestError` for an invalid
        `after`."""
        start = None if after is None else read_seq(after)
        return await self._database.read(
            lambda c: log_page(c, session_id, after=start, limit=limit, types=types, newest_first=newest_first)
        )


async def opening(
    database: Database,
    session_id: str,
    settings: CompactionSettings,
    agents: AgentSetup,
    notes: Notes | None,
    mcp: McpHost = NO_DEFAULTS,
) -> RoundOpening:
    """How a round would start, measured in the same way as by the session's owner: the whole request, including system
    text and tools. Additions of a running step are not included, so that such a round completes with more
    `tokens_before`. `notes` are the workspace's, for a session without a context. Raises `NotFoundError`."""
    row, stored, offer = await database.read(lambda c: _read(c, session_id, mcp))
    _, round = await _round(row, stored, ManualRound(0, settings), agents, offer, notes)
    return RoundOpening("manual", settings.policy, round.target.before, round.budget.limit)


async def preview(
    database: Database,
    session_id: str,
    asked: ManualRound,
    agents: AgentSetup,
    notes: Notes | None,
    mcp: McpHost = NO_DEFAULTS,
) -> CompactionPreview:
    """Reads the whole conversation and measures the context after a round. `notes` are the workspace's current notes,
    which a round puts into the system text; None if they cannot be read. Raises `NotFoundError`."""
    row, stored, offer = await database.read(lambda c: _read(c, session_id, mcp, whole=True))
    conversation, round = await _round(row, stored, asked, agents, offer, notes)
    system = agents.system(row, round.config.budget, notes)
    return await run_off_loop(stored.history, _preview, conversation, round, system)


def _read(
    connection: Connection, session_id: str, mcp: McpHost, *, whole: bool = False
) -> tuple[Row[Any], StoredConversation, Callable[[int], Offer]]:
    """Reads everything from the database first: the rest takes long, and other readers wait for the connection."""
    row = sessions.row(connection, session_id)
    return row, load_conversation(connection, session_id, whole=whole), stored_offer(connection, row, mcp)


def _preview(conversation: Conversation, round: Round, system: str) -> CompactionPreview:
    covered = manual_selection(conversation, round)
    if isinstance(covered, Refusal):
        return _result(round, None, round.target.before)
    made = replace(round, config=replace(round.config, system=system))
    return _result(round, covered, folded(conversation, made, covered).tokens)


async def _round(
    row: Row[Any],
    stored: StoredConversation,
    asked: ManualRound,
    agents: AgentSetup,
    offer: Callable[[int], Offer],
    notes: Notes | None,
) -> tuple[Conversation, Round]:
    conversation = await run_off_loop(stored.history, agents.conversation, stored, row)
    first = notes_are_due(row, has_generation=stored.generation is not None)
    config = agents.config(row, notes if first else None, offer)
    await conversation.refresh(config)
    numbered = replace(asked, number=conversation.round + 1)
    budget = agents.budget(row.model, asked.settings)
    return conversation, await run_off_loop(stored.history, manual_round, conversation, config, numbered, budget)


def _result(round: Round, covered: Selection | None, after: int) -> CompactionPreview:
    marks = round.batch_beside(covered.covered) if covered is not None else None
    cleared = marks.call_ids if marks is not None else ()
    return CompactionPreview(
        policy=round.settings.policy,
        first_message_id=covered.covered[0].id if covered is not None else None,
        last_message_id=covered.covered[-1].id if covered is not None else None,
        messages_compacted=len(covered.covered) if covered is not None else 0,
        kept_message_ids=covered.kept if covered is not None else (),
        outputs_pruned=len(cleared),
        call_ids=cleared,
        tokens_before=round.target.before,
        tokens_after=after,
        limit=round.budget.limit,
        usable=round.budget.usable,
        trigger=trigger(round.budget, round.settings),
    )


class CompactionService:
    """Requests rounds from the owners of sessions; every write is committed when a method returns."""

    def __init__(self, setup: RuntimeSetup, registry: Dispatch) -> None:
        self._setup = setup
        self._database = setup.database
        self._registry = registry

    async def request(self, session_id: str, body: CompactionCreate) -> CompactionEvent:
        """Accepts a round of compaction; the session's owner makes it between steps. Raises `ConflictError` (code
        `compaction_in_progress`) while another one is running, and `TooManyRunsError` if the session is idle and
        too many runs are waiting."""
        settings = await self._settings(session_id, body)
        agents, first = self._setup.agents, await self._database.read(lambda c: history.reads_notes(c, session_id))
        notes = await read_beside_owner(self._setup, first) if first is not None else None
        start = await opening(self._database, session_id, settings, agents, notes, self._setup.mcp)
        with self._registry.admitting() as room:
            if not room and not self._registry.works_on(session_id):
                raise self._registry.no_room()
            event = await self._setup.write(
                session_id, lambda c: compactions.request(c, session_id, start, settings, body.instructions)
            )
            self._registry.ask_round(session_id)
        return event

    async def preview(self, session_id: str, body: CompactionCreate) -> CompactionPreview:
        """What a round would do now, without doing it. Like a round it reads the workspace's notes without starting a
        sandbox."""
        asked = ManualRound(0, await self._settings(session_id, body), body.instructions)
        agents, row = self._setup.agents, await self._database.read(lambda c: sessions.row(c, session_id))
        notes = await read_beside_owner(self._setup, row)
        return await preview(self._database, session_id, asked, agents, notes, self._setup.mcp)

    async def list(self, session_id: str) -> CompactionList:
        """All rounds of compaction, including failed ones."""
        return await self._database.read(lambda c: history.round_list(c, session_id))

    async def revert(self, session_id: str, round: int) -> None:
        """Reverts the latest round; a current run continues without it from its next step."""

        def committed() -> None:
            # A message just before it may have claimed the session for an owner that does not exist yet.
            self._setup.kept.drop(session_id)
            self._registry.take_revert(session_id)

        await self._setup.write(session_id, lambda c: revert(c, session_id, round), committed=committed)

    async def _settings(self, session_id: str, body: CompactionCreate) -> CompactionSettings:
        """The settings of a round, after asking its models' servers for their windows."""
        session = await self._database.read(lambda c: sessions.snapshot(c, session_id))
        settings = _round_settings(session, body)
        await self._setup.agents.ask_windows(session.model, settings.model)
        return settings


def _round_settings(session: Session, body: CompactionCreate) -> CompactionSettings:
    """The settings of a round: the session's, or those of the requested policy."""
    own = CompactionSettings.model_validate({"policy": session.compaction.policy, **session.compaction.settings})
    return resolve(body.policy, own)
