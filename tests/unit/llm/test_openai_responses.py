"""The Responses adapter: items in, events out."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest

from app.errors import AnswerError, ContextOverflowError, ProviderError
from app.llm.base import BlockEnd, Finish, ModelRequest, ReasoningDelta, StreamEvent, TextDelta, ToolCallStart
from app.llm.openai import OpenAiProvider
from app.llm.openai_responses import encode_body, points_elsewhere, to_items
from app.llm.openai_responses_stream import MAX_HELD_BYTES, MAX_SEALED_BYTES, ResponsesStream
from app.llm.quirks import Endpoint, Quirks
from app.messages import Message, ReasoningPart, Role, TextPart, ToolCallPart, ToolResultPart, ToolStatus
from tests.provider import FakeProvider, Reply, Text
from tests.provider.fixtures import provider

from .servers import LocalServer, Scripted, document, local_server, sse
from .test_quirks import refusal
from .values import calls, collect, finish, prose, request, thoughts, usage, user

ITEM = {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "secret"}
COMPLETED = {"type": "response.completed", "response": {"status": "completed", "output": []}}
CALL = {"type": "function_call", "call_id": "c", "name": "ls", "arguments": '{"path":"a"}'}


__all__ = ["provider"]


async def run(*answers: Scripted, asked: ModelRequest | None = None) -> tuple[list[StreamEvent], LocalServer]:
    async with local_server(*answers) as server:
        base_url = server.url + "/v1"
        provider = OpenAiProvider("acme", base_url, "sk-key-0123456789ab", idle_timeout_s=60, endpoint="responses")
        try:
            return await collect(provider.stream(asked or request())), server
        finally:
            await provider.aclose()


async def said(*documents: dict[str, Any] | str) -> list[StreamEvent]:
    return (await run(Scripted(pieces=sse(*documents))))[0]


async def failed(*documents: dict[str, Any]) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        await said(*documents)
    return caught.value


def delta(kind: str, text: str, at: int = 0, **fields: Any) -> dict[str, Any]:
    return {"type": f"response.{kind}.delta", "output_index": at, "delta": text, **fields}


def item(when: str, data: dict[str, Any], at: int = 0) -> dict[str, Any]:
    return {"type": f"response.output_item.{when}", "output_index": at, "item": data}


async def test_parts_of_a_summary_are_paragraphs_of_one_block() -> None:
    events = await said(
        item("added", ITEM),
        delta("reasoning_summary_text", "one", summary_index=0),
        delta("reasoning_summary_text", " more", summary_index=0),
        delta("reasoning_summary_text", "two", summary_index=1),
        delta("reasoning_text", "raw", content_index=0),
        item("done", ITEM),
        COMPLETED,
    )
    assert thoughts(events) == "one more\n\ntwo\n\nraw"
    assert [event.provider_data for event in events if isinstance(event, BlockEnd)] == [ITEM]


async def test_items_that_were_never_announced_or_came_complete_are_accepted() -> None:
    message = {"type": "message", "phase": "final_answer", "content": [{"type": "output_text", "text": "whole"}]}
    summary = [{"type": "summary_text", "text": "why"}]
    events = await said(
        delta("output_text", "unannounced", 7),
        item("done", CALL, 1),
        {"type": "response.completed", "response": {"output": [{**ITEM, "summary": summary}, CALL, message]}},
    )
    assert (prose(events), thoughts(events)) == ("unannouncedwhole", "why")
    assert calls(events) == [("ls", '{"path":"a"}')]
    assert BlockEnd(3, {"phase": "final_answer"}) in events
    assert finish(events) == "tool_calls"


async def test_items_without_places_are_distinguished_by_ids() -> None:
    call = {**CALL, "id": "fc_1"}
    events = await said(
        {"type": "response.output_item.added", "item": {**call, "arguments": ""}},
        {"type": "response.function_call_arguments.delta", "item_id": "fc_1", "delta": CALL["arguments"]},
        {"type": "response.output_item.done", "item": call},
        {"type": "response.completed", "response": {"status": "completed", "output": [call]}},
    )
    assert calls(events) == [("ls", CALL["arguments"])]


MESSAGE = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hello."}]}


@pytest.mark.parametrize("final_ids", [False, True])
async def test_a_stream_without_places_and_ids_loses_and_duplicates_nothing(final_ids: bool) -> None:
    output = [{**MESSAGE, "id": "msg_1"}, {**CALL, "id": "fc_1"}] if final_ids else [MESSAGE, CALL]
    events = await said(
        {"type": "response.output_text.delta", "delta": "Hello."},
        {"type": "response.completed", "response": {"status": "completed", "output": output}},
    )
    assert (prose(events), calls(events)) == ("Hello.", [("ls", CALL["arguments"])])


def numbered(number: int) -> dict[str, Any]:
    return {"type": "function_call", "call_id": f"c{number}", "name": "ls", "arguments": f'{{"n":{number}}}'}


def announced(data: dict[str, Any], **where: int) -> dict[str, Any]:
    empty: dict[str, Any] = {"arguments": ""} if data["type"] == "function_call" else {"content": []}
    return {"type": "response.output_item.added", "item": {**data, **empty}, **where}


def ended(data: dict[str, Any], **where: int) -> dict[str, Any]:
    return {"type": "response.output_item.done", "item": data, **where}


HELLO = {"type": "response.output_text.delta", "delta": "Hello."}
THOUGHT = {"type": "response.reasoning_summary_text.delta", "delta": "hm"}
ARGUMENTS = {"type": "response.function_call_arguments.delta", "delta": '{"n":1}'}
ONE, TWO = numbered(1), numbered(2)
REASONING = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]}
SAME = {"id": "same"}
UNNAMED: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]], tuple[str, int]]] = {
    "message, call": (
        [announced(MESSAGE), HELLO, ended(MESSAGE), announced(ONE), ARGUMENTS, ended(ONE)],
        [MESSAGE, ONE],
        ("Hello.", 1),
    ),
    "call, message": (
        [announced(ONE), ARGUMENTS, ended(ONE), announced(MESSAGE), HELLO, ended(MESSAGE)],
        [ONE, MESSAGE],
        ("Hello.", 1),
    ),
    "nothing repeated": ([announced(ONE), ARGUMENTS, ended(ONE), announced(MESSAGE), HELLO], [], ("Hello.", 1)),
    "ends alone": ([ended(ONE), ended(TWO)], [ONE, TWO], ("", 2)),
    "deltas of two kinds": ([THOUGHT, HELLO], [], ("Hello.", 0)),
    "reasoning, message": ([THOUGHT, ended(REASONING), HELLO, ended(MESSAGE)], [REASONING, MESSAGE], ("Hello.", 0)),
    "an id, then a place": (
        [{**HELLO, "item_id": "m"}, ended({**MESSAGE, "id": "m"}, output_index=0)],
        [{**MESSAGE, "id": "m"}],
        ("Hello.", 0),
    ),
    "one id for all": (
        [announced({**ONE, **SAME}, output_index=0), announced({**TWO, **SAME}, output_index=1)],
        [{**ONE, **SAME}, {**TWO, **SAME}],
        ("", 2),
    ),
    "other ids at the end": ([announced(ONE), ended(ONE)], [{**ONE, "id": "other"}], ("", 1)),
}


@pytest.mark.parametrize("name", UNNAMED)
async def test_items_are_distinguished_by_whatever_the_server_sends(name: str) -> None:
    events, output, (text, count) = UNNAMED[name]
    folded = await said(*events, {"type": "response.completed", "response": {"status": "completed", "output": output}})
    assert prose(folded) == text
    assert calls(folded) == [("ls", numbered(number + 1)["arguments"]) for number in range(count)]
    assert finish(folded) == ("tool_calls" if count else "stop")


async def test_deltas_that_name_the_id_of_an_item_with_a_place_belong_to_it() -> None:
    message = {**MESSAGE, "id": "msg_1"}
    events = await said(
        item("added", {"type": "message", "id": "msg_1"}),
        {"type": "response.output_text.delta", "item_id": "msg_1", "delta": "Hello."},
        item("done", message),
        {"type": "response.completed", "response": {"status": "completed", "output": [message]}},
    )
    assert prose(events) == "Hello."


async def test_encrypted_content_may_come_with_the_end_of_the_response() -> None:
    bare = {name: value for name, value in ITEM.items() if name != "encrypted_content"}
    events = await said(
        item("added", bare),
        delta("reasoning_summary_text", "hm"),
        item("done", bare),
        {"type": "response.completed", "response": {"output": [ITEM]}},
    )
    assert BlockEnd(0, ITEM) in events


async def test_a_complete_answer_is_read() -> None:
    content = [{"type": "output_text", "text": "so"}]
    counted = {
        "input_tokens": 100,
        "input_tokens_details": {"cached_tokens": 40, "cache_write_tokens": 10},
        "output_tokens": 20,
        "output_tokens_details": {"reasoning_tokens": 5},
        "total_tokens": 120,
    }
    output = [ITEM, {"type": "message", "content": content}]
    body = {"object": "response", "status": "completed", "output": output, "usage": counted}
    events, _ = await run(document(200, body))
    assert (prose(events), finish(events)) == ("so", "stop")
    found = usage(events)
    assert found is not None
    assert (found.input_tokens, found.cache_read_tokens, found.cache_write_tokens) == (50, 40, 10)
    assert (found.output_tokens, found.reasoning_tokens) == (20, 5)


@pytest.mark.parametrize(
    ("details", "reason"),
    [({"reason": "max_output_tokens"}, "length"), ({"reason": "content_filter"}, "content_filter"), (None, "other")],
)
async def test_an_incomplete_response_has_its_reason(details: Any, reason: str) -> None:
    response = {"type": "response.incomplete", "response": {"incomplete_details": details}}
    assert finish(await said(delta("output_text", "a"), response)) == reason


async def test_a_refusal_is_text_and_a_reason() -> None:
    events = await said(delta("refusal", "I can't."), COMPLETED)
    assert (prose(events), finish(events)) == ("I can't.", "refusal")


async def test_unknown_events_and_items_are_skipped() -> None:
    events = await said(
        {"type": "response.created", "response": {"status": "in_progress"}},
        {"type": "response.web_search_call.searching", "output_index": 0},
        item("added", {"type": "web_search_call"}),
        delta("output_text", "not text", 0),
        delta("output_text", "text", 1),
        item("done", {"type": "web_search_call"}),
        COMPLETED,
        "[DONE]",
    )
    assert events == [TextDelta(0, "text"), BlockEnd(0, None), Finish("stop")]


@pytest.mark.parametrize(
    ("error", "code", "retryable"),
    [
        ({"code": "rate_limit_exceeded", "message": "Slow down."}, "provider_rate_limited", True),
        ({"code": "server_error", "message": "Oops."}, "provider_server_error", True),
        ({"code": "never_heard_of", "message": "Oops."}, "provider_server_error", True),
        ({"code": "invalid_prompt", "message": "No."}, "provider_bad_request", False),
        ({"type": "invalid_request_error", "message": "No."}, "provider_bad_request", False),
    ],
)
async def test_an_error_in_the_stream_has_the_meaning_of_its_code(
    error: dict[str, str], code: str, retryable: bool
) -> None:
    for end in (
        {"type": "error", **error} if "code" in error else {"type": "error", "error": error},
        {"type": "error", "error": error},
        {"type": "response.failed", "response": {"status": "failed", "error": error}},
    ):
        raised = await failed(delta("output_text", "void"), end)
        assert (raised.code, raised.retryable) == (code, retryable)
        assert error["message"] in raised.detail


@pytest.mark.parametrize("kind", ["error", "response.failed"])
async def test_an_overflow_in_the_stream_is_one(kind: str) -> None:
    sentence = "Your input exceeds the context window of this model. Please adjust your input and try again."
    for error in ({"code": "context_length_exceeded", "message": ""}, {"code": None, "message": sentence}):
        assert isinstance(
            await failed({"type": kind, "error": error, "response": {"error": error}}), ContextOverflowError
        )


async def test_an_unfinished_stream_is_retryable() -> None:
    raised = await failed(delta("output_text", "a"))
    assert (raised.code, raised.retryable) == ("provider_stream_ended", True)


def test_endless_items_are_an_error() -> None:
    stream = ResponsesStream(lambda *_: ProviderError("no"))
    data = orjson.dumps(item("done", {**ITEM, "encrypted_content": "x" * MAX_HELD_BYTES}))
    with pytest.raises(ProviderError, match="too large"):
        stream.feed([(b"", data)])


def test_endless_encrypted_reasoning_is_an_error() -> None:
    stream = ResponsesStream(lambda *_: ProviderError("no"))
    for number in range(2):
        sealed = {**ITEM, "id": f"rs_{number}", "encrypted_content": "x" * (MAX_SEALED_BYTES // 2)}
        data = orjson.dumps({**item("done", sealed), "output_index": number})
        if number == 0:
            stream.feed([(b"", data)])
    with pytest.raises(ProviderError, match="reasoning is too large"):
        stream.feed([(b"", data)])


def assistant(*parts: Any, model: str = "one") -> Message:
    message = user("x")
    return message.model_copy(update={"role": Role.ASSISTANT, "model": model, "parts": parts})


def test_reasoning_precedes_the_item_it_belongs_to_or_is_left_out() -> None:
    reasoning = ReasoningPart(id="r", index=0, text="", provider_data=ITEM)
    text = TextPart(id="t", index=1, text="so", phase="commentary")
    call = ToolCallPart(id="c", index=2, call_id="c1", name="ls", arguments_text="{")

    def sent(*parts: Any, own: bool = True) -> list[str]:
        return [item["type"] for item in to_items(assistant(*parts), own_reasoning=own)]

    assert sent(reasoning, text, call) == ["reasoning", "message", "function_call"]
    assert sent(reasoning, text, reasoning) == ["reasoning", "message"]
    assert sent(reasoning, TextPart(id="b", index=1, text=" ")) == []
    assert sent(reasoning, text, own=False) == ["message"]
    for data in (None, {"type": "thinking", "signature": "s"}, {**ITEM, "encrypted_content": None}):
        assert sent(reasoning.model_copy(update={"provider_data": data}), call) == ["function_call"]
    assert sent(reasoning.model_copy(update={"interrupted": True}), call) == ["function_call"]
    assert orjson.loads(to_items(assistant(call), own_reasoning=True)[0]["arguments"]) == {"_invalid": "{"}


def test_a_longer_history_extends_the_request_and_encodes_only_what_is_new() -> None:
    cache: dict[str, Any] = {}
    history: list[Message] = []
    before = b""
    for turn in range(30):
        call = ToolCallPart(id="c", index=1, call_id=f"c{turn}", name="ls", arguments_text="{}")
        reasoning = ReasoningPart(id="r", index=0, text="", provider_data={**ITEM, "id": f"rs_{turn}"})
        output = ToolResultPart(id="o", index=0, call_id=f"c{turn}", name="ls", output="a", status=ToolStatus.COMPLETED)
        results = user("x").model_copy(update={"role": Role.TOOL, "parts": (output,)})
        history += [user(f"turn {turn}"), assistant(reasoning, call), results]
        asked = ModelRequest("one", "Be good.", history, wire_cache=cache)
        body = encode_body(asked, {}, "acme")
        assert body.startswith(before.removesuffix(b"]}"))
        assert body == encode_body(ModelRequest("one", "Be good.", history), {}, "acme")
        assert len(cache) <= 6
        before = body


@pytest.mark.parametrize(
    ("body", "left"),
    [
        (refusal("Unsupported parameter: 'reasoning.summary' is not supported here.", "reasoning.summary"),
         {"reasoning.effort", "include"}),
        (refusal("Your organization must be verified to generate summaries. Unsupported.", "reasoning.summary"),
         {"reasoning.effort", "include"}),
        (refusal("Unsupported parameter: 'reasoning' is not supported with this model.", "reasoning"), {"include"}),
        (refusal("Encrypted content is not supported with this model.", "include"),
         {"reasoning.effort", "reasoning.summary"}),
        (refusal("Invalid include: not supported", "include[0]"), {"reasoning.effort", "reasoning.summary"}),
    ],
)  # fmt: skip
def test_a_refused_member_is_left_out(body: str, left: set[str]) -> None:
    wanted = {"reasoning.effort": "high", "reasoning.summary": "auto", "include": ["reasoning.encrypted_content"]}
    quirks = Quirks("max_tokens")
    assert quirks.learn(body, quirks.parameters(wanted, None))
    assert quirks.parameters(wanted, None).keys() == left


def test_an_output_limit_that_is_too_high_is_lowered() -> None:
    quirks = Quirks("max_tokens")
    body = refusal(
        "Invalid 'max_output_tokens': integer above maximum value. Expected a value <= 16384, but got 32000 instead.",
        "max_output_tokens",
    )
    assert quirks.learn(body, {"max_output_tokens": 32_000})
    assert quirks.limited(32_000) == 16_384
    assert quirks.token_name == "max_tokens"


@pytest.mark.parametrize(
    ("endpoint", "status", "body", "elsewhere"),
    [
        ("chat_completions", 400, "To use function tools, use /v1/responses or set reasoning_effort to 'none'.", True),
        ("chat_completions", 404, "This model is only supported in v1/responses and not in v1/chat/completions.", True),
        ("chat_completions", 404, "This is not a chat model and thus not supported in the v1/chat/completions"
         " endpoint. Did you mean to use v1/completions?", True),
        ("chat_completions", 404, "The model `x` does not exist or you do not have access to it.", False),
        ("chat_completions", 500, "use /v1/responses", False),
        ("responses", 404, '{"error":{"code":404,"message":"File Not Found","type":"not_found_error"}}', True),
        ("responses", 404, '{"detail":"Not Found"}', True),
        ("responses", 405, "", True),
        ("responses", 400, "The requested model 'x' cannot be used with the Responses API.", True),
        ("responses", 404, "The model `x` does not exist.", False),
        ("responses", 404, "Item with id 'rs_1' not found.", False),
        ("responses", 400, "Unknown parameter: 'x'.", False),
    ],
)  # fmt: skip
def test_refusals_that_point_to_the_other_endpoint_are_recognized(
    endpoint: Endpoint, status: int, body: str, elsewhere: bool
) -> None:
    assert points_elsewhere(endpoint, AnswerError("no", body=body, http_status=status)) is elsewhere


async def test_a_call_without_arguments_is_announced() -> None:
    events = await said(item("done", {**CALL, "arguments": ""}), COMPLETED)
    assert [event.name for event in events if isinstance(event, ToolCallStart)] == ["ls"]
    assert not any(isinstance(event, ReasoningDelta) for event in events)


async def test_two_concurrent_requests_are_both_switched(provider: FakeProvider) -> None:
    """The second was sent to the old endpoint before the first was refused."""
    provider.configure(responses_only=frozenset({"gpt-6"}))
    provider.script(Reply(Text("one")), Reply(Text("two")))
    adapter = OpenAiProvider("openai", provider.openai_url, None, idle_timeout_s=5)

    async def refused() -> str:
        with pytest.raises(ProviderError) as caught:
            await collect(adapter.stream(ModelRequest("gpt-6", "", [user("hi")])))
        assert caught.value.retryable
        return caught.value.code

    assert list(await asyncio.gather(refused(), refused())) == ["endpoint_switched"] * 2
    assert await collect(adapter.stream(ModelRequest("gpt-6", "", [user("hi")])))
    await adapter.aclose()


@pytest.mark.parametrize(
    "pieces",
    [
        ['{"path":', '"a"}'],
        ['{"pa', '{"path":', '{"path":"a"}'],
        ['{"path":', '"a"}', '{"path":"a"}'],
        ['{"path":'],
        [orjson.dumps('{"path":"a"}').decode()],
    ],
)
async def test_arguments_that_come_as_snapshots_are_not_doubled(pieces: list[str]) -> None:
    events = await said(
        item("added", {**CALL, "arguments": ""}),
        *(delta("function_call_arguments", piece) for piece in pieces),
        item("done", CALL),
        COMPLETED,
    )
    assert calls(events) == [("ls", '{"path":"a"}')]


async def test_a_call_gets_its_name_with_its_end_or_none() -> None:
    arguments = delta("function_call_arguments", '{"path":"a"}')
    assert calls(await said(arguments, item("done", CALL), COMPLETED)) == [("ls", '{"path":"a"}')]
    assert calls(await said(arguments, COMPLETED)) == [("unknown", '{"path":"a"}')]


async def test_text_that_comes_only_or_once_more_at_the_end_is_told_once() -> None:
    whole = {"type": "response.output_text.done", "output_index": 0, "text": "Hello."}
    for events in ([whole], [delta("output_text", "Hel"), whole], [delta("output_text", "Hello."), whole]):
        assert prose(await said(*events, COMPLETED)) == "Hello."


async def test_what_only_the_server_understands_of_a_call_is_kept() -> None:
    novel = {**CALL, "id": "fc", "status": "completed", "signature": "s", "other": None}
    assert BlockEnd(0, {"call": {"signature": "s"}}) in await said(item("done", novel), COMPLETED)


async def test_an_error_with_status_200_is_an_error() -> None:
    for error in ({"error": "It broke"}, {"base_resp": {"status_code": 1000, "status_msg": "It broke"}}):
        assert "It broke" in (await failed(error)).detail


async def test_a_response_that_is_completed_twice_has_its_items_once() -> None:
    end = {"type": "response.completed", "response": {"status": "completed", "output": [ITEM, MESSAGE]}}
    events = await said(end, end)
    assert prose(events) == "Hello."
    assert len([event for event in events if isinstance(event, BlockEnd)]) == 2
