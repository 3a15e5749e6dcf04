"""The formats in which models write tool calls as text, each as its model was trained to.

The markup of calls begins with a marker. Reading it takes linear time, since the text is untrusted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import orjson

from app.llm.tool_names import ARGUMENTS, NAMELESS, clean_name

_NAME = r"\w[\w.\-]{0,127}"
_ENDS = re.compile(r"(?:\s*+(?:<\|(?:im_end|eot_id|eom_id|end)\|>|</s>|<｜end▁of▁sentence｜>))*")
"""Tokens that may be between calls and after them."""

Schemas = Mapping[str, Mapping[str, Any]]
"""The JSON schema of each offered tool's arguments."""


@dataclass(frozen=True, slots=True)
class TextCall:
    """A call found in text; `arguments` is the JSON of an object, or what was found in its place."""

    name: str
    arguments: str


class UnreadableError(Exception):
    """Markup of a call that cannot be read; `name` as far as it was found."""

    def __init__(self, name: str = NAMELESS) -> None:
        super().__init__(name)
        self.name = name


class Scan:
    """A position in a text."""

    def __init__(self, text: str, at: int, schemas: Schemas) -> None:
        self.text = text
        self.at = at
        self.schemas = schemas

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

    def json(self, name: str = NAMELESS) -> Any:
        """Moves over a JSON value."""
        start = _end(_SPACE.match(self.text, self.at))
        try:
            value, self.at = _DECODER.raw_decode(self.text, start)
        except (ValueError, RecursionError):
            found = _NAMED.search(self.text, start, start + 1_000)
            raise UnreadableError(name if name != NAMELESS or found is None else clean_name(found[1])) from None
        return value

    def call(self, name: str) -> TextCall:
        """Moves over the arguments of a call, which are JSON."""
        return call_of({"name": name, "arguments": self.json(name)})

    def past_blanks(self) -> int:
        """The position after the tokens that follow, and after white space if only that or a marker comes next."""
        at = _end(_ENDS.match(self.text, self.at))
        after = _end(_SPACE.match(self.text, at))
        return after if after == len(self.text) or ANY_MARKER.match(self.text, after) else at


_DECODER = json.JSONDecoder(strict=False)
"""The only decoder here that reports where a value ends. Line breaks in strings are what models write."""
_SPACE = re.compile(r"\s*")
_NAMED = re.compile(rf'"name"\s*:\s*"({_NAME})"')


def _end(match: re.Match[str] | None) -> int:
    assert match is not None, "the pattern matches the empty string"
    return match.end()


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
    name = clean_name(found["name"])
    arguments: Any = next((found[key] for key in ARGUMENTS if key in found), {})
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


_NAMESPACES = ("", "ant" + "ml:", "minimax:", "｜DSML｜")
_SPACES = f"(?:{'|'.join(_NAMESPACES[1:])})?"
_WRAPPER = re.compile(rf"<{_SPACES}(?:function|tool)_calls?(?:\s+name=[\"']?([^<>\"'\s]{{1,128}})[\"']?\s*)?>")
_WRAPPER_END = re.compile(rf"</{_SPACES}(?:function|tool)_calls?>")
_OBJECT = re.compile(r"(?=[{\[])")
_PYTHON = re.compile(r"(?=[{\[][\s{]*')")
_PYTHON_END = re.compile(rf"{_WRAPPER_END.pattern}|\Z")


class _Form(NamedTuple):
    """How a function with its name begins and ends, and each of its parameters, which has a key and may say whether it
    is a string."""

    begin: re.Pattern[str]
    end: re.Pattern[str]
    parameter: re.Pattern[str]
    parameter_end: re.Pattern[str]


_FUNCTION = _Form(
    re.compile(r"<function=\"?([^<>\"\s]{1,128})\"?\s*>"),
    re.compile(r"</function>|(?=</tool_call>)"),
    re.compile(r"<parameter=\"?([^<>\"]{1,128})\"?>()\n?"),
    re.compile(r"\n?</parameter>(?=\s*(?:<parameter=|</function>|</tool_call>|\Z))"),
)
"""Qwen3-Coder, and Llama with JSON in place of the parameters."""
_INVOKE = _Form(
    re.compile(rf"<{_SPACES}invoke\s+name=\"([^<>\"]{{1,128}})\"\s*>"),
    re.compile(rf"</{_SPACES}invoke>"),
    re.compile(rf"<{_SPACES}parameter\s+name=\"([^<>\"]{{1,128}})\"(?:\s++string=\"(true|false)\")?\s*>\n?"),
    re.compile(rf"\n?</{_SPACES}parameter>(?=\s*(?:<{_SPACES}parameter\s|</{_SPACES}invoke>|\Z))"),
)
"""Anthropic, MiniMax and DeepSeek V3.2."""
_FORMS = (_FUNCTION, _INVOKE)
_GLM = _Form(
    re.compile(rf"({_NAME})(?=\s*(?:<arg_key>|</tool_call>|\Z))"),
    re.compile(""),
    re.compile(r"<arg_key>([^<>]{1,128})</arg_key>()\s*+<arg_value>\n?"),
    re.compile(r"\n?</arg_value>(?=\s*(?:<arg_key>|</tool_call>|\Z))"),
)


def _wrapped(scan: Scan) -> list[TextCall]:
    """Calls in a tag: JSON of Hermes and Qwen, functions, or GLM's. The tag may be left out before a function, and its
    end everywhere."""
    tag = scan.take(_WRAPPER)
    calls: list[TextCall] = []
    if tag is not None and tag[1]:
        calls.append(scan.call(clean_name(tag[1])))
    while not scan.take(_WRAPPER_END):
        if tag is not None and scan.take(_PYTHON):
            return calls + _calls_of(_from_python(scan.until(_PYTHON_END, NAMELESS)))
        if tag is not None and scan.take(_OBJECT):
            calls += _calls_of(scan.json())
        elif (call := _function(scan, _FORMS if calls or tag is None else (*_FORMS, _GLM))) is not None:
            calls.append(call)
        else:
            break
    return calls


