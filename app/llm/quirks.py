"""What a model turned out not to take: parameters refused with a 400 are renamed, lowered or left out from then on."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import orjson

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
    `binds_thinking` says that it verifies thinking that comes back, whatever its name."""

    token_name: str
    token_names: tuple[str, ...] = TOKEN_NAMES
    max_tokens: int | None = None
    dropped: set[str] = field(default_factory=set)
    refused_names: set[str] = field(default_factory=set)
    binds_thinking: bool = False

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
