"""Checks before a message is accepted whether it can fit its session's window at all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Row

from app.agent.config import AgentConfig
from app.context.generation import Generation
from app.context.tokens import PER_MESSAGE, Calibration, estimate_text
from app.errors import MessageTooLargeError
from app.runtime.agents import AgentSetup

LEAST_ROOM = 256
"""Tokens up to which a message is never refused. If even that does not fit, the system text and the tools are too
large, which the run reports."""


class DraftedRow:
    """The columns of a session that is not stored yet, readable like a row of the database; missing columns are
    None."""

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self._fields = fields

    def __getattr__(self, name: str) -> Any:
        return self._fields.get(name)


def text_tokens(text: str) -> int:
    """Estimated tokens of a message with this text, as counted on delivery."""
    return PER_MESSAGE + estimate_text(text)


def check_fits(agents: AgentSetup, row: Row[Any] | DraftedRow, tokens: int) -> None:
    """Refuses a message of `tokens` estimated tokens if no compaction could make room for it in the session's window.

    In addition to the message, only the system text with its notes and the tools must stay: everything else can be
    summarized, cleared or clipped. An assumed window refuses nothing, since it is only a guess. Raises
    `MessageTooLargeError`.
    """
    if tokens <= LEAST_ROOM:
        return
    config = agents.config(row)  # type: ignore[arg-type]  # a drafted row has the same columns
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
