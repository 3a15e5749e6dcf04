"""Which processes of a container belong to a command, by the Engine's list of them."""

from __future__ import annotations

from app.sandbox.docker.command import older, stays
from app.sandbox.docker.engine import Process

SHIM, INIT, WAITING, DAEMON, ROOT, CHILD = 10, 20, 21, 30, 40, 41
PROCESSES = [
    Process(INIT, SHIM),
    Process(WAITING, INIT),
    Process(DAEMON, INIT),
    Process(ROOT, SHIM),
    Process(CHILD, ROOT),
]


def test_what_is_older_than_a_command() -> None:
    assert older(PROCESSES, [ROOT]) == {INIT, WAITING, DAEMON}


def test_of_several_commands_the_oldest_counts() -> None:
    assert older([*PROCESSES, Process(50, SHIM)], [50, ROOT]) == {INIT, WAITING, DAEMON}


def test_ages_are_unknown_if_the_command_is_gone() -> None:
    assert older(PROCESSES, [ROOT, 99]) is None
    assert older(PROCESSES, [None]) is None


def test_one_that_began_within_the_same_tick_is_not_older() -> None:
    assert older([Process(INIT, SHIM), Process(42, INIT), Process(ROOT, SHIM)], [ROOT]) == {INIT}


def test_descendants_of_kept_processes_stay() -> None:
    kept = {INIT, WAITING, DAEMON}
    assert stays(INIT, kept, PROCESSES)
    assert stays(31, kept, [*PROCESSES, Process(31, DAEMON)]), "the child of an older one"
    assert not stays(CHILD, kept, PROCESSES)
    assert not stays(43, kept, [*PROCESSES, Process(43, INIT)]), "an orphan that the container's first has adopted"
