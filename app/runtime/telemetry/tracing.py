"""What is made of committed events: traces in OpenTelemetry's terms, the log lines of compactions, and which events are
news."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

import orjson
import structlog

from app import __version__
from app.eventlog.log import StreamItem

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import Span

log = structlog.get_logger(__name__)
AGENT = "palimpsest"
OTHER = "other"
"""The name of a tool that a model has invented."""
_MS = 1_000_000
"""Nanoseconds per millisecond; OpenTelemetry counts nanoseconds."""

_STARTED = "compaction.started"
_FAILED = "compaction.failed"
_LINES = {
    _STARTED: "compaction_started",
    "compaction.completed": "compaction_completed",
    _FAILED: "compaction_failed",
    "compaction.cancelled": "compaction_cancelled",
    "compaction.discarded": "compaction_discarded",
    "prune.completed": "outputs_cleared",
}
_FIELDS = (
    "session_id",
    "round",
    "reason",
    "policy",
    "background",
    "rung",
    "code",
    "next",
    "messages_compacted",
    "outputs_pruned",
    "tokens_before",
    "tokens_after",
    "duration_ms",
)

BEGINNING = "session.created"
_NEWS = (BEGINNING, "session.running", "message.queued")


@dataclass(slots=True)
class _Chat:
    """A model call: its span, when the model's last output arrived, and whether tools ran after that."""

    span: Span
    message_id: str
    heard_ns: int
    ran_tools: bool = False


@dataclass(slots=True)
class _Run:
    """The open spans of a running session."""

    span: Span
    chat: _Chat | None = None
    rounds: dict[int, Span] = field(default_factory=dict)


