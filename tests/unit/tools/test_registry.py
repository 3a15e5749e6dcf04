from __future__ import annotations

import json
from typing import Any, ClassVar

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import ToolError
from app.tools import ToolRegistry, default_tools
from app.tools.base import Arguments, ToolContext, ToolOutcome
from app.tools.files import ReadFileArguments
from app.tools.memory import PlanEntry
from app.tools.registry import load_object, short_form

registry = ToolRegistry(default_tools())
VALID: dict[str, dict[str, Any]] = {
    "execute_command": {"command": "ls", "timeout_s": 1.5},
    "command_output": {"command_id": "c", "wait_s": 1.5, "since": 0},
    "stop_command": {"command_id": "c"},
    "read_file": {"path": "a", "start_line": 1, "end_line": 2},
    "write_file": {"path": "a", "content": ""},
    "edit_file": {"path": "a", "old_text": "b", "new_text": ""},
    "list_directory": {},
    "search_files": {"pattern": "x", "path": ".", "glob": "*.py"},
    "recall": {"call_id": "c", "start_line": 1, "end_line": 2, "grep": "x"},
    "history_search": {"query": "x"},
    "memory_read": {},
    "memory_write": {"content": "x"},
    "memory_search": {"query": "x"},
    "update_plan": {"items": [{"text": "x", "status": "in_progress"}, {"text": "y"}]},
    "delegate": {"task": "x", "context": "y", "tools": ["read_file"], "model": "p/m", "max_steps": 3},
}
"""Valid arguments of each tool, in the order in which models see the tools."""
NAMES = tuple(VALID)


def refusal(name: str, text: str) -> str:
    with pytest.raises(ToolError) as caught:
        registry.parse(name, text)
    caught.value.detail.encode()
    return caught.value.detail


def walk(node: Any) -> list[dict[str, Any]]:
    """Every schema inside a schema, including itself."""
    if isinstance(node, list):
        return [found for item in node for found in walk(item)]
    if not isinstance(node, dict):
        return []
    inner = [*node.get("properties", {}).values(), node.get("items"), node.get("anyOf")]
    return [node, *(found for item in inner for found in walk(item))]


class TestSchemas:
    def test_names_and_order(self) -> None:
        assert registry.names() == NAMES
        assert [schema.name for schema in registry.schemas()] == list(NAMES)
        assert [schema.name for schema in registry.schemas(["update_plan", "unknown", "read_file"])] == [
            "read_file",
            "update_plan",
        ]
        assert registry.schemas([]) == []

    @pytest.mark.parametrize("schema", registry.schemas(), ids=lambda schema: schema.name)
    def test_schemas_are_plain(self, schema: Any) -> None:
        jsonschema.Draft202012Validator.check_schema(schema.parameters)
        text = json.dumps(schema.parameters)
        assert "$ref" not in text
        assert "$defs" not in text
        for node in walk(schema.parameters):
            assert "title" not in node
            assert "anyOf" not in node
            assert node["type"] in ("object", "string", "integer", "number", "boolean", "array")
            if node["type"] == "object":
                assert node["additionalProperties"] is False
        for field in schema.parameters["properties"].values():
            assert field["description"]

    @pytest.mark.parametrize("name", NAMES)
    def test_what_the_schema_allows_is_parsed(self, name: str) -> None:
        (schema,) = registry.schemas([name])
        jsonschema.validate(VALID[name], schema.parameters)
        tool, args = registry.parse(name, json.dumps(VALID[name]))
        assert tool is registry.get(name)
        assert args.model_dump(exclude_unset=True, mode="json") == VALID[name]

    def test_a_field_called_title_stays(self) -> None:
        class Titled(Arguments):
            title: str
            inner: list[dict[str, int]] | None = None
            either: int | str = 1
            entry: PlanEntry | None = None

        class Tool:
            name: ClassVar[str] = "titled"
            description: ClassVar[str] = "x"
            parallel_safe: ClassVar[bool] = True
            arguments: type[Arguments] = Titled

            async def run(self, args: Any, context: ToolContext) -> ToolOutcome:
                return ToolOutcome()

        (schema,) = ToolRegistry([Tool()]).schemas()
        assert schema.parameters["properties"]["title"] == {"type": "string"}
        assert short_form(schema) == (
            "titled{title: string, inner?: [{}, …], either?: any, "
            'entry?: {text: string, status?: "pending" | "in_progress" | "completed"}}'
        )

    def test_short_forms(self) -> None:
        forms = [short_form(schema) for schema in registry.schemas()]
        assert forms == [
            "execute_command{command: string, timeout_s?: number, background?: boolean}",
            "command_output{command_id: string, wait_s?: number, since?: integer}",
            "stop_command{command_id: string}",
            "read_file{path: string, start_line?: integer, end_line?: integer}",
            "write_file{path: string, content: string}",
            "edit_file{path: string, old_text: string, new_text: string}",
            "list_directory{path?: string}",
            "search_files{pattern: string, path?: string, glob?: string}",
            "recall{call_id: string, start_line?: integer, end_line?: integer, grep?: string}",
            "history_search{query: string}",
            "memory_read{}",
            "memory_write{content: string}",
            "memory_search{query: string}",
            'update_plan{items: [{text: string, status?: "pending" | "in_progress" | "completed"}, …]}',
            "delegate{task: string, context?: string, tools?: [string, …], model?: string, max_steps?: integer}",
        ]

    def test_parallel_safety(self) -> None:
        safe = [name for name in NAMES if registry.get(name).parallel_safe]
        assert safe == [
            "command_output",
            "read_file",
            "list_directory",
            "search_files",
            "recall",
            "history_search",
            "memory_read",
            "memory_search",
            "delegate",
        ]


