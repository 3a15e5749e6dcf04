"""The page's own picture of a session, made of events: what is shown must not hang on how often, or in how many
connections, they came."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.async_api import Page

from tests.behaviour.harness import Client
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


HELD = """({ Held }, { messages, deeds }) => {
  const held = new Held();
  held.add(messages);
  for (const [name, ...rest] of deeds) held[name](...rest);
  return { order: held.order.value, first: held.first, result: held.result("c1").value?.output ?? null };
}"""


def _message(seq: int, role: str, *parts: dict[str, Any]) -> dict[str, Any]:
    return {"id": f"m{seq}", "seq": seq, "role": role, "parts": list(parts), "finish_reason": None, "voided_at": None}


CALLING = _message(2, "assistant", {"type": "tool_call", "id": "p1", "index": 0, "call_id": "c1"})
RESULT = _message(3, "tool", {"type": "tool_result", "id": "r1", "index": 0, "call_id": "c1", "output": "done"})
STRETCH = [_message(1, "user"), CALLING, RESULT, *(_message(seq, "user") for seq in range(4, 9))]


@pytest.mark.parametrize(("kept", "first"), [(5, 4), (6, 2), (7, 2)])
async def test_a_call_that_is_let_go_comes_back_with_its_result(bare: Page, kept: int, first: int) -> None:
    """What is loaded again is what lies before the first that is held."""
    deeds: list[list[Any]] = [["keepLast", kept]]
    shown = await module(bare, "state/held.js", HELD, {"messages": STRETCH, "deeds": deeds})
    assert shown["first"] == first

    deeds.append(["add", [message for message in STRETCH if message["seq"] < first]])
    shown = await module(bare, "state/held.js", HELD, {"messages": STRETCH, "deeds": deeds})
    assert (shown["first"], shown["result"]) == (1, "done")
    assert shown["order"] == [message["id"] for message in STRETCH]


async def test_fewer_messages_than_may_be_held_all_stay(bare: Page) -> None:
    deeds = [["keepLast", len(STRETCH)], ["keepFirst", len(STRETCH)]]

    shown = await module(bare, "state/held.js", HELD, {"messages": STRETCH, "deeds": deeds})

    assert shown["order"] == [message["id"] for message in STRETCH]


async def test_messages_that_are_loaded_anew_stay_in_the_signals_that_their_rows_look_at(bare: Page) -> None:
    script = """({ Held }, { before, after }) => {
      const held = new Held();
      held.add(before);
      const [stays, goes, result] = [held.message("m2"), held.message("m1"), held.result("c1")];
      held.replace(after);
      const same = stays === held.message("m2") && result === held.result("c1");
      return { same, role: stays.value.role, result: result.value, goes: held.message("m1") === undefined,
        order: held.order.value, first: held.first, last: held.last };
    }"""
    # As after the server's database was put back to a state in which the call had no result yet.
    after = [{**CALLING, "finish_reason": "cancelled"}, _message(9, "user")]

    found = await module(bare, "state/held.js", script, {"before": STRETCH, "after": after})

    assert found == {
        "same": True, "role": "assistant", "result": None, "goes": True, "order": ["m2", "m9"], "first": 2, "last": 9,
    }  # fmt: skip


@pytest.mark.parametrize("is_held", [True, False])
async def test_a_result_is_held_with_its_message_alone(bare: Page, is_held: bool) -> None:
    script = """({ Transcript }, [part, isHeld, at]) => {
      const transcript = new Transcript("of nobody");
      transcript.hasLater.value = !isHeld;
      transcript.resulted(part, "t1", 3, at);
      return { order: transcript.order.value, result: transcript.result("c1").value?.output ?? null };
    }"""

    found = await module(bare, "state/transcript.js", script, [RESULT["parts"][0], is_held, AT])

    assert (found["order"], found["result"]) == ((["t1"], "done") if is_held else ([], None))


async def test_a_call_that_is_shown_has_its_result_whether_or_not_later_messages_are_held(bare: Page) -> None:
    script = """({ Transcript }, [calling, part, at]) => {
      const transcript = new Transcript("of nobody");
      transcript.created(calling);
      const shown = transcript.result("c1");
      transcript.hasLater.value = true;
      transcript.resulted(part, "t1", 3, at);
      return { order: transcript.order.value, result: shown.value.output };
    }"""

    found = await module(bare, "state/transcript.js", script, [CALLING, RESULT["parts"][0], AT])

    assert found == {"order": ["m2"], "result": "done"}


@pytest.mark.parametrize(("events", "asked"), [(999, 1), (5_000, 2)])
async def test_a_page_that_much_happens_during_is_asked_for_again(
    bare: Page, client: Client, events: int, asked: int
) -> None:
    """So that what happens need not be kept for however long a page takes."""
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
