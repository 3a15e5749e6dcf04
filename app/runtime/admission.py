"""What a session may have: the checks of a request before it makes or changes one, of a message's size, and of approval
rules."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import thread_time
from typing import Any

import orjson
from pydantic import ValidationError
from sqlalchemy import Row

from app.agent.protocols import AgentConfig
from app.context.budget import context_state, make_budget
from app.context.policies import CompactionSettings, resolve
from app.context.prompts import Generation
from app.context.selection import is_request
from app.context.tokens import Calibration, counted_tokens
from app.errors import ForbiddenError, InvalidRequestError, MessageTooLargeError, ValidationFailedError
from app.interchange import ImportedHistory, import_history
from app.messages import Message, new_id
from app.raw_messages import RawMessages
from app.runtime.agents import AgentSetup
from app.runtime.content import TakenContent, task_fields
from app.runtime.mcp.config import merged
from app.runtime.mcp.offer import NOTHING, Offer
from app.runtime.requested_tools import Asked, checked_rules, chosen_tools, invalid_field, known_tools
from app.runtime.setup import RuntimeSetup
from app.runtime.values.sessions import (
    MAX_SYSTEM_PROMPT_CHARS,
    ApprovalRequest,
    HistoryImport,
    LimitsPatch,
    OutputRequest,
    SessionCreate,
    SessionPatch,
)
from app.sessions import Approval, ApprovalPolicy, ApprovalRules, Limits
from app.tools.json_schema import SchemaError, checked_schema
from app.tools.shell import ExecuteCommand
from app.tools.text import Pattern, PatternError

MAX_METADATA_BYTES = 16 * 1024

LEAST_ROOM = 256
"""Tokens up to which a message is never refused. If even that does not fit, the system text and the tools are too
large, which the run reports."""

COMPILE_S = 0.25
"""Seconds of processor time that all patterns of a policy may take to compile: a hundred ordinary ones take 3 ms, the
costliest that fit in their memory more than 500."""


@dataclass(frozen=True, slots=True)
class ServiceRules:
    """The server's defaults and bounds: default model, compaction and limits of a session, the upper bounds that a
    session may request (`most`), the maximum number of pending messages, the minimum approval policy, the most runs of
    an API key, and the most bytes that an archive may unpack to."""

    default_model: str
    compaction: CompactionSettings
    limits: Limits
    most: Limits
    queue_limit: int
    approval: Approval = field(default_factory=Approval)
    max_runs_per_key: int | None = None
    archive_max_bytes: int = 1024 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Draft:
    """A validated session that has not been created yet. `secrets` are cipher texts by name; `starts` is whether its
    task is queued with it."""

    session_id: str
    task: TakenContent | None
    fingerprint: str
    fields: dict[str, Any]
    history: Iterable[Message] = ()
    secrets: Mapping[str, str] = field(default_factory=dict)
    starts: bool = True

    def with_task(self, task: TakenContent, title: str | None) -> Draft:
        """The same, with a task whose files have been read; the title is the request's."""
        fields = {**self.fields, **task_fields(task, title)}
        return replace(self, task=task, fields=fields)


async def draft(
    body: SessionCreate, task: TakenContent | None, fingerprint: str, setup: RuntimeSetup, rules: ServiceRules
) -> Draft:
    """Validates everything that a request asks for; `task` is taken from it. Raises an error for what is not available.
    The messages of a large history can no longer be read afterward."""
    fields = _checked_fields(body, setup, rules) | task_fields(task, body.title)
    session_id = body.id or new_id()
    task_tokens = task.tokens(setup.agents.model_info(fields["model"])) if task is not None else 0
    if task_tokens > LEAST_ROOM or body.history is not None:
        await setup.agents.ask_windows(fields["model"])
    check_fits(setup.agents, DraftedRow(fields), task_tokens)
    secrets = {
        name: await setup.vault.encrypt(session_id, name, value.get_secret_value())
        for name, value in (body.secrets or {}).items()
    }
    if body.history is None:
        return Draft(session_id, task, fingerprint, fields, secrets=secrets)
    # In a thread: a history has up to 64 MiB, which must not block the event loop.
    imported, tokens, last_request = await asyncio.to_thread(_import, body, body.history)
    fields["system_prompt"] = imported.system_prompt if body.system_prompt is None else body.system_prompt
    check_fits(setup.agents, DraftedRow(fields), last_request)
    budget = make_budget(setup.agents.model_info(fields["model"]), CompactionSettings(**fields["compaction"]))
    fields["context"] = context_state(budget, tokens, reported=False).model_dump()
    return Draft(session_id, task, fingerprint, fields, imported, secrets)