class TestParse:
    def test_an_unknown_tool_lists_the_tools(self) -> None:
        assert refusal("run", "{}") == f"There is no tool 'run'. The tools are: {', '.join(NAMES)}."
        assert "\ud800" not in refusal("\ud800" * 500, "{}")

    def test_a_tool_not_allowed_for_the_session_is_unknown(self) -> None:
        with pytest.raises(ToolError, match=r"no tool 'read_file'. The tools are: update_plan\."):
            registry.parse("read_file", '{"path": "a"}', allowed=["update_plan"])
        assert registry.parse("read_file", '{"path": "a"}', allowed=["read_file"])

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("{", "are not valid JSON ("),
            ('{"path": "a"} trailing', "are not valid JSON ("),
            ("[1]", "are a JSON array, not an object"),
            ('"x"', "are a JSON string, not an object"),
            ("3", "are a JSON number, not an object"),
            ("true", "are a JSON boolean, not an object"),
            ("null", "are a JSON null, not an object"),
            ("9" * 5000, "are not JSON that can be read"),
            ("[" * 9_000, "are not JSON that can be read"),
            ("[" + "{}," * 20_000 + "{}]", "have more than 10,000 values"),
        ],
    )
    def test_arguments_that_are_not_an_object(self, text: str, said: str) -> None:
        detail = refusal("read_file", text)
        assert detail.startswith("The arguments of read_file ")
        assert said in detail
        assert detail.endswith("Call it as read_file{path: string, start_line?: integer, end_line?: integer}.")

    def test_each_wrong_field_is_named(self) -> None:
        detail = refusal("read_file", '{"start_line": 0, "end_line": "x", "file": "a"}')
        assert detail.startswith("Invalid arguments of read_file: path is missing; ")
        assert "start_line: input should be greater than or equal to 1" in detail
        assert "end_line: input should be a valid integer" in detail
        assert "'file' is not an argument" in detail
        assert detail.endswith("Call it as read_file{path: string, start_line?: integer, end_line?: integer}.")

    def test_nested_fields_are_named_by_their_path(self) -> None:
        detail = refusal("update_plan", '{"items": [{"text": "a"}, {"text": "b", "status": "done"}]}')
        assert "items.1.status: input should be 'pending', 'in_progress' or 'completed'" in detail

    def test_invalid_paths_are_explained(self) -> None:
        assert "path: a path cannot contain NUL" in refusal("read_file", '{"path": "a\\u0000"}')
        assert "path: a path cannot contain NUL" in refusal("read_file", '{"path": "a\\ud800"}')

    def test_very_many_errors_are_cut(self) -> None:
        names = {f"x{number}": 1 for number in range(500)}
        detail = refusal("list_directory", json.dumps(names))
        assert "; and 490 more." in detail
        assert len(detail) < 1000

    def test_a_hostile_field_name_stays_short_and_clean(self) -> None:
        detail = refusal("list_directory", json.dumps({"\ud800\x00" + "y" * 10_000: 1}))
        assert len(detail) < 400

    def test_empty_text_means_no_arguments(self) -> None:
        _, args = registry.parse("list_directory", " ")
        assert args.model_dump() == {"path": "."}

    def test_null_means_an_omitted_field(self) -> None:
        _, args = registry.parse("read_file", '{"path": "a", "start_line": null}')
        assert args == ReadFileArguments(path="a")

    def test_slips_in_strings_are_tolerated(self) -> None:
        _, args = registry.parse("write_file", '{"path": "a", "content": "one\ntwo\t\\ud83d"}')
        assert args.model_dump()["content"] == "one\ntwo\t\ufffd"

    @given(st.text(max_size=40) | st.from_regex(r"\{\"(path|items|x)\": ?[\[\]{}\"0-9a-z,.-]{0,20}\}?", fullmatch=True))
    def test_any_text_is_arguments_or_a_tool_error(self, text: str) -> None:
        for name in NAMES:
            try:
                _, args = registry.parse(name, text)
            except ToolError as exc:
                exc.detail.encode()
            else:
                assert isinstance(args, registry.get(name).arguments)

    @given(st.dictionaries(st.text(), st.integers(-(2**63), 2**63 - 1) | st.text() | st.none() | st.lists(st.text())))
    def test_objects_are_loaded_unchanged(self, value: dict[str, Any]) -> None:
        assert load_object(json.dumps(value)) == value
