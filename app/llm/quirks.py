"""What a model turned out to refuse: from then on parameters are renamed, lowered or left out, and the roles and
reasoning of its messages are written as it requires."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Literal, Protocol

import orjson
from pydantic import TypeAdapter, ValidationError

from app.errors import Reshape
from app.llm.base import Remedy
from app.llm.known_models import SCALE

TOKEN_NAMES = ("max_tokens", "max_completion_tokens")
EFFORTS = ("reasoning_effort", "reasoning.effort")
_NESTED = ("reasoning.effort", "reasoning.summary")
"""Members of object parameters; each can be left out separately."""
_QUOTED = ("stop", "include")
"""Common words, which count as parameter names only in quotes."""
_OPTIONAL = frozenset(
    {
        "temperature",
        "stream_options",
        "stop_sequences",
        "prompt_cache_key",
        "max_output_tokens",
        "thinking",
        "output_config",
        *EFFORTS,
        *_NESTED,
        *_QUOTED,
        *TOKEN_NAMES,
    }
)
"""Optional parameters; a refusal of anything else is a real error."""
MOST_FAILURES = 3
"""Failures after which an endpoint on trial is dropped; rate limits and the like have mostly ended by then."""
Endpoint = Literal["chat_completions", "responses"]
"""The two formats of OpenAI's API."""
_EFFORT = re.compile(rf"""['"`](?P<value>{"|".join(SCALE)})\\?['"`]""")
_WRONG_VALUE = re.compile(r"(?:unsupported|invalid|unknown) value|not (?:a )?valid|should be|must be|one of", re.I)
"""Texts that refuse an effort's value but not the parameter."""
_REFUSAL = re.compile(
    r"unsupported|not support|unrecogni[sz]ed|unknown|unexpected|not permitted|not allowed|extra (?:fields|inputs)"
    r"|deprecated|invalid (?:parameter|argument)|does not exist|may not be",
    re.I,
)
MIN_LIMIT = 256
"""Smallest limit on output tokens that is learned. What is learned applies to every session of a model, and one bad
answer must not make the model unusable."""
# The last alternative is a range, as in `[1, 8192]`.
_MAXIMUM = re.compile(
    r"(?:at most|maximum (?:of|is)|less than or equal to|<=|>|\[\d+,)\s*`?(\d{2,9})\b",
    re.I,
)
_NAMED = (
    {name: re.compile(rf"\b{name}\b") for name in _OPTIONAL}
    | {name: re.compile(rf"""['"`]{name}\\?['"`]""") for name in _QUOTED}
    | {name: re.compile(rf"""\b{re.escape(name)}\b|['"`]{name.partition(".")[0]}\\?['"`]""") for name in _NESTED}
)
"""How error texts name a parameter."""

_TURNS = re.compile(r"roles? must alternate", re.I)
_ORDER = re.compile(r"unexpected role \W*(?:user|assistant)\W* after role|" + _TURNS.pattern, re.I)
_AFTER_SYSTEM = re.compile(r"after the optional system message", re.I)
_TWO_ROLES = re.compile(r"only user and assistant roles are supported", re.I)
_NO_SYSTEM = re.compile(
    r"system role (?:is )?not supported|system (?:messages?|prompts?) (?:is|are) not (?:supported|allowed)"
    r"|does(?: not|n't) support (?:the )?system|roles are supported\W+got \W*system",
    re.I,
)
_SHORT_IDS = re.compile(r"tool[ _]call[ _]id\b.{0,200}\blength of 9\b", re.I | re.S)
"""Mistral's API, and the templates of its older models: "Tool call id was … but must be a-z, A-Z, 0-9, with a length of
9" (https://github.com/mistralai/mistral-vibe/issues/1075)."""
SHORT_ID_CHARS = 9
REASONING_FIELDS = ("reasoning_content", "reasoning_text", "reasoning")
_WANTS_REASONING = re.compile(
    r"\b(reasoning_content|reasoning)\b.{0,80}must be passed back"
    r"|missing \W*(reasoning_content|reasoning)\b|must include \W*(reasoning_content|reasoning)\b",
    re.I | re.S,
)
"""DeepSeek's sentence in 2026, its earlier one, and the sentence of gateways in front of it."""


