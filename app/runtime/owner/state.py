"""A session as its owner sees it: its row as last read, with the agent, limits and sandbox that follow from it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import structlog
from sqlalchemy import Connection, Row

from app.agent.conversation import Conversation
from app.agent.protocols import AgentConfig
from app.context.clipping import spill_file
from app.context.prompts import Notes
from app.context.tokens import estimate_text
from app.db.repositories import secrets, sessions
from app.errors import PalimpsestError, StaleOwnerError, StorageError, SupersededError
from app.messages import Message
from app.runtime.mcp.catalog import Catalog
from app.runtime.mcp.config import servers_of
from app.runtime.mcp.offer import NOTHING, Offer, make_offer
from app.runtime.mcp.tools import Servers
from app.runtime.owner.instructions import FolderInstructions
from app.runtime.owner.notes import keep_notes, read_notes, refresh_notes
from app.runtime.sandboxes.slots import Lease
from app.runtime.setup import RuntimeSetup
from app.runtime.vault import read_masking
from app.runtime.workspaces.claims import Helper
from app.runtime.workspaces.keeper import Workspaces
from app.sandbox.base import Sandbox
from app.sessions import Limits, SandboxSpec, workspace_of
from app.tools import client
from app.tools.masking import Masking
from app.tools.output import OutputLimit
from app.tools.registry import uses_sandbox
from app.tools.submit import OutputFormat

LEAST_OUTPUT_TOKENS, LEAST_OUTPUT_SHARE = 200, 0.05
"""Minimum tokens shown of each output even if a step has very many calls, and the share of `usable` that they may
take."""


START_AFTER_S = 0.03
"""Seconds from the start of a run until its sandbox is started ahead: the model's request is sent meanwhile."""

SPILL_WAIT_S = 10.0
"""Timeout in seconds to start a sandbox and write spilled messages to it; after it the run continues without them."""

MAX_SPILL_FAILURES = 3
"""Failures after which spilled messages are no longer written: each failure may have delayed a step."""

BRING_WAIT_S, BRING_RETRY_S = 60.0, 2.0
"""Seconds that a run waits for the store of its workspace before it continues without, and between two attempts."""

log = structlog.get_logger(__name__)

T = TypeVar("T")


