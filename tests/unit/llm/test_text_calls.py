"""Tool calls that a model has written as text."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.agent.stream_processor import LOOP_CHARS, RepetitionCheck
from app.llm.base import BlockEnd, Finish, ReasoningDelta, StopReason, StreamEvent, TextDelta, ToolCallStart, ToolSchema
from app.llm.text_call_formats import MARKERS, read_marked
from app.llm.text_calls import HELD_CHARS, TextCalls
from app.llm.wire import MAX_BLOCKS

from .values import calls, finish, prose

TOOLS = (
    ToolSchema("read_file", "", {"type": "object", "properties": {"path": {"type": "string"}}}),
    ToolSchema("list_directory", "", {"type": "object", "properties": {}}),
    ToolSchema(
        "set",
        "",
        {
            "type": "object",
            "properties": {
                "text": {"type": "string"},
                "maybe": {"anyOf": [{"type": "string"}, {"type": "null"}]},
                "count": {"type": "integer"},
                "ratio": {"type": ["number", "null"]},
                "flag": {"type": "boolean"},
                "items": {"type": "array"},
                "given": {"$ref": "#/$defs/Given"},
            },
        },
    ),
)
READ = '{"name": "read_file", "arguments": {"path": "a"}}'
READ_A = ("read_file", '{"path":"a"}')
LIST = ("list_directory", "{}")
NS = "ant" + "ml:"
FORMATS = {
    "hermes": f"<tool_call>{READ}</tool_call>",
    "hermes on lines": f"<tool_call>\n{READ}\n</tool_call>",
    "hermes without an end": f"<tool_call>\n{READ}",
    "hermes, a list": f"<tool_call>[{READ}]</tool_call>",
    "hermes with a name": '<tool_call name="read_file">{"path": "a"}</tool_call>',
    "hermes as Python": "<tool_call>\n{'name': 'read_file', 'arguments': {'path': \"a\"}}\n</tool_call>",
    "another tag": f"<function_call>{READ}</function_call>",
    "qwen coder": "<tool_call>\n<function=read_file>\n<parameter=path>\na\n</parameter>\n</function>\n</tool_call>",
    "qwen coder without the tag": "<function=read_file>\n<parameter=path>\na\n</parameter>\n</function>",
    "qwen coder with half of the tag": "<function=read_file><parameter=path>a</parameter></function></tool_call>",
    "minimax": '<minimax:tool_call>\n<invoke name="read_file">\n<parameter name="path">a</parameter>\n</invoke>\n'
    "</minimax:tool_call>",
    "anthropic": '<function_calls>\n<invoke name="read_file">\n<parameter name="path">a</parameter>\n</invoke>\n'
    "</function_calls>",
    "anthropic with a namespace": f'<{NS}function_calls><{NS}invoke name="read_file"><{NS}parameter name="path">a'
    f"</{NS}parameter></{NS}invoke></{NS}function_calls>",
    "invoke in another tag": '<tool_call><invoke name="read_file"><parameter name="path">a</parameter></invoke>'
    "</tool_call>",
    "invoke alone": '<invoke name="read_file"><parameter name="path">a</parameter></invoke>',
    "glm": "<tool_call>read_file\n<arg_key>path</arg_key>\n<arg_value>a</arg_value>\n</tool_call>",
    "glm on a line": "<tool_call>read_file<arg_key>path</arg_key><arg_value>a</arg_value></tool_call>",
    "kimi": "<|tool_calls_section_begin|><|tool_call_begin|>functions.read_file:0<|tool_call_argument_begin|>"
    '{"path": "a"}<|tool_call_end|><|tool_calls_section_end|>',
    "deepseek v3": "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>read_file\n```json\n"
    '{"path": "a"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
    "deepseek v3.1": "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>read_file<｜tool▁sep｜>"
    '{"path": "a"}<｜tool▁call▁end｜><｜tool▁calls▁end｜><｜end▁of▁sentence｜>',
    "deepseek v3.2": '<｜DSML｜function_calls>\n<｜DSML｜invoke name="read_file">\n'
    '<｜DSML｜parameter name="path" string="true">a</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>',
    "mistral": f"[TOOL_CALLS][{READ}]",
    "mistral, newer": '[TOOL_CALLS]read_file[ARGS]{"path": "a"}',
    "mistral with an id": '[TOOL_CALLS]read_file[CALL_ID]a1b2[ARGS]{"path": "a"}</s>',
    "llama": '<|python_tag|>{"name": "read_file", "parameters": {"path": "a"}}<|eom_id|>',
    "llama, a function": '<function=read_file>{"path": "a"}</function>',
    "harmony": '<|channel|>commentary to=functions.read_file <|constrain|>json<|message|>{"path": "a"}<|call|>',
    "harmony with its start": "<|start|>assistant<|channel|>commentary to=functions.read_file json<|message|>"
    '{"path": "a"}',
    "harmony, the other order": "<|start|>assistant to=functions.read_file<|channel|>commentary <|constrain|>json"
    '<|message|>{"path": "a"}<|call|>',
}


WITHOUT_AN_END = {"hermes without an end"}


def run(
    text: str, size: int = 3, reason: StopReason = "stop", tools: Sequence[ToolSchema] = TOOLS
) -> list[StreamEvent]:
    return run_in_pieces([text[at : at + size] for at in range(0, len(text), size)], reason, tools)


def pieces_of(text: str, sizes: Sequence[int]) -> list[str]:
    """The text in pieces of these sizes, in turn."""
    pieces: list[str] = []
    for size in cycle(sizes):
        if not text:
            return pieces
        pieces.append(text[:size])
        text = text[size:]
    return pieces


def run_in_pieces(
    pieces: Sequence[str], reason: StopReason = "stop", tools: Sequence[ToolSchema] = TOOLS
) -> list[StreamEvent]:
    filter = TextCalls(tools)
    deltas: list[StreamEvent] = [TextDelta(1, piece) for piece in pieces]
    events = [ReasoningDelta(0, "hm"), BlockEnd(0), *deltas, BlockEnd(1), Finish(reason)]
    return [out for event in events for out in filter.feed(event)]


def read_in(text: str) -> tuple[str, list[tuple[str, str]]]:
    """The text that is shown and the calls, which do not depend on the pieces."""
    first, *others = [run(text, size) for size in (1, 3, 17, len(text))]
    assert all((prose(events), calls(events)) == (prose(first), calls(first)) for events in others)
    assert finish(first) == ("tool_calls" if calls(first) else "stop")
    return prose(first), calls(first)


def schemas() -> dict[str, Any]:
    return {tool.name: tool.parameters for tool in TOOLS}


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize(
    ("text", "found"),
    [
        (READ, [READ_A]),
        (f"\n  {READ}\n", [READ_A]),
        (f"```json\n{READ}\n```", [READ_A]),
        ('{"name": "list_directory", "parameters": {}}', [LIST]),
        ('{"name": "functions.list_directory", "parameters": {}}', [LIST]),
        ('{"name": "read_file", "arguments": "{\\"path\\": \\"a\\"}"}', [READ_A]),
        ('{"type": "function", "function": {"name": "read_file", "arguments": {"path": "a"}}}', [READ_A]),
        ("<tool_call>list_directory</tool_call>", [LIST]),
        ("<tool_call>\n<function=list_directory>\n</function>\n</tool_call>", [LIST]),
        ('<tool_call>{"name": "list_directory"}</tool_call>', [LIST]),
        ('<tool_call>{"name": "read_file", "input": {"path": "a"}}</tool_call>', [READ_A]),
        ("<tool_call>[{'name': 'set', 'arguments': {'text': 'it\\'s \"a\"\\n', 'flag': True, 'maybe': None}}]",
         [("set", '{"text":"it\'s \\"a\\"\\n","flag":true,"maybe":null}')]),
        (f"<tool_call>\n{READ}\n{READ}\n</tool_call>", [READ_A, READ_A]),
        ("<tool_call><function=list_directory></function><function=list_directory></function></tool_call>", [LIST] * 2),
        ('[TOOL_CALLS]list_directory[ARGS]{}[TOOL_CALLS]read_file[ARGS]{"path":"a"}', [LIST, READ_A]),
        (f'<|python_tag|>{READ}; {{"name": "list_directory", "parameters": {{}}}}', [READ_A, LIST]),
        ("<function_calls><invoke name=\"list_directory\"></invoke>\n<invoke name=\"list_directory\">\n</invoke>"
         "</function_calls>", [LIST, LIST]),
        ('<tool_call>{"name": "read_file", "arguments": {"path": "</tool_call>\n"}}</tool_call>',
         [("read_file", '{"path":"</tool_call>\\n"}')]),
        ("<function=read_file><parameter=path>\n</parameter> is\n\nthe end\n</parameter></function>",
         [("read_file", '{"path":"</parameter> is\\n\\nthe end"}')]),
    ],
)  # fmt: skip
def test_a_text_of_only_calls_becomes_calls(text: str, found: list[tuple[str, str]], size: int) -> None:
    events = run(text, size)
    assert calls(events) == found
    assert prose(events) == ""
    assert finish(events) == "tool_calls"


@pytest.mark.parametrize("form", FORMATS)
def test_a_call_is_read_in_each_format_alone_in_a_row_and_after_text(form: str) -> None:
    text = FORMATS[form]
    row = [text] if "without an end" in form else [text, f"{text}\n\n{text}\n"]
    for count, markup in enumerate(row):
        for before in ("", "I will look.\n", "I will look:\n\n", "<think>hm\n</think>", "```\nx\n```\n"):
            events = run(f"{before}{markup}")
            assert calls(events) == [READ_A] * (2 * count or 1), (markup, before)
            assert prose(events) == before
            assert finish(events) == "tool_calls"


MARKUP = [*FORMATS.values(), READ, f"```json\n{READ}\n```", "<tool_call>{", "[TOOL_CALLS]x", "`", "<too"]


@given(st.sampled_from(MARKUP),
       st.sampled_from(["", "Text.\n", "\n\n", "</think>", "```\n", "a\n b <", "   "]),
       st.sampled_from(["", "\n", " done", "\n```"]), st.integers(1, 40))  # fmt: skip
def test_any_split_of_the_stream_gives_the_same(markup: str, before: str, after: str, size: int) -> None:
    whole, split = run(f"{before}{markup}{after}", 10_000), run(f"{before}{markup}{after}", size)
    assert (prose(split), calls(split), finish(split)) == (prose(whole), calls(whole), finish(whole))


PARTS = [
    *("Text.\n", "```\nls\n```\n", "```html\n<b>\n", "```\n", "\n\n", "`", "> ", '"', " ", "<", "</think>"),
    *FORMATS.values(),
    *MARKERS,
]


@given(st.lists(st.sampled_from(PARTS), min_size=1, max_size=7), st.lists(st.integers(1, 20), min_size=1, max_size=40))
def test_any_split_around_code_blocks_gives_the_same(parts: list[str], sizes: list[int]) -> None:
    text = "".join(parts)
    whole, split = run(text, len(text)), run_in_pieces(pieces_of(text, sizes))
    assert (prose(split), calls(split), finish(split)) == (prose(whole), calls(whole), finish(whole))


@given(st.lists(st.integers(1, 20), min_size=1, max_size=40))
def test_a_call_after_a_code_block_is_run_and_an_example_in_one_is_not(sizes: list[int]) -> None:
    block, example = "First:\n```sh\nls\n```\n", f"For example:\n```\n{FORMATS['hermes']}\n"
    after = run_in_pieces(pieces_of(f"{block}{FORMATS['hermes']}", sizes))
    assert (prose(after), calls(after)) == (block, [READ_A])
    inside = run_in_pieces(pieces_of(block + example, sizes))
    assert (prose(inside), calls(inside)) == (block + example, [])


def test_arguments_have_the_types_of_the_schema() -> None:
    values = {
        **{"text": "1", "maybe": "null", "count": "5", "ratio": "0.5", "flag": "True", "items": '["a", 1]'},
        **{"given": '{"b": [true]}', "other": "7"},
    }
    parameters = "".join(f"<parameter={name}>{value}</parameter>" for name, value in values.items())
    ((_, arguments),) = calls(run(f"<function=set>{parameters}</function>"))
    assert orjson.loads(arguments) == {
        **{"text": "1", "maybe": "null", "count": 5, "ratio": 0.5, "flag": True, "items": ["a", 1]},
        **{"given": {"b": [True]}, "other": "7"},
    }
    dsml = '<｜DSML｜parameter name="{}" string="{}">{}</｜DSML｜parameter>'
    said = dsml.format("other", "false", "[1]") + dsml.format("count", "true", "5") + dsml.format("flag", "false", "no")
    ((_, arguments),) = calls(run(f'<｜DSML｜invoke name="set">{said}</｜DSML｜invoke>'))
    assert orjson.loads(arguments) == {"other": [1], "count": "5", "flag": "no"}


UNREADABLE = [
    ('<tool_call>{"name": "read_file", "arguments": {"path": "a}</tool_call>', "read_file"),
    ('<tool_call>\n{"name": "read_file", "arguments": {', "read_file"),
    ("<tool_call>\n<function=read_file>\n<parameter=path>\na\n</function>\n</tool_call>", "read_file"),
    ("<tool_call>read_file\n<arg_key>path</arg_key>\n<arg_value>a\n</tool_call>", "read_file"),
    ('<minimax:tool_call>\n<invoke name="read_file">\n<parameter name="path">a</invoke>', "read_file"),
    ("<|tool_call_begin|>functions.read_file:0<|tool_call_argument_begin|>{<|tool_call_end|>", "read_file"),
    ("[TOOL_CALLS]read_file[ARGS]{", "read_file"),
    ("[TOOL_CALLS]no call", "unknown"),
    ("<|python_tag|>print(1)", "unknown"),
    ("<|channel|>commentary to=functions.read_file<|message|>a.txt<|call|>", "read_file"),
    ('<tool_call>{"name": 5}</tool_call>', "unknown"),
    ("<tool_call>{'name': 'read_file', 'arguments': {1, 2}}</tool_call>", "unknown"),
    ("<function_calls></function_calls>", "unknown"),
    ("<tool_call>[]</tool_call>", "unknown"),
    ('<tool_call>{"name": "read_file", "arguments": [1]}</tool_call>', "read_file"),
]


@pytest.mark.parametrize(("text", "name"), UNREADABLE)
def test_markup_that_cannot_be_read_becomes_a_call_that_fails(text: str, name: str) -> None:
    events = run(f"I look.\n{FORMATS['mistral, newer']}\n{text}")
    assert calls(events) == [READ_A, (name, text)]
    assert (prose(events), finish(events)) == ("I look.\n", "tool_calls")


@pytest.mark.parametrize(("text", "name"), [case for case in UNREADABLE if case[0].endswith("</tool_call>")])
def test_text_after_markup_that_cannot_be_read_is_shown(text: str, name: str) -> None:
    events = run(f"I look.{text}\n\nThen I wait.")
    assert (prose(events), calls(events)) == ("I look.\n\nThen I wait.", [(name, text)])


@pytest.mark.parametrize("form", FORMATS)
def test_a_call_is_read_wherever_it_is_in_the_text(form: str) -> None:
    text = FORMATS[form]
    for before in ("I look.", "I look: ", "- ", "So:\n    ", "a ` b\n", "hm</think>", "The `tag`.\n\n", "``x' and y\n"):
        assert read_in(f"{before}{text}") == (before, [READ_A])
    if form not in WITHOUT_AN_END:
        assert read_in(f"{text} done {{x}}") == ("done {x}", [READ_A])
        assert read_in(f"I look.{text}\n\nI wait.") == ("I look.\n\nI wait.", [READ_A])
        assert read_in(f"{text}\nand\n{text}\n") == ("and\n", [READ_A, READ_A])


@pytest.mark.parametrize(
    "quoted",
    [
        "```\n{}\n```",
        "For example:\n```xml\n{}\n```\n",
        "For example:\n~~~\n{}\n~~~\n",
        "````md\n```\n{}\n```\n````",
        "```\n```json\n{}",
        "- It is so:\n\n    ```\n    {}\n    ```\n",
        "1. ```\n   {}\n   ```\n",
        "> ```\n> {}\n> ```\n",
        "> {}",
        "Write `{}`.",
        "Write `  {}`",
        "Write ``x ` {}``.",
        'Write "{}".',
        "Write “{}”.",
        "Write '{}'.",
    ],
)
@pytest.mark.parametrize("form", FORMATS)
def test_a_quoted_call_is_no_call(form: str, quoted: str) -> None:
    text = quoted.format(FORMATS[form])
    assert read_in(text) == (text, [])
    if "```json" not in text:
        assert read_in(f"{text}\n\n{FORMATS['hermes']}")[1] == [READ_A]


def test_code_blocks_and_inline_code_end() -> None:
    hermes = FORMATS["hermes"]
    for before in ("```\nx\n```\n", "```a```\n", "~~~\n```\n~~~\n", "`a` and ``b ` c`` ", "```\n`\n   ````  \n"):
        assert read_in(before + hermes) == (before, [READ_A])


def test_a_marked_call_of_another_tool_is_one_that_the_model_gets_an_error_for() -> None:
    assert calls(run('<tool_call>{"name": "no_such_tool", "arguments": {}}</tool_call>')) == [("no_such_tool", "{}")]


@pytest.mark.parametrize(
    "text",
    [
        "Hello.",
        f"I call: {READ}",
        f"I call:\n{READ}",
        f"{READ} and that is it.",
        '{"name": "no_such_tool", "arguments": {}}',
        '{"name": "read_file"}',
        '{"name": "read_file", "arguments": [1]}',
        '{"name": "read_file", "arguments": {"path": ',
        '{"result": 5}',
        "```python\nprint()\n```",
        "```json\n[1, 2]\n```",
        "<tool_callers>",
        "<tool_call>",
        "<tool_call> is a tag.",
        "The tag is <tool_call>.",
        "<tool_call>{x} is a place.",
        "[TOOL_CALLS]",
        "[TOOL_CALLS] and [ARGS] are tokens of Mistral.",
        "The token <|tool_call_begin|> begins a call, <|python_tag|> too.",
        "In HTML, <function_calls> is no tag, and <invoke name=> has no name.",
        "<|channel|> and <|start|>assistant are tokens of gpt-oss.",
        "<|channel|>final<|message|>Done.",
        "<|channel|>analysis<|message|>I think.<|end|><|start|>assistant<|channel|>final<|message|>Done.",
        "{",
    ],
)
def test_any_other_text_is_unchanged(text: str) -> None:
    events = run(text)
    assert (prose(events), calls(events), finish(events)) == (text, [], "stop")


@given(st.text(st.sampled_from('<tool_call>/{}"name:,`json \n'), max_size=60), st.integers(1, 9))
def test_no_text_is_lost(text: str, size: int) -> None:
    events = run(text, size)
    assert prose(events) + "".join(arguments for _, arguments in calls(events)) == text or calls(events)


def test_an_answer_is_shown_as_soon_as_it_cannot_be_a_call() -> None:
    filter = TextCalls(TOOLS)
    assert list(filter.feed(TextDelta(0, '{"res'))) == [TextDelta(0, '{"res')]
    assert list(filter.feed(TextDelta(0, "ult"))) == [TextDelta(0, "ult")]


def test_text_before_a_call_is_shown_at_once() -> None:
    filter = TextCalls(TOOLS)
    pieces = ["I will", " look.\n", "<to", "wn>\n  ", "<tool_call>", "\n{"]
    shown = [prose(filter.feed(TextDelta(0, piece))) for piece in pieces]
    assert shown == ["I will", " look.\n", "", "<town>\n  ", "", ""]


@pytest.mark.parametrize("begin", ['```json\n{"version": 1,\n', "```js\n", '<tool_call>{"x', "<tool_call>see it"])
def test_text_in_a_fence_or_a_tag_is_shown_as_soon_as_it_cannot_be_a_call(begin: str) -> None:
    filter = TextCalls(TOOLS)
    assert list(filter.feed(TextDelta(0, begin))) == [TextDelta(0, begin)]


def test_a_text_that_is_too_long_for_a_call_is_shown() -> None:
    filter = TextCalls(TOOLS)
    piece = "x" * (HELD_CHARS // 2)
    begin = f'<tool_call>{{"name": "{piece}'
    shown = [prose(filter.feed(TextDelta(0, text))) for text in (begin, piece, "more")]
    assert shown == ["", begin + piece, "more"]


BLANKS = " " * 1_000_000


@pytest.mark.parametrize(
    "text",
    [
        *(
            f"{begin}{BLANKS}x"
            for begin in ("<tool_call>", "```json\n", "```\n", f"<tool_call>{READ}</tool_call>", READ)
        ),
        *(f"{FORMATS[name]}{BLANKS}x" for name in ("minimax", "glm", "kimi", "deepseek v3", "llama", "harmony")),
        f"[TOOL_CALLS]read_file{BLANKS}x",
        f"<|channel|>commentary to=a{BLANKS}json{BLANKS}x",
        f"<tool_call>a<arg_key>{BLANKS}x",
        f"<function=read_file>{BLANKS}<parameter=a>{BLANKS}x",
        "<function=read_file><parameter=a>" + "</parameter>  " * 70_000 + "x",
        "<function=read_file>" + "<parameter=a>" * 70_000,
        "<tool_call>" * 90_000,
        "<tool_call>" + "{" * 1_000_000,
        '<tool_call>{"name": ' + "[" * 500_000 + "]" * 499_000,
        '<function_calls><invoke name="a">' + '<parameter name="a">' * 50_000,
        "<|tool_call_begin|>" * 50_000,
        "\n<" * 100_000,
        "\n" * 1_000_000 + "x",
        "\n   " * 100_000,
        "</think>" * 120_000,
        "`" * 1_000_000,
        "` " * 300_000,
        "> `<tool_call>{" * 60_000,
        "<|python_tag|>(" * 60_000,
        "[TOOL_CALLS] " * 80_000,
        *("<tool_call>{'" + f"\\{quote}" * 400_000 + "\\" for quote in "'\""),
        "<tool_call>{'" + "'" * 900_000 + "</tool_call>",
        "<function=a><parameter=b></function> x " * 25_000,
        "<tool_call>{'</tool_call>" * 40_000,
    ],
)
def test_hostile_text_is_read_quickly(text: str) -> None:
    """Backtracking for each character would never finish; a second is many times what it takes."""
    began = time.thread_time()
    run(text, 100_000)
    read_marked(text, schemas())
    assert time.thread_time() - began < 5


def test_many_calls_with_text_between_are_read_quickly() -> None:
    began = time.thread_time()
    found = calls(run(f"{FORMATS['hermes']} and " * 12_000, 100_000))
    assert (len(found), set(found)) == (MAX_BLOCKS, {READ_A})
    assert time.thread_time() - began < 5


@pytest.mark.parametrize("text", [READ, FORMATS["qwen coder"], f"Look.\n{FORMATS['kimi']}"])
def test_a_truncated_call_stays_text(text: str) -> None:
    assert prose(run(text, reason="length")) == text


def test_a_text_next_to_a_real_call_stays_text() -> None:
    filter = TextCalls(TOOLS)
    events: Sequence[StreamEvent] = [TextDelta(0, READ), BlockEnd(0), ToolCallStart(1, "read_file"), BlockEnd(1)]
    out = [found for event in [*events, Finish("tool_calls")] for found in filter.feed(event)]
    assert out == [*events, Finish("tool_calls")]


def test_a_call_in_a_second_text_is_found_after_reasoning_between() -> None:
    filter = TextCalls(TOOLS)
    events: Sequence[StreamEvent] = [TextDelta(0, "First."), BlockEnd(0), ReasoningDelta(1, "hm"), BlockEnd(1)]
    more: Sequence[StreamEvent] = [TextDelta(2, FORMATS["hermes"]), BlockEnd(2), Finish("stop")]
    out = [found for event in [*events, *more] for found in filter.feed(event)]
    assert out[:4] == events
    assert (calls(out), finish(out)) == ([READ_A], "tool_calls")


def repeats(text: str, size: int = 37) -> bool:
    check = RepetitionCheck()
    return any(check.grows(text[at : at + size]) for at in range(0, len(text), size))


@given(st.text(st.characters(codec="utf-8"), min_size=1, max_size=80), st.integers(1, 500))
def test_an_endlessly_repeated_unit_is_detected(unit: str, size: int) -> None:
    assert repeats("An answer begins well. " + unit * (2 * LOOP_CHARS // len(unit) + 2_000), size)


ROWS = "".join(f"| {n} | {n * 7 % 13} | same |\n" for n in range(2_000))
ART = "\n".join(" " * (40 - n % 40) + "*" * (n % 40) + " " * 30 for n in range(400))


@pytest.mark.parametrize("text", [ROWS, ART, "-" * 5_000 + "text" + "=" * 5_000, "line of prose. " * 500])
def test_regular_texts_are_not_affected(text: str) -> None:
    assert not repeats(text)


def test_the_sources_of_this_service_are_not_affected() -> None:
    for path in [*Path("app").rglob("*.py"), *Path("docs").glob("*.md")]:
        assert not repeats(path.read_text(), 500), path
