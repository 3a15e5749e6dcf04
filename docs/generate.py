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

Codes are stable: programs look at the code, people read `detail`. Written by `make docs` from the source; change titles
and codes there.

- [Of an answer](#of-an-answer): what a request can be answered with.
- [Of a run](#of-a-run): what stands in a session's `error`.
- [Of the command line](#of-the-command-line): what a command ends with.

## Of an answer

The answer is an RFC 9457 problem document, `application/problem+json`.
"""

RUN_HEAD = """
## Of a run

A run that failed, reached a limit or was given up leaves the same kind of document in the session's `error` and in the
`error` of its last event, `session.idle`. What the provider did stands there after the last attempt; each attempt
before it is a `step.retrying` event with the code. A message's own `error` is `context_overflow` where the provider
found the request too long.
"""

CLI_HEAD = """
## Of the command line

A command that fails says one sentence with a code in brackets on standard error. What the server refuses keeps the
code of its answer, or is `http_NNN` where the answer of status NNN is no problem document, and ends with status 1; so
does a start with settings that a request could not have either, such as `invalid_compaction`. Other exit statuses: 0
completed; 1 the run failed or reached a limit; 130 the run was cancelled, or Ctrl-C; 141 nobody reads the output on.
"""

FRONT = ("cli/", "evaluation/histories.py", "server.py")
"""Where errors are made that end a command or keep the server from starting; no request is answered with them."""

RUN_PLACES = ("agent/", "llm/", "runtime/recovery.py", "runtime/session.py")
"""Where a run comes to its end: what is made here ends it, unless it is one of `NOT_OF_A_RUN`."""

NOT_OF_A_RUN = ("ToolError", "ContextOverflowError")
"""Errors that are caught in these places: a result for the model, and what becomes `context_too_large`."""

OF_RUNS_ALONE = ("ProviderError", "LimitReached", "ToolError")
"""Errors, with all that descend from them, that no request is answered with, since no request waits for a step."""

FAILED, LIMITED, PARKED = "failed", "limit_reached", "interrupted"

RUN_CODES: Mapping[str, tuple[str, str]] = {
    "max_steps": (LIMITED, "The run has made as many steps as `limits.max_steps` allows."),
    "max_seconds": (LIMITED, "The run has taken as long as `limits.max_seconds` allows."),
    "max_tokens": (LIMITED, "The session has used as many tokens as `limits.max_tokens` allows."),
    "max_cost_usd": (LIMITED, "The session has cost as much as `limits.max_cost_usd` allows."),
    "context_too_large": (FAILED, "Nothing is left that makes the context smaller; `part` names what is too large."),
    "output_limit": (FAILED, "The answer was cut off at the model's output limit twice in a row."),
    "refusal": (FAILED, "The model refused to answer."),
    "content_filter": (FAILED, "The provider's content filter ended the answer."),
    "unknown_model": (FAILED, "The session's model or its provider is not configured any more."),
    "missing_api_key": (FAILED, "The key of the model's provider is not configured any more."),
    "provider_auth": (FAILED, "The provider refused the key (401, 403)."),
    "provider_bad_request": (FAILED, "The provider refused the request (another 4xx)."),
    "provider_bad_response": (FAILED, "The provider sent what cannot be read, or more than an answer may be."),
    "provider_error": (FAILED, "The provider's stream ended before its answer did."),
    "provider_not_found": (FAILED, "The provider does not know the model, or its base URL is wrong (404)."),
    "provider_overloaded": (FAILED, "The provider has too much to do (503, 529)."),
    "provider_rate_limited": (FAILED, "The provider's rate limit, or its quota, is used up (429)."),
    "provider_server_error": (FAILED, "The provider failed (another 5xx, or an error inside its stream)."),
    "provider_stream_ended": (FAILED, "The connection ended in the middle of the answer."),
    "provider_timeout": (FAILED, "The provider sent nothing for `PALIMPSEST_PROVIDER_IDLE_TIMEOUT_S`, or said 408."),
    "provider_unreachable": (FAILED, "The provider cannot be connected to, or the connection broke."),
    "internal_error": (f"{FAILED}, {PARKED}", "A fault of the service; its log has the details."),
    "recovery_limit": (PARKED, "The server went down again and again in this run; resume it to try once more."),
}
"""What each code of a run means, with the outcomes that it comes with."""

COMMAND_CODES: Mapping[str, str] = {
    "ambiguous_id": "Several sessions have an id that begins so; give more of it.",
    "bad_url": "What `--server` or `PALIMPSEST_URL` says is no URL of a server.",
    "cannot_listen": "The server cannot listen on this address.",
    "connection_lost": "The server was there, and the connection to it broke off.",
    "data_dir_in_use": "Another server, or a command with one of its own, uses the data directory.",
    "invalid_history": "A history given to `palimpsest eval` cannot be read as one.",
    "invalid_settings": "A variable or an option has a value that cannot be used; the sentence names it.",
    "key_required": "The server would be open to others without a key.",
    "no_server": "No server answers where one was looked for.",
    "no_text": "There is no task or message, neither as an argument nor on standard input.",
    "not_palimpsest": "What answers at this URL is another program.",
    "not_written": "The files of a session cannot be written where they shall go.",
    "port_in_use": "Another program listens on the port.",
    "same_name": "Two histories given to `palimpsest eval` have one name, so its table could not tell them apart.",
    "session_deleted": "The session was deleted elsewhere while the command followed it.",
    "session_not_found": "No session has an id that begins so.",
    "short_id": "The beginning of an id is too short to look for.",
    "storage_unavailable": "The data directory or the database cannot be used.",
    "unavailable": "The server is starting or stopping.",
    "unknown_policy": "`palimpsest eval` was asked to compare a policy that there is not.",
}
"""What each code of a command means."""


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
    exit_status: int = 1


@dataclass(frozen=True, slots=True)
class Source:
    """A file of the program; `place` is its path below the program's folder."""

    place: str
    tree: ast.Module


@dataclass(frozen=True, slots=True)
class Made:
    """A code with which an error is made, and the place; `entry` is None where the code cannot be read off the source,
    and `line` is where."""

    place: str
    line: int
    entry: ErrorCode | None


def parse_sources(root: Path) -> list[Source]:
    paths = sorted(root.rglob("*.py"))
    return [Source(p.relative_to(root).as_posix(), ast.parse(p.read_text("utf-8"), str(p))) for p in paths]


def _classes(sources: Iterable[Source]) -> Iterator[tuple[Source, ast.ClassDef]]:
    return ((s, node) for s in sources for node in ast.walk(s.tree) if isinstance(node, ast.ClassDef))


def _constants(body: Iterable[ast.stmt], known: Mapping[str, Any]) -> dict[str, Any]:
    """Names that statements set to a plain constant or a `known` name, one by one or `A, B = 1, 2`."""
    found: dict[str, Any] = {}
    for line in body:
        if not isinstance(line, ast.Assign | ast.AnnAssign) or line.value is None:
            continue
        for target in line.targets if isinstance(line, ast.Assign) else [line.target]:
            pairs = [(target, line.value)]
            if isinstance(target, ast.Tuple) and isinstance(line.value, ast.Tuple):
                pairs = list(zip(target.elts, line.value.elts, strict=True))
            for name, value in pairs:
                if isinstance(value, ast.Constant):
                    found[_name(name)] = value.value
                elif isinstance(value, ast.Name) and value.id in known:
                    found[_name(name)] = known[value.id]
    return found


def _name(node: ast.expr) -> str:
    """`C` of both `C` and `module.C`."""
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


INHERITED = ("status", "code", "title", "exit_status")


def error_classes(sources: Sequence[Source]) -> dict[str, ErrorCode]:
    """Every class that descends from the root error, by name, with what it inherits filled in."""
    classes = {node.name: node for _, node in _classes(sources)}
    values = {node.name: _constants(source.tree.body, {}) for source, node in _classes(sources)}
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
            constants = _constants(classes[name].body, values[name])
            own = {key: value for key, value in constants.items() if key in INHERITED}
            known[name] = replace(parent, error=name, **own)
        return known.get(name)

    for name in classes:
        resolve(name)
    return known


def descendants(sources: Iterable[Source], roots: Iterable[str]) -> set[str]:
    """The classes of these names and all below them."""
    bases = {node.name: {_name(base) for base in node.bases} for _, node in _classes(sources)}
    found = set(roots)
    while more := {name for name, above in bases.items() if above & found} - found:
        found |= more
    return found


def made_codes(sources: Iterable[Source], classes: Mapping[str, ErrorCode]) -> Iterator[Made]:
    """What errors are made with: `code="…"` where it is given, else the class's own."""
    for source in sources:
        for function, call in _calls(source.tree):
            error = classes.get(_name(call.func))
            if error is None:
                continue
            given = next((keyword.value for keyword in call.keywords if keyword.arg == "code"), None)
            codes = [error.code] if given is None else _texts(given, source.tree, function)
            entries = [replace(error, code=code) for code in codes] or [None]
            yield from (Made(source.place, call.lineno, entry) for entry in entries)


Function = ast.FunctionDef | ast.AsyncFunctionDef


def _calls(node: ast.AST, function: Function | None = None) -> Iterator[tuple[Function | None, ast.Call]]:
    """All calls below a node, each with the function that it stands in."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Call):
            yield function, child
        yield from _calls(child, child if isinstance(child, Function) else function)


def _texts(node: ast.expr, tree: ast.Module, function: Function | None) -> list[str]:
    """The texts that an expression may have; none where one of them cannot be read off the source.

    It sees through `"a" if x else "b"`, a parameter of the function around it, a function of the same file, and
    `NAMES.get(…, "a")` of a dictionary of the same file.
    """
    match node:
        case ast.Constant(value=str(text)):
            return [text]
        case ast.IfExp(body=first, orelse=second):
            return _all([_texts(first, tree, function), _texts(second, tree, function)])
        case ast.Name(id=name) if function is not None and name in (names := [a.arg for a in function.args.args]):
            calls = [call for _, call in _calls(tree) if _name(call.func) == function.name]
            return _all([_texts(_argument(call, names.index(name), name), tree, None) for call in calls])
        case ast.Call(func=ast.Name(id=name)):
            made = next((n for n in tree.body if isinstance(n, Function) and n.name == name), None)
            ends = [n.value for n in ast.walk(made) if isinstance(n, ast.Return) and n.value] if made else []
            return _all([_texts(end, tree, made) for end in ends])
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="get"), args=[_, other]):
            values = [v for line in tree.body if isinstance(line, ast.Assign) for v in _values(line, name)]
            return _all([_texts(value, tree, None) for value in [*values, other]])
    return []


def _all(found: list[list[str]]) -> list[str]:
    return sorted({text for texts in found for text in texts}) if all(found) else []


def _argument(call: ast.Call, index: int, name: str) -> ast.expr:
    """What a call gives for a parameter; a constant that is no text where it gives nothing."""
    named = next((keyword.value for keyword in call.keywords if keyword.arg == name), None)
    return named or (call.args[index] if index < len(call.args) else ast.Constant(None))


def _values(line: ast.Assign, name: str) -> list[ast.expr]:
    """The values of the dictionary that a line gives a name to."""
    return line.value.values if isinstance(line.value, ast.Dict) and _name(line.targets[0]) == name else []


def error_codes(root: Path) -> list[ErrorCode]:
    """All codes of all errors in the source under `root`, sorted by status and code."""
    sources = parse_sources(root)
    classes = error_classes(sources)
    made = {made.entry for made in made_codes(sources, classes) if made.entry is not None}
    return sorted({*classes.values(), *made})


def unread_codes(root: Path) -> list[Made]:
    """Errors whose code the source does not tell."""
    sources = parse_sources(root)
    return [made for made in made_codes(sources, error_classes(sources)) if made.entry is None]


@dataclass(frozen=True, slots=True)
class Codes:
    """The codes by who meets them; one may be of an answer and of a run."""

    answers: list[ErrorCode]
    runs: set[str]
    commands: list[ErrorCode]


def sorted_out(root: Path) -> Codes:
    """The codes in the source under `root`, by who meets them."""
    sources = parse_sources(root)
    classes = error_classes(sources)
    made = [(made.place, made.entry) for made in made_codes(sources, classes) if made.entry is not None]
    runs = {entry for place, entry in made if place.startswith(RUN_PLACES) and entry.error not in NOT_OF_A_RUN}
    commands = {entry for place, entry in made if place.startswith(FRONT)}
    elsewhere = {entry for place, entry in made if not place.startswith((*RUN_PLACES, *FRONT))}
    never = descendants(sources, OF_RUNS_ALONE) | {c.name for s, c in _classes(sources) if s.place.startswith(FRONT)}
    answers = {entry for entry in elsewhere | set(classes.values()) if entry.error not in never}
    return Codes(sorted(answers), {entry.code for entry in runs}, sorted(commands, key=lambda e: (e.code, e.error)))


def check_meanings(name: str, explained: Iterable[str], found: Iterable[str]) -> None:
    """Raises `ValueError` where a code has no meaning here, or a meaning no code."""
    if differing := set(explained) ^ set(found):
        raise ValueError(f"{name} and the source differ in {', '.join(sorted(differing))}")


def errors_page() -> str:
    codes = sorted_out(APP)
    check_meanings("RUN_CODES", RUN_CODES, codes.runs)
    check_meanings("COMMAND_CODES", COMMAND_CODES, {entry.code for entry in codes.commands})
    answers = [[str(e.status), f"`{e.code}`", e.title, f"`{e.error}`"] for e in codes.answers]
    runs = [[f"`{code}`", outcome, meaning] for code, (outcome, meaning) in RUN_CODES.items()]
    statuses = {code: sorted({str(e.exit_status) for e in codes.commands if e.code == code}) for code in COMMAND_CODES}
    commands = [[f"`{code}`", " or ".join(statuses[code]), meaning] for code, meaning in COMMAND_CODES.items()]
    return (
        f"{ERRORS_HEAD}\n{table(('Status', 'Code', 'Title', 'Class'), answers)}"
        f"{RUN_HEAD}\n{table(('Code', 'Outcome', 'Meaning'), runs)}"
        f"{CLI_HEAD}\n{table(('Code', 'Exit status', 'Meaning'), commands)}"
    )


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
