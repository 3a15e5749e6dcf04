"""The approval policy of a session: its requests applied to what it has, at least as strict as the operator's."""

from __future__ import annotations

from collections.abc import Sequence
from time import thread_time
from typing import Any, Literal

from pydantic import ValidationError

from app.errors import ForbiddenError, InvalidRequestError, ValidationFailedError
from app.runtime.values.sessions import ApprovalRequest
from app.sessions import Approval, ApprovalRules
from app.tools.patterns import Pattern, PatternError
from app.tools.shell import ExecuteCommand

Policy = Literal["never", "always"] | ApprovalRules

COMPILE_S = 0.25
"""Seconds of processor time that all patterns of a policy may take to compile: a hundred ordinary ones take 3 ms, the
costliest that fit in their memory more than 500."""


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


def covers(policy: Policy, least: Policy) -> bool:
    """Whether every call that needs approval under `least` also needs it under `policy`. Patterns are compared as text,
    not by what they match."""
    if least == "never" or policy == "always":
        return True
    ours = policy if isinstance(policy, ApprovalRules) else ApprovalRules()
    if not isinstance(least, ApprovalRules):
        return False
    commands = ExecuteCommand.name in ours.tools or set(least.commands) <= set(ours.commands)
    return commands and set(least.tools) <= set(ours.tools)


def joined(policy: Policy, least: Policy) -> Policy:
    """The union: a policy under which a call needs approval if it does under one of the two."""
    if "always" in (policy, least):
        return "always"
    rules = [each for each in (policy, least) if isinstance(each, ApprovalRules)]
    return ApprovalRules(
        tools=tuple(dict.fromkeys(name for each in rules for name in each.tools)),
        commands=tuple(dict.fromkeys(pattern for each in rules for pattern in each.commands)),
    )


def told(policy: Policy) -> str:
    """A description of a policy."""
    if not isinstance(policy, ApprovalRules):
        return policy
    named = [*policy.tools, *(f"commands like {pattern}" for pattern in policy.commands)]
    return ", ".join(named) or "never"


def checked_rules(asked: ApprovalRequest | None, known: Sequence[str]) -> None:
    """Raises `InvalidRequestError` for a tool that does not exist: otherwise a typo would let its calls pass."""
    tools = asked.policy.tools if asked is not None and not isinstance(asked.policy, str) else ()
    for name in tools:
        if name not in known:
            raise InvalidRequestError(
                f"approval.policy.tools: there is no tool {name[:100]!r}; the tools are {', '.join(known)}.",
                code="unknown_tool",
            )


def check_patterns(asked: ApprovalRequest | None) -> None:
    """Raises `ValidationFailedError` for the first pattern that cannot be used, and for all of them together where they
    take too long to compile. Blocks for up to `COMPILE_S`, with Python's lock held for each pattern's time."""
    ends = thread_time() + COMPILE_S
    for index, pattern in enumerate(_commands(asked)):
        try:
            Pattern(pattern)
        except PatternError as error:
            message = f"Input should be a regular expression in RE2 syntax: {error}"
            raise _invalid(f"approval.policy.commands.{index}", message) from error
        if thread_time() > ends:
            message = f"The patterns take more than {COMPILE_S:g} s to compile"
            raise _invalid("approval.policy.commands", message)


def has_patterns(asked: ApprovalRequest | None) -> bool:
    """Whether there is anything for `check_patterns` to compile."""
    return bool(_commands(asked))


def _commands(asked: ApprovalRequest | None) -> Sequence[str]:
    return asked.policy.commands if asked is not None and not isinstance(asked.policy, str) else ()


def _invalid(field: str, message: str) -> ValidationFailedError:
    found = {"field": field, "message": message[:200]}
    detail = f"The request is not valid: {field}: {message[:1].lower()}{found['message'][1:]}."
    return ValidationFailedError(detail, errors=[found])


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
