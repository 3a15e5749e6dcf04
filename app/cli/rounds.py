"""Compaction rounds as text: one line per event, and one per round of a list."""

from __future__ import annotations

from typing import Any

from app.cli import amounts
from app.cli.screen import one_line

Data = dict[str, Any]

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

NOTHING_TO_COMPACT = "nothing_to_compact"
"""The code of a round that had nothing to compact."""

_PRUNED = {"trigger": "", "run_end": " at the end of the run", "model_change": " after a change of model"}


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
    return amounts.joined(
        f"compacted {plural(data['messages_compacted'], 'message')} by {_RUNGS.get(data['rung'], data['rung'])},"
        f" round {data['round']}: {change(data)}",
        f"{plural(cleared, 'old output')} cleared" if cleared else "",
        amounts.seconds(data["duration_ms"] / 1000),
        cost(data.get("usage")),
    )


def failed(data: Data) -> str:
    """Why a rung failed, and which one is next; or why none was tried."""
    following = data.get("next")
    then = f"; trying {_RUNGS.get(following, following)}" if following else "; the context is unchanged"
    what = f"compaction by {_RUNGS.get(data['rung'], data['rung'])} failed"
    if data["code"] == NOTHING_TO_COMPACT:
        what = f"round {data['round']} changed nothing"
    return f"{what} ({data['code']}): {data['detail'].removesuffix('.')}{then}"


def cancelled(data: Data) -> str:
    return amounts.joined(f"round {data['round']} was cancelled; the context is unchanged", cost(data.get("usage")))


def reverted(data: Data) -> str:
    return f"round {data['round']} was reverted; its messages are back in the context"


def discarded(data: Data) -> str:
    return amounts.joined(f"the background summary of round {data['round']} was not needed", cost(data.get("usage")))


def pruned(data: Data) -> str:
    """`cleared 3 old outputs (read_file): 5,000 → 100 tokens (−98%)`."""
    tools = ", ".join(data.get("tools") or ())
    when = _PRUNED.get(data.get("reason", ""), "")
    named = f" ({tools})" if tools else ""
    return f"cleared {plural(data['outputs_pruned'], 'old output')}{named}{when}: {change(data)}"


def change(data: Data) -> str:
    """`171,204 → 24,310 tokens (−86%)`."""
    before, after = data["tokens_before"], data["tokens_after"]
    percent = round(100 * (1 - after / before)) if before else 0
    return f"{before:,} → {after:,} tokens" + (f" (−{percent}%)" if percent > 0 else "")


def cost(usage: Data | None) -> str:
    """The usage of the round's model calls; empty if there were none."""
    if not usage or not any(value for name, value in usage.items() if name.endswith("_tokens")):
        return ""
    return amounts.joined(amounts.tokens(usage), amounts.money(usage["cost_usd"]))


def list_line(item: Data) -> str:
    """One round of a list: number, state, policy, time, and result, in columns."""
    created = item["created_at"][:16].replace("T", " ")
    return f"{item['round']:>3}  {item['status']:<9}  {item['policy']:<9}  {created}  {_done(item)}".rstrip()


def _done(item: Data) -> str:
    if item["status"] in ("completed", "reverted"):
        by = f"{_RUNGS.get(item['rung'], item['rung'])} for {plural(item['messages_compacted'], 'message')}"
        cleared = f"{plural(item['outputs_pruned'], 'old output')} cleared" if item["outputs_pruned"] else ""
        return amounts.joined(change(item), by, cleared, cost(item.get("usage")))
    error = item.get("error")
    why = f"{one_line(error['detail'].removesuffix('.'), 200)} ({error['code']})" if error else ""
    return amounts.joined(str(_REASONS.get(item["reason"], item["reason"])), why, cost(item.get("usage")))


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
