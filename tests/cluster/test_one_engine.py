"""Workers that share a Docker Engine: they use each other's volumes, and leave each other's containers alone."""

from __future__ import annotations

import asyncio
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import text

from app.sandbox.docker.container import INSTANCE_LABEL, container_name
from tests.behavior.checks import assert_sound
from tests.behavior.conftest import sandbox_image
from tests.behavior.harness import Client, command, of_type
from tests.cluster.rig import Cluster
from tests.provider import FakeProvider, Reply, Text
from tests.requirements import need

__all__ = ["sandbox_image"]

Start = Callable[[str, str], str]


def docker(*arguments: str) -> str:
    return subprocess.run(["docker", *arguments], check=False, capture_output=True, text=True).stdout


async def exists(session_id: str, path: str) -> None:
    """Waits until a file is in a session's container."""
    async with asyncio.timeout(60):
        while not await asyncio.to_thread(docker, "exec", container_name(session_id), "ls", path):  # noqa: ASYNC110
            await asyncio.sleep(0.05)


@pytest.fixture(params=["store", "no store"])
def start(request: pytest.FixtureRequest, cluster: Cluster, tmp_path: Path, sandbox_image: str) -> Start:
    """Starts a node with the Engine and a data directory of its own; with a store of workspaces, or without one."""
    need("docker")
    more = {}
    if request.param == "store":
        need("s3")  # its library stores into folders too
        (tmp_path / "store").mkdir()
        more["PALIMPSEST_WORKSPACE_STORE"] = f"file://{tmp_path / 'store'}"

    def start(name: str, role: str) -> str:
        data_dir = str(tmp_path / f"{name}-data")
        settings = {"PALIMPSEST_SANDBOX_IMAGE": sandbox_image, "PALIMPSEST_DATA_DIR": data_dir, **more}
        return cluster.start(name, role, "docker", **settings).url

    return start


def left_on_engine(cluster: Cluster) -> str:
    """The containers and volumes of the cluster's database."""
    with cluster.database.connect() as connection:
        instance = connection.execute(text("SELECT value FROM server WHERE key = 'instance_id'")).scalar_one()
    label = f"label={INSTANCE_LABEL}={instance}"
    return docker("ps", "-aq", "--filter", label) + docker("volume", "ls", "-q", "--filter", label)


async def test_a_killed_worker_is_continued_in_its_volume(
    cluster: Cluster, provider: FakeProvider, start: Start
) -> None:
    """Then another worker starts and ends while a command runs in a container, which it leaves alone."""
    provider.script(
        Reply(command("echo first >first")),
        Reply(command("echo late >late; exec sleep 100")),
        Reply(command("cat first late; ps | grep -c '[s]leep 100'")),
        Reply(Text("Done.")),
    )
    async with Client(start("api", "api")) as client:
        start("one", "worker")
        made = await client.create("work")
        await exists(made["id"], "late")
        start("two", "worker")
        cluster.nodes["one"].end(signal.SIGKILL)
        events = await client.until_idle(made["id"])
        assert of_type(events, "tool.result")[-1].data["output"].split()[:3] == ["first", "late", "0"]
        [recovered] = of_type(events, "session.recovered")
        assert recovered.data.get("workspace_as_of") is None, "nothing was restored"
        await assert_sound(client, made["id"])

        provider.script(
            Reply(command("touch begun; while [ ! -e go ]; do sleep 0.1; done; echo alive")), Reply(Text("Done."))
        )
        other = await client.create("stay alive")
        await exists(other["id"], "begun")
        start("three", "worker")
        cluster.nodes["three"].end(signal.SIGTERM)
        docker("exec", container_name(other["id"]), "touch", "go")
        events = await client.until_idle(other["id"])
        assert of_type(events, "tool.result")[-1].data["output"] == "alive\n"
        for session in (made, other):
            assert (await client.http.delete(f"/v1/sessions/{session['id']}")).status_code == 204
        assert left_on_engine(cluster) == ""
