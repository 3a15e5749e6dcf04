"""A model of a long task: it works for many steps, and writes a summary on request."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.provider import RecordedRequest, Reply, Text, ToolCall

ASKS_IN_CONVERSATION = "about to be replaced by a summary"
ASKS_WITH_TEXT = "<transcript>"

SUMMARY = (
    "## Completed Work\n| part | done |\n| --- | --- |\n| files | written |\n\n## Next Step\nGo on with step {step}."
)


def asks_for_summary(request: RecordedRequest) -> bool:
    """Whether the request asks for a summary."""
    return ASKS_IN_CONVERSATION in request.last_user_text or ASKS_WITH_TEXT in request.last_user_text


def works_on(request: RecordedRequest) -> Reply:
    """A model without calls, which summarizes on request."""
    return Reply(Text("## Completed Work\nall" if asks_for_summary(request) else "going on"))


Summariser = Callable[[RecordedRequest, int], Reply]


def plain_summary(request: RecordedRequest, step: int) -> Reply:
    return Reply(Text(SUMMARY.format(step=step)))


@dataclass
class LongTask:
    """Answers of `steps` steps with tool calls, then a last text. Outputs have 0 to `most` characters, chosen by the
    seed; occasionally a step has three or four calls."""

    steps: int
    most: int = 20_000
    seed: int = 1
    summarise: Summariser = plain_summary
    made: int = 0
    summaries: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, request: RecordedRequest) -> Reply:
        with self._lock:
            if asks_for_summary(request):
                self.summaries += 1
                return self.summarise(request, self.made)
            self.made += 1
            if self.made > self.steps:
                return Reply(Text("All done."))
            return Reply(Text(f"Step {self.made}."), *self._calls(self.made))

    def _calls(self, step: int) -> list[ToolCall]:
        return [_prints(size, f"step {step} call {number}") for number, size in enumerate(self._sizes(step))]

    def _sizes(self, step: int) -> list[int]:
        """The characters that each call of a step prints, besides a last line."""
        rng = random.Random(self.seed * 1_000_003 + step)
        calls = rng.choice((1, 1, 1, 1, 3, 4))
        return [rng.choice((0, 10, 300, 2_000, self.most // 4, self.most)) for _ in range(calls)]

    def imported(self) -> dict[str, Any]:
        """The task's steps as a `history` to import; afterward only its last answer is left. The context is as if the
        commands had run."""
        messages: list[dict[str, Any]] = [{"role": "user", "content": "the task itself"}]
        for step in range(1, self.steps + 1):
            calls, results = [], []
            for number, size in enumerate(self._sizes(step)):
                line, call_id = f"step {step} call {number}", f"call_{step}_{number}"
                call = _prints(size, line)
                function = {"name": call.name, "arguments": json.dumps(call.arguments)}
                calls.append({"id": call_id, "type": "function", "function": function})
                results.append({"role": "tool", "tool_call_id": call_id, "content": "x" * size + line + "\n"})
            messages += [{"role": "assistant", "content": f"Step {step}.", "tool_calls": calls}, *results]
        self.made = self.steps
        return {"format": "openai", "messages": [*messages, {"role": "assistant", "content": "That was all."}]}


def _prints(size: int, line: str) -> ToolCall:
    command = f"head -c {size} /dev/zero | tr '\\0' x; echo {line}"
    return ToolCall("execute_command", {"command": command})
