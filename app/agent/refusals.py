"""The net under the known refusals: what to try when a provider refuses a request and no list explains why.

The last request of the run was accepted, so what is new since then is the suspect. What the refusal's text names comes
first; a refusal that names nothing has to come twice. Each remedy is tried once; the one with which the request is
accepted is kept for its model.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

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
_ACCOUNT = frozenset({401, 402, 403})
_TIMING = frozenset({408, 409, 425, 429, 503, 504, 529})
"""Statuses about the key and the account, and about the rate or the server."""
REFUSING = frozenset(range(400, 500)) - _ACCOUNT - _TIMING
"""Statuses of refusals of a request."""
_OUTAGE = re.compile(
    r"internal (?:server )?error|bad gateway|unavailable|overload|try again|time[- ]?d?[- ]?out|deadline|connect"
    r"|capacity|\bbusy\b|temporary|temporarily|upstream",
    re.I,
)
"""What servers say that have failed; they would refuse any request."""
_NOT_FOUND = re.compile(
    r"^\s*$|not found|\b404\b|\bgone\b|no such|(?:not exist|unknown|no access|not available).*(?:model|path|url|route)"
    r"|(?:model|path|url|route).*(?:not exist|unknown|no access|not available)",
    re.I | re.S,
)
"""What a 404 says of a model or a path that is wrong from the first request on."""
_WRONG_MODEL = re.compile(
    r"(?:not|in)[ -]?(?:a )?valid model\b|model[ _](?:id|name)\b.{0,40}(?:invalid|not valid)", re.I
)
_ELSEWHERE = re.compile(
    r"content[_ ](?:filter|management|policy)|moderation|safety|max_?tokens|string too long"
    r"|tool_(?:use|result|call)s?\b.{0,80}(?:without|must|follow|precede|immediate|respon|before|after|found)",
    re.I | re.S,
)
"""What says that it is about the words of a conversation, its order, its answer's length or one of its texts: then no
tool is taken away, and nothing is made smaller."""
_PAGE = re.compile(r"\s*<(?:!doctype|html)", re.I)
"""A page of a proxy, which knows nothing of requests."""
_UNWANTED = re.compile(
    r"extra|unsupported|not supported|unrecogni[sz]ed|unknown|unexpected|not permitted|not allowed", re.I
)
"""What a refusal says of a field that it names and should not be there."""
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
_TOOL_NUMBER = re.compile(r"\btools?\W{1,3}(?:\d{1,4}\W{1,3}\w*declarations\W{1,3})?(\d{1,4})\b")
"""A tool's place; Gemini has lists of tools in a list."""
_CHANGING = re.compile(r"[\W_]+|[0-9a-f]{8,}|\d+")
"""What may differ between two refusals for the same reason, such as the id of a request."""


class RemedyError(ProviderError):
    """A refusal after which a remedy is tried."""

    def __init__(self, refusal: AnswerError, remedy: Remedy) -> None:
        said = refusal.detail.rstrip(".")
        detail = f"{said}. Trying again {describe(remedy)}."
        code = refusal.code if remedy.kind == "repeat" else f"reshape_{remedy.kind}"
        super().__init__(detail, code=code, http_status=refusal.http_status)
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
    """What may be refused of a request; `opaque` are the names of fields that only its provider understands, and
    `knows_images` says that its model has seen images before; `new_parameters` are those that no other request has,
    None if that is not known."""

    whole: Accepted
    has_reasoning: bool
    opaque: frozenset[str]
    has_calls: bool
    knows_images: bool
    can_shrink: bool
    new_parameters: frozenset[str] | None = None

    @classmethod
    def of(cls, request: ModelRequest, whole: Accepted, *, knows_images: bool) -> Sent:
        """What is in this request; reads all of its messages."""
        parts = [part for message in request.messages for part in message.parts]
        calls = [part for part in parts if isinstance(part, ToolCallPart)]
        reasoning = [part for part in parts if isinstance(part, ReasoningPart)]
        data = [(part.provider_data or {}).get("fields", {}) for part in reasoning]
        data += [members for call in calls for members in (call.provider_data or {}).values()]
        return cls(
            whole,
            has_reasoning=any(part.text for part in reasoning),
            opaque=frozenset(name for members in data for name in members),
            has_calls=bool(calls),
            knows_images=knows_images,
            can_shrink=len(request.messages) > LEAST_MESSAGES,
        )

    @classmethod
    def of_summary(cls, request: ModelRequest, tokens: int) -> Sent:
        """The same for the request for a summary, of which only the parameters can be different."""
        settings = (request.model, request.temperature, request.max_output_tokens)
        whole = Accepted(request.model, tokens, settings, tuple(request.tools), frozenset())
        return cls(
            whole,
            has_reasoning=False,
            opaque=frozenset(),
            has_calls=False,
            knows_images=False,
            can_shrink=False,
            new_parameters=frozenset({"temperature"}),
        )


