"""The maximum output tokens per response of known models, which the price data does not contain.

From the makers' model pages. A missing or wrong limit corrects itself: the adapters learn it from the refusal.
"""

from __future__ import annotations

import re
from functools import lru_cache

from app.llm.names import stripped_name

_LIMITS = tuple(
    (re.compile(pattern), limit)
    for pattern, limit in (
        (r"gpt-3\.5", 4_096),
        (r"gpt-4-(?:turbo|0125|1106)", 4_096),
        (r"gpt-4o", 16_384),
        (r"gpt-4\.1", 32_768),
        (r"gpt-4(?![.\do])", 8_192),
        (r"gpt-5(?:\.\d)?-chat", 16_384),
        (r"gpt-[56]", 128_000),
        (r"o1-preview", 32_768),
        (r"o1-mini", 65_536),
        (r"o[134](?:-|$)", 100_000),
        (r"claude-3[-.]5", 8_192),
        (r"claude-3[-.]7|claude-sonnet-3[-.]7", 64_000),
        (r"claude-3", 4_096),
        (r"claude-opus-4(?:[-.][01]\b|-20|$)|claude-4-opus", 32_000),
        (r"claude-opus-4[-.][6-9]|claude-(?:opus|sonnet|haiku|fable|mythos)-5", 128_000),
        (r"claude-(?:sonnet|haiku|opus)-4", 64_000),
        (r"gemini-(?:2\.5|[34])", 65_536),
        (r"gemini-(?:1\.5|2\.0)", 8_192),
        (r"deepseek-v4", 384_000),
    )
)


@lru_cache(maxsize=256)
def max_output_tokens(model: str) -> int | None:
    """The limit of a model by its name at any provider, None if unknown."""
    name = stripped_name(model)
    return next((limit for pattern, limit in _LIMITS if pattern.match(name)), None)
