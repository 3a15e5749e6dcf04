"""`delegate`: another agent works on a task in the same workspace, with its own context."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import ClassVar

from pydantic import Field

from app.errors import ToolError
from app.tools.base import Arguments, WaitingTool
from app.tools.text import CleanText

NAME = "delegate"
MAX_TASK_CHARS = 20_000
MAX_CONTEXT_CHARS = 100_000
MAX_TOOLS = 64
MAX_STEPS = 10_000
"""Maximum number of steps that a call may ask for; the session's own limit also applies."""


class DelegateArguments(Arguments):
    task: CleanText = Field(
        min_length=1, max_length=MAX_TASK_CHARS, description="The complete task; it cannot see yours."
    )
    context: CleanText | None = Field(default=None, max_length=MAX_CONTEXT_CHARS, description="What it should know.")
    tools: tuple[CleanText, ...] | None = Field(
        default=None, max_length=MAX_TOOLS, description="Some of your tools; all by default."
    )
    model: CleanText | None = Field(default=None, min_length=1, max_length=200, description="Yours by default.")
    max_steps: int | None = Field(default=None, ge=1, le=MAX_STEPS, description="By default, your own limit.")

    @property
    def message(self) -> str:
        """What the sub-agent is asked."""
        return self.task if not self.context else f"{self.task}\n\n{self.context}"


async def _unavailable(_: DelegateArguments) -> None:
    raise ToolError("No sub-agent can be started here.")


class Delegate(WaitingTool):
    """`checked` raises `ToolError` for arguments that the session cannot have."""

    name = NAME
    description: ClassVar[str] = (
        "Has a sub-agent carry out a task in your workspace and returns its answer. It has its own context, so use it "
        "for work that reads a lot. Calls in one message run in parallel."
    )
    arguments: type[Arguments] = DelegateArguments

    def __init__(self, checked: Callable[[DelegateArguments], Awaitable[None]] = _unavailable) -> None:
        self._checked = checked

    async def check(self, args: Arguments) -> None:
        """See `WaitingTool.check`."""
        assert isinstance(args, DelegateArguments)
        await self._checked(args)
