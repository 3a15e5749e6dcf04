"""Tool calls of a hostile model: valid, nearly valid, and invalid by their schema."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from app.tools import ToolRegistry, default_tools
from tests.fuzz.path_inputs import path_texts
from tests.fuzz.values import anything, changed, hostile, texts

SCHEMAS = {schema.name: schema.parameters for schema in ToolRegistry(default_tools()).schemas()}
COMMANDS = (
    "true",
    "exit 255",
    "kill -9 $$",
    "echo out; echo err >&2",
    "head -c 300000 /dev/zero",
    "head -c 300000 /dev/urandom",
    "printf '\\033[2J\\033]0;title\\007\\r\\b'",
    "yes | head -c 100000 | tr -d '\\n'",
    "ln -sf / root; ln -sf ../../.. up; ln -sf loop loop; mkfifo pipe; mkdir -p a/b; echo x > a/b/c",
    "mkdir -p deep; cd deep; for i in 1 2 3 4 5 6 7 8 9; do mkdir -p d; cd d; done; touch \"$(printf 'a\\nb')\"",
    "touch \"$(printf 'bad\\377name')\" -- '-rf' 'a b' \"'\" '*' '$(id)'; rm -rf root up loop pipe",
    "echo '# Notes' > MEMORY.md; ln -sf /etc/passwd memory; truncate -s 20M big; chmod 0 a",
    "rm -rf ./* ; chmod 700 a",
    "(setsid sleep 30 &) ; echo started",
    "sleep 5",
    "echo >> /etc/passwd; echo x > /outside; rm -rf / 2>/dev/null",
    "\x00",
    "echo \udcff",
    "'",
    "<<EOF",
    "${x",
    "a" * 31_000,
    "a" * 33_000,
    "exec 0<&- 1>&- 2>&-; sleep 0.1",
)
PATTERNS = (
    "(",
    "[",
    "(?R)",
    "(a+)+$",
    "\\",
    "(?i)x",
    "^",
    ".*",
    "\x00",
    "-e x",
    "a{1000}{1000}",
    "\\p{L}",
    "x\ny",
    "(?P<n>a)(?P=n)",
)
QUERIES = (
    '"',
    '""',
    "a OR b",
    "NEAR(a b)",
    "a*",
    "col:x",
    "-a",
    "^a",
    "é",
    "\x00",
    "' --",
    "(",
    "a" * 500,
    "a" * 501,
    "{}",
)
_SPECIAL: dict[str, st.SearchStrategy[Any]] = {
    "command": st.sampled_from(COMMANDS),
    "path": path_texts,
    "pattern": st.sampled_from(PATTERNS),
    "grep": st.sampled_from(PATTERNS),
    "query": st.sampled_from(QUERIES),
    "glob": st.sampled_from(("*", "**/*", "*.{py,md}", "[", "{", "!x", "../*", "-x", "\x00", "\n", "a" * 200)),
    "content": st.one_of(texts, st.sampled_from(("x\n" * 5_000, "\r\n", "\ufeff# a"))),
    "old_text": st.one_of(texts, st.just("x")),
    "new_text": texts,
    "start_line": st.sampled_from((1, 2, 0, -1, 2**31, 2**63, 10**30)),
    "end_line": st.sampled_from((1, 2, 0, -1, 2**31, 2**63, 10**30)),
    "timeout_s": st.sampled_from((0.2, 1, 0, -1, 1e-9, 1e308, 10**30)),
    "call_id": st.one_of(texts, st.sampled_from(("..", "../../palimpsest.db", "/etc/passwd", "c" * 100, "a/b"))),
}


def by_schema(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Arguments that a tool's schema allows, as far as needed for these schemas."""
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    match schema.get("type"):
        case "object":
            fields = schema.get("properties", {})
            needed = {name: by_schema(fields[name]) for name in schema.get("required", ())}
            return st.fixed_dictionaries(
                needed, optional={name: by_schema(inner) for name, inner in fields.items() if name not in needed}
            )
        case "array":
            return st.lists(by_schema(schema["items"]), max_size=3)
        case "integer":
            return st.integers(schema.get("minimum"), schema.get("maximum"))
        case "number":
            return st.floats(allow_nan=False, allow_infinity=False)
        case "boolean":
            return st.booleans()
        case _:
            return texts


@dataclass(frozen=True)
class Call:
    """One call: `arguments` is the text on the wire, JSON or not."""

    name: str
    arguments: str


@dataclass(frozen=True)
class Calls:
    """Calls of one message of the model."""

    calls: tuple[Call, ...]


@st.composite
def pointed(draw: st.DrawFn, name: str) -> Any:
    """Arguments by their names, with values that aim at what the tool does with them."""
    schema = SCHEMAS[name]
    chosen = {
        field: draw(_SPECIAL[field]) if field in _SPECIAL else draw(by_schema(inner))
        for field, inner in schema["properties"].items()
        if field in schema.get("required", ()) or draw(st.booleans())
    }
    if "command" in chosen:
        # An endless command would use up the run's time.
        chosen["timeout_s"] = draw(_SPECIAL["timeout_s"]) if draw(st.integers(0, 3)) == 0 else 1
    return chosen


@st.composite
def calls(draw: st.DrawFn) -> Call:
    """One call of a known or unknown tool."""
    name = draw(st.sampled_from(list(SCHEMAS)))
    match draw(st.sampled_from(["pointed", "pointed", "pointed", "schema", "changed", "anything", "text", "name"])):
        case "pointed":
            value = draw(pointed(name))
        case "schema":
            value = draw(by_schema(SCHEMAS[name]))
            if name == "execute_command":
                value["command"] = draw(_SPECIAL["command"])
                value["timeout_s"] = 1
        case "changed":
            value = draw(changed(draw(pointed(name))))
            if isinstance(value, dict) and name == "execute_command" and "timeout_s" not in value:
                value["timeout_s"] = 1
        case "anything":
            value = draw(st.one_of(anything, hostile))
        case "text":
            written = json.dumps(draw(pointed(name)))
            return Call(
                name,
                draw(
                    st.sampled_from(
                        [written[:-1], written * 2, written.replace('"', "'"), "", "\n", written[:-1] + ",}"]
                    )
                ),
            )
        case _:
            return Call(
                draw(st.sampled_from(["", "no_such_tool", "read_file ", "READ_FILE", "a" * 300, "../x", "é\x00"])), "{}"
            )
    return Call(name, json.dumps(value))


def messages() -> st.SearchStrategy[Calls]:
    """Messages of one to six calls."""
    return st.lists(calls(), min_size=1, max_size=6).map(lambda some: Calls(tuple(some)))
