"""In-memory services with the same interfaces as the real ones."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from datetime import timedelta
from typing import IO, Any

from app.api.examples import AT, SESSION
from app.api.examples.records import CHECKPOINT_ID, COMPACTION_PREVIEW, MESSAGE_ID
from app.errors import ConflictError, NotFoundError, QueueFullError, WrongKeyError
from app.interchange import WireFormat
from app.messages import ToolCallPart, Usage, new_id, now
from app.runtime.content import unread
from app.runtime.run_starts import NOBODY, Caller
from app.runtime.services import (
    ApprovalService,
    CheckpointService,
    ClientCallService,
    CommandService,
    CompactionService,
    HistoryService,
    LoginService,
    QueueService,
    SecretService,
    ServerService,
    Services,
    SessionService,
)
from app.runtime.values.checkpoints import (
    ChangeList,
    Checkpoint,
    CheckpointList,
    FileChange,
    RestoreResult,
    Uncovered,
)
from app.runtime.values.commands import CommandList, CommandOutput, CommandView
from app.runtime.values.history import (
    CompactionCreate,
    CompactionList,
    CompactionPreview,
    ContextView,
    ExportPage,
    ImageFile,
    MessagePage,
    RawOutput,
    SearchResult,
    StepPage,
    StreamItem,
    SystemView,
    ToolCallView,
)
from app.runtime.values.queue import (
    ApprovalAnswer,
    ApprovalList,
    PendingApproval,
    PendingToolCall,
    PendingToolCalls,
    QueueAdd,
    QueuedMessage,
    QueueEdit,
    QueuePage,
    QueueReceipt,
    ToolCallAnswer,
)
from app.runtime.values.secrets import SecretInfo, SecretList, SecretPut
from app.runtime.values.server import (
    Component,
    ModelList,
    ModelView,
    NewLogin,
    NodeList,
    Prices,
    Readiness,
    UsageReport,
)
from app.runtime.values.sessions import ForkCreate, SessionCreate, SessionPage, SessionPatch
from app.runtime.values.tools import ToolList
from app.sessions import CompactionEvent, ContextState, Session, SessionFilter, SessionSort, Status
from tests.unit.api.double_streams import InMemoryEvents, InMemoryFiles, InMemoryIdempotency
from tests.unit.api.double_webhooks import InMemoryWebhooks
from tests.unit.api.memory import Memory

CALL_ID = "call_1"
CHECKPOINT = Checkpoint(id=CHECKPOINT_ID, at=AT, run=1, reason="run_started", message_id=MESSAGE_ID, files=1, bytes=10)
PATCH = b"diff --git a/hello.py b/hello.py\n"
LOGIN_KEY = "a-key-of-this-server"
TOKEN = "t" * 43


class InMemorySessions(SessionService):
    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    async def create(
        self, body: SessionCreate, caller: Caller = NOBODY, archive: IO[bytes] | None = None
    ) -> tuple[Session, bool]:
        if archive is not None:
            self._memory.workspace["archive"] = archive.read()
        if body.id in self._memory.sessions:
            if self._memory.bodies[body.id] != body:
                raise ConflictError("The id was used with other content.", code="id_in_use")
            return self._memory.sessions[body.id], False
        status = Status.RUNNING if body.task else Status.IDLE
        session = SESSION.model_copy(
            update={
                "id": body.id or new_id(),
                "task": body.task if body.task is None else unread(body.task).text,
                "title": body.title,
                "status": status,
                "metadata": body.metadata or {},
            }
        )
        self._memory.sessions[session.id], self._memory.bodies[session.id] = session, body
        self._memory.queues[session.id], self._memory.logs[session.id] = {}, []
        await self._memory.append(session.id, StreamItem("session.created", 1, b'{"n":1}'))
        return session, True

    async def list(
        self,
        *,
        status: SessionFilter | None,
        q: str | None,
        limit: int,
        cursor: str | None,
        sort: SessionSort = "created",
        parent_id: str | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> SessionPage:
        self._memory.listed = {
            **{"status": status, "q": q, "parent_id": parent_id, "metadata": metadata, "limit": limit},
            **{"cursor": cursor, "sort": sort},
        }
        items = [session for session in self._memory.sessions.values() if status in (None, session.status)]
        return SessionPage(items=tuple(items[:limit]), next_cursor=None)

    async def get(self, session_id: str) -> Session:
        return self._memory.get(session_id)

    async def patch(self, session_id: str, body: SessionPatch) -> Session:
        session = self._memory.get(session_id)
        self._memory.sessions[session_id] = session.model_copy(
            update=body.model_dump(exclude_unset=True, exclude={"limits"})
        )
        return self._memory.sessions[session_id]

    async def delete(self, session_id: str) -> None:
        self._memory.get(session_id)
        del self._memory.sessions[session_id]

    async def fork(self, session_id: str, body: ForkCreate, fork_id: str | None = None) -> Session:
        parent = self._memory.get(session_id)
        if body.after_message_id not in (None, MESSAGE_ID):
            raise NotFoundError("There is no such message.", code="message_not_found")
        fork = parent.model_copy(update={"id": new_id(), "parent_id": parent.id, "title": body.title or parent.title})
        self._memory.sessions[fork.id] = fork
        return fork

    async def mark_seen(self, session_id: str) -> None:
        self._memory.get(session_id)

    async def cancel(self, session_id: str, *, clear_queue: bool) -> Session:
        session = self._memory.get(session_id)
        if clear_queue:
            self._memory.queues[session_id].clear()
        return session

    async def resume(self, session_id: str, caller: Caller = NOBODY) -> Session:
        session = self._memory.get(session_id)
        if session.status is Status.RUNNING:
            raise ConflictError("There is nothing to resume.", code="nothing_to_resume")
        return session


class InMemoryQueue(QueueService):
    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    async def add(self, session_id: str, body: QueueAdd, caller: Caller = NOBODY) -> QueueReceipt:
        self._memory.get(session_id)
        queue = self._memory.queues[session_id]
        if len(queue) >= 3:
            raise QueueFullError("3 messages are already pending.")
        message = QueuedMessage(
            id=body.id or new_id(),
            position=len(queue) + 1,
            mode=body.mode,
            status="pending",
            content=unread(body.content).stored,
            created_at=AT,
        )
        queue[message.id] = message
        return QueueReceipt(id=message.id, position=message.position, mode=message.mode, status=message.status)

    async def list(self, session_id: str) -> QueuePage:
        self._memory.get(session_id)
        return QueuePage(items=tuple(self._memory.queues[session_id].values()), last_seq=1)

    async def edit(self, session_id: str, message_id: str, body: QueueEdit) -> QueuedMessage:
        message = self._pending(session_id, message_id)
        changed = {"content": unread(body.content).stored} if body.content is not None else {}
        edited = message.model_copy(update={**body.model_dump(exclude_none=True), **changed})
        self._memory.queues[session_id][message_id] = edited
        return edited

    async def withdraw(self, session_id: str, message_id: str) -> None:
        self._pending(session_id, message_id)
        del self._memory.queues[session_id][message_id]

    def _pending(self, session_id: str, message_id: str) -> QueuedMessage:
        self._memory.get(session_id)
        if message_id not in self._memory.queues[session_id]:
            raise NotFoundError("There is no queued message with this id.", code="message_not_found")
        return self._memory.queues[session_id][message_id]


class InMemorySecrets(SecretService):
    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._names: dict[str, set[str]] = {}

    async def list(self, session_id: str) -> SecretList:
        self._memory.get(session_id)
        names = sorted(self._names.get(session_id, ()))
        return SecretList(items=tuple(SecretInfo(name=name, created_at=AT, updated_at=AT) for name in names))

    async def put(self, session_id: str, name: str, body: SecretPut) -> None:
        self._memory.get(session_id)
        self._names.setdefault(session_id, set()).add(name)

    async def remove(self, session_id: str, name: str) -> None:
        self._memory.get(session_id)
        if name not in self._names.get(session_id, ()):
            raise NotFoundError("The session has no such secret.", code="secret_not_found")
        self._names[session_id].remove(name)


class InMemoryApprovals(ApprovalService):
    """Each session has one waiting call until it is decided."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._decided: dict[str, ApprovalAnswer] = {}

    async def list(self, session_id: str) -> ApprovalList:
        self._memory.get(session_id)
        waiting = PendingApproval(
            call_id=CALL_ID,
            message_id=new_id(),
            name="execute_command",
            arguments={"command": "ls"},
            requested_at=AT,
            expires_at=AT,
        )
        return ApprovalList(items=() if session_id in self._decided else (waiting,), last_seq=1)

    async def decide(self, session_id: str, call_id: str, answer: ApprovalAnswer) -> None:
        self._memory.get(session_id)
        if call_id != CALL_ID:
            raise NotFoundError("No such call waits.", code="approval_not_found")
        if session_id in self._decided:
            raise ConflictError("It waits no more.", code="approval_resolved")
        self._decided[session_id] = answer