def _function(scan: Scan, forms: Iterable[_Form]) -> TextCall | None:
    for form in forms:
        if found := scan.take(form.begin):
            break
    else:
        return None
    name = clean_name(found[1])
    call = scan.call(name) if scan.take(_OBJECT) else TextCall(name, dumped(_parameters(scan, name, form)))
    if not scan.take(form.end) and scan.past_blanks() < len(scan.text):
        raise UnreadableError(name)
    return call


def _parameters(scan: Scan, name: str, form: _Form) -> dict[str, Any]:
    """Values that are written as text: those that are no strings are JSON."""
    values: dict[str, Any] = {}
    properties = scan.schemas.get(name, {}).get("properties", {})
    while found := scan.take(form.parameter):
        key, text = found[1].strip(), scan.until(form.parameter_end, name)
        schema = {"type": "string" if found[2] == "true" else "object"} if found[2] else properties.get(key)
        values[key] = _typed(text, schema)
    return values


_PYTHON_TOKEN = re.compile(
    r"""'([^'\\]*(?:\\.[^'\\]*)*)(?:'|\\?\Z)|"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)|\b(?:True|False|None)\b""", re.S
)
_ESCAPE = re.compile(r"\\.|\"", re.S)
_AS_JSON = {"True": "true", "False": "false", "None": "null", "\\'": "'", '"': '\\"'}


def _from_python(text: str) -> Any:
    """A value as Python prints it, with single quotes."""

    def as_json(token: re.Match[str]) -> str:
        if token[1] is None:
            return _AS_JSON.get(token[0], token[0])
        return f'"{_ESCAPE.sub(lambda found: _AS_JSON.get(found[0], found[0]), token[1])}"'

    try:
        return json.loads(_PYTHON_TOKEN.sub(as_json, text), strict=False)
    except (ValueError, RecursionError):
        raise UnreadableError from None


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
        name = scan.until(_SEPARATOR, NAMELESS)
        if name.strip() == "function":  # V3 has the type first, and the arguments in a code block
            name = scan.until(_LINE_END, NAMELESS)
        name = clean_name(name)
        scan.take(_FENCE)
        calls.append(scan.call(name))
        scan.take(_FENCE)
        scan.take(_CALL_END)
    scan.take(_SECTION_END)
    return calls


_TOOL_CALLS = re.compile(r"\[TOOL_CALLS\]")
_MISTRAL_NAME = re.compile(rf"({_NAME})\s*+(?:\[CALL_ID\]\s*+\w++\s*+)?(?:\[ARGS\])?(?=\s*+\{{)")


def _mistral(scan: Scan) -> list[TextCall]:
    """`[TOOL_CALLS]` with a list of objects, or with a name and its arguments."""
    scan.take(_TOOL_CALLS)
    if scan.take(_OBJECT):
        return _calls_of(scan.json())
    found = scan.take(_MISTRAL_NAME)
    return [scan.call(clean_name(found[1]))] if found is not None else []


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
    call = scan.call(clean_name(found[1] or found[2]))
    scan.take(_CHANNEL_END)
    return [call]


TAGS = ("<tool_call>", "<function_call>")
HARMONY = ("<|channel|>", "<|start|>assistant")
_FORMATS: dict[str, tuple[Callable[[Scan], list[TextCall]], re.Pattern[str]]] = {
    **dict.fromkeys(
        (
            *(*TAGS, "<tool_call name=", "<function_call name=", "<function=", "<minimax:tool_call>"),
            *(f"<{space}{tag}>" for space in _NAMESPACES for tag in ("function_calls", "tool_calls")),
            *(f"<{space}invoke name=" for space in _NAMESPACES),
        ),
        (_wrapped, re.compile(rf"{_WRAPPER_END.pattern}|</function>|{_INVOKE.end.pattern}")),
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
    **dict.fromkeys(HARMONY, (_harmony, _CHANNEL_END)),
}
"""What reads a text that begins with a marker, and what ends a call in it."""
MARKERS = tuple(_FORMATS)
ANY_MARKER = re.compile("|".join(map(re.escape, MARKERS)))
INNER_MARKER = re.compile(rf"<function=|<{_SPACES}invoke name=|{_CALL.pattern}|<\|channel\|>")
"""Those that may be part of what another marker begins."""

_ARGUMENTS_CHARS = 2_000
"""Characters of unreadable markup that the model sees again."""


def read_marked(text: str, schemas: Schemas) -> tuple[list[TextCall], int]:
    """The calls of the markup that a text begins with, and where it ends. Markup that cannot be read is a call with
    what was found of it, so that the model gets an error for it. A marker alone is no markup, and ends at 0."""
    scan = Scan(text, _end(_SPACE.match(text)), schemas)
    marker = ANY_MARKER.match(text, scan.at)
    if marker is None or _end(_SPACE.match(text, marker.end())) == len(text):
        return [], 0
    read, end = _FORMATS[marker[0]]
    try:
        calls = read(scan)
        name = NAMELESS
    except (UnreadableError, RecursionError) as error:
        calls, name = [], getattr(error, "name", NAMELESS)
    if calls:
        return calls, scan.past_blanks()
    last = max((found.end() for found in end.finditer(text, marker.end())), default=len(text))
    return [TextCall(name, text[marker.start() : last][:_ARGUMENTS_CHARS])], last
