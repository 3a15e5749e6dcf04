"""The generated pages match the code, and outdated pages are detected."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.agent.changes import RoundCode
from app.agent.compaction.summarizer import MAX_CALLS
from app.api.problems import CATALOG
from app.errors import PalimpsestError
from app.settings import ProviderSettings, Settings
from docs.generate import APP, DOCS
from docs.generate.__main__ import PAGES, main
from docs.generate.architecture_page import described_parts, imports_of_parts, without_detours
from docs.generate.error_codes import ErrorCode, error_codes, parse_sources, unread_codes
from docs.generate.errors_page import RETRY_CODES, ROUND_CODES, RUN_CODES, check_meanings, errors_page, sorted_out
from docs.generate.markdown import table
from docs.generate.settings_page import bounds, kind, settings_page

MORE_ERRORS = """
from app import errors
from app.errors import NotFoundError, PalimpsestError

class PalimpsestError(Exception):
    status: int = 500
    code = "internal_error"
    title = "Internal error"

class NotFoundError(PalimpsestError):
    status = 404
    code, _unused = "tuple targets are no constants", None
    code = "not_found"
    title = "Not found"

class GoneError(NotFoundError):
    status: int = 410

class Unrelated(ValueError):
    code = "unrelated"

def fail(which, name):
    if which == 1:
        raise NotFoundError("x", code="session_not_found")
    if which == 2:
        raise errors.GoneError("x", code="call_gone" if name else "file_gone")
    if which == 3:
        raise Unrelated(code="not_ours")
    raise PalimpsestError("x", code=name)
"""


def all_errors(root: type[PalimpsestError] = PalimpsestError) -> set[type[PalimpsestError]]:
    return {root}.union(*(all_errors(child) for child in root.__subclasses__()))


@pytest.fixture(scope="module", autouse=True)
def parsed() -> None:
    """Has one worker run all tests here: to parse the sources takes seconds."""
    parse_sources(APP)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "room").mkdir()
    (tmp_path / "room" / "errors.py").write_text(MORE_ERRORS)
    return tmp_path


@pytest.mark.parametrize("page", PAGES)
def test_the_committed_pages_are_up_to_date(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([page, "--check"]) == 0, capsys.readouterr().err


def test_an_outdated_page_is_named_and_unchanged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "errors.md").write_text("old")
    assert main(["--check", "--out", str(tmp_path)]) == 1
    complaint = capsys.readouterr().err
    assert "errors.md is out of date" in complaint
    assert "settings.md is out of date" in complaint
    assert (tmp_path / "errors.md").read_text() == "old"
    assert not (tmp_path / "settings.md").exists()


def test_generating_updates_all_pages(tmp_path: Path) -> None:
    assert main(["--out", str(tmp_path)]) == 0
    assert main(["--check", "--out", str(tmp_path)]) == 0
    assert {path.name for path in tmp_path.iterdir()} == {f"{page}.md" for page in PAGES}


def test_generating_one_page_leaves_the_others_unchanged(tmp_path: Path) -> None:
    assert main(["errors", "--out", str(tmp_path)]) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["errors.md"]


def test_an_unknown_page_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        main(["nonsense"])
    assert refused.value.code == 2
    assert "no such page: nonsense" in capsys.readouterr().err


def test_an_import_that_a_longer_way_implies_is_not_drawn() -> None:
    imports = {"cli": {"api", "db"}, "api": {"db"}, "db": set[str](), "evals": {"db"}}
    assert without_detours(imports) == {"cli": {"api"}, "api": {"db"}, "db": set(), "evals": {"db"}}


def test_every_part_is_drawn_and_described() -> None:
    described = dict(described_parts())
    assert {"api", "runtime", "sandbox", "evals"} <= imports_of_parts().keys()
    assert {"app/runtime/owner/", "app/settings.py", "evals/"} <= described.keys()
    assert [name for name, sentence in described.items() if not sentence] == []


def test_each_setting_has_a_row_with_a_description() -> None:
    lines = [line for line in settings_page().split("\n## ")[0].splitlines() if line.startswith("| `")]
    assert len(lines) == len(Settings.model_fields)
    for line in lines:
        assert line.removesuffix(" |").endswith("."), line


@pytest.mark.parametrize(
    ("variable", "type_", "default"),
    [
        ("PALIMPSEST_PORT", "integer 0 to 65535", "`8000`"),
        ("PALIMPSEST_DATA_DIR", "path", "`~/.local/share/palimpsest`"),
        ("PALIMPSEST_API_KEYS", "list, comma-separated", ""),
        ("PALIMPSEST_SANDBOX_NETWORK", "`on`, `off` or JSON object", ""),
        ("PALIMPSEST_SANDBOX_MEMORY_MB", "integer ≥ 64", "`2048`"),
        ("PALIMPSEST_COMPACTION", "JSON object or text", "`reactive`"),
        ("OPENAI_API_KEY", "secret", ""),
        ("DOCKER_HOST", "text", ""),
    ],
)
def test_a_setting_is_shown_by_its_variable(variable: str, type_: str, default: str) -> None:
    assert f"| `{variable}` | {type_} | {default} |" in settings_page()


def test_descriptions_name_other_settings_by_their_variable() -> None:
    assert "any address except loopback needs `PALIMPSEST_API_KEYS`." in settings_page()
    assert "`api_keys`" not in settings_page()


def test_objects_in_settings_are_described_field_by_field() -> None:
    section = settings_page().split("## An entry of `PALIMPSEST_PROVIDERS`")[1].split("\n## ")[0]
    for name, field in ProviderSettings.model_fields.items():
        (line,) = (line for line in section.splitlines() if line.startswith(f"| `{name}` |"))
        assert line.endswith("| yes |") == field.is_required()


def test_every_error_class_is_listed_with_its_status_and_code() -> None:
    listed = {(entry.error, entry.code, entry.status, entry.title) for entry in error_codes(APP)}
    ours = [error for error in all_errors() if error.__module__.startswith("app.")]
    assert len(ours) > 15
    assert {(error.__name__, error.code, error.status, error.title) for error in ours} <= listed


def test_codes_are_found_where_errors_are_created(source: Path) -> None:
    assert error_codes(source) == [
        ErrorCode(404, "not_found", "Not found", "NotFoundError"),
        ErrorCode(404, "session_not_found", "Not found", "NotFoundError"),
        ErrorCode(410, "call_gone", "Not found", "GoneError"),
        ErrorCode(410, "file_gone", "Not found", "GoneError"),
        ErrorCode(410, "not_found", "Not found", "GoneError"),
        ErrorCode(500, "internal_error", "Internal error", "PalimpsestError"),
    ]


INDIRECT = """
_NAMES = {1: "by_name", 2: "by_other_name"}

