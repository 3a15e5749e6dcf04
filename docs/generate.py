"""Writes the pages of `docs/` that are made from the code: `settings.md` and `errors.md`.

`python docs/generate.py` writes them, `--check` writes nothing and fails where one is out of date; a page's name limits
either to that page. Settings come from the fields of `app/settings.py`; errors from the source of the whole of `app/`,
since many codes are given where an error is raised.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import AliasChoices, BaseModel
from pydantic.fields import FieldInfo

from app.settings import ModelSettings, PriceSettings, ProviderSettings, Settings

DOCS = Path(__file__).resolve().parent
APP = DOCS.parent / "app"
ROOT_ERROR = "PalimpsestError"

SETTINGS_HEAD = """\
# Settings

Read from the environment and from a `.env` file in the working directory; the environment wins. An empty value counts
as unset. Written by `make docs` from `app/settings.py`; change the sentences there.
"""

ERRORS_HEAD = """\
# Errors

An error's answer is an RFC 9457 problem document, `application/problem+json`, whose `code` is stable: programs look at
the code, people read `detail`. A failed run carries the same document in the session's `error`. `tool_error` is for
the model, as the result of its call, and no client sees it as an answer. Written by `make docs` from the source; change
titles and codes there.
"""


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table; a `|` within a cell is escaped."""
    lines = [list(head)]
    lines.append(["---"] * len(lines[0]))
    lines += [[cell.replace("|", "\\|") for cell in row] for row in rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


# --- settings.md ---


def variable(name: str, field: FieldInfo) -> str:
    """The environment variable that a field of `Settings` is read from."""
    alias = field.validation_alias
    if isinstance(alias, AliasChoices):
        return str(alias.choices[0])
    return alias if isinstance(alias, str) else f"{Settings.model_config['env_prefix']}{name.upper()}"


def bounds(schema: Mapping[str, Any]) -> str:
    """A number's limits in words, with a leading space; empty where it has none."""
    low, above, high = (schema.get(key) for key in ("minimum", "exclusiveMinimum", "maximum"))
    if low is not None and high is not None:
        return f" {low} to {high}"
    if low is not None:
        return f" ≥ {low}"
    return f" > {above}" if above is not None else ""


def kind(schema: Mapping[str, Any]) -> str:
    """What may be written as a value, from the field's JSON Schema."""
    if "anyOf" in schema:
        return " or ".join(kind(option) for option in schema["anyOf"] if option.get("type") != "null")
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if schema.get("format") in ("path", "password"):
        return {"path": "path", "password": "secret"}[schema["format"]]
    if schema.get("type") == "array":
        return "list, comma-separated"
    names = {"string": "text", "integer": "integer", "number": "number", "boolean": "true or false"}
    return names.get(schema.get("type", ""), "JSON object") + bounds(schema)


def default(schema: Mapping[str, Any]) -> str:
    value = schema.get("default")
    return "" if value is None or value in ([], {}) else f"`{value}`"


def meaning(field: FieldInfo) -> str:
    """The field's sentence, with other fields named as the variables that the reader sets."""
    text = field.description or ""
    for name, other in Settings.model_fields.items():
        text = text.replace(f"`{name}`", f"`{variable(name, other)}`")
    return text


def settings_rows() -> Iterator[list[str]]:
    properties = Settings.model_json_schema(by_alias=False)["properties"]
    for name, field in Settings.model_fields.items():
        schema = properties[name]
        yield [f"`{variable(name, field)}`", kind(schema), default(schema), meaning(field)]


def object_section(model: type[BaseModel], title: str) -> str:
    """The fields of an object that a JSON setting holds."""
    schema = model.model_json_schema()
    required = schema.get("required", [])
    rows = [
        [f"`{name}`", "[prices](#prices)" if name == "prices" else kind(field), "yes" if name in required else ""]
        for name, field in schema["properties"].items()
    ]
    return f"\n## {title}\n\n{' '.join((model.__doc__ or '').split())}\n\n{table(('Field', 'Type', 'Required'), rows)}"


def settings_page() -> str:
    return (
        SETTINGS_HEAD
        + "\n"
        + table(("Variable", "Type", "Default", "Meaning"), settings_rows())
        + object_section(ProviderSettings, "An entry of `PALIMPSEST_PROVIDERS`")
        + object_section(ModelSettings, "An entry of `PALIMPSEST_MODELS`")
        + object_section(PriceSettings, "Prices")
    )


# --- errors.md ---


@dataclass(frozen=True, order=True, slots=True)
class ErrorCode:
    """One line of the list: a code and the class that carries it."""

    status: int
    code: str
    title: str
    error: str


def parse_sources(root: Path) -> list[ast.Module]:
    return [ast.parse(path.read_text("utf-8"), str(path)) for path in sorted(root.rglob("*.py"))]


def _classes(trees: Iterable[ast.Module]) -> Iterator[ast.ClassDef]:
    return (node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef))


