"""The model calls of a summary: the requests, which answers are accepted, how often they are retried, and the cost."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from app.agent.changes import ModelUsed, SummaryFailed
from app.agent.compaction import summarizer
from app.agent.compaction.summarizer import MAX_ATTEMPTS, MAX_CALLS
from app.agent.compaction.summary_jobs import SummaryJob
from app.context.summary import OVERLONG
from app.context.summary_request import transcript_items, windows
from app.context.tokens import estimate_text
from app.errors import ContextOverflowError, InvalidRequestError, ProviderError
from app.llm.base import BASE_S, Finish, ModelRequest, ReasoningDelta, TextDelta, ToolSchema
from app.messages import Message, Role, Usage
from tests.unit.agent.rounds import PROSE, models_of, settings_of
from tests.unit.agent.scenes import MODEL, Reply, Script, calls, passing, price, says, usage
from tests.unit.agent.sinks import KeptSink
from tests.unit.context import builders as b

ANSWER = says(PROSE)
CUT = says("And so", finish="length")
TASK = "the task"
WORK = b.long_task(4, 400)
TOOLS = (ToolSchema("run", "Runs.", {}),)


def job(**changes: Any) -> SummaryJob:
    values: dict[str, Any] = {
        "settings": settings_of(),
        "previous_round": 0,
        "model": MODEL,
        "covered": WORK,
        "previous": None,
        "task": TASK,
        "max_tokens": 1_000,
        "reasoning_tokens": 0,
        "input_tokens": 10_000,
    }
    return SummaryJob(**{**values, **changes})


def prefix(*messages: Message) -> ModelRequest:
    given = list(messages or WORK)
    return ModelRequest(MODEL, "You are an agent.", given, TOOLS, 8_000, 0.5, wire_cache={"m1": "encoded"})


class Learnt:
    """Keeps what was refused."""

    def __init__(self) -> None:
        self.refusals: list[tuple[str, int | None, int]] = []

    def accepted(self, model: str, prompt_tokens: int) -> None: ...

    async def cut(self, model: str, answered: int, estimate: int) -> None: ...

    async def refused(self, model: str, named: int | None, estimate: int) -> None:
        self.refusals.append((model, named, estimate))


class Asked:
    """A summarizer with a scripted model."""

    def __init__(self, *replies: Reply, **changes: Any) -> None:
        self.script, self.sink = Script(*replies), KeptSink()
        self.summarizer = summarizer.Summarizer(self.sink, models_of(self.script, **changes), round=3)

    async def prose(self, **changes: Any) -> str:
        return await self.summarizer.prose(job(**changes))

    async def fails(self, **changes: Any) -> str:
        """The code with which it fails."""
        with pytest.raises(SummaryFailed) as caught:
            await self.prose(**changes)
        assert caught.value.detail
        assert str(caught.value) == caught.value.detail
        return caught.value.code

    def question(self, call: int = 0) -> str:
        return self.script.sent[call][-1].text

    @property
    def caps(self) -> list[int | None]:
        return [request.max_output_tokens for request in self.script.requests]


class TestInTheConversation:
    async def test_the_request_is_the_conversations_next_one_plus_a_question(self) -> None:
        asked, given = Asked(ANSWER), prefix()
        assert await asked.prose(prefix=given) == PROSE
        [sent] = asked.script.requests
        assert (sent.model, sent.system, sent.tools) == ("one-2026", given.system, given.tools)
        assert sent.wire_cache is given.wire_cache, "encoded messages are reused"
        assert list(sent.messages[:-1]) == WORK
        assert (sent.messages[-1].role, sent.messages[-1].id in {m.id for m in WORK}) == (Role.CONTROL, False)
        assert list(given.messages) == WORK, "the question is not added to the history"

    async def test_its_cap_and_temperature_are_the_summarys(self) -> None:
        asked = Asked(ANSWER)
        await asked.prose(prefix=prefix(), settings=settings_of(summary_temperature=0.25), reasoning_tokens=4_096)
        [sent] = asked.script.requests
        assert (sent.max_output_tokens, sent.temperature) == (1_000 + 4_096, 0.25)

    @pytest.mark.parametrize("round", [0, 3])
    async def test_the_summary_in_force_is_named(self, round: int) -> None:
        asked = Asked(ANSWER)
        await asked.prose(prefix=prefix(), previous_round=round)
        assert ("summary of compaction round 3" in asked.question()) is (round == 3)

    async def test_instructions_are_included(self) -> None:
        asked = Asked(ANSWER)
        await asked.prose(prefix=prefix(), instructions="Keep the API decisions.")
        assert "Keep the API decisions." in asked.question()

    async def test_blanks_around_the_answer_are_removed(self) -> None:
        assert await Asked(says(f"\n {PROSE}\n\n")).prose(prefix=prefix()) == PROSE


class TestFromText:
    async def test_the_text_is_all_that_the_model_sees(self) -> None:
        asked = Asked(ANSWER)
        settings = settings_of("threshold")
        assert await asked.prose(settings=settings, reasoning_tokens=96, instructions="Keep names.") == PROSE
        [sent] = asked.script.requests
        assert (sent.model, sent.tools, sent.max_output_tokens, sent.temperature) == ("one-2026", (), 1_096, 0.3)
        assert len(sent.messages) == 1
        for item in (TASK, "Keep names.", *transcript_items(WORK)):
            assert item in asked.question()
        assert "<previous_summary>" not in asked.question()

    async def test_the_summary_so_far_is_merged(self) -> None:
        asked = Asked(ANSWER)
        await asked.prose(previous="Half was done.")
        assert "<previous_summary>\nHalf was done.\n</previous_summary>" in asked.question()

    @pytest.mark.parametrize(("room", "half"), [(20_000, 10_000), (5_000, 4_000), (1_200, 1_000)])
    async def test_results_are_clipped_no_more_than_needed(self, room: int, half: int) -> None:
        output = "a" * 10_000 + "b" * 10_000
        work = [b.user(1, TASK), b.assistant(2, b.call("c1")), b.tool(3, b.result("c1", output))]
        asked = Asked(ANSWER)
        await asked.prose(covered=work, input_tokens=room)
        shown = max(len(found) for found in re.findall("a+", asked.question()))
        assert 0.9 * half < shown <= half

    async def test_too_much_text_is_folded_window_by_window(self) -> None:
        room = 500
        pieces = windows(transcript_items(WORK), room)
        assert len(pieces) > 2
        asked = Asked(*[says(f"Summary {number}.") for number in range(1, len(pieces) + 1)])
        assert await asked.prose(input_tokens=room) == f"Summary {len(pieces)}."
        for number, piece in enumerate(pieces, 1):
            question = asked.question(number - 1)
            assert piece in question
            assert f"part {number} of {len(pieces)}." in question
            assert (f"<previous_summary>\nSummary {number - 1}.\n" in question) is (number > 1)

    async def test_a_failure_in_one_window_ends_it(self) -> None:
        asked = Asked(ANSWER, says(finish="refusal"))
        assert await asked.fails(input_tokens=1_000) == "summary_refused"
        assert len(asked.script.requests) == 2

    async def test_more_windows_than_calls_are_not_started(self) -> None:
        asked = Asked()
        work = b.long_task(MAX_CALLS + 1, 600)
        assert len(windows(transcript_items(work), 600)) > MAX_CALLS
        assert await asked.fails(covered=work, input_tokens=600) == "too_many_calls"
        assert asked.script.requests == []

    async def test_there_is_no_summary_of_nothing(self) -> None:
        asked = Asked()
        assert await asked.fails(covered=()) == "nothing_to_summarise"
        assert asked.script.requests == []


LONG = " ".join(["word"] * 400)
FAULTS: list[tuple[Reply, str]] = [
    (says(finish="refusal"), "summary_refused"),
    (says(finish="content_filter"), "summary_refused"),
    (calls("run"), "summary_called_tool"),
    ([*says(PROSE)[:-2], *calls("run")], "summary_called_tool"),
    (says(finish="tool_calls"), "summary_called_tool"),
    (says(" \n… "), "summary_empty"),
    ([ReasoningDelta(0, "Hm."), usage(), Finish("stop")], "summary_empty"),
    (says(LONG * 9), "summary_too_long"),
]


class TestAnswers:
    @pytest.mark.parametrize(("reply", "code"), FAULTS)
    @pytest.mark.parametrize("inside", [True, False])
    async def test_an_unusable_answer_is_not_requested_again(self, reply: Reply, code: str, inside: bool) -> None:
        asked = Asked(reply)
        assert await asked.fails(prefix=prefix() if inside else None) == code
        assert len(asked.script.requests) == 1

    async def test_a_summary_longer_than_what_it_covers_is_refused(self) -> None:
        short = b.user(1, "Please.")
        assert await Asked(says(2 * LONG)).fails(prefix=prefix(short)) == "summary_too_long"

    async def test_a_summary_far_beyond_its_cap_is_refused(self) -> None:
        assert estimate_text(LONG) == 500
        assert await Asked(says(LONG)).prose(max_tokens=500 // OVERLONG) == LONG
        assert await Asked(says(LONG)).fails(max_tokens=500 // OVERLONG - 1) == "summary_too_long"

    async def test_a_repeated_tool_output_is_refused(self) -> None:
        work = [b.user(1), *b.long_step(2, "c1", 900), b.assistant(4, b.call("c2")), b.tool(5, b.result("c2", PROSE))]
        assert await Asked(ANSWER).fails(covered=work) == "summary_is_output"

    async def test_a_cut_off_summary_is_requested_once_more_with_twice_the_cap(self) -> None:
        asked = Asked(CUT, ANSWER)
        assert await asked.prose(reasoning_tokens=96) == PROSE
        assert asked.caps == [1_096, 2_096]
        assert asked.question(1) == asked.question(0)

    async def test_a_summary_cut_off_twice_is_refused(self) -> None:
        asked = Asked(CUT, CUT)
        assert await asked.fails() == "summary_cut_off"
        assert asked.caps == [1_000, 2_000]

    async def test_each_window_has_its_own_second_chance(self) -> None:
        asked = Asked(*[CUT, ANSWER] * 4)
        await asked.prose(input_tokens=1_000)
        assert asked.caps == [1_000, 2_000] * (len(asked.caps) // 2)

    async def test_an_endless_answer_is_stopped(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(summarizer, "MAX_ANSWER_BYTES", 100)
        asked = Asked([TextDelta(0, "x" * 60), TextDelta(0, "y" * 60), TextDelta(0, "z"), Finish("stop")])
        assert await asked.fails() == "provider_bad_response"
        assert asked.script.open == 0

    async def test_endless_reasoning_is_stopped(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(summarizer, "MAX_ANSWER_BYTES", 100)
        asked = Asked([ReasoningDelta(0, "x" * 60), ReasoningDelta(0, "y" * 60), TextDelta(1, "z"), Finish("stop")])
        assert await asked.fails() == "provider_bad_response"
        assert asked.script.open == 0


class TestErrors:
    @pytest.mark.parametrize("failures", range(MAX_ATTEMPTS))
    async def test_a_transient_error_is_retried(self, failures: int) -> None:
        asked = Asked(*[[passing()]] * failures, ANSWER)
        assert await asked.prose() == PROSE
        assert len(asked.script.requests) == failures + 1

    async def test_retries_are_limited(self) -> None:
        asked = Asked(*[[passing()]] * MAX_ATTEMPTS)
        assert await asked.fails() == "provider_overloaded"
        assert len(asked.script.requests) == MAX_ATTEMPTS

    async def test_a_stream_that_breaks_off_is_retried(self, monkeypatch: pytest.MonkeyPatch) -> None:
        waits: list[float] = []

        async def sleep(seconds: float) -> None:
            waits.append(seconds)

        monkeypatch.setattr(summarizer, "sleep", sleep)
        asked = Asked([TextDelta(0, "Half")], [TextDelta(0, "Half")], ANSWER)
        assert await asked.prose() == PROSE, "without the partial answer"
        first, second = waits
        assert BASE_S / 2 <= first <= BASE_S <= second <= 2 * BASE_S

    async def test_a_permanent_error_is_not_retried(self) -> None:
        asked = Asked([ProviderError("No.", code="provider_auth")])
        assert await asked.fails() == "provider_auth"
        assert len(asked.script.requests) == 1

    @pytest.mark.parametrize(
        "reply", [[ContextOverflowError("Too large.", limit=10)], says(PROSE, finish="context_overflow")]
    )
    async def test_after_an_overflow_smaller_pieces_are_asked_for(self, reply: Reply) -> None:
        asked = Asked(reply, reply, *[ANSWER] * 8)
        assert await asked.prose(covered=b.long_task(8, 8_000)) == PROSE
        sizes = [estimate_text(sent[-1].text) for sent in asked.script.sent]
        assert sizes[0] > 1.5 * sizes[1] > 2 * sizes[2]

    async def test_what_is_always_too_large_ends(self) -> None:
        asked = Asked(*[[ContextOverflowError("Too large.")]] * 8)
        assert await asked.fails(covered=b.long_task(8, 8_000)) == "context_overflow"
        assert len(asked.script.requests) < 6

    async def test_an_overflow_reveals_the_window(self) -> None:
        windows = Learnt()
        asked = Asked([ContextOverflowError("Too large.", limit=4_096)], *[ANSWER] * 8, windows=windows)
        await asked.prose()
        request = asked.script.requests[0]
        size = estimate_text(request.system) + sum(message.tokens for message in request.messages)
        assert windows.refusals == [(MODEL, 4_096, size)]

    async def test_an_internal_error_is_reported_without_details(self) -> None:
        with capture_logs() as logs:
            assert await Asked([RuntimeError("secret")]).fails() == "internal_error"
        assert [entry["event"] for entry in logs] == ["summary_crashed"]

    async def test_a_model_that_was_removed(self) -> None:
        def resolve(name: str) -> Any:
            raise InvalidRequestError(f"There is no {name}.", code="unknown_model")

        assert await Asked(resolve=resolve).fails() == "unknown_model"


class TestCost:
    async def test_each_call_is_billed_when_it_is_made(self) -> None:
        asked = Asked(says("And", usage(500, 20), "length"), [*says(PROSE, usage(500, 30))])
        await asked.prose()
        billed = asked.sink.of(ModelUsed)
        assert [(change.model, change.usage.input_tokens, change.usage.output_tokens) for change in billed] == [
            (MODEL, 500, 20),
            (MODEL, 500, 30),
        ]
        assert [change.usage.cost_usd for change in billed] == [price(MODEL, change.usage) for change in billed]
        assert asked.summarizer.usage == sum((change.usage for change in billed), Usage())

    async def test_a_call_without_a_report_is_billed_by_the_estimate(self) -> None:
        asked = Asked([*says(PROSE)[:-2], Finish("stop")])
        await asked.prose()
        [billed] = asked.sink.of(ModelUsed)
        [sent] = asked.script.requests
        assert billed.usage.output_tokens == estimate_text(PROSE)
        assert billed.usage.input_tokens == estimate_text(sent.system) + sum(m.tokens for m in sent.messages)

    async def test_a_call_that_broke_off_is_billed_for_what_it_wrote(self) -> None:
        asked = Asked([TextDelta(0, "x" * 400), passing()], [passing()], ANSWER)
        await asked.prose()
        broken, whole = asked.sink.of(ModelUsed)
        assert broken.usage.output_tokens == 100
        assert whole.usage.output_tokens == 10
        assert asked.summarizer.usage == broken.usage + whole.usage, "the second attempt produced nothing"

    @pytest.mark.parametrize(("reply", "code"), FAULTS)
    async def test_unusable_answers_are_billed_too(self, reply: Reply, code: str) -> None:
        asked = Asked(reply)
        assert await asked.fails() == code
        assert [change.usage for change in asked.sink.of(ModelUsed)] == [asked.summarizer.usage]
        assert asked.summarizer.usage.input_tokens == 100

    @given(st.lists(st.sampled_from(["ok", "cut", "passing"]), min_size=40, max_size=40), st.integers(1, MAX_CALLS + 2))
    async def test_a_round_never_makes_more_calls_than_allowed(self, script: list[str], pieces: int) -> None:
        replies: dict[str, Reply] = {"ok": ANSWER, "cut": CUT, "passing": [passing()]}
        asked = Asked(*[replies[name] for name in script])
        work, code = b.long_task(pieces, 600), ""
        try:
            await asked.prose(covered=work, input_tokens=620)
        except SummaryFailed as failure:
            code = failure.code
        assert code in {"", "too_many_calls", "summary_cut_off", "provider_overloaded"}
        made = script[: len(asked.script.requests)]
        assert len(made) - made.count("passing") <= MAX_CALLS
        assert len(asked.sink.of(ModelUsed)) == len(made) - made.count("passing")
        assert asked.script.open == 0