@dataclass
class Quirks:
    """What is known about one model behind one base URL. `token_name` is its name for the output limit, one of
    `token_names`; `max_tokens` is the largest limit it accepts, `dropped` are the parameters that it refuses,
    `refused_efforts` the reasoning efforts that it refuses. `endpoint` is the endpoint at which it has answered after
    the other one pointed there, None for its provider's default. `trial` is an endpoint that it was pointed to and has
    not answered at yet, `failures` how often that has failed, and `switches` how often the model was switched since its
    last answer; these three are not persisted.

    `bridges_roles` puts a placeholder between two roles that may not follow each other, `no_system_role` moves the
    system text into the first user message, and `tools_as_text` writes calls and results as text, for a chat template
    with only user and assistant roles. `short_call_ids` makes the ids of calls nine letters and digits.
    `echoes_reasoning` is True once a server has asked for its reasoning back, and False once it has refused it;
    `reasoning_field` is its name for the field. `sends_opaque` is False once it has refused fields that it sent itself,
    and `signs_calls` gives calls that have no signature one that stands in for it. `sees_images` is whether it has
    accepted or refused images, and `refused_tools` are the keys of tools that it has refused."""

    token_name: str
    token_names: tuple[str, ...] = TOKEN_NAMES
    max_tokens: int | None = None
    dropped: set[str] = field(default_factory=set)
    refused_names: set[str] = field(default_factory=set)
    refused_efforts: set[str] = field(default_factory=set)
    endpoint: Endpoint | None = None
    trial: Endpoint | None = None
    switches: int = 0
    failures: int = 0
    bridges_roles: bool = False
    no_system_role: bool = False
    tools_as_text: bool = False
    short_call_ids: bool = False
    echoes_reasoning: bool | None = None
    reasoning_field: str = "reasoning_content"
    sends_opaque: bool = True
    signs_calls: bool = False
    sees_images: bool | None = None
    refused_tools: set[str] = field(default_factory=set)

    def to_json(self) -> dict[str, Any]:
        """The quirks as JSON values; see `restored`."""
        known: dict[str, Any] = _ADAPTER.dump_python(self, mode="json", exclude={"trial", "switches", "failures"})
        return known

    def confirm_trial(self) -> None:
        """Makes the endpoint on trial the model's endpoint, now that it has answered."""
        self.endpoint = self.trial or self.endpoint
        self._end_trial()

    def fail_trial(self, *, for_good: bool) -> None:
        """Counts a failure of the endpoint on trial, and drops it after a few, or at once if `for_good`: the refusal
        that pointed there may have been wrong."""
        self.failures += 1
        if for_good or self.failures >= MOST_FAILURES:
            self._end_trial()

    def _end_trial(self) -> None:
        self.trial, self.switches, self.failures = None, 0, 0

    def restored(self, known: Mapping[str, Any]) -> Quirks:
        """These quirks updated with what was `known` before the restart. Unknown keys are ignored; an unexpected value
        discards everything, which will be learned again."""
        merged = {**self.to_json(), **known, "token_names": self.token_names}
        try:
            quirks = _ADAPTER.validate_python(merged)
        except ValidationError:
            return self
        return quirks if quirks.token_name in self.token_names else self

    def take(self, other: Quirks) -> None:
        """Replaces what is persisted, in place, so that requests in progress see it too."""
        for name in other.to_json():
            setattr(self, name, getattr(other, name))
        if self.trial == self.endpoint:
            self._end_trial()

    def with_remedies(self, remedies: Sequence[Remedy]) -> Quirks:
        """These quirks as they would be if these remedies were right; the same object without any."""
        if not remedies:
            return self
        tried = replace(self, dropped=set(self.dropped), refused_tools=set(self.refused_tools))
        for remedy in remedies:
            tried.adopt(remedy)
        return tried

    def adopt(self, remedy: Remedy) -> None:
        """Learns from a remedy that helped."""
        match remedy.kind:
            case "echo_reasoning":
                self.echoes_reasoning = True
                self.reasoning_field = remedy.names[0] if remedy.names else self.reasoning_field
            case "sign_calls":
                self.signs_calls = True
            case "drop_reasoning":
                self.echoes_reasoning = False
            case "drop_opaque":
                self.sends_opaque = False
            case "drop_images":
                self.sees_images = False
            case "drop_tools":
                self.refused_tools.update(remedy.names)
            case "drop_parameters":
                self.dropped.update(remedy.names)
            case "clear_images" | "shrink":
                # About one request, not about its model.
                return

    def parameters(self, wanted: dict[str, Any], max_output_tokens: int | None) -> dict[str, Any]:
        """The optional parameters to send: those of `wanted` with a value and not refused, and the output limit."""
        sent = {name: value for name, value in wanted.items() if value is not None and name not in self.dropped}
        if max_output_tokens is not None and self.token_name not in self.dropped:
            sent[self.token_name] = self.limited(max_output_tokens)
        return sent

    def limited(self, max_output_tokens: int) -> int:
        """The output limit to send instead of this one."""
        return min(max_output_tokens, self.max_tokens or max_output_tokens)

    def learn(self, body: str, sent: dict[str, Any]) -> bool:
        """Learns from the text of a 400; returns whether the next request will differ from the one with `sent`."""
        learned = [self._learn(name, body, sent[name]) for name in _refused(body, sent)]
        return any(learned)

    def _learn(self, name: str, body: str, sent: Any) -> bool:
        if name in EFFORTS and _OTHER_ENDPOINT in body:
            return False
        if name in (*TOKEN_NAMES, "max_output_tokens"):
            return self._learn_limit(name, body, sent)
        if name in EFFORTS and self._learn_efforts(body, sent, SCALE):
            return True
        # For Claude, `none` is not an effort but turns thinking off.
        if name == "output_config" and self._learn_efforts(body, sent.get("effort"), SCALE[1:]):
            return True
        if not _REFUSAL.search(body):
            return False
        self.dropped.add(name)
        return True

    def _learn_efforts(self, body: str, sent: str, scale: Sequence[str]) -> bool:
        """Learns from the refusal of an effort's value, using the list of accepted values of the `scale` if the server
        sent one. False if the parameter itself is refused, or no value would be left."""
        named = {match["value"] for match in _EFFORT.finditer(body)} - {sent}
        if not named and not _WRONG_VALUE.search(body):
            return False
        refused = set(scale) - named if named else self.refused_efforts | {sent}
        if not set(scale) - refused:
            return False
        self.refused_efforts = refused
        return True

    def _learn_limit(self, name: str, body: str, sent: int) -> bool:
        maximum = _MAXIMUM.search(body)
        if maximum and int(maximum[1]) < MIN_LIMIT <= sent:
            return False
        if maximum and int(maximum[1]) < sent:
            self.max_tokens = int(maximum[1])
            return True
        if not _REFUSAL.search(body):
            return False
        self.refused_names.add(name)
        other = next((n for n in self.token_names if n not in self.refused_names), None)
        if other is None or name not in self.token_names:
            self.dropped.add(name)
        else:
            self.token_name = other
        return True


