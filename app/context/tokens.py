"""Token counts without a tokenizer: an estimate of text, messages and tool schemas, and its calibration.

The estimate is a quarter of a token for an ASCII character and a whole token for any other: dividing all characters by
four undercounts Chinese, Japanese and Korean text about four times.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil

import orjson

from app.llm.base import ToolSchema
from app.messages import (
    CompactionMarkerPart,
    ImagePart,
    Message,
    Part,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    clean_text,
)

PER_MESSAGE = 4
"""Tokens that a message costs besides its parts: its role and delimiters."""

IMAGE_TOKENS = 1600
"""The most that an image costs, and what one of unknown size is taken for; Anthropic scales larger ones down to it."""

PIXELS_PER_TOKEN = 750
"""Anthropic's published rule: width times height over 750."""

CALIBRATION_MINIMUM = 1000
"""Prompts below this many tokens are mostly fixed overhead and say little about the text."""


def estimate_text(text: str) -> int:
    """Estimated tokens of a text: ASCII characters over four, rounded up, plus one for each other character."""
    if text.isascii():
        return (len(text) + 3) // 4
    narrow = len(text.encode("ascii", "ignore"))
    return (narrow + 3) // 4 + len(text) - narrow


def estimate_part(part: Part) -> int:
    """Estimated tokens of one part as it goes out.

    Calls and results count as their JSON, escapes included; images by their pixels and never by their bytes. Reasoning
    counts by its text, or by the provider's block where the text is withheld; a projection leaves out what is not sent.
    """
    match part:
        case TextPart():
            return estimate_text(part.text)
        case ReasoningPart():
            return estimate_text(part.text) if part.text else _json_tokens(part.provider_data or {})
        case ToolCallPart():
            head = f'{{"id":"{part.call_id}","name":"{part.name}","arguments":'
            return estimate_text(f"{head}{part.arguments_text or '{}'}}}")
        case ImagePart():
            return _image_tokens(part)
        case CompactionMarkerPart():
            return 0
    return _json_tokens({"call_id": part.call_id, "output": clean_text(part.output)})


def estimate_message(message: Message, per_message: int = PER_MESSAGE) -> int:
    """Estimated tokens of a message, counted anew. A message of no parts costs `per_message`."""
    return per_message + sum(map(estimate_part, message.parts))


def counted_tokens(message: Message, per_message: int = PER_MESSAGE) -> int:
    """As `estimate_message`, but a part that was counted when it was stored is not counted again."""
    return per_message + sum(part.tokens or estimate_part(part) for part in message.parts)


def estimate_tools(schemas: Iterable[ToolSchema]) -> int:
    """Estimated tokens of the tool list, each schema as its JSON."""
    return sum(
        _json_tokens({"name": s.name, "description": s.description, "parameters": s.parameters}) for s in schemas
    )


def _json_tokens(value: object) -> int:
    return estimate_text(orjson.dumps(value).decode())


def _image_tokens(part: ImagePart) -> int:
    if not part.width or not part.height:
        return IMAGE_TOKENS
    return min(IMAGE_TOKENS, ceil(part.width * part.height / PIXELS_PER_TOKEN))


@dataclass(frozen=True, slots=True)
class Calibration:
    """How far the estimate is off for one base URL and model: `factor` is reported tokens over estimated ones.

    The newest prompt replaces older samples, since it is the most like the next one. A reply after silent truncation
    must not be observed; whether there was one is judged on the raw estimate.
    """

    factor: float = 1.1

    @classmethod
    def starting(cls, kind: str) -> Calibration:
        """Before the first report: OpenAI's tokenizers match the estimate, others are taken to need a tenth more."""
        return cls(1.0 if kind == "openai" else 1.1)

    def observe(self, estimated: int, reported: int) -> Calibration:
        """The calibration after a prompt of `estimated` raw tokens was reported as `reported`; clamped to 0.5 to 3."""
        if estimated <= 0 or reported < CALIBRATION_MINIMUM:
            return self
        return Calibration(min(3.0, max(0.5, reported / estimated)))

    def apply(self, tokens: int) -> int:
        """Calibrated tokens, rounded up."""
        return ceil(tokens * self.factor)
