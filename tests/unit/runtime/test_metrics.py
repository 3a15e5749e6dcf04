"""Metrics: counters from committed events, and no label that comes from a model."""

from __future__ import annotations

import asyncio
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from app.db.writer import Commit
from app.errors import StorageBusyError, StorageError
from app.eventlog.bus import Bus
from app.eventlog.channel import Reader
from app.eventlog.log import StreamItem
from app.runtime.telemetry.metrics import MCP, OTHER, Metrics
from app.runtime.telemetry.tracing import news

USAGE = {
    "input_tokens": 10,
    "cache_read_tokens": 20,
    "cache_write_tokens": 30,
    "output_tokens": 40,
    "reasoning_tokens": 5,
    "cost_usd": 0.5,
}


def item(type_: str, **data: object) -> StreamItem:
    return StreamItem(type_, 1, json.dumps(data).encode())


def samples(metrics: Metrics) -> dict[str, float]:
    """By name, and by the values of the labels in the order of their names."""
    return {
        " ".join([sample.name, *(sample.labels[name] for name in sorted(sample.labels))]): sample.value
        for family in text_string_to_metric_families(metrics.render().decode())
        for sample in family.samples
    }


def test_a_step_adds_its_tokens_and_cost() -> None:
    metrics = Metrics()
    metrics.observe([item("step.finished", finish_reason="stop", usage=USAGE)] * 2)
    metrics.observe([item("step.finished", finish_reason="error", usage={**USAGE, "cost_usd": None})])
    found = samples(metrics)
    assert (found["palimpsest_steps_total stop"], found["palimpsest_steps_total error"]) == (2, 1)
    assert [found[f"palimpsest_tokens_total {kind}"] for kind in ("input", "cache_read", "reasoning")] == [30, 60, 15]
    assert (found["palimpsest_cost_usd_total"], found["palimpsest_unpriced_steps_total"]) == (1.0, 1)
    assert found["palimpsest_events_total step.finished"] == 3


@pytest.mark.parametrize(
    "name",
    [
        "palimpsest_runs_total failed",
        "palimpsest_compactions_total threshold summary",
        "palimpsest_database_refusals_total storage_busy",
        "palimpsest_database_refusals_total storage_full",
    ],
)
def test_counters_used_by_alerts_start_at_zero(name: str) -> None:
    assert samples(Metrics())[name] == 0


def test_runs_messages_and_retries_are_counted() -> None:
    metrics = Metrics()
    metrics.observe(
        [
            item("session.idle", outcome="failed"),
            item("message.queued", mode="steer"),
            item("step.retrying", code="provider_overloaded"),
            item("text.completed"),
        ]
    )
    found = samples(metrics)
    for name in (
        "palimpsest_runs_total failed",
        "palimpsest_messages_queued_total steer",
        "palimpsest_step_retries_total provider_overloaded",
        "palimpsest_events_total text.completed",
    ):
        assert found[name] == 1


def result(name: str, call_id: str = "c") -> StreamItem:
    return item("tool.result", name=name, status="error", duration_ms=1500, call_id=call_id)


def test_tools_of_users_share_a_label_for_each_kind() -> None:
    metrics = Metrics(["read_file"])
    metrics.observe(
        [
            item("tool.call", name="ask", call_id="1", arguments={}, waits_for_client=True),
            item("tool.call", name="read_file", call_id="2", arguments={"waits_for_client": True}),
            *(result(name, call_id) for name, call_id in (("ask", "1"), ("read_file", "2"), ("ask", "3"))),
            *map(result, ("mcp__docs__search", "mcp__docs__read")),
        ]
    )
    found = samples(metrics)
    counts = {
        tool: found[f"palimpsest_tool_calls_total error {tool}"] for tool in ("client", "mcp", "read_file", OTHER)
    }
    assert counts == {"client": 1, "mcp": 2, "read_file": 1, OTHER: 1}


@given(st.lists(st.text()))
def test_the_number_of_labels_is_bounded(names: list[str]) -> None:
    metrics = Metrics(["read_file"])
    called = ["read_file", "x", "mcp__a__b", *names]
    metrics.observe([result(name) for name in called])
    calls = {name: value for name, value in samples(metrics).items() if name.startswith("palimpsest_tool_calls_total")}
    assert set(calls) == {f"palimpsest_tool_calls_total error {tool}" for tool in ("read_file", MCP, OTHER)}
    assert sum(calls.values()) == len(called)
    assert samples(metrics)[f"palimpsest_tool_call_seconds_sum {OTHER}"] >= 1.5


