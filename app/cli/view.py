"""Shows a session's stream as a person reads it, compactions included."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from app.cli import screen
from app.cli.approvals import COMMAND, EDIT, Call, command_rest, outcome_line, whole
from app.cli.client import ServerEvent
from app.cli.diffs import edit_lines
from app.cli.retries import failed_attempt
from app.cli.screen import Screen, one_line, short

Data = dict[str, Any]
_MARKS = {"completed": "✓", "in_progress": "▸", "pending": "·"}
_OUTCOMES = {
    "completed": ("✓", "green"),
    "cancelled": ("■", "yellow"),
    "interrupted": ("■", "yellow"),
    "limit_reached": ("■", "yellow"),
}
_DIFF_STYLES = {"+": {"fg": "green"}, "-": {"fg": "red"}}

_REASONS = {
    "overflow": "the window is full",
    "threshold": "the policy's threshold is reached",
    "provider_overflow": "the provider refused the request as too long",
    "manual": "requested manually",
}
_RUNGS = {
    "prune": "clearing old outputs",
    "summary": "a summary",
    "fold": "notes written without a model",
    "shrink": "a shorter tail",
}
WITHOUT_MODEL = ("fold", "shrink")
"""The rungs whose summary no model wrote."""
NOTHING_TO_COMPACT = "nothing_to_compact"
"""The code of a round that had nothing to compact."""
_PRUNED = {"trigger": "", "run_end": " at the end of the run", "model_change": " after a change of model"}


class View:
    """Writes events to a screen, in order; skips unknown events."""

    def __init__(self, screen: Screen, *, own_task: bool = False) -> None:
        """`own_task` skips the first user message, which the user has just typed."""
        self._screen = screen
        self._skip_task = own_task
        self._shown: dict[str, int] = {}
        """Code points of each part already on the screen. Nothing is added to one that has ended or is void: in a
        cluster, its text may come after its end."""
        self._void: set[str] = set()
        self._replying: str | None = None
        """The message that the newest text on the screen belongs to."""
        self._open: str | None = None
        self._pending: dict[str, Call] = {}
        self._current: str | None = None
        self._begun: str | None = None
        self._handlers: dict[str, Callable[[Data], None]] = {
            "session.running": self._running,
            "session.recovered": lambda _: self._note("the server was restarted; the run continues"),
            "source.started": lambda data: self._note(f"cloning {data['url']}"),
            "source.completed": lambda data: self._note(f"cloned at {data['commit'][:12]}"),
            "source.failed": lambda data: self._note(f"not cloned ({data['code']}): {data['detail']}", fg="yellow"),
            "mcp.failed": lambda data: self._note(
                f"MCP server {data['server']} is unavailable ({data['code']}): {data['detail']}", fg="yellow"
            ),
            "session.idle": self._idle,
            "message.created": self._message,
            "text.delta": lambda data: self._part(data, self._screen.prose),
            "text.completed": lambda data: self._part_end(data, self._screen.prose),
            "reasoning.delta": lambda data: self._part(data, self._dim),
            "reasoning.completed": lambda data: self._part_end(data, self._dim),
            "tool.call": self._call,
            "tool.output": self._output,
            "tool.result": self._result,
            "step.retrying": self._retrying,
            "step.finished": self._step,
            "plan.updated": self._plan,
            "subagent.started": lambda data: self._note(f"sub-agent started: {data['title']}"),
            "subagent.finished": lambda data: self._note(f"sub-agent {data['outcome']} after {data['steps']} steps"),
            "approval.requested": self._approval,
            "approval.resolved": self._approved,
            "prune.completed": lambda data: self._note(pruned(data)),
            "compaction.started": lambda data: self._note(started(data)),
            "compaction.completed": lambda data: self._note(completed(data)),
            "compaction.failed": lambda data: self._note(failed(data), fg="yellow"),
            "compaction.retrying": lambda data: self._note(
                f"↻ summary of round {data['round']}: {failed_attempt(data)}", fg="yellow"
            ),
            "compaction.cancelled": lambda data: self._note(cancelled(data), fg="yellow"),
            "compaction.reverted": lambda data: self._note(reverted(data)),
            "compaction.discarded": lambda data: self._note(discarded(data)),
        }

    def show(self, event: ServerEvent) -> None:
        handler = self._handlers.get(event.event)
        if handler is not None:
            handler(event.data)

    def _note(self, text: str, **styles: Any) -> None:
        self._screen.line(one_line(text, 300), **(styles or {"dim": True}))

    # the model's text

    def _dim(self, text: str) -> None:
        self._screen.write(text, dim=True)

    def _part(self, data: Data, write: Callable[[str], None]) -> None:
        """Adds only new text: after a reconnect, a part is sent from its start again."""
        part, offset, text = data["part_id"], data.get("offset", 0), data["text"]
        if data["message_id"] in self._void:
            return
        seen = self._shown.get(part, 0)
        new = text[max(0, seen - offset) :]
        if not new:
            return
        if self._open != part:
            self._screen.fresh()
            self._open = part
        self._replying = data["message_id"]
        write(new)
        self._shown[part] = offset + len(text)

    def _part_end(self, data: Data, write: Callable[[str], None]) -> None:
        self._part(data, write)
        self._screen.fresh()
        self._shown[data["part_id"]] = sys.maxsize
        if data["interrupted"]:
            self._note("[interrupted]")

    def _retrying(self, data: Data) -> None:
        self._void.add(data["message_id"])
        self._note(f"↻ {failed_attempt(data, is_partial=self._replying == data['message_id'])}", fg="yellow")

    def _message(self, data: Data) -> None:
        message = data["message"]
        text = "".join(part.get("text", "") for part in message["parts"])
        if message["role"] == "control":
            self._note(text)
        elif message.get("is_summary"):
            return  # `compaction.completed` says whether a model wrote it
        elif message["role"] in ("assistant", "tool"):
            self._whole(message)
        elif self._skip_task:
            self._skip_task = False
        else:
            self._screen.line("> " + text.replace("\n", "\n> "), bold=True)

    def _whole(self, message: Data) -> None:
        """A complete message, as from a fork or an imported history."""
        for part in message["parts"]:
            if part["type"] == "reasoning":
                self._screen.line(part["text"], dim=True)
            elif part["type"] == "text":
                self._screen.fresh()
                self._screen.prose(part["text"])
                self._screen.fresh()
            elif part["type"] == "tool_call":
                self._call(part)
            elif part["type"] == "tool_result":
                self._result(part)

    # tools

    def _call(self, data: Data) -> None:
        self._pending[data["call_id"]] = Call(data["name"], data["arguments"])
        if data.get("waits_for_client"):
            self._note(f"{data['name']} waits for its result from a client")
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
        if call.name == EDIT and data["status"] == "completed":
            self._edit(call)
        del self._pending[call_id]
        if self._current == call_id:
            self._current = None
            if self._pending:
                self._enter(next(iter(self._pending)))

    def _edit(self, call: Call) -> None:
        for line in edit_lines(call.argument("old_text"), call.argument("new_text")):
            self._screen.line(f"  {line}", **_DIFF_STYLES.get(line[0], {"dim": True}))

    def _approval(self, data: Data) -> None:
        call_id = short(data["call_id"], self._pending)
        until = f" until {data['expires_at']}" if data["expires_at"] else ""
        self._note(f"call {call_id} waits for approval{until}", fg="yellow")
        if data["name"] != COMMAND or data["call_id"] != self._current:  # else it is the line above
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
        figures = (screen.tokens(usage), screen.money(usage["cost_usd"]), screen.share(data["context"]))
        self._note(screen.joined(f"step {data['step']}", *figures))

    def _idle(self, data: Data) -> None:
        mark, color = _OUTCOMES.get(data["outcome"], ("✗", "red"))
        if data.get("output") is not None:
            self._screen.line(screen.json_text(data["output"]))
        usage = data["usage"]
        totals = screen.joined(
            f"{data['steps']} step{'s' * (data['steps'] != 1)}",
            screen.tokens(usage),
            screen.money(usage["cost_usd"]),
            screen.between(self._begun, data["at"]),
        )
        self._screen.line(f"{mark} {data['outcome'].replace('_', ' ')} · {totals}", fg=color, bold=True)
        if data.get("error"):
            self._screen.line(f"  {data['error'].get('detail')} ({data['error'].get('code')})", fg=color)
        self._pending.clear()
        self._current = None


def started(data: Data) -> str:
    """`compacting the context, round 2 (the window is full, policy reactive): 171,204 of 200,000 tokens`."""
    what = "preparing a summary in the background" if data.get("background") else "compacting the context"
    reason = "in advance" if data.get("background") else _REASONS.get(data["reason"], data["reason"])
    return (
        f"{what}, round {data['round']} ({reason}, policy {data['policy']}):"
        f" {data['tokens_before']:,} of {data['limit']:,} tokens"
    )


def completed(data: Data) -> str:
    """`compacted 42 messages by a summary, round 2: 171,204 → 24,310 tokens (−86%) · 3 outputs cleared · …`."""
    cleared = data["outputs_pruned"]
    return screen.joined(
        f"compacted {plural(data['messages_compacted'], 'message')} by {_RUNGS.get(data['rung'], data['rung'])},"
        f" round {data['round']}: {change(data)}",
        f"{plural(cleared, 'old output')} cleared" if cleared else "",
        screen.seconds(data["duration_ms"] / 1000),
        cost(data.get("usage")),
        _redo(data) if data["rung"] in WITHOUT_MODEL else "",
    )


def _redo(data: Data) -> str:
    redo = f"to redo it: `palimpsest compact {data.get('session_id', 'ID')} --redo`"
    return "; ".join(filter(None, (_mark(data["rung"]), redo)))


def _mark(rung: str) -> str:
    """What has to be added to the name of the rung."""
    return "summarized without a model" if rung in WITHOUT_MODEL and rung != "fold" else ""


def failed(data: Data) -> str:
    """Why a rung failed, and which one is next; or why none was tried."""
    following = data.get("next")
    then = f"; trying {_RUNGS.get(following, following)}" if following else "; the context is unchanged"
    what = f"compaction by {_RUNGS.get(data['rung'], data['rung'])} failed"
    if data["code"] == NOTHING_TO_COMPACT:
        what = f"round {data['round']} changed nothing"
    return f"{what} ({data['code']}): {data['detail'].removesuffix('.')}{then}"


def cancelled(data: Data) -> str:
    return screen.joined(f"round {data['round']} was cancelled; the context is unchanged", cost(data.get("usage")))


def reverted(data: Data) -> str:
    return f"round {data['round']} was reverted; its messages are back in the context"


def discarded(data: Data) -> str:
    return screen.joined(f"the background summary of round {data['round']} was not needed", cost(data.get("usage")))


def pruned(data: Data) -> str:
    """`cleared 3 old outputs (read_file): 5,000 → 100 tokens (−98%)`."""
    tools = ", ".join(data.get("tools") or ())
    when = _PRUNED.get(data.get("reason", ""), "")
    named = f" ({tools})" if tools else ""
    images = data.get("image_ids") or ()
    what = plural(len(images), "image") if images else plural(data["outputs_pruned"], "old output")
    return f"cleared {what}{named}{when}: {change(data)}"


def change(data: Data) -> str:
    """`171,204 → 24,310 tokens (−86%)`."""
    before, after = data["tokens_before"], data["tokens_after"]
    percent = round(100 * (1 - after / before)) if before else 0
    return f"{before:,} → {after:,} tokens" + (f" (−{percent}%)" if percent > 0 else "")


def cost(usage: Data | None) -> str:
    """The usage of the round's model calls; empty if there were none."""
    if not usage or not any(value for name, value in usage.items() if name.endswith("_tokens")):
        return ""
    return screen.joined(screen.tokens(usage), screen.money(usage["cost_usd"]))


