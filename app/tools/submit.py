"""`submit_output`: how a run ends whose result has to meet a JSON Schema."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import orjson
from pydantic import ConfigDict

from app.errors import ToolError
from app.llm.base import ToolSchema
from app.messages import MAX_ARGUMENT_DEPTH, Message, ToolStatus, is_deeper
from app.tools.base import Arguments, ToolContext, ToolOutcome
from app.tools.json_schema import problems
from app.tools.registry import load_object

NAME = "submit_output"
MAX_DEPTH = MAX_ARGUMENT_DEPTH - 20
"""Maximum levels of nesting of a value: events and sessions contain it."""
WRAPPED = "output"
"""The argument that has a value which is not described as an object: arguments always are one."""
_DESCRIPTION = (
    "Ends the task with its result{name}. Call it once, when all work is done, with the complete result; a text answer"
    " does not end this task."
)
TOP_REFUSED = ("$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "not", "if", "enum", "const")
"""Keywords that providers refuse at the top of a tool's arguments."""


@dataclass(frozen=True, slots=True)
class OutputFormat:
    """What the result of a run has to look like; `schema` was checked by `json_schema.checked_schema`."""

    schema: Mapping[str, Any]
    name: str | None = None
    description: str | None = None

    @classmethod
    def of_session(cls, row: Any) -> OutputFormat | None:
        """The format for the current run of the session with this row, from a message or from the session; None for a
        text."""
        stored: dict[str, Any] | None = row.run_output_format or row.output_format
        return None if stored is None else cls(**stored)

    @property
    def _is_object(self) -> bool:
        """Whether the arguments themselves can be the value."""
        kind = self.schema.get("type", "object" if "properties" in self.schema else None)
        return kind == "object" and not any(keyword in self.schema for keyword in TOP_REFUSED)

    def tool(self) -> ToolSchema:
        """The tool as a model sees it."""
        about = _DESCRIPTION.format(name=f", {self.name}" if self.name else "")
        text = f"{about} {self.description}" if self.description else about
        if self._is_object:
            return ToolSchema(NAME, text, {"type": "object", "properties": {}, **self.schema})
        definitions = {name: self.schema[name] for name in ("$defs", "definitions") if name in self.schema}
        inner = {name: value for name, value in self.schema.items() if name not in definitions}
        parameters = {
            "type": "object",
            "properties": {WRAPPED: _moved(inner)},
            "required": [WRAPPED],
            "additionalProperties": False,
            **_moved(definitions),
        }
        return ToolSchema(NAME, text, parameters)

    def value(self, arguments: Mapping[str, Any]) -> Any:
        """The submitted value. Raises `ToolError` if it is not an argument."""
        if not self._is_object and set(arguments) != {WRAPPED}:
            raise ToolError(f"$: give the result as the only argument, `{WRAPPED}` (rule required)")
        value = arguments if self._is_object else arguments[WRAPPED]
        if is_deeper(value, MAX_DEPTH):
            raise ToolError(f"$: more than {MAX_DEPTH} levels of nesting")
        try:
            # As it will be stored: a model's JSON may have numbers and characters that standard JSON has not.
            return orjson.loads(orjson.dumps(value))
        except (TypeError, ValueError) as error:
            raise ToolError(f"$: it cannot be stored as JSON ({error})") from error

    def submitted(self, message: Message) -> Any:
        """The value that a model's message has submitted; None without one."""
        texts = [
            call.arguments_text
            for call in message.tool_calls
            if call.name == NAME and call.status == ToolStatus.COMPLETED
        ]
        try:
            return self.value(load_object(texts[-1])) if texts else None
        except (ToolError, ValueError):
            # The session has asked for another form since.
            return None


def _moved(node: Any) -> Any:
    """A schema that became the argument's, with its references from its top; its definitions stay at the top."""
    if isinstance(node, list):
        return [_moved(item) for item in node]
    if not isinstance(node, dict):
        return node
    return {name: _moved_ref(value) if name == "$ref" else _moved(value) for name, value in node.items()}


def _moved_ref(ref: Any) -> Any:
    if not isinstance(ref, str):
        return _moved(ref)
    is_inner = ref == "#" or (ref.startswith("#/") and not ref.startswith(("#/$defs/", "#/definitions/")))
    return f"#/properties/{WRAPPED}{ref[1:]}" if is_inner else ref


class SubmitOutputArguments(Arguments):
    model_config = ConfigDict(extra="allow")


class SubmitOutput:
    """The tool of one session; `format` returns its present format."""

    name: ClassVar[str] = NAME
    description: ClassVar[str] = _DESCRIPTION.format(name="")
    parallel_safe: ClassVar[bool] = False
    arguments: type[Arguments] = SubmitOutputArguments

    def __init__(self, format: Callable[[], OutputFormat | None]) -> None:
        self._format = format

    async def run(self, args: SubmitOutputArguments, context: ToolContext) -> ToolOutcome:
        """Checks the value; it is stored with the call, and read from there when the run ends."""
        format = self._format()
        if format is None:
            raise ToolError("No output is required anymore; answer with text.")
        value = format.value(args.model_extra or {})
        if found := await asyncio.to_thread(problems, format.schema, value):
            raise ToolError("The output does not meet its schema. Fix this and submit it again:\n" + "\n".join(found))
        return ToolOutcome(note="[accepted]")
