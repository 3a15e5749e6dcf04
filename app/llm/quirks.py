"""What a model turned out not to take: parameters refused with a 400 are renamed, lowered or left out from then on."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import orjson

from app.llm.effort import SCALE

TOKEN_NAMES = ("max_tokens", "max_completion_tokens")
EFFORT = "reasoning_effort"
_OPTIONAL = frozenset(
    {"temperature", "stop", "stop_sequences", "stream_options", EFFORT, "thinking", "output_config", *TOKEN_NAMES}
)
"""Parameters that a request can do without; any other refusal is a real error."""

_EFFORT = re.compile(rf"""['"`](?P<value>{"|".join(SCALE)})\\?['"`]""")
_WRONG_VALUE = re.compile(r"(?:unsupported|invalid|unknown) value|not (?:a )?valid|should be|must be|one of", re.I)
"""How a refusal of an effort reads whose parameter is taken."""

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
    `token_names`; `max_tokens` is the largest it takes, `dropped` are the parameters that it refuses,
    `refused_efforts` the values of `reasoning_effort` that it does not take."""

    token_name: str
    token_names: tuple[str, ...] = TOKEN_NAMES
    max_tokens: int | None = None
    dropped: set[str] = field(default_factory=set)
    refused_names: set[str] = field(default_factory=set)
    refused_efforts: set[str] = field(default_factory=set)

    def parameters(self, wanted: dict[str, Any], max_output_tokens: int | None) -> dict[str, Any]:
        """The optional parameters to send: those of `wanted` that have a value and are not refused, and the limit."""
        sent = {name: value for name, value in wanted.items() if value is not None and name not in self.dropped}
        if max_output_tokens is not None and self.token_name not in self.dropped:
            sent[self.token_name] = min(max_output_tokens, self.max_tokens or max_output_tokens)
        return sent

    def learn(self, body: str, sent: dict[str, Any]) -> bool:
        """Learns from the text of a 400; says whether the next request will differ from the one that had `sent`."""
        name = _refused(body, sent)
        if name is None or (name == EFFORT and _OTHER_ENDPOINT in body):
            return False
        if name in TOKEN_NAMES:
            return self._learn_limit(name, body, sent[name])
        if name == EFFORT and self._learn_efforts(body, sent[name]):
            return True
        if not _REFUSAL.search(body):
            return False
        self.dropped.add(name)
        return True

    def _learn_efforts(self, body: str, sent: str) -> bool:
        """Learns from the refusal of an effort's value, by the list of accepted ones where the server gives it. False
        where it is the parameter that is refused, or none would be left."""
        named = {match["value"] for match in _EFFORT.finditer(body)} - {sent}
        if not named and not _WRONG_VALUE.search(body):
            return False
        refused = set(SCALE) - named if named else self.refused_efforts | {sent}
        if not set(SCALE) - refused:
            return False
        self.refused_efforts = refused
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


_OTHER_ENDPOINT = "/v1/responses"
"""Named where a model takes tools there alone, which no other effort changes."""


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
