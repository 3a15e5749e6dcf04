"""The formats in which models write tool calls as text, each as its model was trained to.

A text of calls begins with a marker and consists of calls and blanks. Reading one takes linear time, since the text is
untrusted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

UNKNOWN = "unknown"
"""The name of a call whose own name cannot be read."""
_NAME = r"[\w.\-]{1,128}"
_INDEX = re.compile(r":\d{1,9}\Z")
"""Kimi numbers its calls: `functions.read_file:0`."""
_BLANKS = re.compile(r"(?:\s++|<\|im_end\|>|<\|eot_id\|>|<\|eom_id\|>|<\|end\|>|</s>|<｜end▁of▁sentence｜>)*+")
"""What may be between calls and after them."""

Schemas = Mapping[str, Mapping[str, Any]]
"""The JSON schema of each offered tool's arguments."""


@dataclass(frozen=True, slots=True)
class TextCall:
    """A call found in text; `arguments` is the JSON of an object, or what was found in its place."""

    name: str
    arguments: str


class UnreadableError(Exception):
    """Markup of a call that cannot be read; `name` as far as it was found."""

    def __init__(self, name: str = UNKNOWN) -> None:
        super().__init__(name)
        self.name = name


class Scan:
    """A position in a text."""

    def __init__(self, text: str, at: int, schemas: Schemas) -> None:
        self.text = text
        self.at = at
        self.schemas = schemas

    def skip_blanks(self) -> None:
        self.at = _end(_BLANKS.match(self.text, self.at))

    def take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Moves over a match that begins here, and the blanks before it."""
        match = pattern.match(self.text, _end(_SPACE.match(self.text, self.at)))
        if match is not None:
            self.at = match.end()
        return match

    def until(self, pattern: re.Pattern[str], name: str) -> str:
        """Moves over the next match; returns the text before it."""
        match = pattern.search(self.text, self.at)
        if match is None:
            raise UnreadableError(name)
        found = self.text[self.at : match.start()]
        self.at = match.end()
        return found

    def json(self, name: str = UNKNOWN) -> Any:
        """Moves over a JSON value."""
        start = _end(_SPACE.match(self.text, self.at))
        try:
            value, self.at = _DECODER.raw_decode(self.text, start)
        except (ValueError, RecursionError):
            found = _NAMED.search(self.text, start, start + 1_000)
            raise UnreadableError(name if name != UNKNOWN or found is None else plain_name(found[1])) from None
        return value

    def typed(self, name: str, values: Mapping[str, str]) -> TextCall:
        """A call whose arguments were written as text: those that are no strings are JSON."""
        properties = self.schemas.get(name, {}).get("properties", {})
        return TextCall(name, dumped({key: _typed(text, properties.get(key)) for key, text in values.items()}))


_DECODER = json.JSONDecoder(strict=False)
"""The only decoder here that reports where a value ends. Line breaks in strings are what models write."""
_SPACE = re.compile(r"\s*")
_NAMED = re.compile(rf'"name"\s*:\s*"({_NAME})"')


def _end(match: re.Match[str] | None) -> int:
    assert match is not None, "the pattern matches the empty string"
    return match.end()


def plain_name(name: str) -> str:
    """A tool's name without its namespace and number; `UNKNOWN` if it can be none."""
    name = _INDEX.sub("", name.strip()).removeprefix("functions.")
    return name if re.fullmatch(_NAME, name) else UNKNOWN


def dumped(value: Any) -> str:
    try:
        return orjson.dumps(value).decode()
    except (TypeError, ValueError):  # an integer of many digits, or half a surrogate pair
        return json.dumps(value, separators=(",", ":"))


def call_of(found: Any) -> TextCall:
    """A call that was written as an object."""
    if isinstance(found, dict) and isinstance(function := found.get("function"), dict):
        found = function
    if not isinstance(found, dict) or not isinstance(found.get("name"), str):
        raise UnreadableError
    name = plain_name(found["name"])
    arguments: Any = next((found[key] for key in ("arguments", "parameters") if key in found), {})
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments, strict=False)
        except (ValueError, RecursionError):
            raise UnreadableError(name) from None
    if not isinstance(arguments, dict):
        raise UnreadableError(name)
    return TextCall(name, dumped(arguments))


