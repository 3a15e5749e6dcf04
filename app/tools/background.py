"""`command_output` and `stop_command`: the state of background commands, and their end."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from app.tools.base import Arguments, CommandPiece, CommandState, ToolContext, ToolOutcome
from app.tools.terminal import folded
from app.tools.text import CleanText

NAMES = ("command_output", "stop_command")
"""Their names. They are offered once a session has run something in the background, or if it names them."""
MAX_WAIT_S = 300.0
"""Longest wait of one call, in seconds."""
_WIDE = 8
"""How many times the limit is read of an output's end, which a progress bar may have filled."""
_ENDS = {
    "running": "running",
    "stopped": "stopped",
    "cancelled": "ended with its run, which was cancelled",
    "limit": "ended",
    "sandbox_stopped": "ended with its sandbox, which was stopped",
    "interrupted": "interrupted: the service was restarted",
    "failed": "could not be started",
}


def described(state: CommandState) -> str:
    """How a command ended, for the model."""
    end = f"ended with exit code {state.exit_code}" if state.status == "exited" else _ENDS[state.status]
    return f"{end}; {state.remark}" if state.remark else end


class CommandOutputArguments(Arguments):
    command_id: CleanText = Field(max_length=100, description="From execute_command.")
    wait_s: float | None = Field(
        default=None,
        ge=0,
        le=MAX_WAIT_S,
        allow_inf_nan=False,
        description="Seconds to wait for its end or, with `since`, for more output.",
    )
    since: int | None = Field(default=None, ge=0, description="Byte to read from; by default, the end is shown.")


class CommandOutput:
    name: ClassVar[str] = "command_output"
    description: ClassVar[str] = "Returns the state and output of a background command."
    parallel_safe: ClassVar[bool] = True
    arguments: type[Arguments] = CommandOutputArguments

    async def run(self, args: CommandOutputArguments, context: ToolContext) -> ToolOutcome:
        piece = await _piece(args, context)
        context.output.as_terminal()
        # UTF-8 has a character of its text at each byte at least, so this is never clipped by characters.
        context.output.write("stdout", piece.data)
        return ToolOutcome(exit_code=piece.state.exit_code, note=_note(piece, args.since))


async def _piece(args: CommandOutputArguments, context: ToolContext) -> CommandPiece:
    output, most = context.background.output, context.limit.chars
    if args.since is not None:
        return await output(args.command_id, args.since, args.wait_s or 0.0, most)
    wide = await output(args.command_id, None, args.wait_s or 0.0, _WIDE * most)
    if len(wide.data) <= most or len(folded(wide.data.decode("utf-8", "replace"))) <= most:
        return wide
    return await output(args.command_id, None, 0.0, most)


def _note(piece: CommandPiece, asked: int | None) -> str:
    notes = [described(piece.state)]
    if piece.since > (asked or 0):
        notes.append(f"this is from byte {piece.since:,} on")
    if piece.until < piece.state.bytes or piece.state.status == "running":
        notes.append(f"since={piece.until} reads on")
    return f"[{'; '.join(notes)}]"


class StopCommandArguments(Arguments):
    command_id: CleanText = Field(max_length=100, description="From execute_command.")


class StopCommand:
    name: ClassVar[str] = "stop_command"
    description: ClassVar[str] = "Ends a background command."
    parallel_safe: ClassVar[bool] = False
    arguments: type[Arguments] = StopCommandArguments

    async def run(self, args: StopCommandArguments, context: ToolContext) -> ToolOutcome:
        return ToolOutcome(note=f"[{described(await context.background.stop(args.command_id))}]")
