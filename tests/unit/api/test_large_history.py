"""A large body is read message by message, with the same result as at once."""

from __future__ import annotations

import json
from typing import Any

import pytest

from app.api.large_history import divided
from app.api.request_bodies import parse_json
from app.raw_messages import RawMessages

MESSAGES: list[Any] = [
    {"role": "user", "content": 'quotes " and \\ and \\" in it, [brackets}, commas, ü'},
    {"role": "assistant", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": '","messages":['}]},
    1,
    [],
    "x\x00",
]


def read(text: str) -> Any:
    return divided(bytearray(text.encode()), parse_json, parse_json)


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("ascii_only", [True, False])
def test_what_stands_around_the_messages_is_kept(indent: int | None, ascii_only: bool) -> None:
    body = {
        "task": "history",
        "metadata": {"history": {"messages": [1]}, "messages": [2]},
        "history": {"format": "openai", "x": {"messages": [3]}, "messages": MESSAGES, "last": {"a": [4]}},
        "title": '"history": {"messages": [',
    }
    value = read(json.dumps(body, indent=indent, ensure_ascii=ascii_only))
    messages = value["history"].pop("messages")
    assert isinstance(messages, RawMessages)
    assert len(messages) == len(MESSAGES)
    assert list(messages) == list(messages) == [*MESSAGES[:-1], "x\ufffd"]
    del body["history"]["messages"]  # type: ignore[attr-defined]
    assert value == body


@pytest.mark.parametrize(
    "text",
    [
        '{"history": {"messages": []}}',
        '{"history": {"messages": [1,]}}',
        '{"history": {"messages": [1,,2]}}',
        '{"history": {"messages": [1 2]}}',
        '{"history": {"messages": [1}}',
        '{"history": {"messages": [1]}',
        '{"history": {"messages": [1]}} 2',
        '{"history": {"messages": [{"a": 1, "a": 2}]}}',
        '{"history": {"messages": [1], "messages": [2]}}',
        '{"history": {"messages": [1]}, "history": null}',
        '{"history": {"messages": ["x]}}',
        '{"history" {"messages": [1]}}',
        '{"history": {"messages": {"a": [1]}}}',
        '{"history": [{"messages": [1]}]}',
        '{"a": {"history": {"messages": [1]}}}',
        '["history", {"messages": [1]}]',
        '{"history": {"messages": "[1]"}}',
        '"',
        "",
    ],
)
def test_invalid_and_other_bodies_are_left_to_the_parser(text: str) -> None:
    assert read(text) is None


def test_messages_taken_are_freed() -> None:
    content = "x" * 400_000
    body = bytearray(json.dumps({"history": {"messages": [{"content": content, "n": n} for n in range(10)]}}).encode())
    messages = divided(body, parse_json, parse_json)["history"]["messages"]
    sizes = []
    for place, message in enumerate(messages.taken()):
        assert message == {"content": content, "n": place}
        sizes.append(len(body))
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] < 2_000_000
    assert len(body) == len(messages) == 0
    assert list(messages) == []