class Tracing:
    """Converts events to spans. `model_of` returns the model of a session that runs here, None if unknown; `tools` are
    the tool names that may be exported."""

    def __init__(
        self, provider: TracerProvider, *, model_of: Callable[[str], str | None], tools: Sequence[str] = ()
    ) -> None:
        self._tracer = provider.get_tracer(AGENT, __version__)
        self._model_of = model_of
        self._tools = frozenset(tools)
        self._runs: dict[str, _Run] = {}
        self._takes: Mapping[str, Callable[[_Run, dict[str, Any], int], None]] = {
            "step.started": self._step_started,
            "text.completed": self._output_received,
            "reasoning.completed": self._output_received,
            "tool.call": self._output_received,
            "tool.result": self._tool,
            "step.retrying": self._retrying,
            "step.finished": self._step_finished,
            "compaction.started": self._round_started,
            "compaction.completed": self._round_completed,
            "compaction.failed": self._round_failed,
            "compaction.cancelled": self._round_closed,
            "compaction.discarded": self._round_closed,
        }

    def observe(self, items: Sequence[StreamItem]) -> None:
        """Handles committed events, in the order of their session."""
        for item in news(items):
            if item.type in self._takes or item.type in ("session.running", "session.idle", "session.deleted"):
                try:
                    self._take(item.type, orjson.loads(item.data), item.traceparent)
                except Exception:
                    # The event is committed and must reach its readers even if tracing fails.
                    log.exception("trace_failed", type=item.type)

    def _take(self, type_: str, data: dict[str, Any], traceparent: str | None) -> None:
        session_id, at = data["session_id"], _ns(data["at"])
        if type_ in ("session.idle", "session.deleted"):
            self._run_ended(self._runs.pop(session_id, None), data, at)
            return
        run = self._runs.get(session_id)
        if run is None:
            # A manual round may be made without a run.
            run = self._runs[session_id] = self._run(session_id, at, traceparent)
        if type_ == "session.running":
            run.span.set_attribute("palimpsest.run.trigger", data["trigger"])
        else:
            self._takes[type_](run, data, at)
        if type_.startswith("compaction.") and not run.rounds and run.chat is None and not _is_run(run):
            self._run_ended(self._runs.pop(session_id), {}, at)

    def _run(self, session_id: str, at: int, traceparent: str | None) -> _Run:
        """A new span, in the trace of the request that caused it, if that named one."""
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        parent = TraceContextTextMapPropagator().extract({} if traceparent is None else {"traceparent": traceparent})
        attributes = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": AGENT,
            "gen_ai.conversation.id": session_id,
        }
        return _Run(self._tracer.start_span(f"invoke_agent {AGENT}", parent, start_time=at, attributes=attributes))

    def _run_ended(self, run: _Run | None, data: dict[str, Any], at: int) -> None:
        if run is None:
            return
        for span in [*run.rounds.values(), *([run.chat.span] if run.chat is not None else [])]:
            span.end(at)
        if (outcome := data.get("outcome")) is not None:
            run.span.set_attribute("palimpsest.run.outcome", outcome)
            run.span.set_attribute("palimpsest.run.steps", data["steps"])
            run.span.set_attributes(_usage(data["usage"]))
            if (error := data.get("error")) is not None:
                _fail(run.span, error["code"])
        run.span.end(at)

    def _child(self, run: _Run, name: str, at: int, attributes: Mapping[str, Any]) -> Span:
        from opentelemetry.trace import SpanKind, set_span_in_context

        kind = SpanKind.CLIENT if name.startswith("chat") else SpanKind.INTERNAL
        context = set_span_in_context(run.span)
        return self._tracer.start_span(name, context, kind, dict(attributes), start_time=at)

    def _step_started(self, run: _Run, data: dict[str, Any], at: int) -> None:
        provider, _, model = (self._model_of(data["session_id"]) or OTHER).partition("/")
        attributes = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": provider,
            "gen_ai.request.model": model or provider,
            "gen_ai.conversation.id": data["session_id"],
            "palimpsest.step": data["step"],
            "palimpsest.attempt": data["attempt"],
            "palimpsest.context.tokens": data["context"]["tokens"],
        }
        span = self._child(run, f"chat {model or provider}", at, attributes)
        run.chat = _Chat(span, data["message_id"], at)

    def _output_received(self, run: _Run, data: dict[str, Any], at: int) -> None:
        if run.chat is not None and run.chat.message_id == data["message_id"]:
            run.chat.heard_ns = at

    def _retrying(self, run: _Run, data: dict[str, Any], at: int) -> None:
        if run.chat is not None:
            _fail(run.chat.span, data["code"])
            run.chat.span.end(at)
            run.chat = None

    def _step_finished(self, run: _Run, data: dict[str, Any], at: int) -> None:
        chat, run.chat = run.chat, None
        if chat is None:
            return
        chat.span.set_attribute("gen_ai.response.finish_reasons", [data["finish_reason"]])
        chat.span.set_attributes(_usage(data["usage"]))
        if data["finish_reason"] == "error":
            _fail(chat.span, "error")
        # Its tools ran after the model's last output, and a step ends with them.
        chat.span.end(chat.heard_ns if chat.ran_tools else at)

    def _tool(self, run: _Run, data: dict[str, Any], at: int) -> None:
        name = data["name"] if data["name"] in self._tools else OTHER
        if run.chat is not None:
            run.chat.ran_tools = True
        attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": name,
            "gen_ai.tool.call.id": data["call_id"],
            "gen_ai.tool.type": "function",
            "palimpsest.tool.status": data["status"],
            "palimpsest.tool.output_bytes": data["bytes"],
        }
        span = self._child(run, f"execute_tool {name}", at - data["duration_ms"] * _MS, attributes)
        if data["status"] != "completed":
            _fail(span, data["status"])
        span.end(at)

    def _round_started(self, run: _Run, data: dict[str, Any], at: int) -> None:
        attributes = {
            "gen_ai.conversation.id": data["session_id"],
            "palimpsest.compaction.round": data["round"],
            "palimpsest.compaction.reason": data["reason"],
            "palimpsest.compaction.policy": data["policy"],
            "palimpsest.compaction.background": data["background"],
            "palimpsest.compaction.tokens_before": data["tokens_before"],
        }
        run.rounds[data["round"]] = self._child(run, "compaction", at, attributes)

    def _round_completed(self, run: _Run, data: dict[str, Any], at: int) -> None:
        if (span := run.rounds.pop(data["round"], None)) is not None:
            span.set_attribute("palimpsest.compaction.rung", data["rung"])
            span.set_attribute("palimpsest.compaction.tokens_after", data["tokens_after"])
            span.set_attributes(_usage(data["usage"]))
            span.end(at)

    def _round_failed(self, run: _Run, data: dict[str, Any], at: int) -> None:
        span = run.rounds.get(data["round"])
        if span is None:
            return
        span.add_event("rung_failed", {"palimpsest.compaction.rung": data["rung"], "error.type": data["code"]}, at)
        if data["next"] is None:
            _fail(run.rounds.pop(data["round"]), data["code"])
            span.end(at)

    def _round_closed(self, run: _Run, data: dict[str, Any], at: int) -> None:
        if (span := run.rounds.pop(data["round"], None)) is not None:
            span.set_attribute("palimpsest.compaction.given_up", True)
            span.end(at)

    def end_all(self) -> None:
        """Ends open spans; runs continue after the next start, in a new span."""
        for run in self._runs.values():
            for span in [*run.rounds.values(), *([run.chat.span] if run.chat is not None else []), run.span]:
                span.set_attribute("palimpsest.parked", True)
                span.end()
        self._runs.clear()


