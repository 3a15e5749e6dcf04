"""Folds the chunks of a Chat Completions stream into neutral events, for all known dialects."""

from __future__ import annotations

from typing import Any

from app.llm.base import StopReason, UsageReport
from app.llm.endings import end_word
from app.llm.held import HeldBytes
from app.llm.openai_calls import Call, CallDelta, Calls, deltas_in
from app.llm.openai_reasoning import Place, Reasoning, ThinkTag, text_in
from app.llm.snapshots import GrowingText
from app.llm.stream_errors import bare_error_in, error_in
from app.llm.token_usage import chat_usage, merged_usage
from app.llm.wire import ErrorFor, ResponseStream


class OpenAiStream(ResponseStream):
    """The state of one response."""

    def __init__(self, error_for: ErrorFor) -> None:
        super().__init__(error_for)
        held = HeldBytes()
        self._text: int | None = None
        self._reasoning: tuple[int, Place] | None = None
        self._kept: tuple[int, Place] | None = None
        """Reasoning that stays open for fields that may come later."""
        self._texts, self._thoughts, self._refusals = GrowingText(), GrowingText(), GrowingText()
        self._place: Place = "reasoning"
        self._tag = ThinkTag()
        self._beside = Reasoning(held)
        self._calls = Calls(held)
        self._has_deltas = False
        self._usage: dict[str, Any] | None = None

    def _event(self, name: str, event: dict[str, Any], size: int) -> None:
        if name == "error":
            raise self._failure(error_in(event) or event)
        self._document(event)

    def _document(self, response: dict[str, Any]) -> None:
        if (error := error_in(response)) is not None:
            raise self._failure(error)
        choices = response.get("choices")
        if choices is None and (bare := bare_error_in(response)) is not None:
            raise self._failure(bare)
        choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
        has_content = self._choice(choice)
        self._count(choice.get("usage"), has_content=has_content)
        self._count(response.get("usage"), has_content=has_content)
        if word := end_word(choice.get("finish_reason")):
            self._ended(word, choice)

    def _close(self, reason: StopReason) -> StopReason:
        self._close_prose()
        for call in self._calls:
            self._announce(call, call.arguments.end())
        self._end_kept()
        for call in self._calls:
            self._out.end(call.block or 0, call.provider_data)
        if self._usage is not None:
            self._out.add(UsageReport(chat_usage(self._usage)))
        if reason == "stop":
            # Some servers send `stop` after calls.
            return "refusal" if self._refusals else "tool_calls" if len(self._calls) else "stop"
        return reason

    def _count(self, usage: Any, *, has_content: bool) -> None:
        """Adds a report of usage. One after the content means that the response is complete, unless the server reports
        it with every piece."""
        if isinstance(usage, dict):
            is_first = not self._usage
            self._usage = merged_usage(self._usage or {}, usage)
            self._is_complete = any(self._usage.values()) and (is_first or not has_content)

    def _choice(self, choice: dict[str, Any]) -> bool:
        """Reads the delta, or the complete message; returns whether it has content."""
        delta, message = choice.get("delta"), choice.get("message")
        if calls := choice.get("tool_calls"):
            # A few servers send them next to the delta.
            delta = delta if isinstance(delta, dict) else {}
            delta = {**delta, "tool_calls": delta.get("tool_calls") or calls}
        has_content = False
        if isinstance(delta, dict) and delta:
            self._has_deltas = True
            is_last = not self.finished and end_word(choice.get("finish_reason")) is not None
            has_content = self._delta(delta, is_last=is_last)
        if isinstance(message, dict) and message:
            if self._has_deltas:
                self._message(message)
            else:
                # Of a server that does not stream, or that calls its deltas so.
                has_content = self._delta(message, is_whole=True)
        return has_content

    def _delta(self, delta: dict[str, Any], *, is_whole: bool = False, is_last: bool = False) -> bool:
        has_content = False
        if found := self._beside.read(delta):
            text, self._place = found
            self._add_reasoning(self._thoughts.add(text, is_last=is_last))
            has_content = True
        if (content := delta.get("content")) and (text := text_in(content)):
            self._add_content(self._texts.add(text, is_last=is_last))
            has_content = True
        if (refusal := delta.get("refusal")) and (text := text_in(refusal)):
            self._add_text(self._refusals.add(text, is_last=is_last))
            has_content = True
        for entry in self._entries(delta):
            self._show(*self._calls.add(entry))
            has_content = True
        self._beside.keep(delta, is_whole=is_whole)
        if has_content:
            self._has_content, self._is_complete = True, False
        return has_content

    def _message(self, message: dict[str, Any]) -> None:
        """Adds what a complete message has in addition to the deltas before it."""
        if found := self._beside.read(message):
            self._add_reasoning(self._thoughts.complete(found[0]))
        if text := text_in(message.get("content")):
            self._add_content(self._texts.complete(text))
        if text := text_in(message.get("refusal")):
            self._add_text(self._refusals.complete(text))
        for place, entry in enumerate(self._entries(message)):
            self._show(*self._calls.complete(place, entry))
        self._beside.keep(message, is_whole=True)
        self._has_content = self._is_complete = True

    def _entries(self, message: dict[str, Any]) -> list[CallDelta]:
        entries = deltas_in(calls) if (calls := message.get("tool_calls")) else []
        if isinstance(function := message.get("function_call"), dict):
            entries += deltas_in({"index": 0, "function": function})
        return entries

    def _add_content(self, text: str) -> None:
        if text:
            if self._text is None:
                self._write_reasoning(self._thoughts.settle(), self._place)
            self._write_content(text)

    def _add_text(self, text: str) -> None:
        if text and self._text is None:
            self._write_reasoning(self._thoughts.settle(), self._place)
        self._write_text(text)

    def _add_reasoning(self, text: str) -> None:
        if text and self._reasoning is None:
            self._write_content(self._texts.settle())
        self._write_reasoning(text, self._place)

    def _write_content(self, text: str) -> None:
        if text and not self._tag.is_over:
            reasoning, text = self._tag.feed(text)
            self._write_reasoning(reasoning, "think_tag")
        self._write_text(text)

    def _write_text(self, text: str) -> None:
        if text:
            if self._text is None:
                self._close_reasoning()
                self._text = self._out.begin()
            self._out.text(self._text, text)

    def _write_reasoning(self, text: str, place: Place) -> None:
        if text:
            if self._reasoning is None:
                self._close_text()
                self._reasoning = (self._out.begin(), place)
            self._out.reasoning(self._reasoning[0], text)

    def _show(self, call: Call, text: str) -> None:
        """Shows a call's arguments as they come, once its name is known."""
        if text and call.name:
            self._announce(call, text)
        elif text:
            call.unshown.append(text)

    def _announce(self, call: Call, text: str) -> None:
        if call.unshown:
            text = "".join([*call.unshown, text])
            call.unshown.clear()
        if call.block is None:
            self._close_prose()
            for earlier in self._calls.unannounced_before(call):
                earlier.block = self._out.begin_call(earlier.name)
            call.block = self._out.begin_call(call.name)
        if text:
            self._out.arguments(call.block, text)

    def _close_prose(self) -> None:
        """Ends text and reasoning, with all that was held back."""
        self._write_reasoning(self._thoughts.settle(), self._place)
        self._write_content(self._texts.settle())
        if not self._tag.is_over:
            reasoning, text = self._tag.flush()
            self._write_reasoning(reasoning, "think_tag")
            self._write_text(text)
        self._write_text(self._refusals.settle())
        self._close_text()
        self._close_reasoning()

    def _close_text(self) -> None:
        if self._text is not None:
            self._out.end(self._text)
        self._text = None

    def _close_reasoning(self) -> None:
        if self._reasoning is None:
            return
        if self._beside.has_fields and self._kept is None:
            self._kept = self._reasoning
        else:
            block, place = self._reasoning
            self._out.end(block, {"type": "chat", "place": place})
        self._reasoning = None

    def _end_kept(self) -> None:
        """Ends the reasoning that has the fields which only the server understands; a block of its own if there was no
        reasoning before them."""
        fields = self._beside.end()
        if self._kept is not None:
            block, place = self._kept
            self._out.end(block, {"type": "chat", "place": place, "fields": fields})
        elif fields:
            self._out.reasoning(block := self._out.begin(), "")
            self._out.end(block, {"type": "chat", "fields": fields})
