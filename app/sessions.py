"""Sessions and related values as the API shows them, with the names of hosts that a sandbox may reach."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, Any, Literal

import idna
from pydantic import AfterValidator, Field, StringConstraints
from pydantic_core import PydanticCustomError, PydanticKnownError

from app.messages import Timestamp, Usage, Value

MAX_NAME_CHARS = 253
"""Longest name in DNS, in text form (RFC 1035, 2.3.4)."""
_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_NAME = re.compile(rf"(?:{_LABEL}\.)+{_LABEL}")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
"""A last label that makes programs read the whole as an IPv4 address (WHATWG URL, "ends in a number")."""


class Status(StrEnum):
    IDLE = "idle"
    RUNNING = "running"
    AWAITING_APPROVAL = "awaiting_approval"
    AWAITING_CLIENT = "awaiting_client"
    """A client has to post the result of a call."""


SessionFilter = Literal["idle", "running", "awaiting_approval", "awaiting_client", "needs_attention"]
"""A status, or `needs_attention`: waits for an approval or a client's result, or has failed and nobody has seen it."""
SessionSort = Literal["created", "activity"]


class SessionKind(StrEnum):
    SESSION = "session"
    SUBAGENT = "subagent"
    """Carries out one call of `delegate` of its parent, in the parent's workspace."""


class Outcome(StrEnum):
    """How the last run ended."""

    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"
    LIMIT_REACHED = "limit_reached"


class QueueMode(StrEnum):
    """When a queued message is delivered: before the next step; when the run would end; now, cancelling the step."""

    STEER = "steer"
    FOLLOW_UP = "follow_up"
    INTERRUPT = "interrupt"


class ContextState(Value):
    """Tokens of the context and of the model's window. `source` says where the numbers come from: `reported` by the
    provider, `estimated` by Palimpsest, `assumed` if the window is unknown and 128,000 is used."""

    tokens: int = 0
    limit: int = 0
    usable: int = 0
    source: Literal["reported", "estimated", "assumed"] = "estimated"


ReasoningEffort = Literal["none", "minimal", "low", "medium", "high", "max"]
"""How much a model reasons before it answers; each adapter maps it to values that its model accepts."""
CompactionReason = Literal["overflow", "threshold", "provider_overflow", "manual"]
"""Why a context is made smaller: it is larger than usable, it reached the policy's own trigger, the provider refused
it, or a user requested it."""
CompactionStatus = Literal["running", "completed", "failed", "cancelled", "reverted", "discarded"]
Rung = Literal["prune", "summary", "fold", "shrink"]
"""How a context was made smaller, from mildest to harshest: by clearing old outputs, by a model's summary, by a summary
made without a model, and by a shorter tail."""
PruneReason = Literal["trigger", "run_end", "model_change", "images"]


class RoundError(Value):
    """Why a round failed: code and detail of its last `compaction.failed`."""

    code: str
    detail: str


class WithoutModel(Value):
    """A round whose summary was made without a model; `code` and `detail` are why the model's summary failed, null if
    no model was asked."""

    round: int
    rung: Rung
    code: str | None = None
    detail: str | None = None


class CompactionState(Value):
    """`without_model` is the latest round in force if its summary was made without a model; lists of sessions leave it
    null."""

    policy: str = "reactive"
    settings: dict[str, Any] = Field(default_factory=dict)
    count: int = 0
    last_at: Timestamp | None = None
    in_progress: bool = False
    without_model: WithoutModel | None = None


class CompactionFields(Value):
    """One round of compaction. Tokens are those of the whole context, `tokens_after` null for a round that did not make
    it smaller; the summary covers `first_message_id` to `last_message_id`. `error` is null unless `status` is
    `failed`."""

    round: int
    reason: CompactionReason
    policy: str
    status: CompactionStatus
    rung: Rung | None = None
    first_message_id: str | None = None
    last_message_id: str | None = None
    messages_compacted: int = 0
    outputs_pruned: int = 0
    tokens_before: int = 0
    tokens_after: int | None = None
    summary: str | None = None
    error: RoundError | None = None
    usage: Usage = Usage()
    duration_ms: int = 0
    created_at: Timestamp


class CompactionEvent(CompactionFields):
    """A round as the API shows it."""


