"""How many checkpoints stay: the first and the newest, and nothing of the others."""

from __future__ import annotations

import os
from pathlib import Path

from app.runtime.checkpoints.repository import Repository
from app.runtime.checkpoints.taking import Look, TakingRules, look
from app.sandbox.base import SandboxConfig, SandboxLimits
from app.sandbox.host.local import LocalFactory


async def test_dropped_commits_take_no_space(tmp_path: Path) -> None:
    sandbox = LocalFactory(tmp_path).open(SandboxConfig("s", "", False, SandboxLimits()))
    await sandbox.start()
    repository = Repository(tmp_path / "repository.git")
    repository.create()
    file, last, commits = tmp_path / "workspaces" / "s" / "file", Look(), []
    for number in range(3):
        file.write_bytes(bytes([number]) + os.urandom(200_000))
        last = await look(sandbox, repository, TakingRules(), last)
        assert last.commit is not None
        repository.keep(last.commit)
        commits.append(last.commit)
    before, _ = repository.size()
    assert await repository.keep_only({commits[0], commits[2]})
    await repository.collect()
    after, _ = repository.size()
    assert after < before - 150_000
    assert not await repository.keep_only({commits[0], commits[2]})
    listed = (await repository.run("rev-list", "--all")).decode().split()
    assert set(listed) == {commits[0], commits[2]}
