"""What a model turned out not to take: parameters that it refuses are renamed, lowered or left out from then on, and
the roles and reasoning of its messages are written as it insists."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import orjson
from pydantic import TypeAdapter, ValidationError

TOKEN_NAMES = ("max_tokens", "max_completion_tokens")
_OPTIONAL = frozenset(
    {"temperature", "stop", "stop_sequences", "stream_options", "thinking", "output_config", *TOKEN_NAMES}
)
"""Parameters that a request can do without; any other refusal is a real error."""

_REFUSAL = re.compile(
    r"unsupported|not support|unrecogni[sz]ed|unknown|unexpected|not permitted|not allowed|extra (?:fields|inputs)"
    r"|deprecated|invalid (?:parameter|argument)|does not exist|may not be",
    re.I,
)
# The last way of saying it is a range, as in `[1, 8192]`.
_MAXIMUM = re.compile(
    r"(?:at most|maximum (?:of|is)|less than or equal to|<=|>|\[\d+,)\s*`?(\d{2,9})\b",
    re.I,
)
_NAMED = {name: re.compile(rf"\b{name}\b") for name in _OPTIONAL} | {"stop": re.compile(r"""['"`]stop\\?['"`]""")}
"""How a text names a parameter; `stop` is a common word and counts only in quotes."""


@dataclass
class Quirks:
    """What is known of one model behind one base URL. `token_name` is how it calls the output limit, one of
    `token_names`; `max_tokens` is the largest it takes, `dropped` are the parameters that it refuses.
    `binds_thinking` says that it verifies thinking that comes back, whatever its name.

    `bridges_roles` puts a short message between two roles that may not follow each other, `no_system_role` moves the
    system text into the first user message, and `tools_as_text` writes calls and results as text, for a chat template
    that knows user and assistant alone. `echoes_reasoning` is None until a server has asked for its reasoning back, and
    False for good once it has refused that; `reasoning_field` is how it calls it."""

    token_name: str
    token_names: tuple[str, ...] = TOKEN_NAMES
    max_tokens: int | None = None
    dropped: set[str] = field(default_factory=set)
    refused_names: set[str] = field(default_factory=set)
    binds_thinking: bool = False
    bridges_roles: bool = False
    no_system_role: bool = False
    tools_as_text: bool = False
    echoes_reasoning: bool | None = None
    reasoning_field: str = "reasoning_content"

    def to_json(self) -> dict[str, Any]:
        """All that is known, as JSON values; see `restored`."""
        known: dict[str, Any] = _ADAPTER.dump_python(self, mode="json")
        return known

    def restored(self, known: Mapping[str, Any]) -> Quirks:
        """These quirks with what was `known` in an earlier life of the server. Unknown keys are ignored, and all of it
        where a value is not what this version expects: it will be learned again."""
        merged = {**self.to_json(), **known, "token_names": self.token_names}
        try:
            return _ADAPTER.validate_python(merged)
        except ValidationError:
            return self

    def parameters(self, wanted: dict[str, Any], max_output_tokens: int | None) -> dict[str, Any]:
        """The optional parameters to send: those of `wanted` that have a value and are not refused, and the limit."""
        sent = {name: value for name, value in wanted.items() if value is not None and name not in self.dropped}
        if max_output_tokens is not None and self.token_name not in self.dropped:
            sent[self.token_name] = min(max_output_tokens, self.max_tokens or max_output_tokens)
        return sent

    def learn(self, body: str, sent: dict[str, Any]) -> bool:
        """Learns from the text of a 400; says whether the next request will differ from the one that had `sent`."""
        name = _refused(body, sent)
        if name is None:
            return False
        if name in TOKEN_NAMES:
            return self._learn_limit(name, body, sent[name])
        if not _REFUSAL.search(body):
            return False
        self.dropped.add(name)
        return True

    def _learn_limit(self, name: str, body: str, sent: int) -> bool:
        maximum = _MAXIMUM.search(body)
        if maximum and int(maximum[1]) < sent:
            self.max_tokens = int(maximum[1])
            return True
        if not _REFUSAL.search(body):
            return False
        self.refused_names.add(name)
        other = next((n for n in self.token_names if n not in self.refused_names), None)
        if other is None:
            self.dropped.add(name)
        else:
            self.token_name = other
        return True


_ADAPTER = TypeAdapter(Quirks)


class QuirkMemory(Protocol):
    """Where quirks are kept over restarts. A `place` is a model's base URL and name."""

    def recall(self, place: str) -> Mapping[str, Any] | None:
        """What was learned of a model, as `Quirks.to_json` gave it; None for one that nothing is known of."""
        ...

    async def learned(self, place: str, known: Mapping[str, Any]) -> None:
        """Keeps what is known now."""
        ...


def says_refused(body: str) -> bool:
    """Whether a text says of something that it is not accepted."""
    return bool(_REFUSAL.search(body))


def _refused(body: str, sent: dict[str, Any]) -> str | None:
    """The optional parameter that the error is about: by its `param` field, else by the first name in its text."""
    candidates = [name for name in sent if name in _OPTIONAL]
    if (named := _param_field(body)) is not None:
        return named if named in candidates else None
    places = {name: match.start() for name in candidates if (match := _NAMED[name].search(body))}
    return min(places, key=places.__getitem__) if places else None


def _param_field(body: str) -> str | None:
    try:
        error = orjson.loads(body)["error"]
        param = error.get("param")
    except (orjson.JSONDecodeError, AttributeError, KeyError, TypeError):
        return None
    return param.partition(".")[0] if isinstance(param, str) and param else None
