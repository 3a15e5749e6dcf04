from __future__ import annotations

import orjson
import pytest

from app.llm.windows import classify


def _openai(message: str, **fields: object) -> str:
    return orjson.dumps({"error": {"message": message, "type": "invalid_request_error", **fields}}).decode()


OVERFLOWS = [
    pytest.param(
        400,
        _openai(
            "This model's maximum context length is 128000 tokens. However, your messages resulted in 140321 tokens."
            " Please reduce the length of the messages.",
            param="messages",
            code="context_length_exceeded",
        ),
        128000,
        140321,
        id="openai",
    ),
    pytest.param(
        None,
        _openai("Your input exceeds the context window of this model.", code="context_length_exceeded"),
        None,
        None,
        id="openai in mid-stream",
    ),
    pytest.param(
        400,
        '{"type":"error","error":{"type":"invalid_request_error",'
        '"message":"prompt is too long: 211864 tokens > 200000 maximum"}}',
        200000,
        211864,
        id="anthropic",
    ),
    pytest.param(
        400,
        '{"type":"error","error":{"type":"invalid_request_error","message":'
        '"input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease input length"}}',
        200000,
        209573,
        id="anthropic with max_tokens",
    ),
    pytest.param(
        413,
        '{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}',
        None,
        None,
        id="anthropic 413",
    ),
    pytest.param(
        400,
        '[{"error":{"code":400,"status":"INVALID_ARGUMENT","message":"The input token count (1200345) exceeds the'
        ' maximum number of tokens allowed (1048576)."}}]',
        1048576,
        1200345,
        id="gemini",
    ),
    pytest.param(
        400,
        _openai(
            "This endpoint's maximum context length is 131072 tokens. However, you requested about 150123 tokens"
            " (140123 of text input, 10000 in the output).",
            code=400,
        ),
        131072,
        150123,
        id="openrouter",
    ),
    pytest.param(
        400,
        '{"object":"error","message":"This model\'s maximum context length is 4096 tokens. However, you requested 512'
        ' output tokens and your prompt contains at least 3585 input tokens, for a total of at least 4097 tokens.",'
        '"type":"BadRequestError","param":"input_tokens","code":400}',
        4096,
        4097,
        id="vllm",
    ),
    pytest.param(
        400,
        '{"error":{"code":400,"message":"request (4031 tokens) exceeds the available context size (2048 tokens), try'
        ' increasing it","type":"exceed_context_size_error","n_prompt_tokens":4031,"n_ctx":2048}}',
        2048,
        4031,
        id="llama.cpp",
    ),
    pytest.param(
        500,
        '{"error":{"type":"exceed_context_size_error","n_prompt_tokens":5000,"n_ctx":4096}}',
        4096,
        5000,
        id="a code counts with any status",
    ),
    pytest.param(400, _openai("prompt too long; exceeded max context length by 1234 tokens"), None, None, id="ollama"),
    pytest.param(400, '{"message":"Input is too long for requested model."}', None, None, id="bedrock"),
    pytest.param(
        400,
        '{"message":"The model returned the following errors: Too many input tokens. Max input tokens: 200000"}',
        None,
        None,
        id="bedrock too many",
    ),
    pytest.param(
        400,
        '{"error":"This model\'s maximum prompt length is 131072 but the request contains 537812 tokens."}',
        131072,
        537812,
        id="xai",
    ),
    pytest.param(400, _openai("Please reduce the length of the messages or completion."), None, None, id="groq"),
    pytest.param(
        400,
        '{"error":"The number of tokens to keep from the initial prompt is greater than the context length."}',
        None,
        None,
        id="lm studio",
    ),
    pytest.param(
        422,
        '{"message":"Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context'
        ' length"}',
        32768,
        40000,
        id="mistral",
    ),
    pytest.param(413, " ", None, None, id="cerebras 413 without a body"),
    pytest.param(400, _openai("maximum context length is 32,768 tokens"), 32768, None, id="commas in numbers"),
]


@pytest.mark.parametrize(("status", "body", "limit", "requested"), OVERFLOWS)
def test_an_overflow_is_recognized_with_its_numbers(
    status: int | None, body: str, limit: int | None, requested: int | None
) -> None:
    overflow = classify(status, body)
    assert overflow is not None
    assert (overflow.limit, overflow.requested) == (limit, requested)
    assert overflow.http_status == status
    assert not overflow.retryable
    if limit:
        assert str(limit) in overflow.detail


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (429, _openai("Rate limit reached on tokens per min (TPM): Limit 30000, Used 29000, Requested 2000.")),
        (429, _openai("This model's maximum context length is 128000 tokens", code="context_length_exceeded")),
        (400, _openai("Rate limit reached: too many input tokens per minute")),
        (400, _openai("rate_limit_exceeded: reduce the length of the messages or wait")),
        (None, '{"error":{"message":"Too many input tokens, throttled; please wait"}}'),
        (400, _openai("tool_use ids were found without tool_result blocks immediately after: toolu_1")),
        (400, _openai("No tool call found for function call output with call_id call_1.")),
        (400, _openai("max_tokens is too large: 99999. This model supports at most 16384 completion tokens")),
        (413, '{"error":{"message":"image exceeds 5 MB maximum"}}'),
        (401, _openai("maximum context length is 10 tokens")),
        (404, ""),
        (500, ""),
        (None, ""),
    ],
)
def test_an_error_that_compaction_cannot_fix_is_not_an_overflow(status: int | None, body: str) -> None:
    assert classify(status, body) is None


def test_a_huge_number_is_truncated() -> None:
    overflow = classify(400, "maximum context length is " + "9" * 10_000)
    assert overflow is not None
    assert overflow.limit == 999_999_999_999


@pytest.mark.parametrize(
    ("message", "prompt"),
    [
        ("input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease input length", 188240),
        (
            "This model's maximum context length is 4097 tokens. However, you requested 4609 tokens (4097 in the"
            " messages, 512 in the completion).",
            4097,
        ),
        (
            "This endpoint's maximum context length is 131072 tokens. However, you requested about 150123 tokens"
            " (139000 of text input, 1123 of tool input, 10000 in the output).",
            139000,
        ),
        (
            "This model's maximum context length is 4096 tokens. However, you requested 512 output tokens and your"
            " prompt contains at least 3585 input tokens, for a total of at least 4097 tokens.",
            3585,
        ),
        ("prompt is too long: 211864 tokens > 200000 maximum", None),
        (
            "This model's maximum context length is 128000 tokens. However, your messages resulted in 140321 tokens.",
            None,
        ),
        ("This model's maximum prompt length is 131072 but the request contains 537812 tokens.", None),
    ],
)
def test_the_prompts_tokens_are_separated_from_the_answers(message: str, prompt: int | None) -> None:
    overflow = classify(400, _openai(message))
    assert overflow is not None
    assert overflow.prompt == prompt
