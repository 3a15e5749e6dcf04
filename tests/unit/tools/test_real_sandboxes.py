"""The tools in the sandboxes that the service supports on any Linux machine."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from app.errors import ForbiddenError, InvalidRequestError, NotFoundError, SandboxUnavailableError
from app.messages import ToolStatus, new_id
from app.sandbox.base import SandboxConfig, SandboxFactory, SandboxLimits
from app.sandbox.host.bubblewrap import BubblewrapFactory
from app.sandbox.host.local import LocalFactory
from app.tools import ToolRegistry, default_tools
from tests.unit.tools.workbench import Workbench

registry = ToolRegistry(default_tools())


@pytest_asyncio.fixture(params=[LocalFactory, pytest.param(BubblewrapFactory, marks=pytest.mark.bubblewrap)])
async def real(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Workbench]:
    factory: SandboxFactory = request.param(tmp_path)
    try:
        await factory.check()
    except SandboxUnavailableError as exc:
        pytest.skip(exc.detail)
    session_id = new_id()
    sandbox = factory.open(SandboxConfig(session_id, "", network=False, limits=SandboxLimits()))
    await sandbox.start()
    yield Workbench(sandbox, tmp_path / "workspaces" / session_id)
    await sandbox.remove()
    await factory.aclose()


async def test_a_file_is_written_found_changed_and_run(real: Workbench) -> None:
    get = registry.get
    program = "def total(items):\n    return sum(items)\n\n\nprint(total([1, 2]))\n"
    text, _ = await real.run(get("write_file"), path="src/total.py", content=program)
    assert text == "Created src/total.py (63 bytes, 5 lines).\n"
    text, outcome = await real.run(get("search_files"), pattern=r"def \w+\(", glob="*.py")
    assert (text, outcome.note) == ("src/total.py:1:def total(items):\n", "")
    text, _ = await real.run(get("edit_file"), path="src/total.py", old_text="[1, 2]", new_text="[1, 2, 39]")
    assert "     5  print(total([1, 2, 39]))\n" in text
    text, _ = await real.run(get("read_file"), path="/workspace/src/total.py", start_line=5)
    assert text == "print(total([1, 2, 39]))\n"
    assert (await real.run(get("list_directory")))[0].split() == ["-", "src/"]
    text, outcome = await real.run(get("execute_command"), command="grep -c '' src/total.py; exit 42")
    assert (text, outcome.exit_code, outcome.note) == ("5\n", 42, "[exit code 42]")


async def test_a_command_that_hangs_ends_with_its_output(real: Workbench) -> None:
    text, outcome = await real.run(
        registry.get("execute_command"), command="echo begun; setsid sleep 60 & sleep 60", timeout_s=0.5
    )
    assert (text, outcome.status) == ("begun\n", ToolStatus.ERROR)
    assert outcome.note.startswith("[timed out after 0.5 s")


async def test_paths_outside_the_workspace_are_refused(real: Workbench) -> None:
    await real.run(registry.get("execute_command"), command="ln -s /etc link; mkdir dir; touch file")
    for name, extra in [("read_file", {}), ("write_file", {"content": "x"}), ("list_directory", {})]:
        for path in ("../x", "/etc/passwd", "link/passwd"):
            with pytest.raises(ForbiddenError):
                await real.run(registry.get(name), path=path, **extra)
    for path in ("..", "/etc", "link"):
        with pytest.raises(ForbiddenError):
            await real.run(registry.get("search_files"), pattern="root", path=path)
    assert (await real.run(registry.get("search_files"), pattern="root"))[1].note == "[no match]"
    with pytest.raises(NotFoundError):
        await real.run(registry.get("read_file"), path="missing")
    with pytest.raises(InvalidRequestError):
        await real.run(registry.get("write_file"), path="dir", content="x")
    with pytest.raises(InvalidRequestError):
        await real.run(registry.get("list_directory"), path="file")


async def test_an_overwritten_empty_file_is_distinguished_from_a_new_one(real: Workbench) -> None:
    await real.run(registry.get("execute_command"), command="touch empty")
    assert (await real.run(registry.get("write_file"), path="empty", content="x"))[0].startswith("Overwrote empty")
    assert (await real.run(registry.get("write_file"), path="new", content="x"))[0].startswith("Created new")
