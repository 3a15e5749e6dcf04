"""What a provider's word for the end of an answer means.

Providers, and gateways in front of them, have dozens of such words. They are recognized by their stems, so that a new
spelling of a known reason is understood.
"""

from __future__ import annotations

import re
from typing import Any, Literal

from app.llm.base import StopReason

End = StopReason | Literal["failure"] | None
"""`failure`: the provider broke off, and what it has written is no answer. None is a word with no known meaning."""

MAX_WORD_CHARS = 64
_SEPARATORS = re.compile(r"(?<=[a-z])(?=[A-Z])|[^A-Za-z]+")

_KINDS: tuple[tuple[str, End], ...] = (
    # Go's "context canceled" and "context deadline exceeded" are about something else.
    (r"cancel|deadline", "failure"),
    (r"_context|_prompt_too|_input_too|_error_limit_", "context_overflow"),
    (r"filter|_safety|_sensitive|recitation|prohibit|block|_spii|moderat|guardrail|_policy|toxic", "content_filter"),
    (r"_armor|_language_|censor|_harm|_flag", "content_filter"),
    (r"_refus", "refusal"),
    (r"error|fail|malform|abort|time_?out|timed_out|time_limit|overload|insufficient|unavailable", "failure"),
    (r"interrupt|disconnect|unexpected|invalid|exception|crash|network|exhaust|throttl|_reset|_broken", "failure"),
    (r"_engine|_internal|_system|_resource|_connection|_busy|_quota|_rate_|_missing|_too_many|_killed", "failure"),
    (r"_preempt|_evict|_lost|_not_|_unfinished|_unload|_load_|_shut|_dropped|_died_|_oom_|_memory_", "failure"),
    (r"healthy|upstream|gateway|capacity", "failure"),
    (r"_tool|_function", "tool_calls"),
    (r"length|_limit|_max|truncate", "length"),
    (r"_stop|_end|_eos|_eot|_eom|_im_end|_complete|_done|_finish|_success|_normal", "stop"),
    (r"_pause", "other"),
)
"""The first match decides: `malformed_function_call` is a failure, `stop_length` is a length."""


def end_word(value: Any) -> str | None:
    """The word in a field for the end of an answer, None if it has none yet. A few servers send an object (SGLang), or
    the text `null` (DashScope)."""
    if isinstance(value, dict):
        value = value.get("type")
    word = str(value).strip()[:MAX_WORD_CHARS] if value else ""
    return word if word.lower() not in ("", "null", "none") else None


def meaning(word: str) -> End:
    """The meaning of a provider's word for the end."""
    spelled = f"_{_SEPARATORS.sub('_', word).lower().strip('_')}_"
    spelled = spelled.removeprefix("_finish").removeprefix("_reason") if "_reason_" in spelled else spelled
    return next((end for pattern, end in _KINDS if re.search(pattern, spelled)), None)
