"""Tests over combinations of some parameters, of which the default tests run only a few."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from typing import Any

import pytest

from tests.load import LONG

IN_BOTH_SANDBOXES = pytest.mark.parametrize(
    "sandbox",
    [pytest.param(kind, marks=getattr(pytest.mark, kind)) for kind in ("bubblewrap", "docker")],
    indirect=True,
)
"""Has the default tests run with Docker too, for what depends on the kind of sandbox."""


def across(count: int = 2, /, **axes: Iterable[Any]) -> pytest.MarkDecorator:
    """Parametrizes over combinations of the values. The default tests run `count` that differ in every value, and the
    extended ones as many more as it takes for each value to occur; at full load all combinations run."""
    values = [[*axis] for axis in axes.values()]

    def diagonal(turns: int) -> set[tuple[int, ...]]:
        return {tuple(turn % len(axis) for axis in values) for turn in range(turns)}

    default, each = diagonal(count), diagonal(max(count, *map(len, values)))
    return pytest.mark.parametrize(
        ",".join(axes),
        [
            pytest.param(
                *(axis[index] for axis, index in zip(values, indices, strict=True)),
                marks=() if indices in default else pytest.mark.extended,
                id="-".join(_name(axis[index]) for axis, index in zip(values, indices, strict=True)),
            )
            for indices in product(*(range(len(axis)) for axis in values))
            if LONG or indices in each
        ],
    )


def first_of(count: int = 1, /, **axis: Iterable[Any]) -> pytest.MarkDecorator:
    """Parametrizes over the values of one parameter. The default tests run the first `count`; the others are
    extended."""
    ((name, values),) = axis.items()
    default, *others = [*values][:count], *[*values][count:]
    extended = [pytest.param(value, marks=pytest.mark.extended) for value in others]
    return pytest.mark.parametrize(name, [*default, *extended])


def _name(value: Any) -> str:
    return str(getattr(value, "name", value))