def test_compactions_are_counted_by_rung_with_what_they_cost() -> None:
    metrics = Metrics()
    metrics.observe(
        [
            item("compaction.completed", rung="summary", reason="threshold", usage=USAGE),
            item("compaction.failed", rung="summary", code="summary_empty", usage=USAGE),
            item("compaction.discarded", usage=USAGE),
            item("compaction.cancelled", usage=None),
            item("prune.completed", outputs_pruned=3),
        ]
    )
    found = samples(metrics)
    assert found["palimpsest_compactions_total threshold summary"] == 1
    assert found["palimpsest_compaction_failures_total summary_empty summary"] == 1
    assert found["palimpsest_compaction_tokens_total output"] == 120
    assert found["palimpsest_compaction_cost_usd_total"] == 1.5
    assert found["palimpsest_outputs_pruned_total"] == 3


def test_a_fork_does_not_count_its_parents_events_again() -> None:
    metrics = Metrics()
    round = item("compaction.completed", rung="summary", reason="threshold", usage=USAGE)
    begun = [item("session.created"), item("message.created"), round, item("prune.completed", outputs_pruned=3)]
    metrics.observe(begun)
    metrics.observe([item("session.created"), item("message.queued", mode="steer"), item("session.running")])
    found = samples(metrics)
    assert found["palimpsest_compactions_total threshold summary"] == 0
    assert found["palimpsest_outputs_pruned_total"] == 0
    assert found["palimpsest_messages_queued_total steer"] == 1
    assert found["palimpsest_events_total compaction.completed"] == 1
    assert [each.type for each in news(begun)] == ["session.created"]


def test_commits_are_measured_and_refusals_counted_by_their_code() -> None:
    metrics = Metrics()
    metrics.committed(Commit(30, 0.002, None))
    metrics.committed(Commit(5, 5.0, StorageBusyError("Held.")))
    metrics.committed(Commit(5, 5.0, RuntimeError("A bug.")))
    found = samples(metrics)
    assert (found["palimpsest_database_batch_writes_sum"], found["palimpsest_database_batch_writes_count"]) == (30, 1)
    assert found["palimpsest_database_commit_seconds_sum"] == 0.002
    assert found["palimpsest_database_refusals_total storage_busy"] == 1
    assert found["palimpsest_database_refusals_total internal_error"] == 1


def test_an_unreadable_value_does_not_hide_others() -> None:
    def read() -> float:
        raise StorageError("The database cannot be read.")

    metrics = Metrics()
    metrics.gauge("broken", "It fails.", read)
    metrics.gauge("sound", "It does not.", lambda: 1)
    found = samples(metrics)
    assert math.isnan(found["broken"])
    assert found["sound"] == 1


def test_gauges_are_read_on_request() -> None:
    metrics = Metrics()
    value = 1
    metrics.gauge("now", "What it is now.", lambda: value)
    metrics.counter("ever", "What it was ever.", lambda: 10 * value)
    assert (samples(metrics)["now"], samples(metrics)["ever_total"]) == (1, 10)
    value = 2
    assert (samples(metrics)["now"], samples(metrics)["ever_total"]) == (2, 20)


async def test_the_lag_of_the_loop_is_measured_while_entered() -> None:
    metrics = Metrics()
    async with metrics.measuring_lag():
        async with asyncio.timeout(60):
            while (await asyncio.to_thread(samples, metrics))["palimpsest_event_loop_lag_seconds_count"] == 0:
                pass
    assert "event-loop-lag" not in {task.get_name() for task in asyncio.all_tasks()}


async def test_the_bus_reports_published_events_and_counts_its_readers() -> None:
    heard: list[str] = []
    bus = Bus(lambda items: heard.extend(each.type for each in items))
    bus.publish("nobody follows", [item("step.started")])
    bus.delete("nobody follows", item("session.deleted"))
    assert heard == ["step.started", "session.deleted"]
    bus.channel("followed").readers.add(Reader())
    bus.all.readers.add(asyncio.Event())
    assert bus.readers == 2
    assert bus.close() == 2
