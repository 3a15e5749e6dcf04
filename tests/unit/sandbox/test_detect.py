"""Which kind is taken, and what is said where none can be had."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.bootstrap.sandboxes import open_factory
from app.errors import SandboxUnavailableError

NOWHERE = "unix:///nowhere/docker.sock"


@pytest.mark.docker
async def test_auto_takes_docker_if_an_engine_answers(docker: None, data_dir: Path) -> None:
    factory = await open_factory("auto", data_dir=data_dir, instance_id="i")
    assert (factory.kind, factory.network_default) == ("docker", True)
    await factory.aclose()


@pytest.mark.bubblewrap
async def test_auto_takes_bubblewrap_without_an_engine(bubblewrap: None, data_dir: Path) -> None:
    factory = await open_factory("auto", data_dir=data_dir, instance_id="i", docker_host=NOWHERE)
    assert (factory.kind, factory.network_default) == ("bubblewrap", False)
    await factory.aclose()


async def test_docker_is_not_replaced_if_it_was_requested(data_dir: Path) -> None:
    with pytest.raises(SandboxUnavailableError, match="No Docker Engine at unix:///nowhere"):
        await open_factory("docker", data_dir=data_dir, instance_id="i", docker_host=NOWHERE)


async def test_auto_never_runs_commands_unsandboxed(tmp_path: Path) -> None:
    """The data directory is a file, so bubblewrap cannot work either."""
    (tmp_path / "file").write_text("")
    with pytest.raises(SandboxUnavailableError, match="PALIMPSEST_SANDBOX=local-unsafe") as refused:
        await open_factory("auto", data_dir=tmp_path / "file", instance_id="i", docker_host=NOWHERE)
    assert "No Docker Engine" in refused.value.detail


async def test_local_unsafe_is_only_used_by_name(data_dir: Path) -> None:
    factory = await open_factory("local-unsafe", data_dir=data_dir, instance_id="i", docker_host=NOWHERE)
    assert factory.kind == "local-unsafe"
    await factory.aclose()


async def test_an_unknown_kind(data_dir: Path) -> None:
    with pytest.raises(SandboxUnavailableError, match="docker, bubblewrap, local-unsafe"):
        await open_factory("podman", data_dir=data_dir, instance_id="i")  # type: ignore[arg-type]
