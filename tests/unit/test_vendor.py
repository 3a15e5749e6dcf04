"""The libraries of the page: the files that `make vendor` fetched, whole and with their licenses, and nothing else."""

from __future__ import annotations

import hashlib
import json
import re

import pytest

from scripts.vendor import DOCS, IMPORTS, PACKAGES, TEST_VENDOR, VENDOR, as_module, with_relative_imports
from tests.behavior.process import ROOT
from tests.behavior.test_page import IMPORT, without_comments

MANIFEST = json.loads((VENDOR / "manifest.json").read_text("utf-8"))
MODULES = sorted(name for name in MANIFEST if name.endswith(".js") and not name.startswith("swagger-ui/"))


def files() -> set[str]:
    return {path.relative_to(VENDOR).as_posix() for path in VENDOR.rglob("*") if path.is_file()}


def test_the_manifest_has_every_file() -> None:
    licenses = {entry["license"] for entry in MANIFEST.values()}
    assert files() == {"manifest.json", *MANIFEST, *licenses}


@pytest.mark.parametrize("name", sorted(MANIFEST))
def test_each_file_is_what_was_fetched(name: str) -> None:
    assert hashlib.sha256((VENDOR / name).read_bytes()).hexdigest() == MANIFEST[name]["sha256"]


def test_the_manifest_is_of_the_versions_that_are_named() -> None:
    named = {target: (p.name, p.version, source) for p in (*PACKAGES, DOCS) for source, target in p.files.items()}
    assert {name: (e["package"], e["version"], e["file"]) for name, e in MANIFEST.items()} == named
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", package.version) for package in (*PACKAGES, DOCS))


@pytest.mark.parametrize("license", sorted({entry["license"] for entry in MANIFEST.values()}))
def test_each_license_lets_us_pass_it_on(license: str) -> None:
    text = (VENDOR / license).read_text("utf-8")
    assert re.search(r"Copyright|Apache License", text)
    assert re.search(
        r"Permission is hereby granted, free of charge|Apache License\s+Version 2\.0|Redistribution and use in source",
        text,
    )


@pytest.mark.parametrize("name", MODULES)
def test_a_module_loads_its_neighbours_alone(name: str) -> None:
    text = without_comments((VENDOR / name).read_text("utf-8"))
    for target in IMPORT.findall(text):
        assert target.startswith(("./", "../")), f"a browser cannot find {target!r}"
        found = (VENDOR / name).parent.joinpath(target).resolve()
        assert found.is_relative_to(VENDOR.resolve())
        assert found.is_file(), target
    assert "sourceMappingURL" not in text
    assert not re.search(r"""(?:\bfetch|importScripts|new (?:Worker|WebSocket|EventSource))\(""", text)


def test_nothing_of_a_style_comes_from_elsewhere() -> None:
    for name in MANIFEST:
        if name.endswith(".css"):
            text = (VENDOR / name).read_text("utf-8")
            assert not re.search(r"""@import|url\((?!["']?data:)""", text)


@pytest.mark.parametrize(
    ("text", "depth", "expected"),
    [
        ('import{h}from"preact";', 0, 'import{h}from"./preact.js";'),
        ("import 'preact/hooks'", 0, "import './preact-hooks.js'"),
        ('export * from "@preact/signals-core"', 2, 'export * from "../../signals-core.js"'),
        ('import a from "./b.js";', 1, 'import a from "./b.js";'),
        ('const from = "preact-like";', 0, 'const from = "preact-like";'),
    ],
)
def test_bare_names_become_files(text: str, depth: int, expected: str) -> None:
    assert with_relative_imports(text, depth) == expected


def test_a_commonjs_file_becomes_a_module() -> None:
    made = as_module("const x = 1\nmodule.exports = x")
    assert made == "const module = { exports: {} };\nconst x = 1\nmodule.exports = x\nexport default module.exports;\n"
    assert as_module("export default 1;") == "export default 1;"


def test_bare_names_stand_for_files_that_are_there() -> None:
    assert set(IMPORTS.values()) <= MANIFEST.keys()


def test_vendored_files_are_left_alone_by_what_corrects_ours() -> None:
    settings = (ROOT / "pyproject.toml").read_text("utf-8")
    assert re.search(r'extend-exclude = \[[^\]]*"app/static/vendor/"', settings)
    assert re.search(r'^files = \[[^\]]*"scripts"', settings, re.MULTILINE)


def test_the_library_of_the_tests_is_what_was_fetched() -> None:
    for name, entry in json.loads((TEST_VENDOR / "manifest.json").read_text("utf-8")).items():
        assert hashlib.sha256((TEST_VENDOR / name).read_bytes()).hexdigest() == entry["sha256"]
        assert (TEST_VENDOR / entry["license"]).is_file()