class SessionState:
    """An owned session; `release` releases its sandbox, `close` also ends what it had for the session."""

    def __init__(self, setup: RuntimeSetup, row: Row[Any]) -> None:
        self.id: str = row.id
        self.workspace_id = workspace_of(row)
        self.row = row
        self._setup = setup
        self._config: AgentConfig | None = None
        self._known: object = None
        self._lease: Lease | None = None
        self._starting: asyncio.Task[None] | None = None
        self._is_used = self._is_taken = False
        self._taking = asyncio.Lock()
        self._notes: Notes | None = None
        self._spilled: set[str] = set()
        self._spill_failures = 0
        self._epoch: int = row.epoch
        self.has_new_secrets = True
        """Whether the secrets may have changed since they were read."""
        self.masking = Masking({})
        """The session's secrets, and those that its files may have from its parent, as of `load_secrets`."""
        self.client_tools = {spec.name: spec for spec in client.load(row.client_tools)}
        """All tools that a step may have been offered, by name."""
        self.instructions = FolderInstructions()
        """Those of folders that tools have used."""
        self.before_use: Callable[[], Awaitable[None]] | None = None
        """Awaited before the sandbox is used."""
        self._catalogs: tuple[Catalog, ...] = ()
        self._offered: Offer = NOTHING
        """What the present configuration offers of MCP servers."""
        self.mcp_offer: Offer = NOTHING
        """What the step was offered of them, even if the session was changed since."""
        self.shared_limits: Limits | None = None
        """Those of a sub-agent, as of its last step: it uses what is left of its parent's."""
        self.mcp_servers: Servers | None = None
        """Where calls of their tools go to."""

    def adopt(self, row: Row[Any]) -> None:
        """Uses a row unless a newer one is known: a read may finish after a later change was reported. One that another
        owner has claimed is not used, since its epoch would let this one write."""
        if row.epoch == self.row.epoch and row.last_seq >= self.row.last_seq:
            if row.client_tools != self.row.client_tools:
                self.client_tools |= {spec.name: spec for spec in client.load(row.client_tools)}
            self.row = row
            self._config = None

    async def read(self) -> Row[Any]:
        """Reads the row again; returns what was read, even if a newer one is known. Raises `StaleOwnerError` if another
        owner has claimed the session."""
        row = await self._setup.database.read(lambda c: sessions.row(c, self.id))
        if row.epoch != self.row.epoch:
            raise StaleOwnerError(f"Another owner has taken over session {self.id}.")
        self.adopt(row)
        return row

    async def refresh_notes(self) -> None:
        """Reads AGENTS.md and MEMORY.md again, for the system text of a new context."""
        await self.load_secrets()
        row = await refresh_notes(self._setup.database, self.row, lambda: self._hold().sandbox, self.masking.text)
        if row is not None:
            self.adopt(row)

    async def ask_windows(self) -> None:
        """Asks the servers of the session's models for their windows."""
        await self._setup.agents.ask_windows(self.row.model, self.row.compaction.get("model"))

    def config(self) -> AgentConfig:
        """The agent's configuration; rebuilt if the row, or what is known of its model, has changed."""
        agents = self._setup.agents
        known = (agents.window(self.row.model), agents.model_info(self.row.model))
        if self._config is None or self._known != known:
            self._known = known
            self._config = agents.config(self.row, offer=self._offer)
        return self._config

    def offer_mcp(self, catalogs: tuple[Catalog, ...]) -> None:
        """What MCP servers offer from the next step on."""
        if catalogs != self._catalogs:
            self._catalogs = catalogs
            self._config = None

    def _offer(self, window: int) -> Offer:
        servers = servers_of(self.row, self._setup.mcp.defaults)
        self._offered = make_offer(self._catalogs, servers, window) if servers else NOTHING
        return self._offered

    def step_config(self) -> AgentConfig:
        """The configuration of the next step; the tools of MCP servers that it offers can be called from now on."""
        config = self.config()
        self.mcp_offer = self._offered
        return config

    async def refreshed(self, config: AgentConfig) -> AgentConfig:
        """A configuration with the notes read again, which are only stored once a context is built with them. Model,
        tools and budget stay, even if the session was changed in the meantime."""
        await self.load_secrets()
        self._notes = await read_notes(self.id, lambda: self._hold().sandbox, self.masking.text)
        return replace(config, system=self._setup.agents.system(self.row, config.budget, self._notes))

    async def keep_notes(self) -> None:
        """Stores the notes that were read last: a context was built with them."""
        row = await keep_notes(self._setup.database, self.row, self._notes) if self._notes is not None else None
        if row is not None:
            self.adopt(row)

    async def write_spilled(self, messages: Sequence[Message]) -> None:
        """Writes messages that the context only shows in part to files of the workspace, each once. Best effort, since
        `recall` also returns them: without a sandbox there are no files."""
        due = [message for message in messages if message.id not in self._spilled]
        if not due or self._spill_failures >= MAX_SPILL_FAILURES:
            return
        try:
            async with asyncio.timeout(SPILL_WAIT_S):
                sandbox = await self.sandbox()
                for message in due:
                    await sandbox.write(spill_file(message), message.text.encode())
                    self._spilled.add(message.id)
        except (PalimpsestError, TimeoutError) as error:
            self._spill_failures += 1
            log.warning("message_spill_failed", session_id=self.id, reason=str(error) or "the sandbox took too long")

    async def new_instructions(self, conversation: Conversation) -> Message | None:
        """The instructions of folders that tools have used since the last step, if the model does not see them."""
        shown, usable = conversation.transcript.messages, self.config().budget.usable
        return await self.instructions.read(shown, lambda: self._hold().sandbox, self.masking.text, usable)

    async def load_secrets(self) -> None:
        """Reads the secrets again if they may have been changed. Sub-agents are not notified of their parent's."""
        if self.has_new_secrets or self.is_subagent:
            await self.read_with_secrets(lambda _: None)

    async def read_with_secrets(self, query: Callable[[Connection], T]) -> T:
        """Reads the secrets, and something else from the same state."""
        self.has_new_secrets = False
        try:
            value, rows = await self._setup.database.read(lambda c: (query(c), secrets.of_line(c, self.workspace_id)))
            self.masking = await read_masking(self._setup.vault, rows, self.workspace_id)
        except BaseException:
            self.has_new_secrets = True
            raise
        return value

    def limits(self) -> Limits:
        return self.shared_limits or Limits(**self.row.limits)

    def output_format(self) -> OutputFormat | None:
        """What the result of the run has to look like; None for a text."""
        return OutputFormat.of_session(self.row)

    def output_limit(self, calls: int) -> OutputLimit:
        """How much of each output the model sees, for a message with this many calls: together they take at most a
        quarter of the context, less of a lean one, so that one step never fills it."""
        config = self.config()
        budget = config.budget
        least = min(LEAST_OUTPUT_TOKENS, int(budget.usable * LEAST_OUTPUT_SHARE))
        tokens = max(least, budget.step_output // calls)
        return OutputLimit(min(config.settings.clip_chars, tokens * 4), tokens, estimate_text)

    async def sandbox(self) -> Sandbox:
        """The session's sandbox, started, and held until `release`. Starts the next command's process in advance."""
        sandbox = await self._started_sandbox()
        sandbox.keep_ready(self.masking.values)
        return sandbox

    def start_ahead(self, until_read: Callable[[], Awaitable[None]]) -> None:
        """Starts the sandbox while the session's first model call is under way, if the model may use it; a failure
        concerns only the call that needs it. `until_read` is awaited first. In a cluster it starts when it is needed:
        the session may continue on another machine. Sub-agents have their parent's."""
        is_shared = self._setup.node is not None or self._setup.workspaces is not None or self.is_subagent
        if is_shared or self.row.steps or self._starting is not None:
            return
        self._starting = asyncio.create_task(self._start_ahead(until_read), name=f"sandbox-{self.id}")
        self._starting.add_done_callback(lambda task: task.cancelled() or task.exception())

    async def _start_ahead(self, until_read: Callable[[], Awaitable[None]]) -> None:
        await asyncio.sleep(START_AFTER_S)
        await until_read()
        sandboxes = self._setup.sandboxes
        is_available = self.row.sandbox["kind"] in sandboxes.kinds.names and sandboxes.slots.has_room
        if is_available and uses_sandbox(tool.name for tool in self.config().tools):
            (await self._hold().start_ahead()).keep_ready(self.masking.values)

    async def _started_sandbox(self) -> Sandbox:
        self._is_used = True
        if self.before_use is not None:
            await self.before_use()
        await self._setup.sandboxes.kinds.wait_for(self.row.sandbox["kind"])
        await self.take_workspace()
        sandbox = await self._hold().start()
        return sandbox if self._setup.workspaces is None else self._setup.workspaces.fenced(self.workspace_id, sandbox)

    async def take_workspace(self) -> None:
        """Makes sure that nobody else uses the workspace, before this session or its sub-agents do: restores it if
        another machine had it, or ends the commands that a node has left which may be dead or frozen. Sub-agents begin
        after that. Raises `WorkspaceStoreError` if its store does not answer, and what the sandbox raises."""
        if self._setup.workspaces is not None:
            await self._bring_workspace(self._setup.workspaces)
        elif self._setup.node is not None and not self.is_subagent:
            async with self._taking:
                if not self._is_taken:
                    await self._hold().sandbox.end_left()
                    self._is_taken = True

    async def _bring_workspace(self, workspaces: Workspaces) -> None:
        spec = SandboxSpec(**self.row.sandbox)
        if not self.is_subagent:
            return await workspaces.bring(self.id, spec, self._epoch)
        if not await self._setup.still_owns(self.id, self._epoch):
            raise StaleOwnerError(f"Another owner has taken over session {self.id}.")
        await workspaces.bring(self.workspace_id, spec, helper=Helper(self.id, self._epoch))

    async def take_workspace_first(self) -> None:
        """Like `take_workspace`, before anything else; retried while the store does not answer. After that, each call
        that needs the sandbox tries again."""
        deadline = asyncio.get_running_loop().time() + BRING_WAIT_S
        while True:
            try:
                await self._setup.sandboxes.kinds.wait_for(self.row.sandbox["kind"])
                return await self.take_workspace()
            except (StaleOwnerError, SupersededError, StorageError):
                raise
            except PalimpsestError as error:
                log.warning("workspace_not_taken", session_id=self.id, code=error.code, reason=error.detail)
                if asyncio.get_running_loop().time() >= deadline:
                    return
                await asyncio.sleep(BRING_RETRY_S)

    @property
    def is_subagent(self) -> bool:
        """Whether the workspace is that of another session, for which it works."""
        return self.workspace_id != self.id

    @property
    def leases(self) -> int:
        """How many leases of the sandbox are held here."""
        return 0 if self._lease is None else 1

    def _hold(self) -> Lease:
        if self._lease is None:
            self._lease = self._setup.sandboxes.lease(self.workspace_id, SandboxSpec(**self.row.sandbox))
        return self._lease

    def release(self) -> None:
        if self._starting is not None:
            self._starting.cancel()
        if self._lease is not None:
            self._lease.sandbox.rest()
            self._lease.release()
            self._lease = None

    def close(self) -> None:
        """Releases the sandbox for good; one that was started ahead, and not used, is stopped."""
        self.release()
        if self._starting is not None and not self._is_used:
            self._setup.sandboxes.stop_unused(self.id)
        # It refers to this object through the traceback of its cancellation.
        self._starting = None
