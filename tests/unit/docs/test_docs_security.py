"""Each promise of the page on security has a test that exists."""

from __future__ import annotations

import ast
import re

import pytest

from docs.generate import DOCS

PAGE = (DOCS / "security.md").read_text("utf-8")
TESTS = DOCS.parent / "tests"
NAMED = re.compile(r"`([\w/]+\.py)::(\w+)`")


def named_in(file: str) -> set[str]:
    """The names of the tests in a file below `tests/`; empty if there is no such file."""
    path = TESTS / file
    tree = ast.parse(path.read_text("utf-8") if path.is_file() else "")
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return {function.name for function in functions if function.name.startswith("test_")}


def promises(page: str) -> list[tuple[str, list[tuple[str, str]]]]:
    """The rows of the tables of promises, each with the tests that it names."""
    tables = re.findall(r"^\| Promise \| Test \|\n\| --- \| --- \|\n((?:\|.*\n)+)", page, re.MULTILINE)
    rows = [row for rows in tables for row in rows.splitlines()]
    return [(row, NAMED.findall(row.split(" | ")[-1])) for row in rows]


@pytest.mark.parametrize(("file", "name"), sorted(set(NAMED.findall(PAGE))))
def test_each_named_test_exists(file: str, name: str) -> None:
    assert name in named_in(file)


def test_each_promise_has_a_test() -> None:
    found = promises(PAGE)
    assert len(found) > 50
    assert [row for row, tests in found if not tests] == []


def test_a_promise_without_a_test_is_detected() -> None:
    page = "| Promise | Test |\n| --- | --- |\n| One. | `unit/x.py::test_x` |\n| Two. | none |\n"
    assert [tests for _, tests in promises(page)] == [[("unit/x.py", "test_x")], []]
    assert named_in("unit/x.py") == set()
