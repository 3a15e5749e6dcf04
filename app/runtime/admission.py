"""Admission: validates requests that create or change a session."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from app.context.budget import context_state, make_budget
from app.context.policies import CompactionSettings, resolve
from app.context.tokens import counted_tokens
from app.context.turns import is_request
from app.errors import ForbiddenError, InvalidRequestError
from app.interchange import ImportedHistory, import_history
from app.messages import Message, new_id
from app.runtime.approval_rules import approval_within, checked_rules
from app.runtime.message_room import LEAST_ROOM, DraftedRow, check_fits, text_tokens
from app.runtime.setup import RuntimeSetup
from app.runtime.values.sessions import (
    MAX_SYSTEM_PROMPT_CHARS,
    HistoryImport,
    LimitsPatch,
    SessionCreate,
    SessionPatch,
)
from app.sessions import Approval, Limits

TITLE_CHARS = 80
"""Maximum characters of a task's first line used as the title."""

MAX_METADATA_BYTES = 16 * 1024


@dataclass(frozen=True, slots=True)
class ServiceRules:
    """The server's defaults and bounds: default model, compaction and limits of a session, the upper bounds that a
    session may request (`most`), the maximum number of pending messages, and the minimum approval policy."""

    default_model: str
    compaction: CompactionSettings
    limits: Limits
    most: Limits
    queue_limit: int
    approval: Approval = field(default_factory=Approval)


@dataclass(frozen=True, slots=True)
class Draft:
    """A validated session that has not been created yet."""

    session_id: str
    task: str | None
    fingerprint: str
    fields: dict[str, Any]
    history: tuple[Message, ...] = ()


async def draft(body: SessionCreate, setup: RuntimeSetup, rules: ServiceRules) -> Draft:
    """Validates everything that a request asks for. Raises an error for what is not available."""
    fields = _checked_fields(body, setup, rules)
    session_id = body.id or new_id()
    task_tokens = text_tokens(body.task) if body.task is not None else 0
    if task_tokens > LEAST_ROOM or body.history is not None:
        await setup.agents.ask_windows(fields["model"])
    check_fits(setup.agents, DraftedRow(fields), task_tokens)
    if body.history is None:
        return Draft(session_id, body.task, request_fingerprint(body), fields)
    # In a thread: a history has up to 64 MiB, which must not block the event loop.
    fingerprint, imported = await asyncio.to_thread(_import, body, body.history)
    fields["system_prompt"] = imported.system_prompt if body.system_prompt is None else body.system_prompt
    check_fits(setup.agents, DraftedRow(fields), _last_request_tokens(imported.messages))
    budget = make_budget(setup.agents.model_info(fields["model"]), CompactionSettings(**fields["compaction"]))
    fields["context"] = context_state(budget, imported.tokens, reported=False).model_dump()
    return Draft(session_id, body.task, fingerprint, fields, imported.messages)


def _last_request_tokens(history: Sequence[Message]) -> int:
    """Estimated tokens of a history's last user message, 0 without one; all others can be summarized."""
    return next((counted_tokens(message) for message in reversed(history) if is_request(message)), 0)


def _import(body: SessionCreate, history: HistoryImport) -> tuple[str, ImportedHistory]:
    keep_system = body.system_prompt is not None
    imported = import_history(history.format, history.messages, keep_system=keep_system)
    if len(imported.system_prompt or "") > MAX_SYSTEM_PROMPT_CHARS:
        raise InvalidRequestError(
            f"history.messages: the system message in front may have {MAX_SYSTEM_PROMPT_CHARS:,} characters.",
            code="invalid_history",
            index=0,
        )
    return request_fingerprint(body), imported


def _checked_fields(body: SessionCreate, setup: RuntimeSetup, rules: ServiceRules) -> dict[str, Any]:
    """The columns of a new session."""
    checked_rules(body.approval, setup.agents.registry.names())
    model = body.model or rules.default_model
    setup.agents.models.resolve(model)
    limits = limits_within(body.limits, rules.limits, rules.most)
    compaction = _compaction(body.compaction, setup, rules)
    sandbox = setup.sandboxes.resolve(body.sandbox)
    info = setup.agents.model_info(model)
    return {
        "title": body.title or _title(body.task),
        "task": body.task,
        "model": model,
        "reasoning_effort": body.reasoning_effort,
        "system_prompt": body.system_prompt,
        "tools": _checked_tools(body.tools, setup.agents.registry.names()),
        "sandbox": sandbox.model_dump(),
        "compaction": compaction.model_dump(),
        "limits": limits.model_dump(),
        "approval": approval_within(body.approval, rules.approval, rules.approval).model_dump(),
        "metadata": _checked_metadata(body.metadata),
        "context": context_state(make_budget(info, compaction), 0, reported=False).model_dump(),
    }


def request_fingerprint(body: SessionCreate) -> str:
    """Distinguishes a repeated request from another one with the same id."""
    asked = body.model_dump(mode="json", exclude={"id"}, exclude_unset=True)
    return hashlib.sha256(orjson.dumps(asked, option=orjson.OPT_SORT_KEYS)).hexdigest()


def checked_patch(body: SessionPatch, setup: RuntimeSetup, rules: ServiceRules) -> dict[str, Any]:
    """The columns that a patch sets, except limits, compaction and approval: their values depend on the session's, so
    they are only validated here. Raises the same errors as `draft`."""
    checked_rules(body.approval, setup.agents.registry.names())
    given = body.model_fields_set
    fields: dict[str, Any] = {}
    if "model" in given:
        fields["model"] = body.model or rules.default_model
        setup.agents.models.resolve(fields["model"])
    if body.compaction is not None:
        _check_summarizer(resolve(body.compaction), setup)
    if "tools" in given:
        fields["tools"] = _checked_tools(body.tools, setup.agents.registry.names())
    if "metadata" in given:
        fields["metadata"] = _checked_metadata(body.metadata)
    return fields | {
        name: getattr(body, name) for name in ("title", "system_prompt", "reasoning_effort") if name in given
    }


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


def _title(task: str | None) -> str | None:
    line = next((line.strip() for line in (task or "").splitlines() if line.strip()), None)
    return line if line is None or len(line) <= TITLE_CHARS else line[: TITLE_CHARS - 1] + "…"


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


def _checked_tools(asked: list[str] | None, known: tuple[str, ...]) -> list[str] | None:
    """The names of the requested tools. Raises `InvalidRequestError` for one that does not exist."""
    for name in asked or ():
        if name not in known:
            raise InvalidRequestError(
                f"There is no tool {name[:100]!r}; the tools are {', '.join(known)}.", code="unknown_tool"
            )
    return asked


def _checked_metadata(metadata: dict[str, Any] | None) -> dict[str, Any]:
    if metadata and len(orjson.dumps(metadata)) > MAX_METADATA_BYTES:
        raise InvalidRequestError(f"metadata may have at most {MAX_METADATA_BYTES:,} bytes.", code="metadata_too_large")
    return metadata or {}
