"""Requests that make and change sessions, pages of sessions, and the fields that all requests are made of."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    StrictBool,
    StringConstraints,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    WrapValidator,
)
from pydantic_core import PydanticCustomError

from app.context.policies import POLICY_NAMES, CompactionSettings
from app.interchange import WireFormat
from app.messages import CleanText, Value
from app.raw_messages import RawMessages
from app.runtime.values.content import Content
from app.runtime.values.mcp import McpServers
from app.runtime.values.secrets import NamedSecrets
from app.sessions import MIN_CPUS, AllowedHosts, Network, ReasoningEffort, SandboxKind, SandboxSpec, Session
from app.tools import client

MAX_NUMBER = 2**53 - 1
"""Largest number in a request: read exactly by every JSON implementation, and well within the database's 64 bits."""
_CLIENT_ID = r"^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"

MAX_HISTORY_MESSAGES = 100_000
"""Maximum messages of an imported conversation."""
SANDBOX_KINDS = ("docker", "bubblewrap")
"""The kinds that a request may ask for. `local-unsafe` is parsed too, so that the error says that it is forbidden."""


def _raw_or_list(value: Any, check: ValidatorFunctionWrapHandler) -> Any:
    """Of messages that are not parsed yet, only the number is checked."""
    if not isinstance(value, RawMessages):
        return check(value)
    check([None] * len(value))
    return value


def _number(value: Any) -> Any:
    """JSON has one kind of number, so 50.0 is 50; but `true` and "50" are not numbers."""
    if isinstance(value, bool | str):
        raise PydanticCustomError("number_type", "Input should be a number")
    return value


def _client_id(text: str) -> str:
    if not re.fullmatch(_CLIENT_ID, text):
        raise PydanticCustomError("client_id", "Input should be a UUID, as in 01936f5e-8d2a-7c3b-9f1e-2a4b6c8d0e1f")
    return text.lower()


JsonNumber = BeforeValidator(_number)
"""Must come last, after the bounds, which are only in the schema if they are next to the type."""
Text = CleanText
ModelName = Annotated[Text, StringConstraints(min_length=1, max_length=300)]
Title = Annotated[Text, StringConstraints(min_length=1, max_length=300)]
ClientId = Annotated[
    str,
    AfterValidator(_client_id),
    Field(
        description="A UUID chosen by the client, which makes retries safe; kept in lower case.",
        json_schema_extra={"pattern": _CLIENT_ID},
    ),
]


def _sandbox_kind(value: Any) -> Any:
    if value not in (*SANDBOX_KINDS, "local-unsafe"):
        raise PydanticCustomError("sandbox_kind", f"Input should be {' or '.join(map(repr, SANDBOX_KINDS))}")
    return value


def _sandbox(value: Any) -> Any:
    """A kind or an object, depending on the input's type, so that errors never mention the other form."""
    if isinstance(value, str):
        return _sandbox_kind(value)
    if isinstance(value, dict):
        return SandboxRequest.model_validate(value)
    if isinstance(value, SandboxRequest):
        return value
    raise PydanticCustomError("sandbox", f"Input should be {', '.join(map(repr, SANDBOX_KINDS))} or an object")


def _network(value: Any) -> Any:
    """Like `_sandbox`."""
    if isinstance(value, dict):
        return AllowedHosts.model_validate(value)
    if isinstance(value, bool | AllowedHosts):
        return value
    if value in ("on", "off"):
        return value == "on"
    raise PydanticCustomError("network", "Input should be a boolean, 'on', 'off' or an object")


def _network_schema() -> dict[str, Any]:
    """A switch in either form, or a list of hosts."""
    switches = [{"type": "boolean"}, {"type": "string", "enum": ["on", "off"]}]
    return {"anyOf": [*switches, AllowedHosts.model_json_schema()]}


_REF = re.compile(r"(?![-/])(?!.*(?:\.\.|@\{|//))[^\x00-\x20\x7f~^:?*\[\\]+(?<![/.])")


def _git_ref(text: str) -> str:
    if not _REF.fullmatch(text):
        raise PydanticCustomError("git_ref", "Input should be a branch, a tag or the hash of a commit")
    return text


def _compaction(value: Any) -> Any:
    if not isinstance(value, str | dict):
        raise PydanticCustomError("compaction", "Input should be a policy's name or an object")
    return value


def _approval_policy(value: Any) -> Any:
    if isinstance(value, dict):
        return ApprovalRulesRequest.model_validate(value)
    if value not in ("never", "always") and not isinstance(value, ApprovalRulesRequest):
        raise PydanticCustomError("approval_policy", "Input should be 'never', 'always' or an object")
    return value