def _import(body: SessionCreate, history: HistoryImport) -> tuple[ImportedHistory, int, int]:
    """The history, with the estimated tokens of all its messages and of the user's last one, 0 without one: all others
    can be summarized."""
    keep_system = body.system_prompt is not None
    messages = history.messages.taken() if isinstance(history.messages, RawMessages) else history.messages
    imported = import_history(history.format, messages, keep_system=keep_system)
    if len(imported.system_prompt or "") > MAX_SYSTEM_PROMPT_CHARS:
        raise InvalidRequestError(
            f"history.messages: the leading system message may have at most {MAX_SYSTEM_PROMPT_CHARS:,} characters.",
            code="invalid_history",
            index=0,
        )
    tokens = last_request = 0
    for message in imported:
        tokens += message.tokens
        if is_request(message):
            last_request = counted_tokens(message)
    return imported, tokens, last_request


def _checked_fields(body: SessionCreate, setup: RuntimeSetup, rules: ServiceRules) -> dict[str, Any]:
    """The columns of a new session."""
    tools = _tools(body.tools, setup)
    checked_rules(body.approval, known_tools(setup.agents.registry.names(), tools["client_tools"]))
    setup.mcp.check(body.mcp_servers)
    model = body.model or rules.default_model
    setup.agents.models.resolve(model)
    limits = limits_within(body.limits, rules.limits, rules.most)
    compaction = _compaction(body.compaction, setup, rules)
    sandbox = setup.sandboxes.kinds.resolve(body.sandbox)
    if setup.sources is not None:
        setup.sources.check(body.source, body.secrets or {})
    info = setup.agents.model_info(model)
    return {
        "model": model,
        "reasoning_effort": body.reasoning_effort,
        "system_prompt": body.system_prompt,
        **tools,
        "mcp_servers": merged(None, body.mcp_servers, setup.mcp.defaults),
        "output_format": body.output.stored() if body.output is not None else None,
        "sandbox": sandbox.model_dump(),
        "compaction": compaction.model_dump(),
        "limits": limits.model_dump(),
        "approval": approval_within(body.approval, rules.approval, rules.approval).model_dump(),
        "metadata": checked_metadata(body.metadata),
        "source": None if body.source is None else body.source.model_dump(),
        "context": context_state(make_budget(info, compaction), 0, reported=False).model_dump(),
    }


def checked_patch(body: SessionPatch, setup: RuntimeSetup, rules: ServiceRules) -> dict[str, Any]:
    """The columns that a patch sets, except limits, compaction, approval and MCP servers: their values depend on the
    session's, so they are validated here only as far as they do not. Raises the same errors as `draft`."""
    setup.mcp.check(body.mcp_servers)
    given = body.model_fields_set
    fields: dict[str, Any] = {}
    if "model" in given:
        fields["model"] = body.model or rules.default_model
        setup.agents.models.resolve(fields["model"])
    if body.compaction is not None:
        _check_summarizer(resolve(body.compaction), setup)
    if "tools" in given:
        fields |= _tools(body.tools, setup)
    if "output" in given:
        fields["output_format"] = body.output.stored() if body.output is not None else None
    if "metadata" in given:
        fields["metadata"] = checked_metadata(body.metadata)
    return fields | {
        name: getattr(body, name) for name in ("title", "system_prompt", "reasoning_effort") if name in given
    }


def _tools(asked: Asked, setup: RuntimeSetup) -> dict[str, Any]:
    """The columns of the requested tools. Raises `InvalidRequestError`."""
    return chosen_tools(asked, setup.agents.registry.names())


