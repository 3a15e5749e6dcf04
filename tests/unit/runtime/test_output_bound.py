"""The oldest outputs of a session are removed first, and only as many as necessary."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from app.agent.changes import ResultClosed
from app.errors import StorageError
from app.messages import FinishReason, new_id
from app.runtime.retention import OutputBound
from tests.unit.runtime.stage import GENERATION_OPENED, Attempt, Stage, call_part, make_sandboxes, make_setup, result_of

SIZE = 100_000


class Files:
    """Outputs of `SIZE` bytes each. The first check fails if `fails` is set."""

    def __init__(self, *keys: str, fails: bool = False) -> None:
        self.keys = list(keys)
        self.failed, self.deleted = asyncio.Event(), asyncio.Event()
        self._fails = fails

    async def sizes(self, keys: Sequence[str]) -> list[int]:
        if self._fails:
            self._fails = False
            self.failed.set()
            raise StorageError("The disk does not answer.")
        return [SIZE if key in self.keys else 0 for key in keys]

    async def delete(self, keys: Iterable[str]) -> None:
        due = set(keys)
        self.keys = [key for key in self.keys if key not in due]
        if due:
            self.deleted.set()


async def print_output(stage: Stage, key: str, step: int) -> None:
    """A step with one call, whose output is stored under `key`."""
    attempt, call = Attempt(step=step), call_part()
    result = result_of(call, new_id(), bytes=SIZE).part
    await stage.commit(
        attempt.opened,
        *attempt.wrote(call),
        attempt.answered(FinishReason.TOOL_CALLS),
        ResultClosed(new_id(), result, key),
        attempt.closed(FinishReason.TOOL_CALLS),
    )


async def begin(stage: Stage) -> None:
    await stage.post("task")
    await stage.commit(GENERATION_OPENED)


def bound_of(stage: Stage, files: Files, most: int) -> OutputBound:
    return OutputBound(make_setup(stage, make_sandboxes()), files, most)


async def test_only_as_many_of_the_oldest_as_necessary_are_removed(stage: Stage) -> None:
    files = Files("a", "b", "c")
    await begin(stage)
    for step, key in enumerate(files.keys, 1):
        await print_output(stage, key, step)
    await bound_of(stage, files, 3 * SIZE).enforce(stage.session_id)
    assert files.keys == ["a", "b", "c"]
    await bound_of(stage, files, 3 * SIZE - 1).enforce(stage.session_id)
    assert files.keys == ["b", "c"]
    await bound_of(stage, files, SIZE // 2).enforce(stage.session_id)
    assert files.keys == ["c"], "the newest is kept"


async def test_a_failure_is_retried_after_the_next_result(stage: Stage) -> None:
    files = Files("a", "b", fails=True)
    bound = bound_of(stage, files, SIZE)
    stage.observers.append(bound.observe)
    await begin(stage)
    async with bound.kept():
        await print_output(stage, "a", 1)
        await files.failed.wait()
        await print_output(stage, "b", 2)
        await files.deleted.wait()
    assert files.keys == ["b"]
