"""The net under the known refusals: what to try when a provider refuses a request and no list explains why.

The last request of the run was accepted, so what is new since then is the suspect. What the refusal's text names comes
first. Each remedy is tried once; the one with which the request is accepted is kept for its model.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from app.errors import AnswerError, ContextOverflowError, ProviderError
from app.llm.base import ModelRequest, Remedy, ToolSchema
from app.llm.quirks import EFFORTS, TOKEN_NAMES
from app.llm.windows import named_window, speaks_of_rate, speaks_of_size
from app.messages import ReasoningPart, ToolCallPart
from app.tools import default_tools
from app.tools.submit import NAME as SUBMIT

MAX_REMEDIES = 16
"""Maximum remedies between two accepted requests: a refusal has one cause, rarely two."""
MAX_SHRINKS = 3
"""Times that a context is made smaller; a tenth less each time at least."""
OWN_TOOLS = frozenset({*(tool.name for tool in default_tools()), SUBMIT})
"""All others are defined by clients and MCP servers, with schemas that a provider may not accept."""
LEAST_MESSAGES = 2
"""A context with more messages may have something to summarize."""
_NEVER = frozenset({401, 402, 403, 408, 409, 425, 429, 503, 504, 529})
"""Statuses about the key, the account, the rate or the server, never about what is in a request."""
REFUSING = frozenset(range(400, 500)) - _NEVER
"""Statuses of refusals of a request."""
_OUTAGE = re.compile(
    r"internal (?:server )?error|bad gateway|unavailable|overload|try again|time[- ]?d?[- ]?out|deadline|connect"
    r"|capacity|\bbusy\b|temporary|temporarily|upstream",
    re.I,
)
"""What servers say that have failed; they would refuse any request."""
_NOT_FOUND = re.compile(
    r"^\s*$|not found|no such|not exist|unknown|no access|not available|not supported|\b404\b", re.I
)
"""What a 404 says of a model or a path that is wrong from the first request on."""
_ELSEWHERE = re.compile(
    r"content[_ ](?:filter|management|policy)|moderation|safety|tool_(?:use|result|call)s?\b|max_?tokens"
    r"|string too long",
    re.I,
)
"""What says that it is about the words of a conversation, its order, its answer's length or one of its texts."""
_PAGE = re.compile(r"\s*<(?:!doctype|html)", re.I)
"""A page of a proxy, which knows nothing of requests."""
_REASONING = re.compile(r"reasoning|thinking|thought|signature|encrypted", re.I)
_MISSING = re.compile(
    r"missing|required?\b|must (?:be|include|contain|have|provide|pass)|not (?:set|provided|present|included)|expected"
    r"|absent|\black|without|passed back",
    re.I,
)
_FIELD = re.compile(r"\b(reasoning_content|reasoning_text|reasoning)\b")
_SIGNATURE = re.compile(r"thought_?signature", re.I)
_IMAGES = re.compile(r"image|vision|visual|picture|multi-?modal|\bmedia\b|content\W{0,3}type|\btext\b", re.I)
_COMMON = ("stop", "include", "thinking")
"""Parameters with names that are also ordinary words."""
_LIMITS = (*TOKEN_NAMES, "max_output_tokens")
_TOOL_NUMBER = re.compile(r"\btools?\W{1,3}(\d{1,4})\b")
_CHANGING = re.compile(r"[\W_]+|[0-9a-f]{8,}|\d+")
"""What may differ between two refusals for the same reason, such as the id of a request."""


class RemedyError(ProviderError):
    """A refusal after which a remedy is tried."""

    def __init__(self, refusal: AnswerError, remedy: Remedy) -> None:
        detail = f"{refusal.detail} Trying again {describe(remedy)}."
        super().__init__(detail, code=f"reshape_{remedy.kind}", http_status=refusal.http_status)
        self.remedy = remedy


@dataclass(frozen=True, slots=True)
class Accepted:
    """What a provider has accepted of a request: `tokens` is its estimated size, `settings` what its parameters are
    made from."""

    model: str
    tokens: int
    settings: tuple[object, ...]
    tools: tuple[ToolSchema, ...]
    images: frozenset[str]


