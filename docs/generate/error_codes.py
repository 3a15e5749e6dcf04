"""Finds all error codes in the source, and where errors are created with them."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

ROOT_ERROR = "PalimpsestError"

INHERITED = ("status", "code", "title", "exit_status")


@dataclass(frozen=True, order=True, slots=True)
class ErrorCode:
    """One row of the list: a code and its error class."""

    status: int
    code: str
    title: str
    error: str
    exit_status: int = 1


@dataclass(frozen=True, slots=True)
class Source:
    """A source file; `place` is its path below the source's root, `classes` are all classes in it."""

    place: str
    tree: ast.Module
    classes: tuple[ast.ClassDef, ...]


@dataclass(frozen=True, slots=True)
class Made:
    """An error created at a place in the source; `entry` is None if its code cannot be determined from the source."""

    place: str
    line: int
    entry: ErrorCode | None


@cache
def parse_sources(root: Path) -> tuple[Source, ...]:
    """All source files below a folder and of the evaluation tool next to it, parsed once."""
    evals = root.with_name("evals")
    files = [(path, path.relative_to(root).as_posix()) for path in sorted(root.rglob("*.py"))]
    files += [(path, path.relative_to(evals.parent).as_posix()) for path in sorted(evals.rglob("*.py"))]
    return tuple(_parsed(path, place) for path, place in files)


def _parsed(path: Path, place: str) -> Source:
    tree = ast.parse(path.read_text("utf-8"), str(path))
    return Source(place, tree, tuple(node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)))


def classes_in(sources: Iterable[Source]) -> Iterator[tuple[Source, ast.ClassDef]]:
    """Every class, with its source file."""
    return ((s, node) for s in sources for node in s.classes)


def _constants(body: Iterable[ast.stmt], known: Mapping[str, Any]) -> dict[str, Any]:
    """Names assigned a plain constant or a `known` name, singly or as `A, B = 1, 2`."""
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


def error_classes(sources: Sequence[Source]) -> dict[str, ErrorCode]:
    """All subclasses of the root error, by name, with inherited values filled in."""
    classes = {node.name: node for _, node in classes_in(sources)}
    values = {node.name: _constants(source.tree.body, {}) for source, node in classes_in(sources)}
    known: dict[str, ErrorCode] = {}

    def resolve(name: str) -> ErrorCode | None:
        if name in known or name not in classes:
            return known.get(name)
        # A class may have the same name as a base from elsewhere: `class Server(uvicorn.Server)`.
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
    """The named classes and all their subclasses."""
    bases = {node.name: {_name(base) for base in node.bases} for _, node in classes_in(sources)}
    found = set(roots)
    while more := {name for name, above in bases.items() if above & found} - found:
        found |= more
    return found


def made_codes(sources: Iterable[Source], classes: Mapping[str, ErrorCode]) -> Iterator[Made]:
    """The codes that errors are created with: `code="…"` if given, else the class's own."""
    for source in sources:
        for function, call in _calls(source.tree):
            error = classes.get(_name(call.func))
            if error is None:
                continue
            given = next((keyword.value for keyword in call.keywords if keyword.arg == "code"), None)
            codes = [error.code] if given is None else _texts(given, source.tree, function)
            entries: list[ErrorCode | None] = [replace(error, code=code) for code in codes]
            yield from (Made(source.place, call.lineno, entry) for entry in entries or [None])


Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def _calls(tree: ast.Module) -> list[tuple[Function | None, ast.Call]]:
    """All calls in a file, each with the enclosing function."""
    return [*_calls_below(tree, None)]


def _calls_below(node: ast.AST, function: Function | None) -> Iterator[tuple[Function | None, ast.Call]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Call):
            yield function, child
        yield from _calls_below(child, child if isinstance(child, Function) else function)


def _texts(node: ast.expr, tree: ast.Module, function: Function | None) -> list[str]:
    """The possible values of a text expression; empty if one of them cannot be determined from the source.

    It resolves `"a" if x else "b"`, a parameter of the enclosing function, a constant or a function of the same file,
    and `NAMES.get(…, "a")` of a dictionary of the same file.
    """
    match node:
        case ast.Constant(value=str(text)):
            return [text]
        case ast.IfExp(body=first, orelse=second):
            return _all([_texts(first, tree, function), _texts(second, tree, function)])
        case ast.Name(id=name) if function is not None and name in (names := [a.arg for a in function.args.args]):
            calls = [call for _, call in _calls(tree) if _name(call.func) == function.name]
            return _all([_texts(_argument(call, names.index(name), name), tree, None) for call in calls])
        case ast.Name(id=name):
            return _all([_texts(value, tree, None) for value in _constant(tree, name)])
        case ast.Call(func=ast.Name(id=name)):
            made = next((n for n in tree.body if isinstance(n, Function) and n.name == name), None)
            ends = [n.value for n in ast.walk(made) if isinstance(n, ast.Return) and n.value] if made else []
            return _all([_texts(end, tree, made) for end in ends])
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="get"), args=[_, other]):
            values = [v for line in tree.body if isinstance(line, ast.Assign) for v in _values(line, name)]
            return _all([_texts(value, tree, None) for value in [*values, other]])
    return []


def _constant(tree: ast.Module, name: str) -> list[ast.Constant]:
    """The constants that a file assigns to a name."""
    lines = [line for line in tree.body if isinstance(line, ast.Assign) and _name(line.targets[0]) == name]
    return [line.value for line in lines if isinstance(line.value, ast.Constant)]


def _all(found: list[list[str]]) -> list[str]:
    return sorted({text for texts in found for text in texts}) if all(found) else []


def _argument(call: ast.Call, index: int, name: str) -> ast.expr:
    """A call's argument for a parameter; a None constant if it is not passed."""
    named = next((keyword.value for keyword in call.keywords if keyword.arg == name), None)
    return named or (call.args[index] if index < len(call.args) else ast.Constant(None))


def _values(line: ast.Assign, name: str) -> list[ast.expr]:
    """The values of the dictionary that a statement assigns to `name`."""
    return line.value.values if isinstance(line.value, ast.Dict) and _name(line.targets[0]) == name else []


def error_codes(root: Path) -> list[ErrorCode]:
    """All codes of all errors in the source under `root`, sorted by status and code."""
    sources = parse_sources(root)
    classes = error_classes(sources)
    made = {made.entry for made in made_codes(sources, classes) if made.entry is not None}
    return sorted({*classes.values(), *made})


def unread_codes(root: Path) -> list[Made]:
    """Errors whose code cannot be determined from the source."""
    sources = parse_sources(root)
    return [made for made in made_codes(sources, error_classes(sources)) if made.entry is None]
