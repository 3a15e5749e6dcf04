"""Which answer a request gets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from tests.provider.records import RecordedRequest
from tests.provider.script import Responder, Scripted, sequence

Predicate: TypeAlias = Callable[[RecordedRequest], bool]


@dataclass(slots=True)
class Rule:
    """Requests matching `applies` are answered by `answers` in order."""

    applies: Predicate
    answers: Iterator[Scripted]

    def take(self, request: RecordedRequest) -> Scripted | None:
        """The next answer; None if the rule does not apply or is used up."""
        return next(self.answers, None) if self.applies(request) else None


@dataclass(slots=True)
class ScriptBook:
    """All scripts of a provider. Asked in this order: predicates as registered; the key that is the model's name; the
    longest key within the first user message; the longest key within any user message, so that a conversation whose
    task moved into a summary is still known; the default script. A refused request uses up no answer."""

    predicates: list[Rule] = field(default_factory=list)
    keys: dict[str, Rule] = field(default_factory=dict)
    default: Sequence[Scripted] = ()
    responder: Responder | None = None
    per_conversation: bool = False
    running: dict[str, Iterator[Scripted]] = field(default_factory=dict)

    def choose(self, request: RecordedRequest) -> Scripted:
        """Takes the next answer for this request."""
        for rule in (*self.predicates, self._keyed(request)):
            scripted = rule.take(request) if rule else None
            if scripted is not None:
                return scripted
        if self.responder is not None:
            return self.responder
        conversation = request.first_user_text if self.per_conversation else ""
        return next(self.running.setdefault(conversation, sequence(self.default)))

    def _keyed(self, request: RecordedRequest) -> Rule | None:
        if request.model in self.keys:
            return self.keys[request.model]
        for text in (request.first_user_text, "\n".join(request.user_texts)):
            found = [key for key in self.keys if key in text]
            if found:
                return self.keys[max(found, key=len)]
        return None

    def set_default(self, answers: Sequence[Scripted], *, per_conversation: bool) -> None:
        self.default, self.responder, self.per_conversation = answers, None, per_conversation
        self.running = {}


def always(_: RecordedRequest) -> bool:
    return True


def repeat(responder: Responder) -> Iterator[Scripted]:
    """Yields the same function forever."""
    while True:
        yield responder
