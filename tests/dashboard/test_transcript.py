"""The transcript built from events: it must not depend on how often, or over how many connections, they arrive."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.async_api import Page

from tests.behavior.harness import Client
from tests.dashboard import IN_BROWSER
from tests.dashboard.browser import module

pytestmark = [*IN_BROWSER]

AT = "2026-01-01T00:00:00.000Z"

APPLY = """async ({ Transcript }, calls) => {
  const transcript = new Transcript("absent");
  const answers = calls.map(([name, ...rest]) => transcript[name](...rest));
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


async def applied(bare: Page, *calls: Any) -> dict[str, Any]:
    """A transcript after these calls, each a method with its arguments."""
    found: dict[str, Any] = await module(bare, "state/transcript.js", APPLY, [list(call) for call in calls])
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


async def test_deltas_make_one_text_which_the_completed_event_replaces(bare: Page) -> None:
    shown = await applied(bare, started(), delta(0, "half "), delta(5, "of it"))
    assert [message["parts"] for message in shown["messages"]] == [
        [{"type": "text", "said": "half of it", "open": True}]
    ]

    shown = await applied(bare, started(), delta(0, "half "), delta(5, "of it"), completed("half"))
    assert [message["parts"] for message in shown["messages"]] == [[{"type": "text", "said": "half", "open": False}]]


async def test_a_new_connection_restarts_each_text(bare: Page) -> None:
    shown = await applied(bare, started(), delta(0, "one two"), ("connected",), delta(0, "one"), delta(3, " three"))

    assert said(shown) == ["one three"]


async def test_a_gap_is_reported_and_never_shown(bare: Page) -> None:
    shown = await applied(bare, started(), delta(0, "one"), delta(5, "x"))

    assert shown["answers"][1:] == [True, False]
    assert said(shown) == ["one"]


async def test_deltas_for_a_completed_part_are_ignored(bare: Page) -> None:
    finished = ("stepFinished", {"message_id": "m1", "finish_reason": "stop"})

    shown = await applied(bare, started(), delta(0, "ab"), completed("abc"), delta(2, "!"), finished, delta(0, "late"))

    assert said(shown) == ["abc"]
    assert shown["messages"][0]["finish_reason"] == "stop"


async def test_deltas_for_a_message_that_was_loaded_whole_are_ignored(bare: Page) -> None:
    """A node whose events come later than those of the one that was asked for the messages sends some."""
    part = {"id": "p1", "index": 0, "type": "text", "text": "abc"}
    message = {"id": "m1", "seq": 1, "role": "assistant", "parts": [part], "finish_reason": "stop", "voided_at": None}

    shown = await applied(bare, ("created", message), delta(0, "a"))

    assert shown["answers"][1] is True
    assert [message["parts"] for message in shown["messages"]] == [[{"type": "text", "said": "abc", "open": False}]]


async def test_a_retried_attempt_is_removed_with_all_its_parts(bare: Page) -> None:
    voided = ("voided", {"message_id": "m1", "at": AT})

    shown = await applied(
        bare, started(), delta(0, "first try"), voided, started(2, "m2"), delta(0, "second", message="m2")
    )

    assert said(shown) == ["second"]


async def test_messages_are_in_log_order_whatever_order_they_arrive_in(bare: Page) -> None:
    def created(seq: int) -> tuple[Any, ...]:
        message = {"id": f"m{seq}", "seq": seq, "role": "user", "parts": [], "finish_reason": None, "voided_at": None}
        return ("created", message)

    shown = await applied(bare, created(2), created(9), created(5), created(9), created(2))

    assert [message["id"] for message in shown["messages"]] == ["m2", "m5", "m9"]


async def test_a_result_is_found_by_its_call_and_replaces_the_live_output(bare: Page) -> None:
    output = ("output", {"call_id": "c1", "part_id": "r1", "offset": 0, "text": "live", "stream": "stdout"})
    result = {"id": "r1", "index": 0, "type": "tool_result", "call_id": "c1", "output": "all of it"}
    resulted = ("resulted", result, "t1", 3, AT)

    shown = await applied(bare, started(), output)
    assert (shown["preview"], shown["result"]) == ("live", None)

    for calls in [(output, resulted), (output, resulted, resulted, output), (resulted, output)]:
        shown = await applied(bare, started(), *calls)
        assert (shown["preview"], shown["result"]) == ("", "all of it")


@pytest.mark.parametrize("kind", ["text", "reasoning", "tool_call"])
async def test_applying_events_twice_is_harmless(bare: Page, kind: str) -> None:
    calls = [started(), delta(0, "a😀", kind), delta(2, "b", kind)]

    once = await applied(bare, *calls)
    twice = await applied(bare, *calls, ("connected",), *calls)

    assert said(once) == ["a😀b"]
    assert once["messages"] == twice["messages"]


HELD = """({ Held }, { messages, calls }) => {
  const held = new Held();
  held.add(messages);
  for (const [name, ...rest] of calls) held[name](...rest);
  return { order: held.order.value, first: held.first, result: held.result("c1").value?.output ?? null };
}"""


def _message(seq: int, role: str, *parts: dict[str, Any]) -> dict[str, Any]:
    return {"id": f"m{seq}", "seq": seq, "role": role, "parts": list(parts), "finish_reason": None, "voided_at": None}


CALLING = _message(2, "assistant", {"type": "tool_call", "id": "p1", "index": 0, "call_id": "c1"})
RESULT = _message(3, "tool", {"type": "tool_result", "id": "r1", "index": 0, "call_id": "c1", "output": "done"})
RANGE = [_message(1, "user"), CALLING, RESULT, *(_message(seq, "user") for seq in range(4, 9))]


@pytest.mark.parametrize(("kept", "first"), [(5, 4), (6, 2), (7, 2)])
async def test_a_dropped_call_is_loaded_again_with_its_result(bare: Page, kept: int, first: int) -> None:
    """Only messages before the first loaded one are loaded again."""
    calls: list[list[Any]] = [["keepLast", kept]]
    shown = await module(bare, "state/held.js", HELD, {"messages": RANGE, "calls": calls})
    assert shown["first"] == first

    calls.append(["add", [message for message in RANGE if message["seq"] < first]])
    shown = await module(bare, "state/held.js", HELD, {"messages": RANGE, "calls": calls})
    assert (shown["first"], shown["result"]) == (1, "done")
    assert shown["order"] == [message["id"] for message in RANGE]


async def test_no_message_is_dropped_below_the_maximum(bare: Page) -> None:
    calls = [["keepLast", len(RANGE)], ["keepFirst", len(RANGE)]]

    shown = await module(bare, "state/held.js", HELD, {"messages": RANGE, "calls": calls})

    assert shown["order"] == [message["id"] for message in RANGE]


async def test_reloaded_messages_keep_the_signals_of_their_rows(bare: Page) -> None:
    script = """({ Held }, { before, after }) => {
      const held = new Held();
      held.add(before);
      const [stays, goes, result] = [held.message("m2"), held.message("m1"), held.result("c1")];
      held.replace(after);
      const same = stays === held.message("m2") && result === held.result("c1");
      return { same, role: stays.value.role, result: result.value, goes: held.message("m1") === undefined,
        order: held.order.value, first: held.first, last: held.last };
    }"""
    # As if the server's database was restored to a state in which the call had no result yet.
    after = [{**CALLING, "finish_reason": "cancelled"}, _message(9, "user")]

    found = await module(bare, "state/held.js", script, {"before": RANGE, "after": after})

    assert found == {
        "same": True, "role": "assistant", "result": None, "goes": True, "order": ["m2", "m9"], "first": 2, "last": 9,
    }  # fmt: skip


@pytest.mark.parametrize("is_held", [True, False])
async def test_a_result_is_only_kept_with_its_message(bare: Page, is_held: bool) -> None:
    script = """({ Transcript }, [part, isHeld, at]) => {
      const transcript = new Transcript("absent");
      transcript.hasLater.value = !isHeld;
      transcript.resulted(part, "t1", 3, at);
      return { order: transcript.order.value, result: transcript.result("c1").value?.output ?? null };
    }"""

    found = await module(bare, "state/transcript.js", script, [RESULT["parts"][0], is_held, AT])

    assert (found["order"], found["result"]) == ((["t1"], "done") if is_held else ([], None))


async def test_a_shown_call_gets_its_result_even_if_later_messages_are_not_loaded(bare: Page) -> None:
    script = """({ Transcript }, [calling, part, at]) => {
      const transcript = new Transcript("absent");
      transcript.created(calling);
      const shown = transcript.result("c1");
      transcript.hasLater.value = true;
      transcript.resulted(part, "t1", 3, at);
      return { order: transcript.order.value, result: shown.value.output };
    }"""

    found = await module(bare, "state/transcript.js", script, [CALLING, RESULT["parts"][0], AT])

    assert found == {"order": ["m2"], "result": "done"}


@pytest.mark.parametrize(("events", "asked"), [(999, 1), (5_000, 2)])
async def test_a_page_is_requested_again_after_too_many_events(
    bare: Page, client: Client, events: int, asked: int
) -> None:
    """So that events need not be kept for as long as a page takes to load."""
    history = {"format": "openai", "messages": [{"role": "user", "content": "Asked."}]}
    made = await client.create(history=history)
    script = """async ({ Transcript }, [id, events, at]) => {
      const transcript = new Transcript(id);
      performance.clearResourceTimings();
      const loaded = transcript.loadOldest();
      for (let event = 0; event < events; event += 1) transcript.voided({ message_id: `${event}`, at });
      await loaded;
      const asked = performance.getEntriesByType("resource").filter(({ name }) => name.includes(`${id}/messages`));
      return { asked: asked.length, held: transcript.order.value.length };
    }"""

    found = await module(bare, "state/transcript.js", script, [made["id"], events, AT])

    assert found == {"asked": asked, "held": 1}
