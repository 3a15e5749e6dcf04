"""Workers on machines of their own: what one of them has written is there when another one continues."""

from __future__ import annotations

import asyncio
import io
import signal
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import update

from app.db.models import idempotent_requests
from app.db.repositories.idempotency import NOBODY
from tests.behavior.checks import assert_sound
from tests.behavior.harness import Client, command, of_type
from tests.cluster.rig import Cluster
from tests.provider import FakeProvider, Gate, Reply, Text

KEY = "a-key-of-all-nodes"


Start = Callable[..., str]


@pytest.fixture
def start(cluster: Cluster, tmp_path: Path) -> Start:
    """Starts a node on a machine of its own; returns its URL."""
    (tmp_path / "store").mkdir()
    store = f"file://{tmp_path / 'store'}"

    def started(name: str, role: str, **more: str) -> str:
        data_dir = tmp_path / f"{name}-data"
        settings = {"PALIMPSEST_DATA_DIR": str(data_dir), "PALIMPSEST_WORKSPACE_STORE": store, **more}
        return cluster.start(name, role, **settings).url

    return started


async def test_a_worker_that_is_stopped_leaves_its_files_to_the_next(
    cluster: Cluster, provider: FakeProvider, start: Start
) -> None:
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


@pytest.mark.measured
async def test_any_node_serves_the_files_that_a_running_worker_has(
    cluster: Cluster, provider: FakeProvider, start: Start
) -> None:
    """As they are now, not as in the newest snapshot; and what is uploaded to a run outlives its worker."""
    provider.script(
        Reply(command("echo one > file")),
        Reply(command("echo two > file; echo two > ' %2f..?'")),
        Reply(Text("half"), Gate("held"), Text("never")),
        Reply(command("cat file sent/there")),
        Reply(Text("Done.")),
    )
    keys = {"PALIMPSEST_API_KEYS": KEY}
    start("one", "worker", **keys)
    async with Client(start("a", "api", **keys), key=KEY) as client:
        made = await client.create("begin")
        files = f"/v1/sessions/{made['id']}/files"
        await provider.reached("held")
        first = await client.http.get(f"{files}/file", headers={"Range": "bytes=0-1"})
        assert (first.status_code, first.text, first.headers["content-length"]) == (206, "tw", "2")
        assert "workspace-as-of" not in first.headers
        assert (await client.http.get(f"{files}/%20%252f..%3F")).text == "two\n"
        assert (await client.http.head(f"{files}/file")).headers["content-length"] == "4"
        assert (await client.http.get(f"{files}/none")).json()["code"] == "file_not_found"
        put = await client.http.put(f"{files}/sent/there", content=b"uploaded\n")
        assert (put.status_code, put.headers["location"]) == (201, f"{files}/sent/there")
        listed = (await client.http.get(files)).json()
        assert ([item["path"] for item in listed["items"]], listed["as_of"]) == ([" %2f..?", "file", "sent"], None)
        archive = await client.http.get(f"/v1/sessions/{made['id']}/archive")
        with tarfile.open(fileobj=io.BytesIO(archive.content)) as tar:
            assert sorted(tar.getnames()) == [" %2f..?", "file", "sent", "sent/there"]
        place = f"/v1/sessions/{made['id']}/archive?path=unpacked"
        unpacked = await client.http.put(place, content=archive.content)
        assert (unpacked.status_code, unpacked.json()["files"]) == (200, 3)
        assert (await client.http.get(f"{files}/unpacked/file")).text == "two\n"
        once = {"Idempotency-Key": "fork"}
        fork = await client.http.post(f"/v1/sessions/{made['id']}/fork", json={}, headers=once)
        with cluster.database.begin() as connection:
            # As if the answer of the node that runs the session had been lost.
            unanswered = update(idempotent_requests).values(status=None, holder=NOBODY)
            assert connection.execute(unanswered).rowcount == 1
        again = await client.http.post(f"/v1/sessions/{made['id']}/fork", json={}, headers=once)
        assert again.json()["id"] == fork.json()["id"]
        forked = await client.http.get(f"/v1/sessions/{fork.json()['id']}/files/file")
        assert forked.text == "two\n"
        misled = await client.http.get(f"{files}/file", headers={"Palimpsest-Node": "another"})
        assert (misled.status_code, misled.json()["code"]) == (421, "wrong_host")
        async with Client(cluster.nodes["one"].url) as stranger:
            assert (await stranger.http.get(f"{files}/file")).status_code == 401
        start("two", "worker", **keys)
        cluster.nodes["one"].freeze()
        stored = await client.http.get(f"{files}/sent/there")
        assert "it has lost the session" in cluster.log("a")
        assert stored.text == "uploaded\n"
        assert stored.headers["workspace-as-of"] > made["created_at"]
        events = await client.until_idle(made["id"])
        outputs = [event.data["output"] for event in of_type(events, "tool.result")]
        assert outputs[-1].startswith("two\nuploaded\n")