def _constants(node: ast.ClassDef) -> dict[str, Any]:
    """Names that a class body sets to a plain constant."""
    found: dict[str, Any] = {}
    for line in node.body:
        if isinstance(line, ast.Assign | ast.AnnAssign) and isinstance(line.value, ast.Constant):
            targets = line.targets if isinstance(line, ast.Assign) else [line.target]
            found |= {_name(target): line.value.value for target in targets}
    return found


def _name(node: ast.expr) -> str:
    """`C` of both `C` and `module.C`."""
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def error_classes(trees: Iterable[ast.Module]) -> dict[str, ErrorCode]:
    """Every class that descends from the root error, by name, with what it inherits filled in."""
    classes = {node.name: node for node in _classes(trees)}
    known: dict[str, ErrorCode] = {}

    def resolve(name: str) -> ErrorCode | None:
        if name in known or name not in classes:
            return known.get(name)
        # A class may bear the name of a base from elsewhere: `class Server(uvicorn.Server)`.
        parents = (resolve(_name(base)) for base in classes[name].bases if _name(base) != name)
        parent = next((p for p in parents if p is not None), None)
        if name == ROOT_ERROR:
            parent = ErrorCode(0, "", "", name)
        if parent is not None:
            own = {key: value for key, value in _constants(classes[name]).items() if key in ("status", "code", "title")}
            known[name] = replace(parent, error=name, **own)
        return known.get(name)

    for name in classes:
        resolve(name)
    return known


def raised_codes(trees: Iterable[ast.Module], classes: Mapping[str, ErrorCode]) -> Iterator[ErrorCode]:
    """Codes given as `code="…"` where an error is made; both sides of `code="a" if x else "b"` count."""
    for call in (node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call)):
        error = classes.get(_name(call.func))
        given = next((keyword.value for keyword in call.keywords if keyword.arg == "code"), None)
        if error is not None and given is not None:
            yield from (replace(error, code=code) for code in _texts(given))


def _texts(node: ast.expr) -> list[str]:
    if isinstance(node, ast.IfExp):
        return _texts(node.body) + _texts(node.orelse)
    return [node.value] if isinstance(node, ast.Constant) and isinstance(node.value, str) else []


def error_codes(root: Path) -> list[ErrorCode]:
    """All codes that the source under `root` can answer with, sorted by status and code."""
    trees = parse_sources(root)
    classes = error_classes(trees)
    return sorted({*classes.values(), *raised_codes(trees, classes)})


def errors_page() -> str:
    rows = [[str(e.status), f"`{e.code}`", e.title, f"`{e.error}`"] for e in error_codes(APP)]
    return f"{ERRORS_HEAD}\n{table(('Status', 'Code', 'Title', 'Class'), rows)}"


PAGES: Mapping[str, Callable[[], str]] = {"settings": settings_page, "errors": errors_page}


def outdated(names: Iterable[str], folder: Path) -> Iterator[tuple[Path, str]]:
    """The pages whose file is absent or differs, each with the text that it should have."""
    for name in names:
        path, text = folder / f"{name}.md", PAGES[name]()
        if not path.exists() or path.read_text("utf-8") != text:
            yield path, text


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit status: 1 where `--check` found a page out of date."""
    parser = argparse.ArgumentParser(description="Write the generated pages of docs/.")
    parser.add_argument("page", nargs="*", help=f"{' or '.join(PAGES)}; all without")
    parser.add_argument("--check", action="store_true", help="write nothing, fail where a page is out of date")
    parser.add_argument("--out", type=Path, default=DOCS, help="folder of the pages")
    options = parser.parse_args(arguments)
    if unknown := set(options.page) - set(PAGES):
        parser.error(f"no such page: {', '.join(sorted(unknown))}")
    stale = list(outdated(options.page or PAGES, options.out))
    for path, text in stale:
        if options.check:
            sys.stderr.write(f"{path.name} is out of date; run: make docs\n")
        else:
            path.write_text(text, "utf-8")
    return int(options.check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
