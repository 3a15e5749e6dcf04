"""Formatting of numbers, and of text with control and invisible characters."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.async_api import Page

from tests.dashboard import IN_BROWSER
from tests.dashboard.browser import module

pytestmark = [*IN_BROWSER]


PLAIN = {
    "as it is\twith\ttabs\nand lines": "as it is\twith\ttabs\nand lines",
    "\x1b[1;31mred\x1b[0m": "red",
    "\x1b]0;title\x07after": "after",
    "\x1b]8;;https://example.org\x1b\\link\x1b]8;;\x1b\\": "link",
    "\x1b[2J\x1b[H\x1b[?25lcleared": "cleared",
    "\x1b(Bset": "set",
    "one\r\ntwo": "one\ntwo",
    "over\rwritten": "over␍written",
    "bell\x07 null\x00 delete\x7f": "bell␇ null␀ delete‹U+007F›",
    "a\u202egnp.exe": "a‹U+202E›gnp.exe",
    "\u2066\u2069\u200e\u200f\u061c\ufeff": "‹U+2066›‹U+2069›‹U+200E›‹U+200F›‹U+061C›‹U+FEFF›",
    "\x9b31mC1": "‹U+009B›31mC1",
    "\x1b": "␛",
    "zero\u200bwidth": "zero‹U+200B›width",
    "tag\U000e0041s\u2028": "tag‹U+E0041›s‹U+2028›",
    "שלום and مرحبا stay": "שלום and مرحبا stay",
    "👩\u200d💻 stays": "👩\u200d💻 stays",
}


async def test_escape_codes_are_removed_and_invisible_characters_are_shown(bare: Page) -> None:
    script = "({ plain }, texts) => texts.map(plain)"

    found = await module(bare, "core/format.js", script, list(PLAIN))

    assert dict(zip(PLAIN, found, strict=True)) == PLAIN


PREVIEWS = {
    "# All tests pass.\n\n- **Cause**: `total`\n2. [the fix](http://x/a)": "All tests pass.  Cause: total the fix",
    "> said\n```python\nx = a * b * c - 1\n```": "said  x = a * b * c - 1",
    "snake_case stays, a <b> and 3. too": "snake_case stays, a <b> and 3. too",
    "![" * 50_000: "![" * 50_000,
}
AGES = {
    "2026-11-26T09:59:30": "30 sec. ago",
    "2026-11-26T09:59:00.300": "1 min. ago",
    "2026-11-25T23:20:00": "11 hr. ago",
    "2026-11-25T08:00:00": "yesterday",
    "2026-11-24T23:00:00": "2 days ago",
    "2026-09-26T10:00:00": "2 mo. ago",
    "2026-11-26T10:00:00": "now",
    "2026-11-26T10:05:00": "in 5 min.",
    "2024-11-01T10:00:00": "2 yr. ago",
}


async def test_previews_and_ages(bare: Page) -> None:
    previews = await module(bare, "core/format.js", "({ markdownLine }, texts) => texts.map(markdownLine)", [*PREVIEWS])
    script = "({ ago }, times) => times.map((time) => ago(time, new Date('2026-11-26T10:00:00').getTime()))"
    ages = await module(bare, "core/format.js", script, [*AGES])

    assert dict(zip(PREVIEWS, previews, strict=True)) == PREVIEWS
    assert dict(zip(AGES, ages, strict=True)) == AGES


STEPS = [
    # step, attempt, start in s, ms of all, of the model, and waiting; the last round before it
    (1, 1, 0, None, 400, 0, 0),
    (1, 2, 2, 5_000, 1_000, 1_500, 0),
    (2, 1, 9, 1_000, 250, 0, 1),
    (3, 1, 10, 300, None, 0, 2),
    (4, 1, 11, None, None, 0, 2),
]


async def test_the_time_of_a_step_has_parts(bare: Page) -> None:
    """A retry is the model's time, and of a round only what held the next step up."""
    names = ("step", "attempt", "started_at", "duration_ms", "model_ms", "waiting_ms", "compaction_round")
    attempts: list[dict[str, Any]] = [dict(zip(names, step, strict=True)) for step in STEPS]
    for attempt in attempts:
        attempt["started_at"] = f"2026-11-26T10:00:{attempt['started_at']:02}.000Z"
        attempt["finish_reason"] = None if attempt["step"] == 4 else "stop"
    rounds = [{"round": 1, "duration_ms": 3_000}, {"round": 2, "duration_ms": 9_000}]

    script = "({ timesOf, sumTimes }, [attempts, rounds]) => { const times = timesOf(attempts, rounds);"
    found, total = await module(
        bare, "core/step_times.js", f"{script} return [times, sumTimes(times)]; }}", [attempts, rounds]
    )

    assert found == [
        {"step": 1, "model": 3_000, "tools": 500, "waiting": 1_500, "compaction": 0, "total": 5_000},
        {"step": 2, "model": 250, "tools": 750, "waiting": 0, "compaction": 3_000, "total": 4_000},
        {"step": 3, "model": None, "tools": None, "waiting": 0, "compaction": 0, "total": 300},
    ]
    assert total == {"model": 3_250, "tools": 1_250, "waiting": 1_500, "compaction": 3_000, "total": 9_300}


async def test_a_name_stays_on_one_line(bare: Page) -> None:
    found = await module(bare, "core/format.js", "({ plainLine }, text) => plainLine(text)", "a\nb\tc\x1b[0m\u202ed")

    assert found == "a b c‹U+202E›d"


NUMBERS: list[tuple[str, Any, str]] = [
    ("count", 12_345, "12,345"),
    ("count", None, "–"),
    ("compact", 12_345, "12.3K"),
    ("dollars", 0, "$0"),
    ("dollars", 0.001234, "$0.0012"),
    ("dollars", 0.5, "$0.500"),
    ("dollars", 12.3, "$12.30"),
    ("dollars", None, "–"),
    ("bytes", 0, "0 B"),
    ("bytes", 1023, "1023 B"),
    ("bytes", 1536, "1.5 KiB"),
    ("bytes", 5 * 2**20, "5.0 MiB"),
    ("duration", 85, "85 ms"),
    ("duration", 1200, "1.2 s"),
    ("duration", 59_700, "1 min 0 s"),
    ("duration", 119_900, "2 min 0 s"),
    ("duration", 185_000, "3 min 5 s"),
    ("duration", 7_440_000, "2 h 4 min"),
    ("percent", 0.424, "42%"),
    ("percent", None, "–"),
]


@pytest.mark.parametrize("function", sorted({name for name, _, _ in NUMBERS}))
async def test_numbers_are_human_readable(bare: Page, function: str) -> None:
    rows = [(value, shown) for name, value, shown in NUMBERS if name == function]
    script = "(format, [name, values]) => values.map((value) => format[name](value))"

    found = await module(bare, "core/format.js", script, [function, [value for value, _ in rows]])

    assert found == [shown for _, shown in rows]


async def test_numbers_are_grouped_and_shortened_as_by_the_browser(bare: Page) -> None:
    """Formatted without `Intl`, which takes too long for the first view."""
    script = """({ count, compact }, numbers) => {
      const short = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });
      return numbers.map((number) => [
        [count(number), number.toLocaleString("en")],
        [compact(number), short.format(number)],
      ]);
    }"""
    numbers = [0, 7, 999, 1_000, 1_234, 9_995, 999_499, 999_500, 1_000_000, 12_345_678, 999_999_999, -1_234, 10**13]
    found = await module(bare, "core/format.js", script, numbers)

    assert all(ours == theirs for pairs in found for ours, theirs in pairs), found