def _calls_of(found: Any) -> list[TextCall]:
    return [call_of(item) for item in found] if isinstance(found, list) else [call_of(found)]


def _typed(text: str, schema: Any) -> Any:
    types, word = _types(schema), text.strip()
    if not types or "string" in types:
        return text
    if word in _PYTHON_WORDS:
        return _PYTHON_WORDS[word]
    try:
        return json.loads(word)
    except (ValueError, RecursionError):
        return text


_PYTHON_WORDS = {"True": True, "False": False, "None": None}


def _types(schema: Any) -> set[str]:
    """The types that a JSON schema names, also as alternatives; none if it leaves them open."""
    if not isinstance(schema, dict):
        return set()
    if "$ref" in schema:
        return {"object"}
    types = schema.get("type", [])
    found = {types} if isinstance(types, str) else {name for name in types if isinstance(name, str)}
    for alternatives in (schema.get("anyOf"), schema.get("oneOf")):
        for alternative in alternatives if isinstance(alternatives, list) else ():
            found |= _types(alternative)
    return found


_TOOL_CALL = re.compile(r"<tool_call>")
_TOOL_CALL_END = re.compile(r"</tool_call>")
_FUNCTION = re.compile(r"<function=\"?([^<>\"\s]{1,128})\"?\s*>")
_FUNCTION_END = re.compile(r"</function>")
_PARAMETER = re.compile(r"<parameter=\"?([^<>\"]{1,128})\"?>\n?")
_PARAMETER_END = re.compile(r"\n?</parameter>(?=\s*(?:<parameter=|</function>|</tool_call>|\Z))")
_ARGUMENT = re.compile(r"<arg_key>([^<>]{1,128})</arg_key>\s*+<arg_value>\n?")
_ARGUMENT_END = re.compile(r"\n?</arg_value>(?=\s*(?:<arg_key>|</tool_call>|\Z))")
_OBJECT = re.compile(r"(?=[{\[])")
_GLM_NAME = re.compile(rf"({_NAME})(?=\s*(?:<arg_key>|</tool_call>|\Z))")


def _tool_call(scan: Scan) -> list[TextCall]:
    """Hermes and Qwen (JSON), Qwen3-Coder (`<function=…>`) and GLM (`<arg_key>`), in `<tool_call>`."""
    scan.take(_TOOL_CALL)
    calls: list[TextCall] = []
    while not scan.take(_TOOL_CALL_END) and (not calls or scan.at < len(scan.text)):
        if scan.take(_OBJECT):
            calls += _calls_of(scan.json())
        elif not calls and (found := scan.take(_GLM_NAME)):
            name = plain_name(found[1])
            calls.append(scan.typed(name, _texts(scan, _ARGUMENT, _ARGUMENT_END, name)))
        elif not calls or scan.text.startswith("<function", _end(_SPACE.match(scan.text, scan.at))):
            calls += _function(scan)
        else:
            break  # the end was left out
    return calls


def _functions(scan: Scan) -> list[TextCall]:
    """A function without `<tool_call>`, whose end Qwen3-Coder may write although it has left out the start."""
    calls = _function(scan)
    scan.take(_TOOL_CALL_END)
    return calls


def _function(scan: Scan) -> list[TextCall]:
    """`<function=name>` with parameters of Qwen3-Coder, or the JSON of Llama."""
    found = scan.take(_FUNCTION)
    if found is None:
        raise UnreadableError
    name = plain_name(found[1])
    if scan.take(_OBJECT):
        call = call_of({"name": name, "arguments": scan.json(name)})
    else:
        call = scan.typed(name, _texts(scan, _PARAMETER, _PARAMETER_END, name))
    if not scan.take(_FUNCTION_END) and scan.text[scan.at :].strip():
        raise UnreadableError(name)
    return [call]


def _texts(scan: Scan, begin: re.Pattern[str], end: re.Pattern[str], name: str) -> dict[str, str]:
    """Keys and values that are written as text, each value up to its `end`."""
    values: dict[str, str] = {}
    while found := scan.take(begin):
        values[found[1].strip()] = scan.until(end, name)
    return values


