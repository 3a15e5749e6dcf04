"""Recorded histories and the probe questions about them."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from importlib.resources import files
from io import BytesIO
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import orjson
from pydantic import Field, ValidationError

from app.context.tokens import PER_MESSAGE, estimate_part
from app.errors import PalimpsestError
from app.interchange import import_history
from app.messages import Message, Role, Value
from app.sessions import PlanItem
from evals.scoring import found, states

Kind = Literal["task", "files", "decisions", "errors", "next_step"]
"""What a probe asks about: the task, the files touched, the decisions made, the errors seen, or the next step."""

KINDS: tuple[Kind, ...] = get_args(Kind)

SUFFIX = ".json.gz"

LONG_HISTORIES = ("long_adapters", "long_jobs", "long_museum")
"""The packaged histories of 400 messages and more, which are replayed round by round."""

SET_ASIDE = ("long_jobs", "long_museum")
"""Those by whose results nothing was tuned, so that they show what to expect of others."""

MAX_BYTES = 256 * 1024 * 1024
"""Maximum size of a history, unpacked; a session of several days has some ten megabytes."""

_GZIP = b"\x1f\x8b"

Fact = Annotated[tuple[str, ...], Field(min_length=1)]
"""One thing that an answer should state, in any of these spellings."""


class InvalidHistoryError(PalimpsestError):
    """A file is not a recorded history, or has a probe without a valid answer."""

    code = "invalid_history"
    title = "The recorded history is not valid"


class Probe(Value):
    """A question, and the facts that a correct answer states. `outdated` is what held earlier: a text that states it
    without the facts misleads."""

    kind: Kind
    question: Annotated[str, Field(min_length=1)]
    facts: Annotated[tuple[Fact, ...], Field(min_length=1)]
    outdated: tuple[Fact, ...] = ()


class RecordedHistory(Value):
    """A recorded session with its probes.

    `messages` have the form of `GET /v1/sessions/{id}/messages` if `format` is `palimpsest`, else the provider's: an
    exported conversation loses exit codes and marks, so its computed facts are poorer. The next step is the one after
    the last message.
    """

    name: Annotated[str, Field(pattern=r"^[a-z0-9_-]{1,60}$")]
    about: str = ""
    format: Literal["palimpsest", "openai", "anthropic"] = "palimpsest"
    system_prompt: str | None = None
    messages: Annotated[tuple[Any, ...], Field(min_length=1)]
    probes: Annotated[tuple[Probe, ...], Field(min_length=1)]

    def conversation(self) -> list[Message]:
        """The messages as the runtime would have them. Raises `InvalidHistoryError`."""
        try:
            if self.format != "palimpsest":
                return list(import_history(self.format, self.messages).messages)
            return [_message(stored, seq) for seq, stored in enumerate(self.messages, 1)]
        except (ValidationError, AttributeError, KeyError, TypeError) as error:
            raise InvalidHistoryError(f"{self.name}: a message does not have the format {self.format!r}.") from error
        except PalimpsestError as error:
            raise InvalidHistoryError(f"{self.name}: {error.detail}") from error


def _message(stored: dict[str, Any], seq: int) -> Message:
    """A message as the API shows it, renumbered and recounted."""
    parts = []
    for part in stored["parts"]:
        if part["type"] == "tool_call":
            arguments = part.get("arguments", {})
            text = arguments if isinstance(arguments, str) else orjson.dumps(arguments).decode()
            part = {name: value for name, value in part.items() if name != "arguments"} | {"arguments_text": text}
        parts.append(part)
    read = Message.model_validate({**stored, "parts": parts, "seq": seq})
    counted = tuple(part.model_copy(update={"tokens": estimate_part(part)}) for part in read.parts)
    return read.model_copy(update={"parts": counted, "tokens": PER_MESSAGE + sum(part.tokens for part in counted)})


def plan_of(messages: Sequence[Message]) -> list[PlanItem]:
    """The plan as the last call that set it left it; empty without one."""
    for message in reversed(messages):
        for call in reversed(message.tool_calls):
            if call.name == "update_plan" and isinstance(call.arguments, dict):
                try:
                    return [PlanItem.model_validate(item) for item in call.arguments.get("items", ())]
                except (ValidationError, TypeError):
                    continue
    return []


def parse_history(data: bytes, source: str) -> RecordedHistory:
    """A recorded history from JSON, gzip or not. `source` names it in errors. Raises `InvalidHistoryError`."""
    try:
        history = RecordedHistory.model_validate(orjson.loads(_unpacked(data)))
    except (OSError, EOFError, orjson.JSONDecodeError) as error:
        raise InvalidHistoryError(f"{source} is neither JSON nor gzipped JSON.") from error
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False, include_context=False)[0]
        place = ".".join(map(str, first["loc"])) or "the file"
        raise InvalidHistoryError(f"{source}: {place}: {first['msg']}.") from error
    _check(history, source)
    return history


def _unpacked(data: bytes) -> bytes:
    if not data.startswith(_GZIP):
        return data
    with gzip.open(BytesIO(data)) as packed:
        text = packed.read(MAX_BYTES + 1)
    if len(text) > MAX_BYTES:
        raise OSError("too large")
    return text


def _check(history: RecordedHistory, source: str) -> None:
    """Checks the probes: an answer that is in its question, or nowhere in the history, would measure nothing."""
    conversation = history.conversation()
    said = "\n".join(text for message in conversation for text in texts_of(message))
    if not any(message.role is Role.USER for message in conversation):
        raise InvalidHistoryError(f"{source}: it has no user message.")
    facts = [(probe, fact) for probe in history.probes for fact in (*probe.facts, *probe.outdated)]
    for (probe, fact), is_said in zip(facts, found(said, [fact for _, fact in facts]), strict=True):
        if states(probe.question, fact):
            raise InvalidHistoryError(f"{source}: the question {probe.question!r} contains its answer {fact[0]!r}.")
        if not is_said:
            raise InvalidHistoryError(f"{source}: {fact[0]!r} does not occur in the history.")


def texts_of(message: Message) -> list[str]:
    """All texts of a message: its text, arguments as values, and outputs."""
    texts = [message.text]
    for call in message.tool_calls:
        texts += list(_strings(call.arguments))
    return texts + [result.output for result in message.tool_results]


def _strings(value: Any) -> list[str]:
    match value:
        case str():
            return [value]
        case dict():
            return [text for inner in value.values() for text in _strings(inner)]
        case list():
            return [text for inner in value for text in _strings(inner)]
        case _:
            return [] if value is None else [str(value)]


def packaged_names() -> list[str]:
    """The packaged histories."""
    folder = files("evals").joinpath("histories")
    return sorted(file.name.removesuffix(SUFFIX) for file in folder.iterdir() if file.name.endswith(SUFFIX))


def load_packaged(name: str) -> RecordedHistory:
    """A packaged history. Raises `InvalidHistoryError`; reads the disk."""
    if name not in packaged_names():
        raise InvalidHistoryError(f"Unknown recorded history {name!r}; available are {', '.join(packaged_names())}.")
    file = files("evals").joinpath("histories", name + SUFFIX)
    return parse_history(file.read_bytes(), name)


def read_history(given: str) -> RecordedHistory:
    """The history in this file, else the packaged one of this name. Raises `InvalidHistoryError`; reads the disk."""
    path = Path(given)
    if not path.exists() and given in packaged_names():
        return load_packaged(given)
    try:
        data = path.read_bytes()
    except OSError as error:
        known = ", ".join(packaged_names())
        raise InvalidHistoryError(
            f"{given} cannot be read ({error.strerror}), and is not one of the packaged histories: {known}."
        ) from error
    return parse_history(data, given)
