"""Shows a session's events as readable text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from app.cli import amounts, rounds
from app.cli.calls import COMMAND, Call, command_rest, outcome_line, whole
from app.cli.ids import short
from app.cli.screen import Screen, one_line
from app.cli.sse import ServerEvent

Data = dict[str, Any]

_MARKS = {"completed": "✓", "in_progress": "▸", "pending": "·"}
_OUTCOMES = {
    "completed": ("✓", "green"),
    "cancelled": ("■", "yellow"),
    "interrupted": ("■", "yellow"),
    "limit_reached": ("■", "yellow"),
}


class View:
    """Writes events to a screen, in order; skips unknown events."""

    def __init__(self, screen: Screen, *, own_task: bool = False) -> None:
        """`own_task` skips the first user message, which the user has just typed."""
        self._screen = screen
        self._skip_task = own_task
        self._shown: dict[str, int] = {}
        """Code points of each open part already on the screen."""
        self._open: str | None = None
        self._pending: dict[str, Call] = {}
        self._current: str | None = None
        self._begun: str | None = None
        self._handlers: dict[str, Callable[[Data], None]] = {
            "session.running": self._running,
            "session.recovered": lambda _: self._note("the server was restarted; the run continues"),
            "session.idle": self._idle,
            "message.created": self._message,
            "text.delta": lambda data: self._part(data),
            "text.completed": lambda data: self._part_end(data),
            "reasoning.delta": lambda data: self._part(data, dim=True),
            "reasoning.completed": lambda data: self._part_end(data, dim=True),
            "tool.call": self._call,
            "tool.output": self._output,
            "tool.result": self._result,
            "step.retrying": self._retrying,
            "step.finished": self._step,
            "plan.updated": self._plan,
            "approval.requested": self._approval,
            "approval.resolved": self._approved,
            "prune.completed": lambda data: self._note(rounds.pruned(data)),
            "compaction.started": lambda data: self._note(rounds.started(data)),
            "compaction.completed": lambda data: self._note(rounds.completed(data)),
            "compaction.failed": lambda data: self._note(rounds.failed(data), fg="yellow"),
            "compaction.cancelled": lambda data: self._note(rounds.cancelled(data), fg="yellow"),
            "compaction.reverted": lambda data: self._note(rounds.reverted(data)),
            "compaction.discarded": lambda data: self._note(rounds.discarded(data)),
        }

    def show(self, event: ServerEvent) -> None:
        handler = self._handlers.get(event.event)
        if handler is not None:
            handler(event.data)

    def _note(self, text: str, **styles: Any) -> None:
        self._screen.line(one_line(text, 300), **(styles or {"dim": True}))

    # the model's text

    def _part(self, data: Data, **styles: Any) -> None:
        """Adds only new text: after a reconnect, a part is sent from its start again."""
        part, offset, text = data["part_id"], data.get("offset", 0), data["text"]
        seen = self._shown.get(part, 0)
        new = text[max(0, seen - offset) :]
        if not new:
            return
        if self._open != part:
            self._screen.fresh()
            self._open = part
        self._screen.write(new, **styles)
        self._shown[part] = offset + len(text)

    def _part_end(self, data: Data, **styles: Any) -> None:
        self._part(data, **styles)
        self._screen.fresh()
        self._shown.pop(data["part_id"], None)
        if data["interrupted"]:
            self._note("[interrupted]")

    def _retrying(self, data: Data) -> None:
        delay_s = data["delay_ms"] / 1000
        delay = f"{delay_s:.1f} s" if delay_s < 1 else amounts.seconds(delay_s)
        self._note(
            f"↻ attempt {data['attempt']} failed ({data['code']}): {data['detail']} Partial reply discarded;"
            f" retrying in {delay}",
            fg="yellow",
        )

    def _message(self, data: Data) -> None:
        message = data["message"]
        text = "".join(part.get("text", "") for part in message["parts"])
        if message["role"] == "control":
            self._note(text)
        elif message.get("is_summary"):
            self._note("older messages were replaced with a summary")
        elif message["role"] in ("assistant", "tool"):
            self._whole(message)
        elif self._skip_task:
            self._skip_task = False
        else:
            self._screen.line("> " + text.replace("\n", "\n> "), bold=True)

    def _whole(self, message: Data) -> None:
        """A complete message, as from a fork or an imported history."""
        for part in message["parts"]:
            if part["type"] in ("text", "reasoning"):
                self._screen.line(part["text"], dim=part["type"] == "reasoning")
            elif part["type"] == "tool_call":
                self._call(part)
            elif part["type"] == "tool_result":
                self._result(part)

    # tools

    def _call(self, data: Data) -> None:
        self._pending[data["call_id"]] = Call(data["name"], data["arguments"])
        if self._current is None:
            self._enter(data["call_id"])

    def _enter(self, call_id: str) -> None:
        """Switches to this call's output; calls of one message run in parallel or wait for each other."""
        call = self._pending.get(call_id)
        if self._current == call_id or call is None:
            return
        self._current = call_id
        if call.name == COMMAND:
            self._screen.line(call.headline(), bold=True)

    def _output(self, data: Data) -> None:
        call = self._pending.get(data["call_id"])
        if call is None or call.name != COMMAND:
            return
        self._enter(data["call_id"])
        new = call.take(data["offset"], data["text"])
        if new:
            self._screen.write(new)

    def _result(self, data: Data) -> None:
        call_id = data["call_id"]
        call = self._pending.setdefault(call_id, Call(data["name"], {}))
        if call.name == COMMAND:
            self._enter(call_id)
            self._screen.write(command_rest(call, data))
        line, styles = outcome_line(call, data)
        if line:
            self._screen.line(line, **styles)
        del self._pending[call_id]
        if self._current == call_id:
            self._current = None
            if self._pending:
                self._enter(next(iter(self._pending)))

    def _approval(self, data: Data) -> None:
        call_id = short(data["call_id"], self._pending)
        until = f" until {data['expires_at']}" if data["expires_at"] else ""
        self._note(f"call {call_id} waits for approval{until}", fg="yellow")
        self._note(whole(Call(data["name"], data["arguments"])), fg="yellow")

    def _approved(self, data: Data) -> None:
        ended = {"approve": "approved", "deny": "denied"}.get(data["decision"], data["decision"])
        call_id = short(data["call_id"], self._pending)
        self._note(f"call {call_id} {ended} ({data['by']})", **({} if ended == "approved" else {"fg": "yellow"}))

    def _plan(self, data: Data) -> None:
        self._screen.line("plan", dim=True)
        for item in data["items"]:
            self._screen.line(f"  {_MARKS.get(item['status'], '·')} {one_line(item['text'])}", dim=True)

    # the run

    def _running(self, data: Data) -> None:
        self._begun = data["at"]
        if data["trigger"] != "message":
            self._note(f"running again ({data['trigger']})")

    def _step(self, data: Data) -> None:
        usage = data["usage"]
        figures = (amounts.tokens(usage), amounts.money(usage["cost_usd"]), amounts.share(data["context"]))
        self._note(amounts.joined(f"step {data['step']}", *figures))

    def _idle(self, data: Data) -> None:
        mark, colour = _OUTCOMES.get(data["outcome"], ("✗", "red"))
        usage = data["usage"]
        totals = amounts.joined(
            f"{data['steps']} step{'s' * (data['steps'] != 1)}",
            amounts.tokens(usage),
            amounts.money(usage["cost_usd"]),
            amounts.between(self._begun, data["at"]),
        )
        self._screen.line(f"{mark} {data['outcome'].replace('_', ' ')} · {totals}", fg=colour, bold=True)
        if data.get("error"):
            self._screen.line(f"  {data['error'].get('detail')} ({data['error'].get('code')})", fg=colour)
        self._pending.clear()
        self._current = None
