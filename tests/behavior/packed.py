"""Imported conversations that fill a window, so that a session must compact before its first step."""

from __future__ import annotations

import json
from typing import Any

STEP_CHARS = 4_000
"""Characters of each answer, about a thousand tokens by any tokenizer."""


def packed(task: str, steps: int, outputs: list[str] | None = None) -> dict[str, Any]:
    """A `history` of one task and `steps` steps with a call each, of about a thousand tokens a step. Results are short,
    so that clearing them frees nothing; `outputs` replaces the first ones."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": task}]
    for number in range(steps):
        function = {"name": "look", "arguments": json.dumps({"at": number})}
        call = {"id": f"c{number}", "type": "function", "function": function}
        text = f"Answer {number}: " + "word " * ((STEP_CHARS - 20) // 5)
        result = outputs[number] if outputs and number < len(outputs) else f"seen {number}"
        messages.append({"role": "assistant", "content": text, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": result})
    return {"format": "openai", "messages": [*messages, {"role": "assistant", "content": "So far so good."}]}


OUTPUT = "line of output\n" * 80
CLEARS_ALL = {"policy": "reactive", "prune_protect": 0, "prune_minimum": 0, "tail_tokens": 1_000}
"""For `worked_before`: the part before the newest two turns; the tail has room for some of it once cleared."""


def worked_before(steps: int) -> dict[str, Any]:
    """A history of one long turn with an output of about 300 tokens in each step, and two short turns."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "the task"}]
    for number in range(steps):
        function = {"name": "look", "arguments": json.dumps({"at": number})}
        call = {"id": f"c{number}", "type": "function", "function": function}
        messages.append({"role": "assistant", "content": f"Step {number}.", "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": f"{number}: {OUTPUT}"})
    for number in range(2):
        messages.append({"role": "assistant", "content": f"Well, {number}."})
        messages.append({"role": "user", "content": f"And {number}?"})
    return {"format": "openai", "messages": [*messages, {"role": "assistant", "content": "That is all."}]}