class Limits(Value):
    """Steps and seconds count per run, cost and tokens per session; None is no limit."""

    max_steps: int | None = Field(default=50, ge=1)
    max_seconds: float | None = Field(default=None, gt=0)
    max_cost_usd: float | None = Field(default=None, ge=0)
    max_tokens: int | None = Field(default=None, ge=1)


MIN_CPUS = 0.1
"""Minimum cores of a sandbox: with a hundredth of one its first process takes minutes to start, and a value that rounds
to zero is no limit at all to the kernel."""

MAX_HOSTS = 64
"""Maximum number of host names and patterns in one list."""


def _pattern(text: str) -> str:
    try:
        return host_pattern(text)
    except ValueError:
        raise PydanticCustomError(
            "host", "Input should be a host name such as packages.example.com or *.example.org"
        ) from None


def _not_empty(patterns: tuple[str, ...]) -> tuple[str, ...]:
    """Checked after the patterns: an invalid one would otherwise be reported as a list that is too short as well."""
    if not patterns:
        raise PydanticKnownError("too_short", {"field_type": "List", "min_length": 1, "actual_length": 0})
    return patterns


def host_name(text: str) -> str:
    """A full name of two labels or more. Raises `ValueError`, also for an address in any notation."""
    try:
        name = text.lower() if text.isascii() else idna.encode(text, uts46=True).decode()
    except idna.IDNAError as exc:
        raise ValueError(f"{text[:100]!r} is not a valid host name") from exc
    if len(name) > MAX_NAME_CHARS or not _NAME.fullmatch(name) or _NUMBER.fullmatch(name.rpartition(".")[2]):
        raise ValueError(f"{text[:100]!r} is not a full host name such as packages.example.com")
    return name


def host_pattern(text: str) -> str:
    """A name, or `*.` followed by a name for all names below it. Raises `ValueError`, also for all names below a
    top-level domain."""
    name = text.removeprefix("*.")
    try:
        return text[: len(text) - len(name)] + host_name(name)
    except ValueError as exc:
        raise ValueError(f"{text[:100]!r} is not a host name such as packages.example.com or *.example.org") from exc


class AllowedHosts(Value):
    """A network that lets a sandbox reach only these hosts, over HTTP and HTTPS: names, or `*.` and a name for all
    names below it."""

    allowed_hosts: Annotated[
        tuple[Annotated[str, StringConstraints(max_length=MAX_NAME_CHARS), AfterValidator(_pattern)], ...],
        Field(
            max_length=MAX_HOSTS,
            examples=[["packages.example.com", "*.example.org"]],
            json_schema_extra={"minItems": 1},
        ),
        AfterValidator(_not_empty),
    ]


Network = bool | AllowedHosts
"""Whether commands have network access, or the hosts that they can reach."""


def network_within(asked: Network, most: Network) -> Network:
    """The intersection of two networks."""
    if isinstance(asked, bool):
        return asked and most
    if isinstance(most, bool):
        return most and asked
    one, other = asked.allowed_hosts, most.allowed_hosts
    shared = [name for name in one if is_covered(name, other)]
    shared += [name for name in other if is_covered(name, one) and not is_covered(name, shared)]
    return AllowedHosts(allowed_hosts=tuple(shared[:MAX_HOSTS])) if shared else False


SandboxKind = Literal["docker", "bubblewrap", "local-unsafe"]


class SandboxSpec(Value):
    """The sandbox that a session requested: its kind and limits. None uses the server's setting."""

    kind: SandboxKind
    image: str | None = None
    network: Network | None = None
    memory_mb: int | None = Field(default=None, ge=64)
    cpus: float | None = Field(default=None, gt=0)
    pids: int | None = Field(default=None, ge=16)


class ApprovalRules(Value):
    """Calls that wait: those of the named tools, and commands that match one of the regular expressions."""

    tools: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()


ApprovalPolicy = Literal["never", "always"] | ApprovalRules


class Approval(Value):
    """Which calls wait for approval: none, all, or those that match the rules; and for how long, in seconds. No answer
    in time is a denial; None waits indefinitely."""

    policy: ApprovalPolicy = "never"
    timeout_s: float | None = Field(default=300, gt=0)


