"""A small model for manual trials: it makes two calls and then repeats the user message."""

from __future__ import annotations

from tests.provider.records import RecordedRequest
from tests.provider.script import Reasoning, Reply, Text, ToolCall

COMMANDS = ("ls -la", "echo hello from the fake model")


def echo_agent(request: RecordedRequest) -> Reply:
    """Two `execute_command` calls, one a step, then the last user message; immediately if no such tool is offered."""
    made = _results_since_user(request)
    if made < len(COMMANDS) and "execute_command" in request.tool_names:
        call = ToolCall("execute_command", {"command": COMMANDS[made]}, chunks=3)
        return Reply(Reasoning("Let me look.", chunks=2), Text("I will run a command.", chunks=4), call)
    return Reply(Text(f"You said: {request.last_user_text}", chunks=8))


def _results_since_user(request: RecordedRequest) -> int:
    """Tool results after the last user message that has text."""
    count = 0
    for message in reversed(request.messages):
        content = message.get("content")
        kinds = [block.get("type") for block in content] if isinstance(content, list) else []
        if message["role"] == "tool":
            count += 1
        elif "tool_result" in kinds:
            count += kinds.count("tool_result")
        elif message["role"] == "user":
            break
    return count