def _compaction(asked: str | dict[str, Any] | None, setup: RuntimeSetup, rules: ServiceRules) -> CompactionSettings:
    settings = resolve(asked, rules.compaction)
    _check_summarizer(settings, setup)
    return settings


def _check_summarizer(settings: CompactionSettings, setup: RuntimeSetup) -> None:
    """Raises `InvalidRequestError` for an unknown model."""
    if settings.model is not None:
        setup.agents.models.resolve(settings.model)


def changed_compaction(
    asked: str | dict[str, Any] | None, own: CompactionSettings, rules: ServiceRules
) -> CompactionSettings:
    """A session's settings after a patch: the patch applied to its `own`, or the server's for null."""
    return rules.compaction if asked is None else resolve(asked, own)


def limits_within(asked: LimitsPatch | None, base: Limits, most: Limits) -> Limits:
    """The limits of a session: the requested ones applied to `base`, within the operator's bounds."""
    changes = asked.model_dump(include=asked.model_fields_set) if asked is not None else {}
    limits = base.model_copy(update=changes)
    for name, bound in most.model_dump().items():
        value = getattr(limits, name)
        if bound is not None and (value is None or value > bound):
            if name in changes:
                raise ForbiddenError(f"limits.{name} may be at most {bound:g}.", code="limit_not_allowed")
            limits = limits.model_copy(update={name: bound})
    return limits


def checked_metadata(metadata: dict[str, Any] | None) -> dict[str, Any]:
    """The metadata of a request. Raises `InvalidRequestError` if they are too large."""
    if metadata and len(orjson.dumps(metadata)) > MAX_METADATA_BYTES:
        raise InvalidRequestError(f"metadata may have at most {MAX_METADATA_BYTES:,} bytes.", code="metadata_too_large")
    return metadata or {}


class DraftedRow:
    """The columns of a session that is not stored yet, readable like a row of the database; missing columns are
    None."""

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self._fields = fields

    def __getattr__(self, name: str) -> Any:
        return self._fields.get(name)


def check_fits(
    agents: AgentSetup, row: Row[Any] | DraftedRow, tokens: int, offer: Callable[[int], Offer] = lambda _: NOTHING
) -> None:
    """Refuses a message of `tokens` estimated tokens if no compaction could make room for it in the session's window.

    In addition to the message, only the system text with its notes and the tools must stay: everything else can be
    summarized, cleared or clipped. `offer` is as in `AgentSetup.config`; what the servers of a session offer is known
    once it has connected them. An assumed window refuses nothing, since it is only a guess. Raises
    `MessageTooLargeError`.
    """
    if tokens <= LEAST_ROOM:
        return
    config = agents.config(row, offer=offer)  # type: ignore[arg-type]  # a drafted row has the same columns
    if config.budget.source == "assumed":
        return
    # Until a provider has counted a prompt, the safety margin of a tenth is no reason to refuse.
    unknown = config.calibration == Calibration.starting(config.model.partition("/")[0])
    calibration = Calibration(1.0) if unknown else config.calibration
    size, room = calibration.apply(tokens), room_for_message(config, calibration)
    if size > max(room, LEAST_ROOM):
        raise MessageTooLargeError(_detail(config, size, room), tokens=size, room=room)


def room_for_message(config: AgentConfig, calibration: Calibration) -> int:
    """Calibrated tokens that a message may have: `usable` minus system text and tools, at least 0."""
    fixed = Generation("", 0, config.model, config.system, config.tools, first_seq=0).fixed_tokens
    return max(0, config.budget.usable - calibration.apply(fixed))


def _detail(config: AgentConfig, tokens: int, room: int) -> str:
    return (
        f"The message has about {tokens:,} tokens; at most {room:,} fit in the window of {config.model}"
        f" ({config.budget.limit:,} tokens, minus the answer, the system text and the tools). Shorten it, put the text"
        " into a file of the workspace and name that in the message, or choose a model with a larger window."
    )