def _is_run(run: _Run) -> bool:
    """Whether the span is for a run, not just for a manual round."""
    return "palimpsest.run.trigger" in (getattr(run.span, "attributes", None) or {})


def _ns(at: str) -> int:
    return round(datetime.fromisoformat(at).timestamp() * 1000) * _MS


def _fail(span: Span, code: str) -> None:
    from opentelemetry.trace import StatusCode

    span.set_attribute("error.type", code)
    span.set_status(StatusCode.ERROR)


def _usage(usage: Mapping[str, Any]) -> dict[str, Any]:
    """Usage attributes; by convention, input includes tokens read from and written to the provider's cache."""
    read, written = usage["cache_read_tokens"], usage["cache_write_tokens"]
    found = {
        "gen_ai.usage.input_tokens": usage["input_tokens"] + read + written,
        "gen_ai.usage.output_tokens": usage["output_tokens"],
        "gen_ai.usage.cache_read.input_tokens": read,
        "gen_ai.usage.cache_creation.input_tokens": written,
        "gen_ai.usage.reasoning.output_tokens": usage["reasoning_tokens"],
    }
    return found if usage["cost_usd"] is None else found | {"palimpsest.cost_usd": usage["cost_usd"]}


@asynccontextmanager
async def tracing(
    exporter: SpanExporter, *, model_of: Callable[[str], str | None], tools: Sequence[str]
) -> AsyncIterator[Tracing]:
    """Exports traces to `exporter`, in batches from a thread; flushes the rest when the context ends."""
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    resource = Resource.create({"service.name": AGENT, "service.version": __version__})
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    traces = Tracing(provider, model_of=model_of, tools=tools)
    try:
        yield traces
    finally:
        traces.end_all()
        await asyncio.to_thread(provider.shutdown)


def otlp_exporter(endpoint: str) -> SpanExporter | None:
    """Sends spans to an OTLP receiver over HTTP; logs a warning and returns None if the packages are missing."""
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ImportError:
        log.warning("tracing_not_installed", hint="pip install 'palimpsest[otel]'")
        return None
    return OTLPSpanExporter(endpoint=f"{endpoint.rstrip('/')}/v1/traces", timeout=5)


class CompactionLog:
    """Logs the rounds of all sessions, and what is cleared without one. The fields of a round's start are kept until it
    ends, since not all final events repeat them."""

    def __init__(self) -> None:
        self._open: dict[tuple[str, int], dict[str, Any]] = {}

    def observe(self, items: Sequence[StreamItem]) -> None:
        """Handles committed events, in the order of their session."""
        for item in news(items):
            if (line := _LINES.get(item.type)) is not None:
                self._write(item.type, line, orjson.loads(item.data))
            elif item.type == "session.deleted":
                self._forget(orjson.loads(item.data)["session_id"])

    def _forget(self, session_id: str) -> None:
        """Drops the rounds of a session that was deleted during them."""
        for key in [key for key in self._open if key[0] == session_id]:
            del self._open[key]

    def _write(self, type_: str, line: str, data: dict[str, Any]) -> None:
        """Logs an event. A failed rung is also logged: `next` is the rung tried next, null if the round failed. No text
        of a user or a model is logged."""
        key = (data["session_id"], data.get("round", 0))
        if type_ == _STARTED:
            self._open[key] = data
        shown = {name: data[name] for name in _FIELDS if name in data}
        started = self._open.get(key, {})
        shown = {name: started[name] for name in ("reason", "policy", "tokens_before") if name in started} | shown
        if type_ == _FAILED:
            log.warning(line, **shown)
        else:
            log.info(line, **shown)
        if type_ != _STARTED and shown.get("next") is None:
            self._open.pop(key, None)


def news(items: Sequence[StreamItem]) -> Sequence[StreamItem]:
    """The events without those that a fork copies from its parent at its start, which were already counted there."""
    if not items or items[0].type != BEGINNING:
        return items
    return [item for item in items if item.type in _NEWS]
