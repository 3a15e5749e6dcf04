"""Token counts without a tokenizer: an estimate of text, messages and tool schemas, and its calibration.

The estimate is a quarter of a token for an ASCII character and a whole token for any other: dividing all characters by
four undercounts Chinese, Japanese and Korean text about four times.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil

import orjson

from app.llm.base import ToolSchema
from app.llm.known_models import claude_version
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
"""Tokens that a message costs in addition to its parts: its role and delimiters."""

SIGNATURE_TOKENS = 4096
"""Tokens that a provider's signature may add to reasoning without being counted: ordinary signatures of a few kilobytes
cost no input. Larger ones are sent with every request and count."""

IMAGE_TOKENS = 1600
"""The maximum cost of an image, also used for one of unknown size, except for the models below."""

PIXELS_PER_TOKEN = 750
"""Anthropic's earlier rule, and an estimate for models with unknown rules: width times height over 750."""

PATCH = 28
"""Pixels of a side of what Claude counts as one token, after it has scaled an image down; see
https://platform.claude.com/docs/en/build-with-claude/vision."""

LONG_EDGE, FINE_LONG_EDGE, FINE_IMAGE_TOKENS = 1_568, 2_576, 4_784
"""Pixels to which an image's longer side is scaled down, and that and the maximum tokens for models since Claude Opus
4.7, which see finer images. The versions from 5 on count as such."""

TILE_SQUARE, TILE_SIDE, TILE = 2_048, 768, 512
"""OpenAI's published rule for GPT models, in pixels: an image is scaled down to fit the square, then until its shorter
side has that length, and is counted in tiles."""

TILE_BASE, TILE_TOKENS = 85, 170
"""Tokens of an image and of each of its tiles by that rule; these are GPT-4o's, newer models need slightly fewer."""

_TILE_NAMES = re.compile(r"(chat)?gpt|o\d")

CALIBRATION_MINIMUM = 1000
"""Prompts below this many tokens are mostly fixed overhead and say little about the text."""


def estimate_text(text: str) -> int:
    """Estimated tokens of a text: ASCII characters over four, rounded up, plus one for each other character."""
    if text.isascii():
        return (len(text) + 3) // 4
    narrow = len(text.encode("ascii", "ignore"))
    return (narrow + 3) // 4 + len(text) - narrow


def estimate_part(part: Part) -> int:
    """Estimated tokens of one part as it is sent.

    Calls and results count as their JSON, with escapes; images by their pixels, like `image_tokens` without a model,
    and never by their bytes. Reasoning counts by its text, or by the provider's block if the text is withheld or the
    block is far larger; a projection leaves out what is not sent.
    """
    match part:
        case TextPart():
            return estimate_text(part.text)
        case ReasoningPart():
            sealed = _json_tokens(part.provider_data or {})
            return max(estimate_text(part.text), sealed - SIGNATURE_TOKENS) if part.text else sealed
        case ToolCallPart():
            head = f'{{"id":"{part.call_id}","name":"{part.name}","arguments":'
            own = _json_tokens(part.provider_data) if part.provider_data else 0
            return own + estimate_text(f"{head}{part.arguments_text or '{}'}}}")
        case ImagePart():
            return image_tokens(part)
        case CompactionMarkerPart():
            return 0
    return estimate_result(part.call_id, part.output)


def estimate_result(call_id: str, output: str) -> int:
    """Estimated tokens of a call's result: its JSON, with escapes."""
    return _json_tokens({"call_id": call_id, "output": clean_text(output)})


def image_tokens(part: ImagePart, model: str = "") -> int:
    """Estimated tokens of an image for `model`: OpenAI's tiles for its models, Anthropic's patches for its own; pixels
    for all others and without a model. An image of unknown size counts as the largest."""
    width, height = part.width or 0, part.height or 0
    if (version := claude_version(model)) is not None:
        is_fine = version >= (4, 7)
        edge, most = (FINE_LONG_EDGE, FINE_IMAGE_TOKENS) if is_fine else (LONG_EDGE, IMAGE_TOKENS)
        return min(most, _patches(width, height, edge)) if width and height else most
    if _has_tiles(model):
        return TILE_BASE + TILE_TOKENS * (_tiles(width, height) if width and height else _tiles(TILE_SQUARE, TILE_SIDE))
    return min(IMAGE_TOKENS, ceil(width * height / PIXELS_PER_TOKEN)) if width and height else IMAGE_TOKENS


def _patches(width: int, height: int, edge: int) -> int:
    scale = min(1.0, edge / max(width, height))
    return ceil(max(1, round(width * scale)) / PATCH) * ceil(max(1, round(height * scale)) / PATCH)


def _has_tiles(model: str) -> bool:
    provider, _, name = model.lower().partition("/")
    return provider == "openai" or _TILE_NAMES.match(name.rpartition("/")[2]) is not None


def _tiles(width: int, height: int) -> int:
    scale = min(1.0, TILE_SQUARE / max(width, height))
    scale = min(scale, TILE_SIDE / min(width, height))
    return ceil(max(1, round(width * scale)) / TILE) * ceil(max(1, round(height * scale)) / TILE)


def counted_tokens(message: Message, per_message: int = PER_MESSAGE) -> int:
    """Tokens of a message; a part that was counted when it was stored is not counted again. A message without parts
    costs `per_message`."""
    return per_message + sum(part.tokens or estimate_part(part) for part in message.parts)


def estimate_tools(schemas: Iterable[ToolSchema]) -> int:
    """Estimated tokens of the tool list, each schema as its JSON."""
    return sum(
        _json_tokens({"name": s.name, "description": s.description, "parameters": s.parameters}) for s in schemas
    )


def _json_tokens(value: object) -> int:
    return estimate_text(orjson.dumps(value).decode())


@dataclass(frozen=True, slots=True)
class Calibration:
    """The error of the estimate for one base URL and model: `factor` is reported tokens over estimated ones.

    The newest prompt replaces older samples, since it is most like the next one. A reply after silent truncation must
    not be observed; truncation is judged on the raw estimate.
    """

    factor: float = 1.1

    @classmethod
    def starting(cls, kind: str) -> Calibration:
        """Before the first report: OpenAI's tokenizers match the estimate, others are assumed to need a tenth more."""
        return cls(1.0 if kind == "openai" else 1.1)

    def observe(self, estimated: int, reported: int) -> Calibration:
        """The calibration after a prompt of `estimated` raw tokens was reported as `reported`; clamped to 0.5 to 3."""
        if estimated <= 0 or reported < CALIBRATION_MINIMUM:
            return self
        return Calibration(min(3.0, max(0.5, reported / estimated)))

    def apply(self, tokens: int) -> int:
        """Calibrated tokens, rounded up."""
        return ceil(tokens * self.factor)