ApprovalDecision = Literal["approve", "deny", "cancelled"]
"""How an approval ended; `cancelled` means that no decision is needed anymore."""
CommandStatus = Literal[
    "running", "exited", "stopped", "cancelled", "limit", "sandbox_stopped", "interrupted", "failed"
]
"""How a background command ended: by itself; by `stop_command` or a request; with its run, which was cancelled; for
exceeding a limit; with its sandbox; with its server; or it could not be started."""
ApprovalEnd = Literal["user", "timeout", "interrupt", "cancel", "limit", "error"]
"""What ended it: a user, its timeout, an interrupting message, a cancel or a limit of the run, or a failed run."""
ClientWaitEnd = Literal["client", "subagent", "timeout", "interrupt", "cancel", "limit", "error"]
"""What ended the wait for a result: the client or sub-agent, or the same as for an approval."""


class PlanItem(Value):
    """One item of the agent's plan."""

    text: str
    status: Literal["pending", "in_progress", "completed"] = "pending"


class QueueState(Value):
    pending: int = 0


SHOWN_ARGUMENTS, SHOWN_ARGUMENT_CHARS = 8, 200
"""Arguments of a call, and characters of each, that an activity shows."""


class Activity(Value):
    """A running tool call. `arguments` has the first of its plain arguments, shortened; for arguments that are not an
    object, their beginning. The whole call is in the history."""

    call_id: str
    name: str
    arguments: dict[str, str | int | float | bool] | str

    @classmethod
    def of_call(cls, call_id: str, name: str, arguments: dict[str, Any] | str) -> Activity:
        if isinstance(arguments, str):
            return cls(call_id=call_id, name=name, arguments=arguments[:SHOWN_ARGUMENT_CHARS])
        plain = [(key, value) for key, value in arguments.items() if isinstance(value, str | int | float | bool)]
        shown = {key[:SHOWN_ARGUMENT_CHARS]: _shortened(value) for key, value in plain[:SHOWN_ARGUMENTS]}
        return cls(call_id=call_id, name=name, arguments=shown)


def _shortened(value: str | float | bool) -> str | float | bool:
    return value[:SHOWN_ARGUMENT_CHARS] if isinstance(value, str) else value


class Session(Value):
    """One conversation with one agent. `last_seq` is the seq of its newest event, read in the same transaction.
    `activity` is the newest tool call without a result; null while the model writes, and while no run is active.
    `unseen` says whether the last run has ended since anyone opened the session: see `POST …/seen`.
    `reasoning_effort` null is the model's default. `answer` is the text of the last run's final message; null unless
    that run completed. `output` is the value that it submitted; null unless it had to submit one."""

    id: str
    kind: SessionKind = SessionKind.SESSION
    title: str | None
    task: str | None
    status: Status
    outcome: Outcome | None
    error: dict[str, Any] | None
    activity: Activity | None = None
    unseen: bool = False
    answer: str | None = None
    output: Any = None
    model: str
    reasoning_effort: ReasoningEffort | None = None
    created_at: Timestamp
    updated_at: Timestamp
    last_seq: int
    steps: int
    usage: Usage
    context: ContextState
    compaction: CompactionState
    sandbox: SandboxSpec
    queue: QueueState
    limits: Limits
    approval: Approval
    parent_id: str | None = Field(
        default=None, description="The session that it was forked from; for a sub-agent, the one that it works for."
    )
    node: str | None = Field(
        default=None, description="In a cluster, the id of the node that runs it; see `GET /v1/nodes`."
    )
    metadata: dict[str, Any] = Field(default_factory=dict)


def workspace_of(session: Any) -> str:
    """The id under which a session's files and secrets are found; `session` is a session or its row. A sub-agent has
    its parent's."""
    return str(session.parent_id if session.kind == SessionKind.SUBAGENT else session.id)


def covers(pattern: str, name: str) -> bool:
    """Whether a pattern matches a name, or everything another pattern matches."""
    return pattern == name or (pattern.startswith("*.") and name.endswith(pattern[1:]))


def is_covered(name: str, patterns: Iterable[str]) -> bool:
    """Whether one of the patterns covers a name or a pattern."""
    return any(covers(pattern, name) for pattern in patterns)