_OTHER_ENDPOINT = "/v1/responses"
"""Mentioned if a model supports tools only there, which no other effort changes."""

_ADAPTER = TypeAdapter(Quirks)


class QuirkMemory(Protocol):
    """Persists quirks. A `place` is a model's kind of provider, base URL and name."""

    def recall(self, place: str) -> Mapping[str, Any] | None:
        """What was learned of a model, in the form of `Quirks.to_json`; None if nothing is known."""
        ...

    async def learned(self, place: str, known: Mapping[str, Any]) -> None:
        """Stores what is known now."""
        ...


def says_refused(body: str) -> bool:
    """Whether a text says that something is not accepted."""
    return bool(_REFUSAL.search(body))


def _refused(body: str, sent: dict[str, Any]) -> list[str]:
    """The optional parameters that the error is about: from its `param` field, which may name an object or a member of
    one, else from the first name in its text."""
    candidates = [name for name in sent if name in _OPTIONAL]
    if (named := _param_field(body)) is not None:
        return [name for name in candidates if f"{named}.".startswith(f"{name}.") or name.startswith(f"{named}.")]
    places = {name: match.start() for name in candidates if (match := _NAMED[name].search(body))}
    return [min(places, key=places.__getitem__)] if places else []


def _param_field(body: str) -> str | None:
    try:
        error = orjson.loads(body)["error"]
        param = error.get("param")
    except (orjson.JSONDecodeError, AttributeError, KeyError, TypeError):
        return None
    return re.sub(r"\[\d+\]", "", param) if isinstance(param, str) and param else None


