"""The kinds of models that a session must work with, each as settings of the strict provider."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.provider import FakeProvider

WINDOW = 16_000
"""In tokens; large enough for all tools, and small enough for six compactions in sixty steps."""


@dataclass(frozen=True)
class Family:
    """`provider` are the fake's settings, `teaches` the rules whose refusals teach a quirk, and `lessons` the maximum
    number of such refusals: one for each quirk of each model. `window` is in tokens, `chars` is the size of an
    output."""

    name: str
    kind: str
    models: tuple[str, str] = ("one", "two")
    provider: Mapping[str, Any] = field(default_factory=dict)
    teaches: frozenset[str] = frozenset()
    lessons: int = 0
    window: int = WINDOW
    chars: int = 6_000

    @property
    def model(self) -> str:
        """The model that a session starts with."""
        return f"family/{self.models[0]}"

    @property
    def other_model(self) -> str:
        """The model it is changed to."""
        return f"family/{self.models[1]}"

    def environment(self, provider: FakeProvider) -> dict[str, str]:
        """A server's environment variables for these models."""
        base_url = provider.url if self.kind == "anthropic" else provider.openai_url
        windows = {name: {"context_window": self.window} for name in (self.model, self.other_model)}
        return {
            "PALIMPSEST_PROVIDERS": json.dumps({"family": {"kind": self.kind, "base_url": base_url}}),
            "PALIMPSEST_MODELS": json.dumps(windows),
            "PALIMPSEST_MODEL": self.model,
        }


def _insists(*rules: str, window: int = WINDOW) -> dict[str, Any]:
    return {"window": window, "insists": frozenset(rules)}


_LEARNED = frozenset({"insistence"})

FAMILIES = (
    Family("responses", "openai-responses", ("gpt-6", "gpt-5.4"), provider={"window": WINDOW}),
    Family("claude", "anthropic", ("claude-sonnet-5-5", "claude-opus-5-5"), provider={"window": WINDOW}),
    Family("deepseek", "openai", provider=_insists("echo"), teaches=_LEARNED, lessons=2),
    Family("mistral", "openai", provider=_insists("mistral"), teaches=_LEARNED, lessons=4),
    Family("alternating", "openai", provider=_insists("alternating"), teaches=_LEARNED, lessons=2),
    Family("small-window", "openai", provider={"window": 4_096}, window=4_096, chars=1_200),
)
