"""A foreign conversation as it is read, before calls and results are matched."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from app.errors import InvalidRequestError
from app.messages import ImagePart, Part, ReasoningPart, Role, TextPart, ToolCallPart, ToolResultPart, ToolStatus

WireFormat = Literal["openai", "anthropic"]


@dataclass(frozen=True, slots=True)
class Turn:
    """One foreign message. Parts have no ids yet, and calls and results carry their original ids; `after` holds what
    must follow the message and the results of its calls, in a separate message."""

    role: Role
    parts: list[Part] = field(default_factory=list)
    after: list[Part] = field(default_factory=list)

    @property
    def holds_something(self) -> bool:
        """Whether it has anything except white space."""
        return bool(self.after) or any(not isinstance(part, TextPart) or part.text.strip() for part in self.parts)

    def add_text(self, text: str) -> None:
        """Adds a text unless it is empty."""
        if text:
            self.parts.append(text_part(text))


def invalid(index: int, detail: str) -> InvalidRequestError:
    """The error for anything that is not a message; `index` counts from 0."""
    return InvalidRequestError(f"history.messages[{index}]: {detail}.", code="invalid_history", index=index)


def text_part(text: str) -> TextPart:
    return TextPart(id="", index=0, text=text)


def reasoning_part(text: str, provider_data: dict[str, Any] | None = None) -> ReasoningPart:
    return ReasoningPart(id="", index=0, text=text, provider_data=provider_data)


def image_part(media_type: str, data: str, size: tuple[int, int] | None) -> ImagePart:
    width, height = size or (None, None)
    return ImagePart(id="", index=0, media_type=media_type, data=data, width=width, height=height)


def call_part(call_id: str, name: str, arguments_text: str) -> ToolCallPart:
    return ToolCallPart(id="", index=0, call_id=call_id, name=name or "unknown", arguments_text=arguments_text)


def result_part(call_id: str, name: str, output: str, status: ToolStatus) -> ToolResultPart:
    size = len(output.encode())
    return ToolResultPart(id="", index=0, call_id=call_id, name=name, output=output, status=status, bytes=size)