@dataclass(frozen=True, slots=True)
class Sent:
    """What may be refused of a request; `knows_images` if its model has seen images before."""

    whole: Accepted
    has_reasoning: bool
    has_opaque: bool
    has_calls: bool
    knows_images: bool
    can_shrink: bool

    @classmethod
    def of(cls, request: ModelRequest, whole: Accepted, *, knows_images: bool) -> Sent:
        """What is in this request; reads all of its messages."""
        parts = [part for message in request.messages for part in message.parts]
        calls = [part for part in parts if isinstance(part, ToolCallPart)]
        reasoning = [part for part in parts if isinstance(part, ReasoningPart)]
        fields = any("fields" in (part.provider_data or {}) for part in reasoning)
        return cls(
            whole,
            has_reasoning=any(part.text for part in reasoning),
            has_opaque=fields or any(call.provider_data for call in calls),
            has_calls=bool(calls),
            knows_images=knows_images,
            can_shrink=len(request.messages) > LEAST_MESSAGES,
        )


class Refusals:
    """The refusals of one run, and what was tried."""

    def __init__(self) -> None:
        self._accepted: Accepted | None = None
        self._tried: list[Remedy] = []
        self._last_text = ""
        self._refused_tokens = 0
        self.refusal: AnswerError | None = None
        """The refusal that the `trial` is for."""
        self.trial: tuple[Remedy, ...] = ()
        """The remedies that the next request tries."""

    def accepted(self, whole: Accepted) -> int | None:
        """A request was answered; what was tried has helped. Returns the tokens of the refused request if a smaller one
        was tried."""
        shrunk = any(remedy.kind == "shrink" for remedy in self._tried)
        self._accepted, self._tried, self.trial, self._last_text = whole, [], (), ""
        self.refusal = None
        tokens, self._refused_tokens = self._refused_tokens, 0
        return tokens if shrunk and whole.tokens < tokens else None

    def remedy(self, error: AnswerError, sent: Sent) -> Remedy | None:
        """What to try next, which becomes part of the `trial`; None if the refusal is not about the request, or
        everything was tried. A remedy after which the refusal is the same did not help, and ends."""
        text = _CHANGING.sub(" ", error.body)
        again, repeated, self._last_text = bool(self._last_text), text == self._last_text, text
        if not _is_refusal(error, sent, self._accepted, again=again):
            return None
        accepted = self._accepted if self._accepted is None or self._accepted.model == sent.whole.model else None
        if len(self._tried) >= MAX_REMEDIES:
            return None
        found = next((each for each in candidates(error, sent, accepted) if each not in self._tried), None)
        if found is None:
            return None
        if repeated:
            self.trial = ()
        self._tried.append(found)
        self.refusal = error
        if found.kind == "shrink":
            self._refused_tokens = sent.whole.tokens
        else:
            self.trial = (*self.trial, found)
        return found

    def give_up(self) -> tuple[Remedy, ...]:
        """Ends what is tried, and returns it; the next refusal begins again."""
        tried = tuple(self._tried)
        self._tried, self.trial, self._last_text = [], (), ""
        self.refusal = None
        return tried


def is_away(error: ProviderError) -> bool:
    """Whether a provider does not answer at present, whatever it is asked."""
    if not isinstance(error, AnswerError):
        return error.code in ("provider_unreachable", "provider_timeout")
    text = error.body
    says_so = not text.strip() or _OUTAGE.search(text) or _PAGE.match(text)
    return error.retryable and (error.meant_status in _NEVER or bool(says_so))


def _is_refusal(error: AnswerError, sent: Sent, accepted: Accepted | None, *, again: bool) -> bool:
    """Whether an error is about what is in the request. A server error is one if its text says so, or if it comes again
    and does not sound like an outage."""
    status, text = error.meant_status, error.body
    if error.is_explained or status in _NEVER or speaks_of_rate(text) or _PAGE.match(text):
        return False
    is_named = next(_named(error, sent), None) is not None
    if status is not None and status < 500:
        is_lost = status == 404 and accepted is None and not is_named and _NOT_FOUND.search(text) is not None
        return not error.retryable and not is_lost
    if is_away(error):
        return False
    return again or is_named


def candidates(error: AnswerError, sent: Sent, accepted: Accepted | None) -> Iterator[Remedy]:
    """What may help, in order: what the refusal names, then what is new since the `accepted` request."""
    yield from _named(error, sent)
    yield from _suspects(error, sent, accepted)


def _named(error: AnswerError, sent: Sent) -> Iterator[Remedy]:
    text = error.body
    parameters = [name for name in error.parameters if _names(text, name, quoted=name in _COMMON)]
    about_reasoning = _REASONING.search(re.sub("|".join(map(re.escape, parameters)) or "$^", "", text)) is not None
    if about_reasoning and _MISSING.search(text):
        yield from _given_back(text, sent)
    if about_reasoning:
        yield from _without_reasoning(sent)
    if sent.whole.images and _IMAGES.search(text):
        yield _without_images(sent)
    if tools := _named_tools(text, sent):
        yield Remedy("drop_tools", tools)
    is_size = speaks_of_size(text)
    for name in parameters:
        if not (is_size and name in _LIMITS):
            yield Remedy("drop_parameters", (name,))
    if is_size and sent.can_shrink:
        yield from (Remedy("shrink", (str(number),)) for number in range(MAX_SHRINKS))


