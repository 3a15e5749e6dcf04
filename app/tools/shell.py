"""`execute_command`: a shell command in the sandbox."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from app.errors import ToolError
from app.messages import ToolStatus
from app.sandbox.base import ExecResult, Stream
from app.tools.background import described
from app.tools.base import Arguments, ToolContext, ToolOutcome
from app.tools.text import CleanText

MAX_COMMAND_CHARS = 32_000
"""Linux accepts 131,072 bytes in one argument, and a character has up to four."""


class ExecuteCommandArguments(Arguments):
    command: CleanText = Field(
        min_length=1, max_length=MAX_COMMAND_CHARS, description="Runs in the workspace's top directory."
    )
    timeout_s: float | None = Field(
        default=None,
        gt=0,
        allow_inf_nan=False,
        description="Seconds; replaces the default.",
    )
    background: bool = Field(default=False, description="For servers: returns a command_id.")


class ExecuteCommand:
    name: ClassVar[str] = "execute_command"
    description: ClassVar[str] = (
        "Runs a shell command and returns its output and exit code. Each command has a fresh shell: directory and "
        "variables do not carry over. There is no terminal, so pass flags that avoid questions."
    )
    parallel_safe: ClassVar[bool] = False
    arguments: type[Arguments] = ExecuteCommandArguments

    async def run(self, args: ExecuteCommandArguments, context: ToolContext) -> ToolOutcome:
        """Live output goes to the context's sink; a cancelled call keeps what came until then."""
        if args.background:
            state = await context.background.start(context.call_id, args.command, await context.sandbox(), context.env)
            if state.status == "failed":
                raise ToolError(f"The command could not be started: {state.remark}")
            return ToolOutcome(exit_code=state.exit_code, note=f"[command_id {state.command_id}: {described(state)}]")
        timeout_s = _timeout(args.timeout_s, context)
        context.output.as_terminal()
        silent = True

        def on_output(stream: Stream, data: bytes) -> None:
            nonlocal silent
            silent = silent and not data
            context.output.write(stream, data)

        sandbox = await context.sandbox()
        result = await sandbox.exec(args.command, timeout_s=timeout_s, on_output=on_output, env=context.env)
        return ToolOutcome(
            status=ToolStatus.ERROR if result.exit_code is None else ToolStatus.COMPLETED,
            exit_code=result.exit_code,
            note=_note(result, timeout_s, silent),
        )


def _timeout(asked: float | None, context: ToolContext) -> float:
    if asked is None:
        return context.command_timeout_s
    if asked > context.max_command_timeout_s:
        raise ToolError(
            f"timeout_s may be {context.max_command_timeout_s:g} at most; split the work into shorter commands."
        )
    return asked


def _note(result: ExecResult, timeout_s: float, silent: bool) -> str:
    notes = []
    if silent:
        notes.append("[no output]")
    if result.timed_out:
        notes.append(f"[timed out after {timeout_s:g} s; every process of the command was ended]")
    elif result.exit_code:
        notes.append(f"[exit code {result.exit_code}]")
    if result.ended_with:
        what = (
            "a process that still ran was" if result.ended_with == 1 else f"{result.ended_with} running processes were"
        )
        notes.append(f"[{what} ended with the command; background=true keeps one running]")
    if result.remark:
        notes.append(f"[{result.remark}]")
    notes += [f"[network: {refusal}]" for refusal in result.refused_hosts]
    return "\n".join(notes)