MAX_RULES = 100
"""Tools, and patterns, of an approval policy."""
MAX_APPROVAL_S = 30 * 24 * 3600
"""Longest wait for an approval, in seconds: 30 days."""
MessageId = Annotated[Text, StringConstraints(min_length=1, max_length=100)]
Effort = Annotated[
    ReasoningEffort | None,
    Field(
        description="How much the model reasons; null: the model's default. `GET /v1/models` lists the accepted values."
    ),
]
MAX_SYSTEM_PROMPT_CHARS = 200_000
"""Longest system prompt, in characters, whether named by itself or in front of an imported history: it is in the
session's row, which every answer about the session reads."""
SystemPrompt = Annotated[Text, StringConstraints(max_length=MAX_SYSTEM_PROMPT_CHARS)]
RequestedKind = Annotated[
    SandboxKind,
    BeforeValidator(_sandbox_kind),
    Field(json_schema_extra={"enum": list(SANDBOX_KINDS)}),
]


def _compaction_schema() -> dict[str, Any]:
    """A policy's name, or an object with any of the settings."""
    properties = CompactionSettings.model_json_schema()["properties"]
    properties["policy"]["enum"] = list(POLICY_NAMES)
    named = {"type": "object", "properties": properties, "additionalProperties": False}
    return {"anyOf": [{"type": "string", "enum": list(POLICY_NAMES)}, named]}


Compaction = Annotated[str | dict[str, Any], BeforeValidator(_compaction), WithJsonSchema(_compaction_schema())]


class LimitsPatch(Value):
    """Limits to set; an omitted limit keeps its value, null removes it."""

    max_steps: Annotated[int, Field(ge=1, le=MAX_NUMBER), JsonNumber] | None = None
    max_seconds: Annotated[float, Field(gt=0, le=MAX_NUMBER), JsonNumber] | None = None
    max_cost_usd: Annotated[float, Field(gt=0, le=MAX_NUMBER), JsonNumber] | None = None
    max_tokens: Annotated[int, Field(ge=1, le=MAX_NUMBER), JsonNumber] | None = None


class SandboxRequest(SandboxSpec):
    """A kind of sandbox and limits within the operator's, which are the defaults."""

    kind: RequestedKind
    image: Annotated[str, StringConstraints(min_length=1, max_length=500)] | None = None
    network: Annotated[Network, BeforeValidator(_network), WithJsonSchema(_network_schema())] | None = None
    memory_mb: Annotated[int, Field(ge=64, le=MAX_NUMBER), JsonNumber] | None = None
    cpus: Annotated[float, Field(ge=MIN_CPUS, le=MAX_NUMBER), JsonNumber] | None = None
    pids: Annotated[int, Field(ge=16, le=MAX_NUMBER), JsonNumber] | None = None


CommandPattern = Annotated[
    Text,
    StringConstraints(min_length=1, max_length=1_000),
    Field(json_schema_extra={"format": "regex"}),
]


class ApprovalRulesRequest(Value):
    """Calls that need approval: those of the named tools, and commands that match one of the regular expressions."""

    tools: Annotated[list[Text], Field(max_length=MAX_RULES)] = Field(default=[], examples=[["write_file"]])
    commands: Annotated[list[CommandPattern], Field(max_length=MAX_RULES)] = Field(
        default=[], examples=[[r"\brm\b"]], description="Searched for in commands of `execute_command`."
    )


class ApprovalRequest(Value):
    """Which calls need approval, and how long they wait, in seconds; without an answer in time they are denied. Null
    waits without a timeout."""

    policy: Annotated[Literal["never", "always"] | ApprovalRulesRequest, BeforeValidator(_approval_policy)] = "never"
    timeout_s: Annotated[float, Field(gt=0, le=MAX_APPROVAL_S), JsonNumber] | None = 300


class HistoryImport(Value):
    """An imported conversation to continue."""

    format: WireFormat
    messages: Annotated[
        list[Any],
        Field(
            min_length=1,
            max_length=MAX_HISTORY_MESSAGES,
            description="Messages of Chat Completions or of the Messages API, oldest first; repaired if broken."
            " Missing, empty and unsupported parts are replaced by a text that says so.",
            json_schema_extra={
                "items": {"type": "object", "properties": {"role": {"type": "string"}}, "required": ["role"]}
            },
        ),
        WrapValidator(_raw_or_list),
    ]


class GitSource(Value):
    """A git repository, over HTTPS or SSH. `credential` names a secret: a token, `user:password` or a private key."""

    url: Annotated[Text, StringConstraints(min_length=1, max_length=2_000)] = Field(
        examples=["https://git.example.com/team/project.git"]
    )
    ref: Annotated[Text, StringConstraints(min_length=1, max_length=250), AfterValidator(_git_ref)] | None = Field(
        default=None, description="A branch, a tag or the full hash of a commit; the default branch if omitted."
    )
    depth: Annotated[int, Field(ge=1, le=MAX_NUMBER), JsonNumber] | None = Field(
        default=None, description="Commits of the history to clone; all if omitted."
    )
    credential: Annotated[Text, StringConstraints(min_length=1, max_length=100)] | None = Field(
        default=None, description="The name of a secret, used for the clone alone."
    )


class Source(Value):
    """Where the workspace's files come from; cloned before the first step."""

    git: GitSource


