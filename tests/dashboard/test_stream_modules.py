"""How the page parses streams: events from text cut anywhere, and texts from deltas with offsets."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.async_api import Page

from tests.dashboard import IN_BROWSER
from tests.dashboard.browser import module

pytestmark = [*IN_BROWSER]

PARSED = """({ EventParser }, pieces) => {
  const events = [];
  const parser = new EventParser((event) => events.push(event));
  for (const piece of pieces) parser.feed(piece);
  return events;
}"""

CUT_EVERYWHERE = """({ EventParser }, stream) => {
  const parsed = (...pieces) => {
    const events = [];
    const parser = new EventParser((event) => events.push(event));
    for (const piece of pieces) parser.feed(piece);
    return JSON.stringify(events);
  };
  const whole = parsed(stream);
  const wrong = [];
  for (let one = 0; one <= stream.length; one += 1) {
    for (let two = one; two <= stream.length; two += 1) {
      const pieces = [stream.slice(0, one), stream.slice(one, two), stream.slice(two)];
      if (parsed(...pieces) !== whole) wrong.push(pieces);
    }
  }
  if (parsed(...stream) !== whole) wrong.push("one by one");
  return { events: JSON.parse(whole), wrong };
}"""


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
async def test_events_are_the_same_wherever_the_stream_is_cut(bare: Page, end: str) -> None:
    lines = ("retry: 1000", "", "id: 7", "event: text.completed", 'data: {"a":1}', "", ":ping", "", "data: x", "data:y")
    stream = end.join([*lines, "", "event: lost", ""])

    found = await module(bare, "core/sse.js", CUT_EVERYWHERE, stream)

    assert found["wrong"] == []
    assert found["events"] == [
        {"id": "7", "type": "text.completed", "data": '{"a":1}'},
        {"id": None, "type": "message", "data": "x\ny"},
    ]


async def test_only_events_with_data_are_dispatched_and_ids_do_not_carry_over(bare: Page) -> None:
    stream = "id: 1\n\nid: 2\nevent: a\ndata\n\ndata:  two spaces\n\nid: x\0y\ndata: z\nunknown: field\n\n"

    events = await module(bare, "core/sse.js", PARSED, [stream])

    assert events == [
        {"id": "2", "type": "a", "data": ""},
        {"id": None, "type": "message", "data": " two spaces"},
        {"id": None, "type": "message", "data": "z"},
    ]


async def test_a_long_event_in_many_pieces_is_parsed_in_reasonable_time(bare: Page) -> None:
    script = """({ EventParser }) => {
      let length = 0;
      const parser = new EventParser(({ data }) => (length = data.length));
      const begun = performance.now();
      parser.feed("data: ");
      for (let piece = 0; piece < 320; piece += 1) parser.feed("x".repeat(16384));
      parser.feed("\\n\\n");
      return { length, ms: performance.now() - begun };
    }"""

    found = await module(bare, "core/sse.js", script)

    assert found["length"] == 320 * 16_384
    assert found["ms"] < 5_000


@pytest.mark.parametrize("text", ["", "abc", "a😀b", "😀😀", "\ud83d".join("ab"), "e\u0301𝒳"])
async def test_lengths_and_cuts_are_in_code_points(bare: Page, text: str) -> None:
    script = """({ pointsIn, firstPoints }, text) => ({
      points: pointsIn(text),
      first: Array.from({ length: text.length + 2 }, (_, count) => firstPoints(text, count)),
      wanted: Array.from({ length: text.length + 2 }, (_, count) => [...text].slice(0, count).join("")),
      whole: [...text].length,
    })"""

    found = await module(bare, "core/text.js", script, text.encode("utf-16", "replace").decode("utf-16"))

    assert found["points"] == found["whole"]
    assert found["first"] == found["wanted"]


PUT = """({ OpenText }, deltas) => {
  const open = new OpenText();
  return { taken: deltas.map(([offset, text]) => open.put(offset, text)), text: open.text };
}"""


@pytest.mark.parametrize(
    ("deltas", "taken", "text"),
    [
        ([(0, "a😀"), (2, "b"), (3, "c")], [True, True, True], "a😀bc"),
        ([(0, "abc"), (0, "abcd"), (4, "e")], [True, True, True], "abcde"),
        ([(0, "😀😀x"), (1, "y")], [True, True], "😀y"),
        ([(0, "ab"), (3, "x"), (2, "c")], [True, False, True], "abc"),
        ([(1, "a")], [False], ""),
        ([(0, "ab"), (2, "")], [True, True], "ab"),
    ],
    ids=["appended", "restarted", "replaced from the middle", "gap", "gap at the start", "empty"],
)
async def test_deltas_make_a_text_without_gaps_or_repeats(
    bare: Page, deltas: list[tuple[int, str]], taken: list[bool], text: str
) -> None:
    assert await module(bare, "state/streaming.js", PUT, deltas) == {"taken": taken, "text": text}


async def test_a_preview_keeps_the_end_of_an_output_and_drops_text_before_a_gap(bare: Page) -> None:
    script = """({ Preview, PREVIEW_CHARS }, pieces) => {
      const preview = new Preview();
      for (const [offset, text] of pieces) preview.put(offset, text);
      const long = new Preview();
      for (let at = 0; at < 300_000; at += 1000) long.put(at, String(at).padEnd(1000, "x"));
      return { text: preview.text, kept: long.text.length, most: PREVIEW_CHARS, end: long.text.slice(-1000, -990) };
    }"""

    found: dict[str, Any] = await module(
        bare, "state/streaming.js", script, [[0, "a😀"], [2, "b"], [100, "after"], [105, "!"]]
    )

    assert found["text"] == "after!"
    assert found["most"] <= found["kept"] <= 2 * found["most"]
    assert found["end"] == "299000xxxx"