class Refusals:
    """The refusals of one run, and what was tried."""

    def __init__(self) -> None:
        self._accepted: Accepted | None = None
        self._tried: list[Remedy] = []
        self._last_text: str | None = None
        self._refused_tokens = 0
        self._can_shrink = self._can_try = True
        self.refusal: AnswerError | None = None
        """The refusal that the `trial` is for."""
        self.trial: tuple[Remedy, ...] = ()
        """The remedies that the next request tries."""

    def accepted(self, whole: Accepted) -> int | None:
        """A request was answered; what was tried has helped. Returns the tokens of the refused request if a smaller one
        was tried."""
        shrunk = any(remedy.kind == "shrink" for remedy in self._tried)
        self._accepted, tokens = whole, self._refused_tokens
        self.give_up()
        self._can_shrink = self._can_try = True
        return tokens if shrunk and whole.tokens < tokens else None

    def remedy(self, error: AnswerError, sent: Sent) -> Remedy | None:
        """What to try next, which becomes part of the `trial`; None if the refusal is not about the request, or
        everything was tried. A remedy after which the refusal is the same did not help, and ends."""
        if not self._can_try or not _may_be_refusal(error, sent, self._accepted):
            return None
        text = _CHANGING.sub(" ", error.body)
        is_first, repeated, self._last_text = self._last_text is None, text == self._last_text, text
        if is_first and not _is_named(error, sent):
            # It may be an outage in unknown words, or an error that does not come again.
            return None if error.retryable else Remedy("repeat")
        found = self._next(error, sent)
        if found is None:
            self._can_try = False
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

    def _next(self, error: AnswerError, sent: Sent) -> Remedy | None:
        if len(self._tried) >= MAX_REMEDIES:
            return None
        accepted = self._accepted if self._accepted is None or self._accepted.model == sent.whole.model else None
        sent = replace(sent, can_shrink=sent.can_shrink and self._can_shrink)
        return next((each for each in candidates(error, sent, accepted) if each not in self._tried), None)

    def not_shrunk(self) -> None:
        """The context could not be made smaller: that was not tried after all, and is not again."""
        self._tried = [remedy for remedy in self._tried if remedy.kind != "shrink"]
        self._can_shrink, self._refused_tokens = False, 0

    def pause(self) -> None:
        """The provider is waited for: what is tried then has no more to do with an answer. The same request is sent."""
        self._tried, self.trial, self.refusal = [], (), None
        self._refused_tokens = 0

    def give_up(self) -> tuple[Remedy, ...]:
        """Ends what is tried, and returns it."""
        tried = tuple(self._tried)
        self.pause()
        self._last_text = None
        return tried


def is_away(error: ProviderError) -> bool:
    """Whether a provider does not answer at present, whatever it is asked; what it says of the request is a refusal."""
    return error.retryable and not (isinstance(error, AnswerError) and speaks_of_size(error.body))


def sounds_like_outage(error: AnswerError) -> bool:
    """Whether an error is one that servers give to any request while they do not work."""
    if not error.retryable:
        return False
    text = error.body
    says_so = not text.strip() or _OUTAGE.search(text) or _PAGE.match(text)
    return error.meant_status in _TIMING or bool(says_so)