class InMemoryClientCalls(ClientCallService):
    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._answered: dict[str, ToolCallAnswer] = {}

    async def pending(self, session_id: str) -> PendingToolCalls:
        self._memory.get(session_id)
        waiting = PendingToolCall(
            call_id=CALL_ID, message_id=new_id(), name="open_ticket", arguments={}, requested_at=AT, expires_at=AT
        )
        return PendingToolCalls(items=() if session_id in self._answered else (waiting,), last_seq=1)

    async def answer(self, session_id: str, call_id: str, posted: ToolCallAnswer) -> None:
        self._memory.get(session_id)
        if call_id != CALL_ID:
            raise NotFoundError("There is no such call.", code="call_not_found")
        if session_id in self._answered:
            raise ConflictError("It waits no more.", code="call_resolved")
        self._answered[session_id] = posted


class InMemoryCommands(CommandService):
    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    async def list(self, session_id: str) -> CommandList:
        self._memory.get(session_id)
        command = CommandView(
            command_id=CALL_ID,
            command="npm run dev",
            status="running",
            exit_code=None,
            remark=None,
            bytes=0,
            started_at=AT,
            ended_at=None,
        )
        return CommandList(items=(command,))

    async def output(self, session_id: str, command_id: str, since: int) -> CommandOutput:
        await self.stop(session_id, command_id)
        return CommandOutput(
            command_id=command_id, status="running", exit_code=None, output="", since=since, next_since=since, bytes=0
        )

    async def stop(self, session_id: str, command_id: str) -> None:
        self._memory.get(session_id)
        if command_id != CALL_ID:
            raise NotFoundError("There is no such command.", code="command_not_found")


