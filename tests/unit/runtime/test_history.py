"""What the API shows of a session's past: pages without gaps, steps as they were sent, calls, usage."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from functools import partial
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import update

from app.agent.changes import ControlAdded, GenerationOpened
from app.agent.conversation import control_message
from app.context.prompts import Generation
from app.context.tokens import estimate_text, estimate_tools
from app.db import models
from app.db.repositories import costs as daily
from app.errors import ConflictError, NotFoundError
from app.messages import FinishReason, ToolStatus, Usage, new_id
from app.runtime import history
from app.runtime.agents import AgentSetup, load_conversation
from app.runtime.history import covered_ms, read_seq
from app.runtime.transactions import queue
from app.runtime.values.history import ContextView, MessagePage, StepPage
from app.tools import background, delegate
from tests.unit.runtime.stage import (
    GENERATION,
    GENERATION_OPENED,
    USAGE,
    Attempt,
    Stage,
    call_part,
    result_of,
    text_part,
)


async def converse(stage: Stage) -> list[Attempt]:
    """A run of two steps, the first of which needed a second attempt, and a control message after them."""
    await stage.post("task")
    await stage.act(lambda c: queue.deliver(c, stage.session_id, 0, first=True))
    void, first, second = Attempt(), Attempt(number=2), Attempt(step=2)
    call = call_part(1)
    await stage.commit(GENERATION_OPENED, void.opened, *void.wrote(text_part("void")), void.voided())
    await stage.commit(first.opened, *first.wrote(text_part("so"), call), first.answered(FinishReason.TOOL_CALLS))
    await stage.commit(result_of(call, new_id()), first.closed(FinishReason.TOOL_CALLS))
    await stage.commit(*second.whole(), ControlAdded(control_message("resume")))
    return [void, first, second]


P = TypeVar("P", MessagePage, StepPage)


async def all_pages(stage: Stage, read: Callable[..., P], limit: int) -> list[P]:
    """All pages, as a client requests them."""
    pages: list[P] = []
    after: str | None = None
    while not pages or after is not None:
        page = partial(read, session_id=stage.session_id, after=read_seq(after), limit=limit)
        pages.append(await stage.database.read(page))
        after = pages[-1].next_cursor
    return pages


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 6, 7])
async def test_pages_contain_each_message_once(stage: Stage, limit: int) -> None:
    await converse(stage)
    whole = await stage.history()
    assert [message.role for message in whole] == ["user", "assistant", "assistant", "tool", "assistant", "control"]
    pages = await all_pages(stage, history.message_page, limit)
    assert [message for page in pages for message in page.items] == whole
    assert [len(page.items) for page in pages[:-1]] == [limit] * (len(pages) - 1)
    assert len(pages) == -(-len(whole) // limit), "no empty page comes last"
    assert {page.last_seq for page in pages} == {(await stage.row()).last_seq}


@pytest.mark.parametrize("limit", [1, 2, 3, 4])
async def test_pages_contain_each_attempt_once(stage: Stage, limit: int) -> None:
    void, first, second = await converse(stage)
    pages = await all_pages(stage, history.step_page, limit)
    found = [step for page in pages for step in page.items]
    assert len(pages) == -(-3 // limit)
    assert [(step.step, step.attempt, step.message_id) for step in found] == [
        (1, 1, void.message_id),
        (1, 2, first.message_id),
        (2, 1, second.message_id),
    ]
    assert [(step.finish_reason, step.duration_ms) for step in found] == [
        ("error", None),
        ("tool_calls", 5),
        ("stop", 5),
    ]
    assert [(step.usage, step.context, step.generation) for step in found] == [(USAGE, void.context, 1)] * 3


async def test_a_running_step_has_no_end(stage: Stage) -> None:
    await stage.commit(GENERATION_OPENED, Attempt().opened)
    page = await stage.database.read(lambda c: history.step_page(c, stage.session_id, 0, 10))
    [step] = page.items
    assert (step.finish_reason, step.duration_ms, step.usage) == (None, None, Usage())


async def test_a_model_takes_no_longer_than_its_step(stage: Stage) -> None:
    """The commit of its answer can be later than the end of the step was measured."""
    await stage.commit(GENERATION_OPENED, *Attempt().whole())
    later = update(models.steps).values(answered_at=datetime.now(UTC) + timedelta(minutes=1))
    await stage.database.writer.write(lambda c: c.execute(later))
    page = await stage.database.read(lambda c: history.step_page(c, stage.session_id, 0, 10))
    assert [(step.model_ms, step.duration_ms) for step in page.items] == [(5, 5)]


# contexts


async def context(stage: Stage, step: int | None, agents: AgentSetup) -> ContextView:
    if step is not None:
        return await stage.database.read(lambda c: history.sent_context(c, stage.session_id, step))
    stored = await stage.database.read(lambda c: load_conversation(c, stage.session_id))
    return await history.next_context(await stage.row(), stored, agents)


async def test_a_step_s_context_is_what_was_sent(stage: Stage, agents: AgentSetup) -> None:
    _, first, second = await converse(stage)
    later = Generation(new_id(), 2, "scripted/demo", "later", (), 1)
    await stage.commit(GenerationOpened(later), ControlAdded(control_message("continue")))
    views = [await context(stage, step, agents) for step in (1, 2)]
    sent = [[item.message.text for item in view.messages] for view in views]
    assert sent == [["task"], ["task", "so", ""]], "neither the void attempt nor what came later"
    assert [view.messages[-1].message.role for view in views] == ["user", "tool"]
    for view, attempt in zip(views, (first, second), strict=True):
        assert (view.step, view.generation, view.system.text) == (attempt.step, 1, "system")
        assert (view.tokens, view.limit, view.usable) == (7, 100, 90)
        assert view.system.tokens == estimate_text("system")
        assert [(tool.name, tool.tokens) for tool in view.tools] == [("run", estimate_tools(GENERATION.tools))]
        assert view.last_seq == (await stage.row()).last_seq


async def test_an_unknown_step_has_no_context(stage: Stage, agents: AgentSetup) -> None:
    await converse(stage)
    with pytest.raises(NotFoundError) as caught:
        await context(stage, 3, agents)
    assert caught.value.code == "step_not_found"


async def test_the_next_context_uses_the_current_session_and_stores_nothing(stage: Stage, agents: AgentSetup) -> None:
    await converse(stage)
    before = await stage.row()
    view = await context(stage, None, agents)
    assert (view.step, view.generation) == (None, 2), "the stored one has another system text"
    assert [item.message.role for item in view.messages] == ["user", "assistant", "tool", "assistant", "control"]
    assert view.messages[-1].reason == "control"
    assert [tool.name for tool in view.tools] == [
        name for name in agents.registry.names() if name not in (*background.NAMES, delegate.NAME)
    ]
    assert 0 < sum(item.tokens for item in view.messages) < view.tokens <= view.usable < view.limit
    await stage.change(system_prompt="mine", tools=["read_file"])
    view = await context(stage, None, agents)
    assert view.system.text.startswith("mine")
    assert [tool.name for tool in view.tools] == ["read_file"]
    after = await stage.row()
    assert (after.generation, after.last_seq) == (before.generation, before.last_seq) == (1, before.last_seq)


async def test_a_call_without_a_result_is_repaired_in_the_view(stage: Stage, agents: AgentSetup) -> None:
    attempt, call = Attempt(), call_part()
    await stage.post("task")
    await stage.act(lambda c: queue.deliver(c, stage.session_id, 0, first=True))
    await stage.commit(GENERATION_OPENED, attempt.opened, *attempt.wrote(call))
    await stage.commit(attempt.answered(FinishReason.TOOL_CALLS))
    view = await context(stage, None, agents)
    [result] = view.messages[-1].message.tool_results
    assert (result.call_id, view.messages[-1].reason) == (call.call_id, "repair")


async def test_after_an_answer_the_next_step_needs_a_message(stage: Stage, agents: AgentSetup) -> None:
    await stage.post("task")
    await stage.act(lambda c: queue.deliver(c, stage.session_id, 0, first=True))
    await stage.commit(GENERATION_OPENED, *Attempt().whole())
    view = await context(stage, None, agents)
    assert [item.message.text for item in view.messages] == ["task", "done"]
    said = sum(item.tokens for item in view.messages)
    fixed = view.system.tokens + sum(tool.tokens for tool in view.tools)
    assert view.tokens == pytest.approx(1.1 * (said + fixed), abs=1), "with the calibration that a model starts with"


async def test_repairs_are_shown_before_an_answer_too(stage: Stage, agents: AgentSetup) -> None:
    first, call = Attempt(), call_part()
    await stage.post("task")
    await stage.act(lambda c: queue.deliver(c, stage.session_id, 0, first=True))
    await stage.commit(GENERATION_OPENED, first.opened, *first.wrote(call), first.answered(FinishReason.TOOL_CALLS))
    await stage.commit(*Attempt(step=2).whole())
    view = await context(stage, None, agents)
    assert [(str(item.message.role), item.reason) for item in view.messages] == [
        ("user", None),
        ("assistant", None),
        ("tool", "repair"),
        ("assistant", None),
    ]
    said = sum(item.tokens for item in view.messages)
    fixed = view.system.tokens + sum(tool.tokens for tool in view.tools)
    assert view.tokens == pytest.approx(1.1 * (said + fixed), abs=1), "with the calibration that a model starts with"


# calls


async def test_a_call_is_shown_with_its_result(stage: Stage) -> None:
    attempt, call, tool_message = Attempt(), call_part(), new_id()
    await stage.commit(GENERATION_OPENED, attempt.opened, *attempt.wrote(call), attempt.answered())

    view = await stage.database.read(lambda c: history.tool_call(c, stage.session_id, call.call_id))
    assert (view.message_id, view.call.status) == (attempt.message_id, ToolStatus.RUNNING)
    assert (view.result_message_id, view.result) == (None, None)
    with pytest.raises(ConflictError) as caught:
        await stage.database.read(lambda c: history.stored_output(c, stage.session_id, call.call_id))
    assert caught.value.code == "call_open"

    result = result_of(call, tool_message)
    await stage.commit(result)
    view = await stage.database.read(lambda c: history.tool_call(c, stage.session_id, call.call_id))
    assert view.call == call.model_copy(update={"status": ToolStatus.COMPLETED})
    assert (view.result_message_id, view.result) == (tool_message, result.part)


@pytest.mark.parametrize("read", [history.tool_call, history.stored_output])
async def test_an_unknown_call_is_not_found(stage: Stage, read: Callable[..., Any]) -> None:
    for session_id, code in ((stage.session_id, "call_not_found"), (new_id(), "session_not_found")):
        with pytest.raises(NotFoundError) as caught:
            await stage.database.read(partial(read, session_id=session_id, call_id=new_id()))
        assert caught.value.code == code


@pytest.mark.parametrize(
    ("output", "size", "raw"),
    [("out", 3, b"out"), ("Hälfte\n[added note]", 8, "Hälfte\n".encode()), ("[no output]", 0, b"")],
)
async def test_a_short_raw_output_excludes_added_notes(stage: Stage, output: str, size: int, raw: bytes) -> None:
    attempt, call = Attempt(), call_part()
    await stage.commit(GENERATION_OPENED, attempt.opened, *attempt.wrote(call), attempt.answered())
    await stage.commit(result_of(call, new_id(), output=output, bytes=size))
    stored = await stage.database.read(lambda c: history.stored_output(c, stage.session_id, call.call_id))
    assert (stored.text, stored.ref) == (raw, None)


# usage


def priced(cost: float | None) -> Usage:
    return USAGE.model_copy(update={"cost_usd": cost})


@pytest.mark.parametrize(
    ("costs", "by_model", "total"),
    [
        ({}, {}, 0.0),
        ({"a": [0.25, 0.5], "b": [1.0]}, {"a": 0.75, "b": 1.0}, 1.75),
        ({"a": [0.25, None], "b": [1.0]}, {"a": None, "b": 1.0}, None),
        ({"a": [1.0], "b": [None]}, {"a": 1.0, "b": None}, None),
    ],
)
async def test_a_sum_with_an_unknown_price_has_no_cost(
    stage: Stage, costs: dict[str, list[float | None]], by_model: dict[str, float | None], total: float | None
) -> None:
    for model, values in costs.items():
        for cost in values:
            add = partial(daily.add, day="2026-01-02", model=model, usage=priced(cost))
            await stage.database.writer.write(add)
    report = await stage.database.read(history.usage_report)
    count = sum(map(len, costs.values()))
    assert {item.model: item.usage.cost_usd for item in report.items} == by_model
    assert {item.model: item.steps for item in report.items} == {model: len(values) for model, values in costs.items()}
    assert report.total == sum([USAGE] * count, Usage()).model_copy(update={"cost_usd": total})


async def test_the_newest_day_comes_first(stage: Stage) -> None:
    for day in ("2026-01-02", "2026-01-10", "2025-12-31"):
        await stage.database.writer.write(partial(daily.add, day=day, model="a", usage=USAGE))
    report = await stage.database.read(history.usage_report)
    assert [item.day for item in report.items] == ["2026-01-10", "2026-01-02", "2025-12-31"]


@pytest.mark.parametrize(
    ("group_by", "groups"),
    [
        (None, [("a", "2026-01-03", 1), ("a", "2026-01-02", 2), ("b", "2026-01-02", 1)]),
        ("day", [(None, "2026-01-03", 1), (None, "2026-01-02", 3)]),
        ("model", [("a", None, 3), ("b", None, 1)]),
    ],
)
async def test_usage_is_grouped_by_model_or_day(stage: Stage, group_by: str | None, groups: list[Any]) -> None:
    for day, model in (("01", "a"), ("02", "a"), ("02", "a"), ("02", "b"), ("03", "a"), ("04", "a")):
        await stage.database.writer.write(partial(daily.add, day=f"2026-01-{day}", model=model, usage=USAGE))
    days = daily.Days(date(2026, 1, 2), date(2026, 1, 3))
    report = await stage.database.read(lambda c: history.usage_report(c, days, group_by))
    assert [(item.model, item.day, item.steps) for item in report.items] == groups
    assert report.total == sum([USAGE] * 4, Usage())


seconds = st.integers(0, 30)


@given(st.lists(st.tuples(seconds, seconds).map(sorted), max_size=8))
def test_the_time_that_periods_cover_counts_each_moment_once(periods: list[list[int]]) -> None:
    moments = {moment for start, end in periods for moment in range(start, end)}
    start = datetime(2026, 11, 26, tzinfo=UTC)
    found = [(start + timedelta(seconds=first), start + timedelta(seconds=last)) for first, last in periods]
    assert covered_ms(found) == 1000 * len(moments)
