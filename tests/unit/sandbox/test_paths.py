"""Paths are resolved as text: what they lead to, and what is refused."""

from __future__ import annotations

import posixpath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import ForbiddenError, InvalidRequestError, PalimpsestError
from app.sandbox import paths

WORKSPACE = "/workspace"


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("", ()),
        (".", ()),
        ("/workspace", ()),
        ("/workspace/", ()),
        ("a", ("a",)),
        ("a/b", ("a", "b")),
        ("./a//b/", ("a", "b")),
        ("a/../b", ("b",)),
        ("a/b/../../c", ("c",)),
        ("a/..", ()),
        ("/workspace/a/./b", ("a", "b")),
        ("//workspace//a", ("a",)),
        ("...", ("...",)),
        ("..a/b..", ("..a", "b..")),
        ("workspace/a", ("workspace", "a")),
        ("a\nb", ("a\nb",)),
    ],
)
def test_resolved(path: str, names: tuple[str, ...]) -> None:
    assert paths.resolve(path) == names


@pytest.mark.parametrize(
    "path",
    [
        "..",
        "../a",
        "a/../../b",
        "/",
        "/etc",
        "/workspaces",
        "/workspace/..",
        "/workspace/../workspace/a",
        "/a/../workspace/b",
    ],
)
def test_outside(path: str) -> None:
    with pytest.raises(ForbiddenError) as refused:
        paths.resolve(path)
    assert refused.value.code == "outside_workspace"


@pytest.mark.parametrize("path", ["a\0", "\ud800", "é" * 128, "a/" * 2048])
def test_impossible_paths_are_refused(path: str) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        paths.resolve(path)
    assert refused.value.code == "invalid_path"


@pytest.mark.parametrize("path", ["é" * 127, "a" * 255, "a/" * 2047])
def test_the_longest_ones(path: str) -> None:
    assert paths.resolve(path)


_pieces = st.lists(st.sampled_from(["..", ".", "", "a", "b", "workspace", "é", "...", " "]), max_size=12)


@given(_pieces, st.booleans())
def test_paths_resolve_as_the_system_would(pieces: list[str], absolute: bool) -> None:
    """Without links, the names are those that the path normalises to beneath the workspace."""
    path = "/".join(pieces)
    path = f"/{path}" if absolute else path
    whole = posixpath.normpath(posixpath.join(WORKSPACE, path))
    try:
        names = paths.resolve(path)
    except ForbiddenError:
        return
    assert "/".join(("", "workspace", *names)) == "/" + whole.lstrip("/")


@given(st.text(max_size=300))
def test_any_text_is_resolved_or_refused(path: str) -> None:
    refusal = ""
    names: tuple[str, ...] = ()
    try:
        names = paths.resolve(path)
    except PalimpsestError as refused:
        refusal = refused.detail
    assert refusal == "" or (refusal.isprintable() and len(refusal) < 400)
    assert all(name not in ("", ".", "..") and "/" not in name and "\0" not in name for name in names)
    assert paths.resolve("/workspace/" + "/".join(names)) == names


@given(st.text())
def test_shown_paths_are_short_lines(path: str) -> None:
    shown = paths.show(path)
    assert shown.isprintable()
    assert len(shown) <= 200


@given(st.binary())
def test_clean_names_can_be_sent(name: bytes) -> None:
    assert paths.clean_name(paths.clean_name(name).encode()) == paths.clean_name(name)


@pytest.mark.parametrize("session_id", ["", ".", "..", "../x", "a/b", "a b", "-x", "x" * 101, "a\n", "é"])
def test_ids_that_would_be_paths_are_refused(session_id: str) -> None:
    with pytest.raises(InvalidRequestError):
        paths.check_session_id(session_id)


def test_ids_of_sessions() -> None:
    assert paths.check_session_id("0192f3c4-7e1a-7b60-8d3c-000000000000") == "0192f3c4-7e1a-7b60-8d3c-000000000000"
