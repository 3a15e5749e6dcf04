"""What a soak says of the memory of the server's last life."""

from __future__ import annotations

from tests.soak.report import PROGRESS_S, LifeMemory

A_MINUTE = round(60 / PROGRESS_S)


def test_memory_is_told_once_a_minute() -> None:
    memory = LifeMemory()
    for look in range(2 * A_MINUTE + 1):
        memory.note(1, 100.0 + look)
    assert memory.by_the_minute == [100 + A_MINUTE - 1, 100 + 2 * A_MINUTE - 1]


def test_a_life_of_less_has_none() -> None:
    memory = LifeMemory()
    memory.note(1, 100.0)
    assert memory.by_the_minute == []


def test_another_life_begins_anew() -> None:
    memory = LifeMemory()
    for life in (1, 2):
        for _ in range(A_MINUTE):
            memory.note(life, 100.0 * life)
    assert memory.by_the_minute == [200]