def learn_messages(text: str, body: bytes, quirks: Quirks) -> bool:
    """Learns from the `text` of a refusal of the request `body`; returns whether the next request will differ. A
    template error is a 400 from vLLM and a 500 from llama.cpp, so the status is ignored."""
    if _refuses_echo(text, body, quirks):
        quirks.echoes_reasoning = False
        return True
    if not any(rule.search(text) for rule in (_ORDER, _TWO_ROLES, _NO_SYSTEM, _SHORT_IDS)):
        return False
    name = _rule(text, orjson.loads(body)["messages"])
    if name is None:
        return False
    # It may be set already: if two concurrent requests are refused, the second finds the rule learned.
    setattr(quirks, name, True)
    return True


_NO_IMAGES = re.compile(
    r"image_url is only supported by certain models|unknown variant \W*image_url|content must be a string"
    r"|(?:not|n't) support(?:ed)?\b[^.\"]{0,40}\bimages?\b|\bimages? (?:inputs? )?(?:is|are) not supported"
    r"|that support image input|\b(?:not|no) (?:an? )?multi-?modal|at most 0 image|required for image input"
    r"|text-only (?:server|model)",
    re.I,
)
"""OpenAI; DeepSeek; Groq; Ollama ("this model does not support image input"); llama.cpp ("image input is not supported
- hint: … mmproj"); OpenRouter ("No endpoints found that support image input"); vLLM."""
_ABOUT_IMAGES = re.compile(r"\bimages?\b|image_url", re.I)
_IMAGE_STATUSES, _BLIND_STATUSES = (400, 413, 422), (400, 404, 413, 415, 422, 500)


def image_refusal(status: int | None, text: str, quirks: Quirks) -> Reshape | None:
    """What a refusal of a request with images asks for: a model that sees none never gets any; images that are too
    many, too large or broken are cleared from the context, or each later request would get the same answer."""
    if status in _BLIND_STATUSES and _NO_IMAGES.search(text):
        quirks.sees_images = False
        return "drop_images"
    return "clear_images" if status in _IMAGE_STATUSES and _ABOUT_IMAGES.search(text) else None


def wants_reasoning(text: str, quirks: Quirks) -> bool:
    """Whether a refusal asks for the model's reasoning; remembers that and the name of the field."""
    match = _WANTS_REASONING.search(text)
    if match is None or quirks.echoes_reasoning is False:
        return False
    quirks.echoes_reasoning, quirks.reasoning_field = True, (match[1] or match[2] or match[3]).lower()
    return True


def _rule(text: str, messages: Sequence[dict[str, Any]]) -> str | None:
    """The quirk that these messages need; None if they follow every known rule."""
    if _SHORT_IDS.search(text):
        ids = [call["id"] for message in messages for call in message.get("tool_calls", ())]
        return "short_call_ids" if any(len(call_id) != SHORT_ID_CHARS for call_id in ids) else None
    roles = [message["role"] for message in messages]
    has_system, has_tools = roles[:1] == ["system"], "tool" in roles
    if _NO_SYSTEM.search(text):
        return "no_system_role" if has_system else None
    if _TWO_ROLES.search(text):
        return "tools_as_text" if has_tools else "no_system_role" if has_system else None
    if any(not may_follow(first, second) for first, second in pairwise(roles)):
        return "bridges_roles"
    if not _TURNS.search(text):
        return None
    if has_system and not has_tools and not _AFTER_SYSTEM.search(text):
        # The template counts the system message as the user's turn.
        return "no_system_role"
    return "tools_as_text" if has_tools else None


def may_follow(first: str, second: str) -> bool:
    """Whether the strictest servers accept a message of role `second` right after one of role `first`: a user after an
    assistant, an assistant after a user or results."""
    if second == "user":
        return first not in ("user", "tool")
    return second != "assistant" or first != "assistant"


def _refuses_echo(text: str, body: bytes, quirks: Quirks) -> bool:
    named = (field for field in REASONING_FIELDS if re.search(rf"\b{field}\b", text) is not None)
    sent = any(b'"%s":' % field.encode() in body for field in named)
    return quirks.echoes_reasoning is not False and sent and says_refused(text)
