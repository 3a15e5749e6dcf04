"""The progress of a run that must submit a result: read from the history alone, so a restart changes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile

from app.agent.limits import is_new_input
from app.context.prompts import control_text
from app.errors import PalimpsestError
from app.messages import Message, Role, ToolResultPart, ToolStatus
from app.tools.submit import NAME

MAX_TRIES = 3
"""Invalid submissions after which a run fails."""
SHOWN_CHARS = 1_000
"""Maximum characters of the last problem in the run's error."""


class OutputInvalidError(PalimpsestError):
    """The model did not submit a valid output."""

    status = 409
    code = "output_invalid"
    title = "No valid output"


def is_submitted(history: Sequence[Message]) -> bool:
    """Whether the newest message has the result of an accepted submission."""
    return bool(history) and any(r.status is ToolStatus.COMPLETED for r in _submissions(history[-1]))


def invalid_output(history: Sequence[Message]) -> OutputInvalidError | None:
    """The error of a model that has used all its tries since it last got new input."""
    tries = [r for message in _since_input(history) for r in _submissions(message) if r.status is ToolStatus.ERROR]
    if len(tries) < MAX_TRIES:
        return None
    return OutputInvalidError(f"The output was invalid {len(tries)} times; last: {tries[0].output[:SHOWN_CHARS]}")


def missing_output(history: Sequence[Message]) -> OutputInvalidError | None:
    """The error of a model that answers with a text although it was asked for the output; None if it was not yet."""
    asked = control_text("submit_output")
    if any(message.role is Role.CONTROL and message.text == asked for message in _since_input(history)):
        return OutputInvalidError(f"The model answered with text twice instead of calling {NAME}.")
    return None


def _since_input(history: Sequence[Message]) -> Iterator[Message]:
    """The messages since the newest input, newest first."""
    return takewhile(lambda message: not is_new_input(message), reversed(history))


def _submissions(message: Message) -> list[ToolResultPart]:
    if message.role is not Role.TOOL or message.voided_at is not None:
        return []
    return [result for result in message.tool_results if result.name == NAME]
