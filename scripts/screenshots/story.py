"""The model's answers in the screenshots, step by step."""

from __future__ import annotations

from typing import Any

from scripts.screenshots.shop import NEW_TEST
from tests.provider import Gate, Reasoning, Reply, Text, ToolCall

TASK = (
    "Some orders after midnight are charged at yesterday's exchange rate. Find out which and why, fix it, and add a"
    " test that fails without the fix."
)

STEPS = (
    "Read the shop's code",
    "Find the orders that were charged wrongly",
    "Add a failing test",
    "Fix the stale exchange rate",
    "Summarize what happened",
)

SUMMARY = """\
## Task

Some orders after midnight are charged at yesterday's exchange rate: find out which and why, fix it, add a test.

## Findings

- `shop/rates.py` caches rates in `_cache` **by currency only**, so a worker keeps the rates of the first day it loads.
- On November 17 the four workers were restarted at 01:35; the ten orders before that were charged at 10.942 instead of
  11.108.
- `shop/orders.py` rounds once, at the end, and is correct.

## Decisions

- Add the day to the cache key; the cache stays small, since there are only three currencies per day.
- Keep `total` a property, since other code reads it.

## Next step

Change `rate()`, then add a test with two days in one process.
"""


def plan(done: int) -> ToolCall:
    states = ["completed" if at < done else "in_progress" if at == done else "pending" for at in range(len(STEPS))]
    items = [{"text": text, "status": state} for text, state in zip(STEPS, states, strict=True)]
    return ToolCall("update_plan", {"items": items})


def run(command: str) -> ToolCall:
    return ToolCall("execute_command", {"command": command})


def read(path: str) -> ToolCall:
    return ToolCall("read_file", {"path": path})


def hours(gate: str) -> list[Any]:
    """Searches the logs, hour by hour. The last of these steps waits at the gate."""
    texts = (
        "I'll start with the night of the 17th, where the complaints come from.",
        "The rate changes in the middle of the night, not at midnight. When exactly?",
        "Between 01:32 and 01:42. Let me compare with the day before.",
        "The 16th has one rate all day, so the bank wasn't late.",
        "Now the orders of the first hours, by worker: did they change together?",
        "They did: they were restarted at 01:35. Does the morning look right?",
        "It does. Let me count the orders that were charged wrongly.",
    )
    commands = (
        "head -n 40 logs/orders-2026-11-17.log",
        "grep -n 'T0[01]:' logs/orders-2026-11-17.log",
        "sed -n '1,60p' logs/orders-2026-11-16.log",
        "cut -d' ' -f1,7 logs/orders-2026-11-16.log | head -n 90",
        "grep 'T0[0-3]:' logs/orders-2026-11-17.log | sort -t= -k6",
        "sed -n '40,95p' logs/orders-2026-11-17.log",
        "grep -c 'rate=10.942' logs/orders-2026-11-17.log; grep 'rate=10.942' logs/orders-2026-11-17.log",
    )
    steps = [Reply(Text(text, 6), run(command)) for text, command in zip(texts[:-1], commands[:-1], strict=True)]
    return [*steps, Reply(Text(texts[-1], 6), Gate(gate), run(commands[-1]))]


def answers(half: str, end: str) -> list[Any]:
    """The whole session; it waits at two gates: halfway, and in the middle of its last sentence."""
    return [
        Reply(
            Reasoning("Wrong at night, right by day: something is cached too long, or a time zone is wrong."),
            Text("I'll start with the code for exchange rates, then look at the logs.", 8),
            plan(0),
            ToolCall("list_directory", {"path": "."}),
        ),
        Reply(Text("Rates, orders and the store are small; I'll read all three."), read("shop/rates.py")),
        Reply(read("shop/orders.py"), read("shop/store.py"), read("tests/test_orders.py")),
        Reply(
            Reasoning(
                "`_cache` uses only the currency as its key. A worker that runs past midnight keeps the old rate."
            ),
            Text("`_cache` looks suspicious: its key is only the currency. Let me check whether the logs agree.", 8),
            plan(1),
        ),
        *hours(half),
        Reply(
            Text("Ten orders were charged at 10.942 after midnight. First, a failing test.", 6),
            plan(2),
            ToolCall("write_file", {"path": "tests/test_orders.py", "content": NEW_TEST}),
            run("PYTHONPATH=. python3 -m unittest discover -s tests 2>&1"),
        ),
        Reply(
            Text("It fails as expected, on the second day. The key needs the day.", 4),
            plan(3),
            ToolCall(
                "edit_file",
                {
                    "path": "shop/rates.py",
                    "old_text": "_cache: dict[str, Decimal] = {}\n",
                    "new_text": "_cache: dict[tuple[str, date], Decimal] = {}\n",
                },
            ),
        ),
        Reply(
            Reasoning("The function uses the currency as the key in three places; all of them need the pair."),
            ToolCall(
                "edit_file",
                {
                    "path": "shop/rates.py",
                    "old_text": "    if currency not in _cache:\n"
                    '        _cache[currency] = load("rates", day)[currency]\n'
                    "    return _cache[currency]\n",
                    "new_text": "    key = currency, day\n"
                    "    if key not in _cache:\n"
                    '        _cache[key] = load("rates", day)[currency]\n'
                    "    return _cache[key]\n",
                },
            ),
            run("PYTHONPATH=. python3 -m unittest discover -s tests 2>&1"),
        ),
        Reply(
            Text(
                "All tests pass, and the new one **fails without the fix**. These orders were charged wrongly:\n\n"
                "| orders of November 17 | charged at | should be |\n| --- | ---: | ---: |\n"
                "| 00:00 to 01:35, ten orders | `10.942` | `11.108` |\n| all later ones | `11.108` | `11.108` |\n\n"
                "The cache key is now the currency and the day. What is left is a note for those who",
                30,
            ),
            Gate(end),
            Text(" refund the difference.", 3),
        ),
    ]