_NAMESPACES = ("", "ant" + "ml:", "minimax:", "｜DSML｜")
_SPACES = f"(?:{'|'.join(_NAMESPACES[1:])})?"
_WRAPPER = re.compile(rf"<{_SPACES}(?:function_calls|tool_calls?)>")
_WRAPPER_END = re.compile(rf"</{_SPACES}(?:function_calls|tool_calls?)>")
_INVOKE = re.compile(rf"<{_SPACES}invoke\s+name=\"([^<>\"]{{1,128}})\"\s*>")
_INVOKE_END = re.compile(rf"</{_SPACES}invoke>")
_NAMED_PARAMETER = re.compile(
    rf"<{_SPACES}parameter\s+name=\"([^<>\"]{{1,128}})\"(?:\s++string=\"(true|false)\")?\s*>\n?"
)
_NAMED_PARAMETER_END = re.compile(rf"\n?</{_SPACES}parameter>(?=\s*(?:<{_SPACES}parameter\s|</{_SPACES}invoke>|\Z))")


def _invocations(scan: Scan) -> list[TextCall]:
    """`<invoke name="…">` of Anthropic, MiniMax and DeepSeek V3.2, alone or in a wrapper."""
    is_wrapped = scan.take(_WRAPPER)
    calls: list[TextCall] = []
    while found := scan.take(_INVOKE):
        calls.append(_invocation(scan, plain_name(found[1])))
    if not calls:
        raise UnreadableError
    if is_wrapped:
        scan.take(_WRAPPER_END)
    return calls


def _invocation(scan: Scan, name: str) -> TextCall:
    values: dict[str, Any] = {}
    properties = scan.schemas.get(name, {}).get("properties", {})
    while found := scan.take(_NAMED_PARAMETER):
        text = scan.until(_NAMED_PARAMETER_END, name)
        schema = {"type": "string" if found[2] == "true" else "object"} if found[2] else properties.get(found[1])
        values[found[1]] = _typed(text, schema)
    if not scan.take(_INVOKE_END):
        raise UnreadableError(name)
    return TextCall(name, dumped(values))


_SECTION = re.compile(r"<\|tool_calls_section_begin\|>|<[｜|]tool▁calls▁begin[｜|]>")
_SECTION_END = re.compile(r"<\|tool_calls_section_end\|>|<[｜|]tool▁calls▁end[｜|]>")
_CALL = re.compile(r"<\|tool_call_begin\|>|<[｜|]tool▁call▁begin[｜|]>")
_CALL_END = re.compile(r"<\|tool_call_end\|>|<[｜|]tool▁call▁end[｜|]>")
_SEPARATOR = re.compile(r"<\|tool_call_argument_begin\|>|<[｜|]tool▁sep[｜|]>")
_LINE_END = re.compile(r"\n")
_FENCE = re.compile(r"```(?:json)?")


def _sections(scan: Scan) -> list[TextCall]:
    """The tokens of Kimi and of DeepSeek V3 and V3.1."""
    scan.take(_SECTION)
    calls: list[TextCall] = []
    while scan.take(_CALL):
        name = scan.until(_SEPARATOR, UNKNOWN)
        if name.strip() == "function":  # V3 has the type first, and the arguments in a code block
            name = scan.until(_LINE_END, UNKNOWN)
        name = plain_name(name)
        scan.take(_FENCE)
        calls.append(call_of({"name": name, "arguments": scan.json(name)}))
        scan.take(_FENCE)
        scan.take(_CALL_END)
    if not calls:
        raise UnreadableError
    scan.take(_SECTION_END)
    return calls


_TOOL_CALLS = re.compile(r"\[TOOL_CALLS\]")
_MISTRAL_NAME = re.compile(rf"({_NAME})\s*+(?:\[CALL_ID\]\s*+\w++\s*+)?(?:\[ARGS\])?(?=\s*+\{{)")


def _mistral(scan: Scan) -> list[TextCall]:
    """`[TOOL_CALLS]` with a list of objects, or with a name and its arguments."""
    scan.take(_TOOL_CALLS)
    if scan.take(_OBJECT):
        return _calls_of(scan.json())
    calls: list[TextCall] = []
    while found := scan.take(_MISTRAL_NAME):
        calls.append(call_of({"name": found[1], "arguments": scan.json(plain_name(found[1]))}))
    if not calls:
        raise UnreadableError
    return calls