class InMemoryHistory(HistoryService):
    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    async def messages(self, session_id: str, *, after: str | None, limit: int) -> MessagePage:
        self._memory.get(session_id)
        return MessagePage(items=(), last_seq=1, next_cursor=None)

    async def search(self, session_id: str, query: str, *, limit: int) -> SearchResult:
        self._memory.get(session_id)
        self._memory.listed = {"query": query, "limit": limit}
        return SearchResult(items=())

    async def export(self, session_id: str, *, format: WireFormat, after: str | None, limit: int) -> ExportPage:
        self._memory.get(session_id)
        self._memory.listed = {"format": format, "after": after, "limit": limit}
        return ExportPage(items=({"role": "user", "content": "Hello."},), last_seq=1, next_cursor=None)

    def whole(self, session_id: str) -> AbstractAsyncContextManager[None]:
        return nullcontext()

    async def context(self, session_id: str, *, step: int | None) -> ContextView:
        session = self._memory.get(session_id)
        if step is not None:
            raise NotFoundError("The session has no such step.", code="step_not_found")
        return ContextView(
            session_id=session_id,
            last_seq=1,
            step=step,
            generation=0,
            model=session.model,
            system=SystemView(text="You are an agent.", tokens=4),
            tools=(),
            messages=(),
            tokens=4,
            limit=ContextState().limit,
            usable=0,
            source="estimated",
        )

    async def steps(self, session_id: str, *, after: str | None, limit: int) -> StepPage:
        self._memory.get(session_id)
        return StepPage(items=(), last_seq=1, next_cursor=None)

    async def tools(self, session_id: str) -> ToolList:
        self._memory.get(session_id)
        return ToolList(items=(), system=(), servers=(), tokens=0, window=1, last_seq=1)

    async def tool_call(self, session_id: str, call_id: str) -> ToolCallView:
        self._memory.get(session_id)
        if call_id not in self._memory.outputs:
            raise NotFoundError("There is no tool call with this id.", code="call_not_found")
        call = ToolCallPart(id=new_id(), index=0, call_id=call_id, name="execute_command", arguments_text='{"a": 1}')
        return ToolCallView(message_id=new_id(), call=call, result_message_id=None, result=None)

    async def tool_output(self, session_id: str, call_id: str) -> RawOutput:
        await self.tool_call(session_id, call_id)
        return self._memory.outputs[call_id]

    async def image(self, session_id: str, digest: str) -> ImageFile:
        self._memory.get(session_id)
        if digest not in self._memory.images:
            raise NotFoundError("The session has no image with this digest.", code="image_not_found")
        data = self._memory.images[digest]
        return ImageFile(RawOutput(size=len(data), data=data), "image/png")


