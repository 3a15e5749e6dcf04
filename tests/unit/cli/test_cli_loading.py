"""Objects loaded for a server are excluded from garbage collection; everything created later is not, but rarely looked
through as a whole. Packages that no server uses are not loaded with it."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module

import pytest

from app.cli.startup import loading


@pytest.fixture(autouse=True)
def _nothing_frozen() -> Iterator[None]:
    yield
    gc.unfreeze()


def test_loaded_objects_are_excluded_from_later_collections() -> None:
    frozen = gc.get_freeze_count()
    with loading():
        assert not gc.isenabled()
        made: list[object] = [[] for _ in range(1000)]
    assert gc.isenabled()
    assert gc.get_freeze_count() > frozen
    assert not any(kept is made for kept in gc.get_objects())


def test_a_failed_import_reenables_collection() -> None:
    with pytest.raises(ModuleNotFoundError), loading():
        import_module("no_such_module")
    assert gc.isenabled()


def test_old_garbage_is_collected_but_not_at_once() -> None:
    code = (
        "import gc, weakref; from app.cli.startup import FULL_S, RARELY, FullCollections\n"
        "class Kept: pass\n"
        "def work(objects):\n"
        "    made = [Kept() for _ in range(objects)]\n"
        "    for each in made: each.itself = each\n"
        "    return weakref.ref(made[0])\n"
        "seconds = [0.0]\n"
        "gc.set_threshold(*RARELY)\n"
        "gc.callbacks.append(FullCollections(lambda: seconds[0]))\n"
        "old = work(200_000)\n"
        "work(200_000)\n"
        "assert old() is not None\n"
        "seconds[0] = FULL_S\n"
        "work(200_000)\n"
        "assert old() is None\n"
        "assert gc.get_threshold() == RARELY\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_packages_that_no_server_uses_are_not_imported_with_it_but_can_be_afterwards() -> None:
    code = (
        "import sys; from app.cli.startup import loading\n"
        "with loading():\n"
        "    import structlog, httpx, uvicorn\n"
        "assert not {'rich', 'pygments', 'watchfiles'} & set(sys.modules), sys.modules\n"
        "import rich.console, pygments, watchfiles\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