def _suspects(error: AnswerError, sent: Sent, accepted: Accepted | None) -> Iterator[Remedy]:
    if _ELSEWHERE.search(error.body):
        return
    if sent.whole.images - (accepted.images if accepted is not None else frozenset()):
        yield _without_images(sent)
    if sent.has_calls and _MISSING.search(error.body):
        yield from _given_back(error.body, sent)
    yield from _without_reasoning(sent)
    if sent.has_calls:
        yield from _given_back(error.body, sent)
    if accepted is None or accepted.settings != sent.whole.settings:
        # Those that change what a run costs or can do come last.
        last = (*EFFORTS, *_LIMITS, "stream_options")
        yield from (Remedy("drop_parameters", (name,)) for name in sorted(error.parameters, key=last.__contains__))
    known = {tool.key for tool in accepted.tools} if accepted is not None else set()
    keys = (tool.key for tool in sent.whole.tools if accepted is not None or tool.name not in OWN_TOOLS)
    if added := tuple(key for key in keys if key not in known):
        yield Remedy("drop_tools", added)
    if sent.can_shrink and (accepted is None or sent.whole.tokens > accepted.tokens):
        yield from (Remedy("shrink", (str(number),)) for number in range(MAX_SHRINKS))


def _given_back(text: str, sent: Sent) -> Iterator[Remedy]:
    if not sent.has_calls:
        return
    if _SIGNATURE.search(text):
        yield Remedy("sign_calls")
    field = _FIELD.search(text)
    yield Remedy("echo_reasoning", (field[1],) if field is not None else ())


def _without_reasoning(sent: Sent) -> Iterator[Remedy]:
    if sent.has_reasoning:
        yield Remedy("drop_reasoning")
    if sent.has_opaque:
        yield Remedy("drop_opaque")


def _without_images(sent: Sent) -> Remedy:
    """A model that has seen images before is not blind: then it is about these."""
    return Remedy("clear_images", tuple(sorted(sent.whole.images))) if sent.knows_images else Remedy("drop_images")


def _named_tools(text: str, sent: Sent) -> tuple[str, ...]:
    numbers = {int(match[1]) for match in _TOOL_NUMBER.finditer(text)}
    named = enumerate(sent.whole.tools)
    return tuple(t.key for n, t in named if n in numbers or _names(text, t.name, quoted=t.name.isalpha()))


def _names(text: str, name: str, *, quoted: bool) -> bool:
    """Whether a text names something; a common word has to be `quoted`."""
    pattern = rf"""['"`]{name}\\?['"`]""" if quoted else rf"(?<![\w-]){re.escape(name)}(?![\w-])"
    return re.search(pattern, text) is not None


def overflow_of(error: AnswerError) -> ContextOverflowError:
    """The refusal as one of a request that was too large, although it may have another reason."""
    return ContextOverflowError(error.detail, limit=named_window(error.body), http_status=error.http_status, guess=True)


_SAID = {
    "echo_reasoning": "with the model's reasoning in its history",
    "sign_calls": "with signatures that stand in for missing ones",
    "drop_reasoning": "without the model's earlier reasoning",
    "drop_opaque": "without the provider's own fields",
    "drop_images": "without images",
    "clear_images": "without the images so far",
    "drop_tools": "without {names}",
    "drop_parameters": "without `{names}`",
    "shrink": "with a smaller context",
}


def describe(remedy: Remedy) -> str:
    """The remedy in words."""
    names = ", ".join(name.partition(":")[0] for name in remedy.names)
    return _SAID[remedy.kind].format(names=names)


def advice(tried: tuple[Remedy, ...], sent: Sent) -> str:
    """What a person can do about a refusal that nothing has helped against."""
    did = f" Trying {', '.join(describe(each) for each in tried)} did not help." if tried else ""
    offers = ["compact the session"] if sent.can_shrink else []
    offers += ["leave out the images"] if sent.whole.images else []
    offers += ["leave out tools of others"] if any(tool.name not in OWN_TOOLS for tool in sent.whole.tools) else []
    offers.append("choose another model")
    return f"{did} You can {' or '.join(offers)}; the next message tries again."
