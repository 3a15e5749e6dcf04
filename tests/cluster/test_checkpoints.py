"""Checkpoints of sessions whose workers are on machines of their own: whatever becomes of a worker, what it has taken
can be compared and restored."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

from tests.behavior.checks import assert_sound
from tests.behavior.harness import Client, command, of_type
from tests.behavior.test_changes import checkpoints, patch, restore
from tests.cluster.rig import Cluster
from tests.cluster.test_workspaces import Start, start
from tests.provider import FakeProvider, Gate, Reply, Text

__all__ = ["start"]


async def changed(client: Client, session_id: str, *, of_snapshot: bool = False, **query: str) -> dict[str, Any]:
    """What has changed, by path: as it is now, or in the newest snapshot."""
    answer = await client.http.get(f"/v1/sessions/{session_id}/changes", params=query)
    assert answer.status_code == 200, answer.text
    assert ("workspace-as-of" in answer.headers) == (answer.json()["as_of"] is not None) == of_snapshot
    return {item["path"]: item["status"] for item in answer.json()["items"]}


def in_store(store: Path, session_id: str) -> list[Path]:
    return [path for path in store.rglob(f"{session_id}/**/*") if path.is_file()]


async def held(client: Client, provider: FakeProvider) -> str:
    """A session with a run that has ended, and one in the middle of a step, whose changes so far are stored."""
    provider.script(
        Reply(command("echo one > file; echo kept > kept; echo '*.log' > .gitignore; touch a.log")),
        Reply(Text("Done.")),
        Reply(command("echo two > file; rm kept")),
        Reply(Text("half"), Gate("held"), Text("never")),
        Reply(Text("Done.")),
        Reply(command("cat file kept")),
        Reply(Text("Done.")),
    )
    session_id: str = (await client.create())["id"]
    await client.say(session_id, "Begin.")
    await client.post(session_id, "Go on.")
    await provider.reached("held")
    assert (await client.http.put(f"/v1/sessions/{session_id}/files/put", content=b"put\n")).status_code == 201
    return session_id


async def test_checkpoints_outlive_the_worker_that_took_them(
    cluster: Cluster, provider: FakeProvider, start: Start, tmp_path: Path
) -> None:
    start("one", "worker")
    async with Client(start("a", "api")) as client, Client(start("b", "api")) as other:
        session_id = await held(client, provider)
        empty, ended, again = await checkpoints(client, session_id)
        both = {"file": "modified", "kept": "deleted", "put": "added"}
        assert await changed(client, session_id, **{"from": ended["id"]}) == both
        start("two", "worker")
        cluster.nodes["one"].end(signal.SIGKILL)
        events = await client.until_idle(session_id)
        assert of_type(events, "session.recovered")
        assert "run_started" in cluster.log("two")

        taken = await checkpoints(other, session_id)
        assert taken[:3] == [empty, ended, again]
        assert [(c["run"], c["reason"]) for c in taken[2:]] == [(2, "run_started"), (2, "run_ended")]
        assert await changed(other, session_id, **{"from": again["id"]}) == both
        assert await changed(other, session_id, **{"from": empty["id"], "to": ended["id"]}) == {
            ".gitignore": "added",
            "file": "added",
            "kept": "added",
        }
        assert b"\n-one\n+two\n" in await patch(other, session_id, **{"from": ended["id"]})
        listed = await other.get(f"/v1/sessions/{session_id}/checkpoints")
        assert [item["path"] for item in listed["not_covered"]["items"]] == ["a.log"]

        result = await restore(other, session_id, ended["id"])
        assert result["saved"]["reason"] == "before_restore"
        assert await changed(other, session_id, **{"from": ended["id"]}) == {}
        assert await changed(client, session_id, of_snapshot=True, **{"from": ended["id"]}) == {}
        run = await client.say(session_id, "Look.", after=events[-1].id)
        assert of_type(run, "tool.result")[0].data["output"].startswith("one\nkept\n")
        await assert_sound(client, session_id)
        await assert_forks_have_them(client, other, session_id, tmp_path / "store")


async def assert_forks_have_them(client: Client, other: Client, session_id: str, store: Path) -> None:
    """A fork can restore its parent's checkpoints when the parent and what it had in the store are gone."""
    taken = await checkpoints(client, session_id)
    fork = (await client.http.post(f"/v1/sessions/{session_id}/fork", json={})).json()["id"]
    assert (await other.http.delete(f"/v1/sessions/{session_id}")).status_code == 204
    assert in_store(store, session_id) == []
    assert await checkpoints(other, fork) == taken
    await restore(other, fork, taken[3]["id"])
    assert (await client.http.get(f"/v1/sessions/{fork}/files/put")).text == "put\n"