class InMemoryCompactions(CompactionService):
    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    async def request(self, session_id: str, body: CompactionCreate) -> CompactionEvent:
        self._memory.get(session_id)
        if session_id in self._memory.rounds_of:
            raise ConflictError("A compaction of this session is already running.", code="compaction_in_progress")
        event = CompactionEvent(
            round=1, reason="manual", policy=body.policy or "reactive", status="running", created_at=now()
        )
        self._memory.rounds_of[session_id] = event
        return event

    async def preview(self, session_id: str, body: CompactionCreate) -> CompactionPreview:
        self._memory.get(session_id)
        return COMPACTION_PREVIEW.model_copy(update={"policy": body.policy or "reactive"})

    async def list(self, session_id: str) -> CompactionList:
        self._memory.get(session_id)
        found = self._memory.rounds_of.get(session_id)
        return CompactionList(items=() if found is None else (found,), last_seq=1)

    async def revert(self, session_id: str, round: int) -> None:
        self._memory.get(session_id)
        raise NotFoundError(f"The session has no round {round}.", code="round_not_found")


class InMemoryLogins(LoginService):
    """Accepts one key, and always returns the same login."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    async def open(self, key: str) -> NewLogin | None:
        if key != LOGIN_KEY:
            raise WrongKeyError("That key isn't valid.")
        self._memory.logins.add(TOKEN)
        return NewLogin(TOKEN, timedelta(days=1))

    async def end(self, token: str) -> None:
        self._memory.logins.discard(token)

    async def key_of(self, token: str) -> str | None:
        return "key" if token in self._memory.logins else None


class InMemoryServer(ServerService):
    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    def models(self) -> ModelList:
        unknown = Prices(input=None, output=None, cache_read=None, cache_write=None)
        demo = ModelView(
            name="scripted/demo",
            provider="scripted",
            context_window=128_000,
            window_source="assumed",
            max_output_tokens=None,
            prices=unknown,
            key_present=True,
            default=True,
            description="Plays a script.",
            reasoning_efforts=(),
        )
        return ModelList(items=(demo,))

    async def usage(self, **_: Any) -> UsageReport:
        return UsageReport(total=Usage(), items=())

    async def nodes(self) -> NodeList:
        return NodeList(items=(), waiting=0)

    async def readiness(self) -> Readiness:
        ready = self._memory.ready
        database = Component(ok=ready, status="ok" if ready else "unavailable", detail="memory")
        return Readiness(ready=ready, degraded=not ready, components={"database": database})


class InMemoryCheckpoints(CheckpointService):
    """One checkpoint, with a file that was added since."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    async def elsewhere(self, session_id: str) -> None:
        return None

    async def list(self, session_id: str) -> CheckpointList:
        self._memory.get(session_id)
        return CheckpointList(items=(CHECKPOINT,), not_covered=Uncovered())

    async def changes(self, session_id: str, start: str | None, end: str | None) -> ChangeList:
        self._check(session_id, start, end)
        added = FileChange(path="hello.py", status="added", additions=1, deletions=0, binary=False)
        return ChangeList(
            from_checkpoint=CHECKPOINT.id,
            to_checkpoint=end,
            items=(added,),
            additions=1,
            deletions=0,
            truncated=False,
            not_covered=Uncovered(),
        )

    async def patch(self, session_id: str, start: str | None, end: str | None) -> RawOutput:
        self._check(session_id, start, end)
        return RawOutput(size=len(PATCH), data=PATCH)

    async def restore(self, session_id: str, checkpoint_id: str) -> RestoreResult:
        self._check(session_id, checkpoint_id)
        if self._memory.get(session_id).status is not Status.IDLE:
            raise ConflictError("The session is running.", code="session_running")
        return RestoreResult(checkpoint=CHECKPOINT, saved=CHECKPOINT, not_covered=Uncovered())

    def _check(self, session_id: str, *ids: str | None) -> None:
        self._memory.get(session_id)
        if any(id not in (None, CHECKPOINT.id) for id in ids):
            raise NotFoundError("The session has no such checkpoint.", code="checkpoint_not_found")


class InMemoryService(Memory):
    """All services of a server over one memory."""

    def __init__(self) -> None:
        super().__init__()
        self.services = Services(
            sessions=InMemorySessions(self),
            queue=InMemoryQueue(self),
            approvals=InMemoryApprovals(self),
            client_calls=InMemoryClientCalls(self),
            commands=InMemoryCommands(self),
            history=InMemoryHistory(self),
            compactions=InMemoryCompactions(self),
            files=InMemoryFiles(self),
            checkpoints=InMemoryCheckpoints(self),
            events=InMemoryEvents(self),
            secrets=InMemorySecrets(self),
            logins=InMemoryLogins(self),
            server=InMemoryServer(self),
            webhooks=InMemoryWebhooks(self),
            idempotency=InMemoryIdempotency(),
        )