def approval_within(asked: ApprovalRequest | None, base: Approval, least: Approval) -> Approval:
    """The approvals of a session: the requested ones applied to `base`. Raises `ForbiddenError` if the requested policy
    lets calls pass that need approval under the operator's; a policy that was not requested is made as strict."""
    changes = asked.model_dump(include=asked.model_fields_set) if asked is not None else {}
    approval = Approval.model_validate({**base.model_dump(), **changes})
    if covers(approval.policy, least.policy):
        return approval
    if "policy" in changes:
        raise ForbiddenError(
            f"approval.policy must be at least as strict as the server's ({told(least.policy)}).",
            code="approval_not_allowed",
        )
    return approval.model_copy(update={"policy": joined(approval.policy, least.policy)})


def covers(policy: ApprovalPolicy, least: ApprovalPolicy) -> bool:
    """Whether every call that needs approval under `least` also needs it under `policy`. Patterns are compared as text,
    not by what they match."""
    if least == "never" or policy == "always":
        return True
    ours = policy if isinstance(policy, ApprovalRules) else ApprovalRules()
    if not isinstance(least, ApprovalRules):
        return False
    commands = ExecuteCommand.name in ours.tools or set(least.commands) <= set(ours.commands)
    return commands and set(least.tools) <= set(ours.tools)


def joined(policy: ApprovalPolicy, least: ApprovalPolicy) -> ApprovalPolicy:
    """The union: a policy under which a call needs approval if it does under one of the two."""
    if "always" in (policy, least):
        return "always"
    rules = [each for each in (policy, least) if isinstance(each, ApprovalRules)]
    return ApprovalRules(
        tools=tuple(dict.fromkeys(name for each in rules for name in each.tools)),
        commands=tuple(dict.fromkeys(pattern for each in rules for pattern in each.commands)),
    )


def told(policy: ApprovalPolicy) -> str:
    """A description of a policy."""
    if not isinstance(policy, ApprovalRules):
        return policy
    named = [*policy.tools, *(f"commands like {pattern}" for pattern in policy.commands)]
    return ", ".join(named) or "never"


def check_patterns(asked: ApprovalRequest | None) -> None:
    """Raises `ValidationFailedError` for the first pattern that cannot be used, and for all of them together where they
    take too long to compile. Blocks for up to `COMPILE_S`, with Python's lock held for each pattern's time."""
    ends = thread_time() + COMPILE_S
    for index, pattern in enumerate(_commands(asked)):
        try:
            Pattern(pattern)
        except PatternError as error:
            message = f"Input should be a regular expression in RE2 syntax: {error}"
            raise invalid_field(f"approval.policy.commands.{index}", message) from error
        if thread_time() > ends:
            message = f"The patterns take more than {COMPILE_S:g} s to compile"
            raise invalid_field("approval.policy.commands", message)


async def check_output(asked: OutputRequest | None) -> None:
    """Raises `ValidationFailedError` for a schema that cannot be used. In a thread, as a large one takes long."""
    if asked is None:
        return
    try:
        await asyncio.to_thread(checked_schema, asked.json_schema)
    except SchemaError as error:
        raise invalid_field("output.schema", f"Input should be a JSON Schema of draft 2020-12: {error}") from error


def has_patterns(asked: ApprovalRequest | None) -> bool:
    """Whether there is anything for `check_patterns` to compile."""
    return bool(_commands(asked))


def _commands(asked: ApprovalRequest | None) -> Sequence[str]:
    return asked.policy.commands if asked is not None and not isinstance(asked.policy, str) else ()


def operators_approval(setting: str | dict[str, Any], known: Sequence[str]) -> Approval:
    """The operator's setting, a policy's name or an object as in a request. Raises `InvalidRequestError`."""
    try:
        asked = ApprovalRequest.model_validate({"policy": setting} if isinstance(setting, str) else setting)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place = ".".join(str(step) for step in first["loc"])
        raise InvalidRequestError(f"PALIMPSEST_APPROVAL ({place}): {first['msg']}.") from error
    try:
        check_patterns(asked)
    except ValidationFailedError as error:
        (found,) = error.extra["errors"]
        place = found["field"].removeprefix("approval.")
        raise InvalidRequestError(f"PALIMPSEST_APPROVAL ({place}): {found['message']}.") from error
    checked_rules(asked, known)
    return approval_within(asked, Approval(), Approval())
