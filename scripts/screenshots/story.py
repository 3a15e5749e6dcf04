"""What the model says in the pictures, step by step."""

from __future__ import annotations

from typing import Any

from scripts.screenshots.shop import NEW_TEST
from tests.provider import Gate, Reasoning, Reply, Text, ToolCall

TASK = (
    "Some orders after midnight are charged at yesterday's exchange rate. Find out which and why, mend it, and add a"
    " test that fails without the change."
)

STEPS = (
    "Read the shop's code",
    "Find the orders that were charged wrongly",
    "Add a test, and see it fail",
    "Mend the rate that is kept too long",
    "Write down what happened",
)

SUMMARY = """\
## Task

Some orders after midnight are charged at yesterday's exchange rate: find out which and why, mend it, add a test.

## What is known

- `shop/rates.py` keeps rates in `_cache` **by currency alone**, so the first day that a worker asks for stays.
- On 17 November the four workers were restarted at 01:35; the ten orders before that were charged at 10.942 in place of
  11.108.
- `shop/orders.py` rounds once, at the end, and is right.

## Decisions

- The cache gets the day into its key; it stays small, since a day has three currencies.
- The total stays a property: others read it.

## Next step

Change `rate()`, then a test with two days in one process.
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
    """Looks through the logs, hour by hour, as agents do. The last of these steps stands at the gate."""
    said = (
        "The night of the 17th first: that is where the complaints are from.",
        "The rate changes in the middle of the night, and not at midnight. When exactly?",
        "Between 01:32 and 01:42. I compare with the day before.",
        "The 16th has one rate all day, so it is not the bank that was late.",
        "Now the orders of the first hours, by worker: did they change together?",
        "They did: they were restarted at 01:35. Does the morning look right?",
        "It does. I count what was charged wrongly.",
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
    steps = [Reply(Text(text, 6), run(command)) for text, command in zip(said[:-1], commands[:-1], strict=True)]
    return [*steps, Reply(Text(said[-1], 6), Gate(gate), run(commands[-1]))]


def answers(half: str, end: str) -> list[Any]:
    """The whole session; it stands at two gates: when half of it is done, and in the middle of its last sentence."""
    return [
        Reply(
            Reasoning("Wrong at night, right by day: something is kept too long, or a time zone is mixed up."),
            Text("I begin with the code that knows rates, and then look at what the logs say.", 8),
            plan(0),
            ToolCall("list_directory", {"path": "."}),
        ),
        Reply(Text("Rates, orders and the store are small; I read all three."), read("shop/rates.py")),
        Reply(read("shop/orders.py"), read("shop/store.py"), read("tests/test_orders.py")),
        Reply(
            Reasoning(
                "`_cache` has only the currency for its key. A worker that lives past midnight keeps the old one."
            ),
            Text("`_cache` looks suspicious: its key is the currency alone. Let us see whether the logs agree.", 8),
            plan(1),
        ),
        *hours(half),
        Reply(
            Text("Ten orders were charged at 10.942 after midnight. First the test, which has to fail.", 6),
            plan(2),
            ToolCall("write_file", {"path": "tests/test_orders.py", "content": NEW_TEST}),
            run("PYTHONPATH=. python3 -m unittest discover -s tests 2>&1"),
        ),
        Reply(
            Text("It fails as it should, at the second day. The key needs the day.", 4),
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
            Reasoning("The function asks by currency alone in three places; all of them take the pair."),
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
                "Green, and the test **fails without the change**. These orders were charged wrongly:\n\n"
                "| orders of 17 November | charged at | should be |\n| --- | ---: | ---: |\n"
                "| 00:00 to 01:35, ten of them | `10.942` | `11.108` |\n| all later ones | `11.108` | `11.108` |\n\n"
                "The cache holds a pair of currency and day now; what is left is a note for those who",
                30,
            ),
            Gate(end),
            Text(" refund the difference.", 3),
        ),
    ]
