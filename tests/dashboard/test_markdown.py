"""Growing Markdown is parsed like complete Markdown, and its content stays text."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from playwright.async_api import Page

from tests.dashboard import IN_BROWSER
from tests.dashboard.browser import module

pytestmark = [*IN_BROWSER]

DOCUMENTS = {
    "prose": "# One\n\nA *word* and `code`.\nSame paragraph.\n\nTwo\n===\n\n> quote\nlazy\n\n---\n\nlast",
    "list": "- one\n- two\n\n  still two\n- three\n  - inner\n\n1. a\n2. b\n\nafter",
    "code": "before\n\n```python\nx = 1\n\n\n# not a heading\n```\n\n    indented\n\n~~~\nopen to the end\n\n- no list",
    "table": "| a | b |\n| - | -: |\n| 1 | 2 |\n| 3 |\n\nafter | not a row",
    "html": "<div>\n<script>alert(1)</script>\n</div>\n\n<b>bold</b> &amp; &lt; &#60;",
    "links": "[a](https://x.example/a_b) ![i](data:image/png,AA) <https://y.example> [r]\n\n[r]: javascript:alert(1)",
    "windows": "one\r\ntwo\r\n\r\n```\r\ncode\r\n```\r\n\r\nthree\rfour",
    "many": "\n\n".join(f"## {n}\n\nParagraph {n} with *stress*.\n\n- item\n- item" for n in range(30)),
    "long fence": "```\n" + "\n\n".join(f"line {n}" for n in range(200)) + "\n```\n\nafter",
}

GROWN = """({ GrowingMarkdown, blocksOf }, [text, cuts]) => {
  const shape = (tokens) => JSON.stringify(tokens, (key, value) => (key === "isOpen" ? undefined : value));
  const growing = new GrowingMarkdown();
  const unlike = [];
  let now = 0;
  for (const cut of cuts) {
    const part = text.slice(0, cut);
    const seen = () => shape([...growing.groups.flat(), ...growing.tail].map(({ type, raw }) => type + raw).join(""));
    now += 1e9;
    growing.update(part, false, now);
    const whole = shape(blocksOf(part).map(({ type, raw }) => type + raw).join(""));
    if (seen() !== whole) unlike.push([part, seen(), whole]);
  }
  growing.update(text, true, now + 1e9);
  return { unlike, isWhole: shape([...growing.groups.flat(), ...growing.tail]) === shape(blocksOf(text)) };
}"""


@pytest.mark.parametrize("name", DOCUMENTS)
async def test_a_grown_text_is_parsed_like_the_complete_text(bare: Page, name: str) -> None:
    text = DOCUMENTS[name]

    found = await module(bare, "core/markdown.js", GROWN, [text, list(range(0, len(text) + 1, 1 + len(text) // 300))])

    assert found["isWhole"]
    if "\r" not in text:
        _assert_settled_correctly(found["unlike"])


def _assert_settled_correctly(unlike: list[Any]) -> None:
    """A growing text is parsed as if it ended there, except for open fences."""
    assert [each for each in unlike if "```" not in each[0] and "~~~" not in each[0]] == []


ADDRESSES = {
    "https://example.org/a?b=c#d": True,
    "HTTP://EXAMPLE.ORG": True,
    "mailto:a@example.org": True,
    "javascript:alert(1)": False,
    "JaVaScRiPt:alert(1)": False,
    " javascript:alert(1)": False,
    "java\nscript:alert(1)": False,
    "\x01javascript:alert(1)": False,
    "data:text/html,<script>alert(1)</script>": False,
    "vbscript:x": False,
    "file:///etc/passwd": False,
    "blob:https://example.org/x": False,
    "/v1/sessions": False,
    "//example.org": False,
    "#/usage": False,
    "": False,
}


async def test_only_web_and_mail_addresses_become_links(bare: Page) -> None:
    script = "({ safeAddress }, addresses) => addresses.map(safeAddress)"

    found = await module(bare, "core/markdown.js", script, list(ADDRESSES))

    assert dict(zip(ADDRESSES, found, strict=True)) == ADDRESSES


async def test_character_references_become_text(bare: Page) -> None:
    texts = {
        "a &amp; b": "a & b",
        "&lt;script&gt;": "<script>",
        "&#60;&#x3C;": "<<",
        "&#0;&#xD800;&#x110000;": "\ufffd\ufffd\ufffd",
        "&constructor; &nosuch; &amp": "&constructor; &nosuch; &amp",
        "&#128512;": "😀",
    }
    script = "({ unescaped }, texts) => texts.map(unescaped)"

    found = await module(bare, "core/markdown.js", script, list(texts))

    assert dict(zip(texts, found, strict=True)) == texts


HARD = {
    "quotes": ">" * 20_000 + " deep",
    "lists": "".join(f"{' ' * n}- x\n" for n in range(600)),
    "brackets": "[" * 20_000,
    "stars": "*a" * 10_000,
    "tildes": "~" * 8_000,
    "ticks": "`" * 5_000 + "a" + "`" * 4_999,
    "emphasis": "**a _b " * 3_000,
    "links": "[a](" * 3_000,
    "table": "|" + "a|" * 2_000 + "\n|" + "-|" * 2_000 + "\n" + ("|" + "b|" * 2_000 + "\n") * 5,
    "entities": "&amp;" * 20_000,
    "one line": "x" * 1_000_000,
}


@pytest.mark.parametrize("name", HARD)
async def test_no_text_takes_long_to_parse(bare: Page, name: str) -> None:
    script = """({ blocksOf }, text) => {
      const begun = performance.now();
      const raw = blocksOf(text).map((block) => block.raw).join("");
      return { ms: performance.now() - begun, isAll: raw.trimEnd() === text.trimEnd() };
    }"""

    found = await module(bare, "core/markdown.js", script, HARD[name])

    assert found["ms"] < 3_000, json.dumps(found)
    assert found["isAll"]


HARDER = {**HARD, "emphasis in emphasis": "*a_" * 3_300}
"""Also texts that take longer, since only the worker parses them."""


@pytest.mark.parametrize("name", HARDER)
async def test_no_growing_text_blocks_the_page(bare: Page, name: str) -> None:
    script = """({ GrowingMarkdown }, text) => {
      const growing = new GrowingMarkdown((rest, take) => take(null));
      const begun = performance.now();
      for (const share of [0.01, 0.1, 0.5, 1]) growing.update(text.slice(0, text.length * share), false, share * 1e9);
      growing.update(text, true);
      return performance.now() - begun;
    }"""

    assert await module(bare, "core/markdown.js", script, HARDER[name]) < 1_000


LONG = f"Before\n\n{''.join(f'- item {n} with *stress*{chr(10)}' for n in range(200))}\nBetween\n\nAfter"

ELSEWHERE = """({ GrowingMarkdown, blocksOf }, [text, isInTime]) => {
  const shape = ({ groups, tail }) => JSON.stringify([...groups.flat(), ...tail]);
  const sent = [];
  const growing = new GrowingMarkdown((rest, take) => sent.push(() => take(isInTime ? blocksOf(rest) : null)));
  const here = new GrowingMarkdown();
  const unlike = [];
  let isPutOff = true;
  for (let end = 50; end <= text.length; end += 50) {
    growing.update(text.slice(0, end), false, end * 1e6);
    here.update(text.slice(0, end), false, end * 1e6);
    if (sent.length) isPutOff &&= growing.update(text.slice(0, end + 1), false, end * 1e6) === Infinity;
    sent.splice(0).forEach((parse) => parse());
    if (shape(growing) !== shape(here)) unlike.push(end);
  }
  const kinds = growing.tail.map(({ type }) => type);
  growing.update(text, true);
  here.update(text, true);
  const isSent = sent.length > 0;
  sent.forEach((parse) => parse());
  return { unlike, isPutOff, isSent, kinds, last: growing.tail.at(-1), isSame: shape(growing) === shape(here) };
}"""


async def test_parsing_elsewhere_gives_the_same_result(bare: Page) -> None:
    found = await module(bare, "core/markdown.js", ELSEWHERE, [LONG, True])

    assert found["unlike"] == []
    assert found["isPutOff"]
    assert found["isSent"]
    assert found["isSame"]


async def test_a_text_that_took_too_long_elsewhere_is_shown_plain(bare: Page) -> None:
    found = await module(bare, "core/markdown.js", ELSEWHERE, [LONG, False])

    assert found["unlike"] != []
    assert found["kinds"][-1] == "plain"
    assert found["isSent"], "once more, when it is whole"
    assert found["last"] == {"type": "plain", "raw": LONG, "text": LONG}


PIECES = ("\n", "\n\n", "- a", "  ", "# h", "```", "> ", "|a|b|\n", "|-|-|\n", "**b**", "`c`", "1. x", "    y", "z ")


async def test_random_grown_texts_are_parsed_like_complete_texts(bare: Page) -> None:
    rng = random.Random(7)
    texts = ["".join(rng.choices(PIECES, k=rng.randint(1, 60))) for _ in range(60)]
    whole = (
        f"(module, texts) => texts.map((text) => ({GROWN})(module, [text, [...text].map((_, at) => at + 1)]).isWhole)"
    )

    assert all(await module(bare, "core/markdown.js", whole, texts))