class OutputRequest(Value):
    """What a run has to submit, by the tool `submit_output`, in order to complete: a value that meets a JSON Schema of
    draft 2020-12. References stay within the schema; patterns are in RE2 syntax."""

    json_schema: dict[str, Any] = Field(
        alias="schema",
        description="At most 32 KiB. The value can be of any type. `unevaluatedProperties` and `unevaluatedItems` are"
        " not supported, and `format` is not checked.",
        examples=[{"type": "object", "properties": {"passed": {"type": "boolean"}}, "required": ["passed"]}],
    )
    name: Annotated[Text, StringConstraints(min_length=1, max_length=100)] | None = Field(
        default=None, description="A name for the value, which the model sees."
    )
    description: Annotated[Text, StringConstraints(max_length=2_000)] | None = Field(
        default=None, description="What the value should contain; the model sees it."
    )

    def stored(self) -> dict[str, Any]:
        """The columns `output_format`: what names the schema is left out."""
        kept = {name: value for name, value in self.json_schema.items() if name not in ("$schema", "$id")}
        return {"schema": kept, "name": self.name, "description": self.description}


class ClientToolRequest(Value):
    """A tool that a client carries out: a call of it waits, as `tool.call` with `waits_for_client`, until its result is
    posted to `/v1/sessions/{id}/tool-calls/{call_id}/result`."""

    type: Literal["client"]
    name: Annotated[
        Text,
        StringConstraints(min_length=1, max_length=64),
        Field(
            description="Letters, digits, _ and -; not the name of another tool, and not beginning with mcp__.",
            examples=["open_ticket"],
            json_schema_extra={"pattern": client.NAME_PATTERN},
        ),
    ]
    description: Annotated[Text, StringConstraints(min_length=1, max_length=client.MAX_DESCRIPTION_CHARS)] = Field(
        description="What it does and returns; the model sees it."
    )
    parameters: dict[str, Any] = Field(
        description="A JSON Schema of draft 2020-12 for an object, at most 32 KiB; a call that does not meet it gets an"
        " error instead of waiting.",
        examples=[{"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]}],
    )
    timeout_s: Annotated[float, Field(gt=0, le=client.MAX_TIMEOUT_S), JsonNumber] | None = Field(
        default=600, description="Seconds that a call waits for its result before it fails. Null: no limit."
    )

    @property
    def spec(self) -> client.ClientToolSpec:
        """The tool without the keywords that name its schema."""
        parameters = {name: value for name, value in self.parameters.items() if name not in ("$schema", "$id")}
        return client.ClientToolSpec(self.name, self.description, parameters, self.timeout_s)


def _tool(value: Any) -> Any:
    """Like `_sandbox`."""
    if isinstance(value, dict):
        return ClientToolRequest.model_validate(value)
    if isinstance(value, str | ClientToolRequest):
        return value
    raise PydanticCustomError("tool", "Input should be a tool's name or an object")


RequestedTools = Annotated[
    list[Annotated[str | ClientToolRequest, BeforeValidator(_tool)]],
    Field(
        description="Names of the built-in tools to offer, all but `delegate` if none is named, and client tools to"
        " add.",
        examples=[["execute_command", "read_file"]],
    ),
]


class SessionCreate(Value):
    """`POST /v1/sessions`. With `task`, the task is queued and the run starts."""

    id: ClientId | None = None
    task: Content | None = None
    title: Title | None = None
    model: ModelName | None = None
    reasoning_effort: Effort = None
    system_prompt: SystemPrompt | None = None
    sandbox: Annotated[RequestedKind | SandboxRequest, BeforeValidator(_sandbox)] | None = None
    compaction: Compaction | None = None
    limits: LimitsPatch | None = None
    approval: ApprovalRequest | None = None
    tools: RequestedTools | None = None
    mcp_servers: McpServers | None = None
    output: OutputRequest | None = None
    history: HistoryImport | None = None
    source: Source | None = None
    secrets: NamedSecrets | None = Field(
        default=None,
        description="Environment variables of commands, by name. Stored encrypted, shown by no request, and masked in"
        " what commands print.",
    )
    metadata: dict[str, Any] | None = None


class SessionPatch(Value):
    """`PATCH /v1/sessions/{id}`; takes effect from the next step. Omitted fields are unchanged, including those within
    `compaction`, `limits`, `approval` and `mcp_servers`; null resets to the server's default."""

    title: Title | None = None
    model: ModelName | None = None
    reasoning_effort: Effort = None
    system_prompt: SystemPrompt | None = None
    tools: RequestedTools | None = None
    mcp_servers: McpServers | None = None
    output: OutputRequest | None = None
    compaction: Compaction | None = None
    limits: LimitsPatch | None = None
    approval: ApprovalRequest | None = None
    metadata: dict[str, Any] | None = None


class ForkCreate(Value):
    """`POST /v1/sessions/{id}/fork`. Without a message, copies the history up to the last step that has ended."""

    after_message_id: MessageId | None = Field(
        default=None, description="The last message to copy; the results of its calls are included."
    )
    title: Title | None = Field(default=None, description="The parent's title if omitted.")


class CancelRequest(Value):
    clear_queue: StrictBool = False


class SessionPage(Value):
    items: tuple[Session, ...]
    next_cursor: str | None
