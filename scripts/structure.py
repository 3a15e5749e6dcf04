"""Measures the structure of one source tree, or compares several: `python -m scripts.structure OLD_TREE .`

A line of code is one with more than a comment or a docstring. Imports are read by grimp, as in import-linter.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import io
import json
import subprocess
import sys
import tokenize
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import grimp

PACKAGE = "app"

_NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}

_Function = ast.FunctionDef | ast.AsyncFunctionDef


def code_lines(text: str) -> int:
    """Lines with code on them: no blank ones, comments or docstrings."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - docstring_lines(ast.parse(text)))


def docstring_lines(tree: ast.AST) -> set[int]:
    """Lines of string expression statements, including those below a name."""
    texts = (
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    )
    return {line for node in texts for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)}


def function_lengths(tree: ast.AST) -> list[int]:
    """Lines of each function from its first decorator on."""
    return [
        (node.end_lineno or node.lineno) - min([node.lineno, *(item.lineno for item in node.decorator_list)]) + 1
        for node in ast.walk(tree)
        if isinstance(node, _Function)
    ]


def constructor_arguments(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The number of arguments of each explicit constructor, with the class's name."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.ClassDef):
            continue
        for item in node.body:
            if isinstance(item, _Function) and item.name == "__init__":
                given = item.args
                yield len(given.posonlyargs) + len(given.args) + len(given.kwonlyargs) - 1, node.name


def import_figures(tree: Path) -> dict[str, int]:
    """Modules with one importer, import cycles, and imports that violate the layers in pyproject.toml."""
    graph = grimp.build_graph(PACKAGE, cache_dir=None)
    importers = [len(graph.find_modules_that_directly_import(module)) for module in graph.modules]
    contracts = tomllib.loads((tree / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    upward = graph.find_illegal_dependencies_for_layers(
        layers=[{name.strip() for name in layer.split("|")} & graph.modules for layer in layers]
    )
    return {
        "modules with one importer": importers.count(1),
        "import circles": len(
            _circles({module: graph.find_modules_directly_imported_by(module) for module in graph.modules})
        ),
        "upward imports": len(upward),
    }


def _circles(imports: Mapping[str, set[str]]) -> list[set[str]]:
    """Groups of modules that reach each other, by reachability: the graph is small."""
    reach = {module: _reached(imports, module) for module in imports}
    found: list[set[str]] = []
    for module, others in reach.items():
        circle = {other for other in others if module in reach[other]}
        if circle and circle not in found:
            found.append(circle)
    return found


def _reached(imports: Mapping[str, set[str]], start: str) -> set[str]:
    seen: set[str] = set()
    waiting = [*imports[start]]
    while waiting:
        module = waiting.pop()
        if module not in seen:
            seen.add(module)
            waiting += imports[module]
    return seen


def measure(tree: Path) -> dict[str, Any]:
    """All figures of a tree; its package must be the one on the import path."""
    texts = {path.relative_to(tree): path.read_text() for path in sorted((tree / PACKAGE).rglob("*.py"))}
    lines = {path: code_lines(text) for path, text in texts.items()}
    folders: dict[Path, list[int]] = {}
    for path, count in lines.items():
        if path.name != "__init__.py":
            folders.setdefault(path.parent, []).append(count)
    parsed = [ast.parse(text) for text in texts.values()]
    functions = [length for module in parsed for length in function_lengths(module)]
    arguments, owner = max(found for module in parsed for found in constructor_arguments(module))
    return {
        "Python files": len(lines),
        "code lines": sum(lines.values()),
        "code lines per file, median of folders": round(median(sum(of) / len(of) for of in folders.values())),
        "lines per file, p50 / p90 / max": _spread([len(text.splitlines()) for text in texts.values()]),
        "functions": len(functions),
        "lines per function, p50 / p90 / max": _spread(functions),
        "constructor arguments, max": f"{arguments} ({owner})",
        **import_figures(tree),
    }


def _spread(values: Sequence[int]) -> str:
    tenths = quantiles(values, n=10)
    return f"{median(values):.0f} / {tenths[8]:.0f} / {max(values)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=inspect.getdoc(sys.modules[__name__]))
    parser.add_argument("trees", nargs="*", type=Path, default=[Path()], help="checkouts to compare")
    parser.add_argument("--json", action="store_true", help="the figures of one tree, as JSON")
    given = parser.parse_args()
    if given.json:
        print(json.dumps(measure(given.trees[0].resolve())))
        return
    # Each in a separate process, since their packages have the same name.
    columns = [
        json.loads(
            subprocess.run(
                [sys.executable, "-P", __file__, "--json", str(tree.resolve())],
                env={"PYTHONPATH": str(tree.resolve())},
                check=True,
                capture_output=True,
                text=True,
            ).stdout
        )
        for tree in given.trees
    ]
    for name in columns[-1]:
        print(f"{name:40}", *(f"{column[name]!s:>20}" for column in columns))


if __name__ == "__main__":
    main()