def _may_be_refusal(error: AnswerError, sent: Sent, accepted: Accepted | None) -> bool:
    """Whether an error may be about what is in the request."""
    status, text = error.meant_status, error.body
    if error.is_explained or speaks_of_rate(text):
        return False
    if speaks_of_size(text):
        return True
    if _is_named(error, sent):
        return True
    if status in _ACCOUNT | _TIMING or _WRONG_MODEL.search(text) or sounds_like_outage(error):
        return False
    is_lost = status == 404 and accepted is None and not sent.whole.images
    return not (is_lost and _NOT_FOUND.search(text))


def _is_named(error: AnswerError, sent: Sent) -> bool:
    """Whether a refusal names what it dislikes. A limit on how much may be sent in a time is worded like one on the
    size."""
    is_outage = error.meant_status in _TIMING or (error.retryable and _PAGE.match(error.body) is not None)
    return not is_outage and next(_named(error, sent), None) is not None


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
    if _UNWANTED.search(text) and any(_names(text, name, quoted=False) for name in sent.opaque):
        yield Remedy("drop_opaque")
    if sent.whole.images and _IMAGES.search(text):
        yield _without_images(sent)
    if tools := _named_tools(text, sent):
        yield Remedy("drop_tools", tools)
    is_size = speaks_of_size(text)
    for name in parameters:
        if not (is_size and name in _LIMITS):
            yield Remedy("drop_parameters", (name,))
    if is_size:
        yield from _smaller(sent)


def _suspects(error: AnswerError, sent: Sent, accepted: Accepted | None) -> Iterator[Remedy]:
    if sent.whole.images - (accepted.images if accepted is not None else frozenset()):
        yield _without_images(sent)
    if not error.body.strip():
        yield from _smaller(sent)  # Cerebras says nothing of what is too long
    if sent.has_calls and _MISSING.search(error.body):
        yield from _given_back(error.body, sent)
    yield from _without_reasoning(sent)
    if sent.has_reasoning or sent.opaque:
        yield from _given_back(error.body, sent)
    if _ELSEWHERE.search(error.body):
        return
    if accepted is None or accepted.settings != sent.whole.settings:
        # Those that change what a run costs or can do come last.
        last = (*EFFORTS, *_LIMITS, "stream_options")
        names = [name for name in error.parameters if sent.new_parameters is None or name in sent.new_parameters]
        yield from (Remedy("drop_parameters", (name,)) for name in sorted(names, key=last.__contains__))
    known = {tool.key for tool in accepted.tools} if accepted is not None else set()
    keys = (tool.key for tool in sent.whole.tools if accepted is not None or tool.name not in OWN_TOOLS)
    if added := tuple(key for key in keys if key not in known):
        yield Remedy("drop_tools", added)
    if accepted is None or sent.whole.tokens > accepted.tokens:
        yield from _smaller(sent)


def _smaller(sent: Sent) -> Iterator[Remedy]:
    if sent.can_shrink:
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
    if sent.opaque:
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
    "repeat": "unchanged",
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


def advice(error: AnswerError, tried: tuple[Remedy, ...], sent: Sent) -> str:
    """What a person can do about a refusal that nothing has helped against."""
    did = f" Trying {_listed([*dict.fromkeys(map(describe, tried))], 'and')} did not help." if tried else ""
    offers = ["compact the session"] if sent.can_shrink else []
    offers += ["leave out the images"] if sent.whole.images else []
    others = [tool.name for tool in sent.whole.tools if tool.name not in OWN_TOOLS]
    offers += [f"leave out tools such as `{others[0]}`"] if others else []
    offers += ["check the model's name and the provider's base URL"] if error.meant_status == 404 else []
    offers.append("choose another model")
    return f"{did} You can {_listed(offers, 'or')}; the next message tries again."


def _listed(items: Sequence[str], word: str) -> str:
    *first, last = items
    return f"{', '.join(first)} {word} {last}" if first else last
