"""Workers on machines of their own: what one of them has written is there when another one continues."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

from tests.behavior.checks import assert_sound
from tests.behavior.harness import Client, command, of_type
from tests.cluster.rig import Cluster
from tests.provider import FakeProvider, Gate, Reply, Text


async def test_a_worker_that_is_stopped_leaves_its_files_to_the_next(
    cluster: Cluster, provider: FakeProvider, tmp_path: Path
) -> None:
    (tmp_path / "store").mkdir()
    store = f"file://{tmp_path / 'store'}"

    def start(name: str, role: str) -> str:
        data_dir = tmp_path / f"{name}-data"
        return cluster.start(name, role, PALIMPSEST_DATA_DIR=str(data_dir), PALIMPSEST_WORKSPACE_STORE=store).url

    provider.script(
        Reply(Gate("begun"), command("echo stored > file")), Reply(command("cat file")), Reply(Text("Done."))
    )
    async with Client(start("a", "api")) as client:
        start("one", "worker")
        made = await client.create("begin")
        await provider.reached("begun")
        start("two", "worker")
        ending = asyncio.create_task(asyncio.to_thread(cluster.nodes["one"].end, signal.SIGTERM))
        while "worker_draining" not in cluster.log("one"):  # noqa: ASYNC110 - another process's state
            await asyncio.sleep(0.01)
        provider.open("begun")
        events = await client.until_idle(made["id"])
        await ending
        outputs = [event.data["output"] for event in of_type(events, "tool.result")]
        assert outputs[-1].startswith("stored")
        [recovered] = of_type(events, "session.recovered")
        assert recovered.data["workspace_as_of"]
        assert "run_started" in cluster.log("two")
        await assert_sound(client, made["id"])