def limit(code, value):
    raise NotFoundError("x", code=code)

limit("first", 1)
limit(value=2, code="second")

def _code(status):
    if status is None:
        return "none"
    return _NAMES.get(status, "low" if status < 9 else "high")

async def answer(status):
    raise NotFoundError("x", code=_code(status))
"""


def test_codes_are_found_behind_a_parameter_a_function_and_a_dictionary(source: Path) -> None:
    (source / "room" / "indirect.py").write_text(INDIRECT)
    codes = {entry.code for entry in error_codes(source) if entry.error == "NotFoundError"}
    assert codes == {
        *("not_found", "session_not_found", "first", "second"),
        *("none", "by_name", "by_other_name", "low", "high"),
    }


def test_a_code_that_cannot_be_determined_is_reported(source: Path) -> None:
    more = "\nlimit(other(), 3)\n\ndef plain(text):\n    raise NotFoundError(text, code=text.lower())\n"
    (source / "room" / "indirect.py").write_text(INDIRECT + more)
    unread = [(made.place, made.entry) for made in unread_codes(source)]
    assert unread == [("room/errors.py", None), ("room/indirect.py", None), ("room/indirect.py", None)]


def test_all_codes_are_determined_except_those_from_a_server() -> None:
    assert [made.place for made in unread_codes(APP)] == ["cli/client.py"]


def test_every_code_is_in_a_section_or_never_visible() -> None:
    codes = sorted_out(APP)
    listed = {entry.code for entry in codes.answers + codes.commands} | codes.runs
    assert {entry.code for entry in error_codes(APP)} - listed == {
        "cannot_start",  # of classes that are only created with another code
        "command_failed",
        "limit_reached",
        "context_overflow",  # of a message, and explained in the page
        "tool_error",  # for the model
    }


def test_response_codes_include_no_codes_of_runs_or_commands() -> None:
    codes = sorted_out(APP)
    answers = {entry.code for entry in codes.answers}
    assert set(CATALOG) <= answers
    assert not {code for code in answers if code.startswith("provider_")}
    assert not answers & {"short_id", "ambiguous_id", "bad_url", "no_server", "port_in_use", "recovery_limit"}
    assert {code for code in answers if code.startswith("max_")} == {"max_tokens", "max_cost_usd"}, "of a session alone"


def test_every_code_of_a_run_is_explained() -> None:
    assert sorted_out(APP).runs == {*RUN_CODES, *RETRY_CODES}
    assert not RUN_CODES.keys() & RETRY_CODES.keys()
    section = errors_page().split("## Runs\n")[1].split("\n## ")[0]
    for code in ("max_steps", "recovery_limit", "output_limit", "context_too_large", "provider_rate_limited"):
        assert f"| `{code}` |" in section


def test_every_code_of_a_round_is_explained() -> None:
    assert list(ROUND_CODES) == list(get_args(RoundCode))
    section = errors_page().split("## Compaction rounds\n")[1].split("\n## ")[0]
    for code in get_args(RoundCode):
        assert f"| `{code}` |" in section
    assert f"limit of {MAX_CALLS} model calls" in ROUND_CODES["too_many_calls"]


def test_every_code_of_a_round_is_used() -> None:
    """The types check which codes may be used; this checks that each is used."""
    places = [*APP.glob("agent/**/*.py"), APP / "context" / "summary.py"]
    said = {text for place in places for text in _spoken(ast.parse(place.read_text("utf-8")))}
    assert set(get_args(RoundCode)) <= said


def _spoken(node: ast.AST) -> Iterator[str]:
    """The texts in a source, except those in types."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Constant) and isinstance(child.value, str):
            yield child.value
        elif not isinstance(child, ast.Subscript):
            yield from _spoken(child)


