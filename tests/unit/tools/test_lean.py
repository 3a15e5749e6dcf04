from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from app.context.budget import LEAN_WINDOW
from app.tools import ToolRegistry, default_tools
from app.tools.registry import LEAN_SETS, tools_for

NAMES = ToolRegistry(default_tools()).names()


def offered(window: int) -> set[str]:
    names = tools_for(window)
    return set(NAMES if names is None else names)


def test_every_name_is_a_tools() -> None:
    assert all(set(names) <= set(NAMES) for _, names in LEAN_SETS)


@given(st.integers(1_024, 20_000), st.integers(1_024, 20_000))
def test_a_larger_window_never_has_fewer_tools(one: int, other: int) -> None:
    assert offered(min(one, other)) <= offered(max(one, other))


def test_the_sets_change_at_the_documented_windows() -> None:
    assert [len(offered(window)) for window in (2_048, 3_071, 3_072, 6_143, 6_144, 8_192, 8_193)] == [
        3, 3, 5, 5, 7, 7, len(NAMES),
    ]  # fmt: skip
    assert LEAN_SETS[-1][0] == LEAN_WINDOW, "the short system text goes with the short lists"
