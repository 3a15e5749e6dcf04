"""Random foreign conversations, each in the form of an export and in one of the many forms that people send."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import orjson
from hypothesis import strategies as st

Wire = dict[str, Any]
Pair = tuple[list[Wire], list[Wire]]
"""A conversation as it is sent, and as it comes back."""

_SIZE = (40).to_bytes(4, "big") + (30).to_bytes(4, "big")
PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + _SIZE + b"\x08\x02" + bytes(7))
PNG = PIXEL.decode()

texts = st.one_of(
    st.sampled_from(["hello", " a line\nand another ", "日本語", "ok 👍", '{"a": 1}', "[Summary]"]),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1, max_size=20).filter(
        lambda text: bool(text.strip())
    ),
)
names = st.sampled_from(["read_file", "execute_command", "a-b", "weather"])
objects = st.dictionaries(st.sampled_from(["path", "b", "ü"]), st.one_of(texts, st.integers(-9, 9), st.none()))
arguments = st.one_of(
    objects.map(lambda value: orjson.dumps(value).decode()), st.sampled_from(['{ "b":1,\n"a": [1.50]}', "{}"])
)


def renumbered(messages: Sequence[Any]) -> bytes:
    """The conversation with its calls numbered in order, since the two forms have different ids."""
    numbers = count(1)
    known: dict[str, str] = {}

    def named(value: str) -> str:
        return known.setdefault(value, f"#{next(numbers)}")

    def walk(value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            is_call = value.get("type") in ("tool_use", "function")
            return {k: walk(v, "call" if k == "id" and is_call else k) for k, v in value.items()}
        if isinstance(value, list):
            return [walk(item) for item in value]
        return named(value) if key in ("call", "tool_call_id", "tool_use_id") and isinstance(value, str) else value

    return orjson.dumps(walk(list(messages)))


def text_block(text: str) -> Wire:
    return {"type": "text", "text": text}


def url_block() -> Wire:
    return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}


def image_block() -> Wire:
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}


def content_of(blocks: Sequence[Wire]) -> Any:
    """A single text as a string, anything else unchanged."""
    return blocks[0]["text"] if len(blocks) == 1 and blocks[0]["type"] == "text" else list(blocks)


@st.composite
def openai_conversations(draw: st.DrawFn) -> Pair:
    """Chat Completions: strings or blocks, old and new calls, duplicate ids, results out of order or missing."""
    sent: list[Wire] = []
    back: list[Wire] = []
    numbers = count(1)
    for _ in range(draw(st.integers(0, 5))):
        draw(st.sampled_from([_openai_user, _openai_answer, _openai_calls, _openai_function]))(
            draw, sent, back, numbers
        )
    return sent, back


def _loose(draw: st.DrawFn, blocks: Sequence[Wire], noise: Wire) -> Any:
    """The same content in another form: blocks instead of a string, with meaningless fields."""
    if draw(st.booleans()):
        return content_of(blocks)
    return [{**block, **draw(st.sampled_from([{}, noise]))} for block in blocks]


def _openai_user(draw: st.DrawFn, sent: list[Wire], back: list[Wire], numbers: Any) -> None:
    blocks = draw(st.lists(st.one_of(texts.map(text_block), st.builds(url_block)), min_size=1, max_size=3))
    sent.append({"role": "user", "content": _loose(draw, blocks, {"cache_control": {"type": "ephemeral"}})})
    back.append({"role": "user", "content": content_of(blocks)})


def _openai_answer(draw: st.DrawFn, sent: list[Wire], back: list[Wire], numbers: Any) -> None:
    text = draw(texts)
    noise: Wire = draw(
        st.sampled_from([{}, {"refusal": None, "annotations": []}, {"tool_calls": []}, {"function_call": None}])
    )
    sent.append({"role": "assistant", "content": _loose(draw, [text_block(text)], {}), **noise})
    back.append({"role": "assistant", "content": text})


def _openai_calls(draw: st.DrawFn, sent: list[Wire], back: list[Wire], numbers: Any) -> None:
    """Parallel calls with their results, in any order and with user messages in between."""
    calls = draw(st.lists(st.tuples(names, arguments, texts), min_size=1, max_size=3))
    repeats = draw(st.booleans())
    ids = [f"call_{place}" if repeats else f"call_{next(numbers)}" for place in range(len(calls))]
    says = draw(st.one_of(st.none(), texts))
    thought = draw(st.one_of(st.none(), texts))
    asked, results = _batch(ids, calls)
    asked_back, results_back = _batch([f"call_{next(numbers)}" for _ in calls], calls)
    reasoning = {} if thought is None else {"reasoning_content": thought}
    kind = draw(st.sampled_from(["reasoning_content", "reasoning"]))
    sent.append({"role": "assistant", "content": says, **({kind: thought} if thought else {}), "tool_calls": asked})
    back.append({"role": "assistant", "content": says, **reasoning, "tool_calls": asked_back})
    between = {"role": "user", "content": draw(texts)} if draw(st.booleans()) else None
    shuffled = draw(st.permutations(results))
    sent.extend([*shuffled[:1], *([between] if between else []), *shuffled[1:]])
    back.extend([*results_back, *([between] if between else [])])


def _batch(ids: Sequence[str], calls: Sequence[tuple[str, str, str]]) -> tuple[list[Wire], list[Wire]]:
    """Calls with these names and arguments, and their results."""
    asked = [
        {"id": call_id, "type": "function", "function": {"name": name, "arguments": text}}
        for call_id, (name, text, _) in zip(ids, calls, strict=True)
    ]
    results = [
        {"role": "tool", "tool_call_id": call_id, "content": output}
        for call_id, (_, _, output) in zip(ids, calls, strict=True)
    ]
    return asked, results


def _openai_function(draw: st.DrawFn, sent: list[Wire], back: list[Wire], numbers: Any) -> None:
    """The format from before tools existed."""
    name, text, output = draw(names), draw(arguments), draw(texts)
    function = {"name": name, "arguments": text}
    sent.append({"role": "assistant", "content": None, "function_call": function})
    sent.append({"role": "function", "name": name, "content": output})
    call_id = f"call_{next(numbers)}"
    call = {"id": call_id, "type": "function", "function": function}
    back.append({"role": "assistant", "content": None, "tool_calls": [call]})
    back.append({"role": "tool", "tool_call_id": call_id, "content": output})


@st.composite
def anthropic_conversations(draw: st.DrawFn) -> Pair:
    """Messages: turns in one message or several, strings or blocks, results out of order or after the text."""
    sent: list[Wire] = []
    back: list[Wire] = []
    numbers = count(1)
    for _ in range(draw(st.integers(0, 4))):
        _anthropic_turns(draw, sent, back, numbers)
    return sent, back


def _anthropic_turns(draw: st.DrawFn, sent: list[Wire], back: list[Wire], numbers: Any) -> None:
    """An assistant's turn with the user's reply."""
    thoughts = draw(st.lists(st.sampled_from(["thinking", "redacted_thinking"]), max_size=2))
    calls = draw(st.lists(st.tuples(names, objects, st.one_of(st.just(""), texts), st.booleans()), max_size=3))
    said = draw(st.lists(texts, min_size=0 if calls else 1, max_size=2))
    first = next(numbers) * 10
    uses = [
        {"type": "tool_use", "id": f"toolu_{first + place}", "name": name, "input": value}
        for place, (name, value, _, _) in enumerate(calls)
    ]
    answer = [*map(_thought, thoughts), *map(text_block, said), *uses]
    _say(draw, sent, back, "assistant", answer, uses_results=False)
    results = [_result(f"toolu_{first + place}", output, error) for place, (_, _, output, error) in enumerate(calls)]
    words = draw(
        st.lists(st.one_of(texts.map(text_block), st.builds(image_block)), min_size=0 if calls else 1, max_size=2)
    )
    _say(draw, sent, back, "user", [*results, *words], uses_results=bool(results))


def _thought(kind: str) -> Wire:
    if kind == "thinking":
        return {"type": "thinking", "thinking": "I wonder.", "signature": "c2lnbmVk"}
    return {"type": "redacted_thinking", "data": "b3BhcXVl"}


def _result(call_id: str, output: str, error: bool) -> Wire:
    block: Wire = {"type": "tool_result", "tool_use_id": call_id}
    return {**block, **({"content": output} if output else {}), **({"is_error": True} if error else {})}


def _say(
    draw: st.DrawFn, sent: list[Wire], back: list[Wire], role: str, blocks: list[Wire], *, uses_results: bool
) -> None:
    back.append({"role": role, "content": content_of(blocks)})
    loose = [_loose_result(draw, block) if block["type"] == "tool_result" else block for block in blocks]
    if uses_results:
        # Results in any order and after the texts, whose own order stays.
        results = draw(st.permutations([block for block in loose if block["type"] == "tool_result"]))
        words = [block for block in loose if block["type"] != "tool_result"]
        loose = [*words, *results] if draw(st.booleans()) else [*results, *words]
    cut = draw(st.integers(0, len(loose)))
    for piece in (loose[:cut], loose[cut:]):
        if piece:
            sent.append({"role": role, "content": content_of(piece) if draw(st.booleans()) else piece})


def _loose_result(draw: st.DrawFn, block: Wire) -> Wire:
    form: Callable[[Any], Any] = draw(
        st.sampled_from([lambda text: text, lambda text: [text_block(text)] if text else []])
    )
    return {
        **block,
        "content": form(block.get("content", "")),
        "is_error": block.get("is_error", False),
        "cache_control": {"type": "ephemeral"},
    }


ids = st.sampled_from(["a", "b", "", None, 7, "0199a0b0-0000-7000-8000-000000000001"])
words = st.one_of(texts, st.sampled_from(["", " "]))
_blocks = st.one_of(
    words.map(text_block),
    words,
    st.builds(url_block),
    st.builds(image_block),
    st.sampled_from(
        [
            {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "%%%"}},
            {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
            {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "x"}},
            {"type": "thinking", "thinking": "unsigned", "signature": ""},
            {"type": "thinking", "thinking": "signed", "signature": "c2ln"},
            {"type": "redacted_thinking", "data": "b3A="},
            {"text": "of no type"},
        ]
    ),
    st.builds(lambda i, n, v: {"type": "tool_use", "id": i, "name": n, "input": v}, ids, names, objects),
    st.builds(lambda i, c: {"type": "tool_result", "tool_use_id": i, "content": c}, ids, words),
    st.builds(lambda i: {"type": "tool_result", "tool_use_id": i, "content": [image_block(), text_block("seen")]}, ids),
)
_contents = st.one_of(st.none(), words, st.lists(_blocks, max_size=4))
_functions = st.builds(lambda n, a: {"name": n, "arguments": a}, names, st.one_of(arguments, words, objects))
_calls = st.builds(lambda i, f: {"id": i, "type": "function", "function": f}, ids, _functions)

broken_openai = st.lists(
    st.one_of(
        st.builds(lambda r, c: {"role": r, "content": c}, st.sampled_from(["user", "system", "developer"]), _contents),
        st.builds(
            lambda c, t: {"role": "assistant", "content": c, "tool_calls": t}, _contents, st.lists(_calls, max_size=3)
        ),
        st.builds(lambda f: {"role": "assistant", "content": None, "function_call": f}, _functions),
        st.builds(lambda i, c: {"role": "tool", "tool_call_id": i, "content": c}, ids, _contents),
        st.builds(lambda n, c: {"role": "function", "name": n, "content": c}, names, words),
        st.builds(lambda c: {"role": "user", "name": "ann", "content": c, "odd": {"x": 1}}, _contents),
    ),
    max_size=8,
)
broken_anthropic = st.lists(
    st.builds(lambda r, c: {"role": r, "content": c}, st.sampled_from(["user", "assistant"]), _contents), max_size=8
)
"""Anything in the shape of messages: results without calls, calls without results, duplicate or missing ids."""