def test_codes_in_types_do_not_count_as_used() -> None:
    assert list(_spoken(ast.parse("A = Literal['x', B]\nraise F('y', z)"))) == ["y"]


def test_commands_have_an_exit_status_and_no_http_status() -> None:
    section = errors_page().split("## Command line\n")[1]
    assert "| `short_id` | 1 | " in section
    assert "| `bad_url` | 2 | " in section
    assert "| `invalid_settings` | 1 or 2 | " in section
    assert " 500 " not in section


def test_a_code_without_a_meaning_and_a_meaning_without_a_code_are_refused() -> None:
    with pytest.raises(ValueError, match="CODES and the source differ in gone, new"):
        check_meanings("CODES", ["gone", "kept"], {"kept", "new"})


def test_error_classes_are_found_anywhere(source: Path) -> None:
    (source / "elsewhere.py").write_text("class Lost(room.errors.GoneError):\n    code: str = 'lost'\n")
    assert ErrorCode(410, "lost", "Not found", "Lost") in error_codes(source)


def test_the_paths_of_the_sources_exist() -> None:
    assert (APP / "errors.py").is_file()
    assert (DOCS / "generate" / "__init__.py").is_file()


LINE = st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]), max_size=8)


@given(st.lists(st.tuples(LINE, LINE), max_size=4))
def test_a_pipe_in_a_cell_is_escaped(rows: list[tuple[str, str]]) -> None:
    lines = table(("a", "b"), rows).removesuffix("\n").split("\n")
    assert len(lines) == 2 + len(rows)
    for line, row in zip(lines[2:], rows, strict=True):
        assert line.count("|") - line.count("\\|") == 3
        assert line.replace("\\|", "|") == f"| {row[0]} | {row[1]} |"


@pytest.mark.parametrize(
    ("schema", "shown"),
    [
        ({"type": "boolean"}, "true or false"),
        ({"type": "integer", "minimum": 1}, "integer ≥ 1"),
        ({"type": "number", "exclusiveMinimum": 0}, "number > 0"),
        ({"anyOf": [{"type": "string", "format": "path"}, {"type": "null"}]}, "path"),
        ({"type": "object"}, "JSON object"),
    ],
)
def test_types_have_readable_names(schema: dict[str, object], shown: str) -> None:
    assert kind(schema) == shown


@given(st.integers(), st.integers())
def test_bounds_show_both_limits(low: int, high: int) -> None:
    assert bounds({"minimum": low, "maximum": high}) == f" {low} to {high}"
