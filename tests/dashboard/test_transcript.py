"""The page's own picture of a session, made of events: what is shown must not hang on how often, or in how many
connections, they came."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.async_api import Page

from tests.dashboard import IN_BROWSER
from tests.dashboard.browser import module

pytestmark = [*IN_BROWSER]

AT = "2026-01-01T00:00:00.000Z"

TOLD = """async ({ Transcript }, deeds) => {
  const transcript = new Transcript("of nobody");
  const answers = deeds.map(([name, ...rest]) => transcript[name](...rest));
  transcript.flush();
  const messages = transcript.order.value.map((id) => {
    const { role, parts, finish_reason } = transcript.message(id).value;
    return {
      id, role, finish_reason,
      parts: parts.map(({ type, text, written, arguments: args, output, open = false }) =>
        ({ type, said: text ?? written ?? output ?? args, open })),
    };
  });
  const result = transcript.result("c1").value;
  return { answers, messages, result: result?.output ?? null, preview: transcript.preview("c1").value };
}"""


async def told(bare: Page, *deeds: Any) -> dict[str, Any]:
    """What a transcript shows that was told this, each a method and what it is called with."""
    found: dict[str, Any] = await module(bare, "state/transcript.js", TOLD, [list(deed) for deed in deeds])
    return found


def started(seq: int = 1, message: str = "m1") -> tuple[Any, ...]:
    return ("stepStarted", seq, {"message_id": message, "at": AT})


def delta(offset: int, text: str, kind: str = "text", part: str = "p1", message: str = "m1") -> tuple[Any, ...]:
    data = {"message_id": message, "part_id": part, "index": 0, "offset": offset, "text": text, "name": "read_file"}
    return ("delta", kind, data)


def completed(text: str) -> tuple[Any, ...]:
    return ("partCompleted", {"id": "p1", "index": 0, "type": "text", "text": text, "interrupted": False}, "m1")


def said(shown: dict[str, Any]) -> list[Any]:
    return [part["said"] for message in shown["messages"] for part in message["parts"]]


async def test_deltas_are_one_text_and_the_closing_event_replaces_it(bare: Page) -> None:
    shown = await told(bare, started(), delta(0, "half "), delta(5, "of it"))
    assert [message["parts"] for message in shown["messages"]] == [
        [{"type": "text", "said": "half of it", "open": True}]
    ]

    shown = await told(bare, started(), delta(0, "half "), delta(5, "of it"), completed("half"))
    assert [message["parts"] for message in shown["messages"]] == [[{"type": "text", "said": "half", "open": False}]]


async def test_a_new_connection_begins_each_text_again(bare: Page) -> None:
    shown = await told(bare, started(), delta(0, "one two"), ("connected",), delta(0, "one"), delta(3, " three"))

    assert said(shown) == ["one three"]


async def test_a_hole_is_told_and_never_shown(bare: Page) -> None:
    shown = await told(bare, started(), delta(0, "one"), delta(5, "x"))

    assert shown["answers"][1:] == [True, False]
    assert said(shown) == ["one"]


async def test_what_comes_for_a_closed_part_changes_nothing(bare: Page) -> None:
    finished = ("stepFinished", {"message_id": "m1", "finish_reason": "stop"})

    shown = await told(bare, started(), delta(0, "ab"), completed("abc"), delta(2, "!"), finished, delta(0, "late"))

    assert said(shown) == ["abc"]
    assert shown["messages"][0]["finish_reason"] == "stop"


async def test_a_retried_attempt_is_taken_out_with_all_its_parts(bare: Page) -> None:
    voided = ("voided", {"message_id": "m1", "at": AT})

    shown = await told(
        bare, started(), delta(0, "first try"), voided, started(2, "m2"), delta(0, "second", message="m2")
    )

    assert said(shown) == ["second"]


async def test_messages_stand_in_the_order_of_the_log_whatever_order_they_come_in(bare: Page) -> None:
    def created(seq: int) -> tuple[Any, ...]:
        message = {"id": f"m{seq}", "seq": seq, "role": "user", "parts": [], "finish_reason": None, "voided_at": None}
        return ("created", message)

    shown = await told(bare, created(2), created(9), created(5), created(9), created(2))

    assert [message["id"] for message in shown["messages"]] == ["m2", "m5", "m9"]


async def test_a_result_is_found_by_its_call_and_takes_the_place_of_the_live_output(bare: Page) -> None:
    output = ("output", {"call_id": "c1", "part_id": "r1", "offset": 0, "text": "live", "stream": "stdout"})
    result = {"id": "r1", "index": 0, "type": "tool_result", "call_id": "c1", "output": "all of it"}
    resulted = ("resulted", result, "t1", 3, AT)

    shown = await told(bare, started(), output)
    assert (shown["preview"], shown["result"]) == ("live", None)

    for deeds in [(output, resulted), (output, resulted, resulted, output), (resulted, output)]:
        shown = await told(bare, started(), *deeds)
        assert (shown["preview"], shown["result"]) == ("", "all of it")


@pytest.mark.parametrize("kind", ["text", "reasoning", "tool_call"])
async def test_any_events_twice_give_what_they_give_once(bare: Page, kind: str) -> None:
    deeds = [started(), delta(0, "a😀", kind), delta(2, "b", kind)]

    once = await told(bare, *deeds)
    twice = await told(bare, *deeds, ("connected",), *deeds)

    assert said(once) == ["a😀b"]
    assert once["messages"] == twice["messages"]