_PYTHON_TAG = re.compile(r"<\|python_tag\|>")
_SEMICOLON = re.compile(r";?(?=\s*\{)")


def _llama(scan: Scan) -> list[TextCall]:
    """`<|python_tag|>` with objects."""
    scan.take(_PYTHON_TAG)
    calls = _calls_of(scan.json())
    while scan.take(_SEMICOLON):
        calls += _calls_of(scan.json())
    return calls


_CHANNEL = re.compile(
    rf"(?:<\|start\|>assistant)?(?:\s*+to=({_NAME}))?\s*+<\|channel\|>(?:commentary|analysis)(?:\s*+to=({_NAME}))?"
    r"\s*+(?:<\|constrain\|>)?\s*+(?:json|code)?\s*+<\|message\|>"
)
_CHANNEL_END = re.compile(r"<\|call\|>|<\|end\|>")


def _harmony(scan: Scan) -> list[TextCall]:
    """A message of gpt-oss to a function."""
    found = scan.take(_CHANNEL)
    if found is None or not (found[1] or found[2]):
        raise UnreadableError
    name = plain_name(found[1] or found[2])
    call = call_of({"name": name, "arguments": scan.json(name)})
    scan.take(_CHANNEL_END)
    return [call]


_FORMATS: dict[str, tuple[Callable[[Scan], list[TextCall]], re.Pattern[str]]] = {
    "<tool_call>": (_tool_call, _TOOL_CALL_END),
    "<function=": (_functions, _FUNCTION_END),
    **dict.fromkeys(
        (
            *(f"<{space}{tag}>" for space in _NAMESPACES for tag in ("function_calls", "tool_calls")),
            *(f"<{space}invoke name=" for space in _NAMESPACES),
            "<minimax:tool_call>",
        ),
        (_invocations, re.compile(rf"{_INVOKE_END.pattern}|{_WRAPPER_END.pattern}")),
    ),
    **dict.fromkeys(
        (
            *("<|tool_calls_section_begin|>", "<|tool_call_begin|>", "<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>"),
            *("<|tool▁calls▁begin|>", "<|tool▁call▁begin|>"),
        ),
        (_sections, re.compile(rf"{_CALL_END.pattern}|{_SECTION_END.pattern}")),
    ),
    "[TOOL_CALLS]": (_mistral, re.compile(r"(?!)")),
    "<|python_tag|>": (_llama, re.compile(r"(?!)")),
    **dict.fromkeys(("<|channel|>", "<|start|>assistant"), (_harmony, _CHANNEL_END)),
}
"""What reads a text that begins with a marker, and what ends a call in it."""
MARKERS = tuple(_FORMATS)
_ANY_MARKER = re.compile("|".join(map(re.escape, MARKERS)))


def read_marked(text: str, schemas: Schemas) -> list[TextCall]:
    """The calls of a text that begins with a marker; none if it also has other text. Markup that cannot be read becomes
    a call with what was found of it, so that the model gets an error for it."""
    scan, calls = Scan(text, 0, schemas), list[TextCall]()
    scan.skip_blanks()
    if text.strip() in MARKERS:
        return []
    while marker := _ANY_MARKER.match(text, scan.at):
        start = scan.at
        read, end = _FORMATS[marker[0]]
        try:
            calls += read(scan)
        except (UnreadableError, RecursionError) as error:
            name = error.name if isinstance(error, UnreadableError) else UNKNOWN
            return _unreadable(text, start, name, calls, end)
        scan.skip_blanks()
    return calls if scan.at == len(text) else []


_ARGUMENTS_CHARS = 2_000
"""Characters of unreadable markup that the model sees again."""


def _unreadable(text: str, start: int, name: str, calls: list[TextCall], end: re.Pattern[str]) -> list[TextCall]:
    """The calls before unreadable markup and one for it, unless other text follows its end."""
    after = start
    for match in end.finditer(text, start):
        after = match.end()
    if after > start and _end(_BLANKS.match(text, after)) < len(text):
        return []
    return [*calls, TextCall(name, text[start : start + _ARGUMENTS_CHARS])]
