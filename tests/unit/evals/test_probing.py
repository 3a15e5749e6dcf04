"""Questions to a model, and the judge's verdict."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import ProviderError
from app.llm.base import ModelRequest, StreamEvent, TextDelta
from app.messages import Role
from evals import probing
from evals.probing import ask, judge, verdict

from .stage import MODEL, Model, history, models, probe

REQUEST = ModelRequest(MODEL, "Be brief.", history(steps=1).conversation(), max_output_tokens=32_000)


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The delays that were requested; nothing really waits."""
    asked: list[float] = []

    async def wait(seconds: float) -> None:
        asked.append(seconds)
        await asyncio.tasks.sleep(0)

    monkeypatch.setattr(probing, "sleep", wait)
    return asked


async def test_a_question_comes_last_and_changes_nothing_before_it() -> None:
    model = Model(lambda request: "  alpha.sh\n")
    reply = await ask(models(model).calls, REQUEST, probe("What was written?"))
    (sent,) = model.requests
    assert list(sent.messages[:-1]) == list(REQUEST.messages)
    assert "<question>\nWhat was written?\n</question>" in sent.messages[-1].text
    assert sent.messages[-1].role is Role.CONTROL
    assert (sent.system, sent.model) == (REQUEST.system, "one")
    assert sent.max_output_tokens == probing.ANSWER_TOKENS + probing.REASONING_TOKENS
    assert (reply.text, reply.usage.input_tokens, reply.usage.cost_usd) == ("alpha.sh", 100, 0.01)


def test_an_answer_gets_no_more_tokens_than_the_window_leaves() -> None:
    assert probing.answer_room(replace(REQUEST, max_output_tokens=1_000)) == 1_000


async def test_a_transient_error_is_retried_after_a_delay(waits: list[float]) -> None:
    errors = [ProviderError("busy", retryable=True, retry_after=3), ProviderError("busy", retryable=True)]

    def answer(request: ModelRequest) -> str:
        if errors:
            raise errors.pop(0)
        return "here"

    assert (await ask(models(Model(answer)).calls, REQUEST, probe())).text == "here"
    assert len(waits) == 2
    assert 3 <= waits[0] < 4


@pytest.mark.parametrize(("retryable", "calls"), [(True, probing.MAX_ATTEMPTS), (False, 1)])
async def test_attempts_are_limited(waits: list[float], retryable: bool, calls: int) -> None:
    def answer(request: ModelRequest) -> str:
        raise ProviderError("down", retryable=retryable)

    model = Model(answer)
    with pytest.raises(ProviderError):
        await ask(models(model).calls, REQUEST, probe())
    assert len(model.requests) == calls


async def test_a_stream_that_breaks_off_is_an_error(waits: list[float]) -> None:
    class Broken(Model):
        async def stream(self, request: ModelRequest) -> AsyncIterator[StreamEvent]:
            yield TextDelta(0, "half of")

    with pytest.raises(ProviderError, match="ended before its answer"):
        await ask(models(Broken()).calls, REQUEST, probe())


async def test_an_endless_answer_is_cut(waits: list[float]) -> None:
    with pytest.raises(ProviderError, match="never finished"):
        await ask(models(Model(lambda _: "x" * 20_000_000)).calls, REQUEST, probe())


async def test_the_judge_sees_only_question_facts_and_answer() -> None:
    model = Model(lambda request: "1: yes\n2: no")
    found, usage = await judge(
        models(model).calls, "acme/judge", probe("Which?", "alpha.sh", "beta"), "It is alpha.sh."
    )
    assert found == (True, False)
    assert usage.input_tokens == 100
    (sent,) = model.requests
    assert sent.model == "judge"
    assert not sent.tools
    assert len(sent.messages) == 1
    for text in ("Which?", "1: alpha.sh", "2: beta", "It is alpha.sh."):
        assert text in sent.messages[0].text


@pytest.mark.parametrize(
    ("text", "facts", "expected"),
    [
        ("1: yes\n2: no", 2, (True, False)),
        ("1. Yes.\n2) NO", 2, (True, False)),
        ("- 1: yes\n- 2: yes", 2, (True, True)),
        ("**1**: yes", 1, (True,)),
        ("1: yes", 2, None),
        ("1: yes\n2: no\n3: yes", 2, None),
        ("Yes, all of them.", 1, None),
        ("", 1, None),
        ("1: perhaps", 1, None),
    ],
)
def test_a_verdict_counts_only_if_it_names_each_fact(text: str, facts: int, expected: tuple[bool, ...] | None) -> None:
    assert verdict(text, facts) == expected


@given(st.lists(st.booleans(), min_size=1, max_size=20))
def test_every_valid_verdict_can_be_parsed(facts: list[bool]) -> None:
    text = "\n".join(f"{number}: {'yes' if fact else 'no'}" for number, fact in enumerate(facts, 1))
    assert verdict(text, len(facts)) == tuple(facts)
