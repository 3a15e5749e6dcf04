"""What the package imports is what it declares, so that no other package's requirement keeps it alive."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

ROOT = Path(__file__).parents[2]
OURS = {"app", "evals"}
LATER = {"compression"}
"""Standard only from Python 3.14 on."""


def imported() -> Iterator[tuple[str, Path]]:
    """All imports of packages that are not in the standard library, each with a file that has it."""
    for path in sorted((ROOT / "app").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            else:
                names = [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
            tops = {name.partition(".")[0] for name in names} - sys.stdlib_module_names - OURS - LATER
            yield from ((top, path) for top in tops)


def canonical(requirement: str) -> str:
    return re.sub(r"[-_.]+", "-", re.split(r"[\[<>=; ]", requirement)[0]).lower()


def test_every_package_that_is_imported_is_declared() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [requirement for group in project["optional-dependencies"].values() for requirement in group]
    declared = {canonical(requirement) for requirement in [*project["dependencies"], *extras]}
    packages = packages_distributions()
    missing = {
        top: path for top, path in imported() if not declared & {canonical(name) for name in packages.get(top, [top])}
    }
    assert missing == {}