def without_model(state: Data | None) -> str:
    """`round 2 was summarized without a model (summary_empty: …)`; empty if no such round is in force."""
    if not state:
        return ""
    why = f" ({state['code']}: {one_line(state['detail'].removesuffix('.'), 200)})" if state["code"] else ""
    return f"round {state['round']} was summarized without a model{why}"


def list_line(item: Data) -> str:
    """One round of a list: number, state, policy, time, and result, in columns."""
    created = item["created_at"][:16].replace("T", " ")
    return f"{item['round']:>3}  {item['status']:<9}  {item['policy']:<9}  {created}  {_done(item)}".rstrip()


def _done(item: Data) -> str:
    if item["status"] in ("completed", "reverted"):
        by = f"{_RUNGS.get(item['rung'], item['rung'])} for {plural(item['messages_compacted'], 'message')}"
        cleared = f"{plural(item['outputs_pruned'], 'old output')} cleared" if item["outputs_pruned"] else ""
        return screen.joined(change(item), by, cleared, cost(item.get("usage")), _mark(item["rung"]))
    error = item.get("error")
    why = f"{one_line(error['detail'].removesuffix('.'), 200)} ({error['code']})" if error else ""
    return screen.joined(str(_REASONS.get(item["reason"], item["reason"])), why, cost(item.get("usage")))


def preview(item: Data, own: str) -> str:
    """The result of a dry run, in a few lines; `own` is the session's policy, the only one that runs automatically."""
    if not item["messages_compacted"] and not item["outputs_pruned"]:
        return f"A round would change nothing: no message of the {item['tokens_before']:,} tokens is old enough."
    replaced, cleared = item["messages_compacted"], item["outputs_pruned"]
    what = " and ".join(
        [
            *([f"replace {plural(replaced, 'message')} with a summary"] if replaced else []),
            *([f"clear {plural(cleared, 'old output')}"] if cleared else []),
        ]
    )
    acts = "the policy compacts automatically at"
    if item["policy"] != own:
        acts = f"as the session's policy, instead of {own}, it would compact automatically at"
    return (
        f"A round under {item['policy']} would {what}: {change(item)}.\n"
        f"The window has {item['limit']:,} tokens, {item['usable']:,} of them usable; {acts} {item['trigger']:,}."
        " Nothing was changed."
    )


def plural(count: int, noun: str) -> str:
    """`1 message`, `2 messages`."""
    return f"{count:,} {noun}{'s' * (count != 1)}"
